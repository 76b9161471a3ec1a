package pdp

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/value"
)

const (
	// infixBytesMax is the largest length of an expression in the infix form.
	infixBytesMax = 10_000
	// infixDepthMax is how deep such an expression may be nested.
	infixDepthMax = 100
)

// infix reads the infix form of a condition, for example
// "(used - 0.5 * double(base)) / total * 100 >= 30": a comparison of two numbers
// with <, <=, >, >= or ==. All numbers are doubles. A name is a parameter of the type
// double; double(name) is one of the type integer, and integer(x) cuts the fraction
// of a number off.
type infix struct {
	text  string
	next  string // the token that is read next; "" at the end
	i     int    // what follows it
	depth int
}

// comparisons and operations are the functions of the operators, without the prefix
// of their ids.
var (
	comparisons = map[string]string{"<": "double-less-than", "<=": "double-less-than-or-equal", ">": "double-greater-than",
		">=": "double-greater-than-or-equal", "==": "double-equal"}
	operations = map[string]string{"+": "double-add", "-": "double-subtract", "*": "double-multiply", "/": "double-divide"}
)

// parseInfix returns the condition that a text expresses.
func parseInfix(text string) (policy.Expression, error) {
	if len(text) > infixBytesMax {
		return nil, fmt.Errorf("expr has %d bytes: expected at most %d", len(text), infixBytesMax)
	}
	p := &infix{text: text}
	p.scan()
	left, err := p.sum()
	if err != nil {
		return nil, err
	}
	f, ok := comparisons[p.next]
	if !ok {
		return nil, p.unexpected("<, <=, >, >= or ==")
	}
	p.scan()
	right, err := p.sum()
	if err != nil {
		return nil, err
	}
	if p.next != "" {
		return nil, p.unexpected("the end of expr")
	}
	return apply(functions1+f, left, right), nil
}

// unexpected returns the error of the next token.
func (p *infix) unexpected(expected string) error {
	if p.next == "" {
		return fmt.Errorf("unexpected end of expr: expected %s", expected)
	}
	return fmt.Errorf("unexpected %.40q in expr: expected %s", p.next, expected)
}

// scan reads the next token: a sign, or the longest text of letters, digits, dots
// and underscores.
func (p *infix) scan() {
	p.i += len(p.text[p.i:]) - len(strings.TrimLeftFunc(p.text[p.i:], unicode.IsSpace))
	rest := p.text[p.i:]
	length := strings.IndexFunc(rest, func(c rune) bool { return !isNameRune(c) })
	switch {
	case rest == "":
		length = 0
	case length < 0:
		length = len(rest)
	case length == 0:
		_, length = utf8.DecodeRuneInString(rest)
		if strings.ContainsAny(rest[:1], "<>=!") && strings.HasPrefix(rest[1:], "=") {
			length = 2
		}
	}
	p.next = rest[:length]
	p.i += length
}

func isNameRune(c rune) bool {
	return c == '_' || c == '.' || unicode.IsLetter(c) || unicode.IsDigit(c)
}

// sum reads products with + or - between them.
func (p *infix) sum() (policy.Expression, error) { return p.chain("+-", p.product) }

// product reads operands with * or / between them.
func (p *infix) product() (policy.Expression, error) { return p.chain("*/", p.operand) }

// chain reads operands with one of two signs between them, from left to right.
func (p *infix) chain(signs string, operand func() (policy.Expression, error)) (policy.Expression, error) {
	left, err := operand()
	for n := 0; err == nil && p.next != "" && strings.Contains(signs, p.next); n++ {
		if n >= infixDepthMax {
			return nil, fmt.Errorf("expr has more than %d operators in a row", infixDepthMax)
		}
		f := operations[p.next]
		p.scan()
		var right policy.Expression
		if right, err = operand(); err == nil {
			left = apply(functions1+f, left, right)
		}
	}
	return left, err
}

// operand reads a number, a name, a conversion, or an expression in parentheses.
func (p *infix) operand() (policy.Expression, error) {
	token := p.next
	switch {
	case token == "(":
		return p.parentheses()
	case token == "" || !isNameRune([]rune(token)[0]):
		return nil, p.unexpected("a number, a name or (")
	}
	p.scan()
	switch {
	case token == "double" || token == "integer":
		return p.conversion(token)
	case token[0] == '.' || token[0] >= '0' && token[0] <= '9':
		x, err := strconv.ParseFloat(token, 64)
		if err != nil {
			return nil, fmt.Errorf("invalid number %.40q in expr: expected digits with at most one point", token)
		}
		return literal(value.NewDouble(x)), nil
	}
	return parameter(token, value.Double), nil
}

// parentheses reads an expression in parentheses.
func (p *infix) parentheses() (policy.Expression, error) {
	if p.next != "(" {
		return nil, p.unexpected("(")
	}
	if p.depth++; p.depth > infixDepthMax {
		return nil, fmt.Errorf("expr is nested more than %d deep", infixDepthMax)
	}
	defer func() { p.depth-- }()
	p.scan()
	inner, err := p.sum()
	if err != nil {
		return nil, err
	}
	if p.next != ")" {
		return nil, p.unexpected(")")
	}
	p.scan()
	return inner, nil
}

// conversion reads what follows double or integer.
func (p *infix) conversion(to string) (policy.Expression, error) {
	inner, err := p.parentheses()
	if err != nil {
		return nil, err
	}
	if to == "integer" {
		return apply(functions1+"integer-to-double", apply(functions1+"double-to-integer", inner)), nil
	}
	if call, ok := inner.(*policy.Apply); ok && call.Function == functions1+oneAndOnly(value.Double) {
		name := call.Arguments[0].(*policy.Designator)
		whole := *name
		whole.Type = value.Integer
		return apply(functions1+"integer-to-double", apply(functions1+oneAndOnly(value.Integer), &whole)), nil
	}
	return inner, nil
}
