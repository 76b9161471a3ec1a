package acp

import (
	"errors"
	"testing"

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
		{"a +", ""}, {"+ a", ""}, {"a b", ""}, {"a)", ""}, {"1a", ""}, {"a-b", "a - b"}, {"_a", ""},
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
