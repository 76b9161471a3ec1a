package pdp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ostiary/ostiary/door/onap/internal/tosca"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/value"
)

// The types of guard policies.
const (
	guardTypes            = "onap.policies.controlloop.guard."
	typeFrequency         = guardTypes + "common.FrequencyLimiter"
	typeMinMax            = guardTypes + "common.MinMax"
	typeBlacklist         = guardTypes + "common.Blacklist"
	typeFilter            = guardTypes + "common.Filter"
	typeFirstBlocksSecond = guardTypes + "coordination.FirstBlocksSecond"
)

// anything is a value of a guard that matches every value.
const anything = ".*"

// translateGuard makes the policy of a guard.
func translateGuard(_ context.Context, p *tosca.Entity, _ Types) (translated, error) {
	properties := p.Properties()
	if properties == nil {
		return translated{}, errors.New("the guard has no properties")
	}
	typ, _ := p.Type()
	made := &policy.Policy{Header: policy.Header{ID: p.Name, Version: p.Version, Algorithm: policy.AlgorithmRulesDenyUnlessPermit}}
	rules := map[string]func(*policy.Policy, *tosca.Value) error{typeFrequency: frequencyRules, typeMinMax: minMaxRules,
		typeBlacklist: blacklistRules, typeFilter: filterRules, typeFirstBlocksSecond: coordinationRules}[typ]
	if err := rules(made, properties); err != nil {
		return translated{}, err
	}
	if typ == typeFirstBlocksSecond {
		return translated{element: made}, nil
	}
	var err error
	if made.Target, err = guardTarget(properties, typ != typeBlacklist); err == nil {
		err = addTimeRange(made, properties)
	}
	return translated{element: made}, err
}

// guardTarget returns the target of a guard: actor, operation, target and control
// loop, where they are given.
func guardTarget(properties *tosca.Value, withTarget bool) (policy.Target, error) {
	var all policy.AllOf
	for _, part := range []struct{ property, attribute string }{{"actor", attributeActor}, {"operation", attributeOperation},
		{"target", attributeGuardTarget}, {"id", attributeLoop}} {
		text, err := scalar(properties, part.property)
		if err != nil {
			return nil, err
		}
		if text != "" && text != anything && (withTarget || part.property != "target") {
			all = append(all, matchString(text, part.attribute))
		}
	}
	if all == nil {
		return nil, nil
	}
	return policy.Target{{all}}, nil
}

// addTimeRange adds the time range of a guard to the conditions of its rules.
func addTimeRange(made *policy.Policy, properties *tosca.Value) error {
	span := properties.Get("timeRange")
	if span == nil || span.Kind == tosca.Null {
		return nil
	}
	var ends [2]value.Value
	for i, name := range []string{"start_time", "end_time"} {
		text, err := scalar(span, name)
		if err != nil {
			return err
		}
		if ends[i], err = value.Parse(value.Time, text); err != nil || !ends[i].HasZone() {
			return fmt.Errorf("property timeRange.%s: invalid time %.80q: expected a time with an offset, for example 08:00:00Z", name, text)
		}
	}
	now := apply(functions1+"time-one-and-only", &policy.Designator{Category: policy.CategoryEnvironment, ID: policy.AttributeCurrentTime, Type: value.Time})
	const variable = "timeInRange"
	made.Variables = []policy.Variable{{ID: variable, Expression: apply(functionInRecurringRange, now, literal(ends[0]), literal(ends[1]))}}
	for i := range made.Rules {
		var inRange policy.Expression = &policy.VariableReference{ID: variable}
		if made.Rules[i].Condition != nil {
			inRange = apply(functionAnd, inRange, made.Rules[i].Condition)
		}
		made.Rules[i].Condition = inRange
	}
	return nil
}

// frequencyRules permits an operation if the history has fewer than limit.
func frequencyRules(made *policy.Policy, properties *tosca.Value) error {
	limit, err := requiredInteger(properties, "limit")
	if err != nil {
		return err
	}
	window, err := requiredInteger(properties, "timeWindow")
	if err != nil {
		return err
	}
	units, err := scalar(properties, "timeUnits")
	if err != nil {
		return err
	}
	issuer, err := windowIssuer(window, units)
	if err != nil {
		return err
	}
	count := resource(attributeOperationCount, value.Integer)
	count.Issuer = issuer
	made.Rules = []policy.Rule{{ID: made.ID + ":frequency", Effect: policy.Permit,
		Condition: apply(functionIntegerLess, apply(functions1+"integer-one-and-only", count), literal(limit))}}
	return nil
}

// requiredInteger is [integer] for a property that must be given.
func requiredInteger(properties *tosca.Value, name string) (value.Value, error) {
	n, given, err := integer(properties, name)
	if err == nil && !given {
		err = missing(name)
	}
	return n, err
}

// missing returns an error for a property that is not given.
func missing(name string) error { return fmt.Errorf("the property %s is missing", name) }

// minMaxRules permits an operation on the target if the number of its instances
// is below min or below max.
func minMaxRules(made *policy.Policy, properties *tosca.Value) error {
	target, err := scalar(properties, "target")
	if err != nil {
		return err
	}
	if target == "" {
		return missing("target")
	}
	for _, bound := range []string{"min", "max"} {
		n, given, err := integer(properties, bound)
		if err != nil {
			return err
		}
		if !given {
			continue
		}
		all := policy.AllOf{match(functionIntegerGreater, n, attributeCount)}
		if target != anything {
			all = append(all, matchString(target, attributeGuardTarget))
		}
		made.Rules = append(made.Rules, policy.Rule{ID: made.ID + ":" + bound, Effect: policy.Permit, Target: policy.Target{{all}}})
	}
	if made.Rules == nil {
		return errors.New("the properties min and max are missing: expected one of them or both")
	}
	return nil
}

// checkNumbers fails if a guard that could be translated has a number that makes
// it deny everything, or that contradicts another one: a limit below 1, a negative
// min or max, or a min above max.
func checkNumbers(typ string, properties *tosca.Value) error {
	switch typ {
	case typeFrequency:
		_, _, err := integerFrom(properties, "limit", 1)
		return err
	case typeMinMax:
		lowest, givenMin, err := integerFrom(properties, "min", 0)
		if err != nil {
			return err
		}
		highest, givenMax, err := integerFrom(properties, "max", 0)
		if err == nil && givenMin && givenMax && less(highest, lowest) {
			err = fmt.Errorf("invalid property min %.80s: expected at most max, which is %.80s", lowest.Text(), highest.Text())
		}
		return err
	}
	return nil
}

// integerFrom is [integer] for a property that must be at least a number.
func integerFrom(properties *tosca.Value, name string, least int64) (n value.Value, given bool, err error) {
	n, given, err = integer(properties, name)
	if given && less(n, value.NewInteger(least)) {
		err = fmt.Errorf("invalid property %s %.80s: expected %d or more", name, n.Text(), least)
	}
	return n, given, err
}

// less reports whether an integer is less than another.
func less(a, b value.Value) bool {
	order, _ := value.Compare(a, b, time.UTC)
	return order < 0
}

// blacklistRules denies operations on the listed targets.
func blacklistRules(made *policy.Policy, properties *tosca.Value) error {
	made.Algorithm = policy.AlgorithmRulesPermitUnlessDeny
	v := properties.Get("blacklist")
	if v == nil || v.Kind != tosca.List {
		return errors.New("the property blacklist is missing or not a list")
	}
	rule := policy.Rule{ID: made.ID + ":blacklist", Effect: policy.Deny}
	var any policy.AnyOf
	all := false
	for i := range v.Items {
		item := &v.Items[i]
		if item.Kind == tosca.List || item.Kind == tosca.Map || item.Kind == tosca.Null {
			return fmt.Errorf("property blacklist: expected strings, got %s", item.Kind)
		}
		all = all || item.Text == anything
		any = append(any, policy.AllOf{matchString(item.Text, attributeGuardTarget)})
	}
	switch {
	case any == nil:
		return nil // an empty list denies nothing
	case !all:
		rule.Target = policy.Target{any}
	}
	made.Rules = []policy.Rule{rule}
	return nil
}

// filterFields are the attributes that a filter can test.
var filterFields = []string{"generic-vnf.vnf-name", "generic-vnf.vnf-id", "generic-vnf.vnf-type", "generic-vnf.nf-naming-code",
	"vserver.vserver-id", "cloud-region.cloud-region-id"}

// filterFunctions are the functions of filters, by their names.
var filterFunctions = map[string]string{
	"string-equal":                 functionStringEqual,
	"string-equal-ignore-case":     functions3 + "string-equal-ignore-case",
	"string-regexp-match":          functions1 + "string-regexp-match",
	"string-contains":              functions3 + "string-contains",
	"string-greater-than":          functions1 + "string-greater-than",
	"string-greater-than-or-equal": functions1 + "string-greater-than-or-equal",
	"string-less-than":             functions1 + "string-less-than",
	"string-less-than-or-equal":    functions1 + "string-less-than-or-equal",
	"string-starts-with":           functions3 + "string-starts-with",
	"string-ends-with":             functions3 + "string-ends-with",
}

// filterRules permits or denies operations by the attributes of their target.
func filterRules(made *policy.Policy, properties *tosca.Value) error {
	algorithm, err := scalar(properties, "algorithm")
	if err != nil {
		return err
	}
	switch algorithm {
	case "whitelist-overrides":
		made.Algorithm = policy.AlgorithmRulesPermitOverrides
	case "blacklist-overrides":
		made.Algorithm = policy.AlgorithmRulesDenyOverrides
	default:
		return fmt.Errorf("invalid property algorithm %.80q: expected blacklist-overrides or whitelist-overrides", algorithm)
	}
	v := properties.Get("filters")
	if v == nil || v.Kind != tosca.List {
		return errors.New("the property filters is missing or not a list")
	}
	for i := range v.Items {
		rule, err := filterRule(&v.Items[i])
		if err != nil {
			return fmt.Errorf("filter %d: %w", i+1, err)
		}
		rule.ID = fmt.Sprintf("%s:rule%d", made.ID, i+1)
		made.Rules = append(made.Rules, rule)
	}
	return nil
}

// filterRule returns the rule of one filter. The filter's value is the first
// argument of its function.
func filterRule(v *tosca.Value) (rule policy.Rule, err error) {
	var texts [3]string
	for i, name := range []string{"field", "function", "filter"} {
		if texts[i], err = scalar(v, name); err != nil {
			return rule, err
		}
		if v.Get(name) == nil {
			return rule, missing(name)
		}
	}
	field, name, filter := strings.ToLower(texts[0]), strings.ToLower(texts[1]), texts[2]
	f := filterFunctions[name]
	if f == "" {
		return rule, fmt.Errorf("invalid function %.80q: expected string-equal, string-contains or another comparison of strings", texts[1])
	}
	known := false
	for _, k := range filterFields {
		known = known || k == field
	}
	if !known {
		return rule, fmt.Errorf("invalid field %.80q: expected one of %s", texts[0], strings.Join(filterFields, ", "))
	}
	if name == "string-regexp-match" {
		filter = "^(" + filter + ")$" // ONAP's expressions match a whole value
	}
	rule.Target = policy.Target{{{match(f, value.NewString(filter), attributeTargetPrefix+field)}}}
	switch black := v.Get("blacklist"); black.Scalar() {
	case "true":
		rule.Effect = policy.Deny
	case "false":
		rule.Effect = policy.Permit
	default:
		return rule, errors.New("the member blacklist is missing: expected true or false")
	}
	return rule, nil
}

// coordinationRules denies operations of the second control loop while the
// latest operation of the first one is in progress.
func coordinationRules(made *policy.Policy, properties *tosca.Value) error {
	loops := items(properties, "controlLoop")
	if len(loops) != 2 || loops[0].Scalar() == "" || loops[1].Scalar() == "" {
		return errors.New("invalid property controlLoop: expected the names of two control loops")
	}
	made.Algorithm = policy.AlgorithmRulesPermitUnlessDeny
	made.Target = policy.Target{{{matchString(loops[1].Text, attributeLoop)}}}
	outcome := resource(attributeOutcome, value.String)
	outcome.Issuer = issuerOutcome + loops[0].Text
	made.Rules = []policy.Rule{{ID: made.ID + ":rule:1", Effect: policy.Deny,
		Condition: apply(functions3+"string-equal-ignore-case", apply(functions1+"string-one-and-only", outcome), literal(value.NewString(inProgress)))}}
	return nil
}
