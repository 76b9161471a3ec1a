package expr_test

import (
	"errors"
	"testing"

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
