package language

import (
	"maps"
	"strings"

	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/value"
)

func (p *xmlParser) target() policy.Target {
	p.fields()
	var out policy.Target
	for children := p.children("AnyOf*"); children.next() != ""; {
		out = append(out, p.anyOf())
	}
	return out
}

func (p *xmlParser) anyOf() (out policy.AnyOf) {
	p.fields()
	for children := p.children("AllOf*"); children.next() != ""; {
		out = append(out, p.allOf())
	}
	p.demand(len(out) > 0, "AnyOf", "AllOf")
	return out
}

func (p *xmlParser) allOf() (out policy.AllOf) {
	p.fields()
	for children := p.children("Match*"); children.next() != ""; {
		out = append(out, p.match())
	}
	p.demand(len(out) > 0, "AllOf", "Match")
	return out
}

func (p *xmlParser) match() policy.Match {
	out := policy.Match{Position: p.position()}
	p.fields(field{name: "MatchId", to: &out.Function})
	for children := p.children("AttributeValue", "AttributeDesignator AttributeSelector"); ; {
		switch children.next() {
		case "":
			p.demand(out.Literal.Type() != 0, "Match", "AttributeValue")
			p.demand(out.Bag != nil, "Match", "AttributeDesignator or AttributeSelector")
			return out
		case "AttributeValue":
			out.Literal = p.literal()
		case "AttributeDesignator":
			out.Bag = p.designator()
		case "AttributeSelector":
			out.Bag = p.selector()
		}
	}
}

// only reads the single expression in an element, and closes the element.
func (p *xmlParser) only(element string) policy.Expression {
	var out policy.Expression
	for p.child() {
		if out != nil {
			p.Fail("unexpected second expression in element %s", element)
		}
		out = p.expression()
	}
	p.demand(out != nil, element, "with an expression")
	return out
}

// expression reads the innermost element as an expression. It returns nil after
// an error.
func (p *xmlParser) expression() policy.Expression {
	at := p.position()
	switch string(p.Name()) {
	case "Apply":
		return p.apply()
	case "AttributeValue":
		return &policy.Literal{Value: p.literal(), Position: at}
	case "AttributeDesignator":
		return p.designator()
	case "AttributeSelector":
		return p.selector()
	case "VariableReference":
		out := &policy.VariableReference{Position: at}
		p.fields(field{name: "VariableId", to: &out.ID, verbatim: true})
		p.none()
		return out
	case "Function":
		out := &policy.FunctionReference{Position: at}
		p.fields(field{name: "FunctionId", to: &out.ID})
		p.none()
		return out
	}
	p.Fail("unexpected element %s: expected an expression", p.shown())
	return nil
}

// none reads an element without children to its end.
func (p *xmlParser) none() {
	for p.Child() {
		p.Fail("unexpected element %s", p.shown())
	}
}

func (p *xmlParser) apply() *policy.Apply {
	out := &policy.Apply{Position: p.position()}
	p.fields(field{name: "FunctionId", to: &out.Function})
	for first := true; p.child(); first = false {
		if first && string(p.Name()) == "Description" {
			out.Description = p.text()
			continue
		}
		out.Arguments = append(out.Arguments, p.expression())
	}
	return out
}

// literal reads an AttributeValue. It returns the zero Value after an error.
func (p *xmlParser) literal() value.Value {
	var uri, category string
	p.fields(field{name: "DataType", to: &uri}, field{name: "XPathCategory", to: &category, optional: true})
	at, spaces := p.Offset(), map[string]string(nil)
	t := p.dataType(uri)
	switch {
	case t == value.XPathExpression && category == "":
		p.Fail("element AttributeValue has no attribute XPathCategory: an xpathExpression needs one")
	case t == value.XPathExpression:
		spaces = p.Namespaces()
	case category != "":
		p.Fail("unexpected attribute XPathCategory: only an xpathExpression has one")
	}
	text := p.Text()
	if p.Failed() {
		return value.Value{}
	}
	if t == value.XPathExpression {
		return value.NewXPath(value.XPath{Category: category, Path: text, Namespaces: prefixes(spaces, text)})
	}
	v, err := value.Parse(t, text)
	if err != nil {
		p.FailAt(at, "%v", err)
	}
	return v
}

// prefixes returns the namespaces that an expression of XPath 1.0 can use: those
// whose prefix and a colon are in it.
func prefixes(spaces map[string]string, path string) map[string]string {
	maps.DeleteFunc(spaces, func(prefix, _ string) bool { return prefix == "" || !strings.Contains(path, prefix+":") })
	if len(spaces) == 0 {
		return nil
	}
	return spaces
}

func (p *xmlParser) designator() *policy.Designator {
	out := &policy.Designator{Position: p.position()}
	var uri, present string
	p.fields(field{name: "Category", to: &out.Category}, field{name: "AttributeId", to: &out.ID}, field{name: "DataType", to: &uri},
		field{name: "MustBePresent", to: &present}, field{name: "Issuer", to: &out.Issuer, optional: true, verbatim: true})
	out.Type, out.MustBePresent = p.dataType(uri), p.boolean("MustBePresent", present)
	p.none()
	return out
}

func (p *xmlParser) selector() *policy.Selector {
	out := &policy.Selector{Position: p.position()}
	var uri, present string
	p.fields(field{name: "Category", to: &out.Category}, field{name: "ContextSelectorId", to: &out.ContextSelector, optional: true},
		field{name: "Path", to: &out.Path, verbatim: true}, field{name: "DataType", to: &uri}, field{name: "MustBePresent", to: &present})
	out.Type, out.MustBePresent = p.dataType(uri), p.boolean("MustBePresent", present)
	out.Namespaces = prefixes(p.Namespaces(), out.Path)
	p.none()
	return out
}
