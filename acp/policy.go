package acp

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Dialect is a language that policies are written in.
type Dialect uint8

const (
	// DialectAuto reads the map dialect where resources is a mapping, else the
	// list dialect.
	DialectAuto Dialect = iota
	// DialectList is today's: resources, relations and permissions are lists, and
	// every resource has an owner that no expression can exclude.
	DialectList
	// DialectMap is the older one: they are mappings by name, owner is a relation
	// that the author writes, and has what the text grants.
	DialectMap
)

func (d Dialect) String() string { return [...]string{"auto", "list", "map"}[min(d, 2)] }

// Policy is a policy as its author wrote it.
type Policy struct {
	Name, Description string
	Dialect           Dialect
	// Specification is "none" or "defra".
	Specification string
	// Meta is the text's own metadata.
	Meta map[string]string
	// Actor is the type of actors; its relations cannot be written.
	Actor ActorType
	// Resources are in the order of the text (of the map dialect: of names).
	Resources []Resource
	// Warnings are what is accepted but hardly meant: *PolicyError with the kind
	// ErrInvalidPolicy.
	Warnings []*PolicyError
}

// ActorType describes actors.
type ActorType struct {
	Name, Doc string
	Relations []Relation
}

// Resource is a kind of objects.
type Resource struct {
	Name, Description string
	Relations         []Relation
	Permissions       []Permission
}

// Relation is what relationships may be made of.
type Relation struct {
	Name, Doc string
	// Manages names the relations whose relationships its members may set and
	// delete.
	Manages []string
	// Types are what a relationship's subject may be: "actor", a resource, or
	// "resource->relation". Without any it accepts nothing.
	Types []SubjectType

	line, column int
}

// SubjectType is one of a relation's types. Relation is "" for objects (and,
// where Resource is the actor's name, for actors and all actors).
type SubjectType struct{ Resource, Relation string }

func (t SubjectType) String() string {
	if t.Relation == "" {
		return t.Resource
	}
	return t.Resource + "->" + t.Relation
}

// Permission is computed from relations.
type Permission struct {
	Name, Doc string
	// Expression is as written.
	Expression string

	parsed       *expression
	line, column int
}

// PolicyRecord is a policy that lives in an engine.
type PolicyRecord struct {
	// ID is 64 hexadecimal digits, the same that acp_core gives.
	ID string
	Policy
	// Source is the policy's text.
	Source string
	// Creator is the DID of who created it.
	Creator string
	// Metadata was supplied with the creation, and may be edited.
	Metadata          map[string]string
	Created, Modified time.Time
}

// Names that have a meaning of their own.
const (
	ownerRelation = "owner"
	actorName     = "actor"
	// specDefra is the specification that wants read and write everywhere, and
	// lets who may write also read.
	specNone, specDefra = "none", "defra"
)

// ID returns the id that the policy has as the counter-th creation of a store,
// from 1. Description, types, manages and metadata do not count.
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

// resource finds a resource by its name.
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

// has says whether a name is a relation or permission; in the list dialect
// every resource has an owner.
func (r *Resource) has(name string, d Dialect) bool {
	return name == ownerRelation && d == DialectList || r.relation(name) != nil || r.permission(name) != nil
}
