package rules

import (
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/internal/golden"
)

// TestAliasesListTheirFields checks that the comment of each alias in the root
// package ends with the fields and methods of its type. "go doc" shows neither
// for an alias of a type in an internal package. With OSTIARY_REWRITE=1 it writes them.
func TestAliasesListTheirFields(t *testing.T) {
	// The importer needs the standard library's source, whose place a test binary
	// that was built with -trimpath does not know.
	build.Default.GOROOT = strings.TrimSpace(goTool(t, nil, "env", "GOROOT"))
	files := token.NewFileSet()
	packages, err := parser.ParseDir(files, "../..", func(f os.FileInfo) bool { return !strings.HasSuffix(f.Name(), "_test.go") }, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	parsed := packages["ostiary"]
	var list []*ast.File
	for _, f := range parsed.Files {
		list = append(list, f)
	}
	config := types.Config{Importer: importer.ForCompiler(files, "source", nil)}
	checked, err := config.Check(module, files, list, nil)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for name, f := range parsed.Files {
		edits := map[string]string{}
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || !spec.Assign.IsValid() || !spec.Name.IsExported() || spec.Doc == nil {
				return true
			}
			want := members(checked.Scope().Lookup(spec.Name.Name).Type(), checked.Scope())
			if want == "" {
				return true
			}
			found++
			text := spec.Doc.Text()
			_, got, _ := strings.Cut(text, "\n\nIt has ")
			if got = strings.Join(strings.Fields("It has "+got), " "); got != want {
				edits[spec.Name.Name] = want
				if !golden.Rewrite() {
					t.Errorf("%s: the comment of %s must end with a paragraph: %s", name, spec.Name.Name, want)
				}
			}
			return true
		})
		if golden.Rewrite() && len(edits) > 0 {
			rewriteAliases(t, name, edits)
		}
	}
	if found < 20 {
		t.Errorf("found %d aliases with fields, expected at least 20", found)
	}
}

// members returns a sentence with the exported fields and methods of a type, or
// "" if it has none. An embedded type that the scope lacks is listed by its own
// fields and methods.
func members(typ types.Type, scope *types.Scope) string {
	typ = types.Unalias(typ)
	fields, methods := fieldsOf(typ, scope), []string{}
	for method := range types.NewMethodSet(types.NewPointer(typ)).Methods() {
		if method.Obj().Exported() && (len(method.Index()) == 1 || !promotedByScope(typ, method.Index()[0], scope)) {
			methods = append(methods, method.Obj().Name())
		}
	}
	var parts []string
	if len(fields) > 0 {
		parts = append(parts, "the fields "+strings.Join(fields, ", "))
	}
	if len(methods) > 0 {
		parts = append(parts, "the methods "+strings.Join(methods, ", "))
	}
	if len(parts) == 0 {
		return ""
	}
	return "It has " + strings.Join(parts, ", and ") + "."
}

// fieldsOf returns the exported fields of a struct type.
func fieldsOf(typ types.Type, scope *types.Scope) (fields []string) {
	s, ok := typ.Underlying().(*types.Struct)
	if !ok {
		return nil
	}
	for field := range s.Fields() {
		switch {
		case !field.Exported():
		case !field.Embedded():
			fields = append(fields, field.Name())
		case listed(field, scope):
			fields = append(fields, "those of ["+field.Name()+"]")
		default:
			for _, name := range fieldsOf(field.Type(), scope) {
				if _, index, _ := types.LookupFieldOrMethod(typ, true, field.Pkg(), name); len(index) == 2 {
					fields = append(fields, name) // not hidden by a field of the same name
				}
			}
		}
	}
	return fields
}

// promotedByScope reports whether the field with an index is embedded, and has a
// type that the scope documents itself.
func promotedByScope(typ types.Type, index int, scope *types.Scope) bool {
	s, ok := typ.Underlying().(*types.Struct)
	return ok && listed(s.Field(index), scope)
}

// listed reports whether the scope has the type of an embedded field under its
// own name.
func listed(field *types.Var, scope *types.Scope) bool {
	object := scope.Lookup(field.Name())
	return object != nil && types.Identical(types.Unalias(object.Type()), types.Unalias(field.Type()))
}

// rewriteAliases writes the paragraphs of edits, by alias, into a file.
func rewriteAliases(t *testing.T, name string, edits map[string]string) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(text)) {
		alias, _, ok := strings.Cut(strings.TrimSpace(line), " = ")
		if sentence := edits[alias]; ok && sentence != "" {
			for i := len(out) - 1; i >= 0 && strings.HasPrefix(out[i], "\t//"); i-- {
				if strings.HasPrefix(out[i], "\t// It has ") && i > 0 && out[i-1] == "\t//\n" {
					out = out[:i-1]
					break
				}
			}
			out = append(out, "\t//\n")
			row := "\t//"
			for _, word := range strings.Fields(sentence) {
				if len(row)+1+len(word) > 79 {
					out, row = append(out, row+"\n"), "\t//"
				}
				row += " " + word
			}
			out = append(out, row+"\n")
		}
		out = append(out, line)
	}
	if err := os.WriteFile(filepath.Clean(name), []byte(strings.Join(out, "")), 0o644); err != nil {
		t.Fatal(err)
	}
}
