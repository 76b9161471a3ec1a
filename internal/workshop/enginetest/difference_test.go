package enginetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
)

// viewers selects the permission that the tests of differences compare.
var viewers = authz.PermissionSelector{ObjectType: "document", Relation: "viewer", SubjectType: "user"}

// differences reads all pages. It returns each change as text, and how many checks
// the pages took.
func differences(t testing.TB, s *ostiary.Store, r authz.DifferenceRequest) (out []string, checked int) {
	t.Helper()
	for {
		page := must(s.Difference(context.Background(), r))(t)
		for _, c := range page.Changes {
			line := fmt.Sprintf("%s %s %v>%v", c.Object, c.Subject, c.Before, c.After)
			if c.ExceptCount > 0 {
				line += " except " + strings.Join(c.Except, ",")
			}
			out = append(out, line)
		}
		checked += page.Checked
		if r.Cursor = page.Next; page.Next == "" {
			slices.Sort(out)
			return out, checked
		}
	}
}

func wantLines(t testing.TB, got []string, want ...string) {
	t.Helper()
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestDifference(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d disk) {
		ctx := context.Background()
		clock := newClock()
		x := start(t, d, ostiary.Options{Clock: clock.Now})
		s := newStore(t, x.engine, documents())
		soon := rel.TimeOf(clock.Now().Add(time.Minute))
		expiring := tup(t, "document:3#owner@user:eve")
		expiring.Expires = soon
		first := must(s.Write(ctx, authz.WriteRequest{Add: append(tups(t, "document:1#viewer@group:g#member", "group:g#member@user:anne",
			"document:2#parent@folder:f", "folder:f#viewer@user:bob", "document:2#viewer@user:bob"), expiring)}))(t)
		second := must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "group:g#member@user:carl", "folder:f#viewer@group:g#member"),
			Remove: keys(t, "folder:f#viewer@user:bob")}))(t)
		clock.Advance(2 * time.Minute)
		third := must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:2#viewer@user:*"), Remove: keys(t, "group:g#member@user:anne")}))(t)
		for try := range 2 {
			r := authz.DifferenceRequest{PermissionSelector: viewers, From: authz.AtExactly(first), To: authz.AtExactly(second), Limit: 1 + try}
			got, _ := differences(t, s, r)
			// Bob keeps document 2 because of his own tuple.
			wantLines(t, got, "document:1 user:carl false>true", "document:2 user:anne false>true", "document:2 user:carl false>true")
			r.From, r.To = authz.AtExactly(second), authz.AtExactly(third)
			got, _ = differences(t, s, r)
			wantLines(t, got, "document:1 user:anne true>false", "document:3 user:eve true>false",
				"document:2 user:* false>true except anne,carl,bob")
			r.Subjects = []string{"eve", "zoe"}
			got, _ = differences(t, s, r)
			wantLines(t, got, "document:2 user:eve false>true", "document:2 user:zoe false>true", "document:3 user:eve true>false")
			r.Subjects, r.Objects = nil, []string{"1"}
			got, _ = differences(t, s, r)
			wantLines(t, got, "document:1 user:anne true>false")
			r.From, r.To = authz.AtExactly(second), authz.AtExactly(second)
			got, _ = differences(t, s, r)
			wantLines(t, got)
			r.Objects, r.From, r.To = nil, authz.AtRevision(0), authz.AtExactly(first)
			got, _ = differences(t, s, r)
			wantLines(t, got, "document:1 user:anne false>true", "document:2 user:bob false>true", "document:3 user:eve false>true")
			r.PermissionSelector = authz.PermissionSelector{ObjectType: "document", Relation: "viewer", SubjectType: "group", SubjectRelation: "member"}
			r.From, r.To = authz.AtExactly(first), authz.AtExactly(second)
			got, _ = differences(t, s, r)
			wantLines(t, got, "document:2 group:g#member false>true")
			s = x.again(s)
		}
	})
}

// TestDifferenceOfSchemas compares revisions between which the schema changed.
func TestDifferenceOfSchemas(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := newStore(t, newEngine(t, ostiary.Options{}), documents())
	before := must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#owner@user:anne", "document:2#viewer@user:bob", "document:3#owner@user:carl")}))(t)
	m := documents()
	m.Types[3].Relations[2].Rewrite = schema.Union(schema.Direct(), schema.Arrow("parent", "viewer"))
	_, after, err := s.WriteSchema(ctx, authz.SchemaSource{Model: m})
	if err != nil {
		t.Fatal(err)
	}
	r := authz.DifferenceRequest{PermissionSelector: viewers, From: authz.AtExactly(before), To: authz.AtExactly(after), Limit: 1}
	got, _ := differences(t, s, r)
	wantLines(t, got, "document:1 user:anne true>false", "document:3 user:carl true>false")
	r.SchemaID = must(s.Schemas(ctx))(t)[0].ID
	got, _ = differences(t, s, r) // no difference under one schema
	wantLines(t, got)
}

// TestDifferenceCost checks that a small change in a store with many tuples takes
// few checks.
func TestDifferenceCost(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := newStore(t, newEngine(t, ostiary.Options{}), documents())
	for i := range 20 {
		var w authz.WriteRequest
		for j := range 500 {
			w.Add = append(w.Add, tup(t, fmt.Sprintf("document:%d-%d#viewer@user:u%d", i, j, j)))
		}
		must(s.Write(ctx, w))(t)
	}
	from := must(s.Head(ctx))(t)
	must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:new#owner@user:u1"), Remove: keys(t, "document:3-3#viewer@user:u3")}))(t)
	got, checked := differences(t, s, authz.DifferenceRequest{PermissionSelector: viewers, From: authz.AtExactly(from)})
	wantLines(t, got, "document:new user:u1 false>true", "document:3-3 user:u3 true>false")
	if checked > 8 {
		t.Errorf("two changes took %d checks, want at most 8", checked)
	}
}

func TestDifferenceRefuses(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	e := newEngine(t, ostiary.Options{Bounds: authz.Bounds{DifferenceChanges: 3, DifferenceUsersets: 7, DifferenceChecks: 2, FutureWait: 50 * time.Millisecond}})
	s, twin := newStore(t, e, documents()), newStore(t, e, documents())
	first := must(s.Head(ctx))(t)
	second := must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#owner@user:anne", "document:2#owner@user:anne", "document:3#owner@user:bob")}))(t)
	must(twin.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#owner@user:anne")}))(t)
	r := authz.DifferenceRequest{PermissionSelector: viewers, From: authz.AtExactly(first), To: authz.AtExactly(second)}
	got, _ := differences(t, s, r) // as many changes as the bound allows, in pages of two checks
	wantLines(t, got, "document:1 user:anne false>true", "document:2 user:anne false>true", "document:3 user:bob false>true")
	page := must(s.Difference(ctx, r))(t)
	for name, c := range map[string]struct {
		store *ostiary.Store
		r     authz.DifferenceRequest
		kind  error
	}{
		"backwards":               {s, authz.DifferenceRequest{PermissionSelector: viewers, From: authz.AtExactly(second), To: authz.AtExactly(first)}, authz.ErrInvalidRequest},
		"a twin's token":          {twin, r, authz.ErrToken},
		"a twin's cursor":         {twin, authz.DifferenceRequest{PermissionSelector: viewers, Cursor: page.Next}, authz.ErrToken},
		"another permission":      {s, authz.DifferenceRequest{PermissionSelector: authz.PermissionSelector{ObjectType: "document", Relation: "owner", SubjectType: "user"}, Cursor: page.Next}, authz.ErrCursor},
		"no such type":            {s, authz.DifferenceRequest{PermissionSelector: authz.PermissionSelector{ObjectType: "x", Relation: "owner", SubjectType: "user"}, To: r.To}, authz.ErrNoType},
		"no such relation":        {s, authz.DifferenceRequest{PermissionSelector: authz.PermissionSelector{ObjectType: "document", Relation: "x", SubjectType: "user"}, To: r.To}, authz.ErrNoRelation},
		"no such subject":         {s, authz.DifferenceRequest{PermissionSelector: authz.PermissionSelector{ObjectType: "document", Relation: "owner", SubjectType: "x"}, To: r.To}, authz.ErrNoType},
		"a future":                {s, authz.DifferenceRequest{PermissionSelector: viewers, To: authz.AtRevision(99)}, authz.ErrFuture},
		"before the first schema": {s, authz.DifferenceRequest{PermissionSelector: viewers, From: authz.AtTime(time.Unix(0, 0)), To: authz.AtTime(time.Unix(1, 0))}, authz.ErrNoSchema},
	} {
		_, err := c.store.Difference(ctx, c.r)
		t.Run(name, func(t *testing.T) { wantKind(t, err, c.kind) })
	}
	for i := range len(page.Next) { // a changed cursor must not panic
		b := []byte(page.Next)
		b[i] ^= 1
		r := r
		r.Cursor = string(b)
		if _, err := s.Difference(ctx, r); err == nil && i > 60 {
			continue // these bytes are the position: any ids
		}
	}
	must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:4#owner@user:anne")}))(t)
	r.To = authz.MinimizeLatency()
	_, err := s.Difference(ctx, r)
	wantKind(t, err, authz.ErrBound)
	must(struct{}{}, s.Trim(ctx, 3, 3))(t)
	_, err = s.Difference(ctx, authz.DifferenceRequest{PermissionSelector: viewers, From: authz.AtRevision(1), To: authz.AtRevision(2)})
	wantKind(t, err, authz.ErrTooOld)
	_ = storage.Revision(0)
}

// TestDifferenceUsersets tests the bound of the usersets that changes reach, at the
// limit and one below it.
func TestDifferenceUsersets(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for limit, kind := range map[int]error{7: nil, 6: authz.ErrBound} {
		s := newStore(t, newEngine(t, ostiary.Options{Bounds: authz.Bounds{DifferenceUsersets: limit}}), documents())
		from := must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "folder:f#viewer@group:g#member", "document:1#parent@folder:f",
			"document:2#parent@folder:f", "document:3#parent@folder:f", "document:4#viewer@group:g#member", "document:5#owner@user:x")}))(t)
		must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "group:g#member@user:anne")}))(t)
		// The group, the folder and four documents are six usersets. The other group is
		// the seventh.
		must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "group:other#member@user:anne")}))(t)
		_, err := s.Difference(ctx, authz.DifferenceRequest{PermissionSelector: viewers, From: authz.AtExactly(from)})
		if kind == nil && err != nil {
			t.Error(err)
		} else if kind != nil {
			wantKind(t, err, kind)
		}
	}
}

// BenchmarkDifference compares two revisions with 100 changes in between, in a
// store of 100,000 tuples.
func BenchmarkDifference(b *testing.B) {
	ctx := context.Background()
	s, _ := benchStore(b)
	from := must(s.Head(ctx))(b)
	for i := range 100 {
		must(s.Write(ctx, authz.WriteRequest{Add: tups(b, fmt.Sprintf("document:new%d#owner@user:someone", i))}))(b)
	}
	r := authz.DifferenceRequest{PermissionSelector: viewers, From: authz.AtExactly(from), Limit: 1000}
	b.ReportAllocs()
	for b.Loop() {
		if d, err := s.Difference(ctx, r); err != nil || len(d.Changes) != 100 {
			b.Fatal(len(d.Changes), err)
		}
	}
}

// TestDifferenceOfManyNames selects very many subjects, which must not take
// quadratic time. It also checks that malformed ids are refused: an id "#" would
// have a special meaning in a cursor, and the pages would never end.
func TestDifferenceOfManyNames(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	e := must(ostiary.Open(ctx, ostiary.Options{}))(t)
	t.Cleanup(func() { e.Close() })
	s := newStore(t, e, documents())
	from := must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#viewer@user:0")}))(t)
	to := must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#viewer@user:*")}))(t)
	r := authz.DifferenceRequest{PermissionSelector: viewers, From: authz.AtExactly(from), To: authz.AtExactly(to), Limit: 10}
	for i := range 400_000 {
		r.Subjects = append(r.Subjects, fmt.Sprint(i))
	}
	if page := must(s.Difference(ctx, r))(t); len(page.Changes) != 10 || page.Next == "" {
		t.Errorf("got %d changes and next %q, want 10 and a cursor", len(page.Changes), page.Next)
	}
	for _, id := range []string{"#", "", "a#b", "a b", strings.Repeat("x", rel.IDBytesMax+1)} {
		for _, p := range []authz.PermissionSelector{{Subjects: []string{"0", id}}, {Objects: []string{id}}} {
			p.ObjectType, p.Relation, p.SubjectType = viewers.ObjectType, viewers.Relation, viewers.SubjectType
			r := r
			if r.PermissionSelector = p; !errors.Is(second(s.Difference(ctx, r)), authz.ErrInvalidName) {
				t.Errorf("id %.10q was accepted", id)
			}
		}
	}
}

func second[T any](_ T, err error) error { return err }
