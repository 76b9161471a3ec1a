package policy

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/ostiary/ostiary/policy/function"
	"github.com/ostiary/ostiary/policy/value"
)

var (
	seedFlag   = flag.Uint64("policy.seed", 1, "first seed of the random policies")
	worldsFlag = flag.Uint64("policy.worlds", 250, "number of random policies")
)

// eachRandom calls f with a generator for each seed, until one fails.
func eachRandom(t *testing.T, f func(t *testing.T, g *generator)) {
	t.Parallel()
	for seed := *seedFlag; seed < *seedFlag+*worldsFlag && !t.Failed(); seed++ {
		f(t, &generator{Rand: rand.New(rand.NewPCG(seed, 0)), library: nil})
		if t.Failed() {
			t.Logf("seed %d: go test ./policy -run %s -policy.seed %d -policy.worlds 1", seed, t.Name(), seed)
		}
	}
}

// generator makes random policies and requests over a few names.
type generator struct {
	*rand.Rand
	count   int  // policies so far, for unique ids
	few     bool // the policies use one attribute only
	library []Element
}

func (g *generator) pick(from ...string) string { return from[g.IntN(len(from))] }

func (g *generator) attribute() *Designator {
	if g.few {
		return attribute(CategoryResource, "a", g.IntN(6) == 0)
	}
	d := attribute(g.pick(CategorySubject, CategoryResource, CategoryAction), g.pick("a", "b", "c"), g.IntN(6) == 0)
	if g.IntN(20) == 0 {
		d.Issuer = "issuer"
	}
	return d
}

func (g *generator) word() string { return g.pick("u", "v", "w", "w") }

func (g *generator) target() Target {
	var t Target
	for range g.IntN(3) {
		var any AnyOf
		for range 1 + g.IntN(2) {
			var all AllOf
			for range 1 + g.IntN(2) {
				f := stringEqual
				if g.IntN(5) == 0 {
					f = function1 + "string-regexp-match"
				}
				all = append(all, Match{Function: f, Literal: value.NewString(g.word()), Bag: g.attribute()})
			}
			any = append(any, all)
		}
		t = append(t, any)
	}
	return t
}

// condition returns a boolean expression. variables is the number of variables
// that it may use.
func (g *generator) condition(depth, variables int) Expression {
	apply := func(f string, args ...Expression) Expression {
		return &Apply{Function: function1 + f, Arguments: args}
	}
	if variables > 0 && g.IntN(4) == 0 {
		return &VariableReference{ID: "v" + itoa(g.IntN(variables))}
	}
	if depth > 0 && g.IntN(2) == 0 {
		a, b := g.condition(depth-1, variables), g.condition(depth-1, variables)
		switch g.IntN(3) {
		case 0:
			return apply("not", a)
		case 1:
			return apply("and", a, b)
		}
		return apply("or", a, b)
	}
	word := &Literal{Value: value.NewString(g.word())}
	switch g.IntN(3) {
	case 0:
		return apply("string-is-in", word, g.attribute())
	case 1:
		return apply("string-equal", apply("string-one-and-only", g.attribute()), word)
	}
	return apply("string-at-least-one-member-of", g.attribute(), g.attribute())
}

func (g *generator) duties() []Obligation {
	var out []Obligation
	for range g.IntN(2) {
		out = append(out, Obligation{ID: g.word(), On: Permit + Effect(g.IntN(2)),
			Assignments: []Assignment{{ID: "argument", Expression: g.attribute()}}})
	}
	return out
}

func (g *generator) policy() *Policy {
	g.count++
	ids := AlgorithmIDs(true)
	p := &Policy{Header: Header{ID: "p" + itoa(g.count), Version: "1.0", Algorithm: ids[g.IntN(len(ids))],
		Target: g.target(), Obligations: g.duties(), Advice: g.duties()}}
	for i := range g.IntN(3) {
		p.Variables = append(p.Variables, Variable{ID: "v" + itoa(i), Expression: g.condition(1, i)})
	}
	rules := g.IntN(4)
	if g.IntN(5) == 0 {
		rules += indexMin
	}
	for i := range rules {
		r := Rule{ID: itoa(i), Effect: Permit + Effect(g.IntN(2)), Target: g.target(), Obligations: g.duties()}
		if g.IntN(2) == 0 {
			r.Condition = g.condition(2, len(p.Variables))
		}
		p.Rules = append(p.Rules, r)
	}
	return p
}

func (g *generator) set(depth int) *PolicySet {
	g.count++
	ids := AlgorithmIDs(false)
	s := &PolicySet{Header: Header{ID: "s" + itoa(g.count), Version: "1.0", Algorithm: ids[g.IntN(len(ids))],
		Target: g.target(), Obligations: g.duties()}}
	members := g.IntN(5)
	if g.IntN(2) == 0 {
		members += indexMin
	}
	if s.Algorithm == AlgorithmOnPermitApplySecond {
		members = 2 + g.IntN(2)
	}
	for range members {
		s.Children = append(s.Children, g.member(depth))
	}
	return s
}

func (g *generator) member(depth int) Element {
	var e Element
	if depth > 0 && g.IntN(3) == 0 {
		e = g.set(depth - 1)
	} else {
		e = g.policy()
	}
	name := nameOf(e)
	switch {
	case g.IntN(5) == 0 && len(g.library) > 0: // a second reference to the same
		name = nameOf(g.library[g.IntN(len(g.library))])
	case g.IntN(4) == 0:
		g.library = append(g.library, e)
	default:
		return e
	}
	return &Reference{Set: name.Set, ID: name.ID}
}

func (g *generator) request() *Request {
	r := &Request{ReturnPolicyIDs: true}
	for _, c := range []string{CategorySubject, CategoryResource, CategoryAction} {
		if g.IntN(8) > 0 {
			r.Categories = append(r.Categories, Category{Name: c, Attributes: g.attributes()})
		}
	}
	return r
}

func (g *generator) attributes() []Attribute {
	var out []Attribute
	for _, id := range []string{"a", "b", "c"} {
		for range g.IntN(3) {
			a := Attribute{ID: id, IncludeInResult: g.IntN(8) == 0}
			if g.IntN(10) == 0 {
				a.Issuer = "issuer"
			}
			for range 1 + g.IntN(2) {
				v := value.NewString(g.word())
				if g.IntN(10) == 0 {
					v = value.NewInteger(7)
				}
				a.Values = append(a.Values, v)
			}
			out = append(out, a)
		}
	}
	return out
}

// options returns options of which some have an attribute source that fails for
// some attributes.
func (g *generator) options() Options {
	if g.IntN(3) > 0 {
		return Options{}
	}
	return Options{Attributes: someAttributes{}}
}

// someAttributes has the attribute b, which depends on the whole request, and
// fails for c.
type someAttributes struct{}

func (someAttributes) Attribute(_ context.Context, d *Designator, r *Request) ([]value.Value, error) {
	switch d.ID {
	case "b":
		return []value.Value{value.NewString([]string{"u", "v"}[len(r.Categories)%2])}, nil
	case "c":
		return nil, errors.New("the source of c is closed")
	}
	return nil, nil
}

// withoutIndex returns a copy of a plan that tries all children.
func withoutIndex(p *Plan) *Plan {
	done := map[*node]*node{}
	var strip func(n *node) *node
	strip = func(n *node) *node {
		if out := done[n]; out != nil {
			return out
		}
		out := *n
		out.index, out.children = nil, nil
		for _, child := range n.children {
			out.children = append(out.children, strip(child))
		}
		done[n] = &out
		return &out
	}
	out := *p
	out.root = strip(p.root)
	return &out
}

func (g *generator) plan(t *testing.T) (*PolicySet, *Plan) {
	g.few = g.IntN(3) == 0
	root := g.set(2)
	if g.IntN(2) == 0 { // applies to more requests
		root.Target = nil
	}
	return root, compiled(t, root, g.library...)
}

func same(t *testing.T, what string, got, want []Result) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: %+v\nexpected %+v", what, got, want)
	}
}

// TestIndexEqualsScan guards I1 and I2: an index changes no result, neither its
// status nor its obligations nor the policies that applied.
func TestIndexEqualsScan(t *testing.T) {
	eachRandom(t, func(t *testing.T, g *generator) {
		_, p := g.plan(t)
		scan := withoutIndex(p)
		for range 20 {
			r, o := g.request(), g.options()
			same(t, "with an index", p.Decide(t.Context(), r, o), scan.Decide(t.Context(), r, o))
		}
	})
}

// TestNarrowEqualsDecide checks that a narrowed plan decides like the full one.
func TestNarrowEqualsDecide(t *testing.T) {
	left, all := 0, 0
	eachRandom(t, func(t *testing.T, g *generator) {
		_, p := g.plan(t)
		r, o := g.request(), g.options()
		unknown := g.pick(CategorySubject, CategoryResource, CategoryAction)
		for i := range r.Categories {
			if r.Categories[i].Name == unknown {
				r.Categories = append(r.Categories[:i:i], r.Categories[i+1:]...)
				break
			}
		}
		narrowed, err := p.Narrow(t.Context(), r, unknown, o)
		if err != nil {
			t.Fatal(err)
		}
		all, left = all+len(p.nodes()), left+len(narrowed.plan.nodes())
		for range 10 {
			attributes := g.attributes()
			full := *r
			full.Categories = append(r.Categories[:len(r.Categories):len(r.Categories)], Category{Name: unknown, Attributes: attributes})
			same(t, "narrowed", []Result{narrowed.Decide(t.Context(), attributes)}, p.Decide(t.Context(), &full, o))
		}
	})
	if t.Logf("%d of %d policies and sets were left", left, all); left > all*3/4 {
		t.Errorf("%d of %d policies and sets are left after narrowing: expected fewer", left, all)
	}
}

// TestPreviousEqualsFresh changes policies one by one, and checks that a plan that
// uses the previous one decides like a fresh one.
func TestPreviousEqualsFresh(t *testing.T) {
	eachRandom(t, func(t *testing.T, g *generator) {
		root, p := g.plan(t)
		for range 5 {
			root, g.library = g.change(root), append([]Element(nil), g.library...)
			if n := len(g.library); n > 0 && g.IntN(2) == 0 {
				g.changeLibrary(g.IntN(n))
			}
			next, err := Compile(t.Context(), root, g.library, CompileOptions{Previous: p})
			fresh, freshErr := Compile(t.Context(), root, g.library, CompileOptions{})
			if err != nil || freshErr != nil {
				t.Fatalf("errors %v and %v", err, freshErr)
			}
			for range 5 {
				r, o := g.request(), g.options()
				same(t, "with a previous plan", next.Decide(t.Context(), r, o), fresh.Decide(t.Context(), r, o))
			}
			p = next
		}
	})
}

// change returns the set with a member that is changed, added, moved or removed.
func (g *generator) change(s *PolicySet) *PolicySet {
	out := *s
	out.Children = append([]Element(nil), s.Children...)
	if len(out.Children) == 0 || s.Algorithm == AlgorithmOnPermitApplySecond {
		return &out
	}
	i := g.IntN(len(out.Children))
	switch set, isSet := out.Children[i].(*PolicySet); {
	case isSet && g.IntN(2) == 0:
		out.Children[i] = g.change(set)
	case g.IntN(4) == 0:
		out.Children = append(out.Children[:i], out.Children[i+1:]...)
	case g.IntN(4) == 0:
		j := g.IntN(len(out.Children))
		out.Children[i], out.Children[j] = out.Children[j], out.Children[i]
	case g.IntN(4) == 0:
		out.Children = append(out.Children, g.policy())
	default:
		if p, ok := out.Children[i].(*Policy); ok {
			changed := g.policy()
			changed.ID = p.ID
			out.Children[i] = changed
		}
	}
	return &out
}

// changeLibrary replaces a policy of the library by another one with its name, or
// adds one before it.
func (g *generator) changeLibrary(i int) {
	if g.IntN(3) == 0 {
		g.library = slices.Insert(g.library, i, Element(g.policy()))
		return
	}
	if p, ok := g.library[i].(*Policy); ok {
		changed := g.policy()
		changed.ID = p.ID
		g.library[i] = changed
	}
}

// TestRandomPoliciesAreVaried checks that the random tests are not vacuous.
func TestRandomPoliciesAreVaried(t *testing.T) {
	t.Parallel()
	decisions := map[Decision]int{}
	indexed := 0
	for seed := range uint64(200) {
		g := &generator{Rand: rand.New(rand.NewPCG(seed, 0))}
		_, p := g.plan(t)
		for _, n := range p.nodes() {
			if n.index != nil {
				indexed++
			}
		}
		for range 5 {
			decisions[p.Decide(t.Context(), g.request(), Options{})[0].Decision]++
		}
	}
	for _, d := range []Decision{NotApplicable, Permitted, Denied, IndeterminateP, IndeterminateD, IndeterminateDP} {
		if decisions[d] < 5 {
			t.Errorf("%s is the decision of %d of 1,000 random requests", decisionNames[d], decisions[d])
		}
	}
	if indexed < 100 {
		t.Errorf("%d nodes have an index", indexed)
	}
	if _, ok := function.Standard().Find(function1 + "string-regexp-match"); !ok {
		t.Error("string-regexp-match is unknown")
	}
}
