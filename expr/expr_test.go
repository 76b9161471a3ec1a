package expr_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/ostiary/ostiary/expr"
)

// TestKinds checks that each kind has a name of its own that is read back, and that
// no other name is read.
func TestKinds(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for k := expr.Any; k <= expr.Map; k++ {
		name := k.String()
		if got, ok := expr.ParseKind(name); seen[name] || !ok || got != k {
			t.Errorf("%d: %q is read as %d, %v", k, name, got, ok)
		}
		seen[name] = true
	}
	for _, k := range []expr.Kind{expr.Map + 1, 255} {
		if got := k.String(); got != "unknown" {
			t.Errorf("%d: %q", k, got)
		}
	}
	for _, name := range []string{"", "unknown", "Any", "int64"} {
		if got, ok := expr.ParseKind(name); ok || got != 0 {
			t.Errorf("%q: %d, %v", name, got, ok)
		}
	}
}

// TestTypes checks the names of types, the negation of results and the errors of
// bounds.
func TestTypes(t *testing.T) {
	t.Parallel()
	text := &expr.Type{Kind: expr.String}
	for want, typ := range map[string]expr.Type{
		"int": {Kind: expr.Int}, "list": {Kind: expr.List}, "list<string>": {Kind: expr.List, Elem: text},
		"map<list<string>>": {Kind: expr.Map, Elem: &expr.Type{Kind: expr.List, Elem: text}},
	} {
		if got := typ.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if expr.True.Not() != expr.False || expr.False.Not() != expr.True || expr.Unknown.Not() != expr.Unknown {
		t.Error("a negation is wrong")
	}
	bound := &expr.BoundError{Bound: expr.BoundCost, Text: "too much"}
	if !errors.Is(bound, expr.ErrCost) || errors.Is(bound, expr.ErrType) || bound.Error() != "too much" {
		t.Error(bound)
	}
}

// TestJSONKind names each kind of value in error texts.
func TestJSONKind(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		value any
		want  string
	}{
		{nil, "null"}, {false, "true or false"}, {"x", "a string"}, {json.Number("1"), "a number"}, {1.5, "a number"}, {1, "a number"}, {int64(1), "a number"}, {uint64(1), "a number"},
		{[]any{}, "a list"}, {map[string]any{}, "an object"}, {time.Duration(1), "a time.Duration"},
	} {
		if got := expr.JSONKind(c.value); got != c.want {
			t.Errorf("%#v: %s, want %s", c.value, got, c.want)
		}
	}
	for k := expr.Any; k <= expr.Map; k++ {
		if form := (expr.Type{Kind: k}).Form(); form == "" {
			t.Errorf("%s has no form", k)
		}
	}
}
