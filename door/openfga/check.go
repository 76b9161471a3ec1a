package openfga

import (
	"slices"
	"strings"

	"github.com/ostiary/ostiary/schema"
)

// check refuses what the original's server refuses and neither schema.Compile
// nor the translation itself does: relations that are each other through
// computed relations alone.
//
// The original refuses some models besides, as without entrypoint, that have
// one: where both operands of an intersection or exclusion lead through the
// same relation, it takes the second for a loop. They are accepted here.
func (t *translation) check() {
	for i := range t.out.Types {
		typ := &t.out.Types[i]
		computed := map[string][]string{}
		for j := range typ.Relations {
			r := &typ.Relations[j]
			computed[r.Name] = computedOf(&r.Rewrite, nil)
		}
		t.typ, t.relation = typ.Name, ""
		t.cycles(typ, computed)
	}
	t.typ, t.relation = "", ""
}

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

// cycles walks with a stack of its own: chains of relations may be as long as
// the model.
func (t *translation) cycles(typ *schema.TypeDef, computed map[string][]string) {
	const open, closed = 1, 2
	state := map[string]int{}
	for i := range typ.Relations {
		path := []string{typ.Relations[i].Name}
		next := []int{0} // per step of path, which computed relation is next
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
