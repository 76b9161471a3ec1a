package policy

import (
	"strings"
	"testing"

	"github.com/ostiary/ostiary/policy/status"
	"github.com/ostiary/ostiary/policy/value"
)

// TestNodeAttributes decides requests with the attributes that ask for a decision for each
// of several nodes, by a policy that permits everything. One decision is no answer to them.
func TestNodeAttributes(t *testing.T) {
	t.Parallel()
	plan := compiled(t, &Policy{Header: Header{ID: "p", Version: "1.0", Algorithm: AlgorithmRulesDenyUnlessPermit}, Rules: []Rule{{ID: "r", Effect: Permit}}})
	for id, refused := range map[string]bool{
		"urn:oasis:names:tc:xacml:3.0:profile:multiple:content-selector": true,
		"urn:oasis:names:tc:xacml:2.0:resource:scope":                    true,
		"urn:oasis:names:tc:xacml:1.0:resource:scope":                    true,
		"urn:oasis:names:tc:xacml:3.0:content-selector":                  false, // of AttributeSelector
		"urn:oasis:names:tc:xacml:1.0:resource:resource-id":              false,
		"urn:example:resource:scope":                                     false,
	} {
		for _, combined := range []bool{false, true} {
			r := request("c", "x", "a", "d", id, "Children")
			r.Combined = combined
			got := plan.Decide(t.Context(), r, Options{})
			if len(got) != 1 || (got[0].Decision == IndeterminateDP) != refused || !refused && got[0].Decision != Permitted {
				t.Errorf("%s: %+v", id, got)
			} else if s := got[0].Status; refused && (s.Code != status.ProcessingError || !strings.Contains(s.Message, id)) {
				t.Errorf("%s: %+v", id, s)
			}
		}
	}
	scope := "urn:oasis:names:tc:xacml:2.0:resource:scope"
	for _, c := range []struct {
		values []value.Value
		want   Decision
	}{
		{[]value.Value{value.NewString("Immediate")}, Permitted},
		{[]value.Value{value.NewString("Immediate"), value.NewString("Descendants")}, IndeterminateDP},
		{[]value.Value{value.NewString("immediate")}, IndeterminateDP},
	} {
		r := request("c", scope, "")
		r.Categories[0].Attributes[0].Values = c.values
		if got := plan.Decide(t.Context(), r, Options{}); len(got) != 1 || got[0].Decision != c.want {
			t.Errorf("%v: %+v", c.values, got)
		}
	}
	// References do not go by it.
	r := request("c", scope, "Children")
	r.Categories[0].ID, r.References = "c1", [][]string{{"c1"}, {"c1"}}
	if got := plan.Decide(t.Context(), r, Options{}); len(got) != 1 || got[0].Decision != IndeterminateDP {
		t.Errorf("with references: %+v", got)
	}
}

// TestXPathVersion compiles policies that name a version of XPath: 1.0 in the spelling of
// XACML 3.0 or 2.0, or another one.
func TestXPathVersion(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{
		"": true, "http://www.w3.org/TR/1999/REC-xpath-19991116": true, "http://www.w3.org/TR/1999/Rec-xpath-19991116": true,
		"http://www.w3.org/TR/1999/rec-xpath-19991116": false, "http://www.w3.org/TR/2007/REC-xpath20-20070123": false,
	} {
		p := &Policy{Header: Header{ID: "p", Version: "1.0", Algorithm: AlgorithmRulesDenyUnlessPermit, XPathVersion: version}}
		if _, err := Compile(t.Context(), p, nil, CompileOptions{}); (err == nil) != want {
			t.Errorf("%q: %v", version, err)
		}
	}
}
