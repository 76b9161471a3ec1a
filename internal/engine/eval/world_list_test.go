package eval

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/expr/cel"
	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// smallWorld is a random world for the tests of lists, expand and explain: a
// model of every operator, a few objects, and a request.
type smallWorld struct {
	seed    uint64
	b       *Binding
	view    *graph.View
	env     *Env
	objects []rel.Object
	rng     *rand.Rand
}

func (w *smallWorld) pick(from ...string) string { return from[w.rng.IntN(len(from))] }
func (w *smallWorld) chance(percent int) bool    { return w.rng.IntN(100) < percent }

// newSmallWorld makes the world of a seed. It returns nil if the random model
// is not valid.
func newSmallWorld(t *testing.T, seed uint64) *smallWorld {
	t.Helper()
	w := &smallWorld{seed: seed, rng: rand.New(rand.NewPCG(seed, 7))}
	m := w.model()
	s, err := schema.Compile(m, cel.New(cel.Options{}))
	if err != nil {
		return nil
	}
	for _, typ := range []string{"user", "group", "doc"} {
		for i := range 3 {
			w.objects = append(w.objects, rel.Object{Type: typ, ID: fmt.Sprint(typ[:1], i)})
		}
	}
	stored, contextual := w.tuples(m), []rel.Tuple(nil)
	if w.chance(40) {
		n := w.rng.IntN(4)
		contextual, stored = stored[:min(n, len(stored))], stored[min(n, len(stored)):]
	}
	loader := graph.New(graph.Options{}).Load()
	for _, tuple := range stored {
		if err := loader.Add(tuple); err != nil {
			t.Fatal(err)
		}
	}
	w.env = &Env{Now: 100, Context: expr.Values{}, Tuples: contextual}
	for _, o := range w.objects {
		if o.Type == "doc" && w.chance(50) {
			a := rel.Attribute{Object: o, Name: "open", Value: w.pick("true", "false")}
			if w.chance(30) {
				w.env.Attributes = append(w.env.Attributes, a)
			} else if err := loader.SetAttribute(a); err != nil {
				t.Fatal(err)
			}
		}
	}
	if w.chance(50) {
		w.env.Context["x"] = w.chance(50)
	}
	if w.chance(30) {
		w.env.Bounds.Depth = 1 + w.rng.IntN(3)
	}
	if w.view, err = loader.Finish(); err != nil {
		t.Fatal(err)
	}
	w.b = Bind(s, w.view)
	return w
}

func (w *smallWorld) model() *schema.Model {
	m := &schema.Model{
		Types: []schema.TypeDef{{Name: "user"}, {Name: "group"}, {Name: "doc",
			Attributes: []schema.AttributeDef{{Name: "open", Type: expr.Type{Kind: expr.Bool}}}}},
		Conditions: []expr.Definition{{Name: "c", Source: "x", Params: []expr.Param{{Name: "x", Type: expr.Type{Kind: expr.Bool}}}}},
	}
	monotone := w.chance(30)
	m.Options = schema.Options{MissingContextFails: w.chance(15), StarIsOrdinary: w.chance(10)}
	for i := 1; i < 3; i++ {
		typ := &m.Types[i]
		parent := schema.RelationDef{Name: "parent", Rewrite: schema.Direct(), Subjects: w.subjects("group", "doc", "group#r0")}
		typ.Relations = append(typ.Relations, parent)
		for j := range 4 {
			d := schema.RelationDef{Name: fmt.Sprint("r", j)}
			direct := false
			d.Rewrite = w.rewrite(2, typ.Name, monotone, &direct)
			if direct {
				d.Subjects = w.subjects("user", "user", "user:*", "group#r0", "group#r1", "doc#r2", "doc#r3", "group")
			}
			typ.Relations = append(typ.Relations, d)
		}
	}
	return m
}

func (w *smallWorld) subjects(from ...string) []schema.SubjectType {
	var out []schema.SubjectType
	for range 1 + w.rng.IntN(3) {
		sub, err := rel.ParseSubject(w.pick(from...) + "")
		st := schema.SubjectType{}
		if err == nil { // "user:*"
			st.Type, st.Wildcard = sub.Type, true
		} else {
			st.Type = w.pick(from...)
			if i := slices.Index([]byte(st.Type), '#'); i > 0 {
				st.Type, st.Relation = st.Type[:i], st.Type[i+1:]
			} else if i := slices.Index([]byte(st.Type), ':'); i > 0 {
				st.Type, st.Wildcard = st.Type[:i], true
			}
		}
		if w.chance(25) {
			st.Condition = "c"
		}
		if !slices.Contains(out, st) {
			out = append(out, st)
		}
	}
	return out
}

func (w *smallWorld) rewrite(depth int, typ string, monotone bool, direct *bool) schema.Rewrite {
	n := w.rng.IntN(100)
	switch {
	case depth == 0 || n < 35:
		switch n := w.rng.IntN(100); {
		case n < 50:
			*direct = true
			return schema.Direct()
		case n < 75:
			return schema.Computed(w.pick("r0", "r1", "r2", "r3"))
		case n < 90 || monotone || typ != "doc":
			return schema.Arrow("parent", w.pick("r0", "r1", "r2", "r3"))
		case n < 95:
			return schema.Rewrite{Op: schema.OpRule, Rule: &schema.RuleCall{Name: "c", Args: []schema.RuleArg{{Param: "x", Attribute: "open"}}}}
		}
		return schema.Rewrite{Op: schema.OpAttribute, Attribute: "open"}
	case n < 60 || monotone:
		return schema.Union(w.rewrite(depth-1, typ, monotone, direct), w.rewrite(depth-1, typ, monotone, direct))
	case n < 80:
		return schema.Intersection(w.rewrite(depth-1, typ, monotone, direct), w.rewrite(depth-1, typ, monotone, direct))
	}
	return schema.Exclusion(w.rewrite(depth-1, typ, monotone, direct), w.rewrite(depth-1, typ, monotone, direct))
}

// tuples are admitted tuples, at most one per key.
func (w *smallWorld) tuples(m *schema.Model) []rel.Tuple {
	var out []rel.Tuple
	keys := map[rel.Key]bool{}
	for range 4 + w.rng.IntN(20) {
		typ := m.Types[1+w.rng.IntN(2)]
		def := typ.Relations[w.rng.IntN(len(typ.Relations))]
		if len(def.Subjects) == 0 {
			continue
		}
		st := def.Subjects[w.rng.IntN(len(def.Subjects))]
		t := rel.Tuple{Object: w.object(typ.Name), Relation: def.Name, Condition: st.Condition}
		t.Subject = rel.Subject{Type: st.Type, ID: w.object(st.Type).ID, Relation: st.Relation}
		if st.Wildcard {
			t.Subject.ID = rel.Wildcard
		}
		if st.Condition != "" && w.chance(50) {
			t.Context = w.pick(`{"x":true}`, `{"x":false}`)
		}
		if w.chance(10) {
			t.Expires = rel.Time(99 + w.rng.IntN(3))
		}
		if !keys[t.Key()] {
			keys[t.Key()] = true
			out = append(out, t)
		}
	}
	return out
}

func (w *smallWorld) object(typ string) rel.Object {
	for {
		if o := w.objects[w.rng.IntN(len(w.objects))]; o.Type == typ {
			return o
		}
	}
}

// askedRelations are the relations that questions name.
func (w *smallWorld) askedRelations() []*schema.Relation {
	var out []*schema.Relation
	for i := range w.b.s.Relations {
		if r := &w.b.s.Relations[i]; !r.Hidden {
			out = append(out, r)
		}
	}
	return out
}

// subjectsAsked are the subjects that questions name: the objects, their
// usersets, a wildcard and a stranger.
func (w *smallWorld) subjectsAsked() []rel.Subject {
	out := []rel.Subject{{Type: "user", ID: rel.Wildcard}, {Type: "user", ID: "stranger"}, {Type: "group", ID: "strange", Relation: "r0"}}
	for _, o := range w.objects {
		out = append(out, o.AsSubject())
		if o.Type != "user" {
			for _, r := range []string{"r0", "r1", "r2", "r3", "parent"} {
				out = append(out, rel.Subject{Type: o.Type, ID: o.ID, Relation: r})
			}
		}
	}
	return out
}

func (w *smallWorld) check(t *testing.T, o rel.Object, relation string, sub rel.Subject) expr.Tristate {
	t.Helper()
	a, err := w.b.Check(context.Background(), w.view, authz.Question{Object: o, Relation: relation, Subject: sub}, w.env)
	if err != nil {
		t.Fatalf("seed %d: check: %v", w.seed, err)
	}
	return a.Decision
}
