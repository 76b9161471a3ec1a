package pdp_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/door/onap/internal/catalog"
	"github.com/ostiary/ostiary/door/onap/internal/pdp"
)

const (
	ruleText = `{"policies":[{"metadata":{"policy-id":"p","policy-version":"1.0.0","owner":{"any":1}},"properties":{"combiningAlgo":"deny-overrides","description":"d","default":"Deny",
"target":{"anyOne":[{"allOf":[{"key":"a","operator":"integer-equal","value":5}]}]},
"rules":[{"description":"r","decision":"Permit","advice":{"value":"x"},"target":{"anyOne":[{"allOf":[{"key":"a","operator":"integer-equal","value":5}]}]},
"condition":{"apply":{"operator":"or","keys":[{"apply":{"operator":"any-of","keys":[{"function":"string-equal"},"n",{"list":["x","y"]}]}},{"apply":{"operator":"integer-equal","keys":["a"],"compareWith":{"value":5}}}]}}},
{"decision":"Deny","condition":{"expr":"a < 5"}}]}}]}`
	minMaxText  = `{"actor":"SO","operation":"x","target":"t","id":"c","timeRange":{"start_time":"08:00:00Z","end_time":"18:00:00Z"},"min":1,"max":5}`
	filterText  = `{"actor":"SO","operation":"x","algorithm":"whitelist-overrides","filters":[{"field":"generic-vnf.vnf-name","filter":"v","function":"string-equal","blacklist":false}]}`
	serviceText = `{"scope":["s"],"services":["x"],"geography":["US"],"identity":"i","subscriberProperties":{"subscriberName":["n"],"subscriberRole":["r"],"provStatus":["p"]}}`
)

// TestCheckMembers checks new policies in which one place differs from a valid one. What is
// stored already is translated as before: an unknown member is ignored.
func TestCheckMembers(t *testing.T) {
	t.Parallel()
	types, err := catalog.Preloaded()
	if err != nil {
		t.Fatal(err)
	}
	const native, guard = "onap.policies.native.ToscaXacml", "onap.policies.controlloop.guard.common."
	for _, c := range []struct{ typ, valid, old, new, want string }{
		{native, ruleText, "", "", ""},
		{native, ruleText, `"advice":{"value":"x"}`, `"advice":"text"`, "properties.policies[0].properties.rules[0].advice: expected a map, got a string"},
		{native, ruleText, `"advice":{"value":"x"}`, `"advice":{"text":"x"}`, `rules[0].advice: unknown member "text": expected one of value`},
		{native, ruleText, `"advice":{"value":"x"}`, `"advice":{"value":["x"]}`, "rules[0].advice.value: expected a string, a number or a boolean, got a list"},
		{native, ruleText, `"condition":{"apply"`, `"conditon":{"apply"`, `rules[0]: unknown member "conditon": expected one of advice, condition, decision, description, target`},
		{native, ruleText, `"condition":{"expr"`, `"Condition":{"expr"`, `rules[1]: unknown member "Condition"`},
		{native, ruleText, `"combiningAlgo"`, `"algorithm"`, `properties.policies[0].properties: unknown member "algorithm": expected one of combiningAlgo, default, description, rules, target`},
		{native, ruleText, `"combiningAlgo":"deny-overrides"`, `"combiningAlgo":[]`, "properties.combiningAlgo: expected a string"},
		{native, ruleText, `"default"`, `"defaults"`, `unknown member "defaults"`},
		{native, ruleText, `"description":"d"`, `"obligations":[]`, `unknown member "obligations"`},
		{native, ruleText, `"value":5}]}]},` + "\n" + `"rules"`, `"value":5,"negate":true}]}]},` + "\n" + `"rules"`, `target.anyOne[0].allOf[0]: unknown member "negate"`},
		{native, ruleText, `"allOf":[{"key":"a","operator":"integer-equal","value":5}]}]},` + "\n" + `"rules"`, `"allOf":{"key":"a","operator":"integer-equal","value":5}}]},` + "\n" + `"rules"`, "target.anyOne[0].allOf: expected a list, got a map"},
		{native, ruleText, `"compareWith":{"value":5}`, `"compareWith":{"value":5,"key":"a"}`, "compareWith: 2 members: expected one of apply, key, value"},
		{native, ruleText, `"compareWith"`, `"comparewith"`, `unknown member "comparewith"`},
		{native, ruleText, `{"list":["x","y"]}`, `{"list":["x"],"function":"string-equal"}`, "keys[2]: 2 members: expected one of apply, expr, function, list"},
		{native, ruleText, `{"expr":"a < 5"}`, `{"expr":"a < 5","apply":{"operator":"and","keys":[]}}`, "rules[1].condition: 2 members: expected one of apply, expr"},
		{native, ruleText, `{"policies"`, `{"appliesTo":{},"policies"`, `properties: unknown member "appliesTo": expected one of description, policies, policySetIdRefs`},
		{native, ruleText, `"metadata":{`, `"rules":[],"metadata":{`, `properties.policies[0]: unknown member "rules"`},
		{guard + "MinMax", minMaxText, "", "", ""},
		{guard + "MinMax", minMaxText, `"max"`, `"maximum"`, `properties: unknown member "maximum": expected one of actor, id, max, min, operation, target, timeRange`},
		{guard + "MinMax", minMaxText, `"timeRange"`, `"timerange"`, `properties: unknown member "timerange"`},
		{guard + "MinMax", minMaxText, `"actor"`, `"Actor"`, `properties: unknown member "Actor"`},
		{guard + "Filter", filterText, "", "", ""},
		{guard + "Filter", filterText, `"blacklist":false`, `"blacklist":false,"negate":true`, `properties.filters[0]: unknown member "negate": expected one of blacklist, field, filter, function`},
		{guard + "Filter", filterText, `"whitelist-overrides"`, `"none"`, `invalid property algorithm "none"`},
		{"onap.policies.optimization.service.SubscriberPolicy", serviceText, "", "", ""},
		{"onap.policies.optimization.service.SubscriberPolicy", serviceText, `"scope"`, `"resources":[],"scope"`, ""}, // as ONAP's own plans send it
		{"onap.policies.optimization.service.SubscriberPolicy", serviceText, `"provStatus"`, `"prov":1,"provStatus"`, ""},
		{"onap.policies.monitoring.tcagen2", `{"any":{"thing":1}}`, "", "", ""},
	} {
		text := strings.Replace(c.valid, c.old, c.new, 1)
		if c.old != "" && text == c.valid {
			t.Fatalf("%s is not in %s", c.old, c.valid)
		}
		list := policies(t, fmt.Sprintf(`{"p":{"version":"1.0.0","type":%q,"type_version":"1.0.0","properties":%s}}`, c.typ, text))
		switch err := pdp.Check(t.Context(), list[0], preloaded(types)); {
		case c.want == "" && err != nil:
			t.Errorf("%s %s: %v", c.typ, text, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s with %s: %v, want %q", c.typ, c.new, err, c.want)
		}
		if strings.Contains(c.want, "unknown member") {
			if _, err := pdp.Compile(t.Context(), nil, list, preloaded(types)); err != nil && !strings.Contains(err.Error(), "number of arguments") {
				t.Errorf("stored, with %s: %v", c.new, err)
			}
		}
	}
}
