package language

import (
	"github.com/ostiary/ostiary/internal/tool/xmlread"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/internal/literal"
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
			out.Literal = literal.ReadXML(p.Reader)
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
		return &policy.Literal{Value: literal.ReadXML(p.Reader), Position: at}
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

func (p *xmlParser) designator() *policy.Designator {
	out := &policy.Designator{Position: p.position()}
	var uri, present string
	p.Fields(xmlread.Field{Name: "Category", To: &out.Category}, xmlread.Field{Name: "AttributeId", To: &out.ID}, xmlread.Field{Name: "DataType", To: &uri},
		xmlread.Field{Name: "MustBePresent", To: &present}, xmlread.Field{Name: "Issuer", To: &out.Issuer, Optional: true, Verbatim: true})
	out.Type, out.MustBePresent = p.dataType(uri), literal.ReadXMLBoolean(p.Reader, "MustBePresent", present)
	p.Nothing()
	return out
}

func (p *xmlParser) selector() *policy.Selector {
	out := &policy.Selector{Position: p.position()}
	var uri, present string
	p.Fields(xmlread.Field{Name: "Category", To: &out.Category}, xmlread.Field{Name: "ContextSelectorId", To: &out.ContextSelector, Optional: true},
		xmlread.Field{Name: "Path", To: &out.Path, Verbatim: true}, xmlread.Field{Name: "DataType", To: &uri}, xmlread.Field{Name: "MustBePresent", To: &present})
	out.Type, out.MustBePresent = p.dataType(uri), literal.ReadXMLBoolean(p.Reader, "MustBePresent", present)
	out.Namespaces = literal.Prefixes(p.Namespaces(), out.Path)
	p.Nothing()
	return out
}
