package language

import (
	"errors"
	"fmt"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/schema"
)

// ErrInexpressible is the kind of errors about models that this language cannot
// express.
var ErrInexpressible = errors.New("cannot be expressed in Permify's language")

// Format returns a model as text in this language. It fails with an error of
// kind [ErrInexpressible] if the language cannot express the model. It can
// express every model that [Schema.Model] returns.
func Format(m *schema.Model) (string, error) {
	s := &Schema{}
	p := &formatter{model: m}
	for i := range m.Types {
		s.Entities = append(s.Entities, p.entity(&m.Types[i]))
	}
	for _, d := range m.Conditions {
		s.Rules = append(s.Rules, p.rule(d))
	}
	if p.err != nil {
		return "", p.err
	}
	return s.String(), nil
}

// formatter translates a model into a Schema.
type formatter struct {
	model *schema.Model
	// err is the first error.
	err error
}

// fail records the first error.
func (p *formatter) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("%w: %s", ErrInexpressible, fmt.Sprintf(format, args...))
	}
}

// name returns s, and fails if s is not a valid name in the language.
func (p *formatter) name(s string) string {
	l := lexer{src: s, line: 1}
	if t := l.next(); t.kind != ident || t.text != s || len(s) > nameBytesMax {
		p.fail("the name %q", s)
	}
	return s
}

// entity translates a type.
func (p *formatter) entity(t *schema.TypeDef) *Entity {
	e := &Entity{Name: p.name(t.Name)}
	attributes := map[string]bool{}
	for _, a := range t.Attributes {
		attributes[a.Name] = true
		e.Statements = append(e.Statements, Statement{Kind: Attribute, Name: p.name(a.Name), Type: p.attributeType(a.Type)})
	}
	for i := range t.Relations {
		r := &t.Relations[i]
		switch {
		case attributes[r.Name]:
			if r.Rewrite.Op != schema.OpAttribute || r.Rewrite.Attribute != r.Name {
				p.fail("%s#%s is both a relation and an attribute", t.Name, r.Name)
			}
		case r.Rewrite.Op == schema.OpRule && r.Name == RuleRelation(r.Rewrite.Rule.Name):
		case r.Rewrite.Op == schema.OpDirect:
			e.Statements = append(e.Statements, Statement{Kind: Relation, Name: p.name(r.Name), Types: p.typeRefs(t, r)})
		default:
			e.Statements = append(e.Statements, Statement{Kind: Permission, Name: p.name(r.Name), Expr: p.expression(&r.Rewrite)})
		}
	}
	return e
}

// typeRefs translates the subject types of a relation.
func (p *formatter) typeRefs(t *schema.TypeDef, r *schema.RelationDef) []TypeRef {
	var out []TypeRef
	for _, s := range r.Subjects {
		if s.Wildcard || s.Condition != "" {
			p.fail("%s#%s has subjects of the kind %s", t.Name, r.Name, s)
		}
		ref := TypeRef{Entity: p.name(s.Type)}
		if s.Relation != "" {
			ref.Relation = p.name(s.Relation)
		}
		out = append(out, ref)
	}
	return out
}

var operators = map[schema.Op]Op{schema.OpUnion: Or, schema.OpIntersection: And, schema.OpExclusion: Not}

func (p *formatter) expression(r *schema.Rewrite) *Expr {
	switch r.Op {
	case schema.OpUnion, schema.OpIntersection, schema.OpExclusion:
		e := p.expression(&r.Children[0])
		for i := range r.Children[1:] {
			e = &Expr{Op: operators[r.Op], Left: e, Right: p.expression(&r.Children[i+1])}
		}
		return e
	case schema.OpComputed:
		return &Expr{Path: []string{p.name(r.Relation)}}
	case schema.OpAttribute:
		return &Expr{Path: []string{p.name(r.Attribute)}}
	case schema.OpArrow:
		if r.Children[0].Op != schema.OpComputed {
			p.fail("an expression after %s in an arrow", r.Relation)
			return &Expr{}
		}
		return &Expr{Path: []string{p.name(r.Relation), p.name(r.Children[0].Relation)}}
	case schema.OpRule:
		return p.call(r.Rule)
	}
	p.fail("a relation that is both assignable and computed")
	return &Expr{}
}

// call translates a call of a rule. Its arguments are in the order of the
// parameters.
func (p *formatter) call(c *schema.RuleCall) *Expr {
	e := &Expr{Path: []string{p.name(c.Name)}, Args: []string{}}
	given := map[string]string{}
	renamed := false // true if the name of an argument differs from the name of its parameter
	for _, a := range c.Args {
		if a.Context == ContextParam && a.Param == ContextParam {
			continue
		}
		if a.Attribute == "" {
			p.fail("rule %s reads %s from the context", c.Name, a.Param)
		}
		given[a.Param] = a.Attribute
		renamed = renamed || a.Param != a.Attribute
	}
	for _, d := range p.model.Conditions {
		if d.Name != c.Name {
			continue
		}
		for _, param := range d.Params {
			if param.Name == ContextParam {
				continue
			}
			if given[param.Name] == "" {
				p.fail("a call of rule %s without argument %s", c.Name, param.Name)
			}
			e.Args = append(e.Args, given[param.Name])
		}
		if renamed && matchedByName(e.Args, d.Params) {
			p.fail("a call of rule %s with the names of the parameters as arguments, but in another order", c.Name)
		}
	}
	if len(e.Args) == 0 {
		p.fail("a call of rule %s without arguments", c.Name)
	}
	return e
}

// matchedByName reports whether a call with these arguments matches them by
// name.
func matchedByName(args []string, params []expr.Param) bool {
	var own []Param
	for _, p := range params {
		if p.Name != ContextParam {
			own = append(own, Param{Name: p.Name})
		}
	}
	return sameNames(args, own)
}

// rule translates a condition.
func (p *formatter) rule(d expr.Definition) *Rule {
	r := &Rule{Name: p.name(d.Name), Body: d.Source}
	for _, param := range d.Params {
		if param.Name != ContextParam {
			r.Params = append(r.Params, Param{Name: p.name(param.Name), Type: p.attributeType(param.Type)})
		}
	}
	if len(r.Params) == 0 {
		p.fail("condition %s without parameters", d.Name)
	}
	return r
}

// attributeType translates the type of an attribute.
func (p *formatter) attributeType(t expr.Type) AttributeType {
	base := t
	suffix := ""
	if t.Kind == expr.List && t.Elem != nil {
		base, suffix = *t.Elem, "[]"
	}
	switch base.Kind {
	case expr.Bool:
		return AttributeType("boolean" + suffix)
	case expr.String:
		return AttributeType("string" + suffix)
	case expr.Int:
		return AttributeType("integer" + suffix)
	case expr.Double:
		return AttributeType("double" + suffix)
	}
	p.fail("the type %s", t)
	return ""
}
