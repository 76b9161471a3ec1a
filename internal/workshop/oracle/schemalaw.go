package oracle

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
)

// otherNamespace is a namespace in the store in addition to the world's own.
const otherNamespace = "next"

// schemasLaw: a store with several schemas answers each question by the schema
// that the question names. If the question names no schema, the store uses the
// one that is current in the type's namespace at the revision. The order of
// the questions does not matter.
func schemasLaw(b *Bench) *Failure {
	if len(b.Questions) == 0 || !b.admissible() || !b.wellTyped() || len(b.World.Stored) > wideMin {
		return nil
	}
	t := &schemasTrial{seed: b.Seed, r: rand.New(rand.NewPCG(b.Seed, 0x5c4e)), coverage: b.Coverage}
	err := t.makeBenches(b)
	if err == nil {
		err = t.run()
	}
	if f := (*Failure)(nil); err == nil || errors.As(err, &f) {
		return f
	}
	return &Failure{Text: err.Error()}
}

// schemasTrial is one run of the law on one world.
type schemasTrial struct {
	seed     uint64
	r        *rand.Rand
	coverage *Coverage
	stored   State // the data of all the benches together
	store    storage.StoreID
	// own is the world's bench. earlier and later have other versions of its
	// schema, one written before it and one after it. other has a schema of the
	// other namespace.
	own, earlier, later, other *Bench
	schemas                    map[*Bench]string // ids of the schemas
	ownCurrent                 authz.Token       // a revision at which the schema of own is current
	laterCurrent               authz.Token       // a revision at which the schema of later is current
}

// schemaChoice is one of the ways to choose a schema for a question.
type schemaChoice struct {
	what     string            // describes the choice in failures
	bench    *Bench            // has the expected answers
	schemaID string            // the schema to name; "" names none
	at       authz.Consistency // the revision to ask at
}

// makeBenches makes the benches, which share the data of one store.
func (t *schemasTrial) makeBenches(own *Bench) error {
	w := own.World
	w.Stored = slices.DeleteFunc(slices.Clone(w.Stored), func(x rel.Tuple) bool {
		return isRefused(storage.Change{Kind: storage.TupleAdd, Tuple: x})
	})
	w.Attributes = slices.DeleteFunc(slices.Clone(w.Attributes), func(x rel.Attribute) bool {
		return isRefused(storage.Change{Kind: storage.AttributeSet, Attribute: x})
	})
	other := t.inOtherNamespace(&w)
	t.stored = State{slices.Concat(w.Stored, other.Stored), slices.Concat(w.Attributes, other.Attributes)}
	earlier, later := w, w
	earlier.Model, later.Model = otherVersion(t.seed, &w.Model), otherVersion(t.seed+1, &w.Model)
	other.Model = otherVersion(t.seed+2, &w.Model)
	other.Model.Namespace = otherNamespace
	for _, x := range []struct {
		bench     **Bench
		world     World
		questions []Question
	}{{&t.own, w, own.Questions}, {&t.earlier, earlier, nil}, {&t.later, later, nil}, {&t.other, other, nil}} {
		x.world.Stored, x.world.Attributes = t.stored.Tuples, t.stored.Attributes
		b, err := admittedBench(t.seed, x.world, x.questions)
		if err != nil {
			return err
		}
		*x.bench = b
	}
	return nil
}

// admittedBench returns a bench for w without the contextual tuples that its
// schema does not admit.
func admittedBench(seed uint64, w World, questions []Question) (*Bench, error) {
	o, err := New(w, Conditions{})
	if err != nil {
		return nil, err
	}
	w.Contextual = slices.DeleteFunc(slices.Clone(w.Contextual), func(x rel.Tuple) bool { return !o.admitted(x) })
	return NewBench(seed, w, questions, nil)
}

// inOtherNamespace returns a part of a world's data with the types of the other
// namespace.
func (t *schemasTrial) inOtherNamespace(w *World) World {
	name := func(typ string) string {
		_, short, ok := strings.Cut(typ, "/")
		if !ok {
			short = typ
		}
		return otherNamespace + "/" + short
	}
	tuples := func(all []rel.Tuple, percent int) []rel.Tuple {
		var some []rel.Tuple
		keys := map[rel.Key]bool{}
		for _, x := range all {
			x.Object.Type, x.Subject.Type = name(x.Object.Type), name(x.Subject.Type) // two types may become one
			again := keys[x.Key()] || isRefused(storage.Change{Kind: storage.TupleAdd, Tuple: x})
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

// otherVersion returns another version of a model: the same types, relations
// and conditions, with other restrictions, rewrites and options. If no version
// that it draws compiles, it returns the model itself.
func otherVersion(seed uint64, m *schema.Model) schema.Model {
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
		g.drawRestrictions()
		g.rewrites()
		if _, err := schema.Compile(&g.w.Model, Conditions{}); err == nil {
			return g.w.Model
		}
	}
	return *m
}

// run writes and asks on one engine, then asks a second engine on the same
// data.
func (t *schemasTrial) run() error {
	return onTwoEngines(inMemory(), t.own.World.Now, t.writeAndCompare, t.reopen)
}

// writeAndCompare fills a store and asks it before and after a schema is
// removed.
func (t *schemasTrial) writeAndCompare(e *ostiary.Engine) error {
	s, err := e.CreateStore(context.Background(), ostiary.CreateStoreRequest{Name: "schemas"})
	if err != nil {
		return err
	}
	if err := t.writeSchemas(s); err != nil {
		return err
	}
	if err := t.compareChoices(s, append(t.lastingChoices(), schemaChoice{what: "the newest version", bench: t.later})); err != nil {
		return err
	}
	if _, err := s.RemoveSchema(context.Background(), t.schemas[t.later]); err != nil {
		return err
	}
	return t.compareAfterRemoval(s)
}

// reopen asks an engine that finds the store in its data.
func (t *schemasTrial) reopen(e *ostiary.Engine) error {
	s, err := e.Store(context.Background(), t.store)
	if err != nil {
		return err
	}
	return t.compareAfterRemoval(s)
}

// writeSchemas writes the data under a schema that admits all of it, and then
// the schemas of the benches. The schema of later is the last one.
func (t *schemasTrial) writeSchemas(s *ostiary.Store) error {
	ctx := context.Background()
	changes := difference(State{}, t.stored)
	admits, _, err := s.WriteSchema(ctx, authz.SchemaSource{
		Model: permissiveModel(&t.own.World.Model, History{Revisions: [][]storage.Change{changes}})})
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
	for _, b := range []*Bench{t.earlier, t.own, t.other, t.later} {
		info, token, err := s.WriteSchema(ctx, authz.SchemaSource{Model: &b.World.Model})
		if err != nil {
			return err
		}
		t.schemas[b] = info.ID
		switch b {
		case t.own:
			t.ownCurrent = token
		case t.later:
			t.laterCurrent = token
		}
	}
	return nil
}

// lastingChoices returns the choices that stay valid after the newest schema is
// removed.
func (t *schemasTrial) lastingChoices() []schemaChoice {
	return []schemaChoice{
		{what: "the own version by its id", bench: t.own, schemaID: t.schemas[t.own]},
		{what: "the earlier version by its id", bench: t.earlier, schemaID: t.schemas[t.earlier]},
		{what: "the own version, when it was current", bench: t.own, at: authz.AtExactly(t.ownCurrent)},
		{what: "the next version, when it was current", bench: t.later, at: authz.AtExactly(t.laterCurrent)},
		{what: "the next version by its id, at its revision", bench: t.later, schemaID: t.schemas[t.later], at: authz.AtExactly(t.laterCurrent)},
		{what: "the other namespace", bench: t.other},
		{what: "the other namespace's schema by its id", bench: t.other, schemaID: t.schemas[t.other]},
	}
}

// compareAfterRemoval asks after the newest schema was removed.
func (t *schemasTrial) compareAfterRemoval(s *ostiary.Store) error {
	q := t.own.Questions[0]
	_, err := s.Check(context.Background(), authz.CheckRequest{Object: q.Object, Relation: q.Relation, Subject: q.Subject,
		QueryOptions: authz.QueryOptions{SchemaID: t.schemas[t.later]}})
	if !errors.Is(err, authz.ErrNoSchema) {
		return fmt.Errorf("by a removed schema: want ErrNoSchema, got %v", err)
	}
	return t.compareChoices(s, append(t.lastingChoices(), schemaChoice{what: "the own version, current again", bench: t.own}))
}

// compareChoices asks by each choice twice, in random order.
func (t *schemasTrial) compareChoices(s *ostiary.Store, turns []schemaChoice) error {
	order := slices.Concat(turns, turns)
	t.r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	for _, x := range order {
		if len(x.bench.Questions) == 0 {
			continue
		}
		one := storeTrial{b: x.bench, ids: [2]storage.StoreID{s.ID()}, schema: x.schemaID}
		if err := one.compareChecks(s, x.at, x.bench.allTables(), x.what); err != nil {
			return err
		}
		t.addCoverage(x.bench)
	}
	return t.compareMany(s, turns)
}

// allTables returns the oracle's answers to all questions.
func (b *Bench) allTables() map[rel.Subject]*Table {
	for _, q := range b.Questions {
		b.table(q.Subject)
	}
	return b.tables
}

// compareMany asks by several schemas in one call.
func (t *schemasTrial) compareMany(s *ostiary.Store, turns []schemaChoice) error {
	var requests []authz.CheckRequest
	var want []expr.Tristate
	for range manyMax {
		x := turns[t.r.IntN(len(turns))]
		if len(x.bench.Questions) == 0 || x.at != (authz.Consistency{}) {
			continue
		}
		q, w := x.bench.Questions[t.r.IntN(len(x.bench.Questions))], &x.bench.World
		requests = append(requests, authz.CheckRequest{Object: q.Object, Relation: q.Relation, Subject: q.Subject,
			QueryOptions: authz.QueryOptions{SchemaID: x.schemaID, Context: w.Context, Tuples: w.Contextual, Attributes: w.ContextualAttributes,
				Bounds: authz.QuestionBounds{Depth: w.Depth}}})
		want = append(want, x.bench.truth(q))
	}
	results, err := s.CheckBatch(context.Background(), requests, authz.Consistency{})
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

const manyMax = 40 // questions in one call

// addCoverage counts the questions of a bench.
func (t *schemasTrial) addCoverage(b *Bench) {
	if t.coverage == nil {
		return
	}
	feature := featureVersions
	if b == t.other {
		feature = featureNamespaces
	}
	for _, q := range b.Questions {
		t.coverage.addCell(b.survey, q, feature)
	}
}
