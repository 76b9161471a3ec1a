package oracle

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// Random returns the world of a seed. The model may not compile.
func Random(seed uint64) World {
	g := newGenerator(seed)
	g.wide = isWide(seed)
	g.settings()
	g.conditions()
	g.types()
	g.rewrites()
	g.request()
	g.tuples()
	g.values()
	return g.w
}

// generator generates one world. First it draws the set of features that the
// world may use. So every mix of features is frequent, and so are simple
// worlds.
type generator struct {
	r *rand.Rand
	w World

	plain       bool // no operators but unions
	layered     bool // computed relations lead to later ones, so cycles need tuples
	usersets    bool // restrictions may admit usersets
	wildcards   bool // restrictions may admit wildcards
	conditional bool // tuples may have conditions
	attributes  bool // types have attributes, and rewrites use them and rules
	arrows      bool // rewrites may have arrows
	wide        bool // one list is long
	ids         int  // number of ids for the objects of a type
}

// wideEvery is the number of seeds of which one is wide. A wide world has a
// list of several chunks and costs as much as hundreds of other worlds.
const wideEvery = 500

func isWide(seed uint64) bool { return seed%wideEvery == wideEvery/2 }

func newGenerator(seed uint64) *generator {
	return &generator{r: rand.New(rand.NewPCG(seed, 0x6f73))}
}

func (g *generator) chance(percent int) bool { return g.r.IntN(100) < percent }

func pick[T any](g *generator, from ...T) T { return from[g.r.IntN(len(from))] }

// epoch is the time of every world's request.
var epoch = rel.TimeOf(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))

// settings draws which features the world may use, and its options.
func (g *generator) settings() {
	g.plain, g.layered = g.chance(20), g.chance(50)
	g.usersets, g.wildcards = g.chance(80), g.chance(60)
	g.conditional, g.attributes, g.arrows = g.chance(50), g.chance(25), g.chance(80)
	g.ids = 2 + g.r.IntN(4)
	g.w.Now = epoch
	g.w.Depth = pick(g, 1, 2, 2, 3, 3, 4, 6, 9)
	if g.chance(10) {
		g.w.Model.Namespace = "ns"
	}
	o := &g.w.Model.Options
	o.StarIsOrdinary = g.chance(7)
	o.UnsetAttributeIsZero = g.attributes && g.chance(30)
	o.MissingContextFails = g.conditional && g.chance(20)
	if o.StarIsOrdinary {
		g.wildcards = false
	}
}

// parameters are what conditions read. Different conditions share names, so a
// value meant for one also reaches the other.
var parameters = []expr.Param{
	{Name: "x", Type: expr.Type{Kind: expr.Int}},
	{Name: "y", Type: expr.Type{Kind: expr.Int}},
	{Name: "s", Type: expr.Type{Kind: expr.String}},
	{Name: "f", Type: expr.Type{Kind: expr.Bool}},
}

// attributeDefs are the attributes of every type, in a world that has
// attributes.
var attributeDefs = []schema.AttributeDef{
	{Name: "open", Type: expr.Type{Kind: expr.Bool}},
	{Name: "size", Type: expr.Type{Kind: expr.Int}},
	{Name: "name", Type: expr.Type{Kind: expr.String}},
}

func (g *generator) conditions() {
	if !g.conditional && !g.attributes {
		return
	}
	for i := range 1 + g.r.IntN(3) {
		def := expr.Definition{Name: fmt.Sprintf("c%d", i)}
		for j := range 1 + g.r.IntN(3) {
			if j > 0 {
				def.Source += pick(g, " && ", " || ")
			}
			p := pick(g, parameters...)
			if !slices.Contains(def.Params, p) {
				def.Params = append(def.Params, p)
			}
			def.Source += g.literal(p)
		}
		g.w.Model.Conditions = append(g.w.Model.Conditions, def)
	}
}

func (g *generator) literal(p expr.Param) string {
	switch p.Type.Kind {
	case expr.Int:
		return p.Name + " < " + pick(g, "3", "5")
	case expr.String:
		return p.Name + ` == "` + pick(g, "a", "b") + `"`
	}
	return pick(g, "", "", "!") + p.Name
}

// types draws types and the names and restrictions of their relations. The
// first type is mostly used for plain subjects.
func (g *generator) types() {
	m := &g.w.Model
	for i, name := range []string{"user", "group", "doc", "folder"}[:2+g.r.IntN(3)] {
		t := schema.TypeDef{Name: name}
		if g.attributes {
			t.Attributes = attributeDefs
		}
		for _, r := range []string{"a", "b", "c", "d", "e"} {
			if g.chance(60) && (i > 0 || g.chance(10)) {
				t.Relations = append(t.Relations, schema.RelationDef{Name: r})
			}
		}
		if i > 0 && len(t.Relations) == 0 {
			t.Relations = append(t.Relations, schema.RelationDef{Name: "a"})
		}
		m.Types = append(m.Types, t)
	}
	g.drawRestrictions()
}

// drawRestrictions gives most relations type restrictions, so that tuples can
// be written to them.
func (g *generator) drawRestrictions() {
	for _, t := range g.w.Model.Types {
		relations := t.Relations
		for j := range relations {
			if g.chance(70) || j == len(relations)-1 && g.layered {
				relations[j].Subjects = g.restrictions()
			}
		}
	}
}

func (g *generator) restrictions() []schema.SubjectType {
	var all []schema.SubjectType
	add := func(st schema.SubjectType) {
		if !slices.Contains(all, st) {
			all = append(all, st)
		}
	}
	for range 1 + g.r.IntN(4) {
		st := schema.SubjectType{Type: "user"}
		switch n := g.r.IntN(12); {
		case n < 4:
		case n < 6:
			st.Wildcard = g.wildcards
		case n < 9 && g.usersets:
			t := pick(g, g.w.Model.Types...)
			if len(t.Relations) == 0 {
				continue
			}
			st.Type, st.Relation = t.Name, pick(g, t.Relations...).Name
		case n < 11:
			st.Type = pick(g, g.w.Model.Types...).Name
		default:
			st.Type, st.Wildcard = pick(g, g.w.Model.Types...).Name, g.wildcards
		}
		if !g.conditional || g.chance(60) {
			add(st)
		}
		if g.conditional && g.chance(50) {
			st.Condition = pick(g, g.w.Model.Conditions...).Name
			add(st)
		}
	}
	if len(all) == 0 {
		all = append(all, schema.SubjectType{Type: "user"})
	}
	return all
}

// rewrites draws the rewrite of each relation. A rewrite contains direct
// exactly if the relation has restrictions.
func (g *generator) rewrites() {
	for i := range g.w.Model.Types {
		t := &g.w.Model.Types[i]
		for j := range t.Relations {
			r := &t.Relations[j]
			s := scope{types: []*schema.TypeDef{t}, self: r.Name, direct: r.Subjects != nil}
			switch {
			case r.Subjects == nil:
				r.Rewrite = g.rewrite(s, 3)
			case g.chance(60):
				r.Rewrite = schema.Direct()
			default:
				if r.Rewrite = g.rewrite(s, 3); !holdsDirect(r.Rewrite) {
					r.Rewrite = g.operator(schema.Direct(), r.Rewrite)
				}
			}
		}
	}
}

func holdsDirect(r schema.Rewrite) bool {
	return r.Op == schema.OpDirect || slices.ContainsFunc(r.Children, holdsDirect)
}

// scope is where a rewrite is evaluated: on the relation's own type or, under
// an arrow, on every type that the arrow leads to.
type scope struct {
	types  []*schema.TypeDef
	self   string // the relation that the rewrite defines; "" under an arrow
	direct bool   // the rewrite may contain direct
}

// relationNames returns the names that a computed relation may have.
func (s scope) relationNames(layered bool) []string {
	var names []string
	for _, t := range s.types {
		for _, r := range t.Relations {
			if !(layered && s.self != "" && r.Name <= s.self) {
				names = append(names, r.Name)
			}
		}
	}
	return names
}

// operator joins two rewrites by a random operator.
func (g *generator) operator(a, b schema.Rewrite) schema.Rewrite {
	switch n := g.r.IntN(10); {
	case g.plain || n < 4:
		return schema.Union(a, b)
	case n < 6:
		return schema.Intersection(a, b)
	case n < 9:
		return schema.Exclusion(a, b)
	}
	return schema.Exclusion(b, a)
}

// rewrite draws a rewrite with at most depth nested operators.
func (g *generator) rewrite(s scope, depth int) schema.Rewrite {
	if depth > 0 && g.chance(45) {
		r := g.operator(g.rewrite(s, depth-1), g.rewrite(s, depth-1))
		if r.Op != schema.OpExclusion && g.chance(20) {
			r.Children = append(r.Children, g.rewrite(s, depth-1))
		}
		return r
	}
	switch n := g.r.IntN(20); {
	case n < 6 && s.direct:
		return schema.Direct()
	case n < 10 && g.arrows:
		if r, ok := g.arrow(s, depth); ok {
			return r
		}
	case n < 11 && g.attributes:
		return schema.Rewrite{Op: schema.OpAttribute, Attribute: "open"}
	case n < 12 && g.attributes:
		return g.rule()
	}
	if names := s.relationNames(g.layered); len(names) > 0 {
		return schema.Computed(pick(g, names...))
	}
	if s.direct {
		return schema.Direct()
	}
	return schema.Computed(s.types[0].Relations[len(s.types[0].Relations)-1].Name)
}

// arrow draws an arrow. It returns false if the type has no relation to
// follow, or if the types that it leads to have no relation.
func (g *generator) arrow(s scope, depth int) (schema.Rewrite, bool) {
	var first []schema.RelationDef
	for _, t := range s.types {
		for _, r := range t.Relations {
			if r.Subjects != nil {
				first = append(first, r)
			}
		}
	}
	if len(first) == 0 {
		return schema.Rewrite{}, false
	}
	p := pick(g, first...)
	related := scope{}
	for i := range g.w.Model.Types {
		t := &g.w.Model.Types[i]
		leadsTo := func(st schema.SubjectType) bool { return st.Type == t.Name && !st.Wildcard }
		if len(t.Relations) > 0 && slices.ContainsFunc(p.Subjects, leadsTo) {
			related.types = append(related.types, t)
		}
	}
	names := related.relationNames(false)
	if len(names) == 0 {
		return schema.Rewrite{}, false
	}
	if depth > 0 && g.chance(30) {
		return schema.Rewrite{Op: schema.OpArrow, Relation: p.Name,
			Children: []schema.Rewrite{g.rewrite(related, depth-1)}}, true
	}
	return schema.Arrow(p.Name, pick(g, names...)), true
}

// rule draws a call of a rule.
func (g *generator) rule() schema.Rewrite {
	def := pick(g, g.w.Model.Conditions...)
	call := &schema.RuleCall{Name: def.Name}
	for _, p := range def.Params {
		a := schema.RuleArg{Param: p.Name, Context: pick(g, parameters...).Name}
		for _, attr := range attributeDefs {
			if attr.Type == p.Type && g.chance(70) {
				a.Attribute, a.Context = attr.Name, ""
			}
		}
		call.Args = append(call.Args, a)
	}
	return schema.Rewrite{Op: schema.OpRule, Rule: call}
}
