package server

import (
	"fmt"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"go/types"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/ostiary/ostiary/internal/workshop/golden"
)

// TestGates prints which gates each kind of request passes, and in which order. A gate that one
// kind has and another one lacks is a dash. OSTIARY_REWRITE=1 writes the file.
func TestGates(t *testing.T) {
	t.Parallel()
	lists := []struct {
		name  string
		gates []gate
	}{
		{"HTTP", routeGates[:]}, {"gRPC", callGates[:]}, {"public gRPC", publicCallGates[:]}, {"message", messageGates[:]},
		{"forwarded HTTP", forwardedRouteGates[:]}, {"forwarded gRPC", forwardedCallGates[:]},
	}
	places := map[string][]string{}
	var names []string
	for i, list := range lists {
		for n, g := range list.gates {
			name := nameOfGate(g)
			if places[name] == nil {
				names = append(names, name)
				places[name] = slices.Repeat([]string{"-"}, len(lists))
			}
			if places[name][i] != "-" {
				t.Errorf("%s: the gate %s comes twice", list.name, name)
			}
			places[name][i] = strconv.Itoa(n + 1)
		}
	}
	var out strings.Builder
	table := tabwriter.NewWriter(&out, 0, 1, 2, ' ', 0)
	fmt.Fprint(table, "gate")
	for _, list := range lists {
		fmt.Fprint(table, "\t", list.name)
	}
	for _, name := range names {
		fmt.Fprint(table, "\n", name, "\t", strings.Join(places[name], "\t"))
	}
	fmt.Fprintln(table)
	table.Flush()
	golden.Equal(t, "testdata/gates.txt", out.String())
	for _, name := range gatesDeclared(t) {
		if places[name] == nil {
			t.Errorf("no kind of request passes the gate %s", name)
		}
	}
}

// nameOfGate returns the name of the method that a gate is.
func nameOfGate(g gate) string {
	full := runtime.FuncForPC(reflect.ValueOf(g).Pointer()).Name()
	return full[strings.LastIndexByte(full, '.')+1:]
}

// gatesDeclared returns the methods in gates.go that could be gates.
func gatesDeclared(t *testing.T) (names []string) {
	t.Helper()
	file, err := parser.ParseFile(gotoken.NewFileSet(), "gates.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if ok && f.Recv != nil && f.Type.Params.NumFields() == 0 && f.Type.Results.NumFields() == 1 &&
			types.ExprString(f.Recv.List[0].Type) == "*passage" && types.ExprString(f.Type.Results.List[0].Type) == "*door.Refusal" {
			names = append(names, f.Name.Name)
		}
	}
	if len(names) == 0 {
		t.Fatal("gates.go declares no gate")
	}
	return names
}
