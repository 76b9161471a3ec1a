package language

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"

	"github.com/ostiary/ostiary/internal/tool/jsonread"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/function"
	"github.com/ostiary/ostiary/policy/internal/literal"
)

// ParseText reads a policy or a policy set in the readable text form, a subset of
// ALFA with a few additions, whose grammar docs/xacml.md has. source names the
// text in positions and errors. Its error is like that of [ParseXML], or
// [policy.Errors] if there are several mistakes: at most one for each statement.
// Mistakes in policies are only reported if there is none in declarations.
func ParseText(ctx context.Context, text []byte, source string) (policy.Element, error) {
	if err := checkLength(text, source); err != nil {
		return nil, err
	}
	p := newTextParser(ctx, text, source)
	root := p.file()
	if p.err == nil && p.next.kind != endToken {
		p.fail(p.next.offset, "unexpected %v after the policy", p.next)
	}
	if p.ended != nil {
		return nil, p.ended
	}
	if err := p.problem(); err != nil {
		return nil, err
	}
	return root, nil
}

// newTextParser returns a parser that has scanned the first token.
func newTextParser(ctx context.Context, text []byte, source string) *textParser {
	p := &textParser{scanner: scanner{places: newPlaces(text, source), progress: progress{ctx: ctx}}, names: newNames(), standard: standardNames()}
	p.scan()
	return p
}

// unquote returns a text in quotes without quotes and escapes.
func unquote(text []byte) (string, error) {
	r := jsonread.New(text)
	out := r.String()
	var e *jsonread.Error
	if err := r.End(); errors.As(err, &e) {
		return "", errors.New(e.Text)
	}
	return out, nil
}

// textParser reads the text form. Each method reads one construct.
type textParser struct {
	scanner
	names
	standard *prelude
	prefix   string // of ids that follow from names, for example "acme."
	depth    int

	shapes    shapes
	pending   []pendingName // names that must be variables of the current policy
	variables map[string]bool
	// wrongVariables is true if a variable of the current policy is wrong, so that its
	// type is not known.
	wrongVariables bool

	problems policy.Errors // mistakes behind which the parser went on
}

// pendingName is a reference to a variable that may be defined later.
type pendingName struct {
	name   string
	offset int
}

// is reports whether the next token is a sign or a word.
func (p *textParser) is(text string) bool {
	return (p.next.kind == wordToken || p.next.kind == signToken) && p.next.text == text
}

// accept takes the next token if it is the given one.
func (p *textParser) accept(text string) bool {
	if !p.is(text) {
		return false
	}
	p.scan()
	return true
}

func (p *textParser) expect(text string) {
	if !p.accept(text) {
		p.fail(p.next.offset, "unexpected %v: expected %q", p.next, text)
	}
}

// name takes a name.
func (p *textParser) name() string {
	if p.next.kind != wordToken || !isName(p.next.text) {
		p.fail(p.next.offset, "unexpected %v: expected a name", p.next)
	}
	return p.take().text
}

// quotedText takes a text in quotes.
func (p *textParser) quotedText() string {
	if p.next.kind != stringToken {
		p.fail(p.next.offset, "unexpected %v: expected a text in quotes", p.next)
	}
	return p.take().text
}

// enter counts a nested construct, and leave ends it.
func (p *textParser) enter() {
	if p.depth++; p.depth > TextDepthMax {
		p.failBound(p.next.offset, "text depth", TextDepthMax)
	}
}

func (p *textParser) leave() { p.depth-- }

// file reads declarations and one policy or policy set, perhaps in namespaces.
func (p *textParser) file() policy.Element {
	for p.err == nil {
		switch {
		case p.accept("namespace"):
			outer := p.prefix
			p.prefix += p.name() + "."
			p.expect("{")
			p.enter()
			root := p.file()
			p.leave()
			p.expect("}")
			p.prefix = outer
			return root
		case p.is("policy"), p.is("policyset"):
			if len(p.problems) > 0 {
				p.stop()
				return nil
			}
			return p.element()
		default:
			p.statement(declarations, func() {
				if !p.declaration() {
					p.fail(p.next.offset, "unexpected %v: expected a declaration, policy or policyset", p.next)
				}
			})
		}
	}
	return nil
}

// declaration reads a declaration if one is next.
func (p *textParser) declaration() bool {
	switch {
	case p.accept("attribute"):
		p.attribute()
	case p.accept("category"):
		p.alias(p.categories)
	case p.accept("function"):
		p.alias(p.functions)
	case p.accept("policycombinator"):
		p.alias(p.algorithms[0])
	case p.accept("rulecombinator"):
		p.alias(p.algorithms[1])
	case p.accept("obligation"):
		p.alias(p.obligations)
	case p.accept("advice"):
		p.alias(p.advice)
	default:
		return false
	}
	return true
}

// alias reads a name and the identifier that it is short for.
func (p *textParser) alias(all map[string]string) {
	at := p.next.offset
	name := p.name()
	if _, taken := all[name]; taken {
		p.fail(at, "the name %q is declared twice", short(name))
	}
	p.expect("=")
	all[name] = p.identifier()
}

// identifier takes a text in quotes that is not empty.
func (p *textParser) identifier() string {
	at := p.next.offset
	text := p.quotedText()
	if text == "" {
		p.fail(at, "an empty identifier: expected a value")
	}
	return text
}

func (p *textParser) attribute() {
	at := p.next.offset
	name := p.name()
	if _, taken := p.attributes[name]; taken {
		p.fail(at, "the attribute %q is declared twice", short(name))
	}
	var a attribute
	p.expect("{")
	for p.err == nil && !p.accept("}") {
		switch {
		case p.accept("id"):
			p.expect("=")
			a.id = p.identifier()
		case p.accept("issuer"):
			p.expect("=")
			a.issuer = p.identifier()
		case p.accept("category"):
			p.expect("=")
			a.category = p.category()
		case p.accept("type"):
			p.expect("=")
			at, name := p.next.offset, p.take().text
			var ok bool
			if a.typ, ok = literal.ParseType(name); !ok {
				p.fail(at, "unknown data type %q%s: expected a type of XACML 3.0, for example string", short(name), meant(name, typeNames()))
			}
		default:
			p.fail(p.next.offset, "unexpected %v: expected id, type, category, issuer or }", p.next)
		}
	}
	if a.id == "" {
		p.fail(at, "the attribute %q has no id", short(name))
	}
	p.attributes[name] = a
}

// category reads a declared name of a category, or its identifier in quotes.
func (p *textParser) category() string {
	if p.next.kind == stringToken {
		return p.identifier()
	}
	return p.lookup("category", p.categories, p.standard.categories)
}

// lookup reads a name and returns the identifier that it abbreviates.
func (p *textParser) lookup(kind string, declared, standard map[string]string) string {
	at := p.next.offset
	name := p.name()
	if id, ok := declared[name]; ok {
		return id
	}
	id, ok := standard[name]
	if !ok {
		p.fail(at, "unknown %s %q%s: expected a declared name", kind, short(name), meant(name, maps.Keys(declared), maps.Keys(standard)))
	}
	return id
}

// element reads a policy or a policy set.
func (p *textParser) element() policy.Element {
	p.enter()
	defer p.leave()
	at := p.at(p.next.offset)
	if p.accept("policyset") {
		return p.policySet(at)
	}
	p.expect("policy")
	return p.policy(at)
}

// id reads a name, and an identifier if it does not follow from the name.
func (p *textParser) id() string {
	name := p.name()
	if p.accept("=") {
		return p.identifier()
	}
	return p.prefix + name
}

// common reads a statement that policies and policy sets have in common. rules is
// 1 for the algorithms of rules, otherwise 0.
func (p *textParser) common(out *policy.Header, rules int) {
	switch {
	case p.accept("version"):
		out.Version = p.identifier()
	case p.accept("description"):
		out.Description = p.quotedText()
	case p.accept("apply"):
		out.Algorithm = p.combining(rules)
	case p.accept("target"):
		out.Target = p.target()
	case p.accept("on"):
		p.on(&out.Obligations, &out.Advice)
	default:
		p.fail(p.next.offset, "unexpected %v: expected a statement or }", p.next)
	}
}

func (p *textParser) policySet(at policy.Position) *policy.PolicySet {
	out := &policy.PolicySet{Header: policy.Header{Position: at, ID: p.id(), Version: "1.0"}}
	p.expect("{")
	before := len(p.problems)
	for p.err == nil && !p.accept("}") {
		p.statement(setStatements, func() {
			switch {
			case p.is("policy"), p.is("policyset"):
				out.Children = append(out.Children, p.element())
			case p.is("policyref"), p.is("policysetref"):
				out.Children = append(out.Children, p.reference())
			default:
				p.common(&out.Header, 0)
			}
		})
	}
	p.algorithm(at, out.Algorithm, before)
	return out
}

// algorithm reports a missing algorithm, unless the body has other mistakes: one of
// them may be in the algorithm. before is the number of mistakes before the body.
func (p *textParser) algorithm(at policy.Position, id string, before int) {
	if id == "" && p.err == nil && len(p.problems) == before {
		p.add(&policy.Error{Position: at, Text: "no combining algorithm: expected apply and its name, for example apply denyOverrides"})
	}
}

func (p *textParser) policy(at policy.Position) *policy.Policy {
	out := &policy.Policy{Header: policy.Header{Position: at, ID: p.id(), Version: "1.0"}}
	p.shapes, p.variables, p.pending, p.wrongVariables = shapes{map[string]function.Shape{}}, map[string]bool{}, nil, false
	p.expect("{")
	before := len(p.problems)
	for p.err == nil && !p.accept("}") {
		p.statement(policyStatements, func() {
			switch {
			case p.is("rule"):
				out.Rules = append(out.Rules, p.rule())
			case p.is("let"):
				out.Variables = append(out.Variables, p.variable())
			default:
				p.common(&out.Header, 1)
			}
		})
	}
	p.algorithm(at, out.Algorithm, before)
	for _, n := range p.pending {
		if p.err == nil && !p.variables[n.name] {
			known := [...]iter.Seq[string]{maps.Keys(p.variables), maps.Keys(p.attributes), maps.Keys(p.standard.attributes)}
			p.add(&policy.Error{Position: p.at(n.offset), Text: fmt.Sprintf("unknown name %q%s: expected a declared attribute, or a variable of the policy",
				short(n.name), meant(n.name, known[:]...))})
		}
	}
	return out
}

func (p *textParser) reference() *policy.Reference {
	out := &policy.Reference{Position: p.at(p.next.offset), Set: p.is("policysetref")}
	p.scan()
	if p.next.kind == stringToken {
		out.ID = p.identifier()
	} else {
		out.ID = p.prefix + p.name()
	}
	for p.err == nil {
		switch {
		case p.accept("version"):
			out.Version = p.identifier()
		case p.accept("earliest"):
			out.Earliest = p.identifier()
		case p.accept("latest"):
			out.Latest = p.identifier()
		default:
			return out
		}
	}
	return out
}

func (p *textParser) variable() policy.Variable {
	at := p.next.offset
	out := policy.Variable{Position: p.at(at)}
	p.expect("let")
	out.ID = p.name()
	if _, attribute := p.find(out.ID); attribute || p.variables[out.ID] {
		p.fail(at, "the name %q of a variable is taken", short(out.ID))
	}
	p.variables[out.ID] = true
	p.expect("=")
	out.Expression = p.expression()
	p.shapes.variables[out.ID] = p.shapes.of(out.Expression)
	p.wrongVariables = p.wrongVariables || p.err != nil
	return out
}

// find returns the attribute with a name.
func (p *textParser) find(name string) (attribute, bool) {
	a, ok := p.attributes[name]
	if !ok {
		a, ok = p.standard.attributes[name]
	}
	return a, ok
}

func (p *textParser) rule() policy.Rule {
	at := p.next.offset
	out := policy.Rule{Position: p.at(at)}
	p.expect("rule")
	if p.next.kind == stringToken {
		out.ID = p.quotedText()
	} else {
		out.ID = p.name()
	}
	p.expect("{")
	before := len(p.problems)
	for p.err == nil && !p.accept("}") {
		p.statement(ruleStatements, func() { p.ruleStatement(&out) })
	}
	if out.Effect == 0 && len(p.problems) == before {
		p.fail(at, "the rule %q has no effect: expected permit or deny", short(out.ID))
	}
	return out
}

// ruleStatement reads a statement of a rule.
func (p *textParser) ruleStatement(out *policy.Rule) {
	switch {
	case p.accept("permit"):
		out.Effect = policy.Permit
	case p.accept("deny"):
		out.Effect = policy.Deny
	case p.accept("description"):
		out.Description = p.quotedText()
	case p.accept("target"):
		out.Target = p.target()
	case p.accept("condition"):
		out.Condition = p.expression()
	case p.accept("on"):
		p.on(&out.Obligations, &out.Advice)
	default:
		p.fail(p.next.offset, "unexpected %v: expected target, condition, permit, deny, on, description or }", p.next)
	}
}

// on reads the obligations and advice for an effect.
func (p *textParser) on(obligations, advice *[]policy.Obligation) {
	effect := policy.Permit
	if !p.accept("permit") {
		p.expect("deny")
		effect = policy.Deny
	}
	p.expect("{")
	for p.err == nil && !p.accept("}") {
		one := policy.Obligation{On: effect, Position: p.at(p.next.offset)}
		if p.accept("advice") {
			one.ID = p.lookup("advice", p.advice, nil)
			p.assignments(&one)
			*advice = append(*advice, one)
			continue
		}
		p.expect("obligation")
		one.ID = p.lookup("obligation", p.obligations, nil)
		p.assignments(&one)
		*obligations = append(*obligations, one)
	}
}

func (p *textParser) assignments(out *policy.Obligation) {
	if !p.accept("{") {
		return
	}
	for p.err == nil && !p.accept("}") {
		at := p.next.offset
		name := p.name()
		a, ok := p.find(name)
		if !ok {
			p.failAttribute(at, name)
		}
		p.expect("=")
		out.Assignments = append(out.Assignments, policy.Assignment{ID: a.id, Category: a.category, Issuer: a.issuer,
			Expression: p.expression(), Position: p.at(at)})
	}
}
