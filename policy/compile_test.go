package policy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/ostiary/ostiary/policy/function"
	"github.com/ostiary/ostiary/policy/status"
	"github.com/ostiary/ostiary/policy/value"
)

// TestPreviousIsUsed counts what a compilation takes from the previous plan.
func TestPreviousIsUsed(t *testing.T) {
	t.Parallel()
	const n = 100
	root := world(n)
	first := compiled(t, root)
	changed := *root
	changed.Children = append([]Element(nil), root.Children...)
	changed.Children[n/2] = onePolicy(n / 2)
	for name, children := range map[string][]Element{
		"changed": changed.Children,
		"removed": append(append([]Element(nil), root.Children[:10]...), root.Children[11:]...),
		"added":   append([]Element{onePolicy(n)}, root.Children...),
	} {
		next := changed
		next.Children = children
		p, err := Compile(t.Context(), &next, nil, CompileOptions{Previous: first})
		if err != nil {
			t.Fatal(err)
		}
		if used, want := usedAgain(first, p), min(len(children), n)-1; name != "removed" && used != len(children)-1 || used < want {
			t.Errorf("%s: %d of %d policies are used again", name, used, len(children))
		}
	}
	other, err := Compile(t.Context(), root, nil, CompileOptions{Previous: first, Bounds: Bounds{ExpressionDepth: 5}})
	if err != nil || usedAgain(first, other) != 0 {
		t.Errorf("with other bounds %d policies are used again, error %v", usedAgain(first, other), err)
	}
}

// TestIndexIsUsedAgain changes a member of a set: the index is used again exactly
// if the members have the same guards and the set the same algorithm.
func TestIndexIsUsedAgain(t *testing.T) {
	t.Parallel()
	const at = 50
	subject := equals(attribute(CategorySubject, AttributeSubjectID, false), "anne")
	for name, tt := range map[string]struct {
		change func(root *PolicySet, p *Policy)
		again  bool
	}{
		"effect":         {func(_ *PolicySet, p *Policy) { p.Rules[0].Effect = Deny }, true},
		"rule's target":  {func(_ *PolicySet, p *Policy) { p.Rules[0].Target = nil }, false},
		"value":          {func(_ *PolicySet, p *Policy) { p.Target = onePolicy(at + 1).Target }, false},
		"no target":      {func(_ *PolicySet, p *Policy) { p.Target = nil }, false},
		"part of target": {func(_ *PolicySet, p *Policy) { p.Target = append(p.Target, subject) }, false},
		"no such guard":  {func(_ *PolicySet, p *Policy) { p.Target, p.Rules[0].Target = append(p.Target, subject), nil }, false},
		"algorithm":      {func(root *PolicySet, _ *Policy) { root.Algorithm = AlgorithmDenyOverrides }, false},
		"target of root": {func(root *PolicySet, _ *Policy) { root.Target = Target{subject} }, true},
	} {
		root := world(2 * at)
		root.Algorithm = AlgorithmOnlyOneApplicable
		first := compiled(t, root)
		next, changed := *root, onePolicy(at)
		tt.change(&next, changed)
		next.Children = append([]Element(nil), root.Children...)
		next.Children[at] = changed
		p, err := Compile(t.Context(), &next, nil, CompileOptions{Previous: first})
		if err != nil {
			t.Fatal(err)
		}
		if again := p.root.index == first.root.index; again != tt.again {
			t.Errorf("%s: the index is used again: %v, expected %v", name, again, tt.again)
		}
		fresh := compiled(t, &next)
		for _, r := range []*Request{ask("anne", at), ask("anne", at+1), ask("bob", at)} {
			same(t, name, p.Decide(t.Context(), r, Options{}), fresh.Decide(t.Context(), r, Options{}))
		}
	}
}

// usedAgain returns how many policies two plans share.
func usedAgain(a, b *Plan) int {
	before, count := a.nodes(), 0
	for e, n := range b.nodes() {
		if _, isPolicy := e.(*Policy); isPolicy && before[e] == n {
			count++
		}
	}
	return count
}

// TestLibraryNamesChange replaces a policy of the library by one with another
// name at the same place.
func TestLibraryNamesChange(t *testing.T) {
	t.Parallel()
	root := &PolicySet{Header: Header{ID: "s", Version: "1", Algorithm: AlgorithmDenyOverrides}, Children: []Element{&Reference{ID: "policy-1"}}}
	first := compiled(t, root, onePolicy(0), onePolicy(1))
	if _, err := Compile(t.Context(), root, []Element{onePolicy(0), onePolicy(2)}, CompileOptions{Previous: first}); err == nil {
		t.Error("the reference to a policy that is gone is resolved")
	}
	if _, err := Compile(t.Context(), root, []Element{onePolicy(1), onePolicy(0)}, CompileOptions{Previous: first}); err != nil {
		t.Errorf("after a change of the order: %v", err)
	}
}

// TestSlotsAreNumberedAgain changes the attribute of a policy many times: the
// slots of attributes that no policy uses any more must not grow for ever.
func TestSlotsAreNumberedAgain(t *testing.T) {
	t.Parallel()
	var p *Plan
	most := 0
	for i := range 3000 {
		one := onePolicy(0)
		one.Target = Target{equals(attribute(CategoryResource, "a"+itoa(i), false), "x")}
		next, err := Compile(t.Context(), one, nil, CompileOptions{Previous: p})
		if err != nil {
			t.Fatal(err)
		}
		p = next
		most = max(most, len(p.slots.list))
	}
	if most > 1100 || most < 1000 {
		t.Errorf("a plan with 3 attributes has up to %d slots", most)
	}
}

// TestErrorsAreBounded compiles a policy with more mistakes than are reported,
// and one whose wrong variable is used very often.
func TestErrorsAreBounded(t *testing.T) {
	t.Parallel()
	for _, n := range []int{ErrorsMax, ErrorsMax + 1} {
		p := &Policy{Header: Header{ID: "p", Version: "1", Algorithm: AlgorithmRulesDenyOverrides}}
		for i := range n {
			p.Rules = append(p.Rules, Rule{ID: itoa(i)})
		}
		var errs Errors
		if err := Check(t.Context(), p, CompileOptions{}); !errors.As(err, &errs) || len(errs) != ErrorsMax {
			t.Errorf("%d mistakes: %d errors", n, len(errs))
		}
	}
	p := &Policy{Header: Header{ID: "p", Version: "1", Algorithm: AlgorithmRulesDenyOverrides}, Variables: []Variable{{ID: "0", Expression: &VariableReference{ID: "x"}}}}
	for i := 1; i < 60; i++ {
		before := &VariableReference{ID: itoa(i - 1)}
		p.Variables = append(p.Variables, Variable{ID: itoa(i), Expression: &Apply{Function: function1 + "and", Arguments: []Expression{before, before}}})
	}
	if err := Check(t.Context(), p, CompileOptions{}); err == nil || strings.Count(err.Error(), "\n") > 0 {
		t.Errorf("one wrong variable: %v", err)
	}
}

// TestCheckResolvesNoReferences checks policies in any order.
func TestCheckResolvesNoReferences(t *testing.T) {
	t.Parallel()
	s := &PolicySet{Header: Header{ID: "s", Version: "1", Algorithm: AlgorithmDenyOverrides}, Children: []Element{&Reference{ID: "later"}}}
	if err := Check(t.Context(), s, CompileOptions{}); err != nil {
		t.Error(err)
	}
	s.Children = append(s.Children, &Reference{ID: "later", Version: "x"}, nil, (*Policy)(nil))
	var errs Errors
	if err := Check(t.Context(), s, CompileOptions{}); !errors.As(err, &errs) || len(errs) != 3 {
		t.Errorf("errors %v, expected one for the pattern and two for missing elements", err)
	}
}

// TestTreesWithoutParts compiles trees that no parser makes.
func TestTreesWithoutParts(t *testing.T) {
	t.Parallel()
	for i, p := range []*Policy{
		{Header: Header{Version: "1", Algorithm: AlgorithmRulesDenyOverrides, Target: Target{nil}}},
		{Header: Header{Version: "1", Algorithm: AlgorithmRulesDenyOverrides, Target: Target{AnyOf{nil}}}},
		{Header: Header{Version: "1", Algorithm: AlgorithmRulesDenyOverrides, Target: Target{AnyOf{AllOf{{}}}}}},
		{Header: Header{Version: "1", Algorithm: AlgorithmRulesDenyOverrides, Target: Target{AnyOf{AllOf{{Function: stringEqual, Literal: value.NewString(""), Bag: &Literal{Value: value.NewString("")}}}}}}},
		{Header: Header{Version: "1", Algorithm: AlgorithmRulesDenyOverrides}, Rules: []Rule{{Effect: Permit, Condition: &Literal{}}}},
		{Header: Header{Version: "1", Algorithm: AlgorithmRulesDenyOverrides}, Rules: []Rule{{Effect: Permit, Condition: &Designator{}}}},
		{Header: Header{Version: "1", Algorithm: AlgorithmRulesDenyOverrides}, Rules: []Rule{{Effect: 7}}},
		{Header: Header{Version: "1", Algorithm: AlgorithmRulesDenyOverrides, Obligations: []Obligation{{On: Permit, Assignments: []Assignment{{}}}}}},
		{Header: Header{Version: "1", Algorithm: AlgorithmRulesDenyOverrides, Obligations: []Obligation{{}}}},
		{Header: Header{Version: "1", Algorithm: AlgorithmRulesDenyOverrides}, Rules: []Rule{{Effect: Permit, Condition: substringFrom(-1)}}},
	} {
		if err := Check(t.Context(), p, CompileOptions{}); err == nil {
			t.Errorf("tree %d is accepted", i)
		}
	}
	good := &Policy{Header: Header{Version: "1", Algorithm: AlgorithmRulesDenyOverrides}, Rules: []Rule{{Effect: Permit, Condition: substringFrom(0)}}}
	if err := Check(t.Context(), good, CompileOptions{}); err != nil {
		t.Error(err)
	}
}

// substringFrom returns a condition on the substring of a literal.
func substringFrom(begin int64) Expression {
	text := &Literal{Value: value.NewString("text")}
	return &Apply{Function: stringEqual, Arguments: []Expression{text, &Apply{
		Function:  "urn:oasis:names:tc:xacml:3.0:function:string-substring",
		Arguments: []Expression{text, &Literal{Value: value.NewInteger(begin)}, &Literal{Value: value.NewInteger(-1)}},
	}}}
}

// TestAttributeSource counts how often a source is asked, and checks what it may
// return.
func TestAttributeSource(t *testing.T) {
	t.Parallel()
	a := attribute(CategorySubject, "a", true)
	isIn := func(word string) Expression {
		return &Apply{Function: function1 + "string-is-in", Arguments: []Expression{&Literal{Value: value.NewString(word)}, a}}
	}
	p := compiled(t, &Policy{Header: Header{ID: "p", Version: "1", Algorithm: AlgorithmRulesFirstApplicable}, Rules: []Rule{
		{ID: "x", Effect: Permit, Condition: isIn("x")}, {ID: "y", Effect: Deny, Condition: isIn("y")}}})
	for _, c := range []struct {
		name   string
		values []value.Value
		err    error
		want   Decision
		code   status.Code
	}{
		{"found", []value.Value{value.NewString("y")}, nil, Denied, ""},
		{"missing", nil, nil, IndeterminateP, status.MissingAttribute},
		{"other type", []value.Value{value.NewInteger(1)}, nil, IndeterminateP, status.ProcessingError},
		{"error", nil, errors.New("closed"), IndeterminateP, status.ProcessingError},
		{"status", nil, fmt.Errorf("store: %w", &status.Error{Code: status.SyntaxError}), IndeterminateP, status.SyntaxError},
	} {
		source := &countingSource{values: c.values, err: c.err}
		got := p.Decide(t.Context(), request(CategoryResource, "r", "1"), Options{Attributes: source})[0]
		code := status.Code("")
		if got.Status != nil {
			code = got.Status.Code
		}
		if got.Decision != c.want || code != c.code || source.calls != 1 {
			t.Errorf("%s: %s with status %q after %d calls, expected %s with %q after 1", c.name, decisionNames[got.Decision], code, source.calls, decisionNames[c.want], c.code)
		}
	}
	optional := attribute(CategorySubject, "a", false)
	twice := compiled(t, &Policy{Header: Header{ID: "p", Version: "1", Algorithm: AlgorithmRulesFirstApplicable}, Rules: []Rule{
		{ID: "x", Effect: Permit, Target: Target{equals(optional, "x")}}, {ID: "y", Effect: Deny, Target: Target{equals(optional, "y")}}}})
	source := &countingSource{}
	if got := twice.Decide(t.Context(), request(CategoryResource, "r", "1"), Options{Attributes: source})[0]; got.Decision != NotApplicable || source.calls != 1 {
		t.Errorf("the source is asked %d times for a missing attribute", source.calls)
	}
	source = &countingSource{}
	if got := p.Decide(t.Context(), request(CategorySubject, "a", "x"), Options{Attributes: source})[0]; got.Decision != Permitted || source.calls != 0 {
		t.Errorf("the source is asked %d times for an attribute of the request", source.calls)
	}
}

type countingSource struct {
	values []value.Value
	err    error
	calls  int
}

func (s *countingSource) Attribute(_ context.Context, d *Designator, r *Request) ([]value.Value, error) {
	s.calls++
	if d.ID != "a" || len(r.Categories) != 1 {
		return nil, errors.New("the source is asked for something else")
	}
	return s.values, s.err
}

// TestVariablesOnce counts how often the definition of a variable is evaluated.
func TestVariablesOnce(t *testing.T) {
	t.Parallel()
	calls := 0
	counted := &function.Function{ID: "counted", Signature: function.Signature{Result: function.Shape{Type: value.Boolean}},
		Call: func(*function.Env, []function.Operand) (function.Operand, error) {
			calls++
			return function.Single(value.NewBoolean(false)), nil
		}}
	set, err := function.Standard().With(counted)
	if err != nil {
		t.Fatal(err)
	}
	use := &VariableReference{ID: "v"}
	root := &Policy{Header: Header{ID: "p", Version: "1", Algorithm: AlgorithmRulesDenyOverrides},
		Variables: []Variable{{ID: "unused", Expression: use}, {ID: "v", Expression: &Apply{Function: "counted"}}},
		Rules:     []Rule{{ID: "a", Effect: Permit, Condition: use}, {ID: "b", Effect: Permit, Condition: use}}}
	p, err := Compile(t.Context(), root, nil, CompileOptions{Functions: set})
	if err != nil {
		t.Fatal(err)
	}
	for want := 1; want <= 2; want++ {
		if p.Decide(t.Context(), request(), Options{}); calls != want {
			t.Errorf("%d evaluations in %d requests", calls, want)
		}
	}
}

// TestDecideConcurrently decides with plans that share their memory.
func TestDecideConcurrently(t *testing.T) {
	t.Parallel()
	root := world(50)
	p := compiled(t, root)
	next, err := Compile(t.Context(), &PolicySet{Header: Header{ID: "other", Version: "1", Algorithm: AlgorithmDenyUnlessPermit}, Children: append([]Element{onePolicy(50)}, root.Children...)}, nil, CompileOptions{Previous: p})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 500 {
				plan, n := p, i%50
				if (i+g)%2 == 0 {
					plan, n = next, i%51
				}
				if got := plan.Decide(t.Context(), ask("anne", n), Options{})[0]; got.Decision != Permitted {
					t.Errorf("resource %d: %+v", n, got)
					return
				}
				if got := plan.Decide(t.Context(), ask("eve", n), Options{})[0]; got.Decision != Denied {
					t.Errorf("resource %d: %+v", n, got)
					return
				}
			}
		})
	}
	wg.Wait()
}

// TestNarrowRefuses checks the requests that cannot be narrowed, and the bounds.
func TestNarrowRefuses(t *testing.T) {
	t.Parallel()
	p := compiled(t, world(10))
	combined := request(CategorySubject, "a", "x")
	combined.Combined = true
	twice := &Request{Categories: []Category{{Name: "a"}, {Name: "a"}}}
	references := &Request{References: [][]string{{"x"}}}
	for i, r := range []*Request{combined, twice, references, request(CategoryResource, "a", "x")} {
		if _, err := p.Narrow(t.Context(), r, CategoryResource, Options{}); err == nil {
			t.Errorf("request %d is accepted", i)
		}
	}
	var why *status.Error
	if _, err := p.Narrow(t.Context(), request(), CategoryResource, Options{Bounds: Bounds{Steps: 5}}); !errors.As(err, &why) || why.Bound != BoundSteps {
		t.Errorf("with 5 steps: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Narrow(ctx, request(), CategoryResource, Options{}); !errors.As(err, &why) || why.Bound != BoundTime {
		t.Errorf("after the context ended: %v", err)
	}
}

// TestOtherEquality compiles policies with a function that has the id of
// string-equal but is not it: an index must not be used.
func TestOtherEquality(t *testing.T) {
	t.Parallel()
	shape := function.Shape{Type: value.String}
	differs := &function.Function{ID: stringEqual, Signature: function.Signature{Params: []function.Shape{shape, shape}, Result: function.Shape{Type: value.Boolean}},
		Call: func(_ *function.Env, args []function.Operand) (function.Operand, error) {
			return function.Single(value.NewBoolean(args[0].Value.Text() != args[1].Value.Text())), nil
		}}
	set, err := (&function.Set{}).With(differs)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, indexMin} {
		p, err := Compile(t.Context(), world(n), nil, CompileOptions{Functions: set})
		if err != nil {
			t.Fatal(err)
		}
		r := request(CategorySubject, AttributeSubjectID, "eve", CategoryResource, AttributeResourceID, "other", CategoryAction, AttributeActionID, "write")
		if got := p.Decide(t.Context(), r, Options{})[0]; got.Decision != Permitted {
			t.Errorf("%d policies: %+v", n, got)
		}
	}
}
