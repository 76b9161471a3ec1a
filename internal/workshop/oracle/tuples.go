package oracle

import (
	"slices"
	"strconv"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// request draws the request's context.
func (g *generator) request() {
	if len(g.w.Model.Conditions) == 0 {
		return
	}
	g.w.Context = g.someValues(pick(g, 10, 50, 90))
}

// someValues draws a value for each parameter with the given chance, in rare
// cases one of another type.
func (g *generator) someValues(percent int) expr.Values {
	v := expr.Values{}
	for _, p := range parameters {
		if g.chance(percent) {
			v[p.Name] = g.value(p.Type.Kind)
		}
	}
	return v
}

func (g *generator) value(k expr.Kind) any {
	if g.chance(3) {
		k = pick(g, expr.Int, expr.String, expr.Bool)
	}
	switch k {
	case expr.Int:
		return float64(pick(g, 2, 4, 6))
	case expr.String:
		return pick(g, "a", "b")
	}
	return g.chance(60)
}

// fullName returns a type's name as tuples contain it, with the namespace.
func (g *generator) fullName(name string) string {
	if g.w.Model.Namespace == "" {
		return name
	}
	return g.w.Model.Namespace + "/" + name
}

func (g *generator) id() string {
	if g.w.Model.Options.StarIsOrdinary && g.chance(15) {
		return rel.Wildcard
	}
	return strconv.Itoa(1 + g.r.IntN(g.ids))
}

// tuples draws the stored and the contextual tuples.
func (g *generator) tuples() {
	keys := map[rel.Key]bool{}
	n := 5 + g.r.IntN(36)
	for range n {
		if t, ok := g.tuple(); ok && !keys[t.Key()] {
			keys[t.Key()] = true
			g.w.Stored = append(g.w.Stored, t)
		}
	}
	if g.wide && len(g.w.Stored) > 0 {
		g.widen(keys)
	}
	if !g.chance(35) {
		return
	}
	contextual := map[rel.Key]bool{}
	for range 1 + g.r.IntN(4) {
		t, ok := g.tuple()
		if len(g.w.Stored) > 0 && g.chance(50) {
			t, ok = g.altered(pick(g, g.w.Stored...)), true
		}
		if ok && !contextual[t.Key()] {
			contextual[t.Key()] = true
			g.w.Contextual = append(g.w.Contextual, t)
		}
	}
}

// widen repeats one tuple for very many subjects, or on very many objects. It
// uses many subjects only if their type has no relations. Otherwise the oracle
// would take too long: it computes everything again for each subject, and for
// each relation of each object.
func (g *generator) widen(keys map[rel.Key]bool) {
	like := pick(g, g.w.Stored...)
	subjects := like.Subject.Relation == "" && like.Subject.ID != rel.Wildcard
	for _, t := range g.w.Model.Types {
		subjects = subjects && !(g.fullName(t.Name) == like.Subject.Type && len(t.Relations) > 0)
	}
	for i := range wideMin + g.r.IntN(wideMin) {
		t := like
		if subjects {
			t.Subject.ID = wideID(i)
		} else {
			t.Object.ID = wideID(i)
		}
		if g.chance(5) {
			t = g.altered(t)
		}
		if !keys[t.Key()] {
			keys[t.Key()] = true
			g.w.Stored = append(g.w.Stored, t)
		}
	}
}

// wideMin is the smallest number of tuples that widen adds; it is more than a
// chunk of a list in the graph.
const wideMin = 600

func wideID(i int) string { return "w" + strconv.Itoa(1000+i) }

// wide returns additional questions for a wide world, one for each of the
// tuples that widen added.
func (w *World) wide() []Question {
	var all []Question
	for _, t := range w.Stored {
		if len(t.Object.ID) == len(wideID(0)) || len(t.Subject.ID) == len(wideID(0)) {
			all = append(all, Question{t.Object, t.Relation, t.Subject})
		}
	}
	return all
}

// tuple draws a tuple that a restriction admits or, sometimes, a stale one. It
// returns false if it found no relation to write to.
func (g *generator) tuple() (rel.Tuple, bool) {
	var types []*schema.TypeDef
	for i := range g.w.Model.Types {
		if t := &g.w.Model.Types[i]; len(t.Relations) > 0 {
			types = append(types, t)
		}
	}
	t := pick(g, types...)
	var assignable []schema.RelationDef
	for _, r := range t.Relations {
		if r.Subjects != nil {
			assignable = append(assignable, r)
		}
	}
	if len(assignable) == 0 {
		return rel.Tuple{}, false
	}
	r := pick(g, assignable...)
	st := pick(g, r.Subjects...)
	name := r.Name
	typ := g.fullName(t.Name)
	if g.chance(8) {
		typ, name, st = g.makeStale(t, r, st)
	}
	out := rel.Tuple{Object: rel.Object{Type: typ, ID: g.id()}, Relation: name,
		Subject: rel.Subject{Type: g.fullName(st.Type), ID: g.id(), Relation: st.Relation}}
	if st.Wildcard {
		out.Subject.ID = rel.Wildcard
	}
	if out.Subject.Relation != "" && out.Subject.ID == rel.Wildcard {
		out.Subject.ID = "1" // a wildcard has no relation
	}
	return g.addDetail(out, st.Condition), true
}

// makeStale changes the type, the relation or the restriction of a tuple, so
// that the schema does not admit the tuple or admits it elsewhere.
func (g *generator) makeStale(t *schema.TypeDef, r schema.RelationDef, st schema.SubjectType) (string, string, schema.SubjectType) {
	typ, name := g.fullName(t.Name), r.Name
	switch g.r.IntN(8) {
	case 0:
		typ = pick(g, "gone", "user", "doc")
	case 1:
		name = "gone"
	case 2:
		name = pick(g, t.Relations...).Name
	case 3:
		st.Type = pick(g, "user", "group", "doc")
	case 4:
		st.Wildcard, st.Relation = !g.w.Model.Options.StarIsOrdinary, ""
	case 5:
		st.Wildcard, st.Relation = false, pick(g, "", "a", "b", "gone")
	case 6:
		st.Condition = ""
	case 7:
		st.Condition = pick(g, "c0", "c1", "gone")
	}
	return typ, name, st
}

// addDetail gives a tuple a condition, some stored parameters, and sometimes an
// expiry.
func (g *generator) addDetail(t rel.Tuple, condition string) rel.Tuple {
	t.Condition, t.Context, t.Expires = condition, "", 0
	if condition != "" && g.chance(70) {
		values := g.someValues(pick(g, 20, 60, 90))
		for name := range values {
			if !g.hasParameter(condition, name) {
				delete(values, name)
			}
		}
		// The values are plain JSON, so this cannot fail.
		t.Context, _ = rel.CanonicalValue(values)
	}
	if g.chance(8) {
		t.Expires = pick(g, epoch-1, epoch, epoch+1, epoch+3600_000_000_000)
	}
	return t
}

// hasParameter reports whether a condition has a parameter. A condition that
// the model lacks counts as having all of them.
func (g *generator) hasParameter(condition, param string) bool {
	for _, def := range g.w.Model.Conditions {
		if def.Name == condition {
			return slices.ContainsFunc(def.Params, func(p expr.Param) bool { return p.Name == param })
		}
	}
	return true
}

// altered returns a tuple with the same key but perhaps another condition,
// context or expiry.
func (g *generator) altered(t rel.Tuple) rel.Tuple {
	condition := t.Condition
	for _, typ := range g.w.Model.Types {
		for _, r := range typ.Relations {
			if g.fullName(typ.Name) != t.Object.Type || r.Name != t.Relation {
				continue
			}
			for _, st := range r.Subjects {
				if g.fullName(st.Type) == t.Subject.Type && st.Relation == t.Subject.Relation &&
					st.Wildcard == (t.Subject.IsWildcard() && !g.w.Model.Options.StarIsOrdinary) && g.chance(60) {
					condition = st.Condition
				}
			}
		}
	}
	t = g.addDetail(t, condition)
	if g.chance(20) {
		t.Expires = epoch - 1
	}
	return t
}

// values draws stored and contextual attributes.
func (g *generator) values() {
	if !g.attributes {
		return
	}
	contextual := g.chance(40)
	for _, t := range g.w.Model.Types {
		for i := range g.ids {
			x := rel.Object{Type: g.fullName(t.Name), ID: strconv.Itoa(1 + i)}
			for _, a := range t.Attributes {
				text, _ := rel.CanonicalValue(g.value(a.Type.Kind)) // scalars cannot fail
				v := rel.Attribute{Object: x, Name: a.Name, Value: text}
				switch n := g.r.IntN(100); {
				case n < 55:
					g.w.Attributes = append(g.w.Attributes, v)
				case n < 65 && contextual:
					g.w.ContextualAttributes = append(g.w.ContextualAttributes, v)
				case n < 75 && contextual:
					g.w.ContextualAttributes = append(g.w.ContextualAttributes, v)
					v.Value, _ = rel.CanonicalValue(g.value(a.Type.Kind))
					g.w.Attributes = append(g.w.Attributes, v)
				}
			}
		}
	}
}

// Subjects draws at most n different subjects to ask about in w: subjects of
// tuples, strangers, usersets and wildcards.
func Subjects(seed uint64, w *World, n int) []rel.Subject {
	g := newGenerator(seed ^ 0x5b)
	g.w, g.ids = *w, 5
	var all []rel.Subject
	for range 4 * n {
		if s := g.subject(); len(all) < n && !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

func (g *generator) subject() rel.Subject {
	t := pick(g, g.w.Model.Types...)
	switch n := g.r.IntN(20); {
	case n < 9:
		return rel.Subject{Type: g.fullName("user"), ID: g.id()}
	case n < 14 && len(g.w.Stored) > 0:
		return pick(g, g.w.Stored...).Subject
	case n < 15:
		return rel.Subject{Type: g.fullName("user"), ID: rel.Wildcard}
	case n < 16:
		return rel.Subject{Type: g.fullName("user"), ID: "stranger"}
	case n < 18 && len(t.Relations) > 0:
		if s := (rel.Subject{Type: g.fullName(t.Name), ID: g.id(), Relation: pick(g, t.Relations...).Name}); s.ID != rel.Wildcard {
			return s
		}
	}
	return rel.Subject{Type: g.fullName(t.Name), ID: g.id()}
}
