package enginetest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
)

// documents returns a small model: documents in folders, and groups of users.
func documents() *schema.Model {
	user, group := schema.SubjectType{Type: "user"}, schema.SubjectType{Type: "group", Relation: "member"}
	direct := func(name string, subjects ...schema.SubjectType) schema.RelationDef {
		return schema.RelationDef{Name: name, Rewrite: schema.Direct(), Subjects: subjects}
	}
	return &schema.Model{Types: []schema.TypeDef{
		{Name: "user"},
		{Name: "group", Relations: []schema.RelationDef{direct("member", user, group)}},
		{Name: "folder", Relations: []schema.RelationDef{direct("viewer", user, group)}},
		{Name: "document", Relations: []schema.RelationDef{
			direct("parent", schema.SubjectType{Type: "folder"}),
			direct("owner", user),
			{Name: "viewer", Subjects: []schema.SubjectType{user, group, {Type: "user", Wildcard: true}},
				Rewrite: schema.Union(schema.Direct(), schema.Computed("owner"), schema.Arrow("parent", "viewer"))},
		}},
	}}
}

func tup(t testing.TB, s string) rel.Tuple {
	t.Helper()
	tuple, err := rel.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return tuple
}

func tups(t testing.TB, texts ...string) []rel.Tuple {
	t.Helper()
	var out []rel.Tuple
	for _, s := range texts {
		out = append(out, tup(t, s))
	}
	return out
}

// ask checks a question of the form "object#relation@subject" and returns the
// decision as text.
func ask(t testing.TB, s *ostiary.Store, question string, a authz.QueryOptions) string {
	t.Helper()
	q := tup(t, question)
	r, err := s.Check(context.Background(), authz.CheckRequest{Object: q.Object, Relation: q.Relation, Subject: q.Subject, QueryOptions: a})
	if err != nil {
		t.Fatalf("%s: %v", question, err)
	}
	return r.Decision.String()
}

func want(t testing.TB, s *ostiary.Store, question, truth string) {
	t.Helper()
	if got := ask(t, s, question, authz.QueryOptions{}); got != truth {
		t.Errorf("%s: got %s, want %s", question, got, truth)
	}
}

func must[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func newEngine(t testing.TB, o ostiary.Options) *ostiary.Engine {
	t.Helper()
	e, err := ostiary.Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// newStore creates a store with the schema m, or without a schema if m is nil.
func newStore(t testing.TB, e *ostiary.Engine, m *schema.Model) *ostiary.Store {
	t.Helper()
	s, err := e.CreateStore(context.Background(), ostiary.CreateStoreRequest{Name: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	if m != nil {
		if _, _, err := s.WriteSchema(context.Background(), authz.SchemaSource{Model: m}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func wantKind(t testing.TB, err, kind error) {
	t.Helper()
	var e *authz.Error
	if !errors.Is(err, kind) || !errors.As(err, &e) || e.Kind != kind {
		t.Errorf("got error %v, want kind %q", err, kind)
	}
}

func TestWriteAndCheck(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := newStore(t, newEngine(t, ostiary.Options{}), documents())
	must(s.Write(ctx, authz.WriteRequest{Add: tups(t,
		"document:1#parent@folder:a", "folder:a#viewer@group:eng#member", "group:eng#member@user:anne",
		"document:1#owner@user:bob", "document:2#viewer@user:*")}))(t)
	want(t, s, "document:1#viewer@user:anne", "true")
	want(t, s, "document:1#viewer@user:bob", "true")
	want(t, s, "document:1#owner@user:anne", "false")
	want(t, s, "document:2#viewer@user:nobody", "true")
	if _, err := s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#owner@user:bob")}); err != nil {
		wantKind(t, err, authz.ErrTupleExists)
	} else {
		t.Error("a duplicate was written")
	}
	_, err := s.Write(ctx, authz.WriteRequest{Remove: []rel.Key{tup(t, "document:1#owner@user:carl").Key()}})
	wantKind(t, err, authz.ErrTupleMissing)
	must(s.Write(ctx, authz.WriteRequest{Remove: []rel.Key{tup(t, "group:eng#member@user:anne").Key()}}))(t)
	want(t, s, "document:1#viewer@user:anne", "false")
	results := must(s.CheckBatch(ctx, []authz.CheckRequest{
		{Object: rel.Object{Type: "document", ID: "1"}, Relation: "viewer", Subject: rel.Subject{Type: "user", ID: "bob"}},
		{Object: rel.Object{Type: "nothing", ID: "1"}, Relation: "viewer", Subject: rel.Subject{Type: "user", ID: "bob"}},
		{Object: rel.Object{Type: "document", ID: "2"}, Relation: "viewer", Subject: rel.Subject{Type: "user", ID: "x"}},
	}, authz.Consistency{}))(t)
	if !results[0].Allowed() || results[1].Err == nil || !results[2].Allowed() {
		t.Errorf("batch: %v", results)
	}
	wantKind(t, results[1].Err, authz.ErrNoType)
}

func TestPastRevisions(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := newStore(t, newEngine(t, ostiary.Options{}), documents())
	var tokens []authz.Token
	for i := range 10 {
		w := authz.WriteRequest{Add: tups(t, fmt.Sprintf("document:1#owner@user:u%d", i))}
		if i > 0 {
			w.Remove = []rel.Key{tup(t, fmt.Sprintf("document:1#owner@user:u%d", i-1)).Key()}
		}
		tokens = append(tokens, must(s.Write(ctx, w))(t))
	}
	for i, token := range tokens {
		for j := range 10 {
			got := ask(t, s, fmt.Sprintf("document:1#owner@user:u%d", j), authz.QueryOptions{Consistency: authz.AtExactly(token)})
			if (got == "true") != (i == j) {
				t.Errorf("owner u%d at write %d: got %s", j, i, got)
			}
		}
	}
	_, err := s.Check(ctx, authz.CheckRequest{Object: rel.Object{Type: "document", ID: "1"}, Relation: "owner",
		Subject: rel.Subject{Type: "user", ID: "u1"}, QueryOptions: authz.QueryOptions{Consistency: authz.AtRevision(0)}})
	wantKind(t, err, authz.ErrNoSchema)
	_ = storage.Revision(0)
}
