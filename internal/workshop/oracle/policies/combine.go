package policies

import (
	"strings"

	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/status"
)

// The decisions, as short as in the tables of the standard.
const (
	notApplicable = policy.NotApplicable
	permit        = policy.Permitted
	deny          = policy.Denied
	plainI        = policy.Indeterminate
	iP            = policy.IndeterminateP
	iD            = policy.IndeterminateD
	iDP           = policy.IndeterminateDP
)

// combine returns the combined value of children by the algorithm with an id
// (appendix C), except only-one-applicable. It evaluates the children in document
// order, and none after one that decides alone.
func combine(id string, children []func() answer) answer {
	name := strings.TrimPrefix(id[strings.LastIndex(id, ":")+1:], "ordered-")
	if name == "on-permit-apply-second" {
		return applySecond(children)
	}
	if strings.Contains(id, ":1.0:") || strings.Contains(id, ":1.1:") {
		switch {
		case name == "first-applicable":
		case strings.Contains(id, "rule-combining"):
			name = "old rule " + name
		default:
			name = "old policy " + name
		}
	}
	var seen []answer
	for _, child := range children {
		a := child()
		seen = append(seen, a)
		if decides(name, a.decision) {
			break
		}
	}
	result, cause := table(name, seen)
	return merge(seen, result, cause)
}

// decides reports whether a child with a decision ends an algorithm.
func decides(name string, d policy.Decision) bool {
	switch name {
	case "deny-overrides", "permit-unless-deny", "old rule deny-overrides":
		return d == deny
	case "permit-overrides", "deny-unless-permit", "old rule permit-overrides", "old policy permit-overrides":
		return d == permit
	case "old policy deny-overrides":
		return d != permit && d != notApplicable
	case "first-applicable":
		return d != notApplicable
	}
	return false
}

// merge returns a decision with the first status of the children with the decision
// cause, and the duties of those with the same decision.
func merge(seen []answer, d, cause policy.Decision) answer {
	out := answer{decision: d}
	for _, a := range seen {
		out.policies = append(out.policies, a.policies...)
		if d >= plainI && out.status == nil && (a.decision == cause || cause == plainI) {
			out.status = a.status
		}
		if a.decision == d {
			out.obligations = append(out.obligations, a.obligations...)
			out.advice = append(out.advice, a.advice...)
		}
	}
	return out
}

// table returns the combined decision, and the decision of the children whose
// error is the reason if it is Indeterminate; plainI means any of them.
func table(name string, seen []answer) (result, cause policy.Decision) {
	has := func(d policy.Decision) bool {
		for _, a := range seen {
			if a.decision == d {
				return true
			}
		}
		return false
	}
	switch name {
	case "deny-overrides":
		return overrides(has, deny, permit, iD, iP)
	case "permit-overrides", "combined-permit-overrides":
		return overrides(has, permit, deny, iP, iD)
	case "deny-unless-permit":
		if has(permit) {
			return permit, 0
		}
		return deny, 0
	case "permit-unless-deny":
		if has(deny) {
			return deny, 0
		}
		return permit, 0
	case "first-applicable":
		for _, a := range seen {
			if a.decision != notApplicable {
				return a.decision, a.decision
			}
		}
		return notApplicable, 0
	}
	return oldTable(name, has)
}

// overrides is deny-overrides (C.2), and permit-overrides (C.4) with the effects
// exchanged.
func overrides(has func(policy.Decision) bool, deny, permit, iD, iP policy.Decision) (result, cause policy.Decision) {
	switch {
	case has(deny):
		return deny, 0
	case has(iDP):
		return iDP, iDP
	case has(iD) && (has(iP) || has(permit)):
		return iDP, iD
	case has(iD):
		return iD, iD
	case has(permit):
		return permit, 0
	case has(iP):
		return iP, iP
	}
	return notApplicable, 0
}

// oldTable is the algorithms of XACML 1.0 and 1.1 (C.10 to C.13).
func oldTable(name string, has func(policy.Decision) bool) (result, cause policy.Decision) {
	anyError := has(plainI) || has(iP) || has(iD) || has(iDP)
	switch {
	case name == "old policy deny-overrides" && (has(deny) || anyError):
		return deny, 0
	case name == "old policy deny-overrides" && has(permit):
		return permit, 0
	case name == "old policy permit-overrides" && has(permit):
		return permit, 0
	case name == "old policy permit-overrides" && has(deny):
		return deny, 0
	case name == "old rule deny-overrides" && has(deny):
		return deny, 0
	case name == "old rule deny-overrides" && has(iD):
		return plainI, iD
	case name == "old rule deny-overrides" && has(permit):
		return permit, 0
	case name == "old rule permit-overrides" && has(permit):
		return permit, 0
	case name == "old rule permit-overrides" && has(iP):
		return plainI, iP
	case name == "old rule permit-overrides" && has(deny):
		return deny, 0
	case anyError:
		return plainI, plainI
	}
	return notApplicable, 0
}

// applySecond is on-permit-apply-second: the second child if the first permits,
// the third if it certainly does not.
func applySecond(children []func() answer) answer {
	first := children[0]()
	switch first.decision {
	case permit:
		second := children[1]()
		return merge([]answer{first, second}, second.decision, second.decision)
	case notApplicable, deny, iD:
		if len(children) < 3 {
			return answer{}
		}
		third := children[2]()
		both := merge([]answer{first, third}, third.decision, third.decision)
		both.status = third.status
		return both
	}
	return merge([]answer{first}, iDP, first.decision)
}

// onlyOne is only-one-applicable (C.9): the value of the only child whose target
// matches.
func (d *decision) onlyOne(children []policy.Element) answer {
	var only policy.Element
	for _, child := range children {
		match, err := d.target(d.policies.targetOf(child))
		switch {
		case match == failed:
			return answer{decision: iDP, status: err}
		case match == yes && only != nil:
			return answer{decision: iDP, status: fail(status.ProcessingError)}
		case match == yes:
			only = child
		}
	}
	if only == nil {
		return answer{}
	}
	return d.element(only)
}
