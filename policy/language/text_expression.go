package language

import (
	"maps"
	"strings"

	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/internal/literal"
	"github.com/ostiary/ostiary/policy/value"
)

// target reads the clauses of a target: all must match. A clause is a disjunction
// of conjunctions of matches.
func (p *textParser) target() (out policy.Target) {
	if !p.is("clause") {
		p.fail(p.next.offset, "unexpected %v: expected clause", p.next)
	}
	for p.err == nil && p.accept("clause") {
		any := policy.AnyOf{p.allOf()}
		for p.accept("or") {
			any = append(any, p.allOf())
		}
		out = append(out, any)
	}
	return out
}

func (p *textParser) allOf() policy.AllOf {
	all := policy.AllOf{p.match()}
	for p.accept("and") {
		all = append(all, p.match())
	}
	return all
}

// flipped has the operator of a match by the operator between attribute and
// literal, because the literal is the first argument of a match.
var flipped = map[string]string{"==": "==", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

// match reads a match: an attribute, an operator and a literal, or a function of a
// literal and an attribute.
func (p *textParser) match() policy.Match {
	out := policy.Match{Position: p.at(p.next.offset)}
	start := p.next
	name := p.name()
	if p.accept("(") {
		out.Function = p.functionID(start, name)
		out.Literal = p.literal()
		p.expect(",")
		at := p.next
		out.Bag = p.designator(at, p.name())
		p.expect(")")
		return out
	}
	d := p.designator(start, name)
	sign := p.take()
	op := operator{flipped[sign.text], 0}
	if sign.kind != signToken || op.text == "" {
		p.fail(sign.offset, "unexpected %v: expected ==, <, <=, > or >=", sign)
	}
	out.Literal, out.Bag = p.literal(), d
	op.typ = out.Literal.Type()
	out.Function = p.standard.ids[op]
	if out.Function == "" {
		p.fail(sign.offset, "no operator %s for the type %s: expected a call, for example stringEqual(\"a\", resourceId)", sign.text, op.typ)
	}
	return out
}

// designator reads what follows the name of an attribute.
func (p *textParser) designator(at token, name string) *policy.Designator {
	a, ok := p.find(name)
	switch {
	case !ok:
		p.failAttribute(at.offset, name)
	case a.category == "" || a.typ == 0:
		p.fail(at.offset, "the attribute %q has no category or no type: expected both in its declaration", short(name))
	}
	out := &policy.Designator{Category: a.category, ID: a.id, Type: a.typ, Issuer: a.issuer, Position: p.at(at.offset)}
	if p.accept("[") {
		p.expect("mustbepresent")
		out.MustBePresent = true
		p.expect("]")
	}
	return out
}

func (p *textParser) functionID(at token, name string) string {
	if id, ok := p.functions[name]; ok {
		return id
	}
	id, ok := p.standard.functions[name]
	if !ok {
		p.fail(at.offset, "unknown function %q%s: expected a declared name", short(name), meant(name, maps.Keys(p.functions), maps.Keys(p.standard.functions)))
	}
	return id
}

// literal reads a number, true, false, or a text in quotes with its type.
func (p *textParser) literal() value.Value {
	at := p.next
	sign := ""
	if p.accept("-") {
		sign = "-"
	}
	t, text := value.String, p.next.text
	switch {
	case p.next.kind == numberToken && strings.Contains(text, "."):
		t = value.Double
	case p.next.kind == numberToken:
		t = value.Integer
	case sign == "" && (p.is("true") || p.is("false")):
		t = value.Boolean
	case sign != "" || p.next.kind != stringToken:
		p.fail(p.next.offset, "unexpected %v: expected a literal", p.next)
		return value.Value{}
	}
	quoted := p.take().kind == stringToken
	if quoted && p.accept(":") {
		at := p.next
		var ok bool
		if t, ok = literal.ParseType(p.take().text); !ok || t == value.XPathExpression {
			p.fail(at.offset, "unknown data type %v: expected a type of XACML 3.0 other than xpathExpression", at)
			return value.Value{}
		}
	}
	v, err := value.Parse(t, sign+text)
	if err != nil {
		p.fail(at.offset, "%v", err)
	}
	return v
}

// expression reads operands with || between them.
func (p *textParser) expression() policy.Expression {
	p.enter()
	defer p.leave()
	return p.chain("||", p.standard.or, func() policy.Expression {
		return p.chain("&&", p.standard.and, p.comparison)
	})
}

// chain reads operands with a sign between them, which are the arguments of one
// call.
func (p *textParser) chain(sign, function string, operand func() policy.Expression) policy.Expression {
	at := p.next.offset
	first := operand()
	if !p.is(sign) {
		return first
	}
	out := &policy.Apply{Function: function, Arguments: []policy.Expression{first}, Position: p.at(at)}
	for p.err == nil && p.accept(sign) {
		out.Arguments = append(out.Arguments, operand())
	}
	return out
}

// comparison reads one operand, or two with a comparison between them.
func (p *textParser) comparison() policy.Expression {
	at := p.next.offset
	a := p.sum()
	for _, sign := range [...]string{"==", "<", "<=", ">", ">="} {
		if p.is(sign) {
			return p.infix(at, a, p.sum)
		}
	}
	return a
}

func (p *textParser) sum() policy.Expression {
	at := p.next.offset
	a := p.product()
	for n := 0; p.err == nil && (p.is("+") || p.is("-")); n++ {
		p.bound(n)
		a = p.infix(at, a, p.product)
	}
	return a
}

func (p *textParser) product() policy.Expression {
	at := p.next.offset
	a := p.primary()
	for n := 0; p.err == nil && (p.is("*") || p.is("/")); n++ {
		p.bound(n)
		a = p.infix(at, a, p.primary)
	}
	return a
}

// bound stops a sequence of operators, each of which makes the expression deeper.
func (p *textParser) bound(n int) {
	if n >= TextDepthMax {
		p.failBound(p.next.offset, "text depth", TextDepthMax)
	}
}

// infix reads an operator and its second operand. The function follows from the
// type of the operands.
func (p *textParser) infix(at int, a policy.Expression, operand func() policy.Expression) policy.Expression {
	sign := p.take()
	b := operand()
	if p.err != nil {
		return nil
	}
	t := p.shapes.operand(a)
	id := p.standard.ids[operator{sign.text, t}]
	if p.wrongVariables && (t == 0 || p.shapes.operand(b) == 0) {
		p.stop()
		return nil
	}
	if t == 0 || t != p.shapes.operand(b) || id == "" {
		p.fail(sign.offset, "no operator %s for these operands: expected two single values of one type that is known here, or a call of a function", sign.text)
		return nil
	}
	return &policy.Apply{Function: id, Arguments: []policy.Expression{a, b}, Position: p.at(at)}
}

// primary reads a literal, an attribute, a variable, a call, function[name], a
// negation or an expression in parentheses.
func (p *textParser) primary() policy.Expression {
	start := p.next
	switch {
	case p.accept("("):
		e := p.expression()
		p.expect(")")
		return e
	case p.accept("!"):
		p.enter()
		defer p.leave()
		return &policy.Apply{Function: p.standard.not, Arguments: []policy.Expression{p.primary()}, Position: p.at(start.offset)}
	case p.is("function"):
		p.scan()
		p.expect("[")
		at := p.next
		id := p.functionID(at, p.functionName())
		p.expect("]")
		return &policy.FunctionReference{ID: id, Position: p.at(start.offset)}
	case p.next.kind != wordToken || p.is("true") || p.is("false"):
		return &policy.Literal{Value: p.literal(), Position: p.at(start.offset)}
	}
	name := p.functionName()
	if p.accept("(") {
		return p.call(start, name)
	}
	if !isName(name) {
		p.fail(p.next.offset, "unexpected %v after %q: expected (", p.next, name)
	}
	if _, ok := p.find(name); ok {
		return p.designator(start, name)
	}
	if p.err == nil {
		p.pending = append(p.pending, pendingName{name, start.offset})
	}
	return &policy.VariableReference{ID: name, Position: p.at(start.offset)}
}

// functionName takes a name, or the name of the function and, or.
func (p *textParser) functionName() string {
	if p.is("and") || p.is("or") {
		return p.take().text
	}
	return p.name()
}

// call reads the arguments of a function and the closing parenthesis.
func (p *textParser) call(at token, name string) policy.Expression {
	out := &policy.Apply{Function: p.functionID(at, name), Position: p.at(at.offset)}
	for p.err == nil && !p.accept(")") {
		if len(out.Arguments) > 0 {
			p.expect(",")
		}
		out.Arguments = append(out.Arguments, p.expression())
	}
	return out
}
