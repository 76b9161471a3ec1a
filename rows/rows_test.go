package rows

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// table is an embedder's table of tuples. It fails with err if that is set.
type table struct {
	tuples []rel.Tuple
	err    error
}

func (t table) Subjects(object rel.Object, relation string, yield func(rel.Tuple) bool) error {
	for _, row := range t.tuples {
		if row.Object == object && row.Relation == relation && !yield(row) {
			break
		}
	}
	return t.err
}

func (t table) Objects(subject rel.Subject, objectType, relation string, yield func(rel.Tuple) bool) error {
	for _, row := range t.tuples {
		if row.Subject == subject && row.Object.Type == objectType && row.Relation == relation && !yield(row) {
			break
		}
	}
	return t.err
}

func tuple(text string) rel.Tuple {
	t, err := rel.Parse(text)
	if err != nil {
		panic(err)
	}
	return t
}

func compiled(t *testing.T) *schema.Schema {
	t.Helper()
	s, err := schema.Compile(&schema.Model{Types: []schema.TypeDef{
		{Name: "user"},
		{Name: "document", Relations: []schema.RelationDef{{Name: "viewer", Rewrite: schema.Rewrite{Op: schema.OpDirect},
			Subjects: []schema.SubjectType{{Type: "user"}}}}},
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestRows asks about rows, tuples of the options and a tuple that expires.
func TestRows(t *testing.T) {
	t.Parallel()
	ctx, s := context.Background(), compiled(t)
	until := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	expiring := tuple("document:2#viewer@user:anne")
	expiring.Expires = rel.TimeOf(until)
	rows := table{tuples: []rel.Tuple{tuple("document:1#viewer@user:anne"), expiring, tuple("document:4#viewer@user:bob")}}
	anne := rel.Subject{Type: "user", ID: "anne"}
	for _, c := range []struct {
		now  time.Time
		want []string
	}{
		{time.Time{}, []string{"1", "2", "3"}},
		{until.Add(-1), []string{"1", "2", "3"}},
		{until, []string{"1", "3"}},
	} {
		e := New(s, rows, Options{Now: c.now, Tuples: []rel.Tuple{tuple("document:3#viewer@user:anne")}})
		l, err := e.ListObjects(ctx, "document", "viewer", anne)
		slices.Sort(l.IDs)
		if err != nil || !slices.Equal(l.IDs, c.want) {
			t.Errorf("at %v: got %v, %v; expected %v", c.now, l.IDs, err, c.want)
		}
		for _, id := range []string{"1", "2", "3", "4"} {
			a, err := e.Check(ctx, authz.Question{Object: rel.Object{Type: "document", ID: id}, Relation: "viewer", Subject: anne})
			if err != nil || a.Allowed() != slices.Contains(c.want, id) {
				t.Errorf("at %v: document:%s: got %v, %v", c.now, id, a.Decision, err)
			}
		}
	}
}

// TestErrors asks what cannot be answered.
func TestErrors(t *testing.T) {
	t.Parallel()
	ctx, s, broken := context.Background(), compiled(t), errors.New("the table is gone")
	anne := rel.Subject{Type: "user", ID: "anne"}
	for _, c := range []struct {
		name, typ, relation string
		rows                table
		options             Options
		want                error
	}{
		{"an unknown type", "folder", "viewer", table{}, Options{}, authz.ErrNoType},
		{"an unknown relation", "document", "owner", table{}, Options{}, authz.ErrNoRelation},
		{"a tuple that the schema refuses", "document", "viewer", table{}, Options{Tuples: []rel.Tuple{tuple("user:1#viewer@user:anne")}}, authz.ErrInvalidTuple},
		{"rows that fail", "document", "viewer", table{err: broken}, Options{}, authz.ErrStorage},
		{"the cause", "document", "viewer", table{err: broken}, Options{}, broken},
	} {
		a, err := New(s, c.rows, c.options).Check(ctx, authz.Question{Object: rel.Object{Type: c.typ, ID: "1"}, Relation: c.relation, Subject: anne})
		if !errors.Is(err, c.want) || a.Allowed() {
			t.Errorf("%s: check: got %v, %v; expected %v", c.name, a.Decision, err, c.want)
		}
		l, err := New(s, c.rows, c.options).ListObjects(ctx, c.typ, c.relation, anne)
		if !errors.Is(err, c.want) || len(l.IDs) > 0 {
			t.Errorf("%s: list: got %v, %v; expected %v", c.name, l.IDs, err, c.want)
		}
	}
}
