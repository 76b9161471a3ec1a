// Package oracle holds the naive truth: an evaluator that follows
// docs/semantics.md line by line, over the model as its author wrote it and
// plain tuples, with no index, no cache and no shortcut. Besides it makes
// random worlds, states the laws that the real engine must keep on them, and
// shrinks a world that breaks one. Its main type is Oracle.
//
// It never uses the compiled schema, the graph or the evaluator for its own
// answers: the laws compare those with it. Nothing but tests imports it.
package oracle

import (
	"encoding/json"
	"fmt"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// World is everything that an answer depends on besides the question: what is
// stored, what the request brings, and the schema.
type World struct {
	Model schema.Model
	// Stored are the live tuples, Attributes the live attributes.
	Stored     []rel.Tuple
	Attributes []rel.Attribute

	// Now, Context, Contextual and ContextualAttributes come with the request.
	Now                  rel.Time
	Context              expr.Values
	Contextual           []rel.Tuple
	ContextualAttributes []rel.Attribute
	// Depth bounds the hops of a proof. It is not 0.
	Depth int
}

// Question asks whether Subject is a member of Object#Relation.
type Question struct {
	Object   rel.Object
	Relation string
	Subject  rel.Subject
}

func (q Question) String() string {
	return q.Subject.String() + " " + q.Relation + " " + q.Object.String()
}

// Oracle answers questions on one world.
type Oracle struct {
	world      World
	types      map[string]*schema.TypeDef
	programs   map[string]expr.Program
	tuples     map[node][]edge
	attributes map[attributeKey]string
	objects    []rel.Object // those that the world mentions, each once
	mentioned  map[rel.Object]bool
	lacking    map[string]bool // see missing; no part of an answer
}

// node is a relation of an object: what one can be a member of.
type node struct {
	object   rel.Object
	relation string
}

type attributeKey struct {
	object rel.Object
	name   string
}

// edge is a tuple that counts, and whether its condition holds.
type edge struct {
	subject rel.Subject
	holds   expr.Tristate
}

// New reads a world. An error is one of a condition that does not compile.
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
		o.types[o.full(t.Name)] = t
	}
	for _, def := range w.Model.Conditions {
		p, err := compiler.Compile(def)
		if err != nil {
			return nil, fmt.Errorf("oracle: %w", err)
		}
		o.programs[def.Name] = p
	}
	for _, a := range append(append([]rel.Attribute{}, w.Attributes...), w.ContextualAttributes...) {
		o.attributes[attributeKey{a.Object, a.Name}] = a.Value // a contextual one replaces
		o.mention(a.Object)
	}
	contextual := map[rel.Key]bool{}
	for _, t := range w.Contextual {
		contextual[t.Key()] = true
	}
	for _, t := range w.Stored {
		if !contextual[t.Key()] { // a contextual one replaces
			o.count(t)
		}
	}
	for _, t := range w.Contextual {
		o.count(t)
	}
	return o, nil
}

// full is a type's name as tuples know it.
func (o *Oracle) full(typ string) string {
	if o.world.Model.Namespace == "" {
		return typ
	}
	return o.world.Model.Namespace + "/" + typ
}

// count adds a tuple if it counts: not expired and admitted by the schema.
func (o *Oracle) count(t rel.Tuple) {
	o.mention(t.Object)
	if !o.wildcard(t.Subject) {
		o.mention(t.Subject.Object())
	}
	if t.Expires != 0 && t.Expires <= o.world.Now {
		return
	}
	if !o.admitted(t) {
		return
	}
	n := node{t.Object, t.Relation}
	o.tuples[n] = append(o.tuples[n], edge{t.Subject, o.condition(t)})
}

// mention adds an object to those that exist.
func (o *Oracle) mention(x rel.Object) {
	if !o.mentioned[x] {
		o.mentioned[x] = true
		o.objects = append(o.objects, x)
	}
}

// admitted says whether a type restriction of the tuple's relation admits its
// subject's kind with its condition's name.
func (o *Oracle) admitted(t rel.Tuple) bool {
	def := o.relation(t.Object.Type, t.Relation)
	if def == nil {
		return false
	}
	for _, r := range def.Subjects {
		if o.full(r.Type) == t.Subject.Type && r.Relation == t.Subject.Relation &&
			r.Wildcard == o.wildcard(t.Subject) && r.Condition == t.Condition {
			return true
		}
	}
	return false
}

// wildcard says whether s stands for every object of its type.
func (o *Oracle) wildcard(s rel.Subject) bool {
	return s.ID == "*" && s.Relation == "" && !o.world.Model.Options.StarIsOrdinary
}

// relation finds the definition of a relation, or nil.
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

// condition evaluates a tuple's condition on its own context, which wins, and
// the request's.
func (o *Oracle) condition(t rel.Tuple) expr.Tristate {
	if t.Condition == "" {
		return expr.True
	}
	return o.programs[t.Condition].Eval(o.storedValues(t), o.world.Context, o.world.Now).Value
}

// storedValues are the parameters that a tuple brings. Its context is JSON.
func (o *Oracle) storedValues(t rel.Tuple) expr.Values {
	stored := expr.Values{}
	if t.Context == "" || json.Unmarshal([]byte(t.Context), &stored) != nil {
		return nil
	}
	return stored
}

// formula is a relation's rewrite with the tuples put in, for one subject.
type formula struct {
	op schema.Op // 0 is a constant
	// value is a constant's; for a hop, whether its tuple's condition holds.
	value expr.Tristate
	// node is the number of the relation that OpComputed names; -1 is a
	// relation that the type lacks.
	node     int
	children []formula
}

// opHop is membership behind a tuple: a userset's or an arrow's child.
const opHop = schema.Op(100)

var never = formula{value: expr.False}

// ground writes a rewrite of a relation on object x as a formula that says
// whether u is a member.
func (t *Table) ground(r schema.Rewrite, x rel.Object, relation string, u rel.Subject) formula {
	o := t.oracle
	switch r.Op {
	case schema.OpDirect:
		some := formula{op: schema.OpUnion}
		for _, e := range o.tuples[node{x, relation}] {
			switch {
			case e.subject == u:
				some.children = append(some.children, formula{value: e.holds})
			case o.wildcard(e.subject):
				if e.subject.Type == u.Type && u.Relation == "" && !o.wildcard(u) {
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
			if o.wildcard(e.subject) {
				continue
			}
			behind := never
			if t.reach.looksUnder(r.Children[0], e.subject.Type) {
				behind = t.ground(r.Children[0], e.subject.Object(), "", u)
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
		f.children = append(f.children, t.ground(c, x, relation, u))
	}
	return f
}

func (t *Table) reference(x rel.Object, relation string) formula {
	n, ok := t.number[node{x, relation}]
	if !ok {
		return never
	}
	return formula{op: schema.OpComputed, node: n}
}

// attribute is a bool attribute's value on x; an absent one is unknown, or
// false where the schema gives absent ones their zero.
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

// rule evaluates a rule on its arguments alone: nothing else of the request
// may stand in for one that is absent.
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

// value is an attribute's value, decoded.
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

// zero is a type's zero value.
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
	return nil, false // the worlds have no others
}
