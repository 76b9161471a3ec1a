package eval_test

import (
	"strings"
	"testing"

	"github.com/ostiary/ostiary/internal/engine/eval"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// TestAdmitNamesWhatIsAdmitted checks that the error for a tuple names what the
// schema admits instead, and suggests names for misspelt ones.
func TestAdmitNamesWhatIsAdmitted(t *testing.T) {
	t.Parallel()
	s, err := schema.Compile(&schema.Model{Types: []schema.TypeDef{
		{Name: "user"},
		{Name: "document", Relations: []schema.RelationDef{
			{Name: "owner", Rewrite: schema.Rewrite{Op: schema.OpDirect}, Subjects: []schema.SubjectType{{Type: "user"}}},
			{Name: "viewer", Rewrite: schema.Rewrite{Op: schema.OpDirect}, Subjects: []schema.SubjectType{{Type: "user"}, {Type: "user", Wildcard: true}, {Type: "document", Relation: "owner"}}},
			{Name: "can_view", Rewrite: schema.Rewrite{Op: schema.OpComputed, Relation: "viewer"}},
		}},
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"documnet:1#owner@user:a":         `the schema has no type "documnet" (did you mean "document"?)`,
		"document:1#ownr@user:a":          `type document has no relation "ownr" (did you mean "owner"?)`,
		"document:1#editor@user:a":        `type document has no relation "editor"`,
		"document:1#can_view@user:a":      "can_view is computed; write one of owner, viewer",
		"document:1#owner@user:*":         "owner does not admit user:*; expected user",
		"document:1#viewer@document:1":    "viewer does not admit document; expected user, user:*, document#owner",
		"document:1#owner@usr:a":          `the schema has no type "usr" (did you mean "user"?)`,
		"document:1#viewer@document:1#ow": `type document has no relation "ow"`,
		"document:1#owner@user:a with c":  "owner does not admit user with c; expected user",
	} {
		key, condition, _ := strings.Cut(text, " with ")
		tuple, err := rel.Parse(key)
		if err != nil {
			t.Fatal(err)
		}
		tuple.Condition = condition
		if err := eval.Admit(s, &tuple); err == nil || !strings.HasSuffix(err.Error(), ": "+want) {
			t.Errorf("%s: got %v, expected %s", text, err, want)
		}
	}
}
