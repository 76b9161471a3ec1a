package oracle

import (
	"fmt"
	"strings"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/schema"
)

// parseModelLine reads a line of a script that belongs to the model.
func parseModelLine(m *schema.Model, word, rest string) error {
	switch word {
	case "condition":
		return parseCondition(m, rest)
	case "type":
		m.Types = append(m.Types, schema.TypeDef{Name: rest})
		return nil
	}
	if len(m.Types) == 0 {
		return fmt.Errorf("%q before the first type", word)
	}
	t := &m.Types[len(m.Types)-1]
	switch word {
	case "attribute":
		p, err := parseParam(rest)
		t.Attributes = append(t.Attributes, schema.AttributeDef{Name: p.Name, Type: p.Type})
		return err
	case "relation":
		head, body, ok := cutRelation(rest)
		if !ok {
			return fmt.Errorf("invalid relation line %q: expected \"name [restrictions]: rewrite\"", rest)
		}
		name, restrictions, _ := strings.Cut(head, "[")
		r := schema.RelationDef{Name: strings.TrimSpace(name)}
		if restrictions = strings.TrimSuffix(restrictions, "]"); restrictions != "" {
			for _, text := range strings.Split(restrictions, ",") {
				r.Subjects = append(r.Subjects, parseRestriction(strings.TrimSpace(text)))
			}
		}
		p := rewriteParser{text: body}
		r.Rewrite = p.rewrite(0)
		if p.skip(); p.err == nil && p.text != "" {
			return fmt.Errorf("unexpected %q after the rewrite", p.text)
		}
		t.Relations = append(t.Relations, r)
		return p.err
	}
	return fmt.Errorf("unknown word %q", word)
}

// cutRelation cuts "name [restrictions]: body". A restriction may contain a
// colon.
func cutRelation(s string) (head, body string, ok bool) {
	if i := strings.Index(s, "]:"); i >= 0 {
		return s[:i+1], s[i+2:], true
	}
	return strings.Cut(s, ":")
}

func parseCondition(m *schema.Model, rest string) error {
	head, source, ok := strings.Cut(rest, "):")
	name, params, ok2 := strings.Cut(head, "(")
	if !ok || !ok2 {
		return fmt.Errorf("invalid condition line %q: expected \"name(parameters): source\"", rest)
	}
	def := expr.Definition{Name: name, Source: strings.TrimSpace(source)}
	if params != "" {
		for _, text := range strings.Split(params, ",") {
			p, err := parseParam(strings.TrimSpace(text))
			if err != nil {
				return err
			}
			def.Params = append(def.Params, p)
		}
	}
	m.Conditions = append(m.Conditions, def)
	return nil
}

// parseParam reads "name type", where type is a scalar type.
func parseParam(text string) (expr.Param, error) {
	name, typ, _ := strings.Cut(text, " ")
	kind, ok := expr.ParseKind(typ)
	if !ok || kind == expr.List || kind == expr.Map {
		return expr.Param{}, fmt.Errorf("invalid parameter %q: expected a name and a scalar type", text)
	}
	return expr.Param{Name: name, Type: expr.Type{Kind: kind}}, nil
}

func parseRestriction(text string) schema.SubjectType {
	var st schema.SubjectType
	text, st.Condition, _ = strings.Cut(text, " with ")
	text, st.Relation, _ = strings.Cut(text, "#")
	st.Type, st.Wildcard = strings.CutSuffix(text, ":*")
	return st
}

// rewriteParser reads a rewrite: "direct", the name of a relation, or an
// operator with its operands in parentheses.
type rewriteParser struct {
	text string // the rest to be read
	err  error  // the first error
}

func (p *rewriteParser) skip() { p.text = strings.TrimLeft(p.text, " ") }

// take removes s from the front of the text and reports whether it was there.
func (p *rewriteParser) take(s string) bool {
	p.skip()
	rest, ok := strings.CutPrefix(p.text, s)
	if ok {
		p.text = rest
	}
	return ok
}

// expect is like take, but sets an error if s is not there.
func (p *rewriteParser) expect(s string) {
	if !p.take(s) && p.err == nil {
		p.err = fmt.Errorf("expected %q before %q", s, p.text)
	}
}

func (p *rewriteParser) word() string {
	p.skip()
	i := strings.IndexAny(p.text, "(), ")
	if i < 0 {
		i = len(p.text)
	}
	word := p.text[:i]
	p.text = p.text[i:]
	if word == "" && p.err == nil {
		p.err = fmt.Errorf("expected a name before %q", p.text)
	}
	return word
}

func (p *rewriteParser) rewrite(depth int) schema.Rewrite {
	word := p.word()
	if depth > schema.RewriteDepthMax {
		p.err = fmt.Errorf("rewrite deeper than %d", schema.RewriteDepthMax)
	}
	switch {
	case p.err != nil:
		return schema.Rewrite{}
	case !p.take("("):
		if word == "direct" {
			return schema.Direct()
		}
		return schema.Computed(word)
	}
	r := schema.Rewrite{}
	for op, name := range operatorNames {
		if name != "" && name == word {
			r.Op = schema.Op(op)
		}
	}
	switch r.Op {
	case 0:
		p.err = fmt.Errorf("unknown operator %q", word)
		return r
	case schema.OpAttribute:
		r.Attribute = p.word()
		p.expect(")")
		return r
	case schema.OpRule:
		r.Rule = p.rule()
		return r
	case schema.OpArrow:
		r.Relation = p.word()
		p.expect(",")
	}
	for p.err == nil {
		r.Children = append(r.Children, p.rewrite(depth+1))
		if p.take(")") {
			break
		}
		p.expect(",")
	}
	return r
}

func (p *rewriteParser) rule() *schema.RuleCall {
	call := &schema.RuleCall{Name: p.word()}
	for p.err == nil && !p.take(")") {
		p.expect(",")
		param, value, _ := strings.Cut(p.word(), "=")
		a := schema.RuleArg{Param: param, Attribute: value}
		if name, ok := strings.CutPrefix(value, "$"); ok {
			a.Attribute, a.Context = "", name
		}
		call.Args = append(call.Args, a)
	}
	return call
}
