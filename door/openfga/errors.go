package openfga

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/ostiary/ostiary/schema"
)

// Kinds of errors, to be found with errors.Is. Each is also a
// schema.ErrModel.
var (
	// ErrSyntax: the text is not a model.
	ErrSyntax = errors.New("syntax error")
	// ErrFile: a file of a modular model cannot be read.
	ErrFile = errors.New("file cannot be read")
	// ErrVersion: a schema version other than 1.1 and 1.2.
	ErrVersion = errors.New("unsupported schema version")
	// ErrBound: a named bound was passed.
	ErrBound = errors.New("bound passed")
	// ErrForm: a name, number or length that the protocol does not allow.
	ErrForm = errors.New("not allowed by the protocol")
	// ErrReserved: a type or relation named "self" or "this".
	ErrReserved = errors.New("reserved name")
	// ErrDuplicate: a type, relation or condition defined twice.
	ErrDuplicate = errors.New("defined twice")
	// ErrRewrite: a rewrite that says nothing, or only itself.
	ErrRewrite = errors.New("invalid rewrite")
	// ErrCycle: relations of a type that are each other by definition.
	ErrCycle = errors.New("relations defined by each other")
	// ErrRestriction: a type restriction that names nothing.
	ErrRestriction = errors.New("invalid type restriction")
	// ErrCondition: a condition whose name or parameters are wrong.
	ErrCondition = errors.New("invalid condition")
	// ErrInexpressible: a schema.Model that this dialect has no words for.
	ErrInexpressible = errors.New("cannot be expressed as an OpenFGA model")
)

// Error is one thing wrong with a model.
type Error struct {
	// Kind is one of this package's kinds.
	Kind error
	// Type, Relation and Condition say where in the model, as far as they apply.
	Type, Relation, Condition string
	// File, Line and Column say where in the text, counted from 1; "" and 0 are
	// unknown.
	File         string
	Line, Column int
	Text         string

	cause error
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("invalid model: ")
	switch {
	case e.File != "" && e.Line > 0:
		fmt.Fprintf(&b, "%s:%d:%d: ", e.File, e.Line, max(e.Column, 1))
	case e.File != "":
		b.WriteString(e.File + ": ")
	case e.Line > 0:
		fmt.Fprintf(&b, "line %d, column %d: ", e.Line, max(e.Column, 1))
	}
	switch {
	case e.Condition != "":
		b.WriteString("condition " + e.Condition + ": ")
	case e.Relation != "":
		b.WriteString(e.Type + "#" + e.Relation + ": ")
	case e.Type != "":
		b.WriteString("type " + e.Type + ": ")
	}
	b.WriteString(e.Kind.Error())
	if e.Text != "" {
		b.WriteString(": " + e.Text)
	}
	return b.String()
}

// Unwrap returns the error's kind, schema.ErrModel (schema.ErrBound for
// ErrBound), and what the error came from.
func (e *Error) Unwrap() []error {
	kinds := []error{e.Kind, schema.ErrModel}
	if e.Kind == ErrBound {
		kinds[1] = schema.ErrBound
	}
	if e.cause != nil {
		kinds = append(kinds, e.cause)
	}
	return kinds
}

func boundError(what string, got, most int) *Error {
	return &Error{Kind: ErrBound, Text: fmt.Sprintf("%d %s, the maximum is %d", got, what, most)}
}

// each calls f for every *Error in err.
func each(err error, f func(*Error)) {
	switch e := err.(type) {
	case *Error:
		f(e)
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			each(inner, f)
		}
	}
}

func withFile(err error, file string) error {
	each(err, func(e *Error) { e.File = file })
	return err
}

func (e *Error) locate(src []byte) bool {
	if e.Line > 0 || e.Type == "" && e.Condition == "" {
		return false
	}
	e.Line, e.Column = Locate(src, e.Type, e.Relation, e.Condition)
	return e.Line > 0
}

// Locate finds where a DSL text defines a relation of a type, a type (relation
// is "") or a condition (typ is ""): the line and column of its name, counted
// from 1, or 0, 0. It serves errors, schema.Error's among them, and so does
// not parse: it looks at the first words of each line.
func Locate(src []byte, typ, relation, condition string) (line, column int) {
	inside := false
	for i, text := range bytes.Split(src, []byte("\n")) {
		words := bytes.Fields(text)
		if len(words) > 0 && string(words[0]) == "extend" {
			words = words[1:]
		}
		if len(words) < 2 {
			continue
		}
		name, _, _ := bytes.Cut(words[1], []byte(":"))
		found := ""
		switch string(words[0]) {
		case "type":
			inside = typ != "" && string(words[1]) == typ
			if inside && relation == "" {
				found = typ
			}
		case "define":
			if inside && relation != "" && string(name) == relation {
				found = relation
			}
		case "condition":
			name, _, _ := bytes.Cut(words[1], []byte("("))
			if typ == "" && string(name) == condition {
				found = condition
			}
		}
		if found != "" {
			keyword := bytes.Index(text, words[0]) + len(words[0])
			return i + 1, keyword + bytes.Index(text[keyword:], []byte(found)) + 1
		}
	}
	return 0, 0
}
