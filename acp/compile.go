package acp

import (
	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/schema"
)

// Names that the compiler adds to a policy's schema. They contain "~", which a
// name in a policy cannot contain.
const (
	// managePrefix and a relation's name make the name of the permission to manage
	// that relation.
	managePrefix = "~"
	// archivedRelation holds the owner of an archived object.
	archivedRelation = "~~archived"
	// nobodyRelation has no tuples, so it grants nothing.
	nobodyRelation = "~~nobody"
	// nothingType has no objects. Relations without types admit only this type.
	nothingType = "~nothing"
	// unnamedResource is the type of the resource whose name is empty.
	unnamedResource = "~"
)

// typeName returns the name of a resource's type in the policy's schema.
func typeName(resource string) string {
	if resource == "" {
		return unnamedResource
	}
	return resource
}

// model translates the policy into a schema model.
func (p *Policy) model(namespace string) *schema.Model {
	m := &schema.Model{Namespace: namespace, Options: schema.Options{Dialect: "acp-" + p.Dialect.String()}}
	m.Types = append(m.Types, schema.TypeDef{Name: nothingType})
	actor := schema.TypeDef{Name: p.Actor.Name}
	for i := range p.Actor.Relations {
		actor.Relations = append(actor.Relations, p.direct(&p.Actor.Relations[i]))
	}
	m.Types = append(m.Types, actor)
	for i := range p.Resources {
		m.Types = append(m.Types, p.resourceType(&p.Resources[i]))
	}
	return m
}

func (p *Policy) resourceType(res *Resource) schema.TypeDef {
	actors := []schema.SubjectType{{Type: p.Actor.Name}}
	t := schema.TypeDef{Name: typeName(res.Name)}
	add := func(name string, r schema.Rewrite, subjects []schema.SubjectType) {
		t.Relations = append(t.Relations, schema.RelationDef{Name: name, Rewrite: r, Subjects: subjects})
	}
	add(ownerRelation, schema.Direct(), actors)
	add(archivedRelation, schema.Direct(), actors)
	add(nobodyRelation, schema.Direct(), []schema.SubjectType{{Type: nothingType}})
	for i := range res.Relations {
		if x := &res.Relations[i]; x.Name != ownerRelation {
			t.Relations = append(t.Relations, p.direct(x))
		}
	}
	for _, managed := range res.relationNames() {
		r := schema.Rewrite{Op: schema.OpUnion, Children: []schema.Rewrite{schema.Computed(ownerRelation)}}
		for i := range res.Relations {
			x := &res.Relations[i]
			for _, m := range x.Manages {
				if m == managed && x.Name != ownerRelation {
					r.Children = append(r.Children, schema.Computed(x.Name))
				}
			}
		}
		add(managePrefix+managed, r, nil)
	}
	for i := range res.Permissions {
		add(res.Permissions[i].Name, p.permission(res, &res.Permissions[i]), nil)
	}
	return t
}

// relationNames returns the names of a resource's relations, owner first.
func (res *Resource) relationNames() []string {
	names := []string{ownerRelation}
	for i := range res.Relations {
		if n := res.Relations[i].Name; n != ownerRelation {
			names = append(names, n)
		}
	}
	return names
}

// direct translates a relation.
func (p *Policy) direct(x *Relation) schema.RelationDef {
	d := schema.RelationDef{Name: x.Name, Rewrite: schema.Direct()}
	for _, t := range x.Types {
		s := schema.SubjectType{Type: typeName(t.Resource), Relation: t.Relation}
		if t.Resource == p.Actor.Name {
			s.Type = p.Actor.Name
		}
		d.Subjects = append(d.Subjects, s)
		if t.Resource == p.Actor.Name && t.Relation == "" {
			d.Subjects = append(d.Subjects, schema.SubjectType{Type: p.Actor.Name, Wildcard: true})
		}
	}
	if len(d.Subjects) == 0 {
		d.Subjects = []schema.SubjectType{{Type: nothingType}}
	}
	return d
}

// permission translates a permission. In the list dialect the owner always has
// it. With the defra specification, everyone who may write may also read.
func (p *Policy) permission(res *Resource, x *Permission) schema.Rewrite {
	r := p.rewrite(res, x.parsed)
	if p.writersRead(x) {
		r = union(schema.Computed("write"), r)
	}
	if p.Dialect == DialectList {
		if x.parsed.op == exprNobody && r.Op == schema.OpComputed {
			return schema.Computed(ownerRelation)
		}
		r = union(schema.Computed(ownerRelation), r)
	}
	return r
}

// union returns the union of two rewrites.
func union(a, b schema.Rewrite) schema.Rewrite { return flat(schema.OpUnion, a, b) }

// flat joins two rewrites by op, and merges the children of operands that have
// the same op.
func flat(op schema.Op, a, b schema.Rewrite) schema.Rewrite {
	out := schema.Rewrite{Op: op}
	for _, x := range [...]schema.Rewrite{a, b} {
		if x.Op == op {
			out.Children = append(out.Children, x.Children...)
		} else {
			out.Children = append(out.Children, x)
		}
	}
	return out
}

func (p *Policy) rewrite(res *Resource, e *expression) schema.Rewrite {
	switch e.op {
	case exprName:
		return schema.Computed(e.name)
	case exprArrow:
		if !p.leads(res, e) {
			return schema.Computed(nobodyRelation)
		}
		return schema.Arrow(e.name, e.target)
	case exprUnion:
		return flat(schema.OpUnion, p.rewrite(res, e.left), p.rewrite(res, e.right))
	case exprIntersect:
		return flat(schema.OpIntersection, p.rewrite(res, e.left), p.rewrite(res, e.right))
	case exprExclude:
		return schema.Exclusion(p.rewrite(res, e.left), p.rewrite(res, e.right))
	}
	return schema.Computed(nobodyRelation)
}

// table maps a policy's names to the store's names.
type table struct {
	record    *PolicyRecord
	schema    string                    // id of the schema of the policy
	actor     string                    // the actor type's full name
	resources map[string]*resourceTable // by the resource's name
}

// resourceTable maps the names of one resource to the store's names.
type resourceTable struct {
	typ string // the type's full name, "policy/resource"
	def *Resource
	// ask maps the names that a check accepts to the store's names: relations,
	// permissions, owner, and in the map dialect the permissions to manage.
	ask map[string]string
	// manage maps a relation to the permission to manage it.
	manage map[string]string
	// admits are the subject types of each relation.
	admits map[string][]SubjectType
	// owners finds an object's owner, archived the owner of an archived object.
	owners, archived *ostiary.SubjectLookup
}

func newTable(s *ostiary.Store, rec *PolicyRecord) *table {
	t := &table{record: rec, actor: rec.ID + "/" + rec.Actor.Name, resources: map[string]*resourceTable{}}
	for i := range rec.Resources {
		res := &rec.Resources[i]
		r := &resourceTable{typ: rec.ID + "/" + typeName(res.Name), def: res,
			ask: map[string]string{}, manage: map[string]string{}, admits: map[string][]SubjectType{}}
		r.owners, r.archived = s.SubjectLookup(r.typ, ownerRelation, t.actor), s.SubjectLookup(r.typ, archivedRelation, t.actor)
		for _, name := range res.relationNames() {
			r.ask[name] = name
			r.manage[name] = managePrefix + name
			if rec.Dialect == DialectMap {
				r.ask["_can_manage_"+name] = managePrefix + name
			}
		}
		for j := range res.Relations {
			r.admits[res.Relations[j].Name] = res.Relations[j].Types
		}
		for j := range res.Permissions {
			r.ask[res.Permissions[j].Name] = res.Permissions[j].Name
		}
		t.resources[res.Name] = r
	}
	return t
}

// resourceName returns the resource of a full type name. It reverses [typeName].
func (t *table) resourceName(typ string) string {
	name := typ[len(t.record.ID)+1:]
	if name == unnamedResource {
		return ""
	}
	return name
}
