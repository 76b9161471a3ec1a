package language

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/ostiary/ostiary/internal/tool/jsonread"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/function"
	"github.com/ostiary/ostiary/policy/value"
)

// PrintText returns a policy or a policy set in the readable text form, after
// declarations of the attributes and other names that it uses. [ParseText] reads
// an equal tree from it, apart from positions. It fails if the tree has something
// that the text form cannot express, and names it: a selector, an
// xpathExpression, the description of a call, an XPathVersion, an id of a variable
// that is no name, or a variable or an argument that is missing.
func PrintText(e policy.Element) ([]byte, error) {
	p := textPrinter{standard: standardNames(), shown: map[string]string{}, named: map[attribute]string{}, taken: map[string]bool{}, reserved: map[string]bool{}}
	p.reserve(e)
	switch e := e.(type) {
	case *policy.Policy:
		p.policy(e)
	case *policy.PolicySet:
		p.policySet(e)
	default:
		return nil, fmt.Errorf("%T cannot be printed alone: expected a policy or a policy set", e)
	}
	if p.err != nil {
		return nil, p.err
	}
	return append(p.declarations(), p.out...), nil
}

// textPrinter appends statements, and collects the names that they use.
type textPrinter struct {
	out      []byte
	indent   int
	err      error // the first error
	standard *prelude

	order    []string             // declarations in the order of their first use
	shown    map[string]string    // names by kind and identifier
	named    map[attribute]string // names of attributes
	taken    map[string]bool      // names by kind
	reserved map[string]bool      // variables of all policies, which no attribute may be called
	defined  map[string]bool      // variables of the current policy
	shapes   shapes
}

func (p *textPrinter) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("the text form has no "+format, args...)
	}
}

func (p *textPrinter) declarations() []byte {
	if len(p.order) == 0 {
		return nil
	}
	return []byte(strings.Join(p.order, "\n") + "\n\n")
}

// line prints a statement.
func (p *textPrinter) line(format string, args ...any) {
	p.out = append(p.out, strings.Repeat("  ", p.indent)...)
	p.out = append(fmt.Appendf(p.out, format, args...), '\n')
}

// block prints a statement with braces around what inside prints.
func (p *textPrinter) block(head string, inside func()) {
	p.line("%s {", head)
	p.indent++
	inside()
	p.indent--
	p.line("}")
}

// quoted returns a text in quotes.
func (p *textPrinter) quoted(text string) string {
	if !utf8.ValidString(text) {
		p.fail("text that is not UTF-8: %q", short(text))
	}
	return string(jsonread.AppendString(nil, text))
}

// name returns the short name of an identifier, and declares it unless it is one
// of the standard's.
func (p *textPrinter) name(kind, id string, standard map[string]string) string {
	if id == "" {
		p.fail("empty %s", kind)
		return ""
	}
	key := kind + " " + id
	if name, ok := p.shown[key]; ok {
		return name
	}
	name := camel(lastPart(id))
	if standard[name] == id {
		p.shown[key] = name
		return name
	}
	for short, long := range standard {
		if long == id {
			p.shown[key] = short
			return short
		}
	}
	name = p.free(kind, func(name string) bool { return standard[name] != "" }, name, name+versionOf(id))
	p.shown[key] = name
	p.order = append(p.order, fmt.Sprintf("%s %s = %s", kind, name, p.quoted(id)))
	return name
}

// free returns the first of some names of a kind that is not taken, or the first one
// with a number, and takes it.
func (p *textPrinter) free(kind string, taken func(name string) bool, wishes ...string) string {
	if wishes[0] == "" {
		wishes[0] = "_"
	}
	for n := 0; ; n++ {
		name := fmt.Sprintf("%s_%d", wishes[0], n-len(wishes)+2)
		if n < len(wishes) {
			name = wishes[n]
		}
		if !p.taken[kind+" "+name] && isName(name) && !taken(name) {
			p.taken[kind+" "+name] = true
			return name
		}
	}
}

// versionOf returns the version of XACML in an identifier as the end of a name, for
// example "_1_0", or "".
func versionOf(id string) string {
	_, rest, ok := strings.Cut(id, ":xacml:")
	version, _, more := strings.Cut(rest, ":")
	if !ok || !more {
		return ""
	}
	return "_" + strings.ReplaceAll(version, ".", "_")
}

// attribute returns the name of an attribute, and declares it unless it is one of
// the prelude's.
func (p *textPrinter) attribute(a attribute) string {
	if name, ok := p.named[a]; ok {
		return name
	}
	for name, b := range p.standard.attributes {
		if a == b {
			p.named[a] = name
			return name
		}
	}
	name := p.free("attribute", func(name string) bool {
		_, standard := p.standard.attributes[name]
		return standard || p.reserved[name]
	}, p.attributeNames(a)...)
	p.named[a] = name
	text := "attribute " + name + " { "
	if a.category != "" {
		text += "category = " + p.name("category", a.category, p.standard.categories) + " "
	}
	text += "id = " + p.quoted(a.id)
	if a.typ != 0 {
		text += " type = " + a.typ.String()
	}
	if a.issuer != "" {
		text += " issuer = " + p.quoted(a.issuer)
	}
	p.order = append(p.order, text+" }")
	return name
}

// attributeNames returns names for an attribute: the end of its id, also with the
// category before it, with the type behind it, and with both.
func (p *textPrinter) attributeNames(a attribute) []string {
	base, typ := camel(lastPart(a.id)), ""
	if a.typ != 0 {
		typ = upper(camel(a.typ.String()))
	}
	out := []string{base}
	category := ""
	for name, id := range p.standard.categories {
		if id == a.category {
			category = strings.TrimSuffix(name, "Cat")
		}
	}
	if category != "" && !strings.HasPrefix(base, category) {
		out = append(out, category+upper(base), base+typ, category+upper(base)+typ)
	} else {
		out = append(out, base+typ)
	}
	return out
}

// upper returns a name with its first letter in upper case.
func upper(name string) string {
	if name == "" {
		return ""
	}
	return strings.ToUpper(name[:1]) + name[1:]
}

// head returns the beginning of a policy or a policy set. If the end of the id is a
// word of the text form, the name also has the part of the id before it.
func (p *textPrinter) head(kind, id string) string {
	if isName(id) {
		return kind + " " + id
	}
	last := lastPart(id)
	name := camel(last)
	if before := strings.TrimRight(strings.TrimSuffix(id, last), ":/#"); !isName(name) && before != "" {
		name = camel(lastPart(before) + ":" + last)
	}
	if !isName(name) {
		name = kind + "_" + name
	}
	return kind + " " + name + " = " + p.quoted(id)
}

// common prints what policies and policy sets begin with.
func (p *textPrinter) common(h *policy.Header, kind string, rules int) {
	if h.XPathVersion != "" {
		p.fail("XPathVersion %q", short(h.XPathVersion))
	}
	if h.Version == "" {
		p.fail("empty Version")
	}
	if h.Version != "1.0" {
		p.line("version %s", p.quoted(h.Version))
	}
	p.description(h.Description)
	p.line("apply %s", p.name(kind, h.Algorithm, p.standard.algorithms[rules]))
	p.target(h.Target)
}

func (p *textPrinter) description(text string) {
	if text != "" {
		p.line("description %s", p.quoted(text))
	}
}

func (p *textPrinter) policySet(s *policy.PolicySet) {
	p.block(p.head("policyset", s.ID), func() {
		p.common(&s.Header, "policycombinator", 0)
		for _, child := range s.Children {
			switch child := child.(type) {
			case *policy.PolicySet:
				p.policySet(child)
			case *policy.Policy:
				p.policy(child)
			case *policy.Reference:
				p.reference(child)
			}
		}
		p.duties(s.Obligations, s.Advice)
	})
}

func (p *textPrinter) reference(r *policy.Reference) {
	text := "policyref "
	if r.Set {
		text = "policysetref "
	}
	text += p.quoted(r.ID)
	for _, x := range [...]struct{ word, pattern string }{{"version", r.Version}, {"earliest", r.Earliest}, {"latest", r.Latest}} {
		if x.pattern != "" {
			text += " " + x.word + " " + p.quoted(x.pattern)
		}
	}
	p.line("%s", text)
}

func (p *textPrinter) policy(o *policy.Policy) {
	p.defined, p.shapes = map[string]bool{}, shapes{map[string]function.Shape{}}
	for _, v := range o.Variables {
		p.variable(v.ID)
	}
	p.block(p.head("policy", o.ID), func() {
		p.common(&o.Header, "rulecombinator", 1)
		for _, v := range o.Variables {
			p.line("let %s = %s", v.ID, p.expression(v.Expression, 0))
			p.shapes.variables[v.ID] = p.shapes.of(v.Expression)
		}
		for i := range o.Rules {
			p.rule(&o.Rules[i])
		}
		p.duties(o.Obligations, o.Advice)
	})
}

// reserve collects the names of all variables.
func (p *textPrinter) reserve(e policy.Element) {
	switch e := e.(type) {
	case *policy.Policy:
		for _, v := range e.Variables {
			p.reserved[v.ID] = true
		}
	case *policy.PolicySet:
		for _, child := range e.Children {
			p.reserve(child)
		}
	}
}

// variable defines a variable of the current policy.
func (p *textPrinter) variable(name string) {
	_, standard := p.standard.attributes[name]
	switch {
	case !isName(name):
		p.fail("variable with the id %q: expected a name", short(name))
	case p.defined[name]:
		p.fail("variable that is defined twice: %q", short(name))
	case standard:
		p.fail("variable with the name of an attribute: %q", short(name))
	}
	p.defined[name] = true
}

func (p *textPrinter) rule(r *policy.Rule) {
	id := p.quoted(r.ID)
	if isName(r.ID) {
		id = r.ID
	}
	p.block("rule "+id, func() {
		p.description(r.Description)
		p.target(r.Target)
		if r.Condition != nil {
			p.line("condition %s", p.expression(r.Condition, 0))
		}
		p.line("%s", p.effect(r.Effect))
		p.duties(r.Obligations, r.Advice)
	})
}

func (p *textPrinter) effect(e policy.Effect) string {
	if effectName(e) == "" {
		p.fail("effect %d", e)
	}
	return strings.ToLower(effectName(e))
}

func (p *textPrinter) target(t policy.Target) {
	for i, any := range t {
		var clause []string
		for _, all := range any {
			var matches []string
			for j := range all {
				matches = append(matches, p.match(&all[j]))
			}
			clause = append(clause, strings.Join(matches, " and "))
			p.some(len(all))
		}
		p.some(len(any))
		head := "target clause"
		if i > 0 {
			head = "  clause"
		}
		p.line("%s %s", head, strings.Join(clause, " or "))
	}
}

// some makes the printer fail if a part of a target is empty.
func (p *textPrinter) some(n int) {
	if n == 0 {
		p.fail("empty AnyOf or AllOf")
	}
}

// match prints a match with an operator if its function is that of an operator.
func (p *textPrinter) match(m *policy.Match) string {
	d, ok := m.Bag.(*policy.Designator)
	if !ok {
		p.fail("match of a %T", m.Bag)
		return ""
	}
	if op, ok := p.standard.operators[m.Function]; ok && op.typ == m.Literal.Type() {
		if sign := flipped[op.text]; sign != "" {
			return p.designator(d) + " " + sign + " " + p.literal(m.Literal)
		}
	}
	return p.name("function", m.Function, p.standard.functions) + "(" + p.literal(m.Literal) + ", " + p.designator(d) + ")"
}

func (p *textPrinter) designator(d *policy.Designator) string {
	if d.Category == "" || d.Type == 0 {
		p.fail("attribute %q without a category or a type", short(d.ID))
	}
	name := p.attribute(attribute{d.Category, d.ID, d.Type, d.Issuer})
	if d.MustBePresent {
		name += "[mustbepresent]"
	}
	return name
}

// duties prints obligations and advice, each list in its order.
func (p *textPrinter) duties(obligations, advice []policy.Obligation) {
	for i, all := range [...][]policy.Obligation{obligations, advice} {
		kind := [...]string{"obligation", "advice"}[i]
		for _, o := range all {
			p.block("on "+p.effect(o.On), func() {
				head := kind + " " + p.name(kind, o.ID, nil)
				if len(o.Assignments) == 0 {
					p.line("%s", head)
					return
				}
				p.block(head, func() {
					for _, a := range o.Assignments {
						p.line("%s = %s", p.attribute(attribute{category: a.Category, id: a.ID, issuer: a.Issuer}), p.expression(a.Expression, 0))
					}
				})
			})
		}
	}
}

func (p *textPrinter) literal(v value.Value) string {
	text := v.Text()
	switch v.Type() {
	case 0, value.XPathExpression:
		p.fail("literal of the type xpathExpression")
	case value.String:
		return p.quoted(text)
	case value.Boolean:
		if text == "true" || text == "false" {
			return text
		}
	case value.Integer, value.Double:
		whole, fraction, point := strings.Cut(strings.TrimPrefix(text, "-"), ".")
		if isDigits(whole) && (v.Type() == value.Integer && !point || v.Type() == value.Double && point && isDigits(fraction)) {
			return text
		}
	}
	return p.quoted(text) + ":" + v.Type().String()
}

func isDigits(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }

// The precedences of operators. An operand in a place of a higher one needs
// parentheses.
const (
	orLevel = iota
	andLevel
	comparisonLevel
	sumLevel
	productLevel
	primaryLevel
)

// levels has the precedences of the infix operators.
var levels = map[string]int{"==": comparisonLevel, "<": comparisonLevel, "<=": comparisonLevel, ">": comparisonLevel, ">=": comparisonLevel,
	"+": sumLevel, "-": sumLevel, "*": productLevel, "/": productLevel}

// expression prints an expression for a place of a precedence.
func (p *textPrinter) expression(e policy.Expression, level int) string {
	switch e := e.(type) {
	case *policy.Literal:
		return p.literal(e.Value)
	case *policy.Designator:
		return p.designator(e)
	case *policy.VariableReference:
		if !p.defined[e.ID] {
			p.fail("reference to a variable that the policy does not define: %q", short(e.ID))
		}
		return e.ID
	case *policy.FunctionReference:
		return "function[" + p.name("function", e.ID, p.standard.functions) + "]"
	case *policy.Apply:
		return p.apply(e, level)
	case *policy.Selector:
		p.fail("AttributeSelector: path %q", short(e.Path))
	default:
		p.fail("expression that is missing")
	}
	return ""
}

// apply prints a call, with an operator if there is one.
func (p *textPrinter) apply(a *policy.Apply, level int) string {
	if a.Description != "" {
		p.fail("description of an Apply: %q", short(a.Description))
	}
	text, own := p.infix(a)
	switch {
	case text == "":
		return p.name("function", a.Function, p.standard.functions) + "(" + p.list(a.Arguments, ", ", orLevel) + ")"
	case own < level:
		return "(" + text + ")"
	}
	return text
}

// infix prints a call with an operator. It returns "" if the call has none.
func (p *textPrinter) infix(a *policy.Apply) (text string, level int) {
	switch n := len(a.Arguments); {
	case a.Function == p.standard.not && n == 1:
		return "!" + p.expression(a.Arguments[0], primaryLevel), primaryLevel
	case a.Function == p.standard.or && n > 1:
		return p.list(a.Arguments, " || ", andLevel), orLevel
	case a.Function == p.standard.and && n > 1:
		return p.list(a.Arguments, " && ", comparisonLevel), andLevel
	case n != 2:
		return "", 0
	}
	op, ok := p.standard.operators[a.Function]
	if !ok || p.shapes.operand(a.Arguments[0]) != op.typ || p.shapes.operand(a.Arguments[1]) != op.typ {
		return "", 0
	}
	level = levels[op.text]
	first := level
	if level == comparisonLevel {
		first++ // comparisons have no order
	}
	return p.expression(a.Arguments[0], first) + " " + op.text + " " + p.expression(a.Arguments[1], level+1), level
}

func (p *textPrinter) list(all []policy.Expression, between string, level int) string {
	texts := make([]string, len(all))
	for i, e := range all {
		texts[i] = p.expression(e, level)
	}
	return strings.Join(texts, between)
}
