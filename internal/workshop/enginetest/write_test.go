package enginetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
)

func keys(t testing.TB, texts ...string) []rel.Key {
	t.Helper()
	var out []rel.Key
	for _, s := range texts {
		out = append(out, tup(t, s).Key())
	}
	return out
}

func TestPolicies(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d disk) {
		ctx := context.Background()
		time := newClock()
		s := newStore(t, start(t, d, ostiary.Options{Clock: time.Now}).engine, documents())
		first := must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#owner@user:anne")}))(t)

		same := must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#owner@user:anne"), OnDuplicate: authz.Ignore}))(t)
		if same != first {
			t.Error("a write that changed nothing made a new revision")
		}
		_, err := s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#owner@user:anne until 2027-01-01T00:00:00Z"), OnDuplicate: authz.Ignore})
		wantKind(t, err, authz.ErrTupleExists)
		must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#owner@user:anne until 2027-01-01T00:00:00Z"), OnDuplicate: authz.Replace}))(t)
		want(t, s, "document:1#owner@user:anne", "true")
		time.Advance(366 * 24 * 3600 * 1e9)
		want(t, s, "document:1#owner@user:anne", "false")

		// An expired tuple counts as absent: it can be added, but not removed.
		_, err = s.Write(ctx, authz.WriteRequest{Remove: keys(t, "document:1#owner@user:anne")})
		wantKind(t, err, authz.ErrTupleMissing)
		must(s.Write(ctx, authz.WriteRequest{Remove: keys(t, "document:1#owner@user:anne"), OnMissing: authz.Ignore}))(t)
		must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#owner@user:anne"),
			Preconditions: []authz.Precondition{{Filter: rel.Filter{ObjectType: "document", ObjectID: "1"}, Absent: true}}}))(t)
		want(t, s, "document:1#owner@user:anne", "true")
		page := must(s.Changes(ctx, authz.ChangesRequest{}))(t)
		last := page.Entries[len(page.Entries)-1].Changes
		if len(last) != 2 || last[0].Kind != storage.TupleRemove || last[1].Kind != storage.TupleAdd {
			t.Errorf("adding an expired tuple made the changes %v, want a removal and an addition", last)
		}
	})
}

func TestPreconditions(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := newStore(t, newEngine(t, ostiary.Options{}), documents())
	must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#owner@user:anne")}))(t)
	owned := rel.Filter{ObjectType: "document", ObjectID: "1", Relation: "owner"}
	_, err := s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#viewer@user:b"), Preconditions: []authz.Precondition{{Filter: owned, Absent: true}}})
	wantKind(t, err, authz.ErrPrecondition)
	want(t, s, "document:1#viewer@user:b", "false")
	must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#viewer@user:b"), Preconditions: []authz.Precondition{{Filter: owned}}}))(t)
	owned.ObjectID = "2"
	_, err = s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#viewer@user:c"), Preconditions: []authz.Precondition{{Filter: owned}}})
	wantKind(t, err, authz.ErrPrecondition)
}

func TestRemoveMatching(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d disk) {
		ctx := context.Background()
		x := start(t, d, ostiary.Options{})
		s := newStore(t, x.engine, documents())
		before := must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#owner@user:anne", "document:2#viewer@user:anne",
			"document:2#viewer@user:bob", "group:g#member@user:anne")}))(t)
		must(s.Write(ctx, authz.WriteRequest{
			RemoveMatching: []storage.Filter{{Target: storage.FilterTuples, Tuple: rel.Filter{SubjectType: "user", SubjectID: "anne"}}},
			Add:            tups(t, "document:2#viewer@user:anne")}))(t)
		for range 2 {
			want(t, s, "document:1#owner@user:anne", "false")
			want(t, s, "group:g#member@user:anne", "false")
			want(t, s, "document:2#viewer@user:anne", "true")
			want(t, s, "document:2#viewer@user:bob", "true")
			if got := ask(t, s, "group:g#member@user:anne", authz.QueryOptions{Consistency: authz.AtExactly(before)}); got != "true" {
				t.Errorf("at the revision before the removal: got %s, want true", got)
			}
			s = x.again(s)
		}
		_, err := s.Write(ctx, authz.WriteRequest{RemoveMatching: []storage.Filter{{Target: storage.FilterTuples}}})
		wantKind(t, err, authz.ErrInvalidRequest)
	})
}

// noCompiler accepts every condition. The tests that use it evaluate none.
type noCompiler struct{}

func (noCompiler) Compile(expr.Definition) (expr.Program, error) { return nil, nil }

func TestRefusedTuples(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	m := documents()
	m.Conditions = []expr.Definition{{Name: "c", Params: []expr.Param{
		{Name: "n", Type: expr.Type{Kind: expr.Int}}, {Name: "ip", Type: expr.Type{Kind: expr.IPAddress}},
		{Name: "l", Type: expr.Type{Kind: expr.List, Elem: &expr.Type{Kind: expr.String}}}}}}
	m.Types[3].Relations[1].Subjects = append(m.Types[3].Relations[1].Subjects, schema.SubjectType{Type: "user", Condition: "c"})
	m.Types[3].Attributes = []schema.AttributeDef{{Name: "public", Type: expr.Type{Kind: expr.Bool}}, {Name: "level", Type: expr.Type{Kind: expr.Uint}}}
	s := newStore(t, newEngine(t, ostiary.Options{Conditions: noCompiler{}}), m)
	for _, c := range []struct {
		tuple string
		kind  error
	}{
		{"document:1#owner@group:g#member", authz.ErrInvalidTuple},
		{"document:1#nothing@user:a", authz.ErrInvalidTuple},
		{"nothing:1#owner@user:a", authz.ErrInvalidTuple},
		{"document:1#parent@document:2", authz.ErrInvalidTuple},
		{"document:1#owner@user:*", authz.ErrInvalidTuple},
		{"document:*#owner@user:a", authz.ErrInvalidTuple},
		{"group:g#member@group:g#member", authz.ErrInvalidTuple},
		{"document:1#viewer@user:a with c", authz.ErrInvalidTuple},
		{"document:1#owner@user:a with d", authz.ErrInvalidTuple},
		{`document:1#owner@user:a with c {"m":1}`, authz.ErrInvalidTuple},
		{`document:1#owner@user:a with c {"n":"x"}`, authz.ErrInvalidTuple},
		{`document:1#owner@user:a with c {"n":1.5}`, authz.ErrInvalidTuple},
		{`document:1#owner@user:a with c {"n":9223372036854775808}`, authz.ErrInvalidTuple},
		{`document:1#owner@user:a with c {"ip":"1.2.3"}`, authz.ErrInvalidTuple},
		{`document:1#owner@user:a with c {"l":[1]}`, authz.ErrInvalidTuple},
		{`document:1#owner@user:a with c {"ip":"1.2.3.4","l":["x"],"n":9223372036854775807}`, nil},
		{`document:1#owner@user:b`, nil},
	} {
		_, err := s.Write(ctx, authz.WriteRequest{Add: tups(t, c.tuple)})
		if c.kind == nil && err != nil {
			t.Errorf("%s was refused: %v", c.tuple, err)
		} else if c.kind != nil {
			wantKind(t, err, c.kind)
		}
	}
	_, err := s.Write(ctx, authz.WriteRequest{Add: []rel.Tuple{{Object: rel.Object{Type: "document", ID: "a b"}, Relation: "owner", Subject: rel.Subject{Type: "user", ID: "x"}}}})
	wantKind(t, err, authz.ErrInvalidName)
	for _, w := range []authz.WriteRequest{
		{Add: tups(t, "document:1#owner@user:x", "document:1#owner@user:x")},
		{Add: tups(t, "document:1#owner@user:x"), Remove: keys(t, "document:1#owner@user:x")},
		{Documents: []authz.Document{{Kind: "schema", Key: "x"}}},
		{Documents: []authz.Document{{Kind: "k", Key: "x"}}, RemoveDocuments: []authz.DocumentKey{{Kind: "k", Key: "x"}}},
	} {
		_, err := s.Write(ctx, w)
		wantKind(t, err, authz.ErrInvalidRequest)
	}
	for value, kind := range map[string]error{"true": nil, `"x"`: authz.ErrInvalidTuple, "1": authz.ErrInvalidTuple, "": authz.ErrInvalidTuple} {
		_, err := s.Write(ctx, authz.WriteRequest{SetAttributes: []rel.Attribute{{Object: rel.Object{Type: "document", ID: "1"}, Name: "public", Value: value}}})
		if (err == nil) != (kind == nil) {
			t.Errorf("attribute value %q: got error %v", value, err)
		}
	}
	page := must(s.ReadAttributes(ctx, authz.ReadAttributesRequest{}))(t)
	if len(page.Attributes) != 1 || page.Attributes[0].Value != "true" {
		t.Errorf("got attributes %v, want only true", page)
	}
}

// TestBounds tests each configurable bound of a request at its limit and one above
// it.
func TestBounds(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := authz.Bounds{WriteTuples: 3, WriteAttributes: 2, WriteFilters: 2, Preconditions: 2, WriteDocuments: 2, DocumentBytes: 10,
		ContextTuples: 2, ContextAttributes: 2, ContextBytes: 20, BatchItems: 2, ListItems: 2, PageItems: 2, SchemaBytes: 20_000}
	e := newEngine(t, ostiary.Options{Bounds: b})
	s := newStore(t, e, documents())
	object := rel.Object{Type: "document", ID: "1"}
	check := authz.CheckRequest{Object: object, Relation: "owner", Subject: rel.Subject{Type: "user", ID: "a"}}
	for _, c := range []struct {
		name string
		ask  func(n int) error
		most int
	}{
		{"WriteTuples", func(n int) error {
			var w authz.WriteRequest
			for i := range n {
				w.Add = append(w.Add, tup(t, fmt.Sprintf("document:%d-%d#owner@user:a", n, i)))
			}
			_, err := s.Write(ctx, w)
			return err
		}, 3},
		{"WriteFilters", func(n int) error {
			_, err := s.Write(ctx, authz.WriteRequest{RemoveMatching: repeat(n, storage.Filter{Target: storage.FilterTuples, Tuple: rel.Filter{ObjectType: "x"}})})
			return err
		}, 2},
		{"Preconditions", func(n int) error {
			_, err := s.Write(ctx, authz.WriteRequest{Preconditions: repeat(n, authz.Precondition{Filter: rel.Filter{ObjectType: "x"}, Absent: true})})
			return err
		}, 2},
		{"WriteDocuments", func(n int) error {
			var w authz.WriteRequest
			for i := range n {
				w.Documents = append(w.Documents, authz.Document{Kind: "k", Key: fmt.Sprint(i)})
			}
			_, err := s.Write(ctx, w)
			return err
		}, 2},
		{"WriteAttributes", func(n int) error {
			var w authz.WriteRequest
			for i := range n {
				w.RemoveAttributes = append(w.RemoveAttributes, rel.Attribute{Object: object, Name: fmt.Sprint("a", i)})
			}
			_, err := s.Write(ctx, w)
			return err
		}, 2},
		{"DocumentBytes", func(n int) error {
			_, err := s.Write(ctx, authz.WriteRequest{Documents: []authz.Document{{Kind: "k", Key: "x", Body: make([]byte, n)}}})
			return err
		}, 10},
		{"ContextTuples", func(n int) error {
			r := check
			r.Tuples = repeat(n, tup(t, "document:1#owner@user:a"))
			_, err := s.Check(ctx, r)
			return err
		}, 2},
		{"ContextBytes", func(n int) error {
			r := check
			r.Context = expr.Values{"name": strings.Repeat("x", n-4)}
			_, err := s.Check(ctx, r)
			return err
		}, 20},
		{"BatchItems", func(n int) error {
			_, err := s.CheckBatch(ctx, repeat(n, check), authz.Consistency{})
			return err
		}, 2},
		{"ListItems", func(n int) error {
			_, err := s.ListObjects(ctx, authz.ListObjectsRequest{Type: "document", Relation: "owner", Subject: check.Subject, Limit: n})
			return err
		}, 2},
		{"PageItems", func(n int) error {
			_, err := s.Read(ctx, authz.ReadRequest{Limit: n})
			return err
		}, 2},
		{"NameBytesMax", func(n int) error {
			return e.UpdateStore(ctx, s.ID(), replace(strings.Repeat("x", n), nil))
		}, authz.NameBytesMax},
	} {
		if err := c.ask(c.most); err != nil {
			t.Errorf("%s at its bound: %v", c.name, err)
		}
		err := c.ask(c.most + 1)
		wantKind(t, err, authz.ErrBound)
		var bound *authz.BoundError
		if !errors.As(err, &bound) || bound.Name != c.name || bound.Max != int64(c.most) || bound.Got != int64(c.most)+1 {
			t.Errorf("%s above its bound: %v", c.name, err)
		}
	}
}

func TestConcurrentWriters(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d disk) {
		ctx := context.Background()
		x := start(t, d, ostiary.Options{})
		s := newStore(t, x.engine, documents())
		const writers, rounds = 16, 25
		var won [rounds]atomic.Int32
		var group sync.WaitGroup
		for w := range writers {
			group.Add(1)
			go func() {
				defer group.Done()
				for r := range rounds {
					_, err := s.Write(ctx, authz.WriteRequest{Add: tups(t, fmt.Sprintf("document:%d#owner@user:same", r))})
					switch {
					case err == nil:
						won[r].Add(1)
					case !errors.Is(err, authz.ErrTupleExists):
						t.Error(err)
					}
					// A write must succeed although others in its group are refused.
					if _, err := s.Write(ctx, authz.WriteRequest{Add: tups(t, fmt.Sprintf("document:%d-%d#owner@user:a", w, r))}); err != nil {
						t.Error(err)
					}
					if _, err := s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#owner@document:2")}); !errors.Is(err, authz.ErrInvalidTuple) {
						t.Error(err)
					}
				}
			}()
		}
		group.Wait()
		for r := range rounds {
			if n := won[r].Load(); n != 1 {
				t.Errorf("%d writers created the same tuple, want 1", n)
			}
		}
		s = x.again(s)
		st := must(s.Stats(ctx))(t)
		if st.Graph.Tuples != rounds*(writers+1) || st.Revision != rounds*(writers+1)+1 {
			t.Errorf("%d tuples at revision %d", st.Graph.Tuples, st.Revision)
		}
	})
}

// TestWaitingWriterGivesUp cancels writes that wait for a prepared write.
func TestWaitingWriterGivesUp(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := newStore(t, newEngine(t, ostiary.Options{}), documents())
	p := must(s.Prepare(ctx, authz.WriteRequest{Add: tups(t, "document:1#owner@user:a")}))(t)
	short, cancel := context.WithCancel(ctx)
	failed := make(chan error, 2)
	for range 2 { // one leads its group, the other follows
		go func() {
			_, err := s.Write(short, authz.WriteRequest{Add: tups(t, "document:1#owner@user:b")})
			failed <- err
		}()
	}
	cancel()
	for range 2 {
		err := <-failed
		wantKind(t, err, authz.ErrCanceled)
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	p.Abort()
	must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#owner@user:b")}))(t)
	want(t, s, "document:1#owner@user:a", "false")
}

func TestWaitingWritersAreBounded(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := newStore(t, newEngine(t, ostiary.Options{Bounds: authz.Bounds{WritersWaiting: 2, HoldTime: time.Hour}}), documents())
	p := must(s.Prepare(ctx, authz.WriteRequest{Add: tups(t, "document:1#owner@user:a")}))(t)
	errs := make(chan error, 3)
	for i := range 3 {
		go func() {
			_, err := s.Write(ctx, authz.WriteRequest{Add: tups(t, fmt.Sprintf("document:1#owner@user:b%d", i))})
			errs <- err
		}()
	}
	wantKind(t, <-errs, authz.ErrBound) // the third to arrive
	p.Abort()
	for range 2 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

func TestMemoryBudget(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	onEach(t, func(t *testing.T, d disk) {
		x := start(t, d, ostiary.Options{MemoryMax: 2 << 20})
		s := newStore(t, x.engine, documents())
		var err error
		n := 0
		for ; err == nil && n < 1000; n++ {
			var w authz.WriteRequest
			for i := range 500 {
				w.Add = append(w.Add, tup(t, fmt.Sprintf("document:%d-%d#owner@user:a", n, i)))
			}
			_, err = s.Write(ctx, w)
		}
		wantKind(t, err, authz.ErrMemory)
		if n < 5 || n > 100 {
			t.Errorf("the memory budget was reached after %d writes", n)
		}
		// Removals and loads are never refused.
		must(s.Write(ctx, authz.WriteRequest{Remove: keys(t, "document:0-0#owner@user:a")}))(t)
		x.opts.MemoryMax = 1
		s = x.again(s)
		want(t, s, "document:0-1#owner@user:a", "true")
		_, err = s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:new#owner@user:a")})
		wantKind(t, err, authz.ErrMemory)
	})
}

// TestRoom has no room for what adds data: everything that only removes is done, until
// nothing is.
func TestRoom(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	onEach(t, func(t *testing.T, d disk) {
		var least atomic.Int64 // 0: room for all; 1: for what removes; 2: for nothing
		full := fmt.Errorf("%w: 5 bytes", authz.ErrDisk)
		x := start(t, d, ostiary.Options{Room: func(bytes int, frees bool) error {
			if bytes < 0 || bytes > 1<<20 {
				t.Errorf("an entry of %d bytes", bytes)
			}
			if n := least.Load(); n == 2 || n == 1 && !frees {
				return full
			}
			return nil
		}})
		s := newStore(t, x.engine, documents())
		other := newStore(t, x.engine, documents())
		must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#owner@user:a", "document:2#owner@user:a", "document:3#owner@user:a"),
			Documents: []authz.Document{{Kind: "note", Key: "1", Body: []byte("x")}}}))(t)
		least.Store(1)
		refused := func(what string, err error) {
			t.Helper()
			if wantKind(t, err, authz.ErrDisk); err == nil || !strings.HasSuffix(err.Error(), full.Error()) {
				t.Errorf("%s: %v", what, err)
			}
		}
		write := func(w authz.WriteRequest) error {
			_, err := s.Write(ctx, w)
			return err
		}
		refused("a tuple", write(authz.WriteRequest{Add: tups(t, "document:new#owner@user:a")}))
		refused("a tuple for another", write(authz.WriteRequest{Remove: keys(t, "document:1#owner@user:a"), Add: tups(t, "document:new#owner@user:a")}))
		refused("a document", write(authz.WriteRequest{Documents: []authz.Document{{Kind: "note", Key: "2", Body: []byte("x")}}}))
		_, err := x.engine.CreateStore(ctx, ostiary.CreateStoreRequest{Name: "new"})
		refused("a store", err)
		refused("a name", x.engine.UpdateStore(ctx, s.ID(), func(name *string, _ map[string]string) error { *name = "new"; return nil }))
		_, err = s.Import(ctx, func(yield func(rel.Tuple, error) bool) { yield(tup(t, "document:new#owner@user:a"), nil) }, authz.ImportOptions{})
		refused("an import", err)
		want(t, s, "document:1#owner@user:a", "true")
		want(t, s, "document:new#owner@user:a", "false")
		// One group has writers that are refused, and others that are not.
		var group sync.WaitGroup
		for i := range 40 {
			group.Go(func() {
				if i%2 == 0 {
					refused("in a group", write(authz.WriteRequest{Add: tups(t, fmt.Sprintf("document:new%d#owner@user:a", i))}))
				} else if err := write(authz.WriteRequest{Remove: keys(t, "document:1#owner@user:a"), OnMissing: authz.Ignore}); err != nil {
					t.Errorf("a removal: %v", err)
				}
			})
		}
		group.Wait()
		want(t, s, "document:1#owner@user:a", "false")
		if err := write(authz.WriteRequest{RemoveDocuments: []authz.DocumentKey{{Kind: "note", Key: "1"}}}); err != nil {
			t.Errorf("the removal of a document: %v", err)
		}
		if err := write(authz.WriteRequest{RemoveMatching: []storage.Filter{{Target: storage.FilterTuples, Tuple: rel.Filter{ObjectID: "2", ObjectType: "document"}}}}); err != nil {
			t.Errorf("a removal by a filter: %v", err)
		}
		if err := s.Trim(ctx, 2, 2); err != nil {
			t.Errorf("a trim: %v", err)
		}
		least.Store(2)
		refused("a removal", write(authz.WriteRequest{Remove: keys(t, "document:3#owner@user:a")}))
		refused("a trim", s.Trim(ctx, 3, 3))
		refused("a deletion", x.engine.DeleteStore(ctx, other.ID()))
		want(t, s, "document:3#owner@user:a", "true")
		want(t, other, "document:3#owner@user:a", "false")
		least.Store(1)
		if err := x.engine.DeleteStore(ctx, other.ID()); err != nil {
			t.Errorf("a deletion: %v", err)
		}
		least.Store(0)
		must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:new#owner@user:a")}))(t)
		want(t, s, "document:new#owner@user:a", "true")
	})
}

func repeat[T any](n int, v T) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = v
	}
	return out
}
