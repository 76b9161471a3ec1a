package eval

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// TestExpandText shows one level and all levels of a tree as text.
func TestExpandText(t *testing.T) {
	t.Parallel()
	user, group := schema.SubjectType{Type: "user"}, schema.SubjectType{Type: "group", Relation: "member"}
	s, err := schema.Compile(&schema.Model{Types: []schema.TypeDef{
		{Name: "user"},
		{Name: "group", Relations: []schema.RelationDef{{Name: "member", Rewrite: schema.Direct(), Subjects: []schema.SubjectType{user, group}}}},
		{Name: "folder", Relations: []schema.RelationDef{{Name: "viewer", Rewrite: schema.Direct(), Subjects: []schema.SubjectType{user}}}},
		{Name: "doc", Relations: []schema.RelationDef{
			{Name: "parent", Rewrite: schema.Direct(), Subjects: []schema.SubjectType{{Type: "folder"}}},
			{Name: "banned", Rewrite: schema.Direct(), Subjects: []schema.SubjectType{user}},
			{Name: "viewer", Subjects: []schema.SubjectType{user, group}, Rewrite: schema.Exclusion(
				schema.Union(schema.Direct(), schema.Arrow("parent", "viewer")), schema.Computed("banned"))},
		}},
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	load := graph.New(graph.Options{}).Load()
	for _, text := range []string{"doc:1#viewer@user:anne", "doc:1#viewer@group:a#member", "doc:1#parent@folder:f",
		"folder:f#viewer@user:bob", "group:a#member@group:b#member", "group:b#member@group:a#member", "doc:1#banned@user:bob"} {
		tuple, err := rel.Parse(text)
		if err == nil {
			err = load.Add(tuple)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	view, err := load.Finish()
	if err != nil {
		t.Fatal(err)
	}
	b := Bind(s, view)
	for levels, want := range map[int]string{1: `doc:1#viewer
  exclusion ([user, group#member] or viewer from parent) but not banned
    union [user, group#member] or viewer from parent
      direct [user, group#member]
        - doc:1#viewer@user:anne
        - doc:1#viewer@group:a#member
          group:a#member …
      arrow viewer from parent
        - doc:1#parent@folder:f
          folder:f#viewer …
    doc:1#banned …
`, 9: `doc:1#viewer
  exclusion ([user, group#member] or viewer from parent) but not banned
    union [user, group#member] or viewer from parent
      direct [user, group#member]
        - doc:1#viewer@user:anne
        - doc:1#viewer@group:a#member
          group:a#member
            direct [user, group#member]
              - group:a#member@group:b#member
                group:b#member
                  direct [user, group#member]
                    - group:b#member@group:a#member
                      group:a#member (see elsewhere)
      arrow viewer from parent
        - doc:1#parent@folder:f
          folder:f#viewer
            direct [user]
              - folder:f#viewer@user:bob
    doc:1#banned
      direct [user]
        - doc:1#banned@user:bob
`} {
		tree, err := b.Expand(context.Background(), view, rel.Object{Type: "doc", ID: "1"}, "viewer", levels, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := tree.String(); got != want {
			t.Errorf("%d levels:\n%s\nwant:\n%s", levels, got, want)
		}
		if raw, err := json.Marshal(tree); err != nil || !json.Valid(raw) {
			t.Errorf("%s, %v", raw, err)
		}
	}
}
