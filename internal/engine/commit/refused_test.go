package commit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/errs"
	"github.com/ostiary/ostiary/internal/engine/snapshot"
	"github.com/ostiary/ostiary/internal/workshop/failing"
	"github.com/ostiary/ostiary/internal/workshop/golden"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/memory"
)

// viewer returns a tuple that the world's schema admits.
func viewer(object, subject string) rel.Tuple {
	return rel.Tuple{Object: rel.Object{Type: "doc", ID: object}, Relation: "viewer", Subject: rel.Subject{Type: "user", ID: subject}}
}

// TestValidate prints the results of Validate for requests.
func TestValidate(t *testing.T) {
	t.Parallel()
	bounds := errs.WithDefaults(authz.Bounds{WriteTuples: 3, WriteFilters: 2, WriteAttributes: 3, WriteDocuments: 6, Preconditions: 2, DocumentBytes: 4})
	runtime := snapshot.NewRuntime(snapshot.Config{Driver: memory.New(), Bounds: bounds, Clock: time.Now})
	t.Cleanup(func() { runtime.Close() })
	one, two, three, four := viewer("1", "a"), viewer("2", "a"), viewer("1", "b"), viewer("3", "a")
	size := func(object, value string) rel.Attribute {
		return rel.Attribute{Object: rel.Object{Type: "doc", ID: object}, Name: "size", Value: value}
	}
	note := func(key string) authz.Document {
		return authz.Document{Kind: "note", Key: key, Body: []byte("text")}
	}
	named := func(key string) authz.DocumentKey { return authz.DocumentKey{Kind: "note", Key: key} }
	tuples := func(f rel.Filter) storage.Filter { return storage.Filter{Target: storage.FilterTuples, Tuple: f} }
	model := authz.SchemaSource{Model: &schema.Model{Types: []schema.TypeDef{{Name: "user"}}}}
	malformed, unnamed := one, two.Key()
	malformed.Object.ID, unnamed.Subject.ID = "", ""
	var secondary []string
	for i := range authz.SecondaryKeysMax {
		secondary = append(secondary, fmt.Sprint(i))
	}
	long := strings.Repeat("k", authz.DocumentKeyBytesMax)
	with := func(d authz.Document, change func(*authz.Document)) []authz.Document {
		change(&d)
		return []authz.Document{d}
	}
	// Ids with a common prefix, for the table of keys.
	many := func(n int, twice int) (all []rel.Tuple) {
		for i := range n {
			all = append(all, viewer(fmt.Sprint(i), "a"))
		}
		if twice >= 0 {
			all[n-1] = all[twice]
		}
		return all
	}
	var out strings.Builder
	for _, c := range []struct {
		name string
		r    authz.WriteRequest
	}{
		{"nothing", authz.WriteRequest{}},
		{"three tuples", authz.WriteRequest{Add: []rel.Tuple{one, two}, Remove: []rel.Key{three.Key()}}},
		{"four tuples", authz.WriteRequest{Add: []rel.Tuple{one, two}, Remove: []rel.Key{three.Key(), four.Key()}}},
		{"a malformed tuple", authz.WriteRequest{Add: []rel.Tuple{one, malformed}}},
		{"a malformed key", authz.WriteRequest{Remove: []rel.Key{one.Key(), unnamed}}},
		{"a tuple twice", authz.WriteRequest{Add: []rel.Tuple{one, two, one}}},
		{"a tuple added and removed", authz.WriteRequest{Add: []rel.Tuple{one, two}, Remove: []rel.Key{two.Key()}}},
		{"a key removed twice", authz.WriteRequest{Remove: []rel.Key{one.Key(), two.Key(), two.Key()}}},
		{"other relations and subjects", authz.WriteRequest{Add: []rel.Tuple{{Object: one.Object, Relation: "editor", Subject: one.Subject}, one, {Object: one.Object, Relation: "viewer", Subject: rel.Subject{Type: "user", ID: "a", Relation: "x"}}}}},
		{"other types", authz.WriteRequest{Add: []rel.Tuple{{Object: rel.Object{Type: "note", ID: "1"}, Relation: "viewer", Subject: one.Subject}, one, {Object: one.Object, Relation: "viewer", Subject: rel.Subject{Type: "robot", ID: "a"}}}}},
		{"action 2", authz.WriteRequest{OnDuplicate: authz.Replace, OnMissing: authz.Replace}},
		{"action 3 for duplicates", authz.WriteRequest{OnDuplicate: authz.Replace + 1}},
		{"action 3 for missing", authz.WriteRequest{OnMissing: authz.Replace + 1}},
		{"a malformed token", authz.WriteRequest{After: "x"}},
		{"two filters", authz.WriteRequest{RemoveMatching: []storage.Filter{tuples(rel.Filter{ObjectType: "doc"}), tuples(rel.Filter{Relation: "viewer"})}}},
		{"three filters", authz.WriteRequest{RemoveMatching: []storage.Filter{tuples(rel.Filter{ObjectType: "doc"}), tuples(rel.Filter{Relation: "viewer"}), tuples(rel.Filter{Relation: "x"})}}},
		{"a filter of all tuples", authz.WriteRequest{RemoveMatching: []storage.Filter{tuples(rel.Filter{ObjectType: "doc"}), tuples(rel.Filter{})}}},
		{"a filter of all attributes", authz.WriteRequest{RemoveMatching: []storage.Filter{{Target: storage.FilterAttributes}}}},
		{"a filter of a type's attributes", authz.WriteRequest{RemoveMatching: []storage.Filter{{Target: storage.FilterAttributes, ObjectType: "doc"}}}},
		{"a filter of an id's attributes", authz.WriteRequest{RemoveMatching: []storage.Filter{{Target: storage.FilterAttributes, ObjectID: "1"}}}},
		{"a filter of a name's attributes", authz.WriteRequest{RemoveMatching: []storage.Filter{{Target: storage.FilterAttributes, Name: "size"}}}},
		{"a filter of documents", authz.WriteRequest{RemoveMatching: []storage.Filter{{Target: storage.FilterDocuments, DocumentKind: "note"}}}},
		{"a filter of all documents", authz.WriteRequest{RemoveMatching: []storage.Filter{{Target: storage.FilterDocuments}}}},
		{"a filter of schemas", authz.WriteRequest{RemoveMatching: []storage.Filter{{Target: storage.FilterDocuments, DocumentKind: "schema"}}}},
		{"a filter of nothing", authz.WriteRequest{RemoveMatching: []storage.Filter{{Target: 99}}}},
		{"three attributes", authz.WriteRequest{SetAttributes: []rel.Attribute{size("1", "1"), size("2", "1")}, RemoveAttributes: []rel.Attribute{size("3", "")}}},
		{"four attributes", authz.WriteRequest{SetAttributes: []rel.Attribute{size("1", "1"), size("2", "1")}, RemoveAttributes: []rel.Attribute{size("3", ""), size("4", "")}}},
		{"an attribute twice", authz.WriteRequest{SetAttributes: []rel.Attribute{size("1", "1"), size("1", "2")}}},
		{"an attribute set and removed", authz.WriteRequest{SetAttributes: []rel.Attribute{size("1", "1")}, RemoveAttributes: []rel.Attribute{size("1", "")}}},
		{"an attribute removed twice", authz.WriteRequest{RemoveAttributes: []rel.Attribute{size("1", ""), size("1", "3")}}},
		{"a malformed attribute", authz.WriteRequest{SetAttributes: []rel.Attribute{size("", "1")}}},
		{"a malformed attribute removed", authz.WriteRequest{RemoveAttributes: []rel.Attribute{size("", "")}}},
		{"a long value", authz.WriteRequest{SetAttributes: []rel.Attribute{size("1", strings.Repeat("1", authz.AttributeValueBytesMax))}}},
		{"a value that is too long", authz.WriteRequest{SetAttributes: []rel.Attribute{size("1", strings.Repeat("1", authz.AttributeValueBytesMax+1))}}},
		{"six documents", authz.WriteRequest{Documents: with(note("1"), func(*authz.Document) {}), RemoveDocuments: []authz.DocumentKey{named("2")}, Secrets: with(note("1"), func(*authz.Document) {}), RemoveSecrets: []authz.DocumentKey{named("2")}, Schemas: []authz.SchemaSource{model}, RemoveSchemas: []string{"x"}}},
		{"seven documents", authz.WriteRequest{Documents: []authz.Document{note("1")}, RemoveDocuments: []authz.DocumentKey{named("2")}, Secrets: []authz.Document{note("1")}, RemoveSecrets: []authz.DocumentKey{named("2")}, Schemas: []authz.SchemaSource{model}, RemoveSchemas: []string{"x", "y"}}},
		{"seven secrets", authz.WriteRequest{RemoveSecrets: []authz.DocumentKey{named("1"), named("2"), named("3"), named("4"), named("5"), named("6"), named("7")}}},
		{"a large document", authz.WriteRequest{Documents: with(note("1"), func(d *authz.Document) { d.Body = []byte("12345") })}},
		{"a large secret", authz.WriteRequest{Secrets: with(note("1"), func(d *authz.Document) { d.Body = []byte("12345") })}},
		{"a document of the engine", authz.WriteRequest{Documents: with(note("1"), func(d *authz.Document) { d.Kind = "schema" })}},
		{"a document without a key", authz.WriteRequest{Documents: with(note(""), func(*authz.Document) {})}},
		{"a removed document without a key", authz.WriteRequest{RemoveDocuments: []authz.DocumentKey{named("")}}},
		{"a removed secret without a key", authz.WriteRequest{RemoveSecrets: []authz.DocumentKey{named("")}}},
		{"a document with all keys", authz.WriteRequest{Documents: with(note("1"), func(d *authz.Document) { d.Secondary = append(secondary[1:len(secondary):len(secondary)], long) })}},
		{"a document with too many keys", authz.WriteRequest{Documents: with(note("1"), func(d *authz.Document) { d.Secondary = append(secondary[:len(secondary):len(secondary)], "x") })}},
		{"a document with a long key", authz.WriteRequest{Documents: with(note("1"), func(d *authz.Document) { d.Secondary = []string{"x", long + "x"} })}},
		{"a secret with a secondary key", authz.WriteRequest{Secrets: with(note("1"), func(d *authz.Document) { d.Secondary = []string{"x"} })}},
		{"a document twice", authz.WriteRequest{Documents: []authz.Document{note("1"), note("2"), note("1")}}},
		{"a document put and removed", authz.WriteRequest{Documents: []authz.Document{note("1")}, RemoveDocuments: []authz.DocumentKey{named("1")}}},
		{"a document removed twice", authz.WriteRequest{RemoveDocuments: []authz.DocumentKey{named("1"), named("1")}}},
		{"a secret put and removed", authz.WriteRequest{Secrets: []authz.Document{note("1")}, RemoveSecrets: []authz.DocumentKey{named("1")}}},
		{"a document and a secret", authz.WriteRequest{Documents: []authz.Document{note("1")}, Secrets: []authz.Document{note("1")}}},
		{"a schema that does not compile", authz.WriteRequest{Schemas: []authz.SchemaSource{model, {Model: &schema.Model{Types: []schema.TypeDef{{Name: ""}}}}}}},
		{"a schema removed twice", authz.WriteRequest{RemoveSchemas: []string{"x", "y", "x"}}},
		{"two preconditions", authz.WriteRequest{Preconditions: make([]authz.Precondition, 2)}},
		{"three preconditions", authz.WriteRequest{Preconditions: make([]authz.Precondition, 3)}},
	} {
		prepared, err := Validate(context.Background(), runtime, &c.r)
		fmt.Fprintf(&out, "%s: %.180s\n", c.name, fmt.Sprint(err))
		if err == nil && len(prepared) != len(c.r.Schemas) {
			t.Errorf("%s: %d prepared schemas", c.name, len(prepared))
		}
		if prepared, again := Validate(context.Background(), runtime, &c.r); fmt.Sprint(again) != fmt.Sprint(err) || err == nil && len(prepared) != len(c.r.Schemas) {
			t.Errorf("%s: the second time %v", c.name, again)
		}
	}
	golden.Equal(t, "testdata/validate.txt", out.String())

	for n := 2; n < 70; n++ {
		r := authz.WriteRequest{Add: many(n, -1)}
		if k, twice := repeatedKey(&r); twice {
			t.Errorf("%d keys: %v is said to come twice", n, k)
		}
		for twice := range n - 1 {
			r.Add = many(n, twice)
			if k, ok := repeatedKey(&r); !ok || k != r.Add[twice].Key() {
				t.Errorf("%d keys: number %d comes twice, got %v, %v", n, twice, k, ok)
			}
		}
	}
}

// TestWithdraw cancels writers while another one holds the write lock: the leader, the writers
// behind it, and one that has not entered the queue. They return at once and write nothing;
// the others write.
func TestWithdraw(t *testing.T) {
	t.Parallel()
	for canceled := range 1 << 4 {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			if err := w.timeline.Lock.LockIdle(t.Context()); err != nil {
				t.Fatal(err)
			}
			var running sync.WaitGroup
			errors4, cancel := make([]error, 4), make([]context.CancelFunc, 4)
			done := make([]bool, 4)
			for i := range errors4 {
				ctx, stop := context.WithCancel(t.Context())
				cancel[i] = stop
				if i == 3 && canceled>>i&1 == 1 {
					stop()
				}
				running.Go(func() {
					_, errors4[i] = w.queue.Write(ctx, &authz.WriteRequest{Add: []rel.Tuple{viewer(fmt.Sprint(i), "a")}})
					done[i] = true
				})
				synctest.Wait()
			}
			for i := 2; i >= 0; i-- {
				if canceled>>i&1 == 1 {
					cancel[i]()
				}
				synctest.Wait()
			}
			for i := range done {
				if done[i] != (canceled>>i&1 == 1) {
					t.Errorf("canceled %04b: writer %d returned: %v", canceled, i, done[i])
				}
			}
			w.timeline.Lock.Unlock()
			running.Wait()
			for i, err := range errors4 {
				if canceled>>i&1 == 0 {
					w.tuples[viewer(fmt.Sprint(i), "a").Key()] = viewer(fmt.Sprint(i), "a")
					w.revision++
				}
				if (err == nil) != (canceled>>i&1 == 0) || err != nil && !errors.Is(err, authz.ErrCanceled) {
					t.Errorf("canceled %04b: writer %d returned %v", canceled, i, err)
				}
				cancel[i]()
			}
			w.check(fmt.Sprintf("canceled %04b", canceled))
			if len(w.queue.waiting) != 0 || w.queue.led {
				t.Errorf("canceled %04b: %d writers wait, led: %v", canceled, len(w.queue.waiting), w.queue.led)
			}
		})
	}
}

// TestWritersWaiting fills the queue up to its bound and one above.
func TestWritersWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.runtime.Bounds.WritersWaiting = 2
		if err := w.timeline.Lock.LockIdle(t.Context()); err != nil {
			t.Fatal(err)
		}
		var running sync.WaitGroup
		write := func(id string) error {
			_, err := w.queue.Write(t.Context(), &authz.WriteRequest{Add: []rel.Tuple{viewer(id, "a")}})
			return err
		}
		for i := range 2 {
			running.Go(func() {
				if err := write(fmt.Sprint(i)); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		var bound *authz.BoundError
		if err := write("2"); !errors.As(err, &bound) || *bound != (authz.BoundError{Name: "WritersWaiting", Max: 2, Got: 3}) {
			t.Errorf("a third writer: %v", err)
		}
		w.timeline.Lock.Unlock()
		running.Wait()
		if err := write("2"); err != nil {
			t.Errorf("after the others: %v", err)
		}
	})
}

// TestMemoryBudget writes up to the memory budget and one byte above it, alone and in one
// group. A removal needs no memory.
func TestMemoryBudget(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	tuple := func(id string) rel.Tuple {
		x := viewer(id, "a")
		x.Expires = rel.Time(1 << 62)
		return x
	}
	grows := int64(tupleBytes + len("1") + len("a"))
	w := newWorld(t)
	w.runtime.MemoryMax = 1 << 40
	write := func(r authz.WriteRequest) error {
		_, err := w.queue.Write(ctx, &r)
		return err
	}
	add := func(id string) authz.WriteRequest { return authz.WriteRequest{Add: []rel.Tuple{tuple(id)}} }
	if err := write(add("0")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		r    authz.WriteRequest
		need int64
	}{
		{"a tuple", add("1"), grows},
		{"two tuples", authz.WriteRequest{Add: []rel.Tuple{tuple("22"), tuple("333")}}, 2*grows + 3},
		{"a removal", authz.WriteRequest{Remove: []rel.Key{tuple("0").Key()}}, -1},
		{"a filter", authz.WriteRequest{RemoveMatching: []storage.Filter{{Target: storage.FilterTuples, Tuple: rel.Filter{ObjectType: "doc"}}}}, -1},
		{"a document", authz.WriteRequest{Documents: []authz.Document{{Kind: "note", Key: "1", Body: []byte("text")}}}, -1},
	} {
		if c.need > 0 {
			w.runtime.MemoryMax = w.runtime.Bytes() + c.need - 1
			if err := write(c.r); !errors.Is(err, authz.ErrMemory) || !strings.Contains(err.Error(), fmt.Sprintf("about %d bytes, expected less than %d", w.runtime.MemoryMax+1, w.runtime.MemoryMax)) {
				t.Errorf("%s, one byte above the budget: %v", c.name, err)
			}
		}
		w.runtime.MemoryMax = w.runtime.Bytes() + max(c.need, -w.runtime.Bytes()+1)
		if err := write(c.r); err != nil {
			t.Errorf("%s, at the budget: %v", c.name, err)
		}
	}
	// In one group, what a writer adds counts for the next.
	var operations []operation
	for i := range 3 {
		operations = append(operations, operation{call: func(q *Queue) error { return write(add(fmt.Sprint(i))) }})
	}
	w.runtime.MemoryMax = w.runtime.Bytes() + 2*grows
	if got := w.together(operations); got[0] != nil || got[1] != nil || !errors.Is(got[2], authz.ErrMemory) {
		t.Errorf("three writers with memory for two: %v", got)
	}
	w.runtime.MemoryMax = 0
	if err := write(add("5")); err != nil {
		t.Errorf("without a budget: %v", err)
	}
	for _, c := range []struct {
		change storage.Change
		want   int64
	}{
		{storage.Change{Kind: storage.TupleAdd, Tuple: rel.Tuple{Object: rel.Object{ID: "12"}, Subject: rel.Subject{ID: "345"}, Context: "{}"}}, tupleBytes + 5 + 12},
		{storage.Change{Kind: storage.AttributeSet, Attribute: rel.Attribute{Object: rel.Object{ID: "12"}, Value: "3456"}}, tupleBytes + 6},
		{storage.Change{Kind: storage.DocumentPut, Document: storage.Document{Kind: snapshot.SchemaKind, Body: []byte("123")}}, 3 * snapshot.CompilationFactor},
		{storage.Change{Kind: storage.DocumentPut, Document: storage.Document{Kind: "note", Body: []byte("123")}}, 0},
		{storage.Change{Kind: storage.TupleRemove, Tuple: viewer("1", "a")}, 0},
	} {
		g := w.queue.newGroup(w.timeline.Loaded())
		if got, err := g.reserve([]storage.Change{c.change, c.change}); got != 2*c.want || err != nil {
			t.Errorf("%v: %d bytes, %v, expected %d", c.change, got, err, 2*c.want)
		}
	}
}

// TestAppendedElsewhere returns heads from the driver that are not those of the entries.
func TestAppendedElsewhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.driver.Driver = wrongHead{w.driver.Driver}
	_, err := w.queue.Write(context.Background(), &authz.WriteRequest{Add: []rel.Tuple{viewer("1", "a")}})
	if err != nil { // the log has the entry
		t.Error(err)
	}
	w.tuples[viewer("1", "a").Key()], w.revision = viewer("1", "a"), 2
	w.check("a wrong head")
	// The write first reads the head, because the one before left the outcome open.
	w.driver.Break(failing.Fault{Number: 2, Only: []failing.Operation{failing.Head}})
	_, err = w.queue.Write(context.Background(), &authz.WriteRequest{Add: []rel.Tuple{viewer("2", "a")}})
	w.driver.Mend()
	if !errors.Is(err, authz.ErrUncertain) || !errors.Is(err, storage.ErrDamaged) {
		t.Errorf("a wrong head and no way to confirm the entry: %v", err)
	}
}

// wrongHead is a driver whose appends return another head.
type wrongHead struct{ storage.Driver }

func (d wrongHead) Append(ctx context.Context, id storage.StoreID, after storage.Head, entries []storage.Entry, sealed []storage.Sealed) (storage.Head, error) {
	head, err := d.Driver.Append(ctx, id, after, entries, sealed)
	head.Hash[0]++
	return head, err
}
