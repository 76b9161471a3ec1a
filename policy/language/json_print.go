package language

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/ostiary/ostiary/internal/tool/jsonread"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/internal/literal"
	"github.com/ostiary/ostiary/policy/value"
)

// PrintJSON returns a policy or a policy set in Ostiary's JSON form, indented.
// [ParseJSON] reads an equal tree from it, apart from positions. It fails if the
// tree is incomplete, or contains text that is not UTF-8.
func PrintJSON(e policy.Element) ([]byte, error) {
	if _, ok := e.(*policy.Reference); ok || e == nil {
		return nil, fmt.Errorf("%T cannot be printed alone: expected a policy or a policy set", e)
	}
	var p jsonPrinter
	p.element(e)
	if p.err != nil {
		return nil, p.err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, p.out, "", "  "); err != nil {
		return nil, err
	}
	return append(out.Bytes(), '\n'), nil
}

// jsonPrinter appends JSON. Each method prints one value.
type jsonPrinter struct {
	out []byte
	err error // the first error
}

func (p *jsonPrinter) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
}

// name prints the name of a member, and a comma before it unless it is the first
// one.
func (p *jsonPrinter) name(name string) {
	p.comma()
	p.out = append(jsonread.AppendString(p.out, name), ':')
}

func (p *jsonPrinter) comma() {
	if last := p.out[len(p.out)-1]; last != '{' && last != '[' {
		p.out = append(p.out, ',')
	}
}

func (p *jsonPrinter) text(name, text string) {
	if !utf8.ValidString(text) {
		p.fail("text %q is not UTF-8", short(text))
	}
	p.name(name)
	p.out = jsonread.AppendString(p.out, text)
}

// optional prints a member unless its text is empty.
func (p *jsonPrinter) optional(name, text string) {
	if text != "" {
		p.text(name, text)
	}
}

// list prints an array of n items.
func (p *jsonPrinter) list(n int, item func(i int)) {
	p.out = append(p.out, '[')
	for i := range n {
		p.comma()
		item(i)
	}
	p.out = append(p.out, ']')
}

// members prints a member with an array, unless it is empty.
func (p *jsonPrinter) members(name string, n int, item func(i int)) {
	if n > 0 {
		p.name(name)
		p.list(n, item)
	}
}

func (p *jsonPrinter) element(e policy.Element) {
	p.out = append(p.out, '{')
	switch e := e.(type) {
	case *policy.Policy:
		p.name("policy")
		p.policy(e)
	case *policy.PolicySet:
		p.name("policySet")
		p.policySet(e)
	case *policy.Reference:
		if e.Set {
			p.name("policySetReference")
		} else {
			p.name("policyReference")
		}
		p.out = append(p.out, '{')
		p.text("id", e.ID)
		p.optional("version", e.Version)
		p.optional("earliest", e.Earliest)
		p.optional("latest", e.Latest)
		p.out = append(p.out, '}')
	default:
		p.fail("an element is missing in a policy set")
	}
	p.out = append(p.out, '}')
}

func (p *jsonPrinter) policySet(s *policy.PolicySet) {
	p.out = append(p.out, '{')
	p.header(&s.Header)
	p.members("children", len(s.Children), func(i int) { p.element(s.Children[i]) })
	p.duties("obligations", s.Obligations)
	p.duties("advice", s.Advice)
	p.out = append(p.out, '}')
}

func (p *jsonPrinter) policy(o *policy.Policy) {
	p.out = append(p.out, '{')
	p.header(&o.Header)
	p.members("variables", len(o.Variables), func(i int) {
		p.out = append(p.out, '{')
		p.text("id", o.Variables[i].ID)
		p.name("expression")
		p.expression(o.Variables[i].Expression)
		p.out = append(p.out, '}')
	})
	p.members("rules", len(o.Rules), func(i int) { p.rule(&o.Rules[i]) })
	p.duties("obligations", o.Obligations)
	p.duties("advice", o.Advice)
	p.out = append(p.out, '}')
}

// header prints what policies and policy sets begin with.
func (p *jsonPrinter) header(h *policy.Header) {
	p.text("id", h.ID)
	p.text("version", h.Version)
	p.optional("description", h.Description)
	p.text("algorithm", h.Algorithm)
	p.optional("xpathVersion", h.XPathVersion)
	p.target(h.Target)
}

func (p *jsonPrinter) rule(r *policy.Rule) {
	p.out = append(p.out, '{')
	p.text("id", r.ID)
	p.optional("description", r.Description)
	p.text("effect", p.effect(r.Effect))
	p.target(r.Target)
	if r.Condition != nil {
		p.name("condition")
		p.expression(r.Condition)
	}
	p.duties("obligations", r.Obligations)
	p.duties("advice", r.Advice)
	p.out = append(p.out, '}')
}

func (p *jsonPrinter) effect(e policy.Effect) string {
	if effectName(e) == "" {
		p.fail("invalid effect %d: expected Permit or Deny", e)
	}
	return effectName(e)
}

func (p *jsonPrinter) target(t policy.Target) {
	p.members("target", len(t), func(i int) {
		p.list(len(t[i]), func(j int) {
			p.list(len(t[i][j]), func(k int) { p.match(&t[i][j][k]) })
		})
	})
}

func (p *jsonPrinter) match(m *policy.Match) {
	p.out = append(p.out, '{')
	p.text("function", m.Function)
	p.literal(m.Literal)
	switch m.Bag.(type) {
	case *policy.Designator, *policy.Selector:
		p.parts(m.Bag)
	default:
		p.fail("a match has a %T: expected a designator or a selector", m.Bag)
	}
	p.out = append(p.out, '}')
}

func (p *jsonPrinter) duties(name string, all []policy.Obligation) {
	p.members(name, len(all), func(i int) {
		p.out = append(p.out, '{')
		p.text("id", all[i].ID)
		p.text("on", p.effect(all[i].On))
		p.members("assignments", len(all[i].Assignments), func(j int) {
			a := &all[i].Assignments[j]
			p.out = append(p.out, '{')
			p.text("id", a.ID)
			p.optional("category", a.Category)
			p.optional("issuer", a.Issuer)
			p.name("expression")
			p.expression(a.Expression)
			p.out = append(p.out, '}')
		})
		p.out = append(p.out, '}')
	})
}

func (p *jsonPrinter) expression(e policy.Expression) {
	p.out = append(p.out, '{')
	p.parts(e)
	p.out = append(p.out, '}')
}

// parts prints the members of an expression.
func (p *jsonPrinter) parts(e policy.Expression) {
	switch e := e.(type) {
	case *policy.Literal:
		p.literal(e.Value)
	case *policy.Designator:
		p.name("attribute")
		p.out = append(p.out, '{')
		p.text("category", e.Category)
		p.text("id", e.ID)
		p.text("type", p.dataType(e.Type))
		p.optional("issuer", e.Issuer)
		p.present(e.MustBePresent)
		p.out = append(p.out, '}')
	case *policy.Selector:
		p.selector(e)
	case *policy.VariableReference:
		p.text("variable", e.ID)
	case *policy.FunctionReference:
		p.text("function", e.ID)
	case *policy.Apply:
		p.text("apply", e.Function)
		p.optional("description", e.Description)
		p.members("arguments", len(e.Arguments), func(i int) { p.expression(e.Arguments[i]) })
	default:
		p.fail("an expression is missing")
	}
}

func (p *jsonPrinter) selector(s *policy.Selector) {
	p.name("selector")
	p.out = append(p.out, '{')
	p.text("category", s.Category)
	p.optional("contextSelector", s.ContextSelector)
	p.text("path", s.Path)
	if len(s.Namespaces) > 0 {
		p.name("namespaces")
		p.out = literal.AppendJSONNamespaces(p.out, s.Namespaces)
	}
	p.text("type", p.dataType(s.Type))
	p.present(s.MustBePresent)
	p.out = append(p.out, '}')
}

func (p *jsonPrinter) present(must bool) {
	if must {
		p.name("mustBePresent")
		p.out = append(p.out, "true"...)
	}
}

func (p *jsonPrinter) dataType(t value.Type) string {
	if t.String() == "" {
		p.fail("a value or an attribute has no data type")
	}
	return t.String()
}

// literal prints the members of a literal.
func (p *jsonPrinter) literal(v value.Value) {
	p.text("type", p.dataType(v.Type()))
	if !utf8.ValidString(v.Text()) {
		p.fail("text %q is not UTF-8", short(v.Text()))
	}
	p.name("value")
	p.out = literal.AppendJSON(p.out, v)
}
