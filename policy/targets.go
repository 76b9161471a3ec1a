package policy

import (
	"slices"

	"github.com/ostiary/ostiary/policy/function"
	"github.com/ostiary/ostiary/policy/value"
)

// target compiles a target.
func (e *expressions) target(t Target) target {
	out := make(target, 0, len(t))
	for _, any := range t {
		if len(any) == 0 {
			e.add(Position{}, "an AnyOf of a target is empty: expected an AllOf in it")
		}
		parts := make([][]match, 0, len(any))
		for _, all := range any {
			if len(all) == 0 {
				e.add(Position{}, "an AllOf of a target is empty: expected a Match in it")
			}
			parts = append(parts, e.allOf(all))
		}
		out = append(out, parts)
	}
	return out
}

// allOf compiles a conjunction of a target.
func (e *expressions) allOf(all AllOf) []match {
	out := make([]match, 0, len(all))
	for i := range all {
		if m, ok := e.match(&all[i]); ok {
			out = append(out, m)
		}
	}
	return out
}

// match compiles a match. It returns false if it is wrong.
func (e *expressions) match(m *Match) (match, bool) {
	bag, ok := e.matchBag(m)
	f, known := e.functions.Find(m.Function)
	switch {
	case !known:
		e.add(m.Position, "unknown function %s%s: expected one that is defined", value.Quote(m.Function), e.nearestFunction(m.Function))
		return match{}, false
	case m.Literal.Type() == 0:
		e.add(m.Position, "the match has no value: expected one of a data type of XACML")
		return match{}, false
	case !ok:
		return match{}, false
	}
	test, ok := e.matchTest(m, f, bag.shape.Type)
	out := match{literal: m.Literal, bag: bag.expression.(bagExpression), test: test}
	if e.isEquality(f) {
		out.equal, out.text, out.key = true, bag.shape.Type == value.String, m.Literal.Key()
	}
	return out, ok
}

// matchBag compiles the attributes of a match.
func (e *expressions) matchBag(m *Match) (typed, bool) {
	switch m.Bag.(type) {
	case *Designator, *Selector:
		bag := e.expression(m.Bag, m.Position, 1)
		return bag, bag.expression != nil
	}
	e.add(m.Position, "the match does not name an attribute: expected an AttributeDesignator or an AttributeSelector")
	return typed{}, false
}

// matchTest returns the function of a match in the form that compares the literal
// with one value of a type.
func (e *expressions) matchTest(m *Match, f *function.Function, t value.Type) (function.Test, bool) {
	fail := func(err error) (function.Test, bool) {
		e.add(m.Position, "function %s of the match: %s", value.Quote(m.Function), err)
		return nil, false
	}
	if f.Call == nil || f.Signature.Result != (function.Shape{Type: value.Boolean}) {
		e.add(m.Position, "function %s of the match has no boolean result of two values: expected a function like string-equal", value.Quote(m.Function))
		return nil, false
	}
	if err := f.Signature.Check([]function.Shape{{Type: m.Literal.Type()}, {Type: t}}); err != nil {
		return fail(err)
	}
	plain, test, err := f.Specialize([]*value.Value{&m.Literal, nil})
	if err != nil {
		return fail(err)
	}
	if test == nil {
		test = func(env *function.Env, a, b value.Value) (bool, error) {
			v, err := plain(env, []function.Operand{function.Single(a), function.Single(b)})
			return v.Value.Bool(), err
		}
	}
	return test, true
}

// isEquality reports whether a function is true exactly for values with the same
// key, whatever the time zone is.
func (e *expressions) isEquality(f *function.Function) bool {
	if !slices.Contains(equalities[:], f.ID) {
		return false
	}
	own, ok := e.standard.Find(f.ID)
	return ok && own == f
}

const function1 = "urn:oasis:names:tc:xacml:1.0:function:"

// equalities are the functions for [expressions.isEquality]. Dates and times are
// not among them, because their equality depends on the time zone.
var equalities = [...]string{
	function1 + "string-equal", function1 + "boolean-equal", function1 + "integer-equal", function1 + "anyURI-equal",
	function1 + "x500Name-equal", function1 + "rfc822Name-equal", function1 + "hexBinary-equal", function1 + "base64Binary-equal",
}

// allRules compiles the rules of a policy.
func (e *expressions) allRules(rules []Rule) []rule {
	out := make([]rule, 0, len(rules))
	seen := make(map[string]Position, len(rules))
	for i := range rules {
		if !e.step() {
			break
		}
		x := &rules[i]
		if first, ok := seen[x.ID]; ok {
			e.add(x.Position, "rule %s is defined twice in the policy, also at %s: expected distinct ids", value.Quote(x.ID), first)
		}
		seen[x.ID] = x.Position
		if x.Effect != Permit && x.Effect != Deny {
			e.add(x.Position, "rule %s has no effect: expected Permit or Deny", value.Quote(x.ID))
			continue
		}
		duties := e.allDuties(x.Obligations, x.Advice)
		out = append(out, rule{id: x.ID, position: x.Position, effect: x.Effect, target: e.target(x.Target),
			condition: e.condition(x.Condition, x.Position), duties: duties[x.Effect.index()]})
	}
	return out
}

// allDuties compiles obligations and advice, by effect.
func (e *expressions) allDuties(obligations, advice []Obligation) [2][]duty {
	var out [2][]duty
	for i := range obligations {
		e.duty(&out, &obligations[i], false)
	}
	for i := range advice {
		e.duty(&out, &advice[i], true)
	}
	return out
}

// duty compiles an obligation or a piece of advice.
func (e *expressions) duty(out *[2][]duty, o *Obligation, advice bool) {
	d := duty{id: o.ID, advice: advice}
	for i := range o.Assignments {
		a := &o.Assignments[i]
		at := a.Position
		if at == (Position{}) {
			at = o.Position
		}
		x := e.expression(a.Expression, at, 1)
		d.assignments = append(d.assignments, assignment{Argument{ID: a.ID, Category: a.Category, Issuer: a.Issuer}, x.expression})
	}
	if o.On != Permit && o.On != Deny {
		e.add(o.Position, "%s has no effect: expected Permit or Deny", value.Quote(o.ID))
		return
	}
	out[o.On.index()] = append(out[o.On.index()], d)
}
