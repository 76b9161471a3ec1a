package language

import (
	"context"
	"errors"

	"github.com/ostiary/ostiary/internal/tool/jsonread"
	"github.com/ostiary/ostiary/internal/tool/quote"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/internal/literal"
	"github.com/ostiary/ostiary/policy/value"
)

// JSONDepthMax is how deep objects and arrays of a policy in JSON may nest.
const JSONDepthMax = 768

// ParseJSON reads a policy or a policy set in Ostiary's JSON form, which
// docs/xacml.md describes. It has the same parts as the XML form. source names
// the text in positions and errors. ParseJSON checks what [ParseXML] checks, and
// has the same errors, which also name the member.
func ParseJSON(ctx context.Context, text []byte, source string) (policy.Element, error) {
	if err := checkLength(text, source); err != nil {
		return nil, err
	}
	p := newJSONParser(ctx, text, source)
	root := p.element(false)
	err := p.End()
	if p.ended != nil {
		return nil, p.ended
	}
	if err != nil {
		return nil, p.located(err)
	}
	return root, nil
}

// places finds the positions of offsets in a text.
type places struct {
	text   []byte
	source string
	lines  quote.Index
}

func newPlaces(text []byte, source string) places { return places{text, source, quote.NewIndex(text)} }

// at returns the position of an offset.
func (p *places) at(offset int) policy.Position {
	line, column := p.lines.At(offset)
	return policy.Position{Source: p.source, Line: line, Column: column}
}

// jsonParser reads the values of policies in JSON. Each method reads one value.
type jsonParser struct {
	*jsonread.Reader
	places
	progress
}

// located returns an error of the reader as one of this package.
func (p *jsonParser) located(err error) error {
	var e *jsonread.Error
	if !errors.As(err, &e) {
		return err
	}
	out := &policy.Error{Position: p.at(e.Offset), Text: e.Text}
	if e.Path != "" {
		out.Text = e.Path + ": " + e.Text
	}
	if e.Bound != "" {
		return &BoundError{out, e.Bound}
	}
	return out
}

func newJSONParser(ctx context.Context, text []byte, source string) *jsonParser {
	p := &jsonParser{Reader: jsonread.New(text), places: newPlaces(text, source), progress: progress{ctx: ctx}}
	p.SetDepthMax(JSONDepthMax)
	return p
}

func (p *jsonParser) position() policy.Position { return p.at(p.Offset()) }

// object reads an object whose members member reads; member returns false for an
// unknown name. Each of the mandatory members must be there.
func (p *jsonParser) object(member func(name string) bool, mandatory ...string) {
	var seen uint
	for p.Object(); p.Field(); {
		if !p.step(stepsPerMember) {
			p.Fail(endedText)
			return
		}
		name := string(p.Name())
		for i, m := range mandatory {
			if m == name {
				seen |= 1 << i
			}
		}
		if !member(name) {
			p.Unknown()
		}
	}
	for i, m := range mandatory {
		if seen>>i&1 == 0 {
			p.Fail("an object without the member " + m)
		}
	}
}

// element reads an object with one member: policy or policySet, or a reference
// inside a policy set.
func (p *jsonParser) element(inside bool) policy.Element {
	var out policy.Element
	at := p.position()
	for p.Object(); p.Field(); {
		if out != nil {
			p.Fail("a second member: expected one")
		}
		switch name := string(p.Name()); {
		case name == "policy":
			out = p.policy(at)
		case name == "policySet":
			out = p.policySet(at)
		case inside && (name == "policyReference" || name == "policySetReference"):
			out = p.reference(at, name == "policySetReference")
		default:
			p.Unknown()
		}
	}
	if out == nil {
		p.Fail("an object without policy or policySet: expected one")
	}
	return out
}

func (p *jsonParser) policySet(at policy.Position) *policy.PolicySet {
	out := &policy.PolicySet{Header: policy.Header{Position: at}}
	p.object(func(name string) bool {
		switch name {
		case "children":
			for p.Array(); p.Item(); {
				out.Children = append(out.Children, p.element(true))
			}
			return true
		}
		return p.header(name, &out.Header)
	}, "id", "version", "algorithm")
	return out
}

func (p *jsonParser) policy(at policy.Position) *policy.Policy {
	out := &policy.Policy{Header: policy.Header{Position: at}}
	p.object(func(name string) bool {
		switch name {
		case "variables":
			for p.Array(); p.Item(); {
				out.Variables = append(out.Variables, p.variable())
			}
			return true
		case "rules":
			for p.Array(); p.Item(); {
				out.Rules = append(out.Rules, p.rule())
			}
			return true
		}
		return p.header(name, &out.Header)
	}, "id", "version", "algorithm")
	return out
}

// header reads a member that policies and policy sets have in common.
func (p *jsonParser) header(name string, out *policy.Header) bool {
	switch name {
	case "id":
		out.ID = p.identifier()
	case "version":
		out.Version = p.identifier()
	case "algorithm":
		out.Algorithm = p.identifier()
	case "description":
		out.Description = p.String()
	case "xpathVersion":
		out.XPathVersion = p.identifier()
	case "target":
		out.Target = p.target()
	case "obligations":
		out.Obligations = p.duties()
	case "advice":
		out.Advice = p.duties()
	default:
		return false
	}
	return true
}

// identifier reads a string that is not empty.
func (p *jsonParser) identifier() string {
	text := p.String()
	if text == "" {
		p.Fail("an empty identifier: expected a value")
	}
	return text
}

func (p *jsonParser) reference(at policy.Position, set bool) *policy.Reference {
	out := &policy.Reference{Set: set, Position: at}
	p.object(func(name string) bool {
		switch name {
		case "id":
			out.ID = p.identifier()
		case "version":
			out.Version = p.String()
		case "earliest":
			out.Earliest = p.String()
		case "latest":
			out.Latest = p.String()
		default:
			return false
		}
		return true
	}, "id")
	return out
}

func (p *jsonParser) variable() policy.Variable {
	out := policy.Variable{Position: p.position()}
	p.object(func(name string) bool {
		switch name {
		case "id":
			out.ID = p.String()
		case "expression":
			out.Expression = p.expression()
		default:
			return false
		}
		return true
	}, "id", "expression")
	return out
}

func (p *jsonParser) rule() policy.Rule {
	out := policy.Rule{Position: p.position()}
	p.object(func(name string) bool {
		switch name {
		case "id":
			out.ID = p.String()
		case "description":
			out.Description = p.String()
		case "effect":
			out.Effect = p.effect()
		case "target":
			out.Target = p.target()
		case "condition":
			out.Condition = p.expression()
		case "obligations":
			out.Obligations = p.duties()
		case "advice":
			out.Advice = p.duties()
		default:
			return false
		}
		return true
	}, "id", "effect")
	return out
}

func (p *jsonParser) effect() policy.Effect {
	switch p.String() {
	case "Permit":
		return policy.Permit
	case "Deny":
		return policy.Deny
	}
	p.Fail("invalid effect: expected Permit or Deny")
	return 0
}

func (p *jsonParser) duties() (out []policy.Obligation) {
	for p.Array(); p.Item(); {
		one := policy.Obligation{Position: p.position()}
		p.object(func(name string) bool {
			switch name {
			case "id":
				one.ID = p.identifier()
			case "on":
				one.On = p.effect()
			case "assignments":
				for p.Array(); p.Item(); {
					one.Assignments = append(one.Assignments, p.assignment())
				}
			default:
				return false
			}
			return true
		}, "id", "on")
		out = append(out, one)
	}
	return out
}

func (p *jsonParser) assignment() policy.Assignment {
	out := policy.Assignment{Position: p.position()}
	p.object(func(name string) bool {
		switch name {
		case "id":
			out.ID = p.identifier()
		case "category":
			out.Category = p.String()
		case "issuer":
			out.Issuer = p.String()
		case "expression":
			out.Expression = p.expression()
		default:
			return false
		}
		return true
	}, "id", "expression")
	return out
}

// target reads an array (all must match) of arrays (any must match) of arrays of
// matches (all must match).
func (p *jsonParser) target() (out policy.Target) {
	for p.Array(); p.Item(); {
		var any policy.AnyOf
		for p.Array(); p.Item(); {
			var all policy.AllOf
			for p.Array(); p.Item(); {
				all = append(all, p.match())
			}
			p.some(len(all))
			any = append(any, all)
		}
		p.some(len(any))
		out = append(out, any)
	}
	return out
}

// some makes the parser fail if an array of a target is empty.
func (p *jsonParser) some(n int) {
	if n == 0 {
		p.Fail("an empty array in a target: expected at least one match")
	}
}

func (p *jsonParser) match() policy.Match {
	out := policy.Match{Position: p.position()}
	var l jsonLiteral
	p.object(func(name string) bool {
		switch name {
		case "function":
			out.Function = p.identifier()
		case "attribute":
			out.Bag = p.designator(p.position())
		case "selector":
			out.Bag = p.selector(p.position())
		default:
			return l.member(p, name)
		}
		return true
	}, "function", "value")
	if out.Literal = l.value(p); out.Bag == nil {
		p.Fail("a match without attribute or selector: expected one")
	}
	return out
}

// jsonLiteral is a literal whose members value and type are read in any order.
type jsonLiteral struct {
	raw literal.Raw
	typ value.Type
}

// member reads the member value or type.
func (l *jsonLiteral) member(p *jsonParser, name string) bool {
	switch name {
	case "value":
		l.raw = literal.ReadJSON(p.Reader, func(category string) string { return category })
	case "type":
		l.typ = p.dataType()
	default:
		return false
	}
	return true
}

// value returns the literal, whose type may follow from its value.
func (l *jsonLiteral) value(p *jsonParser) value.Value {
	if p.Err() != nil {
		return value.Value{}
	}
	if l.typ == 0 {
		l.typ = l.raw.Type()
	}
	return l.raw.Value(p.Reader, l.typ)
}

func (p *jsonParser) dataType() value.Type {
	t, ok := literal.ParseType(p.String())
	if !ok {
		p.Fail(`unknown data type: expected a type of XACML 3.0, for example "string"`)
	}
	return t
}

func (p *jsonParser) designator(at policy.Position) *policy.Designator {
	out := &policy.Designator{Position: at}
	p.object(func(name string) bool {
		switch name {
		case "category":
			out.Category = p.identifier()
		case "id":
			out.ID = p.identifier()
		case "type":
			out.Type = p.dataType()
		case "issuer":
			out.Issuer = p.String()
		case "mustBePresent":
			out.MustBePresent = p.Bool()
		default:
			return false
		}
		return true
	}, "category", "id", "type")
	return out
}

func (p *jsonParser) selector(at policy.Position) *policy.Selector {
	out := &policy.Selector{Position: at}
	p.object(func(name string) bool {
		switch name {
		case "category":
			out.Category = p.identifier()
		case "contextSelector":
			out.ContextSelector = p.String()
		case "path":
			out.Path = p.String()
		case "namespaces":
			out.Namespaces = literal.ReadJSONNamespaces(p.Reader)
		case "type":
			out.Type = p.dataType()
		case "mustBePresent":
			out.MustBePresent = p.Bool()
		default:
			return false
		}
		return true
	}, "category", "path", "type")
	out.Namespaces = literal.Prefixes(out.Namespaces, out.Path)
	return out
}

// expression reads an object that has one of the members value, attribute,
// selector, variable, function and apply. It returns nil after an error.
func (p *jsonParser) expression() policy.Expression {
	at := p.position()
	var all []policy.Expression
	var l jsonLiteral
	var call policy.Apply
	parts := false // the call has a description or arguments
	p.object(func(name string) bool {
		switch name {
		case "attribute":
			all = append(all, p.designator(at))
		case "selector":
			all = append(all, p.selector(at))
		case "variable":
			all = append(all, &policy.VariableReference{ID: p.String(), Position: at})
		case "function":
			all = append(all, &policy.FunctionReference{ID: p.identifier(), Position: at})
		case "apply":
			call.Function = p.identifier()
		case "description":
			call.Description, parts = p.String(), true
		case "arguments":
			parts = true
			for p.Array(); p.Item(); {
				call.Arguments = append(call.Arguments, p.expression())
			}
		default:
			return l.member(p, name)
		}
		return true
	})
	if l.raw.Kind != 0 {
		all = append(all, &policy.Literal{Value: l.value(p), Position: at})
	}
	called := call.Function != ""
	if called {
		call.Position = at
		all = append(all, &call)
	}
	if len(all) != 1 || !called && parts || l.raw.Kind == 0 && l.typ != 0 {
		p.Fail("an object that is no expression: expected one of value, attribute, selector, variable, function and apply")
		return nil
	}
	return all[0]
}
