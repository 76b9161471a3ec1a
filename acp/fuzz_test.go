package acp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/schema"
)

// FuzzPolicy: any text is survived; what is accepted compiles, and each of its
// expressions is printed as it is read.
func FuzzPolicy(f *testing.F) {
	f.Add("name: p\nresources:\n- name: d\n  relations: [{name: r, types: [actor, d, d->r]}]\n  permissions: [{name: q, expr: (r - r->q) & q}]\n")
	f.Add(`{"name":"p","resources":{"d":{"relations":{"owner":{"types":["actor"]}},"permissions":{"q":{"expr":"owner + _this"}}}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePolicy(text, DialectAuto)
		if err != nil {
			return
		}
		if _, err := schema.Compile(p.model(p.ID(1)), nil); err != nil && !errors.Is(err, schema.ErrBound) {
			t.Errorf("%q: %v", text, err)
		}
		for _, r := range p.Resources {
			for _, x := range r.Permissions {
				again, err := parseExpression(x.parsed.String(), DialectList)
				if err != nil || again.String() != x.parsed.String() {
					t.Errorf("%q: %q: %v", x.Expression, x.parsed, err)
				}
			}
		}
	})
}

// TestExpressions: from the left, without precedence.
func TestExpressions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{"a + b & c - d", "a + b & c - d"},
		{"a + (b & c)", "a + (b & c)"},
		{"((a))->b", ""},
		{" a\t+ b->c ", "a + b->c"},
		{"", "()"}, {"()", "()"}, {"a + ()", "a + ()"},
		{"a -> b", "a->b"}, {"a - b", "a - b"}, {"a->b->c", ""},
		{"a +", ""}, {"a->", ""}, {"a-> + b", ""}, {"_this->a", ""}, {"a ? b", ""}, {"a ?", ""}, {"?", ""}, {"+ a", ""}, {"a b", ""}, {"a)", ""}, {"1a", ""}, {"a-b", "a - b"}, {"_a", ""},
	} {
		e, err := parseExpression(c.text, DialectList)
		switch {
		case err != nil && c.want != "":
			t.Errorf("%q: %v", c.text, err)
		case err == nil && e.String() != c.want:
			t.Errorf("%q: %q, want %q", c.text, e, c.want)
		}
	}
}

// TestStampKeys tests the keys of the data that is kept for a registration: two
// objects never have the same key, even if their resources and ids form the same
// text when joined.
func TestStampKeys(t *testing.T) {
	t.Parallel()
	seen := map[string]Object{}
	for _, r := range []string{"", "d", "do", "doc", "docs", "\x01", "\x02d"} {
		for _, id := range []string{"1", "s1", "c1", "\x011", "ocs1"} {
			o := Object{"p", r, id}
			if old, ok := seen[stampKey(o, o.ID)]; ok {
				t.Errorf("%q and %q", old, o)
			}
			seen[stampKey(o, o.ID)] = o
		}
	}
}

// TestDeletedPolicyLeavesNothing deletes a policy with an object that has a
// registration time of its own. No document of the policy remains.
func TestDeletedPolicyLeavesNothing(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	e, err := Open(ctx, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	const did = "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK"
	policy, err := e.AddPolicy(ctx, did, "name: p\nresources:\n- name: note\n")
	if err != nil {
		t.Fatal(err)
	}
	o := Object{policy, "note", "1"}
	if err := e.Root().RevealRegistration(ctx, did, o, time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)); err != nil {
		t.Fatal(err)
	}
	s, err := e.Store()
	if err != nil {
		t.Fatal(err)
	}
	keys := []authz.DocumentKey{{Kind: policyKind, Key: policy}, {Kind: registrationKind, Key: stampKey(o, o.ID)}}
	for _, k := range keys {
		if _, err := s.Document(ctx, k); err != nil {
			t.Errorf("%s: %v", k.Kind, err)
		}
	}
	if err := e.DeletePolicy(ctx, did, policy); err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		if d, err := s.Document(ctx, k); !errors.Is(err, authz.ErrNoDocument) {
			t.Errorf("%s after the policy was deleted: %v, %v", k.Kind, d, err)
		}
	}
}

// TestAccessText compares the texts of Access; a value that does not exist is public
// like the last one, never a panic.
func TestAccessText(t *testing.T) {
	t.Parallel()
	for a, want := range map[Access]string{Deny: "deny", Allow: "allow", Public: "public", 3: "public"} {
		if a.String() != want {
			t.Errorf("%d: %s", a, a)
		}
	}
}

// TestRecordVersion reads records of policies: a record of another version, or one that
// is no JSON, is an error that names the policy.
func TestRecordVersion(t *testing.T) {
	t.Parallel()
	for body, ok := range map[string]bool{
		fmt.Sprintf(`{"version":%d,"dialect":1,"source":"name: p"}`, recordVersion):   true,
		fmt.Sprintf(`{"version":%d,"dialect":1,"source":"["}`, recordVersion):         false,
		fmt.Sprintf(`{"version":%d,"dialect":1,"source":"name: p"}`, recordVersion+1): false,
		`{"dialect":1,"source":"name: p"}`:                                            false,
		`[`:                                                                           false,
	} {
		var r *PolicyRecord
		x, err := readRecord("the-id", []byte(body))
		if err == nil {
			r, err = x.parse("the-id")
		}
		if (err == nil) != ok || ok && r.Name != "p" || !ok && (!errors.Is(err, ErrInternal) || !strings.Contains(err.Error(), "policy the-id")) {
			t.Errorf("%s: %+v, %v", body, r, err)
		}
	}
}
