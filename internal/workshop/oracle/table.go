package oracle

import (
	"slices"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// Table holds the membership of one subject in every relation of every object:
// the well-founded model of the formulas. It consists of a lower set of nodes
// (the subject is certainly a member) and an upper set (it is possibly one).
type Table struct {
	oracle   *Oracle
	reach    reach
	number   map[node]int // index of each node in formulas and sets
	formulas []formula
	// allowed are the nodes that are true by the plain rules, without
	// schema.Options.MissingContextFails. That option never takes an allow back.
	allowed []bool
	// fails is true while the values with MissingContextFails are computed.
	fails bool
	sets  sets
}

// sets are a lower and an upper set of nodes. lower[k] holds the nodes that
// have a proof with at most k hops, up to the bound on depth.
type sets struct {
	lower [][]bool
	upper []bool
}

// Members returns the table for subject u. It covers the objects that the world
// mentions, u's own object, and the extra ones.
func (o *Oracle) Members(u rel.Subject, extra ...rel.Object) *Table {
	t := &Table{oracle: o, reach: o.reach(u), number: map[node]int{}}
	var nodes []node
	for _, x := range append(append([]rel.Object{u.Object()}, o.objects...), extra...) {
		def := o.types[x.Type]
		if def == nil {
			continue
		}
		for _, r := range def.Relations {
			n := node{x, r.Name}
			if _, ok := t.number[n]; !ok {
				t.number[n] = len(nodes)
				nodes = append(nodes, n)
			}
		}
	}
	for _, n := range nodes {
		if n.object == u.Object() && n.relation == u.Relation {
			t.formulas = append(t.formulas, formula{value: expr.True}) // u is a member of itself
			continue
		}
		f := alwaysFalse
		if t.reach.isEvaluated(n.object.Type, n.relation) {
			f = t.formulaOf(o.relation(n.object.Type, n.relation).Rewrite, n.object, n.relation, u)
		}
		t.formulas = append(t.formulas, f)
	}
	t.solve()
	return t
}

// Check answers one question.
func (o *Oracle) Check(q Question) expr.Tristate {
	return o.Members(q.Subject, q.Object).Truth(q.Object, q.Relation)
}

// Truth returns whether the subject is a member of x#relation. The table must
// cover x.
func (t *Table) Truth(x rel.Object, relation string) expr.Tristate {
	n, ok := t.number[node{x, relation}]
	switch {
	case !ok || !t.sets.upper[n]:
		return expr.False
	case t.allowed[n]:
		return expr.True
	}
	return expr.Unknown
}

// solve computes the values by the plain rules and, if the schema has
// MissingContextFails, then those with that option.
func (t *Table) solve() {
	t.fixpoint()
	t.allowed = t.sets.lower[t.oracle.world.Depth]
	if t.oracle.world.Model.Options.MissingContextFails {
		t.fails, t.sets = true, sets{}
		t.fixpoint()
	}
}

// fixpoint computes the alternating fixpoint. At first nothing is certain and
// everything is possible. Each round makes the lower set larger and the upper
// set smaller; it reads negated formulas from the round before.
func (t *Table) fixpoint() {
	for k := 0; k <= t.oracle.world.Depth; k++ {
		t.sets.lower = append(t.sets.lower, make([]bool, len(t.formulas)))
	}
	t.sets.upper = slices.Repeat([]bool{true}, len(t.formulas))
	for {
		next := sets{lower: t.leastLower(t.sets)}
		next.upper = t.leastUpper(sets{next.lower, t.sets.upper})
		same := slices.Equal(next.upper, t.sets.upper) &&
			slices.EqualFunc(next.lower, t.sets.lower, slices.Equal)
		t.sets = next
		if same {
			return
		}
	}
}

// leastLower returns the least lower set for given values of negated formulas.
// It computes one layer after another, and closes each one under what needs no
// further hop.
func (t *Table) leastLower(fixed sets) [][]bool {
	var current sets
	layer := make([]bool, len(t.formulas))
	for k := 0; k <= t.oracle.world.Depth; k++ {
		layer = slices.Clone(layer)
		current.lower = append(current.lower, layer)
		for changed := true; changed; {
			changed = false
			for n := range t.formulas {
				if !layer[n] && t.certain(&t.formulas[n], current, k, fixed) {
					layer[n], changed = true, true
				}
			}
		}
	}
	return current.lower
}

// leastUpper returns the least upper set for given values of negated formulas.
// The bound on depth does not apply: a proof with more hops is possible.
func (t *Table) leastUpper(fixed sets) []bool {
	current := sets{upper: make([]bool, len(t.formulas))}
	for changed := true; changed; {
		changed = false
		for n := range t.formulas {
			if !current.upper[n] && t.possible(&t.formulas[n], current, fixed) {
				current.upper[n], changed = true, true
			}
		}
	}
	return current.upper
}

// certain reports whether f has a proof with at most k hops. Hops under a
// negation are counted from 0.
func (t *Table) certain(f *formula, current sets, k int, fixed sets) bool {
	switch f.op {
	case schema.OpComputed:
		return current.lower[k][f.node]
	case opHop:
		return f.value == expr.True && k > 0 && t.certain(&f.children[0], current, k-1, fixed)
	case schema.OpUnion:
		for i := range f.children {
			if t.certain(&f.children[i], current, k, fixed) {
				return true
			}
		}
		return false
	case schema.OpIntersection:
		for i := range f.children {
			if !t.certain(&f.children[i], current, k, fixed) {
				return false
			}
		}
		return true
	case schema.OpExclusion:
		return t.certain(&f.children[0], current, k, fixed) && !t.possible(&f.children[1], fixed, fixed)
	}
	return f.value == expr.True
}

// possible reports whether f is not refuted.
func (t *Table) possible(f *formula, current, fixed sets) bool {
	switch f.op {
	case schema.OpComputed:
		return current.upper[f.node]
	case opHop:
		if f.value == expr.Unknown && t.fails {
			return true // wherever the tuple leads
		}
		return f.value != expr.False && t.possible(&f.children[0], current, fixed)
	case schema.OpUnion:
		for i := range f.children {
			if t.possible(&f.children[i], current, fixed) {
				return true
			}
		}
		return false
	case schema.OpIntersection:
		for i := range f.children {
			if !t.possible(&f.children[i], current, fixed) {
				return false
			}
		}
		return true
	case schema.OpExclusion:
		return t.possible(&f.children[0], current, fixed) && !t.certain(&f.children[1], fixed, t.oracle.world.Depth, fixed)
	}
	return f.value != expr.False
}
