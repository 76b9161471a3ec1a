package acp

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Dialect is a policy language.
type Dialect uint8

const (
	// DialectAuto is the map dialect if resources is a mapping, else the list
	// dialect.
	DialectAuto Dialect = iota
	// DialectList is the current dialect. Resources, relations and permissions are
	// lists, and every resource has an owner that no expression can exclude.
	DialectList
	// DialectMap is the older dialect. Resources, relations and permissions are
	// mappings by name. The author defines the relation owner, and an owner has only
	// what the policy's expressions grant.
	DialectMap
)

// String returns "auto", "list" or "map".
func (d Dialect) String() string { return [...]string{"auto", "list", "map"}[min(d, 2)] }

// Policy is a parsed policy.
type Policy struct {
	// Name and Description are the policy's fields of that name.
	Name, Description string
	// Dialect is the language that the policy is written in.
	Dialect Dialect
	// Specification is "none" or "defra". In the map dialect a text cannot have one;
	// PolicySource.Specification can.
	Specification string
	// Meta is the metadata in the policy's text.
	Meta map[string]string
	// Actor is the type of actors. Its relations cannot be set.
	Actor ActorType
	// Resources are in the order of the text, in the map dialect in order of name.
	Resources []Resource
	// Warnings lists what is accepted but probably a mistake. Their kind is
	// ErrInvalidPolicy.
	Warnings []*PolicyError
}

// ActorType is the type of actors in a policy.
type ActorType struct {
	// Name is the type's name; the default is "actor".
	Name string
	// Doc is the author's description.
	Doc string
	// Relations are the actor's relations. They can only be used in types.
	Relations []Relation
}

// Resource is a kind of object in a policy.
type Resource struct {
	// Name and Description are the resource's fields of that name.
	Name, Description string
	// Relations are the stored relations; Permissions are computed from them.
	Relations []Relation
	// Permissions are in the order of the text.
	Permissions []Permission
}

// Relation is a relation of a resource, which relationships can set.
type Relation struct {
	// Name is unique in the resource.
	Name string
	// Doc is the author's description.
	Doc string
	// Manages names the relations whose relationships the members of this relation
	// may set and delete.
	Manages []string
	// Types are the admitted subjects: "actor", a resource, or
	// "resource->relation". A relation without types admits none.
	Types []SubjectType

	line, column int
}

// SubjectType is one admitted type of a relation's subjects.
type SubjectType struct {
	// Resource is a resource's name, or the actor's name.
	Resource string
	// Relation is the relation of a subject set. It is "" for objects, actors and
	// all actors.
	Relation string
}

// String returns "resource" or "resource->relation".

func (t SubjectType) String() string {
	if t.Relation == "" {
		return t.Resource
	}
	return t.Resource + "->" + t.Relation
}

// Permission is a permission of a resource, computed from relations.
type Permission struct {
	// Name is unique among the resource's permissions and relations.
	Name string
	// Doc is the author's description.
	Doc string
	// Expression is the expression as the author wrote it.
	Expression string

	parsed       *expression
	line, column int
}

// PolicyRecord is a policy that is stored in an engine.
type PolicyRecord struct {
	// ID has 64 hexadecimal digits and equals the id that acp_core computes.
	ID string
	// Policy is the parsed policy.
	Policy
	// Source is the policy's text.
	Source string
	// Creator is the creator's DID, or "" for a policy that [Root] created.
	Creator string
	// Metadata is PolicySource.Metadata; see Engine.EditPolicyMetadata.
	Metadata map[string]string
	// Created and Modified are the times of the creation and of the last edit.
	Created, Modified time.Time
}

// Names that have a special meaning in policies.
const (
	ownerRelation = "owner"
	actorName     = "actor"
	// specDefra is DefraDB's specification: every resource has the permissions read
	// and write, and everyone who may write may also read.
	specNone, specDefra = "none", "defra"
)

// ID returns the policy's id as the policy with the number counter of a collection.
// [Engine.CreatePolicy] documents the numbers.
// Descriptions, types, manages and metadata do not influence the id.
func (p *Policy) ID(counter uint64) string {
	h := sha256.New()
	h.Write([]byte(p.Name))
	for _, r := range sortedBy(p.Resources, func(r Resource) string { return r.Name }) {
		h.Write([]byte(r.Name))
		for _, x := range sortedBy(r.Relations, func(x Relation) string { return x.Name }) {
			h.Write([]byte(x.Name))
		}
		for _, x := range sortedBy(r.Permissions, func(x Permission) string { return x.Name }) {
			h.Write([]byte(x.Name))
			h.Write([]byte(x.Expression))
		}
	}
	outer := sha256.New()
	outer.Write(h.Sum(nil))
	outer.Write([]byte(strconv.FormatUint(counter, 10)))
	return hex.EncodeToString(outer.Sum(nil))
}

func sortedBy[T any](list []T, name func(T) string) []T {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b T) int { return strings.Compare(name(a), name(b)) })
	return list
}

// resource returns the resource with this name, or nil.
func (p *Policy) resource(name string) *Resource {
	for i := range p.Resources {
		if p.Resources[i].Name == name {
			return &p.Resources[i]
		}
	}
	return nil
}

func (r *Resource) relation(name string) *Relation {
	for i := range r.Relations {
		if r.Relations[i].Name == name {
			return &r.Relations[i]
		}
	}
	return nil
}

func (r *Resource) permission(name string) *Permission {
	for i := range r.Permissions {
		if r.Permissions[i].Name == name {
			return &r.Permissions[i]
		}
	}
	return nil
}

// has reports whether a name is a relation or permission of the resource. In the
// list dialect every resource has the relation owner.
func (r *Resource) has(name string, d Dialect) bool {
	return name == ownerRelation && d == DialectList || r.relation(name) != nil || r.permission(name) != nil
}
