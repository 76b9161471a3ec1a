//go:build faults

package eval_test

import (
	"context"
	"testing"

	"github.com/ostiary/ostiary/eval"
	"github.com/ostiary/ostiary/internal/fault"
	"github.com/ostiary/ostiary/oracle"
	"github.com/ostiary/ostiary/schema"
)

// Every seeded fault of checks shows within some worlds, in the walk and in
// the equations. Lists have tests of their own.
func TestFaults(t *testing.T) {
	defer fault.Switch(fault.None)
	for f := fault.None + 1; f <= fault.EvalStoredContextLoses; f++ {
		switch f {
		case fault.EvalListUnchecked, fault.EvalListWildcardMissed, fault.EvalContextualMissedInList,
			fault.EvalReverseMissesComputed, fault.EvalReverseMissesArrow:
			continue
		}
		for _, mode := range []eval.Mode{eval.ModeAuto, eval.ModeBackward, eval.ModeSolver} {
			caught := uint64(0)
			for seed := uint64(1); seed <= uint64(*worlds) && caught == 0; seed++ {
				if differs(t, seed, f, mode) {
					caught = seed
				}
			}
			t.Logf("fault %d, mode %d: world %d", f, mode, caught)
			if caught == 0 && (mode != eval.ModeSolver || f != fault.EvalRememberOpenCycle) {
				t.Errorf("fault %d is not caught in mode %d", f, mode)
			}
		}
	}
}

func differs(t *testing.T, seed uint64, f fault.Fault, mode eval.Mode) bool {
	fault.Switch(fault.None)
	w := oracle.Random(seed)
	s, err := schema.Compile(&w.Model, oracle.Conditions{})
	if err != nil {
		return false
	}
	refused := len(admitted(s, w.Contextual)) < len(w.Contextual)
	if f != fault.EvalNoContextualAdmission {
		w.Contextual = admitted(s, w.Contextual)
		refused = false
	}
	o, err := oracle.New(w, oracle.Conditions{})
	if err != nil {
		t.Fatal(err)
	}
	v := viewOf(t, &w)
	fault.Switch(f)
	b, env := eval.Bind(s, v).Force(mode), envOf(&w)
	for _, sub := range oracle.Subjects(seed, &w, 4) {
		table := o.Members(sub)
		for _, q := range questions(s, &w, sub) {
			if q.Object.ID == "nowhere" {
				continue
			}
			a, err := b.Check(context.Background(), v, q, env)
			if (err != nil) != refused || !refused && a.Truth != table.Truth(q.Object, q.Relation) {
				return true
			}
		}
	}
	return false
}
