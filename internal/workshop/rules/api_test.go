package rules

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/internal/workshop/golden"
)

// TestAPI compares what a program outside of the module can import and name with a
// golden list, so that each change of the library's interface shows in a diff. The first
// line counts the names; the fields of structs are listed but not counted.
func TestAPI(t *testing.T) {
	t.Parallel()
	var lines []string
	packages := goTool(t, nil, "list", "-f", `{{if ne .Name "main"}}{{.ImportPath}} {{.Dir}} {{join .GoFiles ","}}{{end}}`, "./...")
	for line := range strings.Lines(packages) {
		fields := strings.Fields(line)
		if len(fields) != 3 || slices.Contains(strings.Split(fields[0], "/"), "internal") {
			continue
		}
		room := strings.TrimPrefix(strings.TrimPrefix(fields[0], module), "/")
		for name := range strings.SplitSeq(fields[2], ",") {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(fields[1], name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, declared := range file.Decls {
				for _, name := range publicNames(declared) {
					lines = append(lines, "ostiary/"+room+": "+name)
				}
			}
		}
	}
	slices.Sort(lines)
	names := len(slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return strings.Contains(line, " struct, ") }))
	golden.Equal(t, "testdata/api.txt", fmt.Sprintf("%d names\n%s\n", names, strings.Join(lines, "\n")))
}

// publicNames returns what a declaration exports, a line each: functions and methods
// with their types, types with their fields and methods, constants and variables.
func publicNames(declared ast.Decl) []string {
	var lines []string
	switch d := declared.(type) {
	case *ast.FuncDecl:
		receiver := ""
		if d.Recv != nil {
			receiver = types.ExprString(d.Recv.List[0].Type)
			if name, _, _ := strings.Cut(strings.TrimPrefix(receiver, "*"), "["); !ast.IsExported(name) {
				return nil
			}
			receiver = "(" + receiver + ") "
		}
		if d.Name.IsExported() {
			lines = append(lines, "func "+receiver+d.Name.Name+parameters(d.Type.TypeParams)+strings.TrimPrefix(types.ExprString(d.Type), "func"))
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.ValueSpec:
				for _, name := range s.Names {
					if name.IsExported() {
						lines = append(lines, d.Tok.String()+" "+name.Name)
					}
				}
			case *ast.TypeSpec:
				if s.Name.IsExported() {
					lines = append(lines, publicType(s)...)
				}
			}
		}
	}
	return lines
}

// publicType returns a type and its exported fields or methods, a line each.
func publicType(s *ast.TypeSpec) []string {
	name := "type " + s.Name.Name + parameters(s.TypeParams)
	var kind string
	var members *ast.FieldList
	switch of := s.Type.(type) {
	case *ast.StructType:
		kind, members = " struct", of.Fields
	case *ast.InterfaceType:
		kind, members = " interface", of.Methods
	default:
		kind, members = " "+types.ExprString(s.Type), &ast.FieldList{}
		if s.Assign.IsValid() {
			kind = " =" + kind
		}
	}
	lines := []string{name + kind}
	for _, member := range members.List {
		text := types.ExprString(member.Type)
		if len(member.Names) == 0 { // embedded
			lines = append(lines, name+kind+", "+text)
		}
		for _, field := range member.Names {
			switch {
			case !field.IsExported():
			case kind == " interface":
				lines = append(lines, name+kind+", "+field.Name+strings.TrimPrefix(text, "func"))
			default:
				lines = append(lines, name+kind+", "+field.Name+" "+text)
			}
		}
	}
	return lines
}

// parameters returns type parameters as Go writes them, or nothing.
func parameters(list *ast.FieldList) string {
	if list == nil {
		return ""
	}
	var texts []string
	for _, field := range list.List {
		for _, name := range field.Names {
			texts = append(texts, name.Name+" "+types.ExprString(field.Type))
		}
	}
	return "[" + strings.Join(texts, ", ") + "]"
}
