package enginetest

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// TestNothingStays uses all features that start goroutines, closes the engine, and
// checks that no goroutine is left. It cannot run in parallel with other tests.
func TestNothingStays(t *testing.T) {
	before := runtime.NumGoroutine()
	ctx := context.Background()
	e := must(ostiary.Open(ctx, ostiary.Options{Background: time.Millisecond}))(t)
	s := newStore(t, e, documents())
	must(s.Import(ctx, numbered(t, 1000), authz.ImportOptions{EntryTuples: 100}))(t)
	canceled, cancel := context.WithCancel(ctx)
	for range 4 {
		go func() {
			for range s.Watch(canceled, authz.WatchRequest{}) {
			}
		}()
	}
	e.DropIdle()
	must(s.Stats(ctx))(t)
	must(s.Prepare(ctx, authz.WriteRequest{Add: tups(t, "document:x#owner@user:a")}))(t).Abort()
	must(struct{}{}, s.Compact(ctx))(t)
	cancel()
	_, err := s.Check(canceled, authz.CheckRequest{Object: rel.Object{Type: "document", ID: "1"}, Relation: "owner", Subject: rel.Subject{Type: "user", ID: "1"}})
	wantKind(t, err, authz.ErrCanceled)
	_, err = s.ListObjects(canceled, authz.ListObjectsRequest{Type: "document", Relation: "owner", Subject: rel.Subject{Type: "user", ID: "1"}})
	wantKind(t, err, authz.ErrCanceled)
	must(struct{}{}, e.Close())(t)
	for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(end) {
			buf := make([]byte, 1<<16)
			t.Fatalf("%d goroutines before, %d after:\n%s", before, runtime.NumGoroutine(), buf[:runtime.Stack(buf, true)])
		}
	}
}

// TestStaleTuples writes tuples that the next schema does not admit. They stay
// stored but do not count, and a question may not add them as contextual tuples
// (class T).
func TestStaleTuples(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d disk) {
		ctx := context.Background()
		x := start(t, d, ostiary.Options{})
		s := newStore(t, x.engine, documents())
		old := must(s.CurrentSchema(ctx, ""))(t)
		must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#viewer@user:*", "document:2#viewer@user:anne", "group:g#member@user:anne", "document:3#viewer@group:g#member")}))(t)
		m := documents()
		m.Types[3].Relations[2].Subjects = []schema.SubjectType{{Type: "group", Relation: "member"}}
		_, _, err := s.WriteSchema(ctx, authz.SchemaSource{Model: m})
		must(struct{}{}, err)(t)
		for range 2 {
			for i, truth := range []string{"false", "false", "true"} {
				q := fmt.Sprintf("document:%d#viewer@user:anne", i+1)
				want(t, s, q, truth)
				if got := ask(t, s, q, authz.QueryOptions{SchemaID: old.ID}); got != "true" {
					t.Errorf("%s under the older schema: got %s, want true", q, got)
				}
			}
			l := must(s.ListObjects(ctx, authz.ListObjectsRequest{Type: "document", Relation: "viewer", Subject: rel.Subject{Type: "user", ID: "anne"}}))(t)
			if len(l.IDs) != 1 || l.IDs[0] != "3" {
				t.Errorf("listed %v, want only document 3", l.IDs)
			}
			q := tup(t, "document:9#viewer@user:anne")
			_, err = s.Check(ctx, authz.CheckRequest{Object: q.Object, Relation: q.Relation, Subject: q.Subject, QueryOptions: authz.QueryOptions{Tuples: []rel.Tuple{q}}})
			wantKind(t, err, authz.ErrInvalidTuple)
			s = x.again(s)
		}
	})
}
