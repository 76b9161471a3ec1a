package pdp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/door/onap/internal/catalog"
	"github.com/ostiary/ostiary/door/onap/internal/pdp"
	"github.com/ostiary/ostiary/door/onap/internal/tosca"
	"github.com/ostiary/ostiary/internal/workshop/doortest"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/value"
)

// preloaded are the templates that a new catalog has.
type preloaded []*tosca.Template

func (p preloaded) Find(s tosca.Section, name, version string) *tosca.Entity {
	for _, t := range p {
		for _, e := range t.In(s) {
			if e.Name == name && (version == "" || e.Version == version) {
				return e
			}
		}
	}
	return nil
}

func (p preloaded) Ancestors(e *tosca.Entity) (all []*tosca.Entity) {
	for ; e != nil; e = p.Find(e.Section, e.DerivedFrom(), "") {
		all = append(all, e)
	}
	return all
}

const (
	guards  = "onap.policies.controlloop.guard."
	rules   = `"policies":[{"metadata":{"policy-id":"p","policy-version":"1.0.0","description":"d"},"properties":{"combiningAlgo":"permit-overrides","default":"Deny","rules":[`
	closing = `]}}]`
)

// variedPolicies are the type of a policy, and its properties.
var variedPolicies = [][2]string{
	{guards + "common.FrequencyLimiter", `{"actor":"SO","operation":"x","target":"t","id":"c","limit":3,"timeWindow":1,"timeUnits":"hour","timeRange":{"start_time":"08:00:00Z","end_time":"18:00:00Z"}}`},
	{guards + "common.MinMax", `{"actor":"SO","operation":"x","target":"t","id":"c","min":3,"max":7,"timeRange":{"start_time":"08:00:00Z","end_time":"18:00:00Z"}}`},
	{guards + "common.Blacklist", `{"actor":"SO","operation":"x","id":"c","blacklist":["t"],"timeRange":{"start_time":"08:00:00Z","end_time":"18:00:00Z"}}`},
	{guards + "common.Filter", `{"actor":"SO","operation":"x","id":"c","algorithm":"whitelist-overrides","filters":[{"field":"generic-vnf.vnf-name","filter":"v","function":"string-equal","blacklist":false}]}`},
	{guards + "common.Filter", `{"actor":"SO","operation":"x","algorithm":"blacklist-overrides","filters":[{"field":"generic-vnf.vnf-name","filter":"v.*","function":"string-regexp-match","blacklist":true}]}`},
	{guards + "coordination.FirstBlocksSecond", `{"controlLoop":["first","c"]}`},
	{"onap.policies.optimization.resource.AffinityPolicy", `{"scope":["gold"],"services":["s"],"resources":["r"],"geography":["US"],"identity":"affinity","applicableResources":"any","affinityProperties":{"qualifier":"same","category":"region"}}`},
	{"onap.policies.optimization.service.SubscriberPolicy", `{"scope":[],"services":[],"geography":[],"identity":"i","subscriberProperties":{"subscriberName":["anne"],"subscriberRole":["gold"],"provStatus":["CAPPED"]}}`},
	{"onap.policies.monitoring.x", `{"n":1}`},
	{"onap.policies.native.ToscaXacml", `{` + rules + `{"description":"r","target":{"anyOne":[{"allOf":[{"key":"a","operator":"integer-equal","value":5}]}]},"decision":"Permit","advice":{"value":"x"}}` + closing + `}`},
	{"onap.policies.native.ToscaXacml", `{` + rules + `{"target":{"anyOne":[{"allOf":[{"key":"action-id","operator":"string-equal","value":"run"}]}]},"decision":"Permit"}` + closing + `}`},
	{"onap.policies.native.ToscaXacml", `{` + rules + `{"condition":{"apply":{"operator":"integer-greater-than","keys":["a"],"compareWith":{"value":4}}},"decision":"permit"}` + closing + `}`},
	{"onap.policies.native.ToscaXacml", `{` + rules + `{"condition":{"apply":{"operator":"integer-greater-than","keys":["a"],"compareWith":{"key":"b"}}},"decision":"permit"}` + closing + `}`},
	{"onap.policies.native.ToscaXacml", `{` + rules + `{"condition":{"apply":{"operator":"integer-equal","keys":[{"apply":{"operator":"integer-add","keys":["b"],"compareWith":{"value":2}}}],"compareWith":{"apply":{"operator":"integer-abs","keys":["a"]}}}},"decision":"permit"}` + closing + `}`},
	{"onap.policies.native.ToscaXacml", `{` + rules + `{"condition":{"apply":{"operator":"any-of","keys":[{"function":"string-equal"},"'x'",{"list":["'x'"]}]}},"decision":"permit"}` + closing + `}`},
	{"onap.policies.native.ToscaXacml", `{` + rules + `{"condition":{"apply":{"operator":"string-is-in","keys":["'x'",{"list":["n"]}]}},"decision":"permit"}` + closing + `}`},
	{"onap.policies.native.ToscaXacml", `{` + rules + `{"condition":{"expr":"f * 2 > 4.5"},"decision":"permit"}` + closing + `}`},
	{"onap.policies.native.ToscaXacml", `{"policySetIdRefs":[{"id":"other","version":"1.0.0"}]}`},
	{"onap.policies.native.Xacml", `{"policy":"PFBvbGljeSB4bWxucz0idXJuOm9hc2lzOm5hbWVzOnRjOnhhY21sOjMuMDpjb3JlOnNjaGVtYTp3ZC0xNyIgUG9saWN5SWQ9InAiIFZlcnNpb249IjEiIFJ1bGVDb21iaW5pbmdBbGdJZD0idXJuOm9hc2lzOm5hbWVzOnRjOnhhY21sOjMuMDpydWxlLWNvbWJpbmluZy1hbGdvcml0aG06ZGVueS1vdmVycmlkZXMiPjxUYXJnZXQvPjxSdWxlIFJ1bGVJZD0iciIgRWZmZWN0PSJQZXJtaXQiLz48L1BvbGljeT4="}`},
}

// affinity is deployed together with each policy for optimization, so that a request
// with a subscriber finds a policy.
const affinity = `{"other":{"version":"1.0.0","type":"onap.policies.optimization.resource.AffinityPolicy","type_version":"1.0.0","properties":{"scope":["gold"],"services":[],"resources":[],"geography":[]}}}`

// variedRequests are what the policies decide.
var variedRequests = []string{
	`{"action":"guard","currentTime":"10:00:00Z","resource":{"guard":{"actor":"SO","operation":"x","target":"t","clname":"c","vfCount":9,"generic-vnf.vnf-name":"v"}}}`,
	`{"action":"guard","currentTime":"10:00:00Z","resource":{"guard":{"actor":"SO","operation":"x","target":"t","clname":"c","vfCount":5}}}`,
	`{"action":"guard","currentTime":"10:00:00Z","resource":{"guard":{"actor":"VF","operation":"x","target":"t","clname":"c","vfCount":2}}}`,
	`{"action":"guard","currentTime":"10:00:00Z","resource":{"guard":{"actor":"SO","operation":"x","target":"u","clname":"c","vfCount":5,"generic-vnf.vnf-name":"vw"}}}`,
	`{"action":"guard","currentTime":"10:00:00Z","resource":{"guard":{"actor":"SO","operation":"y","target":"t","clname":"c","vfCount":9}}}`,
	`{"action":"guard","currentTime":"20:00:00Z","resource":{"guard":{"actor":"SO","operation":"x","target":"t","clname":"d","vfCount":9}}}`,
	`{"action":"optimize","context":{"subscriberName":["anne"]},"resource":{"scope":["gold"],"services":["s"],"resources":["r"],"geography":["US"]}}`,
	`{"action":"optimize","resource":{"scope":["gold"],"services":["s"],"resources":["r"],"geography":["US"]}}`,
	`{"action":"optimize","resource":{"scope":"gold"}}`,
	`{"action":"optimize","resource":{"policy-type":"onap.policies.optimization.service.SubscriberPolicy","scope":["none"]}}`,
	`{"action":"configure","resource":{"policy-id":"p"}}`,
}

// TestVariants compiles variants of policies, in which a member is missing, unknown
// or has another value, and compares the errors, or the decisions of some requests,
// with testdata/variants.txt.
func TestVariants(t *testing.T) {
	t.Parallel()
	types, err := catalog.Preloaded()
	if err != nil {
		t.Fatal(err)
	}
	doortest.Variants{File: "testdata/variants.txt", Requests: variedPolicies, Open: func(t *testing.T, typ string) func([]byte) string {
		return func(properties []byte) string {
			text := fmt.Sprintf(`{"p":{"version":"1.0.0","type":%q,"type_version":"1.0.0","metadata":{"action":"run","description":"d"},"properties":%s}}`, typ, properties)
			if strings.Contains(typ, ".optimization.") {
				text += "," + affinity
			}
			list := policies(t, text)
			e, err := pdp.Compile(t.Context(), nil, list, preloaded(types))
			if err != nil {
				return err.Error()
			}
			return decisions(t, e, strings.HasPrefix(typ, guards))
		}
	}}.Run(t)
}

// decisions returns what an engine decides about the requests for guards, or about
// the others. It has nothing for a request to which no policy applies.
func decisions(t *testing.T, e *pdp.Engine, guard bool) string {
	t.Helper()
	var all []string
	in := &pdp.Inputs{Now: func() time.Time { return time.Date(2026, 1, 2, 10, 0, 0, 0, time.UTC) }, History: history{count: 3, outcome: "Started"}}
	for _, text := range variedRequests {
		if strings.Contains(text, `"guard"`) != guard {
			continue
		}
		out, _ := e.Decide(context.Background(), nil, request(t, text), in)
		var answer struct {
			Status, Message string
			Advice          json.RawMessage
			Policies        map[string]json.RawMessage
		}
		if err := json.Unmarshal(out, &answer); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if answer.Status != "NotApplicable" && answer.Status != "error" || answer.Message != "" {
			all = append(all, strings.Join(strings.Fields(fmt.Sprintf("%s %s %s %v", answer.Status, answer.Message, answer.Advice, slices.Sorted(maps.Keys(answer.Policies)))), " "))
		}
	}
	for _, a := range []int64{5, 4} {
		resource := []policy.Attribute{{ID: "a", Values: []value.Value{value.NewInteger(a)}}, {ID: "b", Values: []value.Value{value.NewInteger(3)}},
			{ID: "n", Values: []value.Value{value.NewString("x")}}, {ID: "f", Values: []value.Value{value.NewDouble(2.5)}}}
		r := &policy.Request{Categories: []policy.Category{{Name: policy.CategoryResource, Attributes: resource},
			{Name: policy.CategoryAction, Attributes: []policy.Attribute{{ID: policy.AttributeActionID, Values: []value.Value{value.NewString("run")}}}}}}
		for _, result := range e.DecideNative(context.Background(), r, in) {
			if result.Decision != policy.NotApplicable {
				all = append(all, fmt.Sprintf("%s with %d", result.Decision, len(result.Advice)))
			}
		}
	}
	return strings.Join(all, ", ")
}
