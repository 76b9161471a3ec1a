package oracle

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
	"github.com/ostiary/ostiary/storage/memory"
	"github.com/ostiary/ostiary/storage/pebble"
)

// StoreLaws returns the laws of whole stores. They write a store in several
// revisions and ask it at each of them, before and after it is reopened. A
// second store, the twin, has the same names but other data; the two must not
// mix.
func StoreLaws() []Law {
	return []Law{
		{Name: "store in memory", Holds: storeLaw(inMemory), Every: 48},
		{Name: "store on Pebble", Holds: storeLaw(onPebble), Every: 480},
		{Name: "comparison", Holds: comparisonLaw, Every: 48},
		{Name: "schemas in turn", Holds: schemasLaw, Every: 48},
	}
}

// driverOpener opens a driver. Each call opens the same data.
type driverOpener func() (storage.Driver, error)

func inMemory() driverOpener {
	under := memory.NewStore()
	return func() (storage.Driver, error) { return kv.New(under, kv.Options{}) }
}

func onPebble() driverOpener {
	fs := vfs.NewMem()
	return func() (storage.Driver, error) {
		return pebble.Open("data", pebble.Options{FS: fs, CacheBytes: 1 << 20, MemTableBytes: 256 << 10})
	}
}

// storeTrial is one run of a store law on one world.
type storeTrial struct {
	b       *Bench
	history History
	schema  string // the id of the schema to ask by; "" asks by the current one

	ids    [2]storage.StoreID       // of the store and its twin
	tokens []authz.Token            // by revision of the history, from 0 on
	tables []map[rel.Subject]*Table // expected answers of the store by revision
	twin   map[rel.Subject]*Table   // expected answers of the twin
	states []State                  // expected data of the store by revision
}

// storeLaw: a store answers at each revision like the oracle on the state of
// that revision, before and after it is reopened, and its twin does not affect
// it.
func storeLaw(on func() driverOpener) func(*Bench) *Failure {
	return func(b *Bench) *Failure {
		if len(b.Questions) == 0 || !b.admissible() || !b.wellTyped() {
			return nil // the store refuses the request
		}
		t := &storeTrial{b: b}
		if err := t.run(on()); err != nil {
			if f := (*Failure)(nil); errors.As(err, &f) {
				return f
			}
			return &Failure{Text: err.Error()}
		}
		return nil
	}
}

// wellTyped reports whether the values of the request have the types that the
// schema declares.
func (b *Bench) wellTyped() bool {
	for _, t := range b.World.Contextual {
		for name, v := range b.Oracle.storedValues(t) {
			i := slices.IndexFunc(parameters, func(p expr.Param) bool { return p.Name == name })
			if _, err := (literal{kind: parameters[i].Type.Kind}).eval(v); err != nil {
				return false
			}
		}
	}
	return !slices.ContainsFunc(b.World.ContextualAttributes, func(a rel.Attribute) bool {
		return isRefused(storage.Change{Kind: storage.AttributeSet, Attribute: a})
	})
}

// run writes and asks on one engine, then asks a second engine on the same
// data.
func (t *storeTrial) run(open driverOpener) error {
	writeAndCompare := func(e *ostiary.Engine) error {
		if err := t.writeStores(e); err != nil {
			return err
		}
		return t.compareStores(e)
	}
	return onTwoEngines(open, t.b.World.Now, writeAndCompare, t.compareStores)
}

// onTwoEngines calls first with an engine and then, once that is closed, second
// with another engine on the same data.
func onTwoEngines(open driverOpener, now rel.Time, first, second func(*ostiary.Engine) error) error {
	if err := onEngine(open, now, first); err != nil {
		return fmt.Errorf("engine 1: %w", err)
	}
	if err := onEngine(open, now, second); err != nil {
		return fmt.Errorf("engine 2: %w", err)
	}
	return nil
}

// onEngine calls do with an engine whose clock always shows now.
func onEngine(open driverOpener, now rel.Time, do func(*ostiary.Engine) error) error {
	driver, err := open()
	if err != nil {
		return err
	}
	e, err := ostiary.Open(context.Background(), ostiary.Options{Driver: driver, Conditions: Conditions{}, Window: -1, Clock: now.Time})
	if err != nil {
		return errors.Join(err, driver.Close())
	}
	return errors.Join(do(e), e.Close(), driver.Close())
}

// writeStores fills both stores and computes the expected answers.
func (t *storeTrial) writeStores(e *ostiary.Engine) error {
	t.drawHistory()
	half := t.history.At(t.history.Present)
	half.Tuples = slices.DeleteFunc(half.Tuples, func(x rel.Tuple) bool { return len(x.String())%2 == 0 })
	twin := History{Revisions: [][]storage.Change{difference(State{}, half)}}
	for i, h := range []History{t.history, twin} {
		s, err := e.CreateStore(context.Background(), ostiary.CreateStoreRequest{Name: "twin"})
		if err != nil {
			return err
		}
		t.ids[i] = s.ID()
		tokens, err := t.writeHistory(s, h)
		if err != nil {
			return err
		}
		if i == 0 {
			t.tokens = tokens
		}
	}
	var err error
	if t.twin, err = t.expectedTables(half); err != nil {
		return err
	}
	for revision := range t.tokens {
		state := t.history.At(revision)
		tables, err := t.expectedTables(state)
		if err != nil {
			return err
		}
		t.states, t.tables = append(t.states, state), append(t.tables, tables)
	}
	return nil
}

// drawHistory draws a history without the changes that a store refuses.
func (t *storeTrial) drawHistory() {
	t.history = Route(t.b.Seed, &t.b.World)
	for i, changes := range t.history.Revisions {
		t.history.Revisions[i] = slices.DeleteFunc(changes, isRefused)
	}
}

// isRefused reports whether a store refuses a change under any schema: an
// attribute of the wrong type, and a tuple that makes a userset a member of
// itself.
func isRefused(c storage.Change) bool {
	if c.Kind == storage.TupleAdd {
		return c.Tuple.Subject == rel.Subject{Type: c.Tuple.Object.Type, ID: c.Tuple.Object.ID, Relation: c.Tuple.Relation}
	}
	if c.Kind != storage.AttributeSet {
		return false
	}
	value := c.Attribute.Value
	switch c.Attribute.Name {
	case "open":
		return value != "true" && value != "false"
	case "name":
		return value[0] != '"'
	}
	return value[0] < '0' || value[0] > '9'
}

// expectedTables returns the oracle's answers for a state.
func (t *storeTrial) expectedTables(s State) (map[rel.Subject]*Table, error) {
	o, err := t.b.oracleOn(s)
	if err != nil {
		return nil, err
	}
	tables := map[rel.Subject]*Table{}
	for _, q := range t.b.Questions {
		if tables[q.Subject] == nil {
			tables[q.Subject] = o.Members(q.Subject, t.b.questionObjects()...)
		}
	}
	return tables, nil
}

// writeHistory writes a history under a schema that admits all of it. The
// world's schema is the current one. It returns the tokens of the revisions.
func (t *storeTrial) writeHistory(s *ostiary.Store, h History) ([]authz.Token, error) {
	ctx := context.Background()
	admits, _, err := s.WriteSchema(ctx, authz.SchemaSource{Model: permissiveModel(&t.b.World.Model, h)})
	if err != nil {
		return nil, fmt.Errorf("permissive schema: %w", err)
	}
	own, token, err := s.WriteSchema(ctx, authz.SchemaSource{Model: &t.b.World.Model})
	if err != nil {
		return nil, err
	}
	if s.ID() == t.ids[0] && t.b.Seed%2 == 1 {
		t.schema = own.ID
	}
	tokens := []authz.Token{token}
	for _, changes := range h.Revisions {
		for _, w := range writes(changes) {
			w.SchemaID = admits.ID
			if token, err = s.Write(ctx, w); err != nil {
				return nil, fmt.Errorf("write: %w", err)
			}
		}
		tokens = append(tokens, token)
	}
	return tokens, nil
}

// writes divides changes into write requests in which the order does not
// matter.
func writes(changes []storage.Change) []authz.WriteRequest {
	var all []authz.WriteRequest
	kind := storage.ChangeKind(0)
	keys := map[any]bool{}
	for _, c := range changes {
		var key any = c.Tuple.Key()
		if c.Kind == storage.AttributeSet || c.Kind == storage.AttributeRemove {
			key = attributeKey{c.Attribute.Object, c.Attribute.Name}
		}
		if c.Kind != kind || keys[key] {
			all = append(all, authz.WriteRequest{OnDuplicate: authz.Replace, OnMissing: authz.Ignore})
			clear(keys)
		}
		kind, keys[key] = c.Kind, true
		w := &all[len(all)-1]
		switch c.Kind {
		case storage.TupleAdd:
			w.Add = append(w.Add, c.Tuple)
		case storage.TupleRemove:
			w.Remove = append(w.Remove, c.Tuple.Key())
		case storage.AttributeSet:
			w.SetAttributes = append(w.SetAttributes, c.Attribute)
		case storage.AttributeRemove:
			w.RemoveAttributes = append(w.RemoveAttributes, c.Attribute)
		case storage.RemoveByFilter:
			w.RemoveMatching = append(w.RemoveMatching, c.Filter)
		}
	}
	return all
}

// compareStores compares both stores with their expected content.
func (t *storeTrial) compareStores(e *ostiary.Engine) error {
	ctx := context.Background()
	s, err := e.Store(ctx, t.ids[0])
	if err != nil {
		return err
	}
	twin, err := e.Store(ctx, t.ids[1])
	if err != nil {
		return err
	}
	last := len(t.tokens) - 1
	if t.b.Seed%3 == 0 {
		if err := s.Compact(ctx); err != nil {
			return err
		}
	}
	if t.b.Seed%5 == 0 {
		if _, err := s.Collect(ctx); err != nil {
			return err
		}
	}
	if err := t.compareLog(s); err != nil {
		return err
	}
	if err := t.compareChecks(s, authz.Acknowledged(), t.tables[last], "newest"); err != nil {
		return err
	}
	if err := t.compareChecks(twin, authz.FullyConsistent(), t.twin, "twin"); err != nil {
		return err
	}
	if _, err := twin.Check(ctx, authz.CheckRequest{Object: rel.Object{Type: "user", ID: "1"}, Relation: "a",
		Subject: rel.Subject{Type: "user", ID: "1"}, QueryOptions: authz.QueryOptions{Consistency: authz.AtExactly(t.tokens[last])}}); !errors.Is(err, authz.ErrToken) {
		return fmt.Errorf("the twin accepts the store's token: %v", err)
	}
	for i := range t.tokens {
		revision := (i*7 + int(t.b.Seed)) % len(t.tokens) // in any order
		what := fmt.Sprintf("revision %d of %d (the world's is %d)", revision, last, t.history.Present)
		at := authz.AtExactly(t.tokens[revision])
		if err := t.compareExport(s, at, t.states[revision], what); err != nil {
			return err
		}
		if err := t.compareChecks(s, at, t.tables[revision], what); err != nil {
			return err
		}
	}
	return nil
}

// compareChecks asks all questions in three ways: each alone, all in one batch
// that shares its input, and all in one batch in which each has its own input.
func (t *storeTrial) compareChecks(s *ostiary.Store, at authz.Consistency, tables map[rel.Subject]*Table, what string) error {
	ctx, w := context.Background(), &t.b.World
	a := authz.QueryOptions{Consistency: at, SchemaID: t.schemaIDFor(s), Context: w.Context, Tuples: w.Contextual,
		Attributes: w.ContextualAttributes, Bounds: authz.QuestionBounds{Depth: w.Depth}}
	var requests, separate []authz.CheckRequest
	own := a
	own.Consistency = authz.Consistency{}
	for _, q := range t.b.Questions {
		requests = append(requests, authz.CheckRequest{Object: q.Object, Relation: q.Relation, Subject: q.Subject, QueryOptions: own})
		copied := requests[len(requests)-1]
		copied.Context, copied.Tuples = maps.Clone(own.Context), slices.Clone(own.Tuples)
		separate = append(separate, copied)
	}
	results, err := s.CheckBatch(ctx, requests, at)
	if err != nil {
		return fmt.Errorf("%s: batch: %w", what, err)
	}
	// Requests with shared input and requests without it take different paths through the
	// engine.
	among, err := s.CheckBatch(ctx, separate, at)
	if err != nil {
		return fmt.Errorf("%s: batch without shared input: %w", what, err)
	}
	for i, q := range t.b.Questions {
		one, err := s.Check(ctx, authz.CheckRequest{Object: q.Object, Relation: q.Relation, Subject: q.Subject, QueryOptions: a})
		if err != nil {
			return &Failure{Question: q, Text: what + ": " + err.Error()}
		}
		want := tables[q.Subject].Truth(q.Object, q.Relation)
		if err := results[i].Err; err != nil || results[i].Decision != one.Decision {
			return &Failure{Question: q, Text: fmt.Sprintf("%s: %s alone, %s in a batch, %v", what, one.Decision, results[i].Decision, err)}
		}
		if err := among[i].Err; err != nil || among[i].Decision != one.Decision {
			return &Failure{Question: q, Text: fmt.Sprintf("%s: %s alone, %s in a batch without shared input, %v", what, one.Decision, among[i].Decision, err)}
		}
		if one.Decision != want {
			return &Failure{Question: q, Text: fmt.Sprintf("%s: want %s, got %s (%s)", what, want, one.Decision, one.Reasons)}
		}
	}
	return t.compareList(s, a, tables, what)
}

// schemaIDFor returns the schema id to ask a store by. The twin does not have
// the store's schemas.
func (t *storeTrial) schemaIDFor(s *ostiary.Store) string {
	if s.ID() != t.ids[0] {
		return ""
	}
	return t.schema
}

// compareList reads one list of objects in pages. The cursors keep the
// revision.
func (t *storeTrial) compareList(s *ostiary.Store, a authz.QueryOptions, tables map[rel.Subject]*Table, what string) error {
	q := t.b.Questions[int(t.b.Seed)%len(t.b.Questions)]
	table := tables[q.Subject]
	if table.oracle.optionalID(q) != "" {
		return nil
	}
	open := t.unspecifiedIDs(table.oracle, q.Object.Type)
	var want []string
	for _, x := range table.oracle.listable(q) {
		if x.Type == q.Object.Type && !open[x.ID] && table.Truth(x, q.Relation) == expr.True {
			want = append(want, x.ID)
		}
	}
	sortByPosition(want)
	var got []string
	r := authz.ListObjectsRequest{Type: q.Object.Type, Relation: q.Relation, Subject: q.Subject, Limit: 2, QueryOptions: a}
	for {
		page, err := s.ListObjects(context.Background(), r)
		if err != nil {
			return &Failure{Question: q, Text: what + ": list: " + err.Error()}
		}
		if got = append(got, page.IDs...); page.Bound != "" {
			return nil
		}
		if r.Cursor = page.Next; r.Cursor == "" {
			break
		}
	}
	got = slices.DeleteFunc(got, func(id string) bool { return open[id] })
	if !slices.Equal(got, want) {
		return &Failure{Question: q, Text: fmt.Sprintf("%s: want list %v, got %v", what, want, got)}
	}
	return nil
}

// unspecifiedIDs returns the ids of a type's objects that only expired tuples
// of the history mention. A list may, but need not, contain them: an expired
// row exists until it is collected, and a removal ignores it.
func (t *storeTrial) unspecifiedIDs(o *Oracle, typ string) map[string]bool {
	ids := map[string]bool{}
	set := func(to bool, objects ...rel.Object) {
		for _, x := range objects {
			if x.Type == typ {
				ids[x.ID] = to
			}
		}
	}
	for _, changes := range t.history.Revisions {
		for _, c := range changes {
			if c.Kind == storage.TupleAdd && c.Tuple.Expired(o.world.Now) {
				set(true, c.Tuple.Object, c.Tuple.Subject.Object())
			}
		}
	}
	for _, x := range slices.Concat(o.world.Stored, o.world.Contextual) {
		if !x.Expired(o.world.Now) {
			set(false, x.Object, x.Subject.Object())
		}
	}
	for _, a := range slices.Concat(o.world.Attributes, o.world.ContextualAttributes) {
		set(false, a.Object)
	}
	return ids
}

// compareLog replays the store's changes. They must lead to its newest state.
func (t *storeTrial) compareLog(s *ostiary.Store) error {
	var state State
	for r := (authz.ChangesRequest{Limit: 3}); ; {
		page, err := s.Changes(context.Background(), r)
		if err != nil {
			return err
		}
		for _, e := range page.Entries {
			for _, c := range e.Changes {
				if c.Kind != storage.DocumentPut {
					state.apply(c)
				}
			}
		}
		if r.After = page.Next; !page.More {
			break
		}
	}
	return t.compareExport(s, authz.Acknowledged(), state, "replayed log")
}

// compareExport compares the exported tuples of a revision with those of a
// state that are not expired.
func (t *storeTrial) compareExport(s *ostiary.Store, at authz.Consistency, want State, what string) error {
	var got State
	for x, err := range s.Export(context.Background(), at) {
		if err != nil {
			return fmt.Errorf("%s: export: %w", what, err)
		}
		got.Tuples = append(got.Tuples, x)
	}
	want.Tuples = slices.DeleteFunc(slices.Clone(want.Tuples), func(x rel.Tuple) bool { return x.Expired(t.b.World.Now) })
	if a, b := got.sorted(), want.sorted(); !slices.Equal(a.Tuples, b.Tuples) {
		return fmt.Errorf("%s: export: want %v, got %v", what, b.Tuples, a.Tuples)
	}
	return nil
}
