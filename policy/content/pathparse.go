package content

import (
	"fmt"
	"slices"
	"strconv"
)

// expression is a part of a compiled XPath expression.
type expression interface {
	// evaluate returns a []*Node in document order, string, float64 or bool.
	evaluate(f *focus) (any, error)
}

// pathParser builds an expression from tokens.
type pathParser struct {
	text       string
	tokens     []token
	namespaces map[string]string
	nesting    int
}

func (p *pathParser) peek() token { return p.tokens[0] }

func (p *pathParser) take() token {
	t := p.tokens[0]
	if t.kind != endToken {
		p.tokens = p.tokens[1:]
	}
	return t
}

// skip reads a symbol if it comes next.
func (p *pathParser) skip(symbol string) bool {
	if t := p.peek(); t.kind == symbolToken && t.text == symbol {
		p.take()
		return true
	}
	return false
}

func (p *pathParser) fail(expected string) error {
	return invalidPath(p.text, p.peek().at, expected)
}

// levels are the binary operators, the weakest first (section 3.1 to 3.5).
var levels = [][]string{
	{"or"}, {"and"}, {"=", "!="}, {"<", "<=", ">", ">="}, {"+", "-"}, {"*", "div", "mod"},
}

// expression reads operands with operators of a level or stronger.
func (p *pathParser) expression(level int) (expression, error) {
	if level == 0 {
		if p.nesting++; p.nesting > pathNestingMax {
			return nil, bound("XPath nesting", pathNestingMax)
		}
		defer func() { p.nesting-- }()
	}
	if level == len(levels) {
		return p.unary()
	}
	left, err := p.expression(level + 1)
	for err == nil {
		t := p.peek()
		if t.kind != symbolToken || !slices.Contains(levels[level], t.text) {
			return left, nil
		}
		p.take()
		var right expression
		right, err = p.expression(level + 1)
		left = &binary{operator: t.text, left: left, right: right}
	}
	return nil, err
}

// unary reads "-" any number of times, and a union.
func (p *pathParser) unary() (expression, error) {
	negative, signs := false, false
	for p.skip("-") {
		negative, signs = !negative, true
	}
	e, err := p.union()
	if err == nil && signs {
		e = &negation{of: e, negative: negative}
	}
	return e, err
}

func (p *pathParser) union() (expression, error) {
	first, err := p.path()
	if err != nil || p.peek().text != "|" || p.peek().kind != symbolToken {
		return first, err
	}
	all := &union{parts: []expression{first}}
	for p.skip("|") {
		part, err := p.path()
		if err != nil {
			return nil, err
		}
		all.parts = append(all.parts, part)
	}
	return all, nil
}

// path reads a location path, or a filter expression with an optional path after
// it.
func (p *pathParser) path() (expression, error) {
	result := &location{}
	switch t := p.peek(); {
	case t.kind == symbolToken && (t.text == "/" || t.text == "//"):
		p.take()
		result.absolute = true
		if t.text == "//" {
			result.steps = append(result.steps, everything)
		} else if !p.beginsStep() {
			return result, nil
		}
	case p.beginsStep():
	default:
		start, err := p.filter()
		if err != nil || !p.continues() {
			return start, err
		}
		result.start = start
		p.separator(result)
	}
	for {
		s, err := p.step()
		if err != nil {
			return nil, err
		}
		result.steps = append(result.steps, s)
		if !p.continues() {
			return result, nil
		}
		p.separator(result)
	}
}

// everything is the step that // abbreviates: descendant-or-self::node().
var everything = &step{axis: "descendant-or-self", test: nodeTest{anyNode: true}}

// continues reports whether / or // comes next.
func (p *pathParser) continues() bool {
	t := p.peek()
	return t.kind == symbolToken && (t.text == "/" || t.text == "//")
}

// separator reads / or //.
func (p *pathParser) separator(l *location) {
	if p.take().text == "//" {
		l.steps = append(l.steps, everything)
	}
}

// beginsStep reports whether the next token begins a step.
func (p *pathParser) beginsStep() bool {
	t := p.peek()
	switch t.kind {
	case nameToken, typeToken, axisToken:
		return true
	case symbolToken:
		return t.text == "@" || t.text == "." || t.text == ".."
	}
	return false
}

// step reads a step of a path with its predicates.
func (p *pathParser) step() (*step, error) {
	s := &step{axis: "child"}
	switch t := p.peek(); {
	case p.skip("."):
		return &step{axis: "self", test: nodeTest{anyNode: true}}, nil
	case p.skip(".."):
		return &step{axis: "parent", test: nodeTest{anyNode: true}}, nil
	case p.skip("@"):
		s.axis = "attribute"
	case t.kind == axisToken:
		if _, ok := axes[t.text]; !ok || t.prefix != "" {
			return nil, p.fail("an axis of XPath 1.0 other than namespace")
		}
		s.axis = p.take().text
	}
	if !p.beginsStep() || p.peek().kind != nameToken && p.peek().kind != typeToken {
		return nil, p.fail("a step of a path")
	}
	var err error
	if s.test, err = p.nodeTest(s.axis); err != nil {
		return nil, err
	}
	s.predicates, err = p.predicates()
	return s, err
}

// nodeTest reads a name or a node type.
func (p *pathParser) nodeTest(axis string) (nodeTest, error) {
	t := p.take()
	if t.kind == typeToken {
		return p.typeTest(t.text)
	}
	test := nodeTest{kind: Element, local: t.text, anyName: t.text == "*"}
	if axis == "attribute" {
		test.kind = Attribute
	}
	if t.prefix != "" {
		space, ok := p.namespaces[t.prefix]
		if !ok {
			return nodeTest{}, invalidPath(p.text, t.at, fmt.Sprintf("a declared prefix instead of %q", t.prefix))
		}
		test.space, test.anySpace = space, false
	} else {
		test.anySpace = test.anyName
	}
	return test, nil
}

func (p *pathParser) typeTest(name string) (nodeTest, error) {
	test := nodeTest{anyName: true, anySpace: true}
	p.skip("(")
	switch name {
	case "node":
		test.anyNode = true
	case "text":
		test.kind = Text
	case "comment":
		test.kind = Comment
	case "processing-instruction":
		test.kind = Instruction
		if t := p.peek(); t.kind == literalToken {
			test.local, test.anyName = p.take().text, false
		}
	}
	if !p.skip(")") {
		return nodeTest{}, p.fail("a )")
	}
	return test, nil
}

// predicates reads any number of "[expression]".
func (p *pathParser) predicates() ([]expression, error) {
	var all []expression
	for p.skip("[") {
		e, err := p.expression(0)
		if err != nil {
			return nil, err
		}
		if !p.skip("]") {
			return nil, p.fail("a ]")
		}
		all = append(all, e)
	}
	return all, nil
}

// filter reads a primary expression with its predicates.
func (p *pathParser) filter() (expression, error) {
	e, err := p.primary()
	if err != nil {
		return nil, err
	}
	predicates, err := p.predicates()
	if err != nil || len(predicates) == 0 {
		return e, err
	}
	return &filter{of: e, predicates: predicates}, nil
}

// primary reads a literal, a number, a call, or an expression in parentheses.
func (p *pathParser) primary() (expression, error) {
	switch t := p.peek(); {
	case t.kind == literalToken:
		p.take()
		return constant{t.text}, nil
	case t.kind == numberToken:
		p.take()
		f, err := strconv.ParseFloat(t.text, 64)
		if err != nil {
			return nil, invalidPath(p.text, t.at, "a number")
		}
		return constant{f}, nil
	case t.kind == functionToken:
		return p.call()
	case p.skip("("):
		e, err := p.expression(0)
		if err == nil && !p.skip(")") {
			err = p.fail("a )")
		}
		return e, err
	}
	return nil, p.fail("an expression")
}

// call reads a call of a function.
func (p *pathParser) call() (expression, error) {
	t := p.take()
	f, ok := functions[t.text]
	if !ok || t.prefix != "" {
		return nil, invalidPath(p.text, t.at, fmt.Sprintf("a function of XPath 1.0 instead of %q", t.text))
	}
	c := &call{function: f}
	p.skip("(")
	for !p.skip(")") {
		if len(c.arguments) > 0 && !p.skip(",") {
			return nil, p.fail("a , or )")
		}
		e, err := p.expression(0)
		if err != nil {
			return nil, err
		}
		c.arguments = append(c.arguments, e)
	}
	if n := len(c.arguments); n < f.least || f.most >= 0 && n > f.most {
		return nil, invalidPath(p.text, t.at, fmt.Sprintf("another number of arguments of %s than %d", t.text, n))
	}
	return c, nil
}
