//go:build unix

package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
)

// checker checks the types of one package, as it is and with changed files. It is
// not safe for concurrent use.
type checker struct {
	path    string
	fset    *token.FileSet
	imports types.Importer
	// texts are the files of the package, by name.
	texts map[string]string
	// types are the types of the expressions of the package, and uses what its
	// identifiers name, by the file and the offset of the first byte; types also by
	// that of the last one.
	types map[span]types.Type
	uses  map[span]types.Object
	files map[string]*ast.File
	pkg   *types.Package
}

// span is a part of a file. For an identifier, end is 0.
type span struct {
	file       string
	start, end int
}

// newChecker reads the files of p and the types of what they import. It fails if
// the package has an error.
func newChecker(root string, p pkg) (*checker, error) {
	text, err := output(root, "go", "list", "-e", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}", "./"+p.room, "os", "strconv", "sync/atomic")
	if err != nil {
		return nil, err
	}
	exports := map[string]string{}
	for line := range strings.Lines(text) {
		name, file, _ := strings.Cut(strings.TrimSpace(line), "\t")
		exports[name] = file
	}
	open := func(name string) (io.ReadCloser, error) {
		if exports[name] == "" {
			return nil, fmt.Errorf("no export data of %s", name)
		}
		return os.Open(exports[name])
	}
	c := &checker{path: p.room, fset: token.NewFileSet(), texts: map[string]string{},
		types: map[span]types.Type{}, uses: map[span]types.Object{}}
	c.imports = importer.ForCompiler(c.fset, "gc", open)
	for _, name := range p.files {
		text, err := os.ReadFile(filepath.Join(p.dir, name))
		if err != nil {
			return nil, err
		}
		c.texts[name] = string(text)
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}}
	if c.files, c.pkg, err = c.check(nil, info); err != nil {
		return nil, err
	}
	for x, t := range info.Types {
		c.types[c.span(x.Pos(), x.End())] = t.Type
	}
	for x, o := range info.Uses {
		s := c.span(x.Pos(), x.End())
		c.uses[span{s.file, s.start, 0}] = o
	}
	return c, nil
}

func (c *checker) span(from, to token.Pos) span {
	start := c.fset.Position(from)
	return span{start.Filename, start.Offset, start.Offset + int(to-from)}
}

// check parses the package with some files replaced or added, and checks its
// types.
func (c *checker) check(changed map[string]string, info *types.Info) (map[string]*ast.File, *types.Package, error) {
	texts := maps.Clone(c.texts)
	maps.Copy(texts, changed)
	files := map[string]*ast.File{}
	var list []*ast.File
	for name, text := range texts {
		if file := c.files[name]; file != nil && text == c.texts[name] {
			list = append(list, file)
			continue
		}
		file, err := parser.ParseFile(c.fset, name, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, nil, err
		}
		files[name] = file
		list = append(list, file)
	}
	config := types.Config{Importer: c.imports}
	p, err := config.Check(c.path, c.fset, list, info)
	return files, p, err
}

// compiles returns an error if the package does not compile with changed files.
func (c *checker) compiles(changed map[string]string) error {
	_, _, err := c.check(changed, nil)
	return err
}

// errNoName is the error for a type that a file cannot name.
var errNoName = errors.New("the type has no name in the file")

// typeName returns the text of the type of an expression, as the file would write
// it.
func (c *checker) typeName(s span) (string, error) {
	return c.name(s.file, c.types[s])
}

// fieldType returns the text of the type of the field that an identifier names.
func (c *checker) fieldType(file string, offset int) (string, error) {
	field, ok := c.uses[span{file, offset, 0}].(*types.Var)
	if !ok || !field.IsField() {
		return "", errNoName
	}
	return c.name(file, field.Type())
}

func (c *checker) name(file string, t types.Type) (string, error) {
	if t == nil {
		return "", errNoName
	}
	var err error
	text := types.TypeString(types.Default(t), func(p *types.Package) string {
		if p == c.pkg {
			return ""
		}
		for _, i := range c.files[file].Imports {
			if strings.Trim(i.Path.Value, `"`) != p.Path() {
				continue
			}
			if i.Name != nil {
				return i.Name.Name
			}
			return p.Name()
		}
		err = errNoName
		return ""
	})
	return text, err
}
