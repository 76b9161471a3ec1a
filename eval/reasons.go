package eval

import (
	"math"

	"github.com/ostiary/ostiary/expr"
)

// reasons says why the root of a solved system is unknown: the reasons of
// every unknown condition and value that can be reached from it through
// unknown gates. Where there is none, the depth bound made it unknown if it is
// not so without that bound; else it hangs on its own negation. It solves the
// system again for that, so the solution is not the same afterwards.
func (s *system) reasons() *Reasons {
	why := &Reasons{}
	seen := make([]bool, len(s.gates))
	stack := []int32{s.root()}
	seen[s.root()] = true
	for len(stack) > 0 {
		i := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		g := &s.gates[i]
		why.merge(g.reasons)
		for a := g.first; a < g.first+g.count; a++ {
			arc := &s.arcs[a]
			if !s.doubtful(arc) {
				continue
			}
			if arc.cond == expr.Unknown {
				v := s.q.tuple(arc.restriction, arc.from, arc.edge)
				why.merge(conditionReasons(v.result, v.detail.Condition, s.q.key(arc.from, arc.edge)))
			}
			if s.truth(arc.to) == expr.Unknown && !seen[arc.to] {
				seen[arc.to] = true
				stack = append(stack, arc.to)
			}
		}
	}
	if len(why.Missing) > 0 || len(why.Errors) > 0 {
		return why
	}
	if s.solve(math.MaxInt32) && s.truth(s.root()) != expr.Unknown {
		why.Bound = BoundDepth
	} else {
		why.Cycle = true
	}
	return why
}

// doubtful says whether an arc's own value, its condition and its gate
// together, is unknown.
func (s *system) doubtful(a *arc) bool {
	t := s.truth(a.to)
	if s.q.b.fails && a.cond == expr.Unknown {
		return true
	}
	return min(a.cond, t) == expr.Unknown
}
