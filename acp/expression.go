package acp

import (
	"fmt"
	"strings"
)

// exprOp is the kind of an expression's node.
type exprOp uint8

const (
	exprNobody    exprOp = iota // the empty expression, and _this in a permission
	exprName                    // a relation or permission of the same resource
	exprArrow                   // name->target
	exprUnion                   // +
	exprExclude                 // -
	exprIntersect               // &
)

// signs are the operators as [expression.String] writes them.
var signs = [...]string{exprUnion: " + ", exprExclude: " - ", exprIntersect: " & "}

// expression is a node of a permission's expression.
type expression struct {
	op           exprOp
	name, target string      // of exprName and exprArrow
	left, right  *expression // of exprUnion, exprExclude and exprIntersect
	column       int         // where name begins, in bytes from 0
}

const (
	// exprDepthMax is the largest depth of nested parentheses, and of the tree that
	// a sequence of operators makes. Unions and intersections in sequence count as
	// one level.
	exprDepthMax = 90
	// operandsMax is the largest number of operators in sequence.
	operandsMax = 900
)

// exprError is a syntax error in an expression.
type exprError struct {
	at   int // the byte, from 0
	text string
}

// parseExpression reads
//
//	expr = [ term { ("+" | "-" | "&") term } ]
//	term = name | name "->" name | "(" expr ")"
//
// All operators have the same precedence and associate to the left. Blanks and
// tabs separate tokens. Names begin with a letter, in the map dialect also with
// "_". The map dialect has no empty expression.
func parseExpression(text string, d Dialect) (*expression, *exprError) {
	p := exprParser{text: text, maps: d == DialectMap}
	p.next()
	if p.err == nil && p.token == "" {
		if p.maps {
			return nil, &exprError{0, "the expression is empty"}
		}
		return &expression{}, nil
	}
	e := p.expr(0)
	if p.err == nil && p.token != "" {
		p.fail("unexpected %q after the expression", p.token)
	}
	if p.err != nil {
		return nil, p.err
	}
	return e, nil
}

type exprParser struct {
	text  string
	maps  bool   // the map dialect
	pos   int    // the end of token
	at    int    // the start of token
	token string // "" at the end
	err   *exprError
}

func (p *exprParser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = &exprError{p.at, fmt.Sprintf(format, args...)}
	}
	p.token, p.pos = "", len(p.text)
}

func letter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }
func digit(c byte) bool  { return '0' <= c && c <= '9' }

// next reads the next token.
func (p *exprParser) next() {
	for p.pos < len(p.text) && (p.text[p.pos] == ' ' || p.text[p.pos] == '\t') {
		p.pos++
	}
	p.at = p.pos
	if p.pos == len(p.text) {
		p.token = ""
		return
	}
	c := p.text[p.pos]
	switch {
	case letter(c) || c == '_' && p.maps:
		for p.pos < len(p.text) && (letter(p.text[p.pos]) || digit(p.text[p.pos]) || p.text[p.pos] == '_') {
			p.pos++
		}
	case strings.HasPrefix(p.text[p.pos:], "->"):
		p.pos += 2
	case strings.IndexByte("+-&()", c) >= 0:
		p.pos++
	case c == '\n' || c == '\r':
		p.fail("unexpected line break in the expression")
		return
	default:
		p.fail("unexpected character %q", []rune(p.text[p.pos:])[0])
		return
	}
	p.token = p.text[p.at:p.pos]
}

func (p *exprParser) isName() bool {
	return p.token != "" && (letter(p.token[0]) || p.token[0] == '_')
}

func (p *exprParser) expr(depth int) *expression {
	e := p.term(depth)
	levels := 0 // the depth of the expression's tree
	for n := 1; p.err == nil; n++ {
		var op exprOp
		switch p.token {
		case "+":
			op = exprUnion
		case "-":
			op = exprExclude
		case "&":
			op = exprIntersect
		default:
			return e
		}
		if op != e.op || op == exprExclude {
			levels++
		}
		if levels > exprDepthMax || n > operandsMax {
			p.fail("too many operators in sequence: expected at most %d, or %d levels", operandsMax, exprDepthMax)
			return nil
		}
		p.next()
		e = &expression{op: op, left: e, right: p.term(depth)}
	}
	return e
}

func (p *exprParser) term(depth int) *expression {
	switch {
	case p.err != nil:
		return nil
	case p.token == "(":
		return p.group(depth + 1)
	case !p.isName():
		if p.token == "" {
			p.fail("expected a name at the end")
		} else {
			p.fail("expected a name before %q", p.token)
		}
		return nil
	}
	e := &expression{op: exprName, name: p.token, column: p.at}
	p.next()
	if p.token == "->" {
		p.next()
		if !p.isName() {
			p.fail("expected a name after ->")
			return nil
		}
		e.op, e.target = exprArrow, p.token
		p.next()
	}
	if e.name == "_this" {
		if e.op == exprArrow {
			p.fail("_this cannot be followed by ->")
			return nil
		}
		return &expression{} // a permission has no direct relationships
	}
	return e
}

// group reads the rest of an expression in parentheses.
func (p *exprParser) group(depth int) *expression {
	if depth > exprDepthMax {
		p.fail("more than %d nested parentheses", exprDepthMax)
		return nil
	}
	p.next()
	e := &expression{}
	if p.token != ")" || p.maps {
		e = p.expr(depth)
	}
	if p.err == nil && p.token != ")" {
		p.fail("expected )")
	}
	p.next()
	return e
}

// walk calls f for each name and each arrow in the expression.
func (e *expression) walk(f func(*expression)) {
	if e == nil {
		return
	}
	if e.op == exprName || e.op == exprArrow {
		f(e)
	}
	e.left.walk(f)
	e.right.walk(f)
}

// String returns a text that parses to the same expression.
func (e *expression) String() string {
	switch e.op {
	case exprNobody:
		return "()"
	case exprName:
		return e.name
	case exprArrow:
		return e.name + "->" + e.target
	}
	right := e.right.String()
	if e.right.op >= exprUnion {
		right = "(" + right + ")"
	}
	return e.left.String() + signs[e.op] + right
}

// ownerStays reports whether an expression always includes the owner, regardless
// of relationships.
func (e *expression) ownerStays() bool {
	switch e.op {
	case exprName:
		return e.name == ownerRelation
	case exprUnion:
		return e.left.ownerStays() || e.right.ownerStays()
	case exprIntersect:
		return e.left.ownerStays() && e.right.ownerStays()
	}
	return false
}
