// Package language parses and formats Permify's schema language: entities with
// relations, attributes and permissions, and rules. Its main type is [Schema],
// a parsed text. [Parse] reads one, [Schema.Model] translates it into a
// [schema.Model], and [Format] translates a model back.
//
// The operators "and", "or" and "not" have the same precedence and associate to
// the left. "not" is a binary operator. A line break ends an expression. The
// package never evaluates, and does not compile the expressions of rules.
package language

import (
	"errors"
	"fmt"
)

// Dialect is the dialect of every model that [Schema.Model] returns. It also
// identifies the language of a stored schema's text.
const Dialect = "permify"

// Bounds of a text. Exceeding one is an error of kind [ErrBound].
const (
	// sourceBytesMax bounds a text, in bytes.
	sourceBytesMax = 1 << 20
	// nestingMax bounds nested parentheses.
	nestingMax = 50
	// operatorsMax bounds the operators of one expression.
	operatorsMax = 500
	// nameBytesMax bounds a name, in bytes. Requests can only use names of up
	// to 64 bytes.
	nameBytesMax = 254
)

// Kinds of errors, for [errors.Is]. Errors of these kinds are of type *[Error].
var (
	// ErrSyntax is the kind of an error in a text's syntax.
	ErrSyntax = errors.New("syntax error")
	// ErrSemantics is the kind of an error about undefined or duplicate names,
	// or about types that do not match.
	ErrSemantics = errors.New("schema error")
	// ErrBound is the kind of an error about a text that exceeds a bound of
	// this package.
	ErrBound = errors.New("schema bound exceeded")
)

// Position is a position in a text. Both numbers start at 1. Column counts
// bytes.
type Position struct{ Line, Column int }

// Error is an error in a text, with its position.
type Error struct {
	// Position is where the error is.
	Position
	// Text describes the error.
	Text string
	// Kind is [ErrSyntax], [ErrSemantics] or [ErrBound], or an error that wraps
	// one of them or comes from the schema compiler.
	Kind error
}

// Error returns "line:column: text".
func (e *Error) Error() string { return fmt.Sprintf("%d:%d: %s", e.Line, e.Column, e.Text) }

// Unwrap returns Kind.
func (e *Error) Unwrap() error { return e.Kind }

// Schema is a parsed text. This package does not change it after Parse.
type Schema struct {
	// Entities and Rules are in the order of the text.
	Entities []*Entity
	Rules    []*Rule
	// source is the text.
	source string
}

// Entity is a type of objects.
type Entity struct {
	// Name is the entity's name.
	Name string
	// Position is the position of the name.
	Position
	// Statements are in the order of the text.
	Statements []Statement
	// end is the offset of the closing brace.
	end int
}

// Statement is one statement of an entity. Kind determines which one of Types,
// Type and Expr is set.
type Statement struct {
	// Kind is the kind of the statement.
	Kind StatementKind
	// Name is the name of the relation, attribute or permission.
	Name string
	// Position is the position of the name.
	Position
	// Types are the subject types of a relation.
	Types []TypeRef
	// Type is the type of an attribute.
	Type AttributeType
	// Expr is a permission's.
	Expr *Expr
	// begin and end are the offsets of the whole statement.
	begin, end int
}

// StatementKind is the kind of a [Statement].
type StatementKind uint8

const (
	// Relation declares a relation and its subject types.
	Relation StatementKind = iota + 1
	// Attribute declares an attribute and its type.
	Attribute
	// Permission defines a permission. The keyword "action" is a synonym.
	Permission
)

// String returns the keyword of the statement.
func (k StatementKind) String() string {
	return [...]string{"statement", "relation", "attribute", "permission"}[min(k, Permission)]
}

// TypeRef is a subject type of a relation: "@entity" or "@entity#relation".
type TypeRef struct {
	// Entity is the type; Relation is "" for the entities themselves.
	Entity, Relation string
	// Position is the position of the "@".
	Position
}

// AttributeType is the type of an attribute: "boolean", "string", "integer" or
// "double", optionally followed by "[]".
type AttributeType string

// Op is an operator of an expression.
type Op uint8

const (
	// Leaf is an expression without an operator: a name, "relation.name", or a
	// call of a rule.
	Leaf Op = iota
	// And requires both operands.
	And
	// Or requires one operand.
	Or
	// Not requires the left operand and not the right one.
	Not
)

// String returns the keyword of the operator.
func (o Op) String() string { return [...]string{"leaf", "and", "or", "not"}[min(o, Not)] }

// Expr is an expression: a leaf, or an operator with two operands.
type Expr struct {
	// Op is Leaf or an operator.
	Op Op
	// Position is the position of the operator or of a leaf's first name.
	Position
	// Left and Right are the operands; nil for a leaf.
	Left, Right *Expr
	// Path holds the names of a leaf: one name, or the two of "relation.name".
	// For a call it holds the rule's name.
	Path []string
	// Args are the arguments of a call; nil for any other expression.
	Args []string
}

// Rule is a named expression over its parameters and the context of the
// request.
type Rule struct {
	// Name is the rule's name.
	Name string
	// Position is the position of the name.
	Position
	// Params are the parameters in their order.
	Params []Param
	// Body is the text of the expression, without surrounding white space.
	Body string
	// BodyPosition is the position of Body in the text.
	BodyPosition Position
}

// Param is a parameter of a rule.
type Param struct {
	// Name is the parameter's name.
	Name string
	// Type is the type of its argument.
	Type AttributeType
	// Position is the position of the name.
	Position
}

// Entity returns the entity with the given name, or nil if the schema has none.
func (s *Schema) Entity(name string) *Entity {
	for _, e := range s.Entities {
		if e.Name == name {
			return e
		}
	}
	return nil
}

// Rule returns the rule with the given name, or nil if the schema has none.
func (s *Schema) Rule(name string) *Rule {
	for _, r := range s.Rules {
		if r.Name == name {
			return r
		}
	}
	return nil
}

// Statement returns the entity's statement with the given name, or nil if the
// entity has none.
func (e *Entity) Statement(name string) *Statement {
	for i := range e.Statements {
		if e.Statements[i].Name == name {
			return &e.Statements[i]
		}
	}
	return nil
}
