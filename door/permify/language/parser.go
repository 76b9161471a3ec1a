package language

import (
	"fmt"
	"strings"
)

// Parse parses a text. It checks the syntax only; [Schema.Model] checks the
// rest. An error is an *[Error] for the first mistake. Like the original, Parse
// ignores any text outside of entities and rules.
func Parse(src string) (*Schema, error) {
	if len(src) > sourceBytesMax {
		return nil, &Error{Position{1, 1}, fmt.Sprintf("schema of %d bytes exceeds the maximum of %d", len(src), sourceBytesMax), ErrBound}
	}
	p := &parser{lexer: lexer{src: src, line: 1}, out: &Schema{source: src}}
	p.next()
	p.schema()
	if p.lexer.err != nil && (p.err == nil || before(p.lexer.err.Position, p.err.Position)) {
		p.err = p.lexer.err
	}
	if p.err != nil {
		return nil, p.err
	}
	return p.out, nil
}

// before reports whether a is not after b.
func before(a, b Position) bool { return a.Line < b.Line || a.Line == b.Line && a.Column <= b.Column }

// parseStatement parses one statement of an entity, as a partial write contains
// it. An error is an *[Error].
func parseStatement(src string) (Statement, error) {
	p := &parser{lexer: lexer{src: src, line: 1}}
	p.next()
	p.newlines()
	s := p.statement()
	p.newlines()
	if p.err == nil && p.lexer.err != nil {
		p.err = p.lexer.err
	}
	if p.err == nil && p.token.kind != end {
		p.fail("expected one statement, found %s after it", p.token)
	}
	if p.err != nil {
		return Statement{}, p.err
	}
	return s, nil
}

// parser builds a Schema from tokens, by recursive descent.
type parser struct {
	lexer lexer
	// token is the current token.
	token token
	// last is the offset of the end of the previous token.
	last int
	out  *Schema
	err  *Error
	// operators counts the operators of the current expression.
	operators int
}

// next reads the next token.
func (p *parser) next() {
	p.last = p.token.offset + len(p.token.text)
	p.token = p.lexer.next()
}

// fail records a syntax error at the current token. Only the first error
// counts. After it the parser sees the end of the text.
func (p *parser) fail(format string, args ...any) {
	p.failAt(p.token.position, ErrSyntax, format, args...)
}

// failAt is like fail, with a position and a kind.
func (p *parser) failAt(at Position, kind error, format string, args ...any) {
	if p.err == nil {
		p.err = &Error{at, fmt.Sprintf(format, args...), kind}
	}
	p.token = token{position: p.token.position, offset: p.token.offset}
	p.lexer.offset = len(p.lexer.src)
}

// is reports whether the current token is the given sign or keyword.
func (p *parser) is(text string) bool {
	return (p.token.kind == sign || p.token.kind == keyword) && p.token.text == text
}

// take reads an expected sign or keyword.
func (p *parser) take(text string) bool {
	if !p.is(text) {
		p.fail("expected %q, found %s", text, p.token)
		return false
	}
	p.next()
	return true
}

// name reads a name. what describes it in errors.
func (p *parser) name(what string) (string, Position) {
	t := p.token
	if t.kind != ident {
		p.fail("expected the name of %s, found %s", what, t)
		return "", t.position
	}
	if len(t.text) > nameBytesMax {
		p.failAt(t.position, ErrBound, "name of %d bytes exceeds the maximum of %d", len(t.text), nameBytesMax)
		return "", t.position
	}
	p.next()
	return t.text, t.position
}

func (p *parser) newlines() {
	for p.token.kind == newline {
		p.next()
	}
}

func (p *parser) schema() {
	for p.token.kind != end && p.err == nil {
		switch {
		case p.is("entity"):
			p.entity()
		case p.is("rule"):
			p.rule()
		default:
			p.next()
		}
	}
}

func (p *parser) entity() {
	p.next()
	e := &Entity{}
	e.Name, e.Position = p.name("an entity")
	if !p.take("{") {
		return
	}
	for p.err == nil {
		p.newlines()
		if p.is("}") {
			break
		}
		e.Statements = append(e.Statements, p.statement())
	}
	e.end = p.token.offset
	if p.take("}") {
		p.out.Entities = append(p.out.Entities, e)
	}
}

func (p *parser) statement() Statement {
	s := Statement{begin: p.token.offset}
	switch {
	case p.is("relation"):
		s.Kind = Relation
		p.next()
		s.Name, s.Position = p.name("a relation")
		for p.is("@") || p.err == nil && len(s.Types) == 0 {
			s.Types = append(s.Types, p.typeRef())
		}
	case p.is("attribute"):
		s.Kind = Attribute
		p.next()
		s.Name, s.Position = p.name("an attribute")
		s.Type = p.attributeType()
	case p.is("permission"), p.is("action"):
		s.Kind = Permission
		p.next()
		s.Name, s.Position = p.name("a permission")
		if p.take("=") {
			p.newlines()
			p.operators = 0
			s.Expr = p.expression(0)
		}
	default:
		p.fail("expected a relation, attribute or permission, found %s", p.token)
	}
	s.end = p.last
	return s
}

func (p *parser) typeRef() TypeRef {
	r := TypeRef{Position: p.token.position}
	if !p.take("@") {
		return r
	}
	r.Entity, _ = p.name("an entity")
	if p.err == nil && p.is("#") {
		p.next()
		r.Relation, _ = p.name("a relation")
	}
	return r
}

func (p *parser) attributeType() AttributeType {
	t := p.token
	name, _ := p.name("a type")
	switch AttributeType(name) {
	case "boolean", "string", "integer", "double":
	default:
		p.failAt(t.position, ErrSyntax, "unknown type %q: expected boolean, string, integer or double, optionally followed by []", name)
		return ""
	}
	if p.is("[") {
		p.next()
		p.take("]")
		name += "[]"
	}
	return AttributeType(name)
}

// expression reads operands and the operators between them. depth is the number
// of open parentheses.
func (p *parser) expression(depth int) *Expr {
	left := p.operand(depth)
	for p.err == nil {
		var op Op
		switch {
		case p.is("and"):
			op = And
		case p.is("or"):
			op = Or
		case p.is("not"):
			op = Not
		default:
			return left
		}

		at := p.token.position
		if p.operators++; p.operators > operatorsMax {
			p.failAt(at, ErrBound, "the expression has more than %d operators", operatorsMax)
			return left
		}
		p.next()
		p.newlines()
		left = &Expr{Op: op, Position: at, Left: left, Right: p.operand(depth)}
	}
	return left
}

// operand reads an expression in parentheses, or a leaf.
func (p *parser) operand(depth int) *Expr {
	if p.is("(") {
		if depth++; depth > nestingMax {
			p.failAt(p.token.position, ErrBound, "parentheses are nested deeper than %d levels", nestingMax)
			return nil
		}
		p.next()
		p.newlines()
		e := p.expression(depth)
		p.take(")")
		return e
	}
	if p.is("not") || p.is("and") || p.is("or") {
		p.fail("no prefix parse function for %s found", strings.ToUpper(p.token.text))
		return nil
	}
	e := &Expr{Position: p.token.position}
	name, _ := p.name("a relation, permission, attribute or rule")
	e.Path = []string{name}
	for p.err == nil && p.is(".") {
		p.next()
		name, _ := p.name("a relation, permission or attribute of the related entity")
		e.Path = append(e.Path, name)
	}
	switch {
	case p.err != nil:
	case len(e.Path) > 2:
		p.failAt(e.Position, ErrSyntax, "not supported relation walk")
	case len(e.Path) == 1 && p.is("("):
		p.arguments(e)
	}
	return e
}

// arguments reads the arguments of a call.
func (p *parser) arguments(e *Expr) {
	p.next()
	p.newlines()
	for p.err == nil {
		name, _ := p.name("an attribute")
		e.Args = append(e.Args, name)
		if !p.is(",") {
			break
		}
		p.next()
	}
	p.take(")")
}

func (p *parser) rule() {
	p.next()
	r := &Rule{}
	r.Name, r.Position = p.name("a rule")
	p.take("(")
	for p.err == nil {
		var param Param
		param.Name, param.Position = p.name("a parameter")
		param.Type = p.attributeType()
		r.Params = append(r.Params, param)
		if !p.is(",") {
			break
		}
		p.next()
	}
	p.take(")")
	if p.err != nil {
		return
	}
	if !p.is("{") {
		p.take("{")
		return
	}
	// The body is CEL, which has other tokens, so it is read as text.
	body, at, err := p.lexer.body()
	if err != nil {
		p.failAt(err.Position, err.Kind, "%s", err.Text)
		return
	}
	if body == "" {
		p.failAt(at, ErrSyntax, "empty rule: expected an expression")
		return
	}
	r.Body, r.BodyPosition = body, at
	p.next()
	if p.take("}") {
		p.out.Rules = append(p.out.Rules, r)
	}
}
