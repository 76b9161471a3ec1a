package language

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/ostiary/ostiary/schema"
)

// moduleFile is a file of a modular model, as "fga.mod" lists it.
type moduleFile struct {
	name         string
	line, column int // in "fga.mod", counted from 1
	src          []byte
	text         *dslText
}

// ParseModules is the function of that name within these bounds.
func (b Bounds) ParseModules(fsys fs.FS) (*schema.Model, []byte, error) {
	list, err := readBounded(fsys, ModFile, b.sourceBytes())
	if err != nil {
		return nil, nil, err
	}
	files, err := parseModFile(list)
	if err != nil {
		return nil, nil, withFile(err, ModFile)
	}
	if n := len(files); n > filesMax {
		return nil, nil, boundError("files of a modular model", n, filesMax)
	}
	remaining := b.sourceBytes() - len(list)
	for i := range files {
		f := &files[i]
		f.name = path.Clean(f.name)
		if slices.ContainsFunc(files[:i], func(o moduleFile) bool { return o.name == f.name }) {
			return nil, nil, &Error{Kind: ErrSyntax, File: ModFile, Line: f.line, Column: f.column, Text: fmt.Sprintf("file %q is listed twice", f.name)}
		}
		if err := f.read(fsys, remaining); err != nil {
			return nil, nil, err
		}
		remaining -= len(f.src)
	}
	m, err := merge(files)
	if err != nil {
		return nil, nil, err
	}
	return b.finish(m, func(e *Error) {
		for _, f := range files {
			if e.locate(f.src) {
				e.File = f.name
				return
			}
		}
	})
}

// read reads and parses a file of at most bytesMax bytes.
func (f *moduleFile) read(fsys fs.FS, bytesMax int) error {
	text, err := readBounded(fsys, f.name, bytesMax)
	if err != nil {
		return err
	}
	if err := prescanDSL(text, bytesMax); err != nil {
		return withFile(err, f.name)
	}
	f.src = unifyNewlines(text)
	for line := range strings.Lines(string(f.src)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		if !strings.HasPrefix(line, "module ") {
			return &Error{Kind: ErrSyntax, File: f.name, Text: "a file of a modular model begins with its module's name (module …)"}
		}
		break
	}
	f.text, err = parseDSL(string(f.src))
	return withFile(err, f.name)
}

func readBounded(fsys fs.FS, name string, bytesMax int) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, &Error{Kind: ErrFile, File: name, Text: err.Error(), cause: err}
	}
	defer f.Close()
	var buf bytes.Buffer
	n, err := buf.ReadFrom(io.LimitReader(f, int64(bytesMax)+1))
	if err != nil {
		return nil, &Error{Kind: ErrFile, File: name, Text: err.Error(), cause: err}
	}
	if int(n) > bytesMax {
		return nil, withFile(boundError("model text bytes", int(n), bytesMax), name)
	}
	return buf.Bytes(), nil
}

const (
	yamlString     = "!!str"
	yamlSequence   = "!!seq"
	modularVersion = "1.2"
)

// parseModFile reads an "fga.mod": the schema version and the list of files.
func parseModFile(src []byte) ([]moduleFile, error) {
	var mod struct{ Schema, Contents yaml.Node }
	if err := yaml.Unmarshal(src, &mod); err != nil {
		return nil, &Error{Kind: ErrSyntax, Text: clip(err.Error())}
	}
	var errs []error
	fail := func(at *yaml.Node, text string) {
		e := &Error{Kind: ErrSyntax, Line: 1, Column: 1, Text: clip(text)}
		if at != nil {
			e.Line, e.Column = at.Line, at.Column
		}
		errs = append(errs, e)
	}
	switch {
	case mod.Schema.IsZero():
		fail(nil, "missing schema field")
	case mod.Schema.Tag != yamlString:
		fail(&mod.Schema, "unexpected schema type, expected string got value "+mod.Schema.Value)
	case mod.Schema.Value != modularVersion:
		fail(&mod.Schema, "unsupported schema version, fga.mod only supported in version `1.2`")
	}
	var files []moduleFile
	switch {
	case mod.Contents.IsZero():
		fail(nil, "missing contents field")
	case mod.Contents.Tag != yamlSequence:
		fail(&mod.Contents, "unexpected contents type, expected list of strings got value "+mod.Contents.Value)
	default:
		for _, item := range mod.Contents.Content {
			name, why := modulePath(item)
			if why != "" {
				fail(item, why)
			}
			files = append(files, moduleFile{name: name, line: item.Line, column: item.Column})
		}
	}
	if len(errs) > 0 {
		return nil, joinErrors(errs[:min(len(errs), syntaxErrorsMax)])
	}
	return files, nil
}

// modulePath returns the path that an item of "fga.mod" names, or why the item
// is refused.
func modulePath(item *yaml.Node) (name, why string) {
	if item.Tag != yamlString {
		return "", "unexpected contents item type, expected string got value " + item.Value
	}
	name, err := url.QueryUnescape(item.Value)
	if err != nil {
		return "", "failed to decode path: " + item.Value
	}
	name = strings.ReplaceAll(name, `\`, "/")
	switch {
	case strings.Contains(name, "../") || strings.HasPrefix(name, "/"):
		return "", "invalid contents item " + item.Value
	case !strings.HasSuffix(name, fileNameSuffix):
		return "", "contents items should use fga file extension, got " + item.Value
	}
	return name, ""
}

// merge makes one model of the files of a modular one.
func merge(files []moduleFile) (*model, error) {
	m := &merging{out: &model{version: modularVersion, conditions: map[string]*condition{}}, types: map[string]*typeDefinition{}}
	for i := range files {
		m.define(&files[i])
	}
	for i := range files {
		for _, t := range files[i].text.model.types {
			if files[i].text.extensions[t.name] {
				m.extend(&files[i], t)
			}
		}
	}
	if len(m.errs) > 0 {
		return nil, joinErrors(m.errs)
	}
	return m.out, nil
}

type merging struct {
	out   *model
	types map[string]*typeDefinition
	errs  []error
}

// fail adds an error about the line of a file that begins with a keyword and a
// name.
func (m *merging) fail(f *moduleFile, keyword, name, format string, args ...any) {
	if len(m.errs) == syntaxErrorsMax {
		return
	}
	e := &Error{Kind: ErrSyntax, File: f.name, Line: 1, Column: 1, Text: clip(fmt.Sprintf(format, args...))}
	for i, line := range strings.Split(string(f.src), "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), keyword+" "+name) {
			e.Line, e.Column = i+1, max(strings.Index(line, name), 0)+1
			break
		}
	}
	m.errs = append(m.errs, e)
}

// define adds the types and conditions that a file defines.
func (m *merging) define(f *moduleFile) {
	for _, t := range f.text.model.types {
		if f.text.extensions[t.name] {
			continue
		}
		if m.types[t.name] != nil {
			m.fail(f, "type", t.name, "duplicate type definition %s", t.name)
			continue
		}
		t.metadata.source = &sourceInfo{f.name}
		m.types[t.name] = t
		m.out.types = append(m.out.types, t)
	}
	for _, name := range slices.Sorted(maps.Keys(f.text.model.conditions)) {
		c := f.text.model.conditions[name]
		if m.out.conditions[name] != nil {
			m.fail(f, "condition", name, "duplicate condition %s", name)
			continue
		}
		c.metadata.source = &sourceInfo{f.name}
		m.out.conditions[name] = c
	}
}

// extend adds the relations that a file adds to a type of another one.
func (m *merging) extend(f *moduleFile, t *typeDefinition) {
	to := m.types[t.name]
	if to == nil {
		m.fail(f, "extend type", t.name, "extended type %s does not exist", t.name)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(t.relations)) {
		if to.relations[name] != nil {
			m.fail(f, "define", name, "relation %s already exists on type %s", name, t.name)
			continue
		}
		meta := t.metadata.relations[name]
		meta.source = &sourceInfo{f.name}
		to.relations[name], to.metadata.relations[name] = t.relations[name], meta
	}
}

// joinErrors returns the only error, or all of them joined.
func joinErrors(errs []error) error {
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}
