package openfga

import (
	"context"
	"errors"
	"slices"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door/openfga/internal/wire"
	"github.com/ostiary/ostiary/expr"
)

// check handles Check. It keeps no part of the request.
func (s *service) check(ctx context.Context, c *headers, in *wire.CheckRequest) (allowed bool, err error) {
	if err := validateCheck(in); err != nil {
		return false, err
	}
	p, err := s.open(ctx, c, in.StoreID, in.ModelID, in.Consistency)
	if err != nil {
		return false, err
	}
	q, err := p.checkRequest(&in.Key, in.Tuples, in.Context)
	if err != nil {
		return false, err
	}
	res, err := p.store.Check(ctx, q)
	if err != nil {
		return false, revisionError(err)
	}
	if err := c.setRevision(ctx, p.store, res.Revision); err != nil {
		return false, err
	}
	return res.Allowed(), unknownError(res.Reasons)
}

// checkRequest translates a check. Its errors are of type *failure.
func (p *target) checkRequest(key *wire.Key, tuples []wire.Tuple, context expr.Values) (q authz.CheckRequest, err error) {
	k, err := parseCheckKey(p.schema, key)
	if err != nil {
		return q, failf(codeValidation, "invalid relation: %v", err)
	}
	if err := checkPrintable(context); err != nil {
		return q, failf(codeValidation, "invalid context: %v", err)
	}
	options, err := p.queryOptions(context, tuples)
	if err != nil {
		var e *nameError
		if errors.As(err, &e) {
			return q, failf(codeInvalidTuple, "%v", err) // one code for all errors in a contextual tuple
		}
		return q, translateError(err)
	}
	return authz.CheckRequest{Object: k.Object, Relation: k.Relation, Subject: k.Subject, QueryOptions: options}, nil
}

// batchResult is the result of one item of a batch.
type batchResult struct {
	correlation string
	allowed     bool
	err         *failure
}

// batch holds the requests and results of a batch check. Its memory is reused: the
// results are valid until [service.recycleBatch].
type batch struct {
	results   []batchResult
	requests  []authz.CheckRequest
	positions []int // of each request in results
	seen      map[string]struct{}
}

func (s *service) newBatch() *batch {
	if m, ok := s.batches.Get().(*batch); ok {
		return m
	}
	return &batch{seen: map[string]struct{}{}}
}

// recycleBatch clears a batch and keeps its memory for another one.
func (s *service) recycleBatch(m *batch) {
	if cap(m.results) > checksKeptMax {
		return
	}
	clear(m.results)
	clear(m.requests)
	clear(m.seen)
	m.results, m.requests, m.positions = m.results[:0], m.requests[:0], m.positions[:0]
	s.batches.Put(m)
}

// batchCheck handles BatchCheck. All checks read the same revision, and the results
// have the order of the items. An error of one item does not fail the others.
func (s *service) batchCheck(ctx context.Context, c *headers, in *wire.BatchCheckRequest, m *batch) error {
	if err := validateBatch(in); err != nil {
		return err
	}
	p, err := s.open(ctx, c, in.StoreID, in.ModelID, in.Consistency)
	if err != nil {
		return err
	}
	if n := len(in.Checks); n > s.o.BatchChecks {
		return failf(codeValidation, "batchCheck received %d checks, the maximum allowed is %d ", n, s.o.BatchChecks)
	}
	m.requests = slices.Grow(m.requests, len(in.Checks))
	m.results = slices.Grow(m.results, len(in.Checks))[:len(in.Checks)]
	for i := range in.Checks {
		item, o := &in.Checks[i], &m.results[i]
		if m.seen[item.CorrelationID] = struct{}{}; len(m.seen) == i {
			return failf(codeValidation, "received duplicate correlation id: %s", item.CorrelationID)
		}
		o.correlation = item.CorrelationID
		q, err := p.checkRequest(&item.Key, item.Tuples, item.Context)
		if err != nil {
			o.err = toFailure(err)
			continue
		}
		q.Consistency = authz.Consistency{} // the batch has one for all
		m.requests, m.positions = append(m.requests, q), append(m.positions, i)
	}
	return p.checkBatch(ctx, m)
}

func (p *target) checkBatch(ctx context.Context, m *batch) error {
	results, err := p.store.CheckBatch(ctx, m.requests, p.consistency)
	if err != nil {
		return revisionError(err)
	}
	for i := range results {
		r, o := &results[i], &m.results[m.positions[i]]
		o.allowed = r.Allowed()
		if r.Err != nil {
			o.err = toFailure(r.Err)
			_ = p.service.report(o.err)
		} else if err := unknownError(r.Reasons); err != nil {
			o.err = toFailure(err)
		}
	}
	if len(results) > 0 {
		return p.headers.setRevision(ctx, p.store, results[0].Revision)
	}
	return nil
}

// inputError returns the protocol's number of an error. ok is true if the request
// caused the error, false if it is internal.
func (f *failure) inputError() (number int32, ok bool) {
	n := f.number()
	return n, n < 4000 || n >= 5000
}
