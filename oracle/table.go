package oracle

import (
	"slices"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// Table holds, for one subject, its membership in every relation of every
// object: the well-founded model of the formulas, as a lower set (certainly a
// member) and an upper set (possibly a member).
type Table struct {
	oracle   *Oracle
	reach    reach
	number   map[node]int
	formulas []formula
	// allowed are the nodes that are true by the plain rules, without
	// schema.Options.MissingContextFails. That option never takes an allow back.
	allowed []bool
	// fails is true while the values with MissingContextFails are computed.
	fails bool
	sets  sets
}

// sets are a lower and an upper set of nodes. The lower one is layered:
// lower[k] holds what is proved with at most k hops, up to the bound on depth.
type sets struct {
	lower [][]bool
	upper []bool
}

// Members asks everything about u. The objects that exist are those that the
// world mentions, u's own and extra.
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
			t.formulas = append(t.formulas, formula{value: expr.True}) // itself
			continue
		}
		f := never
		if t.reach.looksAt(n.object.Type, n.relation) {
			f = t.ground(o.relation(n.object.Type, n.relation).Rewrite, n.object, n.relation, u)
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

// Truth says whether the subject is a member of x#relation. x is one of the
// objects that the table was made for.
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

// solve finds the values by the plain rules, and with MissingContextFails those
// of that option as well.
func (t *Table) solve() {
	t.fixpoint()
	t.allowed = t.sets.lower[t.oracle.world.Depth]
	if t.oracle.world.Model.Options.MissingContextFails {
		t.fails, t.sets = true, sets{}
		t.fixpoint()
	}
}

// fixpoint is the alternating fixpoint. It begins with nothing certain and all
// possible; each round makes the certain larger and the possible smaller, with
// what stands under a negation read from the round before.
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

// leastLower is the least lower set whose negations are read in fixed: layer
// by layer, each closed under what needs no further hop.
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

// leastUpper is the least upper set whose negations are read in fixed. The
// bound on hops does not limit it: what lies beyond is possible.
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

// certain says whether f is proved with at most k hops. Under a negation the
// hops are counted afresh.
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

// possible says whether f is not refuted.
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
