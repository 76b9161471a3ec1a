package eval_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/engine/eval"
	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/internal/workshop/oracle"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

var (
	worlds = flag.Int("worlds", 125, "random worlds that checks are compared on")
	first  = flag.Uint64("seed", 1, "the first world's seed")
)

// rows are tuples by their object and relation, and by their subject.
type rows struct {
	objects    map[rel.Key][]rel.Tuple // Subject is empty
	subjects   map[rel.Key][]rel.Tuple // the object's id is empty
	keys       map[rel.Key]rel.Tuple
	attributes map[rel.Attribute]string // Value is empty
}

func rowsOf(tuples []rel.Tuple, attributes []rel.Attribute) *rows {
	r := &rows{map[rel.Key][]rel.Tuple{}, map[rel.Key][]rel.Tuple{}, map[rel.Key]rel.Tuple{}, map[rel.Attribute]string{}}
	for _, t := range tuples {
		o := rel.Key{Object: t.Object, Relation: t.Relation}
		s := rel.Key{Object: rel.Object{Type: t.Object.Type}, Relation: t.Relation, Subject: t.Subject}
		r.objects[o] = append(r.objects[o], t)
		r.subjects[s] = append(r.subjects[s], t)
		r.keys[t.Key()] = t
	}
	for _, a := range attributes {
		r.attributes[rel.Attribute{Object: a.Object, Name: a.Name}] = a.Value
	}
	return r
}

func each(tuples []rel.Tuple, yield func(rel.Tuple) bool) error {
	for _, t := range tuples {
		if !yield(t) {
			break
		}
	}
	return nil
}

func (r *rows) Subjects(o rel.Object, relation string, yield func(rel.Tuple) bool) error {
	return each(r.objects[rel.Key{Object: o, Relation: relation}], yield)
}

func (r *rows) Objects(s rel.Subject, typ, relation string, yield func(rel.Tuple) bool) error {
	return each(r.subjects[rel.Key{Object: rel.Object{Type: typ}, Relation: relation, Subject: s}], yield)
}

func (r *rows) Probe(k rel.Key) (rel.Tuple, bool, error) {
	t, ok := r.keys[k]
	return t, ok, nil
}

func (r *rows) Attribute(o rel.Object, name string) (string, bool, error) {
	v, ok := r.attributes[rel.Attribute{Object: o, Name: name}]
	return v, ok, nil
}

// oneWay hides the optional interfaces of rows.
type oneWay struct{ r *rows }

func (o oneWay) Subjects(x rel.Object, relation string, yield func(rel.Tuple) bool) error {
	return o.r.Subjects(x, relation, yield)
}

func (o oneWay) Attribute(x rel.Object, name string) (string, bool, error) {
	return o.r.Attribute(x, name)
}

func envOf(w *oracle.World) *eval.Env {
	return &eval.Env{Now: w.Now, Context: w.Context, Tuples: w.Contextual, Attributes: w.ContextualAttributes,
		Bounds: authz.QuestionBounds{Depth: w.Depth}}
}

var modes = map[string]eval.Mode{"auto": eval.ModeAuto, "solver": eval.ModeSolver, "forward": eval.ModeForward,
	"backward": eval.ModeBackward, "shuffled": eval.ModeShuffled}

// TestSemantics runs the oracle's scripts, which hold the table of
// docs/semantics.md and the rules in its prose, in every mode.
func TestSemantics(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("../../../internal/workshop/oracle/testdata/semantics/*.txt")
	if err != nil || len(paths) < 15 {
		t.Fatalf("%d scripts, %v", len(paths), err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		script, err := oracle.ParseScript(string(text))
		if err != nil {
			t.Fatal(err)
		}
		for mode, m := range modes {
			t.Run(strings.TrimSuffix(filepath.Base(path), ".txt")+"/"+mode, func(t *testing.T) {
				t.Parallel()
				w := &script.World
				s := compile(t, &w.Model)
				env := envOf(w)
				env.Tuples = admitted(s, env.Tuples)
				r := eval.NewReader(rowsOf(w.Stored, w.Attributes))
				b := eval.Bind(s, r).Force(m)
				for _, a := range script.Asks {
					got, err := b.Check(context.Background(), r, authz.Question(a.Question), env)
					if err != nil || got.Decision != a.Want {
						t.Errorf("%s = %s (%s), %v; want %s", a.Question, got.Decision, got.Reasons, err, a.Want)
					}
				}
			})
		}
	}
}

func compile(t testing.TB, m *schema.Model) *schema.Schema {
	t.Helper()
	s, err := schema.Compile(m, oracle.Conditions{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// admitted leaves out the contextual tuples that the schema does not admit.
func admitted(s *schema.Schema, tuples []rel.Tuple) []rel.Tuple {
	var ok []rel.Tuple
	for i := range tuples {
		if eval.Admit(s, &tuples[i]) == nil {
			ok = append(ok, tuples[i])
		}
	}
	return ok
}

// TestWorlds compares every mode with the oracle on random worlds. All unknown
// answers to a question must have the same reasons.
func TestWorlds(t *testing.T) {
	t.Parallel()
	counts := [3]int{}
	for seed := *first; seed < *first+uint64(*worlds); seed++ {
		w := oracle.Random(seed)
		s, err := schema.Compile(&w.Model, oracle.Conditions{})
		if err != nil {
			continue
		}
		w.Contextual = admitted(s, w.Contextual)
		compareWorld(t, seed, &w, s, &counts)
		if t.Failed() {
			return
		}
	}
	t.Logf("false, unknown, true: %v", counts)
}

func viewOf(t testing.TB, w *oracle.World) *graph.View {
	t.Helper()
	l := graph.New(graph.Options{}).Load()
	for _, x := range w.Stored {
		if err := l.Add(x); err != nil {
			t.Fatal(err)
		}
	}
	for _, a := range w.Attributes {
		if err := l.SetAttribute(a); err != nil {
			t.Fatal(err)
		}
	}
	v, err := l.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func compareWorld(t *testing.T, seed uint64, w *oracle.World, s *schema.Schema, counts *[3]int) {
	o, err := oracle.New(*w, oracle.Conditions{})
	if err != nil {
		t.Fatal(err)
	}
	data := rowsOf(w.Stored, w.Attributes)
	readers := map[string]eval.Reader{"graph": viewOf(t, w), "both ways": eval.NewReader(data), "one way": eval.NewReader(oneWay{data})}
	env := envOf(w)
	for _, sub := range oracle.Subjects(seed, w, 4) {
		qs := questions(s, w, sub)
		var objects []rel.Object
		for _, q := range qs {
			objects = append(objects, q.Object)
		}
		table := o.Members(sub, objects...)
		for _, q := range qs {
			want := table.Truth(q.Object, q.Relation)
			counts[want]++
			reasons := ""
			for way, r := range readers {
				for name, mode := range modes {
					got, err := eval.Bind(s, r).Force(mode).Check(context.Background(), r, q, env)
					if err != nil || got.Decision != want {
						t.Errorf("seed %d, %s, %s: %s = %s (%s), %v; want %s\n%s", seed, way, name,
							oracle.Question(q), got.Decision, got.Reasons, err, want, oracle.Script{World: *w})
						return
					}
					why := got.Reasons.String()
					if reasons == "" {
						reasons = why
					}
					if reasons != why || got.Decision == expr.Unknown && why == "" {
						t.Errorf("seed %d, %s: %s is unknown for %q and for %q", seed, name, oracle.Question(q), reasons, why)
						return
					}
				}
			}
		}
	}
}

// questions are all questions about a subject and the world's objects.
func questions(s *schema.Schema, w *oracle.World, sub rel.Subject) []authz.Question {
	seen := map[rel.Object]bool{}
	var qs []authz.Question
	add := func(o rel.Object) {
		t, ok := s.Type(o.Type)
		if seen[o] || !ok {
			return
		}
		seen[o] = true
		for _, id := range s.RelationsOf(t) {
			qs = append(qs, authz.Question{Object: o, Relation: s.Relations[id].Name, Subject: sub})
		}
	}
	for _, t := range append(append([]rel.Tuple{}, w.Stored...), w.Contextual...) {
		add(t.Object)
		add(t.Subject.Object())
	}
	for i := range s.Types {
		add(rel.Object{Type: s.Types[i].Name, ID: "nowhere"})
	}
	return qs
}
