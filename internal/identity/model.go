package identity

import (
	"strings"

	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// Types and relations of the schema of assignments (decision 0014). A domain and
// the whole system are objects of projectType.
const (
	userType    = "user"
	groupType   = "group"
	roleType    = "role"
	bindingType = "binding"
	projectType = "project"

	memberRelation     = "member"     // of a group: its users
	impliesRelation    = "implies"    // of a role: roles that it implies
	impliedRelation    = "implied"    // of a role: the same, with what those imply
	subjectRelation    = "subject"    // of a binding: users and groups that have it
	bindingRole        = "role"       // of a binding: its role
	parentRelation     = "parent"     // of a project: the project or domain above
	bindingRelation    = "binding"    // of a project: bindings on itself
	treeRelation       = "tree"       // of a project: bindings that hold below it
	aboveRelation      = "above"      // of a project: the tree bindings of its ancestors
	effectiveRelation  = "effective"  // of a project: all bindings that hold on it
	accessibleRelation = "accessible" // of a project: users with any role on it
)

// Model returns the schema of role assignments.
func Model() *schema.Model {
	return &schema.Model{Options: schema.Options{Dialect: "identity"}, Types: []schema.TypeDef{
		{Name: userType},
		{Name: groupType, Relations: []schema.RelationDef{direct(memberRelation, schema.SubjectType{Type: userType})}},
		{Name: roleType, Relations: []schema.RelationDef{
			direct(impliesRelation, schema.SubjectType{Type: roleType}),
			{Name: impliedRelation, Rewrite: union(schema.Computed(impliesRelation), schema.Arrow(impliesRelation, impliedRelation))},
		}},
		{Name: bindingType, Relations: []schema.RelationDef{
			direct(subjectRelation, schema.SubjectType{Type: userType}, schema.SubjectType{Type: groupType, Relation: memberRelation}),
			direct(bindingRole, schema.SubjectType{Type: roleType}),
		}},
		{Name: projectType, Relations: []schema.RelationDef{
			direct(parentRelation, schema.SubjectType{Type: projectType}),
			direct(bindingRelation, schema.SubjectType{Type: bindingType}),
			direct(treeRelation, schema.SubjectType{Type: bindingType}),
			{Name: aboveRelation, Rewrite: union(schema.Arrow(parentRelation, treeRelation), schema.Arrow(parentRelation, aboveRelation))},
			{Name: effectiveRelation, Rewrite: union(schema.Computed(bindingRelation), schema.Computed(aboveRelation))},
			{Name: "tree_subject", Rewrite: schema.Arrow(treeRelation, subjectRelation)},
			{Name: "accessible_above", Rewrite: union(schema.Arrow(parentRelation, "tree_subject"), schema.Arrow(parentRelation, "accessible_above"))},
			{Name: accessibleRelation, Rewrite: union(schema.Arrow(bindingRelation, subjectRelation), schema.Computed("accessible_above"))},
		}},
	}}
}

func direct(name string, subjects ...schema.SubjectType) schema.RelationDef {
	return schema.RelationDef{Name: name, Rewrite: schema.Direct(), Subjects: subjects}
}

func union(children ...schema.Rewrite) schema.Rewrite {
	return schema.Rewrite{Op: schema.OpUnion, Children: children}
}

// binding is the pair of a target and a role, as grants on the target itself or
// as grants that hold below it.
type binding struct {
	target    string // id of a project or domain, or System
	role      string // id of the role
	inherited bool   // the grants hold below the target only
}

// idSeparator separates the parts of a binding's id, and begins [System]. Ids of
// users, groups, roles and projects must not contain it.
const idSeparator = "~"

// inheritedMark ends the id of an inherited binding.
const inheritedMark = idSeparator + "inherited"

// id returns the id of the binding's object.
func (b binding) id() string {
	id := b.target + idSeparator + b.role
	if b.inherited {
		id += inheritedMark
	}
	return id
}

// parseBinding is the inverse of id.
func parseBinding(id string) binding {
	id, inherited := strings.CutSuffix(id, inheritedMark)
	i := strings.LastIndex(id, idSeparator)
	if i < 0 {
		return binding{}
	}
	return binding{id[:i], id[i+1:], inherited}
}

// relation is the relation of the target that the binding is in.
func (b binding) relation() string {
	if b.inherited {
		return treeRelation
	}
	return bindingRelation
}

func object(objectType, id string) rel.Object { return rel.Object{Type: objectType, ID: id} }

func plain(objectType, id string) rel.Subject {
	return rel.Subject{Type: objectType, ID: id}
}

func tuple(o rel.Object, relation string, s rel.Subject) rel.Tuple {
	return rel.Tuple{Object: o, Relation: relation, Subject: s}
}

// structure returns the tuples that connect the binding with its target and its
// role. They stay when the last grant is removed.
func (b binding) structure() []rel.Tuple {
	return []rel.Tuple{
		tuple(object(projectType, b.target), b.relation(), plain(bindingType, b.id())),
		tuple(object(bindingType, b.id()), bindingRole, plain(roleType, b.role)),
	}
}
