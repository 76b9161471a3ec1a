package policy_test

import (
	"strings"
	"testing"

	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/status"
	"github.com/ostiary/ostiary/policy/value"
)

// TestDifferences changes each part of a result that matters, and each that does
// not.
func TestDifferences(t *testing.T) {
	t.Parallel()
	argument := func(id string) policy.Argument { return policy.Argument{ID: id, Value: value.NewString(id)} }
	result := func() policy.Result {
		return policy.Result{Decision: policy.Denied,
			Obligations: []policy.Duty{{ID: "o1", Arguments: []policy.Argument{argument("a"), argument("b")}}, {ID: "o2"}},
			Advice:      []policy.Duty{{ID: "advice"}},
			Categories:  []policy.Category{{Name: "c", Attributes: []policy.Attribute{{ID: "x", Values: []value.Value{value.NewString("1"), value.NewString("2")}}}}},
			Policies:    []policy.PolicyVersion{{ID: "p", Version: "1.0"}, {Set: true, ID: "s", Version: "1.0"}}}
	}
	for _, c := range []struct {
		change func(*policy.Result)
		want   string
	}{
		{func(*policy.Result) {}, ""},
		{func(r *policy.Result) { r.Obligations[0], r.Obligations[1] = r.Obligations[1], r.Obligations[0] }, ""},
		{func(r *policy.Result) {
			a := r.Obligations[0].Arguments
			a[0], a[1] = a[1], a[0]
		}, ""},
		{func(r *policy.Result) { r.Policies[0], r.Policies[1] = r.Policies[1], r.Policies[0] }, ""},
		{func(r *policy.Result) { r.Decision = policy.Permitted }, "decision Permit, expected Deny"},
		{func(r *policy.Result) { r.Status = &status.Error{Code: status.ProcessingError} }, "status code " + string(status.ProcessingError) + ", expected " + string(status.OK)},
		{func(r *policy.Result) { r.Obligations = r.Obligations[:1] }, `missing obligation "o2" ()`},
		{func(r *policy.Result) { r.Obligations = append(r.Obligations, r.Obligations[1]) }, `unexpected obligation "o2" ()`},
		{func(r *policy.Result) { r.Obligations[0].Arguments[0].Issuer = "i" }, `unexpected obligation "o1" ("a" = "a":string issued by "i", "b" = "b":string); missing obligation "o1" ("a" = "a":string, "b" = "b":string)`},
		{func(r *policy.Result) { r.Advice[0].ID = "other" }, `missing advice "advice" (); unexpected advice "other" ()`},
		{func(r *policy.Result) { r.Categories = nil }, `missing attribute "x" = "1":string of "c"; missing attribute "x" = "2":string of "c"`},
		{func(r *policy.Result) { r.Policies[0].Set = true }, `missing policy id policy "p" "1.0"; unexpected policy id policy set "p" "1.0"`},
	} {
		got := result()
		c.change(&got)
		if text := strings.Join(policy.Differences([]policy.Result{result()}, []policy.Result{got}), "; "); text != c.want {
			t.Errorf("got  %s\nwant %s", text, c.want)
		}
	}
	a, b := policy.Result{Decision: policy.IndeterminateP}, policy.Result{Decision: policy.IndeterminateD}
	if d := policy.Differences([]policy.Result{a, a}, []policy.Result{b, result()}); len(d) == 0 || !strings.HasPrefix(d[0], "result 2: ") {
		t.Error(d)
	}
	if d := policy.Differences(nil, []policy.Result{a}); len(d) != 1 || d[0] != "1 results, expected 0" {
		t.Error(d)
	}
}
