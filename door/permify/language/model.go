package language

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/schema"
)

// ContextParam is the name by which a rule reads the context of the request, as
// in context.data.name.
const ContextParam = "context"

// RuleRelation returns the name of the relation that evaluates a rule on an
// entity. The rule's arguments are the entity's attributes with the names of
// the parameters. The name ends with "()", so no statement can have it.
func RuleRelation(rule string) string { return rule + "()" }

// Model translates the schema. It checks names and types, and returns an
// *[Error] for the mistake that comes first in the text. It does not check the
// expressions of rules; schema.Compile does.
//
// The model has relations that are not in the text, so that a check can name
// more than relations and permissions: one for each boolean attribute, with the
// attribute's name, and one for each rule whose parameters are all attributes
// of the entity, named by [RuleRelation].
func (s *Schema) Model() (*schema.Model, error) {
	m, mistakes := s.translate()
	if len(mistakes) > 0 {
		return nil, mistakes[0]
	}
	return m, nil
}

// mistakesMax bounds the mistakes that [Schema.Mistakes] returns.
const mistakesMax = 20

// Mistakes returns the mistakes of names and types in the order of the text, at most
// mistakesMax. [Schema.Model] fails with the first of them.
func (s *Schema) Mistakes() []*Error {
	_, mistakes := s.translate()
	return mistakes[:min(len(mistakes), mistakesMax)]
}

// translate returns the model, and all mistakes in the order of the text.
func (s *Schema) translate() (*schema.Model, []*Error) {
	if len(s.Entities) == 0 {
		return nil, []*Error{{Position{1, 1}, "no entity references found in schema", ErrSemantics}}
	}
	t := &translation{in: s, entities: map[string]*scope{}, rules: map[string]*Rule{}}
	t.declare()
	m := &schema.Model{Options: schema.Options{Dialect: Dialect, StarIsOrdinary: true, UnsetAttributeIsZero: true}}
	for _, e := range s.Entities {
		m.Types = append(m.Types, t.entity(e))
	}
	for _, r := range s.Rules {
		m.Conditions = append(m.Conditions, definition(r))
	}
	slices.SortStableFunc(t.mistakes, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	// A walk has the same mistake for each subject type of its relation.
	return m, slices.CompactFunc(t.mistakes, func(a, b *Error) bool { return *a == *b })
}

// scope is an entity with its statements by name.
type scope struct {
	entity *Entity
	byName map[string]*Statement
}

// translation is the state of translate.
type translation struct {
	// in is the parsed schema.
	in       *Schema
	entities map[string]*scope
	rules    map[string]*Rule
	mistakes []*Error
}

// fail records a mistake.
func (t *translation) fail(at Position, format string, args ...any) {
	t.mistakes = append(t.mistakes, &Error{at, fmt.Sprintf(format, args...), ErrSemantics})
}

// declare collects all names, and reports duplicates.
func (t *translation) declare() {
	for _, e := range t.in.Entities {
		if t.entities[e.Name] != nil {
			t.fail(e.Position, "duplication found for %s", e.Name)
			continue
		}
		n := &scope{e, make(map[string]*Statement, len(e.Statements))}
		t.entities[e.Name] = n
		for i := range e.Statements {
			st := &e.Statements[i]
			if n.byName[st.Name] != nil {
				t.fail(st.Position, "duplication found for %s#%s", e.Name, st.Name)
				continue
			}
			n.byName[st.Name] = st
		}
	}
	for _, r := range t.in.Rules {
		if t.rules[r.Name] != nil {
			t.fail(r.Position, "duplication found for %s", r.Name)
		}
		t.rules[r.Name] = r
		t.params(r)
	}
}

// params checks the parameters of a rule.
func (t *translation) params(r *Rule) {
	for i, p := range r.Params {
		if p.Name == ContextParam {
			t.fail(p.Position, "a parameter must not be named %s", ContextParam)
		}
		if slices.ContainsFunc(r.Params[:i], func(o Param) bool { return o.Name == p.Name }) {
			t.fail(p.Position, "duplication found for %s of %s", p.Name, r.Name)
		}
	}
}

// entity translates an entity.
func (t *translation) entity(e *Entity) schema.TypeDef {
	def := schema.TypeDef{Name: e.Name}
	n := t.entities[e.Name]
	for i := range e.Statements {
		st := &e.Statements[i]
		rel := schema.RelationDef{Name: st.Name}
		switch st.Kind {
		case Relation:
			rel.Rewrite = schema.Direct()
			rel.Subjects = t.subjects(e, st)
		case Attribute:
			def.Attributes = append(def.Attributes, schema.AttributeDef{Name: st.Name, Type: st.Type.expr()})
			if st.Type != "boolean" {
				continue
			}
			rel.Rewrite = schema.Rewrite{Op: schema.OpAttribute, Attribute: st.Name}
		case Permission:
			rel.Rewrite = t.rewrite(n, st.Expr)
		}
		def.Relations = append(def.Relations, rel)
	}
	for _, r := range t.in.Rules {
		if args, ok := argsByName(n, r); ok {
			def.Relations = append(def.Relations, schema.RelationDef{Name: RuleRelation(r.Name),
				Rewrite: schema.Rewrite{Op: schema.OpRule, Rule: &schema.RuleCall{Name: r.Name, Args: args}}})
		}
	}
	return def
}

// argsByName returns the arguments of a rule if each is the entity's attribute
// with the parameter's name. It returns false if the entity lacks one of these
// attributes.
func argsByName(n *scope, r *Rule) ([]schema.RuleArg, bool) {
	args := []schema.RuleArg{{Param: ContextParam, Context: ContextParam}}
	for _, p := range r.Params {
		st := n.byName[p.Name]
		if st == nil || st.Kind != Attribute || st.Type != p.Type {
			return nil, false
		}
		args = append(args, schema.RuleArg{Param: p.Name, Attribute: p.Name})
	}
	return args, true
}

// subjects translates the subject types of a relation.
func (t *translation) subjects(e *Entity, st *Statement) []schema.SubjectType {
	var out []schema.SubjectType
	for _, ref := range st.Types {
		target := t.entities[ref.Entity]
		if target == nil {
			t.fail(ref.Position, "undefined entity %s in %s#%s", ref.Entity, e.Name, st.Name)
			continue
		}
		if ref.Relation != "" {
			if r := target.byName[ref.Relation]; r == nil || r.Kind != Relation {
				t.fail(ref.Position, "undefined relation %s#%s in %s#%s", ref.Entity, ref.Relation, e.Name, st.Name)
				continue
			}
		}
		sub := schema.SubjectType{Type: ref.Entity, Relation: ref.Relation}
		if !slices.Contains(out, sub) { // the original accepts duplicates
			out = append(out, sub)
		}
	}
	return out
}

// rewrite translates an expression. A chain of one operator becomes one
// operation with many operands, so that long chains do not nest deeply.
func (t *translation) rewrite(n *scope, e *Expr) schema.Rewrite {
	if e.Op == Leaf {
		return t.leaf(n, e)
	}
	operands := []*Expr{e.Right}
	left := e.Left
	for left.Op == e.Op {
		operands = append(operands, left.Right)
		left = left.Left
	}
	first := t.rewrite(n, left)
	rest := make([]schema.Rewrite, 0, len(operands))
	for _, o := range slices.Backward(operands) {
		rest = append(rest, t.rewrite(n, o))
	}
	switch e.Op {
	case And:
		return schema.Intersection(append([]schema.Rewrite{first}, rest...)...)
	case Or:
		return schema.Union(append([]schema.Rewrite{first}, rest...)...)
	}
	if len(rest) == 1 { // a not b not c is a but not (b or c)
		return schema.Exclusion(first, rest[0])
	}
	return schema.Exclusion(first, schema.Union(rest...))
}

// leaf translates an expression without an operator.
func (t *translation) leaf(n *scope, e *Expr) schema.Rewrite {
	if e.Args != nil {
		return t.call(n, e)
	}
	st := n.byName[e.Path[0]]
	if st == nil {
		t.fail(e.Position, "undefined relation reference %s in %s", e.Path[0], n.entity.Name)
		return schema.Rewrite{}
	}
	if len(e.Path) == 2 {
		return t.walk(n, st, e)
	}
	if st.Kind == Attribute && st.Type != "boolean" {
		t.fail(e.Position, "schema compile: attribute %s of %s is not a boolean", st.Name, n.entity.Name)
	}
	return schema.Computed(st.Name)
}

// walk translates "relation.name". It looks up the name in every subject type
// of the relation; the relation of a subject type such as group#member does not
// matter. Subject types without the name contribute nothing, but at least one
// must have it.
func (t *translation) walk(n *scope, st *Statement, e *Expr) schema.Rewrite {
	if st.Kind != Relation {
		t.fail(e.Position, "not supported relation walk: %s of %s is not a relation", st.Name, n.entity.Name)
		return schema.Rewrite{}
	}
	found := false
	for _, ref := range st.Types {
		target := t.entities[ref.Entity]
		if target == nil {
			continue // subjects reports it
		}
		to := target.byName[e.Path[1]]
		found = found || to != nil
		if to != nil && to.Kind == Attribute && to.Type != "boolean" {
			t.fail(e.Position, "schema compile: attribute %s of %s is not a boolean", to.Name, ref.Entity)
		}
	}
	if !found {
		t.fail(e.Position, "undefined relation reference %s in the subject types of %s#%s", e.Path[1], n.entity.Name, st.Name)
	}
	return schema.Arrow(st.Name, e.Path[1])
}

// call translates a call of a rule. If the arguments are exactly the names of
// the parameters, in any order, they are matched by name, else by position.
func (t *translation) call(n *scope, e *Expr) schema.Rewrite {
	r := t.rules[e.Path[0]]
	if r == nil {
		t.fail(e.Position, "undefined rule %s", e.Path[0])
		return schema.Rewrite{}
	}
	if len(e.Args) != len(r.Params) {
		t.fail(e.Position, "rule %s expects %d argument(s), found %d", r.Name, len(r.Params), len(e.Args))
		return schema.Rewrite{}
	}
	named := sameNames(e.Args, r.Params)
	args := []schema.RuleArg{{Param: ContextParam, Context: ContextParam}}
	for i, p := range r.Params {
		arg := e.Args[i]
		if named {
			arg = p.Name
		}
		st := n.byName[arg]
		switch {
		case st == nil || st.Kind != Attribute:
			t.fail(e.Position, "argument %s of rule %s is not an attribute of %s", arg, r.Name, n.entity.Name)
		case st.Type != p.Type:
			t.fail(e.Position, "argument %s of rule %s has type %s, expected %[5]s for parameter %[4]s", arg, r.Name, st.Type, p.Name, p.Type)
		}
		args = append(args, schema.RuleArg{Param: p.Name, Attribute: arg})
	}
	return schema.Rewrite{Op: schema.OpRule, Rule: &schema.RuleCall{Name: r.Name, Args: args}}
}

// sameNames reports whether args are exactly the names of params, in any order.
func sameNames(args []string, params []Param) bool {
	a := slices.Sorted(slices.Values(args))
	var b []string
	for _, p := range params {
		b = append(b, p.Name)
	}
	slices.Sort(b)
	return slices.Equal(a, b)
}

// definition translates a rule.
func definition(r *Rule) expr.Definition {
	d := expr.Definition{Name: r.Name, Source: r.Expression(), Params: []expr.Param{{Name: ContextParam}}}
	for _, p := range r.Params {
		d.Params = append(d.Params, expr.Param{Name: p.Name, Type: p.Type.expr()})
	}
	return d
}

// expr returns the type for expressions.
func (a AttributeType) expr() expr.Type {
	base, list := strings.CutSuffix(string(a), "[]")
	t := expr.Type{Kind: map[string]expr.Kind{
		"boolean": expr.Bool, "string": expr.String, "integer": expr.Int, "double": expr.Double}[base]}
	if list {
		return expr.Type{Kind: expr.List, Elem: &t}
	}
	return t
}

// List returns the type of an element, and whether the type is a list.
func (a AttributeType) List() (AttributeType, bool) {
	base, list := strings.CutSuffix(string(a), "[]")
	return AttributeType(base), list
}
