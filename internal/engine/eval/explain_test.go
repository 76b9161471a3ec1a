package eval

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
)

const explainWorlds = 50

// TestExplainAgrees explains every question of random worlds. The answer must
// be check's, and a proof must hold step by step.
func TestExplainAgrees(t *testing.T) {
	t.Parallel()
	counts := [3]int{}
	for seed := range uint64(explainWorlds) {
		w := newSmallWorld(t, seed)
		if w == nil {
			continue
		}
		for _, r := range w.askedRelations() {
			for _, sub := range w.subjectsAsked() {
				o := w.object(w.b.s.Types[r.Type].Name)
				counts[w.checkExplanation(t, w.b, authz.Question{Object: o, Relation: r.Name, Subject: sub})]++
				w.checkExplanation(t, w.b.Force(ModeBackward), authz.Question{Object: o, Relation: r.Name, Subject: sub})
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	for truth, n := range counts {
		if n < explainWorlds/2 {
			t.Errorf("only %d answers are %v", n, expr.Tristate(truth))
		}
	}
}

func (w *smallWorld) checkExplanation(t *testing.T, b *Binding, q authz.Question) expr.Tristate {
	t.Helper()
	x, err := b.Explain(context.Background(), w.view, q, w.env, authz.ExplainOptions{FrontierMax: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if want := w.check(t, q.Object, q.Relation, q.Subject); x.Answer.Decision != want {
		t.Errorf("seed %d: %v: got %v, check returns %v", w.seed, q, x.Answer.Decision, want)
	}
	if x.Because == nil || x.LeftOut > 0 || x.Because.Decision != x.Answer.Decision {
		t.Fatalf("seed %d: %v: no explanation: %+v", w.seed, q, x)
	}
	if why := proofFault(x.Because, q, map[string]bool{}); why != "" {
		t.Errorf("seed %d: %v: %s in\n%s", w.seed, q, why, &x)
	}
	sameJSON(t, &x)
	return x.Answer.Decision
}

// lineOf describes a step in one line.
func lineOf(s *authz.Step) string {
	return fmt.Sprint(s.Kind, " ", s.Object, "#", s.Relation, " ", s.Tuple)
}

// proofFault describes what is wrong with a step; "" if nothing is. path holds
// the memberships above the step, which a proof must not use.
func proofFault(s *authz.Step, q authz.Question, path map[string]bool) string {
	switch s.Kind {
	case authz.StepTuple:
		if s.Decision != expr.False && (s.Expired || s.Refused) {
			return lineOf(s) + " decides, but does not count"
		}
		if s.Decision == expr.True && (s.Condition != nil && s.Condition.Decision != expr.True) {
			return lineOf(s) + " decides against its condition"
		}
		named := s.Tuple.Subject == q.Subject || s.Tuple.Subject.IsWildcard() && q.Subject.Relation == "" && s.Tuple.Subject.Type == q.Subject.Type
		if s.Decision == expr.True && len(s.Steps) == 0 && !named {
			return lineOf(s) + " proves nothing"
		}
	case authz.StepItself:
		if q.Subject.Object() != s.Object || q.Subject.Relation != s.Relation {
			return lineOf(s) + " is not so"
		}
	case authz.StepRelation:
		on := s.Object.String() + "#" + s.Relation
		if s.Decision == expr.True && path[on] {
			return on + " is proved by itself"
		}
		path[on] = true
		defer delete(path, on)
	case authz.StepSeen:
		if on := s.Object.String() + "#" + s.Relation; s.Decision == expr.True && path[on] {
			return on + " is proved by itself"
		}
	case authz.StepIntersection:
		if s.Decision == expr.True && len(s.Steps) < 2 {
			return lineOf(s) + " lacks an operand"
		}
	case authz.StepExclusion:
		if s.Decision == expr.True && (len(s.Steps) != 2 || s.Steps[0].Decision != expr.True || s.Steps[1].Decision != expr.False) {
			return lineOf(s) + " is not base without the other"
		}
		if s.Decision == expr.Unknown && !slices.ContainsFunc(s.Steps, func(side *authz.Step) bool { return side.Decision == expr.Unknown }) {
			return lineOf(s) + " is unknown without an unknown side"
		}
	}
	decided := s.Kind != authz.StepExclusion && s.Kind != authz.StepSeen && s.Kind != authz.StepUnreachable && s.Kind != authz.StepTuple &&
		s.Kind != authz.StepAttribute && s.Kind != authz.StepRule && s.Kind != authz.StepItself
	if decided && s.Decision != expr.False && len(s.Steps) == 0 {
		return lineOf(s) + " hangs in the air"
	}
	for _, ch := range s.Steps {
		if decided && ch.Decision != s.Decision {
			return lineOf(ch) + " does not fit under " + lineOf(s)
		}
		below := path
		if s.Kind == authz.StepExclusion && ch.Decision != s.Decision {
			below = map[string]bool{} // a subtracted side has a proof of its own
		}
		if why := proofFault(ch, q, below); why != "" {
			return why
		}
	}
	return ""
}
