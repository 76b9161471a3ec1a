package acp

import (
	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/schema"
)

// Names of what a policy becomes in the store. No policy can use them: "~" is
// in none of its names.
const (
	// managePrefix stands before a relation's name in the permission to manage it.
	managePrefix = "~"
	// archivedRelation holds the owner of an archived object.
	archivedRelation = "~~archived"
	// nobodyRelation is held by nobody.
	nobodyRelation = "~~nobody"
	// nothingType is the type of no object, which relations without types accept.
	nothingType = "~nothing"
	// unnamedResource is the resource without a name.
	unnamedResource = "~"
)

// typeName is what a resource is called in the policy's schema.
func typeName(resource string) string {
	if resource == "" {
		return unnamedResource
	}
	return resource
}

// model translates the policy into the engine's words.
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

// relationNames are a resource's relations, owner first.
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

// permission translates a permission. In the list dialect the owner comes
// first and stays; the defra specification lets who may write also read.
func (p *Policy) permission(res *Resource, x *Permission) schema.Rewrite {
	r := p.rewrite(res, x.parsed)
	if p.Specification == specDefra && x.Name == "read" {
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

// union joins two rewrites, flat.
func union(a, b schema.Rewrite) schema.Rewrite { return flat(schema.OpUnion, a, b) }

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

// table is what answering needs of a policy: names in the store's words, made
// once.
type table struct {
	record    *PolicyRecord
	actor     string // the actors' full type
	resources map[string]*resourceTable
}

type resourceTable struct {
	typ string // full
	def *Resource
	// ask maps what can be asked (relations, permissions, owner, and in the map
	// dialect the permissions to manage) to its name in the store.
	ask map[string]string
	// manage maps a relation to the permission to manage it.
	manage map[string]string
	// admits are the subject types of each relation.
	admits map[string][]SubjectType
	// owners and archived find an object's owner, and its mark.
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

// resourceName is typeName undone, of a full type of the policy.
func (t *table) resourceName(typ string) string {
	name := typ[len(t.record.ID)+1:]
	if name == unnamedResource {
		return ""
	}
	return name
}
