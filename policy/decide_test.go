package policy

import (
	"testing"

	"github.com/ostiary/ostiary/policy/value"
)

const (
	stringEqual = "urn:oasis:names:tc:xacml:1.0:function:string-equal"
)

// attribute returns a designator of strings.
func attribute(category, id string, must bool) *Designator {
	return &Designator{Category: category, ID: id, Type: value.String, MustBePresent: must}
}

// equals returns a target that compares an attribute with a value.
func equals(d *Designator, text string) AnyOf {
	return AnyOf{AllOf{{Function: stringEqual, Literal: value.NewString(text), Bag: d}}}
}

// request returns a request with one attribute for each triple of category, id
// and value.
func request(triples ...string) *Request {
	r := &Request{}
	for i := 0; i < len(triples); i += 3 {
		a := Attribute{ID: triples[i+1], Values: []value.Value{value.NewString(triples[i+2])}}
		at := -1
		for j := range r.Categories {
			if r.Categories[j].Name == triples[i] {
				at = j
			}
		}
		if at < 0 {
			at = len(r.Categories)
			r.Categories = append(r.Categories, Category{Name: triples[i]})
		}
		r.Categories[at].Attributes = append(r.Categories[at].Attributes, a)
	}
	return r
}

func compiled(t testing.TB, root Element, library ...Element) *Plan {
	t.Helper()
	p, err := Compile(t.Context(), root, library, CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// world returns the policies of the published measurements: a policy for each
// resource, whose rule permits anne to read.
func world(n int) *PolicySet {
	root := &PolicySet{Header: Header{ID: "root", Version: "1.0", Algorithm: AlgorithmDenyUnlessPermit}}
	for i := range n {
		root.Children = append(root.Children, onePolicy(i))
	}
	return root
}

func onePolicy(i int) *Policy {
	name := "resource-" + itoa(i)
	return &Policy{
		Header: Header{ID: "policy-" + itoa(i), Version: "1.0", Algorithm: AlgorithmRulesDenyOverrides,
			Target: Target{equals(attribute(CategoryResource, AttributeResourceID, false), name)}},
		Rules: []Rule{{ID: "rule", Effect: Permit, Target: Target{
			equals(attribute(CategorySubject, AttributeSubjectID, false), "anne"),
			equals(attribute(CategoryAction, AttributeActionID, false), "read"),
		}}},
	}
}

func itoa(i int) string { return value.NewInteger(int64(i)).Text() }

// ask returns a request for reading a resource of world.
func ask(subject string, i int) *Request {
	return request(CategorySubject, AttributeSubjectID, subject,
		CategoryResource, AttributeResourceID, "resource-"+itoa(i), CategoryAction, AttributeActionID, "read")
}

func TestDecideWorld(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 7, 8, 100, 1000} {
		p := compiled(t, world(n))
		for i := range n {
			if got := p.Decide(t.Context(), ask("anne", i), Options{}); len(got) != 1 || got[0].Decision != Permitted {
				t.Fatalf("%d policies, resource %d: %+v", n, i, got)
			}
		}
		for _, r := range []*Request{ask("bob", 0), ask("anne", n), request()} {
			if got := p.Decide(t.Context(), r, Options{}); len(got) != 1 || got[0].Decision != Denied {
				t.Fatalf("%d policies: %+v", n, got)
			}
		}
	}
}

// TestEqualKeysInAGuard checks that a child with the same key twice is evaluated
// once (I2): in a disjunction, and in the rules of a policy without a target.
func TestEqualKeysInAGuard(t *testing.T) {
	t.Parallel()
	r := attribute(CategoryResource, "r", false)
	twice := append(equals(r, "x"), equals(attribute(CategoryResource, "r", true), "x")...)
	root := &PolicySet{Header: Header{ID: "root", Version: "1", Algorithm: AlgorithmDenyOverrides}}
	for i := range 2 * indexMin {
		p := policyWith(i, Permitted)
		if i%2 == 0 {
			p.Target = Target{twice}
		} else {
			p.Rules = append(p.Rules, ruleWith(100, Permitted))
			p.Rules[0].Target, p.Rules[1].Target = Target{equals(r, "x")}, Target{equals(r, "x")}
		}
		root.Children = append(root.Children, p)
	}
	ask := request(CategoryResource, "r", "x")
	ask.ReturnPolicyIDs = true
	p := compiled(t, root)
	if p.root.index == nil {
		t.Fatal("the set has no index")
	}
	same(t, "with an index", p.Decide(t.Context(), ask, Options{}), withoutIndex(p).Decide(t.Context(), ask, Options{}))
	same(t, "without the attribute", p.Decide(t.Context(), request(), Options{}), withoutIndex(p).Decide(t.Context(), request(), Options{}))
}
