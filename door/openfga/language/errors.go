package language

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/ostiary/ostiary/internal/tool/quote"
	"github.com/ostiary/ostiary/schema"
)

// Kinds of errors, for errors.Is. Each error is also a [schema.ErrModel].
var (
	// ErrSyntax is a text that is not a model.
	ErrSyntax = errors.New("syntax error")
	// ErrFile is a file of a modular model that cannot be read.
	ErrFile = errors.New("file cannot be read")
	// ErrVersion is a schema version other than 1.1 and 1.2.
	ErrVersion = errors.New("unsupported schema version")
	// ErrBound is a text or model beyond one of the bounds of this package. It is
	// also a [schema.ErrBound].
	ErrBound = errors.New("bound exceeded")
	// ErrForm is a name, number or length that the protocol does not allow.
	ErrForm = errors.New("not allowed by the protocol")
	// ErrReserved is a type or relation named "self" or "this".
	ErrReserved = errors.New("reserved name")
	// ErrDuplicate is a type that is defined twice.
	ErrDuplicate = errors.New("defined twice")
	// ErrRewrite is a rewrite that is empty or consists of the relation itself.
	ErrRewrite = errors.New("invalid rewrite")
	// ErrCycle is relations of one type that are defined by each other.
	ErrCycle = errors.New("relations defined by each other")
	// ErrRestriction is a type restriction with an empty relation.
	ErrRestriction = errors.New("invalid type restriction")
	// ErrCondition is a condition with a wrong name or wrong parameters.
	ErrCondition = errors.New("invalid condition")
	// ErrInexpressible is a [schema.Model] with a part that OpenFGA's models do not
	// have.
	ErrInexpressible = errors.New("cannot be expressed as an OpenFGA model")
)

// Error is one thing that is wrong with a model.
type Error struct {
	// Kind is one of this package's kinds, such as [ErrSyntax].
	Kind error
	// Type, Relation and Condition name the part of the model, as far as they
	// apply.
	Type, Relation, Condition string
	// File is the file of a modular model, or "".
	File string
	// Line and Column are the position in the text. Both count from 1; 0 means that
	// the position is unknown.
	Line, Column int
	// Text is the detail, and may be "".
	Text string

	cause error
}

// Error returns the position, the part of the model, the kind and the detail.
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

// Unwrap returns the error's kind, [schema.ErrModel] ([schema.ErrBound] for
// [ErrBound]), and the error that caused it, if any.
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

// each calls f for every [*Error] in err.
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

// withFile sets the file of every [*Error] in err.
func withFile(err error, file string) error {
	each(err, func(e *Error) { e.File = file })
	return err
}

// locate sets the error's position, if it is unknown, to the place in src that
// defines the part of the model. It returns false if src does not define it.
func (e *Error) locate(src []byte) bool {
	if e.Line > 0 || e.Type == "" && e.Condition == "" {
		return false
	}
	e.Line, e.Column = Locate(src, e.Type, e.Relation, e.Condition)
	return e.Line > 0
}

// Locate finds the place where a DSL text defines a relation of a type, a type
// (relation is "") or a condition (typ is ""). It returns the line and column of
// the name, counted from 1, or 0, 0 if the text has no such definition. Use it
// to add positions to errors, for example of [schema.Compile]. It looks at the
// first words of each line and does not parse the text.
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

// clip shortens a text for an error, which may quote the whole input. It turns
// no-break spaces into blanks.
func clip(s string) string { return quote.OfForeign(s, 300) }
