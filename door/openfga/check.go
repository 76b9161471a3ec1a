package openfga

import (
	"slices"
	"strings"

	"github.com/ostiary/ostiary/schema"
)

// check refuses what the original's server refuses and schema.Compile does
// not: relations that are each other through computed relations alone, and
// unions or intersections of one operand.
func (t *translation) check() {
	for i := range t.out.Types {
		typ := &t.out.Types[i]
		computed := map[string][]string{}
		for j := range typ.Relations {
			r := &typ.Relations[j]
			t.typ, t.relation = typ.Name, r.Name
			// Of a nested one the original sees the number only where it happens to
			// look for an entrypoint there.
			if op := r.Rewrite.Op; (op == schema.OpUnion || op == schema.OpIntersection) && len(r.Rewrite.Children) < 2 {
				t.fail(ErrRewrite, "%s of less than 2 operands", op)
			}
			computed[r.Name] = computedOf(&r.Rewrite, nil)
		}
		t.relation = ""
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
