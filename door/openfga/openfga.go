// Package openfga is OpenFGA's protocol. New makes its door: the HTTP and gRPC
// API over an engine. Translate turns the protocol's model into schema.Model,
// and ParseDSL, ParseModules and ParseJSON read its texts: the DSL (".fga"),
// modular models ("fga.mod" and its files) and JSON, schema 1.1 and 1.2;
// FormatDSL and FormatJSON go back. It checks what the dialect refuses beyond
// schema.Compile. It never evaluates a relation, never stores anything itself,
// and knows no driver.
package openfga

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"github.com/openfga/language/pkg/go/transformer"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/ostiary/ostiary/schema"
)

// Dialect is schema.Options.Dialect of every model that this package makes.
const Dialect = "openfga"

// LanguageDSL and LanguageJSON name the language of a model's text, for those
// who keep texts.
const (
	LanguageDSL  = "openfga-dsl"
	LanguageJSON = "openfga-json"
)

// Bounds that have no setting. One more is refused with ErrBound.
const (
	// SourceBytesMax bounds a model's text: DSL, JSON, or a modular model's files
	// together.
	SourceBytesMax = 512 << 10
	// LineBytesMax bounds a line of a DSL text, ConditionBytesMax a condition
	// without its comments (the protocol admits 512 bytes of expression), and
	// ConditionsMax their number (the protocol's). The parser's time grows with
	// the square of them.
	LineBytesMax      = 64 << 10
	ConditionBytesMax = 3 << 10
	ConditionsMax     = 25
	// NestingMax bounds parentheses in parentheses of a DSL text. One that opens
	// where another just did costs the parser most: NestingWeightMax bounds the
	// sum of the squares of their depths over the text.
	NestingMax       = 25
	NestingWeightMax = 20_000
	// JSONNestingMax bounds objects and lists in each other in a JSON model.
	JSONNestingMax = 500
	// FilesMax bounds a modular model's files.
	FilesMax = 200
)

// ModFile is the name of the file that lists a modular model's files.
const ModFile = "fga.mod"

// Bounds are the limits that an OpenFGA server has settings for. The zero
// value is the server's defaults.
type Bounds struct {
	// Types is how many types a model may have; 0 is 100.
	Types int
	// ModelBytes bounds the model's size in the protocol's own encoding; 0 is
	// 256 KiB.
	ModelBytes int
}

func (b Bounds) types() int {
	if b.Types > 0 {
		return b.Types
	}
	return 100
}

func (b Bounds) modelBytes() int {
	if b.ModelBytes > 0 {
		return b.ModelBytes
	}
	return 256 << 10
}

// ParseDSL reads a model in the DSL. It returns the model and its JSON form,
// canonical: equal models have equal bytes. Errors are *Error, or several
// joined; each is a schema.ErrModel.
func ParseDSL(src []byte) (*schema.Model, []byte, error) { return Bounds{}.ParseDSL(src) }

// ParseJSON reads a model in JSON, as ParseDSL does. Fields that the protocol
// does not know are ignored, as the original does.
func ParseJSON(src []byte) (*schema.Model, []byte, error) { return Bounds{}.ParseJSON(src) }

// ParseModules reads a modular model whose "fga.mod" stands at fsys's root, as
// ParseDSL does. It opens no file that "fga.mod" does not list.
func ParseModules(fsys fs.FS) (*schema.Model, []byte, error) { return Bounds{}.ParseModules(fsys) }

// Translate translates the protocol's own message, which it does not change
// or keep.
func Translate(m *openfgav1.AuthorizationModel) (*schema.Model, error) {
	return Bounds{}.Translate(m)
}

// ParseDSL is the function of that name within these bounds.
func (b Bounds) ParseDSL(src []byte) (*schema.Model, []byte, error) {
	if err := sourceBounds(src); err != nil {
		return nil, nil, err
	}
	m, err := parse(func() (*openfgav1.AuthorizationModel, error) {
		return transformer.TransformDSLToProto(string(unifyNewlines(src)))
	})
	if err != nil {
		return nil, nil, err
	}
	if m.GetSchemaVersion() == "" {
		return nil, nil, &Error{Kind: ErrSyntax, Text: "the text has no model and schema line (a file of a modular model is read through its " + ModFile + ")"}
	}
	return b.finish(m, func(e *Error) { e.locate(src) })
}

// ParseJSON is the function of that name within these bounds.
func (b Bounds) ParseJSON(src []byte) (*schema.Model, []byte, error) {
	if len(src) > SourceBytesMax {
		return nil, nil, boundError("model text bytes", len(src), SourceBytesMax)
	}
	if n := jsonNesting(src); n > JSONNestingMax {
		return nil, nil, boundError("JSON nesting", n, JSONNestingMax)
	}
	m := &openfgav1.AuthorizationModel{}
	err := protojson.UnmarshalOptions{DiscardUnknown: true, RecursionLimit: JSONNestingMax + 1}.Unmarshal(src, m)
	if err != nil {
		return nil, nil, &Error{Kind: ErrSyntax, Text: clip(err.Error())}
	}
	return b.finish(m, func(*Error) {})
}

// ParseModules is the function of that name within these bounds.
func (b Bounds) ParseModules(fsys fs.FS) (*schema.Model, []byte, error) {
	mod, err := readBounded(fsys, ModFile, SourceBytesMax)
	if err != nil {
		return nil, nil, err
	}
	list, err := transformer.TransformModFile(string(mod))
	if err != nil {
		return nil, nil, withFile(syntaxErrors(err), ModFile)
	}
	if n := len(list.Contents.Value); n > FilesMax {
		return nil, nil, boundError("files of a modular model", n, FilesMax)
	}
	var files []transformer.ModuleFile
	left := SourceBytesMax - len(mod)
	for _, f := range list.Contents.Value {
		name := path.Clean(f.Value)
		if slices.ContainsFunc(files, func(o transformer.ModuleFile) bool { return o.Name == name }) {
			return nil, nil, &Error{Kind: ErrSyntax, File: ModFile, Line: f.Line + 1, Column: f.Column + 1,
				Text: fmt.Sprintf("file %q is listed twice", name)}
		}
		text, err := moduleText(fsys, name, left)
		if err != nil {
			return nil, nil, err
		}
		left -= len(text)
		files = append(files, transformer.ModuleFile{Name: name, Contents: string(text)})
	}
	m, err := parse(func() (*openfgav1.AuthorizationModel, error) {
		return transformer.TransformModuleFilesToModel(files, list.Schema.Value)
	})
	if err != nil {
		return nil, nil, err
	}
	return b.finish(m, func(e *Error) {
		for _, f := range files {
			if e.locate([]byte(f.Contents)) {
				e.File = f.Name
				return
			}
		}
	})
}

// moduleText reads one file of a modular model and checks that it is one.
func moduleText(fsys fs.FS, name string, left int) ([]byte, error) {
	text, err := readBounded(fsys, name, left)
	if err != nil {
		return nil, err
	}
	if err := sourceBounds(text); err != nil {
		return nil, withFile(err, name)
	}
	text = unifyNewlines(text)
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		if !strings.HasPrefix(line, "module ") {
			return nil, &Error{Kind: ErrSyntax, File: name, Text: "a file of a modular model begins with its module's name (module …)"}
		}
		break
	}
	// The library forgets which file a syntax error is in, so each is parsed by
	// itself first.
	_, err = parse(func() (*openfgav1.AuthorizationModel, error) {
		m, _, err := transformer.TransformModularDSLToProto(string(text))
		return m, err
	})
	return text, withFile(err, name)
}

func readBounded(fsys fs.FS, name string, bytesMax int) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, &Error{Kind: ErrFile, File: name, Text: err.Error(), cause: err}
	}
	defer f.Close()
	var buf bytes.Buffer
	n, err := buf.ReadFrom(&limited{f, bytesMax + 1})
	if err != nil {
		return nil, &Error{Kind: ErrFile, File: name, Text: err.Error(), cause: err}
	}
	if int(n) > bytesMax {
		return nil, withFile(boundError("model text bytes", int(n), bytesMax), name)
	}
	return buf.Bytes(), nil
}

// finish translates what a parser gave and makes its canonical JSON. place
// gives an error its line, where the text is known.
func (b Bounds) finish(m *openfgav1.AuthorizationModel, place func(*Error)) (*schema.Model, []byte, error) {
	m.Id = "" // a model's id is no part of it
	out, err := b.Translate(m)
	if err != nil {
		each(err, place)
		return nil, nil, err
	}
	text, err := canonicalJSON(m)
	return out, text, err
}

// canonicalJSON prints a message with the field order of the protocol and
// without blanks.
func canonicalJSON(m proto.Message) ([]byte, error) {
	text, err := protojson.Marshal(m)
	if err != nil {
		return nil, &Error{Kind: ErrSyntax, Text: clip(err.Error()), cause: err}
	}
	var buf bytes.Buffer
	if err := json.Compact(&buf, text); err != nil { // protojson adds random blanks
		return nil, &Error{Kind: ErrSyntax, Text: clip(err.Error()), cause: err}
	}
	return buf.Bytes(), nil
}
