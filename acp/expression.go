package acp

import (
	"fmt"
	"strings"
)

// exprOp is what an expression's node is.
type exprOp uint8

const (
	exprNobody    exprOp = iota // the empty expression, and _this in a permission
	exprName                    // a relation or permission of the same resource
	exprArrow                   // name->target
	exprUnion                   // +
	exprExclude                 // -
	exprIntersect               // &
)

// expression is a permission's expression as its author wrote it.
type expression struct {
	op           exprOp
	name, target string
	left, right  *expression
	column       int // of name, from 0
}

const (
	// exprDepthMax bounds parentheses in parentheses, and operators in a row but
	// for those that take their operands together.
	exprDepthMax = 90
	// operandsMax bounds operators in a row.
	operandsMax = 900
)

// exprError is what is wrong in an expression, at a byte from 0.
type exprError struct {
	at   int
	text string
}

func (e *exprError) Error() string { return e.text }

// parseExpression reads
//
//	expr = [ term { ("+" | "-" | "&") term } ]
//	term = name | name "->" name | "(" expr ")"
//
// without precedence, from the left, with blanks and tabs between. Names begin
// with a letter; the map dialect also knows names that begin with "_", and no
// empty expression.
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
		p.fail("unexpected %q behind the expression", p.token)
	}
	if p.err != nil {
		return nil, p.err
	}
	return e, nil
}

type exprParser struct {
	text  string
	maps  bool
	pos   int    // behind token
	at    int    // token's own place
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
		p.fail("a line break in the expression")
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
	levels := 0 // of the expression's tree; unions and intersections in a row are one
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
			p.fail("too many operators in a row")
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
			p.fail("a name is missing at the end")
		} else {
			p.fail("a name is missing before %q", p.token)
		}
		return nil
	}
	e := &expression{op: exprName, name: p.token, column: p.at}
	p.next()
	if p.token == "->" {
		p.next()
		if !p.isName() {
			p.fail("a name is missing behind ->")
			return nil
		}
		e.op, e.target = exprArrow, p.token
		p.next()
	}
	if e.name == "_this" {
		if e.op == exprArrow {
			p.fail("_this stands alone")
			return nil
		}
		return &expression{} // a permission has no relationships of its own
	}
	return e
}

// group reads the rest of what stands in parentheses.
func (p *exprParser) group(depth int) *expression {
	if depth > exprDepthMax {
		p.fail("more than %d parentheses in each other", exprDepthMax)
		return nil
	}
	p.next()
	e := &expression{}
	if p.token != ")" || p.maps {
		e = p.expr(depth)
	}
	if p.err == nil && p.token != ")" {
		p.fail("a parenthesis is not closed")
	}
	p.next()
	return e
}

// walk calls f for every name and arrow.
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

// String prints an expression that parses to the same.
func (e *expression) String() string {
	switch e.op {
	case exprNobody:
		return "()"
	case exprName:
		return e.name
	case exprArrow:
		return e.name + "->" + e.target
	}
	sign := map[exprOp]string{exprUnion: " + ", exprExclude: " - ", exprIntersect: " & "}[e.op]
	right := e.right.String()
	if e.right.op >= exprUnion {
		right = "(" + right + ")"
	}
	return e.left.String() + sign + right
}

// ownerStays says whether an expression grants to the owner whatever the
// relationships are.
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
