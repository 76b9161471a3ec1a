// Package language reads and prints OpenFGA's authorization models in their
// three forms: the DSL (".fga"), modular models ("fga.mod" and the files that it
// lists) and JSON, schema 1.1 and 1.2. [ParseDSL], [ParseModules] and
// [ParseJSON] return a [schema.Model]; [FormatDSL] and [FormatJSON] go back.
// Errors are of type [*Error] and have the position in the text.
//
// The package refuses what OpenFGA's server refuses in a model, as far as
// [schema.Compile] does not do that already. It never evaluates a relation,
// never compiles a condition, and imports neither gRPC nor protobuf.
package language

import (
	"bytes"
	"cmp"
	"io/fs"

	"github.com/ostiary/ostiary/internal/tool/jsonread"
	"github.com/ostiary/ostiary/schema"
)

// Dialect is the value of [schema.Options].Dialect in every model that this
// package returns.
const Dialect = "openfga"

// The names of the languages of a model's text, for stores that keep the text
// with the model.
const (
	// LanguageDSL is the DSL.
	LanguageDSL = "openfga-dsl"
	// LanguageJSON is the canonical JSON.
	LanguageJSON = "openfga-json"
)

// InlineCondition is the name of the condition whose expression each tuple
// brings along. A model may name it in type restrictions without defining it.
const InlineCondition = "$expression"

// Bounds on texts and models. One more is refused with [ErrBound].
const (
	// SourceBytesMax is the default bound on a model's text in bytes: DSL, JSON, or
	// the files of a modular model together.
	SourceBytesMax = 512 << 10
	// lineBytesMax bounds a line of a DSL text. The parser's time grows with the
	// square of this bound and of the next two.
	lineBytesMax = 64 << 10
	// conditionBytesMax bounds a condition of a DSL text without its comments. (The
	// protocol admits 512 bytes of expression.)
	conditionBytesMax = 3 << 10
	// conditionsMax bounds the conditions of a model, as the protocol does.
	conditionsMax = 25
	// nestingMax bounds parentheses inside parentheses in a DSL text.
	nestingMax = 25
	// nestingWeightMax bounds the weight of consecutive opening parentheses such
	// as "(((" in a DSL text, which cost the parser most. The weight is the sum of
	// the squared depths of all parentheses that directly follow another opening
	// one.
	nestingWeightMax = 20_000
	// jsonNestingMax bounds objects and arrays inside each other in a JSON model.
	jsonNestingMax = 500
	// filesMax bounds the files of a modular model.
	filesMax = 200
	// TypeDepthMax bounds generic parameter types inside each other.
	TypeDepthMax = 5
)

// ModFile is the name of the file that lists the files of a modular model.
const ModFile = "fga.mod"

// Bounds are the limits on models that an OpenFGA server has settings for. The
// zero value holds the server's defaults.
type Bounds struct {
	// Types is the maximum number of types in a model; 0 means 100.
	Types int
	// ModelBytes is the maximum size of a model in the protocol's binary encoding,
	// in bytes; 0 means 256 KiB.
	ModelBytes int
	// SourceBytes is the maximum size of a model's text in bytes; 0 means
	// [SourceBytesMax].
	SourceBytes int
}

// TypesMax returns Types or its default.
func (b Bounds) TypesMax() int { return cmp.Or(max(b.Types, 0), 100) }

// ModelBytesMax returns ModelBytes or its default.
func (b Bounds) ModelBytesMax() int { return cmp.Or(max(b.ModelBytes, 0), 256<<10) }

func (b Bounds) sourceBytes() int { return cmp.Or(max(b.SourceBytes, 0), SourceBytesMax) }

// ParseDSL reads a model in the DSL. It returns the model and its canonical
// JSON: equal models have equal bytes. It fails with an [*Error], or with
// several of them joined; each is also a [schema.ErrModel].
func ParseDSL(src []byte) (*schema.Model, []byte, error) { return Bounds{}.ParseDSL(src) }

// ParseJSON is like [ParseDSL] for a model in JSON. It ignores members that the
// protocol does not know, as OpenFGA does.
func ParseJSON(src []byte) (*schema.Model, []byte, error) { return Bounds{}.ParseJSON(src) }

// ParseModules is like [ParseDSL] for a modular model whose [ModFile] is at the
// root of fsys. It opens no file that the ModFile does not list.
func ParseModules(fsys fs.FS) (*schema.Model, []byte, error) { return Bounds{}.ParseModules(fsys) }

// ParseDSL is like the function [ParseDSL] with these bounds.
func (b Bounds) ParseDSL(src []byte) (*schema.Model, []byte, error) {
	if err := prescanDSL(src, b.sourceBytes()); err != nil {
		return nil, nil, err
	}
	text, err := parseDSL(string(unifyNewlines(src)))
	if err != nil {
		return nil, nil, err
	}
	if text.model.version == "" {
		return nil, nil, &Error{Kind: ErrSyntax, Text: "the text has no model and schema line (a file of a modular model is read through its " + ModFile + ")"}
	}
	return b.finish(text.model, func(e *Error) { e.locate(src) })
}

// ParseJSON is like the function [ParseJSON] with these bounds.
func (b Bounds) ParseJSON(src []byte) (*schema.Model, []byte, error) {
	if most := b.sourceBytes(); len(src) > most {
		return nil, nil, boundError("model text bytes", len(src), most)
	}
	if n := jsonread.Nesting(src, jsonNestingMax); n > jsonNestingMax {
		return nil, nil, boundError("JSON nesting", n, jsonNestingMax)
	}
	m, err := decode(src)
	if err != nil {
		return nil, nil, err
	}
	return b.finish(m, func(*Error) {})
}

// finish translates a model and returns its canonical JSON too. place sets the
// position of an error, where the text is known.
func (b Bounds) finish(m *model, place func(*Error)) (*schema.Model, []byte, error) {
	out, err := b.translate(m)
	if err != nil {
		each(err, place)
		return nil, nil, err
	}
	return out, encode(m), nil
}

// unifyNewlines replaces CR LF by LF, the only line end that the grammar has.
func unifyNewlines(src []byte) []byte { return bytes.ReplaceAll(src, []byte("\r\n"), []byte("\n")) }
