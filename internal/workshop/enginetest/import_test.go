package enginetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/eval"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/memory"
)

// numbered yields n generated tuples, and then the tuples of more.
func numbered(t testing.TB, n int, more ...string) iter.Seq2[rel.Tuple, error] {
	tail := tups(t, more...)
	return func(yield func(rel.Tuple, error) bool) {
		for i := range n {
			if !yield(rel.Tuple{Object: rel.Object{Type: "document", ID: fmt.Sprint(i)}, Relation: "owner",
				Subject: rel.Subject{Type: "user", ID: fmt.Sprint(i % 7)}}, nil) {
				return
			}
		}
		for _, x := range tail {
			if !yield(x, nil) {
				return
			}
		}
	}
}

func TestImport(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d disk) {
		ctx := context.Background()
		x := start(t, d, ostiary.Options{})
		s := newStore(t, x.engine, documents())
		o := authz.ImportOptions{EntryTuples: 100}
		var seen []int
		o.Progress = func(n int) { seen = append(seen, n) }
		done := must(s.Import(ctx, numbered(t, 950), o))(t)
		if done.Read != 950 || done.Written != 950 || done.Token != must(s.Head(ctx))(t) || len(seen) != 10 || seen[9] != 950 {
			t.Errorf("%+v, progress %v", done, seen)
		}
		// The same import again finds every key.
		o.Progress = nil
		done, err := s.Import(ctx, numbered(t, 950), o)
		wantKind(t, err, authz.ErrTupleExists)
		if done.Read != 0 || done.Written != 0 || done.Token != "" {
			t.Errorf("the refused import returned %+v, want the zero result", done)
		}
		o.OnDuplicate = authz.Ignore
		done = must(s.Import(ctx, numbered(t, 950), o))(t)
		if done.Read != 950 || done.Written != 0 || done.Token != must(s.Head(ctx))(t) || must(done.Token.Revision())(t) != 11 {
			t.Errorf("the repeated import returned %+v, want 950 tuples at the head, revision 11", done)
		}
		// A key occurs twice in one entry, or the schema refuses a tuple: that entry
		// is not written, and the entries before it are.
		o.OnDuplicate = authz.Fail
		for _, last := range [][]string{{"folder:1#viewer@user:x", "folder:1#viewer@user:x"}, {"folder:1#viewer@user:x", "folder:1#viewer@folder:2"}} {
			_, err := s.Import(ctx, numbered(t, 0, last...), o)
			if !errors.Is(err, authz.ErrTupleExists) && !errors.Is(err, authz.ErrInvalidTuple) {
				t.Error(err)
			}
			if refused, ok := errors.AsType[*authz.ImportError](err); !ok || refused.Tuple != 2 {
				t.Errorf("got %v, expected an error of tuple 2", err)
			}
			want(t, s, "folder:1#viewer@user:x", "false")
		}
		broken := errors.New("the file is truncated")
		done, err = s.Import(ctx, func(yield func(rel.Tuple, error) bool) {
			for i := range 250 {
				if !yield(tup(t, fmt.Sprintf("folder:%d#viewer@user:y", i)), nil) {
					return
				}
			}
			yield(rel.Tuple{}, broken)
		}, o)
		if !errors.Is(err, broken) || !errors.Is(err, authz.ErrInvalidRequest) || errors.Is(err, authz.ErrStorage) || done.Read != 200 {
			t.Errorf("%v, %+v", err, done)
		}
		for range 2 {
			want(t, s, "folder:199#viewer@user:y", "true")
			want(t, s, "folder:200#viewer@user:y", "false")
			want(t, s, "document:949#owner@user:4", "true")
			s = x.again(s)
		}
		canceled, cancel := context.WithCancel(ctx)
		cancel()
		_, err = s.Import(canceled, numbered(t, 1, "folder:300#viewer@user:y"), o)
		wantKind(t, err, authz.ErrCanceled)
		_, err = s.Import(ctx, numbered(t, 1), authz.ImportOptions{EntryTuples: storage.ChangesMax + 1})
		wantKind(t, err, authz.ErrBound)
	})
}

func TestExport(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := newStore(t, newEngine(t, ostiary.Options{}), documents())
	done := must(s.Import(ctx, numbered(t, 500), authz.ImportOptions{}))(t)
	must(s.Write(ctx, authz.WriteRequest{RemoveMatching: []storage.Filter{{Target: storage.FilterTuples, Tuple: rel.Filter{SubjectType: "user", SubjectID: "3"}}}}))(t)
	for at, n := range map[authz.Consistency]int{{}: 500 - 71, authz.AtExactly(done.Token): 500} {
		got := map[rel.Tuple]bool{}
		for x, err := range s.Export(ctx, at) {
			if err != nil {
				t.Fatal(err)
			}
			got[x] = true
		}
		if len(got) != n {
			t.Errorf("exported %d tuples, want %d", len(got), n)
		}
	}
}

// TestExportOrder exports the same tuples after they were written in two orders, after a
// restart, after a compaction and at a past revision. The order must be the documented one.
func TestExportOrder(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	onEach(t, func(t *testing.T, d disk) {
		x := start(t, d, ostiary.Options{})
		var tuples []rel.Tuple
		for i := range 60 {
			tuples = append(tuples, tups(t, fmt.Sprintf("document:%d#viewer@user:%d", i%7, i), fmt.Sprintf("document:%d#viewer@group:%d#member", i%5, i),
				fmt.Sprintf("document:%d#owner@user:%d", i, i%3), fmt.Sprintf("group:%d#member@user:%d", i%4, i))...)
		}
		tuples = append(tuples, tups(t, "document:1#viewer@user:*", "document:2#viewer@user:*")...)
		for i := range tuples {
			if i%10 == 0 {
				tuples[i].Expires = 1<<62 + rel.Time(i)
			}
		}
		expected := slices.Clone(tuples)
		byList := func(a, b string) int { return eval.PositionOf(a).Compare(eval.PositionOf(b)) }
		wildcard := func(s rel.Subject) int { return strings.Count(s.ID, rel.Wildcard) }
		slices.SortFunc(expected, func(a, b rel.Tuple) int {
			return cmp.Or(strings.Compare(a.Object.Type, b.Object.Type), byList(a.Object.ID, b.Object.ID), strings.Compare(a.Relation, b.Relation),
				strings.Compare(a.Subject.Type, b.Subject.Type), strings.Compare(a.Subject.Relation, b.Subject.Relation),
				wildcard(a.Subject)-wildcard(b.Subject), byList(a.Subject.ID, b.Subject.ID))
		})
		for _, reversed := range []bool{false, true} {
			s := newStore(t, x.engine, documents())
			if reversed {
				slices.Reverse(tuples)
			}
			for part := range slices.Chunk(tuples, 50) {
				must(s.Write(ctx, authz.WriteRequest{Add: part}))(t)
			}
			past := must(s.Head(ctx))(t)
			check := func(when string, c authz.Consistency) {
				t.Helper()
				i := 0
				for got, err := range s.Export(ctx, c) {
					if err != nil {
						t.Fatal(err)
					}
					if i >= len(expected) || got != expected[i] {
						t.Fatalf("%s, reversed %v: tuple %d is %v", when, reversed, i, got)
					}
					i++
				}
				if i != len(expected) {
					t.Errorf("%s, reversed %v: %d tuples, expected %d", when, reversed, i, len(expected))
				}
			}
			check("as written", authz.Consistency{})
			must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "folder:1#viewer@user:1")}))(t)
			check("past", authz.AtExactly(past))
			must(s.Write(ctx, authz.WriteRequest{Remove: []rel.Key{tup(t, "folder:1#viewer@user:1").Key()}}))(t)
			must(0, s.Compact(ctx))(t)
			check("compacted", authz.Consistency{})
			s = x.again(s)
			check("restarted", authz.Consistency{})
			for range s.Export(ctx, authz.Consistency{}) {
				break
			}
		}
	})
}

// TestTuples compares the tuples that filters select with the pages of Read, at the
// newest revision and at one before a removal.
func TestTuples(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := newStore(t, newEngine(t, ostiary.Options{}), documents())
	done := must(s.Import(ctx, numbered(t, 500), authz.ImportOptions{}))(t)
	must(s.Write(ctx, authz.WriteRequest{RemoveMatching: []storage.Filter{{Target: storage.FilterTuples, Tuple: rel.Filter{SubjectType: "user", SubjectID: "3"}}}}))(t)
	for _, f := range []rel.Filter{
		{}, {ObjectType: "document"}, {ObjectType: "document", ObjectID: "7"}, {SubjectType: "user", SubjectID: "3"}, {SubjectType: "user", SubjectID: "4"},
		{Relation: "viewer"}, {ObjectType: "document", Relation: "viewer", SubjectType: "user", SubjectID: "2"}, {ObjectType: "none"},
	} {
		for _, at := range []authz.Consistency{{}, authz.AtExactly(done.Token)} {
			want := map[rel.Tuple]bool{}
			for r := (authz.ReadRequest{Filter: f, Consistency: at}); ; {
				page := must(s.Read(ctx, r))(t)
				for _, x := range page.Tuples {
					want[x.Tuple] = true
				}
				if r.Cursor = page.Next; page.Next == "" {
					break
				}
			}
			got, n := map[rel.Tuple]bool{}, 0
			for x, err := range s.Tuples(ctx, f, at) {
				if err != nil {
					t.Fatal(err)
				}
				got[x] = true
				n++
			}
			if !maps.Equal(got, want) || n != len(want) {
				t.Errorf("%+v: %d tuples, %d different ones, want %d", f, n, len(got), len(want))
			}
		}
	}
}

// TestImportIsItsWrites imports tuples into one store and writes the same tuples
// one by one into another. Keys often repeat. Both stores must end equal.
func TestImportIsItsWrites(t *testing.T) {
	t.Parallel()
	const seed = 5
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	ctx := context.Background()
	e := newEngine(t, ostiary.Options{})
	for _, policy := range []authz.ConflictAction{authz.Fail, authz.Ignore, authz.Replace} {
		for range 20 {
			var stores [2]*ostiary.Store
			for i := range stores {
				stores[i] = newStore(t, e, documents())
			}
			tuples := make([]rel.Tuple, 400)
			keys := 1 << (3 + rng.IntN(16))
			for i := range tuples {
				tuples[i] = tup(t, fmt.Sprintf("document:%d#owner@user:a", rng.IntN(keys)))
				if policy == authz.Replace {
					tuples[i].Expires = rel.Time(1<<62 + rng.IntN(3))
				}
			}
			written := 0
			for i := range tuples {
				if _, err := stores[0].Write(ctx, authz.WriteRequest{Add: tuples[i : i+1], OnDuplicate: policy}); err != nil {
					wantKind(t, err, authz.ErrTupleExists)
					break
				}
				written++
			}
			const chunk = 50
			done, err := stores[1].Import(ctx, func(yield func(rel.Tuple, error) bool) {
				for _, x := range tuples {
					if !yield(x, nil) {
						return
					}
				}
			}, authz.ImportOptions{EntryTuples: chunk, OnDuplicate: policy})
			if done.Read != written/chunk*chunk || (err == nil) != (written == len(tuples)) {
				t.Fatalf("action %d: the import returned %+v, %v, but %d single writes succeeded", policy, done, err, written)
			}
			if err != nil {
				wantKind(t, err, authz.ErrTupleExists)
				if where := fmt.Sprintf("tuple %d:", written+1); !strings.Contains(err.Error(), where) {
					t.Errorf("got error %v, want %q in it", err, where)
				}
				continue
			}
			if a, b := exported(t, stores[0]), exported(t, stores[1]); !maps.Equal(a, b) {
				t.Fatalf("action %d: imported %v, want %v", policy, b, a)
			}
		}
	}
}

func exported(t testing.TB, s *ostiary.Store) map[rel.Tuple]bool {
	t.Helper()
	all := map[rel.Tuple]bool{}
	for x, err := range s.Export(context.Background(), authz.Consistency{}) {
		if err != nil {
			t.Fatal(err)
		}
		all[x] = true
	}
	return all
}

// TestImportOnABadLine imports through [badLine], while another writer uses the
// same store. The tuples that the import reports as read must be present, and no
// tuple after them.
func TestImportOnABadLine(t *testing.T) {
	t.Parallel()
	const seed, chunk, chunks, rounds = 9, 10, 8, 60
	t.Logf("seed %d", seed)
	ctx := context.Background()
	driver := memory.New()
	defer driver.Close()
	sure := newEngine(t, ostiary.Options{Driver: driver})
	s := newStore(t, sure, documents())
	bad := newEngine(t, ostiary.Options{Driver: &badLine{Driver: driver, rng: rand.New(rand.NewPCG(seed, 1))}})
	importer := must(bad.Store(ctx, s.ID()))(t)
	var stop atomic.Bool
	var writers sync.WaitGroup
	for w, to := range []*ostiary.Store{s, importer} {
		writers.Go(func() {
			for i := 0; !stop.Load(); i++ {
				_, err := to.Write(ctx, authz.WriteRequest{Add: tups(t, fmt.Sprintf("folder:%d-%d#viewer@user:a", w, i))})
				// One of two writers that never pause may lose every conflict.
				if err != nil && !errors.Is(err, errLine) && !errors.Is(err, authz.ErrConflict) {
					t.Error(err)
					return
				}
			}
		})
	}
	complete := 0
	for round := range rounds {
		name := func(i int) string { return fmt.Sprintf("document:%d-%d#owner@user:a", round, i) }
		done, err := importer.Import(ctx, func(yield func(rel.Tuple, error) bool) {
			for i := range chunk * chunks {
				if !yield(tup(t, name(i)), nil) {
					return
				}
			}
		}, authz.ImportOptions{EntryTuples: chunk})
		if err == nil {
			complete++
		} else if !errors.Is(err, errLine) {
			t.Error(err)
		}
		if (err == nil) != (done.Read == chunk*chunks) || done.Read%chunk != 0 {
			t.Errorf("%+v, %v", done, err)
		}
		for i := range chunk * chunks {
			if got := ask(t, s, name(i), authz.QueryOptions{Consistency: authz.FullyConsistent()}); (got == "true") != (i < done.Read) {
				t.Fatalf("round %d: after %d tuples were read, tuple %d is %s", round, done.Read, i, got)
			}
		}
	}
	stop.Store(true)
	writers.Wait()
	if complete == 0 || complete == rounds {
		t.Errorf("%d of %d imports were complete, want some but not all", complete, rounds)
	}
}
