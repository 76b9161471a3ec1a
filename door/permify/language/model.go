package language

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/schema"
)

// ContextParam is the name under which a rule sees the question's own values:
// context.data.name.
const ContextParam = "context"

// RuleRelation is the relation of an entity that asks a rule by its name,
// with the entity's attributes of the parameters' names as arguments. No
// statement can have that name.
func RuleRelation(rule string) string { return rule + "()" }

// Model checks what the schema means and translates it. An error is an *Error.
// What only an expression library can tell of a rule, schema.Compile does.
//
// Every boolean attribute is a relation of its name, too, so that it can be
// asked; and every rule whose parameters are all attributes of an entity is
// one, under RuleRelation.
func (s *Schema) Model() (*schema.Model, error) {
	if len(s.Entities) == 0 {
		return nil, &Error{Position{1, 1}, "no entity references found in schema", ErrMeaning}
	}
	t := &translation{in: s, entities: map[string]*names{}, rules: map[string]*Rule{}}
	t.declare()
	m := &schema.Model{Options: schema.Options{Dialect: Dialect, StarIsOrdinary: true, UnsetAttributeIsZero: true}}
	for _, e := range s.Entities {
		m.Types = append(m.Types, t.entity(e))
	}
	for _, r := range s.Rules {
		m.Conditions = append(m.Conditions, definition(r))
	}
	if t.err != nil {
		return nil, t.err
	}
	return m, nil
}

// names are an entity's statements by name.
type names struct {
	entity *Entity
	byName map[string]*Statement
}

type translation struct {
	in       *Schema
	entities map[string]*names
	rules    map[string]*Rule
	err      *Error
}

// fail keeps the error that stands first in the text.
func (t *translation) fail(at Position, format string, args ...any) {
	if t.err == nil || !before(t.err.Position, at) {
		t.err = &Error{at, fmt.Sprintf(format, args...), ErrMeaning}
	}
}

func (t *translation) declare() {
	for _, e := range t.in.Entities {
		if t.entities[e.Name] != nil {
			t.fail(e.Position, "duplication found for %s", e.Name)
			continue
		}
		n := &names{e, make(map[string]*Statement, len(e.Statements))}
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
		if args, ok := byName(n, r); ok {
			def.Relations = append(def.Relations, schema.RelationDef{Name: RuleRelation(r.Name),
				Rewrite: schema.Rewrite{Op: schema.OpRule, Rule: &schema.RuleCall{Name: r.Name, Args: args}}})
		}
	}
	return def
}

// byName gives each of a rule's parameters the entity's attribute of its name.
func byName(n *names, r *Rule) ([]schema.RuleArg, bool) {
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
		if !slices.Contains(out, sub) { // the original takes one said twice
			out = append(out, sub)
		}
	}
	return out
}

// rewrite translates an expression. What leans to the left with one operator
// becomes one operation of many operands: a chain is not a depth.
func (t *translation) rewrite(n *names, e *Expr) schema.Rewrite {
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

func (t *translation) leaf(n *names, e *Expr) schema.Rewrite {
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
		t.fail(e.Position, "schema compile: attribute %s of %s is no boolean", st.Name, n.entity.Name)
	}
	return schema.Computed(st.Name)
}

// walk translates "relation.name". The name is looked up in each type that the
// relation may name, whatever the relation of that subject; where a type lacks
// it, nothing comes from there.
func (t *translation) walk(n *names, st *Statement, e *Expr) schema.Rewrite {
	if st.Kind != Relation {
		t.fail(e.Position, "not supported relation walk: %s of %s is no relation", st.Name, n.entity.Name)
		return schema.Rewrite{}
	}
	found := false
	for _, ref := range st.Types {
		target := t.entities[ref.Entity]
		if target == nil {
			continue // said elsewhere
		}
		to := target.byName[e.Path[1]]
		found = found || to != nil
		if to != nil && to.Kind == Attribute && to.Type != "boolean" {
			t.fail(e.Position, "schema compile: attribute %s of %s is no boolean", to.Name, ref.Entity)
		}
	}
	if !found {
		t.fail(e.Position, "undefined relation reference %s in what %s#%s relates", e.Path[1], n.entity.Name, st.Name)
	}
	return schema.Arrow(st.Name, e.Path[1])
}

// call translates a rule's call. Arguments that are just the parameters' names
// are taken by name, any others by position.
func (t *translation) call(n *names, e *Expr) schema.Rewrite {
	r := t.rules[e.Path[0]]
	if r == nil {
		t.fail(e.Position, "undefined rule %s", e.Path[0])
		return schema.Rewrite{}
	}
	if len(e.Args) != len(r.Params) {
		t.fail(e.Position, "rule %s has %d parameters, %d arguments are given", r.Name, len(r.Params), len(e.Args))
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
			t.fail(e.Position, "argument %s of rule %s is no attribute of %s", arg, r.Name, n.entity.Name)
		case st.Type != p.Type:
			t.fail(e.Position, "argument %s of rule %s is %s, its parameter %s is %s", arg, r.Name, st.Type, p.Name, p.Type)
		}
		args = append(args, schema.RuleArg{Param: p.Name, Attribute: arg})
	}
	return schema.Rewrite{Op: schema.OpRule, Rule: &schema.RuleCall{Name: r.Name, Args: args}}
}

func sameNames(args []string, params []Param) bool {
	a := slices.Sorted(slices.Values(args))
	var b []string
	for _, p := range params {
		b = append(b, p.Name)
	}
	slices.Sort(b)
	return slices.Equal(a, b)
}

func definition(r *Rule) expr.Definition {
	d := expr.Definition{Name: r.Name, Source: r.Expression(), Params: []expr.Param{{Name: ContextParam}}}
	for _, p := range r.Params {
		d.Params = append(d.Params, expr.Param{Name: p.Name, Type: p.Type.expr()})
	}
	return d
}

// expr returns the type as conditions know it.
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
