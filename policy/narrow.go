package policy

import (
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"

	"github.com/ostiary/ostiary/policy/status"
)

// Narrowed is a plan for requests that differ in one category only. It decides
// them like the full plan, but tries only the policies that can apply with the
// known attributes. It is immutable, and may decide concurrently.
type Narrowed struct {
	plan    *Plan
	known   *Request
	unknown string
	options Options
}

// Narrow evaluates everything that does not depend on one category: known is a
// request without that category, and unknown is its name. It tries every policy
// once, so it saves time if many requests follow, for example when a search asks
// the same question about many resources. All of them get the same instant from
// o.Now. The Trace of o is not used.
//
// It fails if known has the category, a category twice, references, or asks for a
// combined decision. It also fails if a bound is reached or the context ends; the
// error is of type *[status.Error].
func (p *Plan) Narrow(ctx context.Context, known *Request, unknown string, o Options) (*Narrowed, error) {
	if err := checkKnown(known, unknown); err != nil {
		return nil, err
	}
	if o.Now != nil {
		o.Now = sync.OnceValue(o.Now)
	}
	o.Trace = nil
	r := p.start(ctx, known, o)
	defer r.finish()
	for i := range known.Categories {
		r.categories = append(r.categories, &known.Categories[i])
	}
	r.single = known
	r.fill()
	n := narrower{run: r, unknown: unknown, seed: p.slots.seed, done: map[*node]*node{}}
	narrowed := *p
	narrowed.root = n.node(p.root)
	if r.aborted != nil {
		return nil, r.aborted
	}
	return &Narrowed{&narrowed, known, unknown, o}, nil
}

// checkKnown checks that a request asks for one decision and lacks a category.
func checkKnown(known *Request, unknown string) error {
	problem := ""
	switch {
	case len(known.References) > 0 || repeated(known.Categories):
		problem = "asks for several decisions"
	case known.Combined:
		problem = "asks for a combined decision"
	case slices.ContainsFunc(known.Categories, func(c Category) bool { return c.Name == unknown }):
		problem = "has the unknown category " + quote(unknown)
	default:
		return nil
	}
	return &status.Error{Code: status.SyntaxError, Message: fmt.Sprintf("the request %s: expected one decision that lacks a category", problem)}
}

// Decide returns the decision on the known request with the attributes, which are
// in the category that was unknown. It is what [Plan.Decide] returns for a
// request with that category at the end, as long as no bound on steps is reached.
func (n *Narrowed) Decide(ctx context.Context, attributes []Attribute) Result {
	request := *n.known
	request.Categories = append(slices.Clip(request.Categories), Category{Name: n.unknown, Attributes: attributes})
	var one [1]Result
	return n.plan.AppendDecisions(ctx, one[:0], &request, n.options)[0]
}

// narrower leaves out of a tree what cannot apply. A part is known if its value
// depends on known attributes only.
type narrower struct {
	*run
	unknown string
	seed    maphash.Seed
	done    map[*node]*node // narrowed nodes, which several references may share
	// variables has whether each variable of the policy is known, once that was
	// asked: 1 if it is, -1 if not.
	variables []int8
}

// node returns the narrowed form of a node: the node itself if nothing can be
// left out.
func (n *narrower) node(old *node) *node {
	if out, ok := n.done[old]; ok {
		return out
	}
	out := *old
	var changed bool
	out.target, changed = n.target(old.target)
	if old.id.Set {
		changed = n.members(&out) || changed
	} else {
		changed = n.rulesOf(&out) || changed
	}
	result := old
	if changed {
		out.complete(n.seed)
		result = &out
	}
	n.done[old] = result
	return result
}

// members narrows the members of a policy set. It returns false if they stay the
// same. The places of the members of on-permit-apply-second matter, so none of
// them is left out.
func (n *narrower) members(out *node) bool {
	kept := make([]*node, 0, len(out.children))
	for _, child := range out.children {
		if out.algorithm == onPermitApplySecond || !n.without(child, out.algorithm == onlyOneApplicable) {
			kept = append(kept, n.node(child))
		}
	}
	same := slices.Equal(kept, out.children)
	out.children = kept
	return !same
}

// without reports whether a member certainly does not apply. If only targets
// count, that depends on its target alone.
func (n *narrower) without(child *node, targetsOnly bool) bool {
	if n.step(1) != nil {
		return false
	}
	if n.noMatch(child.target) {
		return true
	}
	if targetsOnly || child.algorithm == denyUnlessPermit || child.algorithm == permitUnlessDeny {
		return false
	}
	return n.node(child).len() == 0
}

// rulesOf narrows the rules of a policy. It returns false if they stay the same.
func (n *narrower) rulesOf(out *node) bool {
	owner, frame, variables := n.owner, n.frame, n.variables
	n.owner, n.frame, n.variables = out, len(n.run.variables), make([]int8, len(out.variables))
	for range out.variables {
		n.run.variables = append(n.run.variables, variableState{})
	}
	changed := false
	kept := make([]rule, 0, len(out.rules))
	for _, x := range out.rules {
		keep, differs := n.rule(&x)
		changed = changed || differs || !keep
		if keep {
			kept = append(kept, x)
		}
	}
	out.rules = kept
	n.run.variables = n.run.variables[:n.frame]
	n.owner, n.frame, n.variables = owner, frame, variables
	return changed
}

// rule narrows a rule. It returns false if the rule certainly does not apply, and
// whether the rule was changed.
func (n *narrower) rule(x *rule) (keep, changed bool) {
	if n.step(1) != nil {
		return true, false
	}
	if n.noMatch(x.target) {
		return false, false
	}
	x.target, changed = n.target(x.target)
	if x.condition == nil || !n.known(x.condition) {
		return true, changed
	}
	ok, err := evalBoolean(x.condition, n.run)
	switch {
	case err != nil:
		return true, changed
	case ok:
		x.condition = nil
		return true, true
	}
	// The condition counts only if the target is not Indeterminate.
	return n.canFail(x.target), changed
}

// noMatch reports whether a target certainly does not match.
func (n *narrower) noMatch(t target) bool {
	return slices.ContainsFunc(t, func(any [][]match) bool {
		return !slices.ContainsFunc(any, func(all []match) bool {
			return !slices.ContainsFunc(all, func(m match) bool { return n.value(&m) == noMatch })
		})
	})
}

// target returns the target without the disjunctions that certainly match, and
// whether there are any.
func (n *narrower) target(t target) (target, bool) {
	var kept target
	for _, any := range t {
		matches := slices.ContainsFunc(any, func(all []match) bool {
			return !slices.ContainsFunc(all, func(m match) bool { return n.value(&m) != matched })
		})
		if !matches {
			kept = append(kept, any)
		}
	}
	return kept, len(kept) < len(t)
}

// value returns the value of a match, or failed if it is Indeterminate or not
// known.
func (n *narrower) value(m *match) outcome {
	if !n.known(m.bag) {
		return failed
	}
	o, _ := m.eval(n.run)
	return o
}

// canFail reports whether a target may be Indeterminate.
func (n *narrower) canFail(t target) bool {
	for _, any := range t {
		for _, all := range any {
			for i := range all {
				if n.matchCanFail(&all[i]) {
					return true
				}
			}
		}
	}
	return false
}

// matchCanFail reports whether a match may be Indeterminate. A comparison for
// equality with an attribute that only the request can have may not.
func (n *narrower) matchCanFail(m *match) bool {
	if n.known(m.bag) {
		o, _ := m.eval(n.run)
		return o == failed
	}
	d := m.bag.(*designator)
	return !m.equal || d.missing != nil || n.options.Attributes != nil || n.plan.slots.list[d.slot].selection != nil
}

// known reports whether the value of an expression is known.
func (n *narrower) known(e expression) bool {
	switch e := e.(type) {
	case *literal:
		return true
	case *designator:
		return n.slotKnown(e.slot)
	case *variable:
		return n.variableKnown(e.number)
	case *testCall:
		return n.known(e.a) && n.known(e.b)
	case *lazyCall:
		return n.allKnown(e.args)
	case *call:
		return n.allKnown(e.args)
	}
	return false
}

// allKnown reports whether all expressions are known.
func (n *narrower) allKnown(list []expression) bool {
	return !slices.ContainsFunc(list, func(e expression) bool { return !n.known(e) })
}

// variableKnown reports whether the value of a variable is known.
func (n *narrower) variableKnown(number int) bool {
	if n.variables[number] == 0 {
		n.variables[number] = -1
		if n.known(n.owner.variables[number]) {
			n.variables[number] = 1
		}
	}
	return n.variables[number] > 0
}

// slotKnown reports whether the values of a slot are known. Those of an attribute
// source are not, because it may use the whole request.
func (n *narrower) slotKnown(number int32) bool {
	s := &n.plan.slots.list[number]
	switch {
	case s.designator.Category == n.unknown:
		return false
	case s.selection != nil:
		return s.selection.context < 0 || n.slotKnown(s.selection.context)
	case n.options.Attributes == nil || s.clock && n.options.Now != nil:
		return true
	}
	have := &n.slots[number]
	return have.known && len(have.values) > 0
}
