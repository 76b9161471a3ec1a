package policy

import "slices"

// The identifiers of ONAP's combining algorithm. It is permit-overrides without
// an early end, so that the obligations of every child that permits are merged.
const (
	AlgorithmCombinedPermitOverrides      = "urn:com:att:xacml:3.0:policy-combining-algorithm:combined-permit-overrides"
	AlgorithmRulesCombinedPermitOverrides = "urn:com:att:xacml:3.0:rule-combining-algorithm:combined-permit-overrides"
)

// The identifiers of the combining algorithms of XACML 3.0 for policies (appendix
// C). Older ids are in [AlgorithmIDs].
const (
	AlgorithmDenyOverrides          = policy3 + "deny-overrides"
	AlgorithmPermitOverrides        = policy3 + "permit-overrides"
	AlgorithmOrderedDenyOverrides   = policy3 + "ordered-deny-overrides"
	AlgorithmOrderedPermitOverrides = policy3 + "ordered-permit-overrides"
	AlgorithmDenyUnlessPermit       = policy3 + "deny-unless-permit"
	AlgorithmPermitUnlessDeny       = policy3 + "permit-unless-deny"
	AlgorithmOnPermitApplySecond    = policy3 + "on-permit-apply-second"
	AlgorithmFirstApplicable        = policy1 + "first-applicable"
	AlgorithmOnlyOneApplicable      = policy1 + "only-one-applicable"
)

// The identifiers of the combining algorithms of XACML 3.0 for rules (appendix C).
const (
	AlgorithmRulesDenyOverrides          = rule3 + "deny-overrides"
	AlgorithmRulesPermitOverrides        = rule3 + "permit-overrides"
	AlgorithmRulesOrderedDenyOverrides   = rule3 + "ordered-deny-overrides"
	AlgorithmRulesOrderedPermitOverrides = rule3 + "ordered-permit-overrides"
	AlgorithmRulesDenyUnlessPermit       = rule3 + "deny-unless-permit"
	AlgorithmRulesPermitUnlessDeny       = rule3 + "permit-unless-deny"
	AlgorithmRulesFirstApplicable        = rule1 + "first-applicable"
)

const (
	policy1  = "urn:oasis:names:tc:xacml:1.0:policy-combining-algorithm:"
	policy11 = "urn:oasis:names:tc:xacml:1.1:policy-combining-algorithm:"
	policy3  = "urn:oasis:names:tc:xacml:3.0:policy-combining-algorithm:"
	rule1    = "urn:oasis:names:tc:xacml:1.0:rule-combining-algorithm:"
	rule11   = "urn:oasis:names:tc:xacml:1.1:rule-combining-algorithm:"
	rule3    = "urn:oasis:names:tc:xacml:3.0:rule-combining-algorithm:"
)

// algorithm is a way to combine decisions. All ids of one algorithm give the
// same results; the evaluation always keeps the order of the document, so an
// ordered id means the same as the one without "ordered".
type algorithm uint8

const (
	denyOverrides algorithm = iota + 1
	permitOverrides
	combinedPermitOverrides
	denyUnlessPermit
	permitUnlessDeny
	firstApplicable
	onlyOneApplicable
	onPermitApplySecond
	oldRuleDenyOverrides     // 1.0 and 1.1, for rules
	oldRulePermitOverrides   // 1.0 and 1.1, for rules
	oldPolicyDenyOverrides   // 1.0 and 1.1, for policies
	oldPolicyPermitOverrides // 1.0 and 1.1, for policies
)

// named is a combining algorithm under one of its ids.
type named struct {
	id        string
	rules     bool // combines rules; otherwise policies
	algorithm algorithm
}

// algorithms returns every combining algorithm.
func algorithms() []named {
	return []named{
		{AlgorithmDenyOverrides, false, denyOverrides},
		{AlgorithmPermitOverrides, false, permitOverrides},
		{AlgorithmOrderedDenyOverrides, false, denyOverrides},
		{AlgorithmOrderedPermitOverrides, false, permitOverrides},
		{AlgorithmDenyUnlessPermit, false, denyUnlessPermit},
		{AlgorithmPermitUnlessDeny, false, permitUnlessDeny},
		{AlgorithmOnPermitApplySecond, false, onPermitApplySecond},
		{AlgorithmFirstApplicable, false, firstApplicable},
		{AlgorithmOnlyOneApplicable, false, onlyOneApplicable},
		{AlgorithmCombinedPermitOverrides, false, combinedPermitOverrides},
		{policy1 + "deny-overrides", false, oldPolicyDenyOverrides},
		{policy1 + "permit-overrides", false, oldPolicyPermitOverrides},
		{policy11 + "ordered-deny-overrides", false, oldPolicyDenyOverrides},
		{policy11 + "ordered-permit-overrides", false, oldPolicyPermitOverrides},

		{AlgorithmRulesDenyOverrides, true, denyOverrides},
		{AlgorithmRulesPermitOverrides, true, permitOverrides},
		{AlgorithmRulesOrderedDenyOverrides, true, denyOverrides},
		{AlgorithmRulesOrderedPermitOverrides, true, permitOverrides},
		{AlgorithmRulesDenyUnlessPermit, true, denyUnlessPermit},
		{AlgorithmRulesPermitUnlessDeny, true, permitUnlessDeny},
		{AlgorithmRulesFirstApplicable, true, firstApplicable},
		{AlgorithmRulesCombinedPermitOverrides, true, combinedPermitOverrides},
		{rule1 + "deny-overrides", true, oldRuleDenyOverrides},
		{rule1 + "permit-overrides", true, oldRulePermitOverrides},
		{rule11 + "ordered-deny-overrides", true, oldRuleDenyOverrides},
		{rule11 + "ordered-permit-overrides", true, oldRulePermitOverrides},
	}
}

// AlgorithmIDs returns the ids of the combining algorithms for rules, or those
// for policies, sorted.
func AlgorithmIDs(rules bool) []string {
	var ids []string
	for _, a := range algorithms() {
		if a.rules == rules {
			ids = append(ids, a.id)
		}
	}
	slices.Sort(ids)
	return ids
}
