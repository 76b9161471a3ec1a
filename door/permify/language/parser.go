package language

import (
	"fmt"
	"strings"
)

// Parse reads a text. It checks the form alone; Model checks the meaning. An
// error is an *Error, the first one found. As the original does, it passes over
// whatever stands outside of entities and rules.
func Parse(src string) (*Schema, error) {
	if len(src) > SourceBytesMax {
		return nil, &Error{Position{1, 1}, fmt.Sprintf("text of %d bytes, the maximum is %d", len(src), SourceBytesMax), ErrBound}
	}
	p := &parser{lexer: lexer{src: src, line: 1}, out: &Schema{source: src}}
	p.step()
	p.schema()
	if p.lexer.err != nil && (p.err == nil || before(p.lexer.err.Position, p.err.Position)) {
		p.err = p.lexer.err
	}
	if p.err != nil {
		return nil, p.err
	}
	return p.out, nil
}

func before(a, b Position) bool { return a.Line < b.Line || a.Line == b.Line && a.Column <= b.Column }

// ParseStatement reads one statement of an entity: what a partial write brings.
func ParseStatement(src string) (Statement, error) {
	p := &parser{lexer: lexer{src: src, line: 1}, out: &Schema{}}
	p.step()
	p.newlines()
	s := p.statement()
	p.newlines()
	if p.err == nil && p.lexer.err != nil {
		p.err = p.lexer.err
	}
	if p.err == nil && p.now.kind != end {
		p.fail("one statement is expected, and %s follows", p.now)
	}
	if p.err != nil {
		return Statement{}, p.err
	}
	return s, nil
}

type parser struct {
	lexer lexer
	now   token
	// last is the offset behind the token before.
	last int
	out  *Schema
	err  *Error
	// operators counts those of one expression.
	operators int
}

func (p *parser) step() {
	p.last = p.now.offset + len(p.now.text)
	p.now = p.lexer.next()
}

// fail keeps the first error; after it, the parser sees the end.
func (p *parser) fail(format string, args ...any) { p.failAt(p.now.place, ErrSyntax, format, args...) }

func (p *parser) failAt(at Position, kind error, format string, args ...any) {
	if p.err == nil {
		p.err = &Error{at, fmt.Sprintf(format, args...), kind}
	}
	p.now = token{place: p.now.place, offset: p.now.offset}
	p.lexer.offset = len(p.lexer.src)
}

func (p *parser) is(text string) bool {
	return (p.now.kind == sign || p.now.kind == keyword) && p.now.text == text
}

// take steps over an expected sign or keyword.
func (p *parser) take(text string) bool {
	if !p.is(text) {
		p.fail("expected %q, found %s", text, p.now)
		return false
	}
	p.step()
	return true
}

// name steps over a name.
func (p *parser) name(what string) (string, Position) {
	t := p.now
	if t.kind != ident {
		p.fail("expected the name of %s, found %s", what, t)
		return "", t.place
	}
	if len(t.text) > NameBytesMax {
		p.failAt(t.place, ErrBound, "name of %d bytes, the maximum is %d", len(t.text), NameBytesMax)
		return "", t.place
	}
	p.step()
	return t.text, t.place
}

func (p *parser) newlines() {
	for p.now.kind == newline {
		p.step()
	}
}

func (p *parser) schema() {
	for p.now.kind != end && p.err == nil {
		switch {
		case p.is("entity"):
			p.entity()
		case p.is("rule"):
			p.rule()
		default:
			p.step()
		}
	}
}

func (p *parser) entity() {
	p.step()
	e := &Entity{}
	e.Name, e.Position = p.name("an entity")
	e.begin = p.now.offset + 1
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
	e.end = p.now.offset
	if p.take("}") {
		p.out.Entities = append(p.out.Entities, e)
	}
}

func (p *parser) statement() Statement {
	s := Statement{begin: p.now.offset}
	switch {
	case p.is("relation"):
		s.Kind = Relation
		p.step()
		s.Name, s.Position = p.name("a relation")
		for p.is("@") || p.err == nil && len(s.Types) == 0 {
			s.Types = append(s.Types, p.typeRef())
		}
	case p.is("attribute"):
		s.Kind = Attribute
		p.step()
		s.Name, s.Position = p.name("an attribute")
		s.Type = p.attributeType()
	case p.is("permission"), p.is("action"):
		s.Kind = Permission
		p.step()
		s.Name, s.Position = p.name("a permission")
		if p.take("=") {
			p.newlines()
			p.operators = 0
			s.Expr = p.expression(0)
		}
	default:
		p.fail("expected a relation, attribute or permission, found %s", p.now)
	}
	s.end = p.last
	return s
}

func (p *parser) typeRef() TypeRef {
	r := TypeRef{Position: p.now.place}
	if !p.take("@") {
		return r
	}
	r.Entity, _ = p.name("an entity")
	if p.err == nil && p.is("#") {
		p.step()
		r.Relation, _ = p.name("a relation")
	}
	return r
}

func (p *parser) attributeType() AttributeType {
	t := p.now
	name, _ := p.name("a type")
	switch AttributeType(name) {
	case "boolean", "string", "integer", "double":
	default:
		p.failAt(t.place, ErrSyntax, "%q is not a type: it is one of boolean, string, integer and double, with [] or without", name)
		return ""
	}
	if p.is("[") {
		p.step()
		p.take("]")
		name += "[]"
	}
	return AttributeType(name)
}

// expression reads operands with operators between them, leaning to the left.
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
		at := p.now.place
		if p.operators++; p.operators > OperatorsMax {
			p.failAt(at, ErrBound, "an expression of more than %d operators", OperatorsMax)
			return left
		}
		p.step()
		p.newlines()
		left = &Expr{Op: op, Position: at, Left: left, Right: p.operand(depth)}
	}
	return left
}

func (p *parser) operand(depth int) *Expr {
	if p.is("(") {
		if depth++; depth > NestingMax {
			p.failAt(p.now.place, ErrBound, "more than %d parentheses in each other", NestingMax)
			return nil
		}
		p.step()
		p.newlines()
		e := p.expression(depth)
		p.take(")")
		return e
	}
	if p.is("not") || p.is("and") || p.is("or") {
		p.fail("no prefix parse function for %s found", strings.ToUpper(p.now.text))
		return nil
	}
	e := &Expr{Position: p.now.place}
	name, _ := p.name("a relation, permission, attribute or rule")
	e.Path = []string{name}
	for p.err == nil && p.is(".") {
		p.step()
		name, _ := p.name("what is asked of the related entity")
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

func (p *parser) arguments(e *Expr) {
	p.step()
	p.newlines()
	for p.err == nil {
		name, _ := p.name("an attribute")
		e.Args = append(e.Args, name)
		if !p.is(",") {
			break
		}
		p.step()
	}
	p.take(")")
}

func (p *parser) rule() {
	p.step()
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
		p.step()
	}
	p.take(")")
	if p.err != nil {
		return
	}
	if !p.is("{") {
		p.take("{")
		return
	}
	// The body is not of this language's tokens: it is taken as it stands.
	body, at, err := p.lexer.body()
	if err != nil {
		p.failAt(err.Position, err.Kind, "%s", err.Text)
		return
	}
	if body == "" {
		p.failAt(at, ErrSyntax, "the rule is empty")
		return
	}
	r.Body, r.BodyPosition = body, at
	p.step()
	if p.take("}") {
		p.out.Rules = append(p.out.Rules, r)
	}
}
