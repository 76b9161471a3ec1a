package schema

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ostiary/ostiary/expr"
)

// Errors of [Compile], for use with errors.Is.
var (
	// ErrModel is wrapped by every error about a model.
	ErrModel = errors.New("invalid model")
	// ErrBound is wrapped if a model exceeds a limit of this package. It wraps
	// ErrModel.
	ErrBound = fmt.Errorf("%w: bound exceeded", ErrModel)
	// ErrNoCompiler is returned if a model has conditions and Compile was called
	// without an expr.Compiler. It wraps ErrModel.
	ErrNoCompiler = fmt.Errorf("%w: the model has conditions, but no compiler for them is configured", ErrModel)
)

// Reason classifies an [Error], for callers that translate it into an error of
// a protocol.
type Reason string

// The reasons.
const (
	ReasonName               Reason = "name"                // a name is empty or has a forbidden character
	ReasonDuplicate          Reason = "duplicate"           // something is defined twice
	ReasonUndefinedType      Reason = "undefined type"      // a restriction names a type that is not defined
	ReasonUndefinedRelation  Reason = "undefined relation"  // a rewrite or restriction names a relation that is not defined
	ReasonUndefinedCondition Reason = "undefined condition" // a restriction or rule names a condition that is not defined
	ReasonUndefinedAttribute Reason = "undefined attribute" // a rewrite names an attribute that is not defined, or not a bool
	ReasonRestrictions       Reason = "type restrictions"   // they are missing, not allowed or contradictory
	ReasonTupleset           Reason = "tupleset"            // the first relation of an arrow cannot be followed
	ReasonEntrypoint         Reason = "no entrypoint"       // see Options.RequireEntrypoints
	ReasonRewrite            Reason = "rewrite"             // an operator has wrong operands
	ReasonCondition          Reason = "condition"           // a condition does not compile
	ReasonBound              Reason = "bound"               // a limit of this package is exceeded
)

// Error is one error in a model.
type Error struct {
	// Reason classifies the error.
	Reason Reason
	// Type is the type that the error is in; "" if it is in a condition.
	Type string
	// Relation is the relation that the error is in; "" if it is not in a relation.
	Relation string
	// Condition is the condition that the error is in; "" if it is not in one.
	Condition string
	// Text describes the error, without where it is.
	Text string
	// Err is ErrModel or ErrBound. If a condition does not compile, it wraps the
	// compiler's error as well.
	Err error
}

// Error returns where the error is, followed by its text.
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

// Unwrap returns e.Err.
func (e *Error) Unwrap() error { return e.Err }

// Compile checks and compiles a model. The caller must not change the model
// afterwards. compiler may be nil if the model has no conditions.
//
// Compile works in steps and stops after the first step that finds errors. It
// then returns at most ErrorsMax of them, joined with [errors.Join]. Each is an
// [*Error] or [ErrNoCompiler].
func Compile(m *Model, compiler expr.Compiler) (*Schema, error) {
	return CompileContext(context.Background(), m, compiler)
}

// CompileContext is [Compile] that ends soon after ctx ends, with the error of
// ctx. The compilation of a single condition is not interrupted.
func CompileContext(ctx context.Context, m *Model, compiler expr.Compiler) (*Schema, error) {
	return newCompilation(ctx, m).run(compiler)
}

func newCompilation(ctx context.Context, m *Model) *compilation {
	return &compilation{ctx: ctx, m: m, hidden: map[hiddenKey]RelationID{}, s: &Schema{
		Namespace: m.Namespace, Options: m.Options, model: m,
		Conditions: map[string]*Condition{}, types: map[string]TypeID{}, kinds: map[Kind]KindID{},
	}}
}

// run compiles the model, step by step.
func (c *compilation) run(compiler expr.Compiler) (*Schema, error) {
	steps := []func(){c.bounds, func() { c.conditions(compiler) }, c.declare, c.rewrites, c.analyse}
	for _, step := range steps {
		step()
		if len(c.errs) == 0 {
			c.interrupted()
		}
		if len(c.errs) > 0 {
			return nil, errors.Join(c.errs...)
		}
	}
	c.s.bytes = c.schemaBytes()
	return c.s, nil
}

// CheckSize fails with [ErrBound], as [Compile] does, if a model exceeds a limit
// of this package that can be checked without compiling it. A model that it
// accepts is not too deep for recursive functions.
func (m *Model) CheckSize() error {
	c := &compilation{m: m}
	c.bounds()
	return errors.Join(c.errs...)
}

// ErrorsMax is the maximum number of errors that [Compile] returns.
const ErrorsMax = 20

// compilation is the state of one [Compile].
type compilation struct {
	ctx  context.Context
	m    *Model
	s    *Schema
	errs []error
	// typ and def are the definitions that are compiled at present; nil if none.
	// Errors and the names of hidden relations mention them.
	typ *TypeDef
	def *RelationDef
	// defs are the definitions by RelationID, without hidden relations.
	defs []*RelationDef
	// hidden finds the hidden relation of an expression under an arrow. Without it,
	// nested arrows would make the same relation many times.
	hidden map[hiddenKey]RelationID
	// depends are the dependencies by RelationID.
	depends [][]dependency
	// users is depends read backwards; see usersOf.
	users [][]RelationID
	// steps counts towards StepsMax, worked towards AnalysisMax.
	steps, worked int
	// stopped is true once a bound or the context has ended the compilation.
	stopped bool
}

// interruptEvery is how many steps are made between two looks at the context.
const interruptEvery = 1 << 12

// interrupted reports whether the compilation must end because the context has
// ended. It adds the error of the context.
func (c *compilation) interrupted() bool {
	if err := c.ctx.Err(); err != nil && !c.stopped {
		c.stopped = true
		c.errs = append(c.errs, err)
	}
	return c.stopped
}

// step counts n steps or operators of rewrites. It returns false, after it added
// an error, if there are too many or the context has ended.
func (c *compilation) step(n int) bool {
	before := c.steps
	if c.steps += n; c.steps > StepsMax && !c.stopped {
		c.fail(ReasonBound, "the rewrites of all relations have more than %d operators and steps, including those that each type under an arrow adds", StepsMax)
		c.stopped = true
	}
	return !c.stopped && (before/interruptEvery == c.steps/interruptEvery || !c.interrupted())
}

// work counts one look at a relation and at those that it depends on. It returns
// false, after it added an error, if there were too many or the context has ended.
func (c *compilation) work(id RelationID) bool {
	before := c.worked
	if c.worked += 1 + len(c.depends[id]); c.worked > AnalysisMax && !c.stopped {
		c.fail(ReasonBound, "the dependencies between relations take more than %d steps to analyse", AnalysisMax)
		c.stopped = true
	}
	return !c.stopped && (before/interruptEvery == c.worked/interruptEvery || !c.interrupted())
}

// hiddenKey identifies a hidden relation: the expression under the arrow, on a
// type.
type hiddenKey struct {
	child *Rewrite
	typ   TypeID
}

// fail adds an error about the definition that is compiled at present.
func (c *compilation) fail(r Reason, format string, args ...any) {
	if len(c.errs) >= ErrorsMax {
		return
	}
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
	c.errs = append(c.errs, e)
}

// bounds rejects a model that is too large, before other steps work on it.
func (c *compilation) bounds() {
	limit := func(what string, n, max int) {
		if n > max {
			c.fail(ReasonBound, "%d %s, the maximum is %d", n, what, max)
		}
	}
	limit("types", len(c.m.Types), TypesMax)
	limit("conditions", len(c.m.Conditions), ConditionsMax)
	for i := range c.m.Conditions {
		for _, p := range c.m.Conditions[i].Params {
			limit("levels of a type", levels(p.Type), TypeLevelsMax)
		}
	}
	relations := 0
	for i := range c.m.Types {
		t := &c.m.Types[i]
		c.typ = t
		relations += len(t.Relations)
		limit("attributes", len(t.Attributes), AttributesMax)
		for _, a := range t.Attributes {
			limit("levels of a type", levels(a.Type), TypeLevelsMax)
		}
		for j := range t.Relations {
			c.def = &t.Relations[j]
			limit("type restrictions", len(c.def.Subjects), RestrictionsMax)
			c.rewriteShape(&c.def.Rewrite)
		}
		c.def = nil
	}
	c.typ = nil
	limit("relations", relations, RelationsMax)
}

// levels returns how many types are inside each other, at most one more than
// TypeLevelsMax.
func levels(t expr.Type) int {
	n := 1
	for e := t.Elem; e != nil && n <= TypeLevelsMax; e = e.Elem {
		n++
	}
	return n
}

// rewriteShape checks the depth of a rewrite and the number of operands of each
// operator. It does not recurse, because a hostile model can be deeper than the
// goroutine's stack.
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
			c.fail(ReasonRewrite, "%s has %d operands, expected %s", top.r.Op, n, operandsText(want))
			return
		}
		for i := range top.r.Children {
			stack = append(stack, level{&top.r.Children[i], top.depth + 1})
		}
	}
}

// conditions compiles the conditions of the model.
func (c *compilation) conditions(compiler expr.Compiler) {
	if len(c.m.Conditions) > 0 && compiler == nil {
		c.errs = append(c.errs, ErrNoCompiler)
		return
	}
	for i := range c.m.Conditions {
		if len(c.errs) >= ErrorsMax || c.interrupted() {
			return
		}
		def := c.m.Conditions[i]
		if _, ok := c.s.Conditions[def.Name]; ok {
			c.errs = append(c.errs, &Error{ReasonDuplicate, "", "", def.Name, "defined twice", ErrModel})
			continue
		}
		program, err := compiler.Compile(def)
		if err != nil {
			c.errs = append(c.errs, &Error{ReasonCondition, "", "", def.Name, err.Error(), errors.Join(ErrModel, err)})
			continue
		}
		c.s.Conditions[def.Name] = &Condition{Definition: def, Program: program}
	}
}

// full returns the full name of a type: with the namespace.
func (c *compilation) full(name string) string {
	if c.m.Namespace == "" {
		return name
	}
	return c.m.Namespace + "/" + name
}

// kind returns the index of k in Schema.Kinds. It adds k if it is new.
func (c *compilation) kind(k Kind) KindID {
	if id, ok := c.s.kinds[k]; ok {
		return id
	}
	id := KindID(len(c.s.Kinds))
	c.s.Kinds = append(c.s.Kinds, k)
	c.s.kinds[k] = id
	return id
}

// declare adds every type, relation and kind to the schema and checks their
// names.
func (c *compilation) declare() {
	for i := range c.m.Types {
		t := &c.m.Types[i]
		c.typ = t
		name := c.full(t.Name)
		if bad := badName(t.Name, ":#@/"); bad != "" && !(bad == "/" && c.m.Namespace == "") {
			c.fail(ReasonName, "type name %q is empty or contains a forbidden character", t.Name)
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
				c.fail(ReasonDuplicate, "attribute %q is defined twice, or its name is empty or contains a forbidden character", a.Name)
			}
			if !attributeType(a.Type) {
				c.fail(ReasonRewrite, "attribute %q has type %s, expected a base type or a list of one", a.Name, a.Type)
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
		c.fail(ReasonName, "relation name %q is empty or contains a forbidden character", c.def.Name)
	}
	if _, ok := t.relations[c.def.Name]; ok {
		c.fail(ReasonDuplicate, "relation defined twice")
		return
	}
	id := RelationID(len(c.s.Relations))
	t.relations[c.def.Name] = id
	c.defs = append(c.defs, c.def)
	c.s.Relations = append(c.s.Relations, Relation{ID: id, Type: t.ID, Name: c.def.Name,
		Kind: c.kind(Kind{Type: t.Name, Relation: c.def.Name})})
}

// badName returns the first character of s that is not allowed in a name, " "
// for the empty name, and "" if s is valid.
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

// attributeType reports whether an attribute may have type t.
func attributeType(t expr.Type) bool {
	scalar := func(k expr.Kind) bool { return k >= expr.Bool && k <= expr.IPAddress }
	if t.Kind == expr.List {
		return t.Elem != nil && t.Elem.Elem == nil && scalar(t.Elem.Kind)
	}
	return t.Elem == nil && scalar(t.Kind)
}
