package policy

import "github.com/ostiary/ostiary/policy/status"

// verdict is a decision with its reason. The status is nil unless the decision
// is one of the four kinds of Indeterminate.
type verdict struct {
	decision Decision
	status   *status.Error
}

// combiner combines the decisions of children in document order (appendix C,
// and section 7.10 for the extended Indeterminate). Its zero value with an
// algorithm is ready. Children that are NotApplicable may be left out: no
// algorithm that a combiner implements can notice it.
type combiner struct {
	algorithm algorithm
	// seen has a bit for each Decision that a child had.
	seen uint8
	// first has the status of the first child with each Decision.
	first [IndeterminateDP + 1]*status.Error
	// failed is the status of the first child that was Indeterminate in any way.
	failed *status.Error
	// final is the result once a child decided alone.
	final verdict
}

// has reports whether a child had one of the decisions.
func (c *combiner) has(decisions ...Decision) bool {
	for _, d := range decisions {
		if c.seen&(1<<d) != 0 {
			return true
		}
	}
	return false
}

// add adds the decision of the next child. It returns true if the result is
// certain, so that the remaining children need no evaluation.
func (c *combiner) add(v verdict) bool {
	if v.decision == NotApplicable {
		return false
	}
	if !c.has(v.decision) {
		c.seen |= 1 << v.decision
		c.first[v.decision] = v.status
	}
	if c.failed == nil {
		c.failed = v.status
	}
	switch c.algorithm {
	case denyOverrides, oldRuleDenyOverrides, permitUnlessDeny:
		return v.decision == Denied
	case permitOverrides, oldRulePermitOverrides, denyUnlessPermit, oldPolicyPermitOverrides:
		return v.decision == Permitted
	case oldPolicyDenyOverrides:
		return v.decision != Permitted
	case firstApplicable:
		c.final = v
		return true
	}
	return false
}

// result returns the combined decision of all children.
func (c *combiner) result() verdict {
	switch c.algorithm {
	case denyOverrides:
		return c.overrides(Denied, Permitted, IndeterminateD, IndeterminateP)
	case permitOverrides, combinedPermitOverrides:
		return c.overrides(Permitted, Denied, IndeterminateP, IndeterminateD)
	case denyUnlessPermit:
		return c.unless(Permitted, Denied)
	case permitUnlessDeny:
		return c.unless(Denied, Permitted)
	case oldRuleDenyOverrides:
		return c.oldRules(Denied, Permitted, IndeterminateD)
	case oldRulePermitOverrides:
		return c.oldRules(Permitted, Denied, IndeterminateP)
	case oldPolicyDenyOverrides:
		return c.oldDenyOverrides()
	case oldPolicyPermitOverrides:
		return c.oldPermitOverrides()
	}
	return c.final
}

// overrides is deny-overrides and permit-overrides of XACML 3.0 (appendix C.2 and
// C.4): over is the decision that overrides under, and errOver and errUnder are
// Indeterminate with the same effects.
func (c *combiner) overrides(over, under, errOver, errUnder Decision) verdict {
	switch {
	case c.has(over):
		return verdict{decision: over}
	case c.has(IndeterminateDP):
		return c.indeterminate(IndeterminateDP, IndeterminateDP)
	case c.has(errOver) && c.has(errUnder, under):
		return c.indeterminate(IndeterminateDP, errOver)
	case c.has(errOver):
		return c.indeterminate(errOver, errOver)
	case c.has(under):
		return verdict{decision: under}
	case c.has(errUnder):
		return c.indeterminate(errUnder, errUnder)
	}
	return verdict{}
}

// unless is deny-unless-permit and permit-unless-deny (appendix C.6 and C.7).
func (c *combiner) unless(decision, otherwise Decision) verdict {
	if c.has(decision) {
		return verdict{decision: decision}
	}
	return verdict{decision: otherwise}
}

// oldRules is deny-overrides and permit-overrides of XACML 1.0 for rules
// (appendix C.10 and C.12).
func (c *combiner) oldRules(over, under, errOver Decision) verdict {
	switch {
	case c.has(over):
		return verdict{decision: over}
	case c.has(errOver):
		return c.indeterminate(Indeterminate, errOver)
	case c.has(under):
		return verdict{decision: under}
	case c.failed != nil:
		return verdict{Indeterminate, c.failed}
	}
	return verdict{}
}

// oldDenyOverrides is deny-overrides of XACML 1.0 for policies (appendix C.11): an
// error denies.
func (c *combiner) oldDenyOverrides() verdict {
	switch {
	case c.has(Denied) || c.failed != nil:
		return verdict{decision: Denied}
	case c.has(Permitted):
		return verdict{decision: Permitted}
	}
	return verdict{}
}

// oldPermitOverrides is permit-overrides of XACML 1.0 for policies (appendix
// C.13).
func (c *combiner) oldPermitOverrides() verdict {
	switch {
	case c.has(Permitted):
		return verdict{decision: Permitted}
	case c.has(Denied):
		return verdict{decision: Denied}
	case c.failed != nil:
		return verdict{Indeterminate, c.failed}
	}
	return verdict{}
}

// indeterminate returns a kind of Indeterminate with the status of the first
// child that had the decision cause.
func (c *combiner) indeterminate(kind, cause Decision) verdict {
	return verdict{kind, c.first[cause]}
}
