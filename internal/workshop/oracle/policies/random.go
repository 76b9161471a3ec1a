package policies

import (
	"github.com/ostiary/ostiary/policy"
)

// policySetSizeWide is the largest number of members of a wide set.
const policySetSizeWide = 48

// set returns a policy set with members that are nested at most depth deep.
func (g *generator) set(depth int, wide bool) *policy.PolicySet {
	ids := policy.AlgorithmIDs(false)
	s := &policy.PolicySet{Header: policy.Header{ID: g.id("s"), Version: g.version(), Algorithm: ids[g.IntN(len(ids))]}}
	members := g.IntN(5)
	if wide {
		members = 8 + g.IntN(policySetSizeWide-8)
	}
	if s.Algorithm == policy.AlgorithmOnPermitApplySecond {
		members = 2 + g.IntN(2)
	}
	for range members {
		s.Children = append(s.Children, g.member(depth, wide))
	}
	s.Target = g.target(wide && g.one(2))
	s.Obligations, s.Advice = g.duties(6), g.duties(8)
	return s
}

// version returns a version of one to three numbers.
func (g *generator) version() string {
	return g.pick("1", "1.0", "1.2", "2.0", "2.10", "1.2.3", "10.0.1")
}

// member returns a member of a policy set: a policy, a set, or a reference to one
// of the library.
func (g *generator) member(depth int, wide bool) policy.Element {
	if len(g.library) > 0 && g.one(5) {
		return g.reference(g.library[g.IntN(len(g.library))])
	}
	var e policy.Element
	if depth > 0 && g.one(3) {
		e = g.set(depth-1, wide && g.one(4))
	} else {
		e = g.policy(wide)
	}
	if !g.one(4) {
		return e
	}
	g.library = append(g.library, e)
	if p, ok := e.(*policy.Policy); ok && g.one(2) {
		g.versions(p)
	}
	return g.reference(e)
}

// versions adds other policies with the id of one to the library.
func (g *generator) versions(p *policy.Policy) {
	used := map[string]bool{p.Version: true}
	for range 1 + g.IntN(2) {
		other := g.policy(false)
		other.ID = p.ID
		if !used[other.Version] {
			used[other.Version] = true
			g.library = append(g.library, other)
		}
	}
}

// reference returns a reference to an element of the library, or to another
// version of it.
func (g *generator) reference(e policy.Element) *policy.Reference {
	id, version, set := nameOf(e)
	r := &policy.Reference{Set: set, ID: id}
	switch g.IntN(6) {
	case 0:
		r.Version = version
	case 1:
		r.Version = version[:1] + ".+"
	case 2:
		r.Earliest = version
	case 3:
		r.Latest = version
	case 4:
		r.Version, r.Earliest = "*.*", "1"
	}
	resolved := Policies{Library: g.library}
	if resolved.resolve(r) == nil {
		r.Version, r.Earliest, r.Latest = "", "", ""
	}
	return r
}

// policy returns a policy.
func (g *generator) policy(wide bool) *policy.Policy {
	ids := policy.AlgorithmIDs(true)
	p := &policy.Policy{Header: policy.Header{ID: g.id("p"), Version: g.version(), Algorithm: ids[g.IntN(len(ids))], Target: g.target(wide)}}
	g.define(p)
	rules := 1 + g.IntN(3)
	switch g.IntN(24) {
	case 0:
		rules = 0
	case 1:
		rules = 8 + g.IntN(8)
	}
	for i := range rules {
		p.Rules = append(p.Rules, g.rule(string(rune('a'+i)), rules >= 8))
	}
	p.Obligations, p.Advice = g.duties(4), g.duties(6)
	g.variables = nil
	return p
}

// define adds variables to a policy, in an order in which some are used before
// they are defined.
func (g *generator) define(p *policy.Policy) {
	for range g.IntN(3) * g.IntN(2) {
		v := variable{g.pick("v", "w") + string(rune('0'+len(g.variables))), g.shape()}
		definition := policy.Variable{ID: v.id, Expression: g.expression(v.shape, 2)}
		g.variables = append(g.variables, v)
		if g.one(2) {
			p.Variables = append(p.Variables, definition)
		} else {
			p.Variables = append([]policy.Variable{definition}, p.Variables...)
		}
	}
}

// rule returns a rule.
func (g *generator) rule(id string, wide bool) policy.Rule {
	r := policy.Rule{ID: id, Effect: g.effect(), Target: g.target(wide), Obligations: g.duties(5), Advice: g.duties(8)}
	if g.one(2) {
		r.Condition = g.expression(booleanShape, 3)
	}
	return r
}

// target returns a target; it often compares for equality if wide is set.
func (g *generator) target(wide bool) policy.Target {
	var t policy.Target
	count := g.IntN(2) * (1 + g.IntN(2)*g.IntN(2))
	if wide && !g.one(16) {
		t = append(t, g.guard())
		count = g.IntN(2) * g.IntN(2)
	}
	for range count {
		var anyOf policy.AnyOf
		for range 1 + g.IntN(2) {
			var allOf policy.AllOf
			for range 1 + g.IntN(2)*g.IntN(2) {
				allOf = append(allOf, g.match())
			}
			anyOf = append(anyOf, allOf)
		}
		t = append(t, anyOf)
	}
	if len(t) > 1 && g.one(2) {
		t[0], t[1] = t[1], t[0]
	}
	return t
}

// guard returns a disjunction that an index can use.
func (g *generator) guard() policy.AnyOf {
	category, id := g.category(), g.attribute()
	var out policy.AnyOf
	for range 1 + g.IntN(3) {
		if g.one(4) {
			category, id = g.category(), g.attribute()
		}
		m := g.equality(category, id)
		all := policy.AllOf{m}
		if g.one(5) {
			all = append(all, g.match())
		}
		if len(all) == 2 && g.one(2) {
			all[0], all[1] = all[1], all[0]
		}
		out = append(out, all)
	}
	return out
}

// duties returns an obligation or advice once in n times.
func (g *generator) duties(n int) []policy.Obligation {
	if !g.one(n) {
		return nil
	}
	var out []policy.Obligation
	for range 1 + g.IntN(2) {
		o := policy.Obligation{ID: g.pick("log", "mail", "mask"), On: g.effect()}
		for range g.IntN(3) {
			a := policy.Assignment{ID: g.pick("who", "what"), Expression: g.expression(g.shape(), 1)}
			if g.one(3) {
				a.Category = g.category()
			}
			if g.one(4) {
				a.Issuer = "us"
			}
			o.Assignments = append(o.Assignments, a)
		}
		out = append(out, o)
	}
	return out
}
