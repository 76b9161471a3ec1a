package native

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/golden"
)

// TestKinds checks that the table has every kind of error of the library
// exactly once, with a status and a code.
func TestKinds(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "../../errors.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	declared := 0
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(v.Names[0].Name, "Err") {
			declared++
		}
		return true
	})
	seen := map[error]bool{}
	for _, k := range errorKinds {
		if seen[k.kind] || k.status < 400 || k.code == "" {
			t.Errorf("%v: %d %q", k.kind, k.status, k.code)
		}
		seen[k.kind] = true
		if p := describe(&ostiary.Error{Op: "test", Kind: k.kind}); p.status != k.status || p.Code != k.code || p.Message == "" {
			t.Errorf("%v is described as %+v", k.kind, p)
		}
	}
	if declared != len(errorKinds)-1 { // one kind is not the library's
		t.Errorf("the library has %d errorKinds, the table %d", declared, len(errorKinds)-1)
	}
	var table strings.Builder
	for _, k := range errorKinds {
		p := describe(&ostiary.Error{Op: "test", Kind: k.kind, Err: errors.New("the cause")})
		fmt.Fprintf(&table, "%d %s: %s\n", p.status, p.Code, p.Message)
	}
	for _, r := range []*door.Refusal{{Reason: door.TooLarge, Bound: "BodyBytes", Limit: 7}, {Reason: door.ShuttingDown}} {
		p := describe(r)
		fmt.Fprintf(&table, "refusal: %d %s: %s", p.status, p.Code, p.Message)
		if p.Bound != nil {
			fmt.Fprintf(&table, " (%s %d)", p.Bound.Name, p.Bound.Max)
		}
		table.WriteString("\n")
	}
	p := describe(errors.New("the cause"))
	fmt.Fprintf(&table, "other: %d %s: %s\n", p.status, p.Code, p.Message)
	golden.Equal(t, "testdata/kinds.txt", table.String())
	secret := &ostiary.Error{Op: "read", Kind: ostiary.ErrStorage, Err: errors.New("dial tcp 10.0.0.1: password=hunter2")}
	if p := describe(secret); strings.Contains(p.Message, "hunter2") {
		t.Error(p.Message)
	}
}
