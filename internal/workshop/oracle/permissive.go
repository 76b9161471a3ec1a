package oracle

import (
	"slices"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
)

// permissiveModel returns a model that admits every tuple and attribute of a
// history, including the stale ones. A history is written under this model.
func permissiveModel(m *schema.Model, h History) *schema.Model {
	p := &schema.Model{Conditions: slices.Clone(m.Conditions)}
	p.Options.StarIsOrdinary = m.Options.StarIsOrdinary
	for i := range p.Conditions {
		p.Conditions[i] = permissiveCondition(p.Conditions[i].Name)
	}
	for _, changes := range h.Revisions {
		for _, c := range changes {
			switch c.Kind {
			case storage.TupleAdd:
				admitTuple(p, c.Tuple)
			case storage.AttributeSet:
				ensureType(p, c.Attribute.Object.Type)
			}
		}
	}
	if len(p.Types) == 0 {
		ensureType(p, "user")
	}
	return p
}

// admitTuple adds the types, relations and restrictions that the model needs to admit t.
func admitTuple(p *schema.Model, t rel.Tuple) {
	st := schema.SubjectType{Type: t.Subject.Type, Relation: t.Subject.Relation, Condition: t.Condition,
		Wildcard: t.Subject.IsWildcard() && !p.Options.StarIsOrdinary}
	if named := func(d expr.Definition) bool { return d.Name == t.Condition }; t.Condition != "" && !slices.ContainsFunc(p.Conditions, named) {
		p.Conditions = append(p.Conditions, permissiveCondition(t.Condition))
	}
	ensureType(p, t.Subject.Type)
	if t.Subject.Relation != "" {
		ensureRelation(p, t.Subject.Type, t.Subject.Relation)
	}
	if r := ensureRelation(p, t.Object.Type, t.Relation); !slices.Contains(r.Subjects, st) {
		r.Subjects = append(r.Subjects, st)
	}
}

// ensureType returns the type with a name, and adds it if necessary.
func ensureType(p *schema.Model, name string) *schema.TypeDef {
	i := slices.IndexFunc(p.Types, func(t schema.TypeDef) bool { return t.Name == name })
	if i < 0 {
		i = len(p.Types)
		p.Types = append(p.Types, schema.TypeDef{Name: name, Attributes: attributeDefs})
	}
	return &p.Types[i]
}

// ensureRelation returns a relation of a type. If necessary, it adds a direct
// one that admits plain objects of the same type.
func ensureRelation(p *schema.Model, typ, name string) *schema.RelationDef {
	t := ensureType(p, typ)
	i := slices.IndexFunc(t.Relations, func(r schema.RelationDef) bool { return r.Name == name })
	if i < 0 {
		i = len(t.Relations)
		t.Relations = append(t.Relations, schema.RelationDef{Name: name, Rewrite: schema.Direct(),
			Subjects: []schema.SubjectType{{Type: typ}}})
	}
	return &t.Relations[i]
}

// permissiveCondition returns a condition with all parameters of the worlds, of
// any type, since a stale tuple may store values that the model's own condition
// does not read.
func permissiveCondition(name string) expr.Definition {
	def := expr.Definition{Name: name, Source: "ok", Params: []expr.Param{{Name: "ok", Type: expr.Type{Kind: expr.Bool}}}}
	for _, p := range parameters {
		def.Params = append(def.Params, expr.Param{Name: p.Name})
	}
	return def
}
