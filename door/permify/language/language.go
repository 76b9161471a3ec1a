// Package language reads and prints Permify's schema language: entities with
// relations, attributes and permissions, and rules. Its main type is Schema, a
// text as it was parsed; Model translates it into schema.Model. It keeps the
// language's own meaning: "and", "or" and "not" have one precedence and lean to
// the left, "not" takes two sides, and a newline ends an expression. It never
// evaluates, and never compiles a rule's expression.
package language

import (
	"errors"
	"fmt"
)

// Dialect is schema.Options.Dialect of every model that this package makes,
// and names the language of its text.
const Dialect = "permify"

// Bounds on a text. One more is refused with ErrBound.
const (
	// SourceBytesMax bounds a text.
	SourceBytesMax = 1 << 20
	// NestingMax bounds parentheses in parentheses of an expression.
	NestingMax = 50
	// OperatorsMax bounds the operators of one expression.
	OperatorsMax = 500
	// NameBytesMax bounds a name. (Requests may only use names of up to 64 bytes.)
	NameBytesMax = 254
)

// Kinds of errors, for errors.Is. All of them are *Error.
var (
	// ErrSyntax is a text that is not of the language.
	ErrSyntax = errors.New("syntax error")
	// ErrMeaning is a text that names what is not there, or says a thing twice.
	ErrMeaning = errors.New("schema error")
	// ErrBound is a text beyond a bound of this package.
	ErrBound = errors.New("schema bound passed")
)

// Position is a place in a text. Both begin at 1; Column counts bytes.
type Position struct{ Line, Column int }

// Error is what is wrong with a text, and where.
type Error struct {
	Position
	Text string
	// Kind is ErrSyntax, ErrMeaning or ErrBound.
	Kind error
}

// Error is "line:column: text".
func (e *Error) Error() string { return fmt.Sprintf("%d:%d: %s", e.Line, e.Column, e.Text) }

// Unwrap returns the kind.
func (e *Error) Unwrap() error { return e.Kind }

// Schema is a text, parsed. It is plain data and not changed by this package.
type Schema struct {
	Entities []*Entity
	Rules    []*Rule
	source   string
}

// Entity is a type of things, with its statements in the order of the text.
type Entity struct {
	Name string
	Position
	Statements []Statement
	// begin and end are the offsets of what stands between the braces.
	begin, end int
}

// Statement is one line of an entity. Exactly one of Types, Type and Expr is
// set, as Kind says.
type Statement struct {
	Kind StatementKind
	Name string
	Position
	// Types are a relation's.
	Types []TypeRef
	// Type is an attribute's.
	Type AttributeType
	// Expr is a permission's.
	Expr *Expr
	// begin and end are the offsets of the whole statement.
	begin, end int
}

// StatementKind says what a statement is.
type StatementKind uint8

const (
	Relation StatementKind = iota + 1
	Attribute
	// Permission is also written "action".
	Permission
)

func (k StatementKind) String() string {
	return [...]string{"statement", "relation", "attribute", "permission"}[min(k, Permission)]
}

// TypeRef is what a relation may name: "@entity" or "@entity#relation".
type TypeRef struct {
	Entity, Relation string
	Position
}

// AttributeType is one of the eight types: "boolean", "string", "integer",
// "double", and each with "[]" behind.
type AttributeType string

// Op is an operator of an expression.
type Op uint8

const (
	// Leaf is a name, "relation.name", or a call of a rule.
	Leaf Op = iota
	And
	Or
	// Not is the left side without the right one.
	Not
)

func (o Op) String() string { return [...]string{"leaf", "and", "or", "not"}[min(o, Not)] }

// Expr is an expression: a leaf, or two sides and an operator between.
type Expr struct {
	Op Op
	Position
	Left, Right *Expr
	// Path is a leaf's one or two names; for a call, the rule's.
	Path []string
	// Args are a call's arguments; nil for any other leaf.
	Args []string
}

// Rule is a named expression over parameters and the question's context.
type Rule struct {
	Name string
	Position
	Params []Param
	// Body is the expression's text, without white space around it.
	Body string
	// BodyPosition is where Body begins.
	BodyPosition Position
}

// Param is a rule's parameter.
type Param struct {
	Name string
	Type AttributeType
	Position
}

// Entity returns the entity of that name, or nil.
func (s *Schema) Entity(name string) *Entity {
	for _, e := range s.Entities {
		if e.Name == name {
			return e
		}
	}
	return nil
}

// Rule returns the rule of that name, or nil.
func (s *Schema) Rule(name string) *Rule {
	for _, r := range s.Rules {
		if r.Name == name {
			return r
		}
	}
	return nil
}

// Statement returns the entity's statement of that name, or nil.
func (e *Entity) Statement(name string) *Statement {
	for i := range e.Statements {
		if e.Statements[i].Name == name {
			return &e.Statements[i]
		}
	}
	return nil
}
