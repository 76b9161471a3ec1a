// Package schema compiles an authorization model: types, relations, rewrites,
// type restrictions, attributes, conditions and rules. Its main types are
// [Model], which the parser of a model language produces, and [Schema], the
// compiled and immutable form for the evaluator. [Compile] turns one into the
// other. The package never parses the text of a model language and never reads
// a tuple.
package schema

import "github.com/ostiary/ostiary/expr"

// Model is an authorization model, independent of the language that it was
// written in. It is plain data; a store keeps its JSON form. [Compile] checks
// it.
type Model struct {
	// Namespace is a prefix of all type names of the model, as in
	// "namespace/type". With it, one store can have several models. "" means no
	// prefix.
	Namespace string `json:"namespace,omitempty"`
	// Options select the meaning of the model's language.
	Options Options `json:"options"`
	// Types are the types of objects, at most TypesMax. Their names are unique.
	Types []TypeDef `json:"types"`
	// Conditions are the conditions of tuples and the rules, at most
	// ConditionsMax. Their names are unique.
	Conditions []expr.Definition `json:"conditions,omitempty"`
}

// Options select among the meanings that model languages have. The zero value
// is the native meaning, which docs/semantics.md describes.
type Options struct {
	// Dialect is the name of the language that the model was written in. It has no
	// effect on answers.
	Dialect string `json:"dialect,omitempty"`
	// StarIsOrdinary makes "*" an id like any other instead of a wildcard
	// (Permify).
	StarIsOrdinary bool `json:"starIsOrdinary,omitempty"`
	// UnsetAttributeIsZero gives an absent attribute the zero value of its type.
	// Without it, a rule that reads the attribute is unknown (Permify).
	UnsetAttributeIsZero bool `json:"unsetAttributeIsZero,omitempty"`
	// MissingContextFails makes a denial unknown when any condition that the walk
	// from the object meets lacks context, even on an edge that cannot lead to
	// the subject (OpenFGA). An allow never becomes unknown. The walk leaves out
	// each relation, and each expression under an arrow, that by the schema alone
	// no subject of the kind could be a member of. For this rule a wildcard has
	// the kind of the objects that it covers.
	MissingContextFails bool `json:"missingContextFails,omitempty"`
	// StrictTuplesets rejects an arrow unless its first relation is OpDirect alone
	// and admits plain subjects only: no usersets, no wildcards (OpenFGA).
	StrictTuplesets bool `json:"strictTuplesets,omitempty"`
	// RequireEntrypoints rejects relations that cannot have a member, whatever
	// tuples are written (OpenFGA).
	RequireEntrypoints bool `json:"requireEntrypoints,omitempty"`
}

// TypeDef defines a type of objects.
type TypeDef struct {
	// Name is the name of the type, without the namespace.
	Name string `json:"name"`
	// Relations are the relations and permissions of the type. Their names are
	// unique within the type.
	Relations []RelationDef `json:"relations,omitempty"`
	// Attributes are the attributes of the type, at most AttributesMax. Their names
	// are unique within the type.
	Attributes []AttributeDef `json:"attributes,omitempty"`
	// Module is the module of a modular model that defines the type; "" for other
	// models.
	Module string `json:"module,omitempty"`
	// File is the file of a modular model that defines the type; "" for other
	// models.
	File string `json:"file,omitempty"`
}

// AttributeDef declares an attribute.
type AttributeDef struct {
	// Name is the name of the attribute.
	Name string `json:"name"`
	// Type is bool, string, int, uint, double, duration, timestamp, ipaddress or a
	// list of one of these.
	Type expr.Type `json:"type"`
}

// RelationDef defines a relation or permission.
type RelationDef struct {
	// Name is the name of the relation.
	Name string `json:"name"`
	// Rewrite defines which subjects have the relation.
	Rewrite Rewrite `json:"rewrite"`
	// Subjects are the type restrictions: the subjects that a tuple of this
	// relation may name, at most RestrictionsMax. They must be set if Rewrite
	// contains OpDirect, and must be empty otherwise.
	Subjects []SubjectType `json:"subjects,omitempty"`
	// Module is the module that extends the type with the relation; "" if it is the
	// module of the type.
	Module string `json:"module,omitempty"`
	// File is the file that extends the type with the relation; "" if it is the file
	// of the type.
	File string `json:"file,omitempty"`
}

// SubjectType is one type restriction: "user", "user:*" or "group#member", each
// also "with condition".
type SubjectType struct {
	// Type is the type of the subject, without the namespace.
	Type string `json:"type"`
	// Relation is the relation of a userset; "" for other subjects.
	Relation string `json:"relation,omitempty"`
	// Wildcard admits the wildcard of Type instead of its objects. Relation must be
	// "" then.
	Wildcard bool `json:"wildcard,omitempty"`
	// Condition is the condition that the tuple must name; "" if it must name none.
	Condition string `json:"condition,omitempty"`
}

// Op is the operator of a rewrite. Stores keep its number, so the numbers must
// not change.
type Op uint8

// The operators.
const (
	// OpDirect holds for the subjects in the tuples of the relation itself. Model
	// languages call it "this" or write the type restrictions.
	OpDirect Op = iota + 1
	// OpComputed holds for the members of another relation of the same object.
	OpComputed
	// OpArrow ("target from relation", also called tuple to userset) follows the
	// tuples of a relation of the object and evaluates its child on each object
	// that they name.
	OpArrow
	// OpUnion holds where one of its children holds.
	OpUnion
	// OpIntersection holds where all of its children hold.
	OpIntersection
	// OpExclusion holds where its first child holds and its second does not.
	OpExclusion
	// OpAttribute holds for every subject if a bool attribute of the object is true.
	OpAttribute
	// OpRule holds for every subject if a rule is true.
	OpRule
)

// String returns the name of the operator.
func (o Op) String() string {
	names := [...]string{"no operator", "direct", "computed", "arrow", "union", "intersection", "exclusion", "attribute", "rule"}
	if int(o) >= len(names) {
		return "unknown operator"
	}
	return names[o]
}

// Rewrite is an expression that defines which subjects have a relation.
type Rewrite struct {
	// Op is the operator.
	Op Op `json:"op"`
	// Relation is the relation of OpComputed, or the first relation of OpArrow.
	Relation string `json:"relation,omitempty"`
	// Attribute is the attribute of OpAttribute.
	Attribute string `json:"attribute,omitempty"`
	// Children are the operands: one for OpArrow, two for OpExclusion, 1 to
	// OperandsMax for OpUnion and OpIntersection, none for other operators. The
	// child of OpArrow is evaluated on the type of the related object and must not
	// contain OpDirect.
	Children []Rewrite `json:"children,omitempty"`
	// Rule is the rule of OpRule.
	Rule *RuleCall `json:"rule,omitempty"`
}

// RuleCall evaluates one of the conditions of the model as a rule.
type RuleCall struct {
	// Name is the name of the condition.
	Name string `json:"name"`
	// Args give the parameters of the condition their values. A parameter without
	// an argument has no value.
	Args []RuleArg `json:"args,omitempty"`
}

// RuleArg gives one parameter of a rule its value. Exactly one of Attribute and
// Context is set.
type RuleArg struct {
	// Param is the name of the parameter.
	Param string `json:"param"`
	// Attribute is the attribute of the object that has the value.
	Attribute string `json:"attribute,omitempty"`
	// Context is the key of the value in the context of the request.
	Context string `json:"context,omitempty"`
}

// Direct returns a rewrite with OpDirect.
func Direct() Rewrite { return Rewrite{Op: OpDirect} }

// Computed returns a rewrite with OpComputed.
func Computed(relation string) Rewrite { return Rewrite{Op: OpComputed, Relation: relation} }

// Arrow returns the rewrite "target from relation".
func Arrow(relation, target string) Rewrite {
	return Rewrite{Op: OpArrow, Relation: relation, Children: []Rewrite{Computed(target)}}
}

// Union returns a rewrite that holds where one of r holds.
func Union(r ...Rewrite) Rewrite { return Rewrite{Op: OpUnion, Children: r} }

// Intersection returns a rewrite that holds where all of r hold.
func Intersection(r ...Rewrite) Rewrite { return Rewrite{Op: OpIntersection, Children: r} }

// Exclusion returns a rewrite that holds where base holds and subtract does not.
func Exclusion(base, subtract Rewrite) Rewrite {
	return Rewrite{Op: OpExclusion, Children: []Rewrite{base, subtract}}
}

// Limits of a model. [Compile] rejects a model that exceeds one with [ErrBound].
const (
	TypesMax        = 10_000 // types of a model
	RelationsMax    = 20_000 // relations of a model, all types together
	RestrictionsMax = 1_000  // type restrictions of a relation
	OperandsMax     = 1_000  // operands of one operator
	RewriteDepthMax = 100    // operators inside operators
	ConditionsMax   = 1_000  // conditions of a model
	AttributesMax   = 1_000  // attributes of a type
	TypeLevelsMax   = 100    // types of lists and maps inside each other

	StepsMax    = 500_000   // operators and steps of all rewrites; see Expr.Steps
	AnalysisMax = 5_000_000 // relations that the analysis of dependencies looks at, with repetitions
)
