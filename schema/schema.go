package schema

import (
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
)

// TypeID, RelationID and KindID index Schema.Types, Relations and Kinds.
type (
	TypeID     int32
	RelationID int32
	KindID     int32
)

// None is no relation, type or kind.
const None = -1

// Schema is a compiled model: immutable, safe for concurrent use.
type Schema struct {
	Namespace  string
	Options    Options
	Types      []Type
	Relations  []Relation
	Kinds      []Kind
	Conditions map[string]*Condition

	types map[string]TypeID
	kinds map[Kind]KindID
	model *Model

	backward *Backward
}

// Kind is what can stand in a tuple: a plain object of a type, every object
// of it, or a relation of it.
type Kind struct {
	Type     string
	Relation string
	Wildcard bool
}

// Type is a compiled type. Name includes the namespace.
type Type struct {
	ID         TypeID
	Name       string
	Plain      KindID
	Wildcard   KindID
	Attributes map[string]expr.Type

	relations map[string]RelationID
}

// Relation is a compiled relation.
type Relation struct {
	ID   RelationID
	Type TypeID
	// Name is the relation's; of a hidden one (an expression under an arrow),
	// a text that no question can name.
	Name   string
	Hidden bool
	// Kind is the userset kind "type#name"; None for a hidden relation.
	Kind KindID
	Expr *Expr
	// Restrictions are the type restrictions by kind, for validating tuples and
	// reading them; nil where no tuple may be written.
	Restrictions []Restriction

	// Reach is the set of subject kinds that could be members, over all tuples
	// that could be written. A subject whose kind is not in it is no member.
	// A plain kind is in it also where only its wildcard can be assigned.
	Reach KindSet
	// ReachAny says that the relation may hold for every subject (a rule or an
	// attribute): Reach does not bind then.
	ReachAny bool
	// Component numbers the strongly connected parts of the relation graph, in
	// reverse topological order: what a relation depends on has a component
	// that is lower or its own.
	Component int32
	// Recursive says that the relation depends on itself.
	Recursive bool
	// Cycle says what operators stand inside cycles of its component.
	Cycle CycleClass
	// Monotone says that neither it nor anything it depends on holds an
	// intersection, an exclusion, a rule or an attribute: membership is plain
	// reachability.
	Monotone bool
	// Probe says that one probe for the subject and one for its wildcard on this
	// relation's own tuples decide it: direct alone, without usersets.
	Probe bool
}

// CycleClass orders what can happen inside a component's cycles.
type CycleClass uint8

const (
	// CyclePlain: only unions; a visited set is right.
	CyclePlain CycleClass = iota
	// CycleMixed: an intersection, or the base of an exclusion; needs a least
	// fixpoint.
	CycleMixed
	// CycleNegative: the subtracted side of an exclusion; needs the alternating
	// fixpoint, and may stay unknown.
	CycleNegative
)

// Expr is a compiled rewrite.
type Expr struct {
	Op Op
	// Direct: the relation whose tuples are read (the one that holds the Expr)
	// and what they may name.
	Direct []Restriction
	// Relation is OpComputed's target, OpArrow's first relation.
	Relation RelationID
	// Via are OpArrow's: where each kind of related object leads. A type that
	// lacks the target relation has none.
	Via       []Via
	Children  []*Expr
	Attribute string
	Rule      *Rule
}

// Restriction is what the tuples of a relation may name, one entry a kind.
type Restriction struct {
	Kind KindID
	// Relation is the userset's relation; None for plain and wildcard kinds.
	Relation RelationID
	// Bare admits tuples without a condition; Conditions admits these.
	Bare       bool
	Conditions []string
}

// Admits says whether a tuple with the named condition ("" for none) counts.
func (r *Restriction) Admits(condition string) bool {
	if condition == "" {
		return r.Bare
	}
	for _, c := range r.Conditions {
		if c == condition {
			return true
		}
	}
	return false
}

// Via is one way of an arrow: from a subject kind of its first relation, to a
// relation of that subject's object.
type Via struct {
	Restriction
	Target RelationID
}

// Condition is a compiled condition or rule.
type Condition struct {
	Definition expr.Definition
	Program    expr.Program
}

// Rule is a compiled rule call.
type Rule struct {
	Condition *Condition
	Args      []RuleArg
}

// KindSet is a set of kinds.
type KindSet []uint64

// Has says whether k is in the set.
func (s KindSet) Has(k KindID) bool {
	return k >= 0 && int(k>>6) < len(s) && s[k>>6]&(1<<(k&63)) != 0
}

func (s KindSet) add(k KindID) bool {
	if k < 0 || s.Has(k) {
		return false
	}
	s[k>>6] |= 1 << (k & 63)
	return true
}

func (s KindSet) addAll(o KindSet) (changed bool) {
	for i, w := range o {
		if w&^s[i] != 0 {
			s[i] |= w
			changed = true
		}
	}
	return changed
}

// Model returns what the schema was compiled from, to be read only.
func (s *Schema) Model() *Model { return s.model }

// Type finds a type by its full name.
func (s *Schema) Type(name string) (*Type, bool) {
	id, ok := s.types[name]
	if !ok {
		return nil, false
	}
	return &s.Types[id], true
}

// Relation finds a relation by its type's full name and its own.
func (s *Schema) Relation(typ, name string) (*Relation, bool) {
	t, ok := s.types[typ]
	if !ok {
		return nil, false
	}
	id, ok := s.Types[t].relations[name]
	if !ok {
		return nil, false
	}
	return &s.Relations[id], true
}

// RelationsOf returns the type's relations that have names, in their order.
func (s *Schema) RelationsOf(t *Type) []RelationID {
	var ids []RelationID
	for i := range s.Relations {
		if r := &s.Relations[i]; r.Type == t.ID && !r.Hidden {
			ids = append(ids, r.ID)
		}
	}
	return ids
}

// Kind finds a kind's number.
func (s *Schema) Kind(k Kind) (KindID, bool) {
	id, ok := s.kinds[k]
	return id, ok
}

// SubjectKind returns the kind of a subject as it stands in a tuple or a
// question, or None where the schema has no such type or relation.
func (s *Schema) SubjectKind(sub rel.Subject) KindID {
	k := Kind{Type: sub.Type, Relation: sub.Relation, Wildcard: sub.IsWildcard()}
	if id, ok := s.kinds[k]; ok {
		return id
	}
	return None
}

// Reaches says whether a subject of kind k could be a member of r.
func (r *Relation) Reaches(k KindID) bool { return r.ReachAny || r.Reach.Has(k) }
