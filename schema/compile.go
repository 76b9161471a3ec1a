package schema

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ostiary/ostiary/expr"
)

// Kinds of errors about models, to be found with errors.Is.
var (
	ErrModel = errors.New("invalid model")
	// ErrBound is also an ErrModel: a bound of this package was passed.
	ErrBound = fmt.Errorf("%w: bound passed", ErrModel)
	// ErrNoCompiler says that a model has conditions and no expr.Compiler was
	// handed in.
	ErrNoCompiler = fmt.Errorf("%w: conditions need a compiler", ErrModel)
)

// Reason says what is wrong with a model, for callers that translate errors
// into a protocol's own.
type Reason string

const (
	ReasonName               Reason = "name"
	ReasonDuplicate          Reason = "duplicate"
	ReasonUndefinedType      Reason = "undefined type"
	ReasonUndefinedRelation  Reason = "undefined relation"
	ReasonUndefinedCondition Reason = "undefined condition"
	ReasonUndefinedAttribute Reason = "undefined attribute"
	ReasonRestrictions       Reason = "type restrictions"
	ReasonTupleset           Reason = "tupleset"
	ReasonEntrypoint         Reason = "no entrypoint"
	ReasonRewrite            Reason = "rewrite"
	ReasonCondition          Reason = "condition"
	ReasonBound              Reason = "bound"
)

// Error is one thing wrong with a model.
type Error struct {
	Reason Reason
	// Type, Relation and Condition say where, as far as they apply.
	Type, Relation, Condition string
	Text                      string
	// Err is the kind: ErrModel, ErrBound, or a compiler's error.
	Err error
}

func (e *Error) Error() string {
	where := e.Type
	if e.Relation != "" {
		where += "#" + e.Relation
	}
	if e.Condition != "" {
		where = "condition " + e.Condition
	}
	if where != "" {
		where += ": "
	}
	return "invalid model: " + where + e.Text
}

// Unwrap returns the error's kind.
func (e *Error) Unwrap() error { return e.Err }

// Compile checks a model and compiles it. It returns the first ErrorsMax
// things that are wrong, joined; each is an *Error. The model must not change
// afterwards. compiler may be nil where the model has no conditions.
func Compile(m *Model, compiler expr.Compiler) (*Schema, error) {
	c := &compilation{m: m, hidden: map[hiddenKey]RelationID{}, s: &Schema{
		Namespace: m.Namespace, Options: m.Options, model: m,
		Conditions: map[string]*Condition{}, types: map[string]TypeID{}, kinds: map[Kind]KindID{},
	}}
	steps := []func(){c.bounds, func() { c.conditions(compiler) }, c.declare, c.rewrites, c.analyse}
	for _, step := range steps {
		step()
		if len(c.errs) > 0 {
			return nil, errors.Join(c.errs...)
		}
	}
	return c.s, nil
}

// ErrorsMax is how many errors Compile collects before it stops.
const ErrorsMax = 20

type compilation struct {
	m    *Model
	s    *Schema
	errs []error
	// relation being compiled, for errors and hidden relations.
	typ *TypeDef
	def *RelationDef
	// hidden finds the relation that was made of an expression under an arrow
	// for a type: arrows under arrows would otherwise multiply.
	hidden map[hiddenKey]RelationID
	// depends holds, per relation, what it depends on.
	depends [][]dependency
}

type hiddenKey struct {
	child *Rewrite
	typ   TypeID
}

func (c *compilation) fail(r Reason, format string, args ...any) {
	e := &Error{Reason: r, Text: fmt.Sprintf(format, args...), Err: ErrModel}
	if r == ReasonBound {
		e.Err = ErrBound
	}
	if c.typ != nil {
		e.Type = c.typ.Name
	}
	if c.def != nil {
		e.Relation = c.def.Name
	}
	if len(c.errs) < ErrorsMax {
		c.errs = append(c.errs, e)
	}
}

// bounds refuses what is too large before any work is done on it.
func (c *compilation) bounds() {
	over := func(what string, n, most int) {
		if n > most {
			c.fail(ReasonBound, "%d %s, the maximum is %d", n, what, most)
		}
	}
	over("types", len(c.m.Types), TypesMax)
	over("conditions", len(c.m.Conditions), ConditionsMax)
	relations := 0
	for i := range c.m.Types {
		t := &c.m.Types[i]
		c.typ = t
		relations += len(t.Relations)
		over("attributes", len(t.Attributes), AttributesMax)
		for j := range t.Relations {
			c.def = &t.Relations[j]
			over("type restrictions", len(c.def.Subjects), RestrictionsMax)
			c.rewriteShape(&c.def.Rewrite)
		}
		c.def = nil
	}
	c.typ = nil
	over("relations", relations, RelationsMax)
}

// rewriteShape checks depth, breadth and numbers of operands. It walks without recursion: a hostile model is deeper than any
// stack.
func (c *compilation) rewriteShape(r *Rewrite) {
	type level struct {
		r     *Rewrite
		depth int
	}
	for stack := []level{{r, 1}}; len(stack) > 0; {
		top := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if top.depth > RewriteDepthMax {
			c.fail(ReasonBound, "rewrite deeper than %d operators", RewriteDepthMax)
			return
		}
		n := len(top.r.Children)
		if n > OperandsMax {
			c.fail(ReasonBound, "%s of %d operands, the maximum is %d", top.r.Op, n, OperandsMax)
			return
		}
		if want := operands(top.r.Op); want >= 0 && n != want || want < 0 && n == 0 {
			c.fail(ReasonRewrite, "%s has %d operands", top.r.Op, n)
			return
		}
		for i := range top.r.Children {
			stack = append(stack, level{&top.r.Children[i], top.depth + 1})
		}
	}
}

func (c *compilation) conditions(compiler expr.Compiler) {
	if len(c.m.Conditions) > 0 && compiler == nil {
		c.errs = append(c.errs, ErrNoCompiler)
		return
	}
	for i := range c.m.Conditions {
		def := c.m.Conditions[i]
		if _, ok := c.s.Conditions[def.Name]; ok {
			c.errs = append(c.errs, &Error{ReasonDuplicate, "", "", def.Name, "defined twice", ErrModel})
			continue
		}
		program, err := compiler.Compile(def)
		if err != nil {
			c.errs = append(c.errs, &Error{ReasonCondition, "", "", def.Name, err.Error(), errors.Join(ErrModel, err)})
			if len(c.errs) >= ErrorsMax {
				return
			}
			continue
		}
		c.s.Conditions[def.Name] = &Condition{Definition: def, Program: program}
	}
}

// full returns a type's name as the store knows it.
func (c *compilation) full(name string) string {
	if c.m.Namespace == "" {
		return name
	}
	return c.m.Namespace + "/" + name
}

func (c *compilation) kind(k Kind) KindID {
	if id, ok := c.s.kinds[k]; ok {
		return id
	}
	id := KindID(len(c.s.Kinds))
	c.s.Kinds = append(c.s.Kinds, k)
	c.s.kinds[k] = id
	return id
}

// declare gives every type, relation and kind its number.
func (c *compilation) declare() {
	for i := range c.m.Types {
		t := &c.m.Types[i]
		c.typ = t
		name := c.full(t.Name)
		if bad := badName(t.Name, ":#@/"); bad != "" && !(bad == "/" && c.m.Namespace == "") {
			c.fail(ReasonName, "type name %q", t.Name)
		}
		if _, ok := c.s.types[name]; ok {
			c.fail(ReasonDuplicate, "type defined twice")
			continue
		}
		id := TypeID(len(c.s.Types))
		c.s.types[name] = id
		typ := Type{ID: id, Name: name, relations: map[string]RelationID{}, Attributes: map[string]expr.Type{},
			Plain: c.kind(Kind{Type: name}), Wildcard: c.kind(Kind{Type: name, Wildcard: true})}
		for _, a := range t.Attributes {
			if _, ok := typ.Attributes[a.Name]; ok || badName(a.Name, ":#@") != "" {
				c.fail(ReasonDuplicate, "attribute %q has a bad name or is defined twice", a.Name)
			}
			if !attributeType(a.Type) {
				c.fail(ReasonRewrite, "attribute %q has type %s", a.Name, a.Type)
			}
			typ.Attributes[a.Name] = a.Type
		}
		c.s.Types = append(c.s.Types, typ)
		for j := range t.Relations {
			c.def = &t.Relations[j]
			c.declareRelation(&c.s.Types[id])
		}
		c.def = nil
	}
	c.typ = nil
}

func (c *compilation) declareRelation(t *Type) {
	if badName(c.def.Name, ":#@") != "" {
		c.fail(ReasonName, "relation name %q", c.def.Name)
	}
	if _, ok := t.relations[c.def.Name]; ok {
		c.fail(ReasonDuplicate, "relation defined twice")
		return
	}
	id := RelationID(len(c.s.Relations))
	t.relations[c.def.Name] = id
	c.s.Relations = append(c.s.Relations, Relation{ID: id, Type: t.ID, Name: c.def.Name,
		Kind: c.kind(Kind{Type: t.Name, Relation: c.def.Name})})
}

func badName(s, forbidden string) string {
	if s == "" {
		return " "
	}
	for i := 0; i < len(s); i++ {
		if s[i] <= ' ' || s[i] == 0x7f || strings.IndexByte(forbidden, s[i]) >= 0 {
			return s[i : i+1]
		}
	}
	return ""
}

func attributeType(t expr.Type) bool {
	scalar := func(k expr.Kind) bool { return k >= expr.Bool && k <= expr.IPAddress }
	if t.Kind == expr.List {
		return t.Elem != nil && t.Elem.Elem == nil && scalar(t.Elem.Kind)
	}
	return t.Elem == nil && scalar(t.Kind)
}
