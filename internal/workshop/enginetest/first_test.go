package enginetest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// TestFirst asks for the only subject of a relation. There is none if no tuple was
// written, or if the tuple has expired. Names that the schema lacks are errors, before and
// after the schema changed, as in a list of subjects.
func TestFirst(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	now := time.Unix(1_000_000, 0)
	s := newStore(t, newEngine(t, ostiary.Options{Clock: func() time.Time { return now }}), documents())
	tuples := tups(t, "document:1#owner@user:anne", "document:2#owner@user:bob")
	tuples[1].Expires = rel.TimeOf(now.Add(time.Second))
	must(s.Write(ctx, authz.WriteRequest{Add: tuples}))(t)
	first := func(id, relation, subject, want string) {
		t.Helper()
		got, ok, err := s.FirstSubject(ctx, rel.Object{Type: "document", ID: id}, relation, subject)
		if err != nil || got != want || ok != (want != "") {
			t.Errorf("first %[3]s with %[2]s on document %[1]s: got %[4]q, %[5]v, %[6]v, want %[7]q", id, relation, subject, got, ok, err, want)
		}
	}
	first("1", "owner", "user", "anne")
	first("2", "owner", "user", "bob")
	now = now.Add(time.Second)
	first("2", "owner", "user", "")
	first("3", "owner", "user", "")
	first("1", "owner", "group", "")
	refused := func(object, relation, subject string, kind error) {
		t.Helper()
		for range 2 {
			o := rel.Object{Type: object, ID: "1"}
			_, ok, err := s.FirstSubject(ctx, o, relation, subject)
			if ok {
				t.Errorf("%s, %s, %s: found a subject", object, relation, subject)
			}
			wantKind(t, err, kind)
			_, err = s.ListSubjects(ctx, authz.ListSubjectsRequest{Object: o, Relation: relation, SubjectType: subject})
			wantKind(t, err, kind)
		}
	}
	refused("document", "nothing", "user", authz.ErrNoRelation)
	refused("document", "owner", "robot", authz.ErrNoType)
	refused("robot", "owner", "user", authz.ErrNoType)

	lookup := s.SubjectLookup("document", "owner", "user")
	if got, ok, err := lookup.First(ctx, "1"); got != "anne" || !ok || err != nil {
		t.Errorf("got %q, %v, %v", got, ok, err)
	}
	m := documents()
	m.Types = slices.DeleteFunc(m.Types, func(d schema.TypeDef) bool { return d.Name == "document" })
	if _, _, err := s.WriteSchema(ctx, authz.SchemaSource{Model: m}); err != nil {
		t.Fatal(err)
	}
	_, _, err := lookup.First(ctx, "1")
	wantKind(t, err, authz.ErrNoType)
	refused("document", "owner", "user", authz.ErrNoType)
	_, _, err = must(newEngine(t, ostiary.Options{}).CreateStore(ctx, ostiary.CreateStoreRequest{}))(t).FirstSubject(ctx, rel.Object{Type: "document", ID: "1"}, "owner", "user")
	wantKind(t, err, authz.ErrNoSchema)
}

// TestFirsts uses a SubjectLookup across loads and compactions. The lookup keeps
// the graph's numbers, and must look them up again when the graph is replaced.
func TestFirsts(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, d := range disks() {
		t.Run(d.name, func(t *testing.T) {
			x := start(t, d, ostiary.Options{})
			s := newStore(t, x.engine, documents())
			owners, parents := s.SubjectLookup("document", "owner", "user"), s.SubjectLookup("document", "parent", "folder")
			ask := func(f *ostiary.SubjectLookup, want string) {
				t.Helper()
				if got, ok, err := f.First(ctx, "1"); err != nil || got != want || ok != (want != "") {
					t.Errorf("got %q, %v, %v, want %q", got, ok, err, want)
				}
			}
			ask(owners, "")
			// Kinds are numbered in the order in which tuples use them. A load reads
			// the tuples in another order than they were written in.
			must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#parent@folder:f", "folder:f#viewer@user:bob")}))(t)
			must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#owner@user:anne", "document:2#viewer@user:bob")}))(t)
			for range 3 {
				ask(owners, "anne")
				ask(parents, "f")
				x.engine.DropIdle()
				x.engine.DropIdle()
				ask(owners, "anne")
				ask(parents, "f")
				must(0, s.Compact(ctx))(t)
			}
			must(s.Write(ctx, authz.WriteRequest{Remove: []rel.Key{tups(t, "document:1#owner@user:anne")[0].Key()}}))(t)
			ask(owners, "")
		})
	}
}

// TestSchemasInAWrite writes schemas, tuples and documents in one entry. If one of
// them is refused, nothing is written.
func TestSchemasInAWrite(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, d := range disks() {
		t.Run(d.name, func(t *testing.T) {
			x := start(t, d, ostiary.Options{})
			s := newStore(t, x.engine, documents())
			other := documents()
			other.Namespace = "other"
			bad := &schema.Model{Namespace: "bad", Types: []schema.TypeDef{{Name: ""}}}
			_, err := s.Write(ctx, authz.WriteRequest{Schemas: []authz.SchemaSource{{Model: other}, {Model: bad}}})
			wantKind(t, err, authz.ErrInvalidSchema)
			_, err = s.Write(ctx, authz.WriteRequest{Schemas: []authz.SchemaSource{{Model: other}}, Remove: []rel.Key{tups(t, "document:1#owner@user:anne")[0].Key()}})
			wantKind(t, err, authz.ErrTupleMissing)
			_, err = s.CurrentSchema(ctx, "other")
			wantKind(t, err, authz.ErrNoSchema)

			before := must(s.Stats(ctx))(t).Revision
			must(s.Write(ctx, authz.WriteRequest{Schemas: []authz.SchemaSource{{Model: other}}, Add: tups(t, "document:1#owner@user:anne"),
				Documents: []authz.Document{{Kind: "note", Key: "1"}}}))(t)
			if after := must(s.Stats(ctx))(t).Revision; after != before+1 {
				t.Errorf("the write made %d entries, want 1", after-before)
			}
			info := must(s.CurrentSchema(ctx, "other"))(t)
			must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "other/document:1#owner@other/user:anne")}))(t)
			want(t, s, "other/document:1#viewer@other/user:anne", "true")

			_, err = s.Write(ctx, authz.WriteRequest{RemoveSchemas: []string{info.ID, info.ID}})
			wantKind(t, err, authz.ErrInvalidRequest)
			_, err = s.Write(ctx, authz.WriteRequest{RemoveSchemas: []string{info.ID, "none"}})
			wantKind(t, err, authz.ErrNoSchema)
			must(s.Write(ctx, authz.WriteRequest{RemoveSchemas: []string{info.ID}}))(t)
			_, err = s.CurrentSchema(ctx, "other")
			wantKind(t, err, authz.ErrNoSchema)
		})
	}
}
