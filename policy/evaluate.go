package policy

import (
	"fmt"
	"slices"

	"github.com/ostiary/ostiary/policy/status"
	"github.com/ostiary/ostiary/policy/value"
)

// effect numbers the duties of a decision in node.duties.
func (e Effect) index() int { return int(e - Permit) }

// decision returns the decision of a rule with the effect.
func (e Effect) decision() Decision {
	if e == Permit {
		return Permitted
	}
	return Denied
}

// weaken returns what remains of a decision if an error prevents it: it could
// have been that decision (section 7.14, table 7).
func weaken(d Decision) Decision {
	switch d {
	case Permitted:
		return IndeterminateP
	case Denied:
		return IndeterminateD
	case Indeterminate:
		return IndeterminateDP
	}
	return d
}

// rule evaluates a rule (section 7.11).
func (r *run) rule(x *rule) verdict {
	if err := r.step(1); err != nil {
		return verdict{weaken(x.effect.decision()), err}
	}
	if r.trace != nil {
		return r.trace.rule(r, x)
	}
	o, err := x.target.eval(r)
	return r.ruleWithTarget(x, o, err)
}

// ruleWithTarget evaluates a rule whose target has the given value.
func (r *run) ruleWithTarget(x *rule, o outcome, err *status.Error) verdict {
	decision := x.effect.decision()
	switch o {
	case noMatch:
		return verdict{}
	case failed:
		return verdict{weaken(decision), err}
	}
	if x.condition != nil {
		ok, err := evalBoolean(x.condition, r)
		switch {
		case err != nil:
			return verdict{weaken(decision), err}
		case !ok:
			return verdict{}
		}
	}
	if err := r.fulfil(x.duties, decision); err != nil {
		return verdict{weaken(decision), err}
	}
	return verdict{decision: decision}
}

// node evaluates a policy or a policy set (sections 7.12 to 7.14).
func (r *run) node(n *node) verdict {
	if err := r.step(1); err != nil {
		return verdict{IndeterminateDP, err}
	}
	if r.trace != nil {
		return r.trace.node(r, n)
	}
	o, err := n.target.eval(r)
	return r.nodeWithTarget(n, o, err)
}

// nodeWithTarget evaluates a policy or a policy set whose target has the given
// value. If the target is Indeterminate, the decision is only what it could have
// been. The node is one of the policies that applied if its target matches and it
// is Permit or Deny (section 5.48); what is inside of it is none if its target is
// Indeterminate.
func (r *run) nodeWithTarget(n *node, o outcome, why *status.Error) verdict {
	if o == noMatch {
		return verdict{}
	}
	duties, policies := len(r.duties), len(r.policies)
	if r.request.ReturnPolicyIDs {
		r.policies = append(r.policies, n.id)
	}
	v := r.inFrame(n)
	switch {
	case v.decision == NotApplicable:
		r.policies = r.policies[:policies]
		return v
	case o == failed:
		v = verdict{weaken(v.decision), why}
		r.policies = r.policies[:policies]
	case v.status != nil:
		v.decision = weaken(v.decision)
		if r.request.ReturnPolicyIDs {
			r.policies = slices.Delete(r.policies, policies, policies+1)
		}
	}
	if v.status != nil {
		r.duties = r.duties[:duties]
	}
	return v
}

// inFrame combines the children of a node with memory for its variables, and
// adds the node's own duties. If they are Indeterminate, so is the node.
func (r *run) inFrame(n *node) verdict {
	owner, frame := r.enter(n)
	v := r.combine(n)
	if v.decision == Permitted || v.decision == Denied {
		effect := Effect(v.decision-Permitted) + Permit
		if err := r.fulfil(n.duties[effect.index()], v.decision); err != nil {
			v = verdict{weaken(v.decision), err}
		}
	}
	r.leave(owner, frame)
	return v
}

// enter makes memory for the variables of a node. It returns what leave needs.
func (r *run) enter(n *node) (owner *node, frame int) {
	owner, frame = r.owner, r.frame
	r.owner, r.frame = n, len(r.variables)
	for range n.variables {
		r.variables = append(r.variables, variableState{})
	}
	return owner, frame
}

// leave drops the memory for the variables of the current node, and returns to
// those of the node around it.
func (r *run) leave(owner *node, frame int) {
	r.variables = r.variables[:r.frame]
	r.owner, r.frame = owner, frame
}

// combine combines the decisions of the children of a node.
func (r *run) combine(n *node) verdict {
	switch n.algorithm {
	case onlyOneApplicable:
		return r.onlyOne(n)
	case onPermitApplySecond:
		return r.applySecond(n)
	}
	c := combiner{algorithm: n.algorithm}
	duties, found := len(r.duties), len(r.found)
	if list, ok := r.candidates(n); ok {
		for i := 0; i < len(list) && r.aborted == nil; i++ {
			if c.add(r.child(n, int(list[i]))) {
				break
			}
		}
	} else {
		for i, count := 0, n.len(); i < count && r.aborted == nil; i++ {
			if c.add(r.child(n, i)) {
				break
			}
		}
	}
	r.found = r.found[:found]
	v := c.result()
	r.keep(duties, v.decision)
	return v
}

// child evaluates a rule or member of a node.
func (r *run) child(n *node, i int) verdict {
	if n.id.Set {
		return r.node(n.children[i])
	}
	return r.rule(&n.rules[i])
}

// candidates returns the children of a node that can apply, in document order. It
// returns false if all must be tried.
func (r *run) candidates(n *node) ([]int32, bool) {
	if n.index == nil {
		return nil, false
	}
	list := n.index.find(r)
	if r.trace != nil {
		r.trace.skipped(n.len() - len(list))
	}
	return list, true
}

// onlyOne is only-one-applicable (appendix C.9): the value of the only member
// whose target matches.
func (r *run) onlyOne(n *node) verdict {
	found := len(r.found)
	defer func() { r.found = r.found[:found] }()
	list, ok := r.candidates(n)
	count := n.len()
	if ok {
		count = len(list)
	}
	var chosen *node
	for i := 0; i < count; i++ {
		child := n.children[i]
		if ok {
			child = n.children[list[i]]
		}
		if err := r.step(1); err != nil {
			return verdict{IndeterminateDP, err}
		}
		switch o, err := child.target.eval(r); {
		case o == failed:
			r.trace.indeterminate(child, err)
			return verdict{IndeterminateDP, err}
		case o == matched && chosen != nil:
			return verdict{IndeterminateDP, twoApply(n, chosen, child)}
		case o == matched:
			chosen = child
		}
	}
	if chosen == nil {
		return verdict{}
	}
	if r.trace != nil {
		return r.trace.node(r, chosen)
	}
	return r.nodeWithTarget(chosen, matched, nil)
}

// twoApply returns the status of only-one-applicable if two targets match.
func twoApply(n, a, b *node) *status.Error {
	return &status.Error{Code: status.ProcessingError, Message: fmt.Sprintf(
		"%s and %s both apply in %s: expected only one", value.Quote(a.id.ID), value.Quote(b.id.ID), value.Quote(n.id.ID))}
}

// applySecond is on-permit-apply-second (additional combining algorithms profile,
// section 2.1): if the first member permits, the value of the second; otherwise
// that of the third.
func (r *run) applySecond(n *node) verdict {
	duties := len(r.duties)
	first := r.node(n.children[0])
	var v verdict
	switch first.decision {
	case Permitted:
		v = r.node(n.children[1])
	case NotApplicable, Denied, IndeterminateD:
		if len(n.children) > 2 {
			v = r.node(n.children[2])
		}
	default:
		v = verdict{IndeterminateDP, first.status}
	}
	r.keep(duties, v.decision)
	return v
}
