package oracle

import (
	"slices"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
)

// permissive returns a model that admits every tuple and attribute of a
// history: the version of the schema under which the stale ones were written.
func permissive(m *schema.Model, h History) *schema.Model {
	p := &schema.Model{Conditions: slices.Clone(m.Conditions)}
	p.Options.StarIsOrdinary = m.Options.StarIsOrdinary
	for i := range p.Conditions {
		p.Conditions[i] = anyCondition(p.Conditions[i].Name)
	}
	for _, changes := range h.Revisions {
		for _, c := range changes {
			switch c.Kind {
			case storage.TupleAdd:
				admit(p, c.Tuple)
			case storage.AttributeSet:
				typeNamed(p, c.Attribute.Object.Type)
			}
		}
	}
	if len(p.Types) == 0 {
		typeNamed(p, "user")
	}
	return p
}

func admit(p *schema.Model, t rel.Tuple) {
	st := schema.SubjectType{Type: t.Subject.Type, Relation: t.Subject.Relation, Condition: t.Condition,
		Wildcard: t.Subject.IsWildcard() && !p.Options.StarIsOrdinary}
	if named := func(d expr.Definition) bool { return d.Name == t.Condition }; t.Condition != "" && !slices.ContainsFunc(p.Conditions, named) {
		p.Conditions = append(p.Conditions, anyCondition(t.Condition))
	}
	typeNamed(p, t.Subject.Type)
	if t.Subject.Relation != "" {
		relationNamed(p, t.Subject.Type, t.Subject.Relation)
	}
	if r := relationNamed(p, t.Object.Type, t.Relation); !slices.Contains(r.Subjects, st) {
		r.Subjects = append(r.Subjects, st)
	}
}

func typeNamed(p *schema.Model, name string) *schema.TypeDef {
	i := slices.IndexFunc(p.Types, func(t schema.TypeDef) bool { return t.Name == name })
	if i < 0 {
		i = len(p.Types)
		p.Types = append(p.Types, schema.TypeDef{Name: name, Attributes: attributeDefs})
	}
	return &p.Types[i]
}

// relationNamed finds a relation or makes one, direct, of its own type's
// plain objects.
func relationNamed(p *schema.Model, typ, name string) *schema.RelationDef {
	t := typeNamed(p, typ)
	i := slices.IndexFunc(t.Relations, func(r schema.RelationDef) bool { return r.Name == name })
	if i < 0 {
		i = len(t.Relations)
		t.Relations = append(t.Relations, schema.RelationDef{Name: name, Rewrite: schema.Direct(),
			Subjects: []schema.SubjectType{{Type: typ}}})
	}
	return &t.Relations[i]
}

// anyCondition takes every parameter of the worlds, of any type: a tuple may
// bring more than its own version's condition reads.
func anyCondition(name string) expr.Definition {
	def := expr.Definition{Name: name, Source: "ok", Params: []expr.Param{{Name: "ok", Type: expr.Type{Kind: expr.Bool}}}}
	for _, p := range parameters {
		def.Params = append(def.Params, expr.Param{Name: p.Name})
	}
	return def
}
