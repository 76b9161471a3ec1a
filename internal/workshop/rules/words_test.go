package rules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// TestPublicWords checks that no exported name of a package for callers is an alias of
// something internal: "go doc" would show neither its fields nor its methods to a
// caller who has to name it.
func TestPublicWords(t *testing.T) {
	aliases := 0
	sources(t, func(room, file string) {
		if strings.HasPrefix(room, "internal/") || room == "bench" || strings.HasSuffix(file, "_test.go") {
			return
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		internal := map[string]bool{}
		for _, spec := range parsed.Imports {
			path := strings.Trim(spec.Path.Value, `"`)
			if strings.HasPrefix(path, module+"/internal/") {
				internal[path[strings.LastIndex(path, "/")+1:]] = true
			}
		}
		for _, declaration := range parsed.Decls {
			group, ok := declaration.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range group.Specs {
				for name, value := range renamed(spec) {
					aliases++
					if internal[value.Name] && ast.IsExported(name) && parsed.Name.Name != "main" {
						t.Errorf("%s: %s has the type or the value of internal package %s: declare it in a public package", file, name, value.Name)
					}
				}
			}
		}
	})
	if aliases < 100 {
		t.Errorf("found %d aliases and renamed values, expected at least 100", aliases)
	}
}

// renamed yields the names that a declaration gives to names of other packages, with
// the package.
func renamed(spec ast.Spec) map[string]*ast.Ident {
	out := map[string]*ast.Ident{}
	add := func(name string, x ast.Expr) {
		if selector, ok := x.(*ast.SelectorExpr); ok {
			if of, ok := selector.X.(*ast.Ident); ok {
				out[name] = of
			}
		}
	}
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
	return out
}
