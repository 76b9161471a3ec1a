package policy

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/ostiary/ostiary/policy/status"
	"github.com/ostiary/ostiary/policy/value"
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
// combined decision. It also fails if a bound is reached or the context ends. It
// returns a *[status.Error].
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
	n := newNarrower(r, unknown)
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
		problem = "has the unknown category " + value.Quote(unknown)
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

// narrower removes from a tree the nodes that cannot apply. In its run, an
// attribute that is not known is an error. A value that is not an error is
// therefore certain: a function fails if an argument fails, or, like the function
// or, returns the result that any value of that argument would give.
type narrower struct {
	*run
	why  *status.Error   // error of each attribute that is not known
	done map[*node]*node // narrowed nodes, which several references may share
	// sources is true if attributes may come from an attribute source, which may
	// use the whole request and may fail.
	sources bool
}

// newNarrower returns a narrower whose run has the known attributes.
func newNarrower(r *run, unknown string) *narrower {
	n := &narrower{run: r, done: map[*node]*node{}, sources: r.options.Attributes != nil,
		why: &status.Error{Code: status.ProcessingError, Message: "the attributes of category " + value.Quote(unknown) + " are not known"}}
	if n.sources {
		r.options.Attributes = unknownSource{n.why}
	}
	for i := range r.plan.slots.list {
		if s := &r.plan.slots.list[i]; s.designator.Category == unknown && s.selection == nil {
			r.slots[i] = slotState{own: r.slots[i].own, known: true, err: n.why}
			r.touched = append(r.touched, int32(i))
		}
	}
	r.fill()
	return n
}

// unknownSource is a source whose attributes are not known.
type unknownSource struct{ why *status.Error }

// Attribute returns the error of the source.
func (s unknownSource) Attribute(context.Context, *Designator, *Request) ([]value.Value, error) {
	return nil, s.why
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
		out.complete(n.plan.slots.seed, nil)
		result = &out
	}
	n.done[old] = result
	return result
}

// members narrows the members of a policy set. It returns false if they stay the
// same. The algorithm on-permit-apply-second depends on the places of its members,
// so none of them is removed.
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
	if o, _ := child.target.eval(n.run); o == noMatch {
		return true
	}
	if targetsOnly || child.algorithm == denyUnlessPermit || child.algorithm == permitUnlessDeny {
		return false
	}
	return n.node(child).len() == 0
}

// rulesOf narrows the rules of a policy. It returns false if they stay the same.
func (n *narrower) rulesOf(out *node) bool {
	owner, frame := n.enter(out)
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
	n.leave(owner, frame)
	return changed
}

// rule narrows a rule. It returns false if the rule certainly does not apply, and
// whether the rule was changed.
func (n *narrower) rule(x *rule) (keep, changed bool) {
	if n.step(1) != nil {
		return true, false
	}
	if o, _ := x.target.eval(n.run); o == noMatch {
		return false, false
	}
	x.target, changed = n.target(x.target)
	if x.condition == nil {
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

// target returns the target without the disjunctions that certainly match, and
// whether there are any.
func (n *narrower) target(t target) (target, bool) {
	var kept target
	for _, any := range t {
		if o, _ := evalAnyOf(any, n.run); o != matched {
			kept = append(kept, any)
		}
	}
	return kept, len(kept) < len(t)
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
	o, err := m.eval(n.run)
	if o != failed {
		return false
	}
	d := m.bag.(*designator)
	return err != n.why || n.sources || !m.equal || d.missing != nil || n.plan.slots.list[d.slot].selection != nil
}
