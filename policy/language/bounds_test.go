package language_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/language"
)

// TestBounds reads policies at each bound and one above it.
func TestBounds(t *testing.T) {
	t.Parallel()
	xml := func(inner string) string {
		return `<Policy xmlns="` + language.Namespace + `" PolicyId="p" Version="1.0" RuleCombiningAlgId="a"><Target/>` + inner + `</Policy>`
	}
	text := func(inner string) string { return "policy p { apply denyOverrides let a = " + inner + " }" }
	json := func(inner string) string {
		return `{"policy":{"id":"p","version":"1","algorithm":"a","variables":[{"id":"v","expression":` + inner + `}]}}`
	}
	padded := func(policy string, n int) string { return policy + strings.Repeat(" ", n-len(policy)) }
	type parse func(context.Context, []byte, string) (policy.Element, error)
	for _, c := range []struct {
		bound   string
		largest int
		parse   parse
		text    func(n int) string
	}{
		{"policy bytes", language.TextBytesMax, language.ParseXML, func(n int) string { return padded(xml(""), n) }},
		{"policy bytes", language.TextBytesMax, language.ParseJSON, func(n int) string { return padded(json(`{"value":1}`), n) }},
		{"policy bytes", language.TextBytesMax, language.ParseText, func(n int) string { return padded(text("1"), n) }},
		{"element depth", 256, language.ParseXML, func(n int) string {
			return xml(`<VariableDefinition VariableId="v">` + strings.Repeat(`<Apply FunctionId="f">`, n-2) + strings.Repeat(`</Apply>`, n-2) + `</VariableDefinition>`)
		}},
		// The object of an expression, and its array of arguments, below four others.
		{"JSON depth", language.JSONDepthMax, language.ParseJSON, func(n int) string {
			calls := (n - 4) / 2
			end := `{"value":1}`
			if (n-4)%2 == 1 {
				end = `{"apply":"f","arguments":[{"value":1}]}`
			}
			return json(strings.Repeat(`{"apply":"f","arguments":[`, calls-1) + end + strings.Repeat(`]}`, calls-1))
		}},
		// The policy, and the expression around the parentheses.
		{"text depth", language.TextDepthMax, language.ParseText, func(n int) string {
			return text(strings.Repeat("(", n-2) + "1" + strings.Repeat(")", n-2))
		}},
		{"text depth", language.TextDepthMax, language.ParseText, func(n int) string { return text(strings.Repeat("!", n-2) + "true") }},
		{"text depth", language.TextDepthMax, language.ParseText, func(n int) string { return text("1" + strings.Repeat("+1", n)) }},
		{"text depth", language.TextDepthMax, language.ParseText, func(n int) string { return text("1" + strings.Repeat("*1", n)) }},
		{"text depth", language.TextDepthMax, language.ParseText, func(n int) string {
			return strings.Repeat("policyset s { apply denyOverrides ", n) + strings.Repeat("}", n)
		}},
	} {
		if _, err := c.parse(t.Context(), []byte(c.text(c.largest)), ""); err != nil {
			t.Errorf("%s at the bound: %v", c.bound, err)
		}
		var at *language.BoundError
		if _, err := c.parse(t.Context(), []byte(c.text(c.largest+1)), ""); !errors.As(err, &at) || at.Bound != c.bound {
			t.Errorf("%s above the bound: %v", c.bound, err)
		}
	}
}
