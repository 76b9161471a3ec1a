package rules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// walkFolders are the folders in which a walk of ARCHITECTURE.md names files.
var walkFolders = []string{".", "internal/engine", "internal/cluster"}

var (
	walkFile     = regexp.MustCompile("`([a-z0-9/]+\\.go)`")
	walkFunction = regexp.MustCompile("`([A-Za-z0-9.]+)` in `([a-z0-9/]+\\.go)`")
)

// TestWalks checks that each file that a walk of ARCHITECTURE.md names exists, and that
// it has the function that the walk names with it.
func TestWalks(t *testing.T) {
	t.Parallel()
	section := walk(t, "## Four walks\n")
	if files := walked(t, section); len(files) < 40 {
		t.Errorf("the walks name %d files, expected at least 40", len(files))
	}
	functions := walkFunction.FindAllStringSubmatch(section, -1)
	if len(functions) < 15 {
		t.Errorf("the walks name %d functions with their files, expected at least 15", len(functions))
	}
	for _, found := range functions {
		if file := walkPath(found[2]); file != "" && !declares(t, file, found[1]) {
			t.Errorf("ARCHITECTURE.md: %s has no function %s", file, found[1])
		}
	}
}

// walk returns the section of ARCHITECTURE.md below a heading, up to the next heading
// that is not below it.
func walk(t *testing.T, heading string) string {
	t.Helper()
	page, err := os.ReadFile("../../../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "\n"+heading)
	if !found {
		t.Fatalf("ARCHITECTURE.md has no heading %q", heading)
	}
	level, _, _ := strings.Cut(heading, " ")
	for depth := range len(level) {
		section, _, _ = strings.Cut(section, "\n#"+strings.Repeat("#", depth)+" ")
	}
	return section
}

// walked returns the files that a walk names, with their folders. It fails for one that
// does not exist.
func walked(t *testing.T, section string) (files []string) {
	t.Helper()
	for _, found := range walkFile.FindAllStringSubmatch(section, -1) {
		file := walkPath(found[1])
		if file == "" {
			t.Errorf("ARCHITECTURE.md: a walk names %s, which is in none of the folders %s", found[1], strings.Join(walkFolders, ", "))
		} else if !slices.Contains(files, file) {
			files = append(files, file)
		}
	}
	return files
}

// walkPath returns the path of a file that a walk names, or "".
func walkPath(name string) string {
	for _, folder := range walkFolders {
		if _, err := os.Stat(path.Join("../../..", folder, name)); err == nil {
			return path.Join(folder, name)
		}
	}
	return ""
}

// declares reports whether a file has a function, or a method of a type: "Type.Method".
func declares(t *testing.T, file, name string) bool {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), path.Join("../../..", file), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(parsed.Decls, func(d ast.Decl) bool {
		f, ok := d.(*ast.FuncDecl)
		return ok && functionName(f) == name
	})
}

// functionName returns the name of a function, with the type of a method in front.
func functionName(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	of := f.Recv.List[0].Type
	if pointer, ok := of.(*ast.StarExpr); ok {
		of = pointer.X
	}
	if generic, ok := of.(*ast.IndexExpr); ok {
		of = generic.X
	}
	if name, ok := of.(*ast.Ident); ok {
		return name.Name + "." + f.Name.Name
	}
	return f.Name.Name
}
