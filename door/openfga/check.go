package openfga

import (
	"context"
	"errors"
	"slices"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door/openfga/wire"
	"github.com/ostiary/ostiary/expr"
)

// check answers one question. It keeps nothing of the request.
func (s *service) check(ctx context.Context, c *call, in *wire.CheckRequest) (allowed bool, err error) {
	if err := checkForm(in); err != nil {
		return false, err
	}
	p, err := s.open(ctx, c, in.StoreID, in.ModelID, in.Consistency)
	if err != nil {
		return false, err
	}
	q, err := p.question(&in.Key, in.Tuples, in.Context)
	if err != nil {
		return false, err
	}
	res, err := p.store.Check(ctx, q)
	if err != nil {
		return false, revisionError(err)
	}
	if err := c.answered(ctx, p.store, res.Revision); err != nil {
		return false, err
	}
	return res.Allowed(), undecided(res.Reasons)
}

// question translates a check. Its errors are the protocol's.
func (p *place) question(key *wire.Key, tuples []wire.Tuple, context expr.Values) (q ostiary.CheckRequest, err error) {
	k, err := question(p.schema, key)
	if err != nil {
		return q, fail(codeValidation, "invalid relation: %v", err)
	}
	if err := printable(context); err != nil {
		return q, fail(codeValidation, "invalid context: %v", err)
	}
	ask, err := p.ask(context, tuples)
	if err != nil {
		var e *invalid
		if errors.As(err, &e) {
			return q, fail(codeInvalidTuple, "%v", err) // whatever is wrong with it
		}
		return q, fromEngine(err)
	}
	return ostiary.CheckRequest{Object: k.Object, Relation: k.Relation, Subject: k.Subject, QueryOptions: ask}, nil
}

// outcome is the answer to one item of a batch.
type outcome struct {
	correlation string
	allowed     bool
	err         *failure
}

// many is a batch under way, in memory that the next one uses again. Its
// answers are valid until it is freed.
type many struct {
	outcomes []outcome
	requests []ostiary.CheckRequest
	places   []int // of each request in outcomes
	seen     map[string]struct{}
}

func (s *service) many() *many {
	if m, ok := s.batches.Get().(*many); ok {
		return m
	}
	return &many{seen: map[string]struct{}{}}
}

// free keeps a batch's memory, but nothing of the request.
func (s *service) free(m *many) {
	if cap(m.outcomes) > checksKeptMax {
		return
	}
	clear(m.outcomes)
	clear(m.requests)
	clear(m.seen)
	m.outcomes, m.requests, m.places = m.outcomes[:0], m.requests[:0], m.places[:0]
	s.batches.Put(m)
}

// batchCheck answers many questions at one revision, in their order. An
// item's own error fails no other.
func (s *service) batchCheck(ctx context.Context, c *call, in *wire.BatchCheckRequest, m *many) error {
	if err := batchForm(in); err != nil {
		return err
	}
	p, err := s.open(ctx, c, in.StoreID, in.ModelID, in.Consistency)
	if err != nil {
		return err
	}
	if n := len(in.Checks); n > s.o.BatchChecks {
		return fail(codeValidation, "batchCheck received %d checks, the maximum allowed is %d ", n, s.o.BatchChecks)
	}
	m.requests = slices.Grow(m.requests, len(in.Checks))
	m.outcomes = slices.Grow(m.outcomes, len(in.Checks))[:len(in.Checks)]
	for i := range in.Checks {
		item, o := &in.Checks[i], &m.outcomes[i]
		if m.seen[item.CorrelationID] = struct{}{}; len(m.seen) == i {
			return fail(codeValidation, "received duplicate correlation id: %s", item.CorrelationID)
		}
		o.correlation = item.CorrelationID
		q, err := p.question(&item.Key, item.Tuples, item.Context)
		if err != nil {
			o.err = toFailure(err)
			continue
		}
		q.Consistency = ostiary.Consistency{} // that of the whole
		m.requests, m.places = append(m.requests, q), append(m.places, i)
	}
	return p.decide(ctx, m)
}

func (p *place) decide(ctx context.Context, m *many) error {
	results, err := p.store.CheckBatch(ctx, m.requests, p.at)
	if err != nil {
		return revisionError(err)
	}
	for i := range results {
		r, o := &results[i], &m.outcomes[m.places[i]]
		o.allowed = r.Allowed()
		if r.Err != nil {
			o.err = toFailure(r.Err)
			_ = p.service.report(o.err)
		} else if err := undecided(r.Reasons); err != nil {
			o.err = toFailure(err)
		}
	}
	if len(results) > 0 {
		return p.call.answered(ctx, p.store, results[0].Revision)
	}
	return nil
}

// input says whether an item's error is the asker's fault, and its number.
func (f *failure) input() (number int32, ok bool) {
	n := f.number()
	return n, n < 4000 || n >= 5000
}
