package rules

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/internal/workshop/golden"
)

// TestPublicWords compares the names that a package for callers only gives to names of
// other packages with a golden list: a second name for a word is a choice that each
// reader and writer has to make. None of them may rename something internal, because
// "go doc" would show neither its fields nor its methods to a caller who has to name it.
func TestPublicWords(t *testing.T) {
	var lines []string
	sources(t, func(room, file string) {
		if slices.Contains(strings.Split(room, "/"), "internal") || strings.HasSuffix(file, "_test.go") {
			return
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if parsed.Name.Name == "main" || ast.IsGenerated(parsed) {
			return
		}
		paths := map[string]string{}
		for _, spec := range parsed.Imports {
			imported := strings.Trim(spec.Path.Value, `"`)
			local := path.Base(imported)
			if spec.Name != nil {
				local = spec.Name.Name
			}
			paths[local] = imported
		}
		for _, declared := range parsed.Decls {
			for name, value := range renamed(declared) {
				imported := paths[types.ExprString(value.X)]
				if !ast.IsExported(name) || !strings.HasPrefix(imported, module+"/") {
					continue
				}
				lines = append(lines, fmt.Sprintf("ostiary/%s: %s = %s", strings.TrimPrefix(room, "."), name, types.ExprString(value)))
				if own, found := strings.CutPrefix(imported, module+"/internal/"); found {
					t.Errorf("%s: %s has the type or the value of internal package %s: declare it in a public package", file, name, own)
				}
			}
		}
	})
	slices.Sort(lines)
	golden.Equal(t, "testdata/aliases.txt", fmt.Sprintf("%d names\n%s\n", len(lines), strings.Join(lines, "\n")))
}

// renamed returns the names that a declaration gives to names of other packages: aliases
// of types, constants and variables with their value, and functions that only call one
// with their own parameters.
func renamed(declared ast.Decl) map[string]*ast.SelectorExpr {
	out := map[string]*ast.SelectorExpr{}
	add := func(name string, x ast.Expr) {
		if selector, ok := x.(*ast.SelectorExpr); ok {
			out[name] = selector
		}
	}
	switch d := declared.(type) {
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if spec.Assign.IsValid() {
					add(spec.Name.Name, spec.Type)
				}
			case *ast.ValueSpec:
				for i, value := range spec.Values {
					add(spec.Names[i].Name, value)
				}
			}
		}
	case *ast.FuncDecl:
		if d.Recv != nil || d.Body == nil || len(d.Body.List) != 1 {
			break
		}
		if result, ok := d.Body.List[0].(*ast.ReturnStmt); ok && len(result.Results) == 1 {
			if call, ok := result.Results[0].(*ast.CallExpr); ok && passed(d.Type.Params, call.Args) {
				add(d.Name.Name, call.Fun)
			}
		}
	}
	return out
}

// passed reports whether the arguments of a call are the parameters, in their order.
func passed(parameters *ast.FieldList, arguments []ast.Expr) bool {
	var names []string
	for _, field := range parameters.List {
		for _, name := range field.Names {
			names = append(names, name.Name)
		}
	}
	return slices.EqualFunc(names, arguments, func(name string, argument ast.Expr) bool {
		return name == types.ExprString(argument)
	})
}
