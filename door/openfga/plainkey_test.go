package openfga

import (
	"strings"
	"testing"

	"github.com/ostiary/ostiary/door/openfga/internal/wire"
	"github.com/ostiary/ostiary/schema"
)

// FuzzPlainKey compares plainKey with the parser for all keys: what plainKey accepts
// has the right form and parses to the same key.
func FuzzPlainKey(f *testing.F) {
	s, err := schema.Compile(&schema.Model{Types: []schema.TypeDef{
		{Name: "user"},
		{Name: "group", Relations: []schema.RelationDef{{Name: "member", Rewrite: schema.Direct(),
			Subjects: []schema.SubjectType{{Type: "user"}, {Type: "group", Relation: "member"}}}}},
	}}, nil)
	if err != nil {
		f.Fatal(err)
	}
	for _, user := range []string{"user:anne", "user:*", "user:anne@example.com", "group:1#member", "group:*#member", "group:1#", "a@b:1",
		"user:a:b", "user:", ":a", "user", "#member", "user:#member", "group:1#mem@ber", "group:1#member#member", "user:ä", "user:a\x7f", "nobody:1"} {
		for _, object := range []string{"group:1", "group:*", "group:1#member", "group:a b", "other:1", "group:" + strings.Repeat("x", 250), "group:" + strings.Repeat("x", 251)} {
			f.Add(user, "member", object)
		}
	}
	f.Add("user:a", strings.Repeat("r", 50), "group:1")
	f.Add("user:a", strings.Repeat("r", 51), "group:1")
	f.Add("user:"+strings.Repeat("u", 507), "member", "group:1")
	f.Add("user:"+strings.Repeat("u", 508), "member", "group:1")
	f.Add("user:a", "", "group:1")
	f.Fuzz(func(t *testing.T, user, relation, object string) {
		k := wire.Key{User: user, Relation: relation, Object: object}
		plain, ok := plainKey(&k)
		if !ok {
			return
		}
		if err := checkMessage(&wire.CheckRequest{StoreID: "01ARZ3NDEKTSV4RRFFQ69G5FAV", HasKey: true, Key: k}).ValidateAll(); err != nil {
			t.Errorf("%q is plain: %v", k, err)
		}
		want, wantErr := parseUnusualKey(s, &k)
		err := checkKnown(s, &plain)
		if wantErr != nil {
			if err == nil || err.Error() != wantErr.Error() || err.(*nameError).kind != wantErr.(*nameError).kind {
				t.Errorf("%q: %v, want %v", k, err, wantErr)
			}
		} else if err != nil || plain != want {
			t.Errorf("%q: %v %v, want %v", k, plain, err, want)
		}
	})
}
