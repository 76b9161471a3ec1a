package enginetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/tool/turns"
	"github.com/ostiary/ostiary/rel"
)

// longCalls are calls that take long on a store with 5,000 tuples, which revisions 2
// to 6 have added.
var longCalls = map[string]func(ctx context.Context, s *ostiary.Store) error{
	"batch": func(ctx context.Context, s *ostiary.Store) error {
		_, err := s.CheckBatch(ctx, many(1000), authz.Consistency{})
		return err
	},
	"page of 1,000 of a read": func(ctx context.Context, s *ostiary.Store) error {
		_, err := s.Read(ctx, authz.ReadRequest{Filter: rel.Filter{SubjectType: "user"}, Limit: 1000})
		return err
	},
	"check at a past revision": func(ctx context.Context, s *ostiary.Store) error {
		r := many(1)[0]
		r.Consistency = authz.AtRevision(2)
		_, err := s.Check(ctx, r)
		return err
	},
	"difference": func(ctx context.Context, s *ostiary.Store) error {
		_, err := s.Difference(ctx, authz.DifferenceRequest{PermissionSelector: authz.PermissionSelector{ObjectType: "document", Relation: "viewer", SubjectType: "user"},
			From: authz.AtRevision(6), To: authz.AtRevision(7)})
		return err
	},
	"what if": func(ctx context.Context, s *ostiary.Store) error {
		r, err := s.WhatIf(ctx, authz.WhatIfRequest{Questions: many(500)})
		if err == nil && r.Partial != "" {
			return ctx.Err()
		}
		return err
	},
	"entitlements": func(ctx context.Context, s *ostiary.Store) error {
		r := authz.EntitlementsRequest{Subject: rel.Subject{Type: "user", ID: "anne"}}
		for _, c := range many(1000) {
			r.Objects = append(r.Objects, c.Object)
		}
		_, err := s.Entitlements(ctx, r)
		return err
	},
}

// many returns checks of n objects.
func many(n int) []authz.CheckRequest {
	out := make([]authz.CheckRequest, n)
	for i := range out {
		out[i] = authz.CheckRequest{Object: rel.Object{Type: "document", ID: fmt.Sprint(i)}, Relation: "viewer", Subject: rel.Subject{Type: "user", ID: "anne"}}
	}
	return out
}

// TestLongCallsTakeTurns makes long calls while other requests have all turns. They
// wait, end with their context, and return their turn at the end. With the turn of
// their own request they do not wait for another one.
func TestLongCallsTakeTurns(t *testing.T) {
	t.Parallel()
	for name, call := range longCalls {
		synctest.Test(t, func(t *testing.T) {
			e, s := openLong(t)
			all := turns.Of(e.ShareTurn)
			n := all.Free()
			var others []*turns.Work
			for range n {
				ctx, other := turns.With(context.Background(), all)
				if err := turns.Hold(ctx); err != nil {
					t.Fatal(err)
				}
				others = append(others, other)
			}
			ctx, cancel := context.WithCancel(t.Context())
			canceled, end := make(chan error, 1), make(chan error, 1)
			go func() { canceled <- call(ctx, s) }()
			synctest.Wait()
			if len(canceled) > 0 {
				t.Fatalf("%s: did not wait for a turn: %v", name, <-canceled)
			}
			cancel()
			if err := <-canceled; !errors.Is(err, context.Canceled) {
				t.Errorf("%s, canceled: %v", name, err)
			}
			go func() { end <- call(t.Context(), s) }()
			synctest.Wait()
			if len(end) > 0 {
				t.Fatalf("%s: did not wait for a turn: %v", name, <-end)
			}
			others[0].End()
			if err := <-end; err != nil || all.Free() != 1 {
				t.Errorf("%s: %v; %d turns are free at the end", name, err, all.Free())
			}
			// The request has the last turn.
			own, work := turns.With(t.Context(), all)
			if err := turns.Hold(own); err != nil || all.Free() != 0 {
				t.Fatal(err, all.Free())
			}
			taken := all.Taken()
			if err := call(own, s); err != nil || all.Taken() != taken {
				t.Errorf("%s, with a turn: %v; %d more turns were taken", name, err, all.Taken()-taken)
			}
			work.End()
			for _, other := range others {
				other.End()
			}
			if all.Free() != n {
				t.Errorf("%s: %d turns are free at the end, want %d", name, all.Free(), n)
			}
		})
	}
}

// openLong returns a store for longCalls.
func openLong(t *testing.T) (*ostiary.Engine, *ostiary.Store) {
	t.Helper()
	e := newEngine(t, ostiary.Options{})
	s := newStore(t, e, documents())
	for i := range 6 {
		var w authz.WriteRequest
		for j := range 1000 {
			w.Add = append(w.Add, rel.Tuple{Object: rel.Object{Type: "document", ID: fmt.Sprint(1000*i + j)}, Relation: "viewer", Subject: rel.Subject{Type: "user", ID: "anne"}})
		}
		if _, err := s.Write(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	return e, s
}

// TestShortCallsTakeNoTurns makes short calls. They need no turn.
func TestShortCallsTakeNoTurns(t *testing.T) {
	t.Parallel()
	e := newEngine(t, ostiary.Options{})
	s := newStore(t, e, documents())
	var w authz.WriteRequest
	for _, r := range many(20) {
		w.Add = append(w.Add, rel.Tuple{Object: r.Object, Relation: r.Relation, Subject: r.Subject})
	}
	if _, err := s.Write(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Check(t.Context(), many(1)[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := s.CheckBatch(t.Context(), many(50), authz.Consistency{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read(t.Context(), authz.ReadRequest{}); err != nil {
		t.Fatal(err)
	}
	if n := turns.Of(e.ShareTurn).Taken(); n != 0 {
		t.Errorf("short calls took %d turns", n)
	}
}

// TestShareTurn holds a turn twice in calls that share it: they take one turn, and
// their end gives it back.
func TestShareTurn(t *testing.T) {
	t.Parallel()
	e, _ := openLong(t)
	all := turns.Of(e.ShareTurn)
	free := all.Free()
	ctx, end := e.ShareTurn(t.Context())
	inner, endInner := e.ShareTurn(ctx)
	for _, c := range []context.Context{ctx, inner} {
		if err := turns.Hold(c); err != nil {
			t.Fatal(err)
		}
	}
	endInner() // the outer request keeps the turn
	if all.Taken() != 1 || all.Free() != free-1 {
		t.Errorf("%d turns taken, %d of %d free: expected one turn for both", all.Taken(), all.Free(), free)
	}
	if end(); all.Free() != free {
		t.Errorf("%d turns of %d are free at the end", all.Free(), free)
	}
}
