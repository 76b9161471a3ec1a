package eval

import (
	"math"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
)

// reasons explains why the root of a solved system is unknown. It collects the
// reasons of all unknown conditions and constants that the root reaches
// through unknown gates. If there are none, it solves again without the depth
// bound: if the root is then decided, that bound is the reason, and otherwise
// a cycle through an exclusion is. The solution is not valid afterwards.
func (s *system) reasons() *authz.Reasons {
	why := &authz.Reasons{}
	seen := make([]bool, len(s.gates))
	stack := []int32{s.root()}
	seen[s.root()] = true
	for len(stack) > 0 {
		i := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		g := &s.gates[i]
		mergeReasons(why, g.reasons)
		for a := g.first; a < g.first+g.count; a++ {
			arc := &s.arcs[a]
			if !s.isUnknown(arc) {
				continue
			}
			if arc.cond == expr.Unknown {
				v := s.q.tuple(arc.restriction, arc.from, arc.edge)
				mergeReasons(why, conditionReasons(v.result, v.detail.Condition, s.q.key(arc.from, arc.edge)))
			}
			if s.truth(arc.to) == expr.Unknown && !seen[arc.to] {
				seen[arc.to] = true
				stack = append(stack, arc.to)
			}
		}
	}
	if len(why.Missing) > 0 || len(why.Errors) > 0 || why.Bound != "" {
		return why
	}
	if s.solve(math.MaxInt32) && s.truth(s.root()) != expr.Unknown {
		why.Bound = authz.BoundDepth
	} else {
		why.Cycle = true
	}
	return why
}

// isUnknown reports whether an arc's own value, its condition and its gate
// together, is Unknown.
func (s *system) isUnknown(a *arc) bool {
	t := s.truth(a.to)
	if s.q.b.missingFails && a.cond == expr.Unknown {
		return true
	}
	return min(a.cond, t) == expr.Unknown
}
