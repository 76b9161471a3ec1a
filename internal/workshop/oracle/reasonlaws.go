package oracle

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/engine/eval"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// explainLaw: an explanation has the decision of the check, its first step has
// the same decision, and its statements about tuples are true.
func explainLaw(b *Bench) *Failure {
	for _, q := range b.Questions {
		x, err := b.binding.Explain(context.Background(), b.graph.View(), authz.Question(q), &b.env, authz.ExplainOptions{})
		if !b.admissible() {
			if !errors.Is(err, eval.ErrTuple) {
				return &Failure{Question: q, Text: fmt.Sprintf("want ErrTuple, got %v", err)}
			}
			continue
		}
		want := b.truth(q)
		text := ""
		switch {
		case err != nil:
			text = err.Error()
		case x.Answer.Decision != want || x.Because == nil || x.Because.Decision != want:
			text = fmt.Sprintf("want %s, got %s because %+v", want, x.Answer.Decision, x.Because)
		case x.Because.Object != q.Object || x.Because.Relation != q.Relation:
			text = fmt.Sprintf("the first step is about %s#%s", x.Because.Object, x.Because.Relation)
		default:
			if text = b.compareReasons(b.Oracle, x.Answer); text == "" {
				text = b.compareStep(x.Because)
			}
		}
		if text != "" {
			return &Failure{Question: q, Text: text}
		}
	}
	return nil
}

// compareStep compares a step and those below it with the oracle's tuples.
func (b *Bench) compareStep(s *authz.Step) string {
	if s.Kind == authz.StepTuple {
		i := slices.IndexFunc(b.Oracle.tuples[node{s.Tuple.Object, s.Tuple.Relation}], func(e edge) bool { return e.subject == s.Tuple.Subject })
		counts := i >= 0
		switch {
		case counts == (s.Expired || s.Refused):
			return fmt.Sprintf("%s counts: %v, but the step has expired %v, refused %v", s.Tuple, counts, s.Expired, s.Refused)
		case !counts && s.Decision != expr.False:
			return fmt.Sprintf("%s does not count, but is %s", s.Tuple, s.Decision)
		case !counts:
			return ""
		}
		holds := b.Oracle.tuples[node{s.Tuple.Object, s.Tuple.Relation}][i].holds
		if s.Condition != nil && s.Condition.Decision != holds || s.Condition == nil && s.Tuple.Condition != "" {
			return fmt.Sprintf("condition of %s: want %s, got %+v", s.Tuple, holds, s.Condition)
		}
		if s.Decision > holds {
			return fmt.Sprintf("%s is %s although its condition is %s", s.Tuple, s.Decision, holds)
		}
	}
	if s.Kind == authz.StepRelation {
		n := node{s.Object, s.Relation}
		if b.Oracle.relation(n.object.Type, n.relation) == nil && s.Relation == "" {
			return "a step without a relation"
		}
	}
	for _, child := range s.Steps {
		if text := b.compareStep(child); text != "" {
			return text
		}
	}
	return ""
}

// expandsMax bounds the trees that are expanded in a world.
const expandsMax = 4

// expandLaw: membership computed from a complete tree equals the oracle's. Both
// ignore the bound on depth, since trees do not count hops. Worlds with
// MissingContextFails are left out, since trees omit tuples that lead nowhere.
func expandLaw(b *Bench) *Failure {
	if !b.admissible() || b.World.Model.Options.MissingContextFails || len(b.World.Stored) > wideMin {
		return nil
	}
	w := b.World
	w.Depth = 1 + len(w.Stored) + len(w.Contextual)
	o, err := New(w, Conditions{})
	if err != nil {
		return &Failure{Text: err.Error()}
	}
	for i, q := range b.Questions {
		if i%max(1, len(b.Questions)/expandsMax) != 0 {
			continue
		}
		tree, err := b.binding.Expand(context.Background(), b.graph.View(), q.Object, q.Relation, 1<<20, &b.env)
		if err != nil || tree.Bound != "" {
			return &Failure{Question: q, Text: fmt.Sprintf("%v, bound %v", err, tree)}
		}
		want := o.Members(q.Subject, q.Object).Truth(q.Object, q.Relation)
		if got := memberByTree(o, tree, q.Subject); got != want {
			return &Failure{Question: q, Text: fmt.Sprintf("want %s, by the tree %s", want, got)}
		}
		if got := tree.Member(q.Subject); got != want {
			return &Failure{Question: q, Text: fmt.Sprintf("want %s, by Member %s", want, got)}
		}
	}
	return nil
}

// memberByTree evaluates a tree in the way that the oracle evaluates a world:
// each relation that is expanded in the tree becomes a formula.
func memberByTree(o *Oracle, tree *authz.Tree, u rel.Subject) expr.Tristate {
	t := &Table{oracle: o, number: map[node]int{}}
	var expanded []*authz.Tree
	eachTree(tree, func(r *authz.Tree) {
		if r.Kind == authz.TreeRelation && len(r.Children) > 0 {
			t.number[node{r.Object, r.Relation}] = len(expanded)
			expanded = append(expanded, r)
		}
	})
	for _, r := range expanded {
		f := formula{value: expr.True} // u is a member of itself
		if u != (rel.Subject{Type: r.Object.Type, ID: r.Object.ID, Relation: r.Relation}) {
			f = t.treeFormula(r.Children[0], u)
		}
		t.formulas = append(t.formulas, f)
	}
	t.solve()
	return t.Truth(tree.Object, tree.Relation)
}

func eachTree(t *authz.Tree, do func(*authz.Tree)) {
	do(t)
	for _, c := range t.Children {
		eachTree(c, do)
	}
	for _, l := range t.Leaves {
		if l.Tree != nil {
			eachTree(l.Tree, do)
		}
	}
}

// treeFormula returns a part of a tree as a formula.
func (t *Table) treeFormula(e *authz.Tree, u rel.Subject) formula {
	f := formula{}
	switch e.Kind {
	case authz.TreeRelation:
		return t.reference(e.Object, e.Relation)
	case authz.TreeAttribute, authz.TreeRule:
		return formula{value: e.Decision}
	case authz.TreeIntersection:
		f.op = schema.OpIntersection
	case authz.TreeExclusion:
		f.op = schema.OpExclusion
	default:
		f.op = schema.OpUnion
	}
	for _, c := range e.Children {
		f.children = append(f.children, t.treeFormula(c, u))
	}
	for _, l := range e.Leaves {
		s := l.Tuple.Subject
		direct := e.Kind == authz.TreeDirect
		if direct && (s == u || l.Wildcard && s.Type == u.Type && u.Relation == "" && !t.oracle.isWildcard(u)) {
			f.children = append(f.children, formula{value: l.Decision})
		} else if l.Tree != nil {
			f.children = append(f.children, formula{op: opHop, value: l.Decision,
				children: []formula{t.reference(l.Tree.Object, l.Tree.Relation)}})
		}
	}
	return f
}
