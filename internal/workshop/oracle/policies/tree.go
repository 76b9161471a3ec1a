package policies

import (
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/status"
)

// answer is the value of a rule, a policy or a policy set.
type answer struct {
	decision    policy.Decision
	status      *status.Error // why the decision is Indeterminate; otherwise nil
	obligations []policy.Duty
	advice      []policy.Duty
	policies    []policy.PolicyVersion // what applied fully (section 5.48): its target matched, and it permits or denies
}

// couldBe returns what a decision becomes by an error that prevents it: I{P},
// I{D}, I{DP}, or NotApplicable (table 7 of section 7.14).
func couldBe(d policy.Decision) policy.Decision {
	switch d {
	case policy.Permitted:
		return policy.IndeterminateP
	case policy.Denied:
		return policy.IndeterminateD
	case policy.Indeterminate:
		return policy.IndeterminateDP
	}
	return d
}

// element returns the value of a policy, of a policy set, or of what a reference
// names.
func (d *decision) element(e policy.Element) answer {
	switch e := d.policies.resolve(e).(type) {
	case *policy.Policy:
		return d.policy(e)
	case *policy.PolicySet:
		return d.policySet(e)
	}
	panic("an element that is no policy")
}

// targetOf returns the target of an element.
func (p *Policies) targetOf(e policy.Element) policy.Target {
	switch e := p.resolve(e).(type) {
	case *policy.Policy:
		return e.Target
	case *policy.PolicySet:
		return e.Target
	}
	panic("an element that is no policy")
}

// policy returns the value of a policy (section 7.12).
func (d *decision) policy(p *policy.Policy) answer {
	outer := d.variables
	d.variables = p.Variables
	defer func() { d.variables = outer }()
	var rules []func() answer
	for i := range p.Rules {
		rules = append(rules, func() answer { return d.rule(&p.Rules[i]) })
	}
	id := policy.PolicyVersion{ID: p.ID, Version: p.Version}
	return d.container(id, p.Target, func() answer { return combine(p.Algorithm, rules) }, p.Obligations, p.Advice)
}

// policySet returns the value of a policy set (section 7.13).
func (d *decision) policySet(s *policy.PolicySet) answer {
	outer := d.variables
	d.variables = nil
	defer func() { d.variables = outer }()
	value := func() answer {
		if s.Algorithm == policy.AlgorithmOnlyOneApplicable {
			return d.onlyOne(s.Children)
		}
		var children []func() answer
		for _, child := range s.Children {
			children = append(children, func() answer { return d.element(child) })
		}
		return combine(s.Algorithm, children)
	}
	id := policy.PolicyVersion{Set: true, ID: s.ID, Version: s.Version}
	return d.container(id, s.Target, value, s.Obligations, s.Advice)
}

// container returns the value of a policy or a policy set from its target and the
// combined value of its children (tables 5 to 7).
func (d *decision) container(id policy.PolicyVersion, target policy.Target, children func() answer, obligations, advice []policy.Obligation) answer {
	match, why := d.target(target)
	if match == no {
		return answer{}
	}
	a := children()
	if a.decision == policy.NotApplicable {
		return answer{}
	}
	a = d.withDuties(a, obligations, advice)
	if match == failed {
		return answer{decision: couldBe(a.decision), status: why} // nothing inside of it applied
	}
	if a.decision == policy.Indeterminate {
		a.decision = policy.IndeterminateDP
	}
	if a.decision == permit || a.decision == deny {
		a.policies = append([]policy.PolicyVersion{id}, a.policies...)
	}
	return a
}

// rule returns the value of a rule (table 4 of section 7.11).
func (d *decision) rule(r *policy.Rule) answer {
	effect := policy.Permitted
	if r.Effect == policy.Deny {
		effect = policy.Denied
	}
	match, why := d.target(r.Target)
	switch match {
	case no:
		return answer{}
	case failed:
		return answer{decision: couldBe(effect), status: why}
	}
	if r.Condition != nil {
		v, err := d.expression(r.Condition)
		switch {
		case err != nil:
			return answer{decision: couldBe(effect), status: err}
		case !v.Value.Bool():
			return answer{}
		}
	}
	return d.withDuties(answer{decision: effect}, r.Obligations, r.Advice)
}

// withDuties adds the obligations and the advice of a level to its value (section
// 7.18). An error in one of them makes the value Indeterminate.
func (d *decision) withDuties(a answer, obligations, advice []policy.Obligation) answer {
	own, err := d.duties(a.decision, obligations)
	if err == nil {
		var more []policy.Duty
		if more, err = d.duties(a.decision, advice); err == nil {
			a.obligations = append(a.obligations, own...)
			a.advice = append(a.advice, more...)
			return a
		}
	}
	return answer{decision: couldBe(a.decision), status: err, policies: a.policies}
}

// duties returns the duties that are for a decision.
func (d *decision) duties(on policy.Decision, all []policy.Obligation) (out []policy.Duty, err *status.Error) {
	for _, o := range all {
		if !(o.On == policy.Permit && on == policy.Permitted || o.On == policy.Deny && on == policy.Denied) {
			continue
		}
		duty := policy.Duty{ID: o.ID}
		for _, a := range o.Assignments {
			v, err := d.expression(a.Expression)
			if err != nil {
				return nil, err
			}
			values := v.Values
			if !v.Shape.Bag {
				values = append(values, v.Value)
			}
			for _, one := range values {
				duty.Arguments = append(duty.Arguments, policy.Argument{ID: a.ID, Category: a.Category, Issuer: a.Issuer, Value: one})
			}
		}
		out = append(out, duty)
	}
	return out, nil
}
