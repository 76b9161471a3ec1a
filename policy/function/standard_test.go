package function

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the list of functions")

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
	const file = "testdata/functions.txt"
	if *rewrite {
		if err := os.WriteFile(file, []byte(list.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if list.String() != string(want) {
		t.Errorf("the standard functions differ from %s: compare with go test ./policy/function -run TestStandard -rewrite", file)
	}
}
