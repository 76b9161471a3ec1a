package pdp

import (
	"context"
	"fmt"

	"github.com/ostiary/ostiary/door/onap/internal/tosca"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/value"
)

// The identifiers of functions that translated policies call.
const (
	functions1             = "urn:oasis:names:tc:xacml:1.0:function:"
	functions3             = "urn:oasis:names:tc:xacml:3.0:function:"
	functionStringEqual    = functions1 + "string-equal"
	functionIntegerEqual   = functions1 + "integer-equal"
	functionIntegerGreater = functions1 + "integer-greater-than"
	functionIntegerLess    = functions1 + "integer-less-than"
	functionOr             = functions1 + "or"
	functionAnd            = functions1 + "and"
	// functionInRecurringRange compares a time of day with a range, in UTC (XACML
	// 3.0 Time Extensions 1.0).
	functionInRecurringRange = functions3 + "time-in-recurring-range"
)

// The identifiers of attributes of ONAP.
const (
	onap                    = "urn:org:onap:"
	attributePolicyType     = onap + "policy-type"
	attributeMatchable      = onap + "matchable:"
	attributeActor          = onap + "guard:actor:actor-id"
	attributeOperation      = onap + "guard:operation:operation-id"
	attributeLoop           = onap + "guard:clname:clname-id"
	attributeGuardTarget    = onap + "guard:target:target-id"
	attributeCount          = onap + "guard:target:vf-count"
	attributeTargetPrefix   = onap + "guard:target:"
	attributeOperationCount = onap + "guard:operation:operation-count"
	attributeOutcome        = onap + "guard:operation:operation-outcome"
	attributeSubscriber     = onap + "optimization:subscriber:name"
)

// obligationBody is the obligation that names a policy of the response.
const obligationBody = onap + "rest:body"

// argumentPolicy is the argument of [obligationBody] with the name of the policy.
const argumentPolicy = onap + ":obligation:policyid"

// resource returns a designator of an attribute of the resource.
func resource(id string, t value.Type) *policy.Designator {
	return &policy.Designator{Category: policy.CategoryResource, ID: id, Type: t}
}

// match returns a match of an attribute of the resource.
func match(function string, literal value.Value, id string) policy.Match {
	return policy.Match{Function: function, Literal: literal, Bag: resource(id, literal.Type())}
}

// matchString returns a match of an attribute that equals a string.
func matchString(literal, id string) policy.Match {
	return match(functionStringEqual, value.NewString(literal), id)
}

// apply returns a call of a function.
func apply(function string, arguments ...policy.Expression) *policy.Apply {
	return &policy.Apply{Function: function, Arguments: arguments}
}

// literal returns a literal.
func literal(v value.Value) *policy.Literal { return &policy.Literal{Value: v} }

// answerWith returns the obligation by which a policy enters the response.
func answerWith(p *tosca.Entity) []policy.Obligation {
	return []policy.Obligation{{ID: obligationBody, On: policy.Permit,
		Assignments: []policy.Assignment{{ID: argumentPolicy, Expression: literal(value.NewString(p.Name))}}}}
}

// translateCombined makes a policy that permits requests which name the policy
// or its type.
func translateCombined(_ context.Context, p *tosca.Entity, _ Types) (translated, error) {
	typ, _ := p.Type()
	return translated{element: &policy.Policy{
		Header: policy.Header{ID: p.Name, Version: p.Version, Algorithm: policy.AlgorithmRulesFirstApplicable, Obligations: answerWith(p),
			Target: policy.Target{{
				{matchString(p.Name, policy.AttributeResourceID)},
				{matchString(typ, attributePolicyType)},
			}}},
		Rules: []policy.Rule{{ID: p.Name + ":rule", Effect: policy.Permit}}}}, nil
}

// scalar returns the text of a property that must be a scalar, or "" if it is
// missing.
func scalar(properties *tosca.Value, name string) (string, error) {
	v := properties.Get(name)
	if v == nil || v.Kind == tosca.Null {
		return "", nil
	}
	if v.Kind == tosca.List || v.Kind == tosca.Map {
		return "", fmt.Errorf("property %s: expected a string, got %s", name, v.Kind)
	}
	return v.Text, nil
}

// integer returns a property that must be a whole number. given is false if it is
// missing.
func integer(properties *tosca.Value, name string) (n value.Value, given bool, err error) {
	text, err := scalar(properties, name)
	if err != nil || text == "" {
		return n, false, err
	}
	if n, err = value.Parse(value.Integer, text); err != nil {
		return n, false, fmt.Errorf("property %s: %w", name, err)
	}
	return n, true, nil
}

// items returns the items of a property that must be a list. A scalar is a list
// of one.
func items(properties *tosca.Value, name string) []tosca.Value {
	v := properties.Get(name)
	switch {
	case v == nil || v.Kind == tosca.Null:
		return nil
	case v.Kind == tosca.List:
		return v.Items
	}
	return []tosca.Value{*v}
}
