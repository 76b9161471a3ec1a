package pdp

import (
	"strings"
	"testing"

	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/value"
)

// TestInfix decides with conditions in the infix form. The request has the doubles
// half = 0.5 and big = 40, and the integer whole = 7.
func TestInfix(t *testing.T) {
	t.Parallel()
	request := &policy.Request{Categories: []policy.Category{{Name: policy.CategoryResource, Attributes: []policy.Attribute{
		{ID: "half", Values: []value.Value{value.NewDouble(0.5)}},
		{ID: "big", Values: []value.Value{value.NewDouble(40)}},
		{ID: "whole", Values: []value.Value{value.NewInteger(7)}},
	}}}}
	for text, want := range map[string]policy.Decision{
		"big == 40":                             policy.Permitted,
		"big<39.5":                              policy.NotApplicable,
		" half <= .5 ":                          policy.Permitted,
		"big > 40":                              policy.NotApplicable,
		"big >= 40":                             policy.Permitted,
		"2 + 3 * 4 == 14":                       policy.Permitted,
		"(2 + 3) * 4 == 20":                     policy.Permitted,
		"10 - 4 - 3 == 3":                       policy.Permitted,
		"16 / 4 / 2 == 2":                       policy.Permitted,
		"double(whole) / 2 == 3.5":              policy.Permitted,
		"integer(double(whole) / 2) == 3":       policy.Permitted,
		"double(half * 4) == 2":                 policy.Permitted,
		"double((whole)) == 7":                  policy.Permitted,
		"30 < (double(whole) / (big - 30)*100)": policy.Permitted,
		"whole == 7":                            policy.IndeterminateP,
		"missing == 7":                          policy.IndeterminateP,
		"1 / (big - 40) > 1":                    policy.IndeterminateP,
	} {
		condition, err := parseInfix(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		p := &policy.Policy{Header: policy.Header{ID: "p", Version: "1", Algorithm: policy.AlgorithmRulesFirstApplicable},
			Rules: []policy.Rule{{ID: "r", Effect: policy.Permit, Condition: condition}}}
		plan, err := policy.Compile(t.Context(), p, nil, policy.CompileOptions{})
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := plan.Decide(t.Context(), request, policy.Options{})[0].Decision; got != want {
			t.Errorf("%s: decision %v, expected %v", text, got, want)
		}
	}
}

// TestInfixErrors reads malformed expressions.
func TestInfixErrors(t *testing.T) {
	t.Parallel()
	nested := func(n int) string { return strings.Repeat("(", n) + "1" + strings.Repeat(")", n) + " > 0" }
	row := func(n int) string { return "1" + strings.Repeat("+1", n) + " > 0" }
	long := func(n int) string { return "1 > 0" + strings.Repeat(" ", n-5) }
	for text, want := range map[string]string{
		"":                        "unexpected end of expr: expected a number, a name or (",
		"a":                       "unexpected end of expr: expected <, <=, >, >= or ==",
		"a > ":                    "unexpected end of expr: expected a number, a name or (",
		"a / > 30":                `unexpected ">" in expr: expected a number, a name or (`,
		"a != 30":                 `unexpected "!=" in expr: expected <, <=, >, >= or ==`,
		"a = 30":                  `unexpected "=" in expr: expected <, <=, >, >= or ==`,
		"(a / (b - 90) ^ 2) > 1":  `unexpected "^" in expr: expected )`,
		"(a > 1":                  `unexpected ">" in expr: expected )`,
		"(a":                      "unexpected end of expr: expected )",
		"double / b > 30":         `unexpected "/" in expr: expected (`,
		"1 > 2 > 3":               `unexpected ">" in expr: expected the end of expr`,
		"1 > 2)":                  `unexpected ")" in expr: expected the end of expr`,
		"1.2.3 > 1":               `invalid number "1.2.3" in expr: expected digits with at most one point`,
		"1 > 3x":                  `invalid number "3x" in expr: expected digits with at most one point`,
		nested(infixDepthMax):     "",
		nested(infixDepthMax + 1): "expr is nested more than 100 deep",
		row(infixDepthMax):        "",
		row(infixDepthMax + 1):    "expr has more than 100 operators in a row",
		long(infixBytesMax):       "",
		long(infixBytesMax + 1):   "expr has 10001 bytes: expected at most 10000",
	} {
		_, err := parseInfix(text)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%.60q: error %q, expected %q", text, got, want)
		}
	}
}

// FuzzInfix reads any text: an expression that is read compiles.
func FuzzInfix(f *testing.F) {
	f.Add("( double(input1) / (input2 - 90) * 100) > 30")
	f.Add("integer(a) <= .5")
	f.Fuzz(func(t *testing.T, text string) {
		condition, err := parseInfix(text)
		if err != nil {
			return
		}
		p := &policy.Policy{Header: policy.Header{ID: "p", Version: "1", Algorithm: policy.AlgorithmRulesFirstApplicable},
			Rules: []policy.Rule{{ID: "r", Effect: policy.Permit, Condition: condition}}}
		if err := policy.Check(t.Context(), p, policy.CompileOptions{}); err != nil && !strings.Contains(err.Error(), "deep") {
			t.Fatal(err)
		}
	})
}
