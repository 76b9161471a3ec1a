package oracle

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/eval"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
)

// neighbour is the namespace that stands beside a world's own.
const neighbour = "next"

// schemasLaw: a store that holds several schemas answers each question by the
// one that it names, or by the one that is current in its type's namespace at
// the revision asked, in whatever turn they are asked.
func schemasLaw(b *Bench) *Failure {
	if len(b.Questions) == 0 || !b.admissible() || !b.wellTyped() || len(b.World.Stored) > wideMin {
		return nil
	}
	t := &schemasTrial{seed: b.Seed, r: rand.New(rand.NewPCG(b.Seed, 0x5c4e)), coverage: b.Coverage}
	err := t.worlds(b)
	if err == nil {
		err = t.run()
	}
	if f := (*Failure)(nil); err == nil || errors.As(err, &f) {
		return f
	}
	return &Failure{Text: err.Error()}
}

// schemasTrial is one run of the law.
type schemasTrial struct {
	seed     uint64
	r        *rand.Rand
	coverage *Coverage
	stored   State // of all the worlds together
	store    storage.StoreID
	// own is the world's; on the same data, early is by an earlier version of its
	// schema and revised by a later one. beside is a world of the other namespace.
	own, early, revised, beside *Bench
	schemas                     map[*Bench]string // their ids
	before                      ostiary.Token     // a revision at which own's is current
	after                       ostiary.Token     // one at which revised's is
}

// turn is one of the ways to ask: whose answers are right, by a schema's id or
// by what is current at a revision.
type turn struct {
	what string
	of   *Bench
	id   string
	at   ostiary.Consistency
}

// worlds makes the worlds, which share one store's data.
func (t *schemasTrial) worlds(own *Bench) error {
	w := own.World
	w.Stored = slices.DeleteFunc(slices.Clone(w.Stored), func(x rel.Tuple) bool {
		return refused(storage.Change{Kind: storage.TupleAdd, Tuple: x})
	})
	w.Attributes = slices.DeleteFunc(slices.Clone(w.Attributes), func(x rel.Attribute) bool {
		return refused(storage.Change{Kind: storage.AttributeSet, Attribute: x})
	})
	other := t.moved(&w)
	t.stored = State{slices.Concat(w.Stored, other.Stored), slices.Concat(w.Attributes, other.Attributes)}
	earlier, later := w, w
	earlier.Model, later.Model = revision(t.seed, &w.Model), revision(t.seed+1, &w.Model)
	other.Model = revision(t.seed+2, &w.Model)
	other.Model.Namespace = neighbour
	for _, x := range []struct {
		bench     **Bench
		world     World
		questions []Question
	}{{&t.own, w, own.Questions}, {&t.early, earlier, nil}, {&t.revised, later, nil}, {&t.beside, other, nil}} {
		x.world.Stored, x.world.Attributes = t.stored.Tuples, t.stored.Attributes
		b, err := settled(t.seed, x.world, x.questions)
		if err != nil {
			return err
		}
		*x.bench = b
	}
	return nil
}

// settled is a bench of a world, less the contextual tuples that its schema
// does not admit.
func settled(seed uint64, w World, questions []Question) (*Bench, error) {
	o, err := New(w, Conditions{})
	if err != nil {
		return nil, err
	}
	w.Contextual = slices.DeleteFunc(slices.Clone(w.Contextual), func(x rel.Tuple) bool { return !o.admitted(x) })
	return NewBench(seed, w, questions, nil)
}

// moved is a part of a world's data in the neighbour's namespace.
func (t *schemasTrial) moved(w *World) World {
	name := func(typ string) string {
		_, short, ok := strings.Cut(typ, "/")
		if !ok {
			short = typ
		}
		return neighbour + "/" + short
	}
	tuples := func(all []rel.Tuple, percent int) []rel.Tuple {
		var some []rel.Tuple
		keys := map[rel.Key]bool{}
		for _, x := range all {
			x.Object.Type, x.Subject.Type = name(x.Object.Type), name(x.Subject.Type) // two types may become one
			again := keys[x.Key()] || refused(storage.Change{Kind: storage.TupleAdd, Tuple: x})
			if t.r.IntN(100) < percent && !again {
				keys[x.Key()] = true
				some = append(some, x)
			}
		}
		return some
	}
	out := *w
	out.Stored, out.Contextual = tuples(w.Stored, 60), tuples(w.Contextual, 100)
	attributes := func(all []rel.Attribute) []rel.Attribute {
		all = slices.Clone(all)
		for i := range all {
			all[i].Object.Type = name(all[i].Object.Type)
		}
		return all
	}
	out.Attributes, out.ContextualAttributes = attributes(w.Attributes), attributes(w.ContextualAttributes)
	return out
}

// revision is another version of a model: the same types, relations and
// conditions, with other restrictions, rewrites and options. Where none that is
// drawn compiles it is the model itself.
func revision(seed uint64, m *schema.Model) schema.Model {
	for attempt := range uint64(8) {
		g := newGenerator(seed ^ 0x7e51 ^ attempt<<56)
		g.settings()
		o := g.w.Model.Options
		o.StarIsOrdinary = m.Options.StarIsOrdinary
		g.wildcards = g.wildcards && !o.StarIsOrdinary
		g.conditional = g.conditional && len(m.Conditions) > 0
		g.attributes = len(m.Types[0].Attributes) > 0
		g.w.Model = schema.Model{Namespace: m.Namespace, Options: o, Conditions: m.Conditions}
		for _, t := range m.Types {
			next := schema.TypeDef{Name: t.Name, Attributes: t.Attributes}
			for _, r := range t.Relations {
				next.Relations = append(next.Relations, schema.RelationDef{Name: r.Name})
			}
			g.w.Model.Types = append(g.w.Model.Types, next)
		}
		g.subjects()
		g.rewrites()
		if _, err := schema.Compile(&g.w.Model, Conditions{}); err == nil {
			return g.w.Model
		}
	}
	return *m
}

// run writes on one engine and asks on it, then on another over the same data.
func (t *schemasTrial) run() error {
	open := inMemory()
	for attempt := range 2 {
		driver, err := open()
		if err != nil {
			return err
		}
		e, err := ostiary.Open(context.Background(), ostiary.Options{Driver: driver, Conditions: Conditions{}, Window: -1,
			Clock: t.own.World.Now.Time})
		if err != nil {
			return errors.Join(err, driver.Close())
		}
		if attempt == 0 {
			err = t.first(e)
		} else {
			err = t.again(e)
		}
		if err := errors.Join(err, e.Close(), driver.Close()); err != nil {
			return fmt.Errorf("engine %d: %w", attempt+1, err)
		}
	}
	return nil
}

// first fills a store, and asks it before and after a schema is removed.
func (t *schemasTrial) first(e *ostiary.Engine) error {
	s, err := e.CreateStore(context.Background(), ostiary.CreateStoreRequest{Name: "schemas"})
	if err != nil {
		return err
	}
	if err := t.write(s); err != nil {
		return err
	}
	if err := t.ask(s, append(t.named(), turn{what: "the newest version", of: t.revised})); err != nil {
		return err
	}
	if _, err := s.RemoveSchema(context.Background(), t.schemas[t.revised]); err != nil {
		return err
	}
	return t.removed(s)
}

// again asks an engine that finds the store.
func (t *schemasTrial) again(e *ostiary.Engine) error {
	s, err := e.Store(context.Background(), t.store)
	if err != nil {
		return err
	}
	return t.removed(s)
}

// write fills a store under a schema that admits all, and writes the others
// after it, the newest version last.
func (t *schemasTrial) write(s *ostiary.Store) error {
	ctx := context.Background()
	changes := difference(State{}, t.stored)
	admits, _, err := s.WriteSchema(ctx, ostiary.SchemaSource{
		Model: permissive(&t.own.World.Model, History{Revisions: [][]storage.Change{changes}})})
	if err != nil {
		return fmt.Errorf("permissive schema: %w", err)
	}
	for _, w := range writes(changes) {
		w.SchemaID = admits.ID
		if _, err := s.Write(ctx, w); err != nil {
			return fmt.Errorf("write: %w", err)
		}
	}
	t.store, t.schemas = s.ID(), map[*Bench]string{}
	for _, b := range []*Bench{t.early, t.own, t.beside, t.revised} {
		info, token, err := s.WriteSchema(ctx, ostiary.SchemaSource{Model: &b.World.Model})
		if err != nil {
			return err
		}
		t.schemas[b] = info.ID
		switch b {
		case t.own:
			t.before = token
		case t.revised:
			t.after = token
		}
	}
	return nil
}

// named are the turns that mean the same as long as the store lives.
func (t *schemasTrial) named() []turn {
	return []turn{
		{what: "the own version by its id", of: t.own, id: t.schemas[t.own]},
		{what: "the earlier version by its id", of: t.early, id: t.schemas[t.early]},
		{what: "the own version, when it was current", of: t.own, at: ostiary.AtExactly(t.before)},
		{what: "the next version, when it was current", of: t.revised, at: ostiary.AtExactly(t.after)},
		{what: "the next version by its id, at its revision", of: t.revised, id: t.schemas[t.revised], at: ostiary.AtExactly(t.after)},
		{what: "the other namespace", of: t.beside},
		{what: "the other namespace's schema by its id", of: t.beside, id: t.schemas[t.beside]},
	}
}

// removed asks when the newest version is there no more.
func (t *schemasTrial) removed(s *ostiary.Store) error {
	q := t.own.Questions[0]
	_, err := s.Check(context.Background(), ostiary.CheckRequest{Object: q.Object, Relation: q.Relation, Subject: q.Subject,
		QueryOptions: ostiary.QueryOptions{SchemaID: t.schemas[t.revised]}})
	if !errors.Is(err, ostiary.ErrNoSchema) {
		return fmt.Errorf("a schema that was removed: want ErrNoSchema, got %v", err)
	}
	return t.ask(s, append(t.named(), turn{what: "the own version, current again", of: t.own}))
}

// ask takes each turn more than once, in random order.
func (t *schemasTrial) ask(s *ostiary.Store, turns []turn) error {
	order := slices.Concat(turns, turns)
	t.r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	for _, x := range order {
		if len(x.of.Questions) == 0 {
			continue
		}
		one := trial{b: x.of, ids: [2]storage.StoreID{s.ID()}, schema: x.id}
		if err := one.checks(s, x.at, x.of.answers(), x.what); err != nil {
			return err
		}
		t.count(x.of)
	}
	return t.mixed(s, turns)
}

// answers are the tables of all questions.
func (b *Bench) answers() map[rel.Subject]*Table {
	for _, q := range b.Questions {
		b.table(q.Subject)
	}
	return b.tables
}

// mixed asks by several schemas in one call.
func (t *schemasTrial) mixed(s *ostiary.Store, turns []turn) error {
	var requests []ostiary.CheckRequest
	var want []expr.Tristate
	for range manyMax {
		x := turns[t.r.IntN(len(turns))]
		if len(x.of.Questions) == 0 || x.at != (ostiary.Consistency{}) {
			continue
		}
		q, w := x.of.Questions[t.r.IntN(len(x.of.Questions))], &x.of.World
		requests = append(requests, ostiary.CheckRequest{Object: q.Object, Relation: q.Relation, Subject: q.Subject,
			QueryOptions: ostiary.QueryOptions{SchemaID: x.id, Context: w.Context, Tuples: w.Contextual, Attributes: w.ContextualAttributes,
				Bounds: eval.Bounds{Depth: w.Depth}}})
		want = append(want, x.of.truth(q))
	}
	results, err := s.CheckMany(context.Background(), requests, ostiary.Consistency{})
	if err != nil {
		return err
	}
	for i, r := range results {
		if q := requests[i]; r.Err != nil || r.Decision != want[i] {
			return &Failure{Question: Question{q.Object, q.Relation, q.Subject},
				Text: fmt.Sprintf("among many of several schemas (%q): want %s, got %s, %v", q.SchemaID, want[i], r.Decision, r.Err)}
		}
	}
	return nil
}

const manyMax = 40 // of several schemas in one call

func (t *schemasTrial) count(b *Bench) {
	if t.coverage == nil {
		return
	}
	feature := featureVersions
	if b == t.beside {
		feature = featureNamespaces
	}
	for _, q := range b.Questions {
		t.coverage.cell(b.survey, q, feature)
	}
}
