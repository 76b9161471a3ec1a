package ostiary_test

import (
	"context"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// TestFirst: the one subject of a relation; none where nothing was written, in
// a relation or type that nobody knows, or where all of it has expired.
func TestFirst(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	now := time.Unix(1_000_000, 0)
	s := newStore(t, newEngine(t, ostiary.Options{Clock: func() time.Time { return now }}), documents())
	tuples := tups(t, "document:1#owner@user:anne", "document:2#owner@user:bob")
	tuples[1].Expires = rel.TimeOf(now.Add(time.Second))
	must(s.Write(ctx, ostiary.WriteRequest{Add: tuples}))(t)
	first := func(id, relation, subject, want string) {
		t.Helper()
		got, ok, err := s.FirstSubject(ctx, rel.Object{Type: "document", ID: id}, relation, subject)
		if err != nil || got != want || ok != (want != "") {
			t.Errorf("%s#%s@%s: %q %v %v, want %q", id, relation, subject, got, ok, err, want)
		}
	}
	first("1", "owner", "user", "anne")
	first("2", "owner", "user", "bob")
	now = now.Add(time.Second)
	first("2", "owner", "user", "")
	first("3", "owner", "user", "")
	first("1", "nothing", "user", "")
	first("1", "owner", "group", "")
}

// TestFirsts: the numbers that are looked up once are looked up again where the
// store was dropped, loaded anew with others, or compacted.
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
					t.Errorf("%q %v %v, want %q", got, ok, err, want)
				}
			}
			ask(owners, "")
			// Kinds are numbered in the order they come; after a load, in the order of
			// the rows.
			must(s.Write(ctx, ostiary.WriteRequest{Add: tups(t, "document:1#parent@folder:f", "folder:f#viewer@user:bob")}))(t)
			must(s.Write(ctx, ostiary.WriteRequest{Add: tups(t, "document:1#owner@user:anne", "document:2#viewer@user:bob")}))(t)
			for range 3 {
				ask(owners, "anne")
				ask(parents, "f")
				x.engine.DropIdle()
				x.engine.DropIdle()
				ask(owners, "anne")
				ask(parents, "f")
				must(0, s.Compact(ctx))(t)
			}
			must(s.Write(ctx, ostiary.WriteRequest{Remove: []rel.Key{tups(t, "document:1#owner@user:anne")[0].Key()}}))(t)
			ask(owners, "")
		})
	}
}

// TestSchemasInAWrite: schemas, tuples and documents in one entry, or nothing
// of it.
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
			_, err := s.Write(ctx, ostiary.WriteRequest{Schemas: []ostiary.SchemaSource{{Model: other}, {Model: bad}}})
			wantKind(t, err, ostiary.ErrInvalidSchema)
			_, err = s.Write(ctx, ostiary.WriteRequest{Schemas: []ostiary.SchemaSource{{Model: other}}, Remove: []rel.Key{tups(t, "document:1#owner@user:anne")[0].Key()}})
			wantKind(t, err, ostiary.ErrTupleMissing)
			_, err = s.CurrentSchema(ctx, "other")
			wantKind(t, err, ostiary.ErrNoSchema)

			before := must(s.Stats(ctx))(t).Revision
			must(s.Write(ctx, ostiary.WriteRequest{Schemas: []ostiary.SchemaSource{{Model: other}}, Add: tups(t, "document:1#owner@user:anne"),
				Documents: []ostiary.Document{{Kind: "note", Key: "1"}}}))(t)
			if after := must(s.Stats(ctx))(t).Revision; after != before+1 {
				t.Errorf("%d entries", after-before)
			}
			info := must(s.CurrentSchema(ctx, "other"))(t)
			must(s.Write(ctx, ostiary.WriteRequest{Add: tups(t, "other/document:1#owner@other/user:anne")}))(t)
			want(t, s, "other/document:1#viewer@other/user:anne", "true")

			_, err = s.Write(ctx, ostiary.WriteRequest{RemoveSchemas: []string{info.ID, info.ID}})
			wantKind(t, err, ostiary.ErrInvalidRequest)
			_, err = s.Write(ctx, ostiary.WriteRequest{RemoveSchemas: []string{info.ID, "none"}})
			wantKind(t, err, ostiary.ErrNoSchema)
			must(s.Write(ctx, ostiary.WriteRequest{RemoveSchemas: []string{info.ID}}))(t)
			_, err = s.CurrentSchema(ctx, "other")
			wantKind(t, err, ostiary.ErrNoSchema)
		})
	}
}
