package language

import (
	"maps"
	"strings"

	"github.com/ostiary/ostiary/internal/xmlread"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/value"
)

func (p *xmlParser) target() policy.Target {
	p.Fields()
	var out policy.Target
	for children := p.Sequence("AnyOf*"); children.Next() != ""; {
		out = append(out, p.anyOf())
	}
	return out
}

func (p *xmlParser) anyOf() (out policy.AnyOf) {
	p.Fields()
	for children := p.Sequence("AllOf*"); children.Next() != ""; {
		out = append(out, p.allOf())
	}
	p.Demand(len(out) > 0, "AnyOf", "AllOf")
	return out
}

func (p *xmlParser) allOf() (out policy.AllOf) {
	p.Fields()
	for children := p.Sequence("Match*"); children.Next() != ""; {
		out = append(out, p.match())
	}
	p.Demand(len(out) > 0, "AllOf", "Match")
	return out
}

func (p *xmlParser) match() policy.Match {
	out := policy.Match{Position: p.position()}
	p.Fields(xmlread.Field{Name: "MatchId", To: &out.Function})
	for children := p.Sequence("AttributeValue", "AttributeDesignator AttributeSelector"); ; {
		switch children.Next() {
		case "":
			p.Demand(out.Literal.Type() != 0, "Match", "AttributeValue")
			p.Demand(out.Bag != nil, "Match", "AttributeDesignator or AttributeSelector")
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
	for p.Child() {
		if out != nil {
			p.Fail("unexpected second expression in element %s", element)
		}
		out = p.expression()
	}
	p.Demand(out != nil, element, "with an expression")
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
		p.Fields(xmlread.Field{Name: "VariableId", To: &out.ID, Verbatim: true})
		p.Nothing()
		return out
	case "Function":
		out := &policy.FunctionReference{Position: at}
		p.Fields(xmlread.Field{Name: "FunctionId", To: &out.ID})
		p.Nothing()
		return out
	}
	p.Fail("unexpected element %s: expected an expression", p.shown())
	return nil
}

func (p *xmlParser) apply() *policy.Apply {
	out := &policy.Apply{Position: p.position()}
	p.Fields(xmlread.Field{Name: "FunctionId", To: &out.Function})
	for first := true; p.Child(); first = false {
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
	p.Fields(xmlread.Field{Name: "DataType", To: &uri}, xmlread.Field{Name: "XPathCategory", To: &category, Optional: true})
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
	p.Fields(xmlread.Field{Name: "Category", To: &out.Category}, xmlread.Field{Name: "AttributeId", To: &out.ID}, xmlread.Field{Name: "DataType", To: &uri},
		xmlread.Field{Name: "MustBePresent", To: &present}, xmlread.Field{Name: "Issuer", To: &out.Issuer, Optional: true, Verbatim: true})
	out.Type, out.MustBePresent = p.dataType(uri), p.boolean("MustBePresent", present)
	p.Nothing()
	return out
}

func (p *xmlParser) selector() *policy.Selector {
	out := &policy.Selector{Position: p.position()}
	var uri, present string
	p.Fields(xmlread.Field{Name: "Category", To: &out.Category}, xmlread.Field{Name: "ContextSelectorId", To: &out.ContextSelector, Optional: true},
		xmlread.Field{Name: "Path", To: &out.Path, Verbatim: true}, xmlread.Field{Name: "DataType", To: &uri}, xmlread.Field{Name: "MustBePresent", To: &present})
	out.Type, out.MustBePresent = p.dataType(uri), p.boolean("MustBePresent", present)
	out.Namespaces = prefixes(p.Namespaces(), out.Path)
	p.Nothing()
	return out
}
