package language

import (
	"slices"
	"strings"

	"github.com/ostiary/ostiary/schema"
)

// cycles refuses relations of a type that are defined by each other through
// computed relations alone. OpenFGA's server refuses them; [schema.Compile] does
// not.
//
// OpenFGA also refuses some models for missing entrypoints although they have
// one: if both operands of an intersection or exclusion lead through the same
// relation, OpenFGA treats the second as a loop. These models are accepted here.
func (t *translation) cycles() {
	for i := range t.out.Types {
		typ := &t.out.Types[i]
		computed := map[string][]string{}
		for j := range typ.Relations {
			r := &typ.Relations[j]
			computed[r.Name] = computedOf(&r.Rewrite, nil)
		}
		t.typ, t.relation = typ.Name, ""
		t.cyclesOf(typ, computed)
	}
	t.typ, t.relation = "", ""
}

// computedOf appends the relations that a rewrite computes on the same object.
func computedOf(r *schema.Rewrite, names []string) []string {
	if r.Op == schema.OpComputed {
		return append(names, r.Relation)
	}
	if r.Op == schema.OpArrow {
		return names
	}
	for i := range r.Children {
		names = computedOf(&r.Children[i], names)
	}
	return names
}

// cyclesOf walks depth first with an explicit stack: chains of relations may be
// as long as the model.
func (t *translation) cyclesOf(typ *schema.TypeDef, computed map[string][]string) {
	const open, closed = 1, 2
	state := map[string]int{}
	for i := range typ.Relations {
		path := []string{typ.Relations[i].Name}
		next := []int{0} // for each relation of path, the index of the next one to visit
		for len(path) > 0 {
			name := path[len(path)-1]
			n := &next[len(next)-1]
			if state[name] == closed || *n == len(computed[name]) {
				state[name] = closed
				path, next = path[:len(path)-1], next[:len(next)-1]
				continue
			}
			state[name] = open
			child := computed[name][*n]
			*n++
			switch state[child] {
			case 0:
				path, next = append(path, child), append(next, 0)
			case open:
				t.relation = child
				t.fail(ErrCycle, "%s", strings.Join(append(path[slices.Index(path, child):], child), " -> "))
				return
			}
		}
	}
}
