package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door/openfga/language"
	"github.com/ostiary/ostiary/rel"
)

// Embedded is a [Target] that calls the library in this process.
type Embedded struct {
	engine *ostiary.Engine
	store  *ostiary.Store
}

// NewEmbedded returns a target for e. The caller closes e.
func NewEmbedded(e *ostiary.Engine) *Embedded { return &Embedded{engine: e} }

// Door returns "embedded".
func (*Embedded) Door() string { return "embedded" }

// Setup fills the target's engine, see [Fill].
func (t *Embedded) Setup(ctx context.Context, model string, tuples Tuples, progress func(int)) error {
	s, err := Fill(ctx, t.engine, model, tuples, progress)
	t.store = s
	return err
}

// Fill creates a store with a model, in OpenFGA's language, and tuples. It uses
// the library, which is the fastest way, and can fill a folder before a server
// opens it. progress gets the number of tuples written so far. If a later step than
// the creation fails, Fill returns the store with the error.
func Fill(ctx context.Context, e *ostiary.Engine, model string, tuples Tuples, progress func(int)) (*ostiary.Store, error) {
	m, source, err := language.ParseDSL([]byte(model))
	if err != nil {
		return nil, err
	}
	s, err := e.CreateStore(ctx, ostiary.CreateStoreRequest{Name: storeName})
	if err != nil {
		return nil, err
	}
	if _, _, err = s.WriteSchema(ctx, authz.SchemaSource{Model: m, Dialect: language.Dialect, Source: source}); err != nil {
		return s, err
	}
	all := func(yield func(rel.Tuple, error) bool) {
		tuples(func(t rel.Tuple) bool { return yield(t, nil) })
	}
	_, err = s.Import(ctx, all, authz.ImportOptions{Progress: progress})
	return s, err
}

// Prepare returns r as a request of the library.
func (t *Embedded) Prepare(r Request) (Prepared, error) {
	switch {
	case r.Check != nil:
		return &embeddedCheck{t.store, r.Check.request(), r.Check.Allowed}, nil
	case r.Batch != nil:
		p := &embeddedBatch{store: t.store, allowed: allowedOf(r.Batch)}
		for i := range r.Batch {
			c := &r.Batch[i]
			p.requests = append(p.requests, authz.CheckRequest{Object: c.Object, Relation: c.Relation, Subject: c.Subject})
		}
		return p, nil
	case r.List != nil:
		l := r.List
		return &embeddedList{t.store, authz.ListObjectsRequest{Type: l.Type, Relation: l.Relation, Subject: l.Subject, QueryOptions: authz.QueryOptions{Tuples: l.Tuples}}, l.Count}, nil
	case r.Write != nil || r.Remove != nil:
		p := &embeddedWrite{store: t.store, write: authz.WriteRequest{Add: r.Write}}
		for i := range r.Remove {
			p.write.Remove = append(p.write.Remove, r.Remove[i].Key())
		}
		return p, nil
	}
	return nil, errors.New("bench: empty request")
}

func (c *Check) request() authz.CheckRequest {
	return authz.CheckRequest{Object: c.Object, Relation: c.Relation, Subject: c.Subject, QueryOptions: authz.QueryOptions{Context: c.Context, Tuples: c.Tuples}}
}

func allowedOf(checks []Check) int {
	n := 0
	for i := range checks {
		if checks[i].Allowed {
			n++
		}
	}
	return n
}

// Teardown deletes the store.
func (t *Embedded) Teardown(ctx context.Context) error {
	if t.store == nil {
		return nil
	}
	return t.engine.DeleteStore(ctx, t.store.ID())
}

// Close does nothing.
func (*Embedded) Close() error { return nil }

type embeddedCheck struct {
	store   *ostiary.Store
	request authz.CheckRequest
	allowed bool
}

func (p *embeddedCheck) Send(ctx context.Context, _ int) error {
	r, err := p.store.Check(ctx, p.request)
	if err != nil {
		return failure(err)
	}
	return correct(r.Allowed() == p.allowed)
}

type embeddedBatch struct {
	store    *ostiary.Store
	requests []authz.CheckRequest
	allowed  int
}

func (p *embeddedBatch) Send(ctx context.Context, _ int) error {
	results, err := p.store.CheckBatch(ctx, p.requests, authz.Acknowledged())
	if err != nil {
		return failure(err)
	}
	n := 0
	for i := range results {
		if results[i].Allowed() {
			n++
		}
	}
	return correct(n == p.allowed)
}

type embeddedList struct {
	store   *ostiary.Store
	request authz.ListObjectsRequest
	count   int
}

func (p *embeddedList) Send(ctx context.Context, _ int) error {
	list, err := p.store.ListObjects(ctx, p.request)
	if err != nil {
		return failure(err)
	}
	return correct(p.count < 0 || len(list.IDs) == p.count)
}

type embeddedWrite struct {
	store *ostiary.Store
	write authz.WriteRequest
}

func (p *embeddedWrite) Send(ctx context.Context, _ int) error {
	if _, err := p.store.Write(ctx, p.write); err != nil {
		return failure(err)
	}
	return nil
}

// failure returns a [Failure] that is named by the kind of the library's error.
func failure(err error) error {
	var own *authz.Error
	if errors.As(err, &own) {
		return &Failure{What: fmt.Sprint(own.Kind), Err: err}
	}
	return &Failure{What: nameOf(err), Err: err}
}

// Nothing is a [Target] in this process that does no work. Measuring it gives the
// cost of the load generator itself.
type Nothing struct{}

// Door returns "embedded".
func (Nothing) Door() string { return "embedded" }

// Setup does nothing.
func (Nothing) Setup(context.Context, string, Tuples, func(int)) error { return nil }

// Prepare returns a request that succeeds at once.
func (Nothing) Prepare(Request) (Prepared, error) { return Nothing{}, nil }

// Teardown does nothing.
func (Nothing) Teardown(context.Context) error { return nil }

// Close does nothing.
func (Nothing) Close() error { return nil }

// Send returns nil.
func (Nothing) Send(context.Context, int) error { return nil }
