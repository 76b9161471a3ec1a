package acp_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/ostiary/ostiary/acp"
	"github.com/ostiary/ostiary/internal/workshop/wait"
	"github.com/ostiary/ostiary/storage/memory"
)

// twoText is a policy with a relation, and another one if more is not "".
func twoText(more string) string {
	if more != "" {
		more = "\n      " + more + ":\n        types:\n          - actor"
	}
	return `name: two
resources:
  note:
    permissions:
      read:
        expr: owner + reader
      update:
        expr: owner
    relations:
      owner:
        types:
          - actor
      reader:
        types:
          - actor` + more + `
actor:
  name: actor
`
}

// TestTwoEngines changes policies through one engine and uses them through another one
// on the same driver, in turns.
func TestTwoEngines(t *testing.T) {
	t.Parallel()
	driver := memory.New()
	defer driver.Close()
	ctx := t.Context()
	var engines [2]*acp.Engine
	var starts sync.WaitGroup
	for i := range engines {
		starts.Go(func() {
			e, err := acp.Open(ctx, acp.Options{Driver: driver})
			if err != nil {
				t.Error(err)
				return
			}
			engines[i] = e
			t.Cleanup(func() { e.Close() })
		})
	}
	starts.Wait()
	if t.Failed() {
		return
	}
	for i := range 4 {
		a, b := engines[i%2], engines[1-i%2]
		id := must(a.AddPolicy(ctx, alice, twoText("")))(t)
		object := acp.Object{Policy: id, Resource: "note", ID: "1"}
		wait.Until(t, "the policy", func() bool { return b.Register(ctx, alice, object) == nil })
		if _, err := b.Relate(ctx, alice, object, "writer", bob); !errors.Is(err, acp.ErrRelationNotFound) {
			t.Errorf("a relation that the policy lacks: %v", err)
		}
		if _, err := a.EditPolicy(ctx, alice, id, acp.PolicySource{Text: twoText("writer")}); err != nil {
			t.Fatal(err)
		}
		wait.Until(t, "the edited policy", func() bool { _, err := b.Relate(ctx, alice, object, "writer", bob); return err == nil })
		if removed := must(b.EditPolicy(ctx, alice, id, acp.PolicySource{Text: twoText("")}))(t); removed != 1 {
			t.Errorf("%d relationships were removed with their relation, want 1", removed)
		}
		wait.Until(t, "the policy, edited again", func() bool {
			_, err := a.Relate(ctx, alice, object, "writer", bob)
			return errors.Is(err, acp.ErrRelationNotFound)
		})
		if err := a.EditPolicyMetadata(ctx, alice, id, map[string]string{"k": "v"}); err != nil {
			t.Fatal(err)
		}
		wait.Until(t, "the metadata", func() bool { p, err := b.Policy(ctx, id); return err == nil && p.Metadata["k"] == "v" })
		if err := a.DeletePolicy(ctx, alice, id); err != nil {
			t.Fatal(err)
		}
		wait.Until(t, "the deletion", func() bool { _, err := b.Policy(ctx, id); return errors.Is(err, acp.ErrPolicyNotFound) })
		wait.Until(t, "the deletion in a decision", func() bool {
			_, err := b.Relate(ctx, alice, object, "reader", bob)
			return errors.Is(err, acp.ErrPolicyNotFound)
		})
	}
}

// TestTwoEnginesCount creates policies on two engines at once. Each has a number of its
// own, and so an id, and all are there.
func TestTwoEnginesCount(t *testing.T) {
	t.Parallel()
	driver := memory.New()
	defer driver.Close()
	ctx := t.Context()
	engines := []*acp.Engine{open(t, acp.Options{Driver: driver}), open(t, acp.Options{Driver: driver})}
	const each = 20
	var mu sync.Mutex
	ids := map[string]int{}
	var ends sync.WaitGroup
	for _, e := range engines {
		ends.Go(func() {
			for i := range each {
				if i%5 == 0 { // a refused text consumes a number, too
					if _, err := e.AddPolicy(ctx, alice, strings.Replace(twoText(""), "owner + reader", "nothing", 1)); err == nil {
						t.Error("a policy with an unknown relation is accepted")
					}
				}
				id, err := e.AddPolicy(ctx, alice, twoText(""))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				ids[id]++
				mu.Unlock()
			}
		})
	}
	ends.Wait()
	if len(ids) != 2*each {
		t.Errorf("%d ids of %d policies", len(ids), 2*each)
	}
	for i, e := range engines {
		wait.Until(t, fmt.Sprint("all policies on engine ", i), func() bool {
			n := 0
			for _, err := range e.Policies(ctx) {
				if err != nil {
					t.Fatal(err)
				}
				n++
			}
			return n == 2*each
		})
	}
}

// TestResetByAnother: a collection that one engine resets is empty for the others, and
// all of them go on with the one that followed.
func TestResetByAnother(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	driver := memory.New()
	one, two := open(t, acp.Options{Driver: driver}), open(t, acp.Options{Driver: driver})
	id := must(one.AddPolicy(ctx, alice, notes))(t)
	must(two.Policy(ctx, id))(t)
	must(0, two.Register(ctx, alice, doc(id, "1")))(t)
	for round := range 3 {
		must(0, one.ResetState(ctx))(t)
		_, err := two.Check(ctx, alice, "read", doc(id, "1"))
		wantKind(t, err, acp.ErrPolicyNotFound)
		for _, err := range two.Policies(ctx) {
			t.Errorf("round %d: after a reset there is a policy, error %v", round, err)
		}
		if again := must(two.AddPolicy(ctx, alice, notes))(t); again != id {
			t.Errorf("round %d: the first policy has the id %s, want %s", round, again, id)
		}
		must(0, two.Register(ctx, alice, doc(id, "1")))(t)
		must(one.Policy(ctx, id))(t)
		wantKind(t, one.Register(ctx, bob, doc(id, "1")), acp.ErrRegistered)
		if a, b := must(one.Store())(t), must(two.Store())(t); a.ID() != b.ID() {
			t.Errorf("round %d: the engines use the stores %s and %s", round, a.ID(), b.ID())
		}
		one, two = two, one
	}
	must(0, one.ResetState(ctx))(t)
	must(0, two.ResetState(ctx))(t)
	must(0, two.Close())(t)
	must(0, two.Close())(t)
	_, err := two.Policy(ctx, id)
	wantKind(t, err, acp.ErrClosed)
}
