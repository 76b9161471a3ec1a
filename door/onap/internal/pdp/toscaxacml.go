package pdp

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/ostiary/ostiary/door/onap/internal/tosca"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/function"
	"github.com/ostiary/ostiary/policy/value"
)

// attributeAdviceText is the argument of advice that a rule gives as a text.
const attributeAdviceText = "urn:oasis:names:tc:xacml:2.0:example:attribute:text"

// ruleAlgorithms are the algorithms of ToscaXacml policies, by name.
var ruleAlgorithms = map[string]string{
	"":                   policy.AlgorithmRulesFirstApplicable,
	"first-applicable":   policy.AlgorithmRulesFirstApplicable,
	"deny-overrides":     policy.AlgorithmRulesDenyOverrides,
	"permit-overrides":   policy.AlgorithmRulesPermitOverrides,
	"deny-unless-permit": policy.AlgorithmRulesDenyUnlessPermit,
	"permit-unless-deny": policy.AlgorithmRulesPermitUnlessDeny,
}

// shortNames are the functions by the last part of their ids. If several ids end
// with it, the newest one counts.
var shortNames = sync.OnceValue(func() map[string]*function.Function {
	names := map[string]*function.Function{}
	for f := range function.Standard().All() {
		_, name, ok := strings.Cut(f.ID, ":function:")
		if old := names[name]; ok && (old == nil || f.ID > old.ID) {
			names[name] = f
		}
	}
	return names
})

// toscaXACML makes a policy set from the TOSCA form of XACML.
type toscaXACML struct {
	names map[string]*function.Function
}

// translateToscaXACML returns the policy set of a policy of the type ToscaXacml.
func translateToscaXACML(p *tosca.Entity) (*policy.PolicySet, error) {
	x := toscaXACML{shortNames()}
	set := &policy.PolicySet{Header: policy.Header{ID: p.Name, Version: p.Version, Algorithm: policy.AlgorithmFirstApplicable}}
	metadata := p.Body.Get(tosca.Metadata)
	set.Description = metadata.Get("description").Scalar()
	if action := metadata.Get("action").Scalar(); action != "" {
		set.Target = policy.Target{{{actionMatch(functionStringEqual, value.NewString(action))}}}
	}
	for i, ref := range items(p.Properties(), "policySetIdRefs") {
		id, version := ref.Get("id").Scalar(), ref.Get("version").Scalar()
		if id == "" || version == "" {
			return nil, fmt.Errorf("policySetIdRefs, reference %d: expected an id and a version", i+1)
		}
		set.Children = append(set.Children, &policy.Reference{Set: true, ID: id, Version: version})
	}
	for i, inner := range items(p.Properties(), "policies") {
		child, err := x.policy(&inner)
		if err != nil {
			return nil, fmt.Errorf("policies, policy %d: %w", i+1, err)
		}
		set.Children = append(set.Children, child)
	}
	return set, nil
}

// actionMatch returns a match of the id of the action.
func actionMatch(function string, literal value.Value) policy.Match {
	return policy.Match{Function: function, Literal: literal,
		Bag: &policy.Designator{Category: policy.CategoryAction, ID: policy.AttributeActionID, Type: literal.Type()}}
}

// policy returns one policy of the set.
func (x *toscaXACML) policy(v *tosca.Value) (*policy.Policy, error) {
	metadata, properties := v.Get("metadata"), v.Get("properties")
	made := &policy.Policy{Header: policy.Header{ID: metadata.Get("policy-id").Scalar(), Version: metadata.Get("policy-version").Scalar(),
		Description: metadata.Get("description").Scalar()}}
	if made.ID == "" || made.Version == "" {
		return nil, errors.New("the metadata lack policy-id or policy-version")
	}
	name := properties.Get("combiningAlgo").Scalar()
	if made.Algorithm = ruleAlgorithms[name]; made.Algorithm == "" {
		return nil, fmt.Errorf("invalid combiningAlgo %.80q: expected first-applicable, deny-overrides, permit-overrides, deny-unless-permit or permit-unless-deny", name)
	}
	var err error
	if made.Target, err = x.target(properties.Get("target")); err != nil {
		return nil, err
	}
	rules := properties.Get("rules")
	if rules == nil || rules.Kind != tosca.List {
		return nil, errors.New("the property rules is missing or not a list")
	}
	for i := range rules.Items {
		rule, err := x.rule(&rules.Items[i], fmt.Sprintf("%s:rule%d", made.ID, i+1))
		if err != nil {
			return nil, fmt.Errorf("rule %d: %w", i+1, err)
		}
		made.Rules = append(made.Rules, rule)
	}
	if v := properties.Get("default"); v != nil {
		effect, err := effectOf(v)
		if err != nil {
			return nil, fmt.Errorf("default: %w", err)
		}
		made.Rules = append(made.Rules, policy.Rule{ID: made.ID + ":default", Effect: effect})
	}
	return made, nil
}

// effectOf returns the effect that a value names.
func effectOf(v *tosca.Value) (policy.Effect, error) {
	switch text := v.Scalar(); {
	case strings.EqualFold(text, "permit"):
		return policy.Permit, nil
	case strings.EqualFold(text, "deny"):
		return policy.Deny, nil
	default:
		return 0, fmt.Errorf("invalid decision %.80q: expected Permit or Deny", text)
	}
}

// rule returns one rule.
func (x *toscaXACML) rule(v *tosca.Value, id string) (rule policy.Rule, err error) {
	rule.ID, rule.Description = id, v.Get("description").Scalar()
	if rule.Effect, err = effectOf(v.Get("decision")); err != nil {
		return rule, err
	}
	if rule.Target, err = x.target(v.Get("target")); err != nil {
		return rule, err
	}
	if condition := v.Get("condition"); condition != nil {
		if rule.Condition, err = x.nested(condition); err != nil {
			return rule, fmt.Errorf("condition: %w", err)
		}
	}
	if text := v.Get("advice").Get("value"); text != nil {
		rule.Advice = []policy.Obligation{{ID: id + ":advice", On: rule.Effect, Assignments: []policy.Assignment{adviceText(attributeAdviceText, text.Scalar())}}}
	}
	return rule, nil
}

// target returns a target: alternatives of matches.
func (x *toscaXACML) target(v *tosca.Value) (policy.Target, error) {
	if v == nil || v.Kind == tosca.Null {
		return nil, nil
	}
	list := v.Get("anyOne")
	if list == nil || list.Kind != tosca.List || len(list.Items) == 0 {
		return nil, errors.New("target: expected a list of alternatives in anyOne")
	}
	var any policy.AnyOf
	for i := range list.Items {
		matches := items(&list.Items[i], "allOf")
		if len(matches) == 0 {
			return nil, errors.New("target: expected a list of matches in allOf")
		}
		var all policy.AllOf
		for j := range matches {
			m, err := x.match(&matches[j])
			if err != nil {
				return nil, fmt.Errorf("target: %w", err)
			}
			all = append(all, m)
		}
		any = append(any, all)
	}
	return policy.Target{any}, nil
}

// match returns a match of an attribute of the resource, or of the action for the
// key action-id.
func (x *toscaXACML) match(v *tosca.Value) (m policy.Match, err error) {
	key := v.Get("key").Scalar()
	f, err := x.find(v.Get("operator"))
	if err != nil {
		return m, err
	}
	if key == "" || v.Get("value") == nil || len(f.Signature.Params) == 0 {
		return m, fmt.Errorf("match with %s: expected a key and a value", f.ID)
	}
	parsed, err := value.Parse(f.Signature.Param(0).Type, v.Get("value").Scalar())
	if err != nil {
		return m, err
	}
	if key == "action-id" {
		return actionMatch(f.ID, parsed), nil
	}
	return match(f.ID, parsed, key), nil
}

// find returns the function that an operator names.
func (x *toscaXACML) find(operator *tosca.Value) (*function.Function, error) {
	if f := x.names[operator.Scalar()]; f != nil {
		return f, nil
	}
	return nil, fmt.Errorf("unknown operator %.80q: expected the last part of the id of a function, for example string-equal", operator.Scalar())
}

// nested returns the expression of a map with the member apply or expr.
func (x *toscaXACML) nested(v *tosca.Value) (policy.Expression, error) {
	if expr := v.Get("expr"); expr != nil {
		return parseInfix(expr.Scalar())
	}
	a := v.Get("apply")
	if a == nil || a.Kind != tosca.Map {
		return nil, errors.New("expected apply with an operator and keys, or expr")
	}
	return x.apply(a)
}

// apply returns a call of a function with keys, and the value that they are
// compared with as the last argument.
func (x *toscaXACML) apply(v *tosca.Value) (policy.Expression, error) {
	f, err := x.find(v.Get("operator"))
	if err != nil {
		return nil, err
	}
	keys := v.Get("keys")
	if keys == nil || keys.Kind != tosca.List {
		return nil, fmt.Errorf("%s: the member keys is missing or not a list", v.Get("operator").Scalar())
	}
	call := &policy.Apply{Function: f.ID}
	typed := f // the function whose parameters give the types of the keys
	for i := range keys.Items {
		if name := keys.Items[i].Get("function"); name != nil {
			if typed, err = x.find(name); err != nil {
				return nil, err
			}
		}
	}
	for i := range keys.Items {
		e, err := x.key(&keys.Items[i], typeAt(typed, i, typed != f))
		if err != nil {
			return nil, fmt.Errorf("%s, key %d: %w", v.Get("operator").Scalar(), i+1, err)
		}
		call.Arguments = append(call.Arguments, e)
	}
	if with := v.Get("compareWith"); with != nil {
		e, err := x.compareWith(with, typeAt(f, len(keys.Items), false))
		if err != nil {
			return nil, fmt.Errorf("%s, compareWith: %w", v.Get("operator").Scalar(), err)
		}
		call.Arguments = append(call.Arguments, e)
	}
	return call, nil
}

// typeAt returns the type of argument i of a function. All arguments of a
// higher-order function have the type of the first parameter of the inner one.
func typeAt(f *function.Function, i int, higher bool) value.Type {
	n := len(f.Signature.Params)
	if n == 0 {
		return value.String
	}
	if higher {
		i = 0
	}
	if i >= n && f.Signature.Repeat == 0 {
		i = n - 1 // one argument too many, which the compiler rejects
	}
	return f.Signature.Param(i).Type
}

// key returns an argument: a literal, a parameter of the request, a list, a
// function or a call.
func (x *toscaXACML) key(v *tosca.Value, t value.Type) (policy.Expression, error) {
	if v.Kind != tosca.Map {
		return single(v, t)
	}
	if list := v.Get("list"); list != nil {
		bag := &policy.Apply{}
		f, err := x.find(&tosca.Value{Kind: tosca.String, Text: t.String() + "-bag"})
		if err != nil {
			return nil, err
		}
		bag.Function = f.ID
		for i := range list.Items {
			e, err := single(&list.Items[i], t)
			if err != nil {
				return nil, err
			}
			bag.Arguments = append(bag.Arguments, e)
		}
		return bag, nil
	}
	if name := v.Get("function"); name != nil {
		f, err := x.find(name)
		if err != nil {
			return nil, err
		}
		return &policy.FunctionReference{ID: f.ID}, nil
	}
	return x.nested(v)
}

// single returns a literal or a parameter. A string in single quotes is a
// literal; another string names an attribute of the resource.
func single(v *tosca.Value, t value.Type) (policy.Expression, error) {
	switch v.Kind {
	case tosca.List, tosca.Map, tosca.Null:
		return nil, fmt.Errorf("expected a value or the name of a parameter, got %s", v.Kind)
	case tosca.String:
		text, quoted := strings.CutPrefix(v.Text, "'")
		if quoted {
			text, quoted = strings.CutSuffix(text, "'")
		}
		if !quoted {
			return parameter(v.Text, t), nil
		}
		return parsed(text, t)
	}
	return parsed(v.Text, t)
}

// parameter returns the only value of an attribute of the resource.
func parameter(name string, t value.Type) policy.Expression {
	return apply(functions1+oneAndOnly(t), resource(name, t))
}

// oneAndOnly returns the name of the function that returns the only value of a
// bag.
func oneAndOnly(t value.Type) string { return t.String() + "-one-and-only" }

// parsed returns a literal.
func parsed(text string, t value.Type) (policy.Expression, error) {
	v, err := value.Parse(t, text)
	if err != nil {
		return nil, err
	}
	return literal(v), nil
}

// compareWith returns the last argument of a comparison: a call, a value or a
// parameter.
func (x *toscaXACML) compareWith(v *tosca.Value, t value.Type) (policy.Expression, error) {
	switch {
	case v.Get("apply") != nil:
		return x.nested(v)
	case v.Get("value") != nil:
		return parsed(v.Get("value").Scalar(), t)
	case v.Get("key") != nil:
		return parameter(v.Get("key").Scalar(), t), nil
	}
	return nil, errors.New("expected apply, value or key")
}
