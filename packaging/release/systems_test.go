package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// TestSystems checks that the program compiles for each system of a release: it checks the
// types of all its packages, without generating code, which takes seconds instead of
// minutes. The bodies of functions of other modules are left out.
func TestSystems(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, system := range []target{{"linux", "arm64"}, {"darwin", "arm64"}, {"windows", "amd64"}} {
		t.Run(system.String(), func(t *testing.T) {
			parse := func(files *token.FileSet, file string, text []byte) (*ast.File, error) {
				f, err := parser.ParseFile(files, file, text, parser.SkipObjectResolution)
				if f != nil && !strings.HasPrefix(file, root) {
					for _, d := range f.Decls {
						if d, ok := d.(*ast.FuncDecl); ok {
							d.Body = nil
						}
					}
				}
				return f, err
			}
			loaded, err := packages.Load(&packages.Config{
				Mode:      packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedDeps | packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesSizes | packages.NeedModule,
				Dir:       root,
				Env:       append(os.Environ(), "GOOS="+system.system, "GOARCH="+system.processor, "GOFLAGS=", "CGO_ENABLED=0"),
				ParseFile: parse,
			}, "./cmd/ostiary", "./cmd/ostiary-bench")
			if err != nil {
				t.Fatal(err)
			}
			checked := 0
			packages.Visit(loaded, nil, func(p *packages.Package) {
				if !strings.HasPrefix(p.PkgPath, "github.com/ostiary/ostiary") {
					return
				}
				checked++
				for _, err := range p.Errors {
					t.Errorf("%s: %s", p.PkgPath, err)
				}
			})
			if checked < 100 {
				t.Errorf("%d packages of the program were checked, expected all", checked)
			}
		})
	}
}
