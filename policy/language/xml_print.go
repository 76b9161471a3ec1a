package language

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ostiary/ostiary/internal/tool/xmlread"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/internal/literal"
	"github.com/ostiary/ostiary/policy/value"
)

// PrintXML returns a policy or a policy set as XML. [ParseXML] reads an equal tree
// from it, apart from positions. It fails if the tree is incomplete, or contains
// text that XML cannot express.
func PrintXML(e policy.Element) ([]byte, error) {
	p := xmlPrinter{out: []byte(`<?xml version="1.0" encoding="UTF-8"?>` + "\n")}
	switch e := e.(type) {
	case *policy.Policy:
		p.policy(e, Namespace)
	case *policy.PolicySet:
		p.policySet(e, Namespace)
	default:
		return nil, fmt.Errorf("%T cannot be printed alone: expected a policy or a policy set", e)
	}
	return p.out, p.err
}

// xmlPrinter appends elements. Each method that is named after an element prints
// that element.
type xmlPrinter struct {
	out   []byte
	depth int
	inner int   // length of out after the start tag that was printed last
	err   error // the first error
}

// pair is an attribute to print. One that is empty is left out if it is optional.
type pair struct {
	name, value string
	optional    bool
}

// tag prints the beginning of an element up to its attributes.
func (p *xmlPrinter) tag(name string, pairs ...pair) {
	p.out = append(p.out, strings.Repeat("  ", p.depth)...)
	p.out = append(append(p.out, '<'), name...)
	for _, a := range pairs {
		if a.optional && a.value == "" {
			continue
		}
		p.check(a.value)
		p.out = append(append(append(p.out, ' '), a.name...), `="`...)
		p.out = append(xmlread.AppendAttribute(p.out, a.value), '"')
	}
}

// open prints a start tag. [xmlPrinter.close] prints the end tag.
func (p *xmlPrinter) open(name string, pairs ...pair) {
	p.tag(name, pairs...)
	p.out = append(p.out, ">\n"...)
	p.depth++
	p.inner = len(p.out)
}

func (p *xmlPrinter) close(name string) {
	p.depth--
	if p.inner == len(p.out) {
		p.out = append(p.out[:p.inner-len(">\n")], "/>\n"...)
		return
	}
	p.out = append(p.out, strings.Repeat("  ", p.depth)...)
	p.out = append(append(append(p.out, "</"...), name...), ">\n"...)
}

// empty prints an element without content.
func (p *xmlPrinter) empty(name string, pairs ...pair) {
	p.tag(name, pairs...)
	p.out = append(p.out, "/>\n"...)
}

// text prints an element with text.
func (p *xmlPrinter) text(name, text string, pairs ...pair) {
	p.tag(name, pairs...)
	p.check(text)
	p.out = xmlread.AppendText(append(p.out, '>'), text)
	p.out = append(append(append(p.out, "</"...), name...), ">\n"...)
}

// optionalText prints an element with text, unless the text is empty.
func (p *xmlPrinter) optionalText(name, text string) {
	if text != "" {
		p.text(name, text)
	}
}

func (p *xmlPrinter) check(text string) {
	if !xmlread.Expressible(text) {
		p.fail(fmt.Errorf(`text %q has characters that XML cannot express`, short(text)))
	}
}

func (p *xmlPrinter) fail(err error) {
	if p.err == nil {
		p.err = err
	}
}

func (p *xmlPrinter) policySet(s *policy.PolicySet, namespace string) {
	p.open("PolicySet", pair{"xmlns", namespace, true}, pair{"PolicySetId", s.ID, false}, pair{"Version", s.Version, false},
		pair{"PolicyCombiningAlgId", s.Algorithm, false})
	p.header("PolicySetDefaults", &s.Header)
	for _, child := range s.Children {
		switch child := child.(type) {
		case *policy.PolicySet:
			p.policySet(child, "")
		case *policy.Policy:
			p.policy(child, "")
		case *policy.Reference:
			p.reference(child)
		default:
			p.fail(fmt.Errorf("policy set %q has a child of type %T: expected a policy, a policy set or a reference", short(s.ID), child))
		}
	}
	p.duties(s.Obligations, s.Advice)
	p.close("PolicySet")
}

func (p *xmlPrinter) policy(o *policy.Policy, namespace string) {
	p.open("Policy", pair{"xmlns", namespace, true}, pair{"PolicyId", o.ID, false}, pair{"Version", o.Version, false},
		pair{"RuleCombiningAlgId", o.Algorithm, false})
	p.header("PolicyDefaults", &o.Header)
	for _, v := range o.Variables {
		p.open("VariableDefinition", pair{"VariableId", v.ID, false})
		p.expression(v.Expression)
		p.close("VariableDefinition")
	}
	for i := range o.Rules {
		p.rule(&o.Rules[i])
	}
	p.duties(o.Obligations, o.Advice)
	p.close("Policy")
}

// header prints what policies and policy sets begin with.
func (p *xmlPrinter) header(defaults string, h *policy.Header) {
	p.optionalText("Description", h.Description)
	if h.XPathVersion != "" {
		p.open(defaults)
		p.text("XPathVersion", h.XPathVersion)
		p.close(defaults)
	}
	p.target(h.Target)
}

func (p *xmlPrinter) reference(r *policy.Reference) {
	name := "PolicyIdReference"
	if r.Set {
		name = "PolicySetIdReference"
	}
	p.text(name, r.ID, pair{"Version", r.Version, true}, pair{"EarliestVersion", r.Earliest, true}, pair{"LatestVersion", r.Latest, true})
}

func (p *xmlPrinter) rule(r *policy.Rule) {
	p.open("Rule", pair{"RuleId", r.ID, false}, pair{"Effect", p.effect(r.Effect), false})
	p.optionalText("Description", r.Description)
	if len(r.Target) > 0 {
		p.target(r.Target)
	}
	if r.Condition != nil {
		p.open("Condition")
		p.expression(r.Condition)
		p.close("Condition")
	}
	p.duties(r.Obligations, r.Advice)
	p.close("Rule")
}

// effect returns the name of an effect.
func (p *xmlPrinter) effect(e policy.Effect) string {
	if name := effectName(e); name != "" {
		return name
	}
	p.fail(fmt.Errorf("invalid effect %d: expected Permit or Deny", e))
	return ""
}

func effectName(e policy.Effect) string {
	switch e {
	case policy.Permit:
		return "Permit"
	case policy.Deny:
		return "Deny"
	}
	return ""
}

func (p *xmlPrinter) target(t policy.Target) {
	p.open("Target")
	for _, any := range t {
		p.open("AnyOf")
		for _, all := range any {
			p.open("AllOf")
			for i := range all {
				p.match(&all[i])
			}
			p.close("AllOf")
		}
		p.close("AnyOf")
	}
	p.close("Target")
}

func (p *xmlPrinter) match(m *policy.Match) {
	p.open("Match", pair{"MatchId", m.Function, false})
	p.literal(m.Literal)
	switch bag := m.Bag.(type) {
	case *policy.Designator, *policy.Selector:
		p.expression(bag)
	default:
		p.fail(fmt.Errorf("a match has a %T: expected a designator or a selector", bag))
	}
	p.close("Match")
}

func (p *xmlPrinter) duties(obligations, advice []policy.Obligation) {
	p.dutyList("Obligation", "FulfillOn", obligations)
	p.dutyList("Advice", "AppliesTo", advice)
}

func (p *xmlPrinter) dutyList(kind, on string, all []policy.Obligation) {
	if len(all) == 0 {
		return
	}
	p.open(kind + "Expressions")
	for _, o := range all {
		p.open(kind+"Expression", pair{kind + "Id", o.ID, false}, pair{on, p.effect(o.On), false})
		for _, a := range o.Assignments {
			p.open("AttributeAssignmentExpression", pair{"AttributeId", a.ID, false}, pair{"Category", a.Category, true}, pair{"Issuer", a.Issuer, true})
			p.expression(a.Expression)
			p.close("AttributeAssignmentExpression")
		}
		p.close(kind + "Expression")
	}
	p.close(kind + "Expressions")
}

func (p *xmlPrinter) expression(e policy.Expression) {
	switch e := e.(type) {
	case *policy.Literal:
		p.literal(e.Value)
	case *policy.Designator:
		p.empty("AttributeDesignator", pair{"Category", e.Category, false}, pair{"AttributeId", e.ID, false}, pair{"DataType", p.uri(e.Type), false},
			pair{"Issuer", e.Issuer, true}, pair{"MustBePresent", fmt.Sprint(e.MustBePresent), false})
	case *policy.Selector:
		p.checkNamespaces(e.Namespaces)
		p.tag("AttributeSelector", pair{"Category", e.Category, false}, pair{"ContextSelectorId", e.ContextSelector, true}, pair{"Path", e.Path, false},
			pair{"DataType", p.uri(e.Type), false}, pair{"MustBePresent", fmt.Sprint(e.MustBePresent), false})
		p.out = append(literal.AppendXMLNamespaces(p.out, e.Namespaces), "/>\n"...)
	case *policy.VariableReference:
		p.empty("VariableReference", pair{"VariableId", e.ID, false})
	case *policy.FunctionReference:
		p.empty("Function", pair{"FunctionId", e.ID, false})
	case *policy.Apply:
		p.open("Apply", pair{"FunctionId", e.Function, false})
		p.optionalText("Description", e.Description)
		for _, a := range e.Arguments {
			p.expression(a)
		}
		p.close("Apply")
	default:
		p.fail(errors.New("an expression is missing"))
	}
}

func (p *xmlPrinter) literal(v value.Value) {
	p.uri(v.Type())
	x, _ := v.XPath()
	p.check(x.Category)
	p.checkNamespaces(x.Namespaces)
	p.tag("AttributeValue")
	p.out = literal.AppendXMLAttributes(p.out, v)
	p.check(v.Text())
	p.out = xmlread.AppendText(append(p.out, '>'), v.Text())
	p.out = append(p.out, "</AttributeValue>\n"...)
}

func (p *xmlPrinter) uri(t value.Type) string {
	if t.URI() == "" {
		p.fail(errors.New("a value or an attribute has no data type"))
	}
	return t.URI()
}

// checkNamespaces checks that namespaces can be declared.
func (p *xmlPrinter) checkNamespaces(spaces map[string]string) {
	for prefix, uri := range spaces {
		if !xmlread.IsName(prefix) || uri == "" || strings.HasPrefix(prefix, "xml") {
			p.fail(fmt.Errorf("invalid namespace prefix %q with the namespace %q: expected a name that does not begin with xml, and a URI", short(prefix), short(uri)))
		}
		p.check(uri)
	}
}
