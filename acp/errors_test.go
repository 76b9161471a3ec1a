package acp_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/acp"
	"github.com/ostiary/ostiary/authz"
)

// TestCanceledKind makes calls with a context that has ended. A call that notices it
// fails with ErrCanceled, not with ErrInternal.
func TestCanceledKind(t *testing.T) {
	t.Parallel()
	e := open(t, acp.Options{})
	id := must(e.AddPolicy(context.Background(), alice, notes))(t)
	must(0, e.Register(context.Background(), alice, doc(id, "1")))(t)
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	late, cancel := context.WithDeadline(context.Background(), time.Unix(0, 0))
	defer cancel()
	for _, ctx := range []context.Context{canceled, late} {
		failures := 0
		for call, err := range map[string]error{
			"register":     e.Register(ctx, alice, doc(id, "2")),
			"add policy":   second(e.AddPolicy(ctx, alice, notes)),
			"add nonsense": second(e.AddPolicy(ctx, alice, "[")),
			"check":        second(e.Check(ctx, bob, "read", doc(id, "1"))),
			"check many":   second(e.CheckMany(ctx, bob, "read", id, "note", []string{"1"})),
			"archive":      second(e.Archive(ctx, alice, doc(id, "1"))),
			"theorem":      second(e.EvaluateTheorem(ctx, id, "Authorizations {} Delegations {}")),
		} {
			if err == nil {
				continue
			}
			failures++
			if errors.Is(err, acp.ErrInternal) || !errors.Is(err, acp.ErrCanceled) || !errors.Is(err, ctx.Err()) {
				t.Errorf("%s: error is %v, want ErrCanceled with %v", call, err, ctx.Err())
			}
		}
		if failures < 4 {
			t.Errorf("only %d calls notice that the context has ended", failures)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// TestErrorsHideTheStore makes calls on a store that was deleted, and on one that
// fails. No error text contains the store's id.
func TestErrorsHideTheStore(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	engine := must(ostiary.Open(ctx, ostiary.Options{Bounds: authz.Bounds{WriteTuples: 2}}))(t)
	defer engine.Close()
	e := open(t, acp.Options{Engine: engine})
	id := must(e.AddPolicy(ctx, alice, notes))(t)
	must(0, e.Register(ctx, alice, doc(id, "1")))(t)
	store := must(e.Store())(t).ID().String()
	check := func(when string, errs ...error) {
		t.Helper()
		for i, err := range errs {
			if err == nil || strings.Contains(err.Error(), store) {
				t.Errorf("%s, call %d: error is %v, want one without %s", when, i, err, store)
			}
		}
	}
	b := e.Batch()
	for _, n := range []string{"2", "3", "4"} {
		b.Register(alice, doc(id, n))
	}
	err := b.Commit(ctx)
	wantKind(t, err, acp.ErrBound)
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	check("before", err, e.Register(canceled, alice, doc(id, "2")), second(e.AddPolicy(canceled, alice, notes)))
	must(0, engine.DeleteStore(ctx, must(e.Store())(t).ID()))(t)
	b = e.Batch()
	b.Relate(alice, acp.Relationship{Object: doc(id, "1"), Relation: "reader", Subject: acp.ActorSubject(bob)})
	b.Register(alice, doc(id, "2"))
	check("after the deletion", e.Register(ctx, alice, doc(id, "2")), second(e.Check(ctx, bob, "read", doc(id, "1"))),
		second(e.CheckMany(ctx, bob, "read", id, "note", []string{"1"})),
		second(e.Registration(ctx, doc(id, "1"))), b.Commit(ctx))
}

// TestCatalogueBound reads a catalogue at the bound and one above.
func TestCatalogueBound(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	e := open(t, acp.Options{BatchMax: 3})
	id := must(e.AddPolicy(ctx, alice, notes))(t)
	must(0, e.Register(ctx, alice, doc(id, "1")))(t)
	must(e.Relate(ctx, alice, doc(id, "1"), "reader", bob))(t)
	c := must(e.Catalogue(ctx, id))(t)
	if got := c.Resources["note"].Objects; !slices.Equal(got, []string{"1"}) || len(c.Actors) != 2 {
		t.Errorf("catalogue has objects %q and actors %q, want one and two", got, c.Actors)
	}
	must(0, e.Register(ctx, alice, doc(id, "2")))(t)
	_, err := e.Catalogue(ctx, id)
	wantKind(t, err, acp.ErrBound)
	if err == nil || !strings.Contains(err.Error(), "BatchMax") {
		t.Errorf("error %v does not name BatchMax", err)
	}
}
