// Package schema compiles an authorization model: types, relations, rewrites,
// type restrictions, attributes, conditions and rules. Its main types are
// Model, what a dialect's reader produces, and Schema, the compiled and
// immutable form that the evaluator works from. It never reads a dialect's
// text and never sees a tuple.
package schema

import "github.com/ostiary/ostiary/expr"

// Model is a schema as its author wrote it, in no dialect's words. Dialects
// translate into it; Compile checks it. It is plain data: its JSON form is
// what a store keeps.
type Model struct {
	// Namespace, if not empty, stands before each of the model's type names
	// ("namespace/type"), so that several models live in one store.
	Namespace  string            `json:"namespace,omitempty"`
	Options    Options           `json:"options"`
	Types      []TypeDef         `json:"types"`
	Conditions []expr.Definition `json:"conditions,omitempty"`
}

// Options are where dialects differ in meaning. The zero value is the native
// meaning of docs/semantics.md.
type Options struct {
	// Dialect names the language the model came from; it changes nothing.
	Dialect string `json:"dialect,omitempty"`
	// StarIsOrdinary makes "*" an id like any other (Permify).
	StarIsOrdinary bool `json:"starIsOrdinary,omitempty"`
	// UnsetAttributeIsZero gives an absent attribute its type's zero value in
	// place of "missing" (Permify).
	UnsetAttributeIsZero bool `json:"unsetAttributeIsZero,omitempty"`
	// MissingContextFails makes a check unknown when any condition that its walk
	// from the object meets lacks context, even on an edge that cannot lead to
	// the subject (OpenFGA). The walk leaves out each relation, and what stands
	// under an arrow, that no subject of the kind could ever be a member of; a
	// wildcard is of its objects' kind in that.
	MissingContextFails bool `json:"missingContextFails,omitempty"`
	// StrictTuplesets refuses an arrow whose first relation admits usersets or
	// wildcards or is not direct alone (OpenFGA).
	StrictTuplesets bool `json:"strictTuplesets,omitempty"`
	// RequireEntrypoints refuses relations that no tuple could ever fill
	// (OpenFGA).
	RequireEntrypoints bool `json:"requireEntrypoints,omitempty"`
}

// TypeDef defines a type of objects.
type TypeDef struct {
	Name       string         `json:"name"`
	Relations  []RelationDef  `json:"relations,omitempty"`
	Attributes []AttributeDef `json:"attributes,omitempty"`
	// Module and File say where a modular model defines it.
	Module string `json:"module,omitempty"`
	File   string `json:"file,omitempty"`
}

// AttributeDef declares an attribute: one of the eight base types (bool,
// string, int, uint, double, duration, timestamp, ipaddress) or a list of one.
type AttributeDef struct {
	Name string    `json:"name"`
	Type expr.Type `json:"type"`
}

// RelationDef defines a relation or permission.
type RelationDef struct {
	Name    string  `json:"name"`
	Rewrite Rewrite `json:"rewrite"`
	// Subjects are the type restrictions: what a tuple of this relation may
	// name. They are set exactly when Rewrite holds OpDirect.
	Subjects []SubjectType `json:"subjects,omitempty"`
	Module   string        `json:"module,omitempty"`
	File     string        `json:"file,omitempty"`
}

// SubjectType is one type restriction: "user", "user:*", "group#member", each
// also "with condition".
type SubjectType struct {
	Type      string `json:"type"`
	Relation  string `json:"relation,omitempty"`
	Wildcard  bool   `json:"wildcard,omitempty"`
	Condition string `json:"condition,omitempty"`
}

// Op is a rewrite's operator. The numbers are on disk.
type Op uint8

const (
	// OpDirect is the relation's own tuples ("this").
	OpDirect Op = iota + 1
	// OpComputed is another relation of the same object.
	OpComputed
	// OpArrow ("from", tuple to userset) is its child, evaluated on each object
	// that Relation relates.
	OpArrow
	OpUnion
	OpIntersection
	// OpExclusion is its first child but not its second.
	OpExclusion
	// OpAttribute is everybody where a bool attribute of the object is true.
	OpAttribute
	// OpRule is everybody where a rule holds.
	OpRule
)

func (o Op) String() string {
	names := [...]string{"no operator", "direct", "computed", "arrow", "union", "intersection", "exclusion", "attribute", "rule"}
	if int(o) >= len(names) {
		return "unknown operator"
	}
	return names[o]
}

// Rewrite says who has a relation.
type Rewrite struct {
	Op Op `json:"op"`
	// Relation is OpComputed's relation, OpArrow's first.
	Relation string `json:"relation,omitempty"`
	// Attribute is OpAttribute's.
	Attribute string `json:"attribute,omitempty"`
	// Children are the operands: one for OpArrow (any rewrite without OpDirect,
	// read on the related object's type), two for OpExclusion.
	Children []Rewrite `json:"children,omitempty"`
	// Rule is OpRule's.
	Rule *RuleCall `json:"rule,omitempty"`
}

// RuleCall evaluates one of the model's conditions on values of the object
// and of the question's context.
type RuleCall struct {
	Name string    `json:"name"`
	Args []RuleArg `json:"args,omitempty"`
}

// RuleArg gives a rule's parameter its value: an attribute of the object, or
// an entry of the question's context.
type RuleArg struct {
	Param     string `json:"param"`
	Attribute string `json:"attribute,omitempty"`
	Context   string `json:"context,omitempty"`
}

// Direct, Computed, Arrow, Union, Intersection and Exclusion build rewrites.
func Direct() Rewrite                  { return Rewrite{Op: OpDirect} }
func Computed(relation string) Rewrite { return Rewrite{Op: OpComputed, Relation: relation} }

// Arrow is "target from relation".
func Arrow(relation, target string) Rewrite {
	return Rewrite{Op: OpArrow, Relation: relation, Children: []Rewrite{Computed(target)}}
}
func Union(r ...Rewrite) Rewrite        { return Rewrite{Op: OpUnion, Children: r} }
func Intersection(r ...Rewrite) Rewrite { return Rewrite{Op: OpIntersection, Children: r} }
func Exclusion(base, subtract Rewrite) Rewrite {
	return Rewrite{Op: OpExclusion, Children: []Rewrite{base, subtract}}
}

// Bounds on models. One more is refused by name.
const (
	TypesMax        = 10_000
	RelationsMax    = 20_000 // of a model, in all
	RestrictionsMax = 1_000  // of a relation
	OperandsMax     = 1_000  // of one union or intersection (breadth)
	RewriteDepthMax = 100    // operators inside operators
	ConditionsMax   = 1_000
	AttributesMax   = 1_000 // of a type
)
