package schema

import (
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
)

// TypeID, RelationID and KindID are indexes into [Schema.Types],
// [Schema.Relations] and [Schema.Kinds].
type (
	TypeID     int32
	RelationID int32
	KindID     int32
)

// None means no relation, no type or no kind.
const None = -1

// Schema is a compiled [Model]. It is immutable and safe for concurrent use.
type Schema struct {
	// Namespace is the namespace of the model.
	Namespace string
	// Options are the options of the model.
	Options Options
	// Types are the types by TypeID, in the order of the model.
	Types []Type
	// Relations are the relations by RelationID, in the order of the model. Hidden
	// relations follow.
	Relations []Relation
	// Kinds are the kinds of subjects by KindID.
	Kinds []Kind
	// Conditions are the compiled conditions by name.
	Conditions map[string]*Condition

	types    map[string]TypeID // by full name
	kinds    map[Kind]KindID   // the index of each kind in Kinds
	model    *Model            // what the schema was compiled from
	backward *Backward         // see Schema.Backward
	bytes    int               // see Schema.Bytes
}

// Kind is a kind of subject that a tuple can name: an object of a type, the
// wildcard of a type, or a userset.
type Kind struct {
	// Type is the full name of the type.
	Type string
	// Relation is the relation of a userset; "" for other kinds.
	Relation string
	// Wildcard is true for the wildcard of the type.
	Wildcard bool
}

// Type is a compiled type.
type Type struct {
	// ID is the index of the type in [Schema.Types].
	ID TypeID
	// Name is the full name of the type: it includes the namespace.
	Name string
	// Plain is the kind of the objects of the type.
	Plain KindID
	// Wildcard is the kind of the wildcard of the type.
	Wildcard KindID
	// Attributes are the types of the attributes by name.
	Attributes map[string]expr.Type

	relations map[string]RelationID // by name; without hidden relations
}

// Relation is a compiled relation.
type Relation struct {
	// ID is the index of the relation in [Schema.Relations].
	ID RelationID
	// Type is the type whose objects have the relation.
	Type TypeID
	// Name is the name of the relation. The name of a hidden relation cannot be
	// used in a request.
	Name string
	// Hidden is true for a relation that [Compile] made from an expression under
	// an arrow.
	Hidden bool
	// Kind is the kind of the userset "type#name"; None for a hidden relation.
	Kind KindID
	// Expr is the compiled rewrite.
	Expr *Expr
	// Restrictions are the type restrictions, one for each kind; nil if the
	// relation cannot have tuples.
	Restrictions []Restriction

	// Reach is the set of kinds of subjects that can be members, for any tuples
	// that the schema admits. A subject of another kind is not a member. If only
	// the wildcard of a type is admitted, Reach contains the plain kind as well.
	Reach KindSet
	// ReachAny is true if the relation can hold for every subject, because of a
	// rule or an attribute. Reach has no meaning then.
	ReachAny bool
	// Component is the number of the strongly connected component of the relation
	// in the graph of dependencies. A relation depends only on relations whose
	// component is lower or the same.
	Component int32
	// Recursive is true if the relation depends on itself.
	Recursive bool
	// Cycle is the strongest operator in a cycle of the component.
	Cycle CycleClass
	// Monotone is true if neither the relation nor anything that it depends on
	// contains an intersection, an exclusion, a rule or an attribute. Membership is
	// then plain reachability.
	Monotone bool
	// Probe is true if the relation is OpDirect alone, without usersets. Two
	// lookups in its tuples then decide membership: one for the subject, one for
	// its wildcard.
	Probe bool
}

// CycleClass describes which operators occur in the cycles of a component, and so
// which algorithm can evaluate them. A higher class needs a stronger algorithm.
type CycleClass uint8

// The classes, in ascending order.
const (
	// CyclePlain: unions only, or no cycle. A search with a set of visited nodes is
	// correct.
	CyclePlain CycleClass = iota
	// CycleMixed: also intersections and the bases of exclusions. A least fixpoint
	// is needed.
	CycleMixed
	// CycleNegative: also the subtracted sides of exclusions. The alternating
	// fixpoint is needed, and an answer may stay unknown.
	CycleNegative
)

// Expr is a compiled rewrite. [Expr.Steps] lists what a leaf reads.
type Expr struct {
	// Op is the operator.
	Op Op
	// Direct are the restrictions of the tuples that OpDirect reads.
	Direct []Restriction
	// Relation is the relation that contains OpDirect, the target of OpComputed, or
	// the first relation of OpArrow; None for other operators.
	Relation RelationID
	// Via lists where OpArrow leads from each kind of related object. It has no
	// entry for a type that lacks the target relation.
	Via []Via
	// Children are the operands of OpUnion, OpIntersection and OpExclusion; nil for
	// other operators. The expression under an arrow is a hidden relation.
	Children []*Expr
	// Attribute is the attribute of OpAttribute.
	Attribute string
	// Rule is the rule of OpRule.
	Rule *Rule
}

// Restriction admits subjects of one kind in the tuples of a relation.
type Restriction struct {
	// Kind is the kind of the subjects.
	Kind KindID
	// Relation is the relation of a userset; None for other kinds.
	Relation RelationID
	// Bare admits tuples without a condition.
	Bare bool
	// Conditions are the names of the conditions that a tuple may have.
	Conditions []string
}

// Admits reports whether r admits a tuple with the named condition; "" means
// without a condition.
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

// Via describes where an arrow leads from the subjects of one kind in the tuples of
// its first relation.
type Via struct {
	// Restriction selects the tuples that the arrow follows.
	Restriction
	// Target is a relation of the type of their subjects.
	Target RelationID
}

// Condition is a compiled condition.
type Condition struct {
	// Definition is the condition as the author of the model wrote it.
	Definition expr.Definition
	// Program evaluates the condition.
	Program expr.Program
}

// Rule is a compiled [RuleCall].
type Rule struct {
	// Condition is the condition that the rule evaluates.
	Condition *Condition
	// Args give the parameters of the condition their values.
	Args []RuleArg
}

// Model returns the model that s was compiled from. The caller must not change
// it.
func (s *Schema) Model() *Model { return s.model }

// Type returns the type with a full name, and false if s has no such type.
func (s *Schema) Type(name string) (*Type, bool) {
	id, ok := s.types[name]
	if !ok {
		return nil, false
	}
	return &s.Types[id], true
}

// Relation returns the relation of a type with a full name, and false if s has
// no such relation.
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

// RelationsOf returns the relations of a type in the order of the model, without
// hidden relations.
func (s *Schema) RelationsOf(t *Type) []RelationID {
	var ids []RelationID
	for i := range s.Relations {
		if r := &s.Relations[i]; r.Type == t.ID && !r.Hidden {
			ids = append(ids, r.ID)
		}
	}
	return ids
}

// Kind returns the index of k in [Schema.Kinds], and false if it has none.
func (s *Schema) Kind(k Kind) (KindID, bool) {
	id, ok := s.kinds[k]
	return id, ok
}

// SubjectKind returns the kind of a subject in a tuple or a request. It returns
// None if the schema lacks the type or the relation.
func (s *Schema) SubjectKind(sub rel.Subject) KindID {
	k := Kind{Type: sub.Type, Relation: sub.Relation, Wildcard: sub.IsWildcard()}
	if id, ok := s.kinds[k]; ok {
		return id
	}
	return None
}

// Reaches reports whether a subject of kind k can be a member of r.
func (r *Relation) Reaches(k KindID) bool { return r.ReachAny || r.Reach.Has(k) }
