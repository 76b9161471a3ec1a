package oracle

import (
	"encoding/json"
	"fmt"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// World is everything that an answer depends on, apart from the question.
type World struct {
	// Model is the schema as its author wrote it.
	Model schema.Model
	// Stored are the tuples in the store. A tuple may be expired, or stale: not
	// admitted by Model, as if it was written under an older version.
	Stored []rel.Tuple
	// Attributes are the attributes in the store.
	Attributes []rel.Attribute

	// Now is the time of the request.
	Now rel.Time
	// Context is the request's context.
	Context expr.Values
	// Contextual are the tuples of the request. They replace stored tuples with
	// the same key.
	Contextual []rel.Tuple
	// ContextualAttributes are the attributes of the request. They replace
	// stored ones.
	ContextualAttributes []rel.Attribute
	// Depth bounds the hops of a proof. It is at least 1.
	Depth int
}

// Question asks whether Subject is a member of Object#Relation.
type Question struct {
	Object   rel.Object
	Relation string
	Subject  rel.Subject
}

// String returns the question as "subject relation object".
func (q Question) String() string {
	return q.Subject.String() + " " + q.Relation + " " + q.Object.String()
}

// Oracle answers questions about one [World].
type Oracle struct {
	world        World
	types        map[string]*schema.TypeDef // by full name
	programs     map[string]expr.Program    // by the condition's name
	tuples       map[node][]edge            // the tuples that count
	attributes   map[attributeKey]string    // values as JSON
	objects      []rel.Object               // those that the world mentions, each once
	mentioned    map[rel.Object]bool        // the objects
	missingNames map[string]bool            // see missing; answers do not depend on it
}

// node is a relation of an object, which subjects can be members of.
type node struct {
	object   rel.Object
	relation string
}

type attributeKey struct {
	object rel.Object
	name   string
}

// edge is a tuple that counts, with the value of its condition.
type edge struct {
	subject rel.Subject
	holds   expr.Tristate
}

// New returns the oracle of a world. It fails if a condition does not compile.
func New(w World, compiler expr.Compiler) (*Oracle, error) {
	o := &Oracle{
		world:      w,
		types:      map[string]*schema.TypeDef{},
		programs:   map[string]expr.Program{},
		tuples:     map[node][]edge{},
		attributes: map[attributeKey]string{},
		mentioned:  map[rel.Object]bool{},
	}
	for i := range w.Model.Types {
		t := &w.Model.Types[i]
		o.types[o.fullName(t.Name)] = t
	}
	for _, def := range w.Model.Conditions {
		p, err := compiler.Compile(def)
		if err != nil {
			return nil, fmt.Errorf("oracle: %w", err)
		}
		o.programs[def.Name] = p
	}
	for _, a := range append(append([]rel.Attribute{}, w.Attributes...), w.ContextualAttributes...) {
		o.attributes[attributeKey{a.Object, a.Name}] = a.Value // contextual attributes come last and replace stored ones
		o.mention(a.Object)
	}
	contextual := map[rel.Key]bool{}
	for _, t := range w.Contextual {
		contextual[t.Key()] = true
	}
	for _, t := range w.Stored {
		if !contextual[t.Key()] { // a contextual tuple replaces the stored one
			o.addTuple(t)
		}
	}
	for _, t := range w.Contextual {
		o.addTuple(t)
	}
	return o, nil
}

// fullName returns a type's name as tuples contain it, with the namespace.
func (o *Oracle) fullName(typ string) string {
	if o.world.Model.Namespace == "" {
		return typ
	}
	return o.world.Model.Namespace + "/" + typ
}

// addTuple adds a tuple if it counts: if it is not expired and the schema
// admits it.
func (o *Oracle) addTuple(t rel.Tuple) {
	o.mention(t.Object)
	if !o.isWildcard(t.Subject) {
		o.mention(t.Subject.Object())
	}
	if t.Expires != 0 && t.Expires <= o.world.Now {
		return
	}
	if !o.admitted(t) {
		return
	}
	n := node{t.Object, t.Relation}
	o.tuples[n] = append(o.tuples[n], edge{t.Subject, o.evalCondition(t)})
}

// mention adds an object to those that exist.
func (o *Oracle) mention(x rel.Object) {
	if !o.mentioned[x] {
		o.mentioned[x] = true
		o.objects = append(o.objects, x)
	}
}

// admitted reports whether a type restriction of the tuple's relation admits
// the tuple's subject and the name of its condition.
func (o *Oracle) admitted(t rel.Tuple) bool {
	def := o.relation(t.Object.Type, t.Relation)
	if def == nil {
		return false
	}
	for _, r := range def.Subjects {
		if o.fullName(r.Type) == t.Subject.Type && r.Relation == t.Subject.Relation &&
			r.Wildcard == o.isWildcard(t.Subject) && r.Condition == t.Condition {
			return true
		}
	}
	return false
}

// isWildcard reports whether s means every object of its type.
func (o *Oracle) isWildcard(s rel.Subject) bool {
	return s.ID == "*" && s.Relation == "" && !o.world.Model.Options.StarIsOrdinary
}

// relation returns the definition of a relation, or nil.
func (o *Oracle) relation(typ, name string) *schema.RelationDef {
	t := o.types[typ]
	if t == nil {
		return nil
	}
	for i := range t.Relations {
		if t.Relations[i].Name == name {
			return &t.Relations[i]
		}
	}
	return nil
}

// evalCondition evaluates a tuple's condition on the tuple's stored context and
// the request's context; the stored one wins.
func (o *Oracle) evalCondition(t rel.Tuple) expr.Tristate {
	if t.Condition == "" {
		return expr.True
	}
	return o.programs[t.Condition].Eval(o.storedValues(t), o.world.Context, o.world.Now).Value
}

// storedValues returns the parameters that a tuple stores.
func (o *Oracle) storedValues(t rel.Tuple) expr.Values {
	stored := expr.Values{}
	if t.Context == "" || json.Unmarshal([]byte(t.Context), &stored) != nil {
		return nil
	}
	return stored
}

// formula is the rewrite of a relation for one object and one subject, with the
// tuples inserted.
type formula struct {
	op schema.Op // 0 is a constant
	// value is the value of a constant. For opHop it is the value of the
	// tuple's condition.
	value expr.Tristate
	// node is, for OpComputed, the number of a node in the table.
	node     int
	children []formula
}

// opHop is membership through a tuple: its child is the membership in the
// tuple's userset, or in the object that an arrow leads to.
const opHop = schema.Op(100)

var alwaysFalse = formula{value: expr.False}

// formulaOf returns the formula that is true if u is a member by rewrite r of
// x. relation is the relation that r defines; "" under an arrow.
func (t *Table) formulaOf(r schema.Rewrite, x rel.Object, relation string, u rel.Subject) formula {
	o := t.oracle
	switch r.Op {
	case schema.OpDirect:
		some := formula{op: schema.OpUnion}
		for _, e := range o.tuples[node{x, relation}] {
			switch {
			case e.subject == u:
				some.children = append(some.children, formula{value: e.holds})
			case o.isWildcard(e.subject):
				if e.subject.Type == u.Type && u.Relation == "" && !o.isWildcard(u) {
					some.children = append(some.children, formula{value: e.holds})
				}
			case e.subject.Relation != "":
				some.children = append(some.children, formula{op: opHop, value: e.holds,
					children: []formula{t.reference(e.subject.Object(), e.subject.Relation)}})
			}
		}
		return some
	case schema.OpComputed:
		return t.reference(x, r.Relation)
	case schema.OpArrow:
		some := formula{op: schema.OpUnion}
		for _, e := range o.tuples[node{x, r.Relation}] {
			if o.isWildcard(e.subject) {
				continue
			}
			behind := alwaysFalse
			if t.reach.isEvaluatedUnder(r.Children[0], e.subject.Type) {
				behind = t.formulaOf(r.Children[0], e.subject.Object(), "", u)
			}
			some.children = append(some.children, formula{op: opHop, value: e.holds, children: []formula{behind}})
		}
		return some
	case schema.OpAttribute:
		return formula{value: o.attribute(x, r.Attribute)}
	case schema.OpRule:
		return formula{value: o.rule(x, r.Rule)}
	}
	f := formula{op: r.Op}
	for _, c := range r.Children {
		f.children = append(f.children, t.formulaOf(c, x, relation, u))
	}
	return f
}

// reference returns a formula for the membership in x#relation.
func (t *Table) reference(x rel.Object, relation string) formula {
	n, ok := t.number[node{x, relation}]
	if !ok {
		return alwaysFalse
	}
	return formula{op: schema.OpComputed, node: n}
}

// attribute returns the value of a bool attribute of x. A missing value is
// unknown, or false with the option UnsetAttributeIsZero.
func (o *Oracle) attribute(x rel.Object, name string) expr.Tristate {
	v, ok := o.value(x, name)
	if !ok {
		return expr.Unknown
	}
	b, ok := v.(bool)
	switch {
	case !ok:
		return expr.Unknown // a value of the wrong type is an error
	case b:
		return expr.True
	}
	return expr.False
}

// rule evaluates a rule on its arguments alone. Other values of the request's
// context do not replace a missing argument.
func (o *Oracle) rule(x rel.Object, call *schema.RuleCall) expr.Tristate {
	args := expr.Values{}
	for _, a := range call.Args {
		v, ok := o.world.Context[a.Context]
		if a.Attribute != "" {
			v, ok = o.value(x, a.Attribute)
		}
		if ok {
			args[a.Param] = v
		}
	}
	return o.programs[call.Name].Eval(args, nil, o.world.Now).Value
}

// value returns the decoded value of an attribute.
func (o *Oracle) value(x rel.Object, name string) (any, bool) {
	if text, ok := o.attributes[attributeKey{x, name}]; ok {
		var v any
		err := json.Unmarshal([]byte(text), &v)
		return v, err == nil
	}
	if t := o.types[x.Type]; t != nil && o.world.Model.Options.UnsetAttributeIsZero {
		for _, a := range t.Attributes {
			if a.Name == name {
				return zero(a.Type.Kind)
			}
		}
	}
	return nil, false
}

// zero returns the zero value of a type.
func zero(k expr.Kind) (any, bool) {
	switch k {
	case expr.Bool:
		return false, true
	case expr.String:
		return "", true
	case expr.Int, expr.Uint, expr.Double:
		return float64(0), true
	case expr.List:
		return []any{}, true
	}
	return nil, false // worlds have no other types
}
