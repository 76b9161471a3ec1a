package eval

import (
	"context"
	"testing"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
)

// TestExpandIsCheck derives membership from the complete trees of random
// worlds and compares it with check.
func TestExpandIsCheck(t *testing.T) {
	t.Parallel()
	counts := [3]int{}
	for seed := range uint64(listWorlds) {
		w := newSmallWorld(t, seed)
		if w == nil || w.b.s.Options.MissingContextFails {
			continue
		}
		w.env.Bounds.Depth = 1000 // trees do not count hops
		for _, r := range w.askedRelations() {
			o := w.object(w.b.s.Types[r.Type].Name)
			tree, err := w.b.Expand(context.Background(), w.view, o, r.Name, 1<<20, w.env)
			if err != nil || tree.Bound != "" {
				t.Fatal(err, tree.Bound)
			}
			level, err := w.b.Expand(context.Background(), w.view, o, r.Name, 1, w.env)
			if err != nil {
				t.Fatal(err)
			}
			for _, sub := range w.subjectsAsked() {
				want := w.check(t, o, r.Name, sub)
				counts[want]++
				if got := tree.Member(sub); got != want {
					t.Fatalf("seed %d: %v#%s: %v: got %v from the tree, check returns %v", seed, o, r.Name, sub, got, want)
				}
				if got := level.Member(sub); got != want && got != expr.Unknown {
					t.Fatalf("seed %d: %v#%s: %v: got %v from one level, check returns %v", seed, o, r.Name, sub, got, want)
				}
			}
		}
	}
	for truth, n := range counts {
		if n < listWorlds/2 {
			t.Errorf("only %d answers are %v", n, expr.Tristate(truth))
		}
	}
}

// TestExpandBound expects a tree to be cut exactly at its bound on nodes.
func TestExpandBound(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		if w := newSmallWorld(t, seed); w != nil && !w.b.s.Options.MissingContextFails {
			w.env.Bounds.Depth = 1000
			w.expandBound(t)
		}
	}
}

func (w *smallWorld) expandBound(t *testing.T) {
	for _, r := range w.askedRelations() {
		o := w.object(w.b.s.Types[r.Type].Name)
		nodes := 1
		for ; ; nodes++ {
			w.env.Bounds.Nodes = nodes
			tree, err := w.b.Expand(context.Background(), w.view, o, r.Name, 1<<20, w.env)
			if err != nil {
				t.Fatal(err)
			}
			if tree.Bound == "" {
				break
			}
			if tree.Bound != authz.BoundNodes || nodes > 1000 {
				t.Fatalf("%v#%s: bound %q at %d nodes", o, r.Name, tree.Bound, nodes)
			}
			for _, sub := range w.subjectsAsked() {
				w.env.Bounds.Nodes = 0
				if got, want := tree.Member(sub), w.check(t, o, r.Name, sub); got != want && got != expr.Unknown {
					t.Errorf("%v#%s: %v: got %v from a tree cut at %d nodes, check returns %v", o, r.Name, sub, got, nodes, want)
				}
			}
		}
	}
}
