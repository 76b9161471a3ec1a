package cli

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/cmd/internal/storetest"
	"github.com/ostiary/ostiary/door/native/client"
	"github.com/ostiary/ostiary/door/openfga/language"
	"github.com/ostiary/ostiary/expr/cel"
	"github.com/ostiary/ostiary/schema"
)

// ModelSource is a model from a file.
type ModelSource struct {
	authz.SchemaSource
	name string
	// text is the DSL, used to find the line of an error. It is nil for other
	// formats.
	text []byte
}

// ReadModel reads the model of a file as ReadModel does, or of the standard input for
// "-": JSON, or the DSL.
func (a *App) ReadModel(name string) (*ModelSource, error) {
	if name != "-" {
		return ReadModel(name)
	}
	text, err := io.ReadAll(io.LimitReader(a.In, language.SourceBytesMax+1))
	if err != nil {
		return nil, err
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, fmt.Errorf("%w: the standard input is empty: expected a model", ErrUsage)
	}
	m := &ModelSource{name: "standard input"}
	return m, m.parse(text, bytes.TrimSpace(text)[0] == '{')
}

// ReadModel reads a model from a ".json" file, from a folder with "fga.mod", from
// "fga.mod" itself, from a ".yaml" file of an exported store or a store test, or
// from any other file as DSL.
func ReadModel(name string) (*ModelSource, error) {
	m := &ModelSource{name: name}
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	dir := ""
	switch {
	case info.IsDir():
		dir = name
	case filepath.Base(name) == language.ModFile:
		dir = filepath.Dir(name)
	}
	if dir != "" {
		m.name, m.Dialect = dir, language.LanguageJSON
		m.Model, m.Source, err = language.ParseModules(os.DirFS(dir))
		return m, m.Locate(err)
	}
	text, err := ReadFile(name, language.SourceBytesMax+1)
	if err != nil {
		return nil, err
	}
	if ext := strings.ToLower(filepath.Ext(name)); ext == ".yaml" || ext == ".yml" {
		return m, m.Locate(m.readStore(text))
	}
	return m, m.parse(text, strings.EqualFold(filepath.Ext(name), ".json"))
}

// parse reads a model in JSON or in the DSL.
func (m *ModelSource) parse(text []byte, isJSON bool) (err error) {
	if isJSON {
		m.Dialect = language.LanguageJSON
		m.Model, m.Source, err = language.ParseJSON(text)
		return m.Locate(err)
	}
	m.Dialect, m.Source, m.text = language.LanguageDSL, text, text
	m.Model, _, err = language.ParseDSL(text)
	return m.Locate(err)
}

// readStore reads the model of an exported store or a store test.
func (m *ModelSource) readStore(text []byte) error {
	file, err := storetest.Parse(text)
	if err != nil {
		return err
	}
	if m.Model, _, err = file.ReadModel(FolderFS(filepath.Dir(m.name))); err != nil {
		return err
	}
	m.Dialect = language.LanguageJSON
	m.Source, err = language.FormatJSON(m.Model)
	return err
}

// ReadFile reads at most limit bytes of a file.
func ReadFile(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit))
}

// Files returns the names of files as they are, and for the name of a folder the files
// that in finds in it.
func Files(names []string, in func(folder string) ([]string, error)) (files []string, err error) {
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			files = append(files, name)
			continue
		}
		found, err := in(name)
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	return files, nil
}

// Locate returns the errors of the model in err with
// their places, one error a line. It returns err if it has none.
func (m *ModelSource) Locate(err error) error {
	var lines []string
	leaves(err, func(e error) {
		switch e := e.(type) {
		case *language.Error:
			at := *e
			at.File, at.Line = "", 0
			file := m.name
			if e.File != "" {
				file = filepath.Join(m.name, e.File)
			}
			lines = append(lines, place(file, e.Line, e.Column)+strings.TrimPrefix(at.Error(), "invalid model: "))
		case *schema.Error:
			line, column := language.Locate(m.text, e.Type, e.Relation, e.Condition)
			lines = append(lines, place(m.name, line, column)+strings.TrimPrefix(e.Error(), "invalid model: "))
		}
	})
	if len(lines) == 0 {
		return err
	}
	return WithText(strings.Join(lines, "\n"), err)
}

// Compile returns the errors of the model that do not depend on a store.
func (m *ModelSource) Compile() error {
	_, err := schema.Compile(m.Model, cel.New(cel.Options{}))
	return m.Locate(err)
}

// LocateRefusal returns the errors of the model in place of err, with which a store
// refused it. It returns err if it finds none.
func (m *ModelSource) LocateRefusal(err error) error {
	if at, ok := errors.AsType[*client.Error](err); !ok || at.Status != http.StatusBadRequest {
		return err
	}
	return cmp.Or(m.Compile(), err)
}

// place formats a position in a file. Line 0 means that the line is unknown.
func place(file string, line, column int) string {
	if line == 0 {
		return file + ": "
	}
	return fmt.Sprintf("%s:%d:%d: ", file, line, column)
}

// leaves calls f for each error in err that is about the model.
func leaves(err error, f func(error)) {
	switch e := err.(type) {
	case nil:
	case *language.Error, *schema.Error:
		f(e)
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			leaves(inner, f)
		}
	default:
		leaves(errors.Unwrap(err), f)
	}
}

// Counts formats the number of types, relations and conditions of a model.
func Counts(m *schema.Model) string {
	relations := 0
	for i := range m.Types {
		relations += len(m.Types[i].Relations)
	}
	return fmt.Sprintf("%s, %s, %s", Plural(len(m.Types), "type"), Plural(relations, "relation"), Plural(len(m.Conditions), "condition"))
}

func Plural(n int, word string) string { return PluralOf(n, word, word+"s") }

func PluralOf(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// FolderFS opens files relative to a folder. Unlike [os.DirFS] it allows files
// outside of the folder, because a test file may name "../model.fga".
type FolderFS string

func (f FolderFS) Open(name string) (fs.File, error) {
	return os.Open(filepath.Join(string(f), filepath.FromSlash(name)))
}
