package expr_test

import (
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
