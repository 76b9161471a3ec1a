package function

import (
	"strings"
	"testing"

	"github.com/ostiary/ostiary/internal/workshop/golden"
)

// TestStandard compares the ids and types of all standard functions with a list,
// so that none is lost or changes its type unnoticed.
func TestStandard(t *testing.T) {
	t.Parallel()
	var list strings.Builder
	for f := range Standard().All() {
		list.WriteString(f.ID)
		switch {
		case f.Bind != nil:
			list.WriteString(" higher-order")
		case f.Lazy != nil:
			list.WriteString(" lazy " + f.Signature.String())
		default:
			list.WriteString(" " + f.Signature.String())
		}
		list.WriteByte('\n')
	}
	golden.Equal(t, "testdata/functions.txt", list.String())
}
