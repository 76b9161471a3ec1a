package policy

import (
	"maps"
	"slices"
	"strings"

	"github.com/ostiary/ostiary/policy/function"
	"github.com/ostiary/ostiary/policy/status"
	"github.com/ostiary/ostiary/policy/value"
)

// expressions compiles the expressions of one policy, or of a policy set, which
// has no variables.
type expressions struct {
	*compiler
	variables []Variable
	numbers   map[string]int // variables by id
	compiled  []typed        // definitions by number; zero until they are compiled, and if they are wrong
	tried     []bool         // definitions that were compiled, by number
	open      []int          // variables whose definitions are being compiled
	// twice has the ids of variables that are defined twice.
	twice map[string]bool
}

// typed is a compiled expression with its type and its depth. The zero typed is
// an expression that is wrong.
type typed struct {
	expression expression
	shape      function.Shape
	depth      int
	literal    *value.Value // the value of a literal; otherwise nil
}

// newExpressions returns a compiler of the expressions of a policy with the
// variables. It reports variables that are defined twice.
func newExpressions(c *compiler, variables []Variable) *expressions {
	e := &expressions{compiler: c, variables: variables, compiled: make([]typed, len(variables)), tried: make([]bool, len(variables))}
	if len(variables) > 0 {
		e.numbers = make(map[string]int, len(variables))
	}
	for i, v := range variables {
		if first, ok := e.numbers[v.ID]; ok {
			c.add(v.Position, "variable %s is defined twice, also at %s: expected distinct ids", value.Quote(v.ID), variables[first].Position)
			if e.twice == nil {
				e.twice = map[string]bool{}
			}
			e.twice[v.ID] = true
			continue
		}
		e.numbers[v.ID] = i
	}
	return e
}

// definitions compiles the definitions of all variables.
func (e *expressions) definitions() []expression {
	out := make([]expression, len(e.variables))
	for i := range e.variables {
		if e.numbers[e.variables[i].ID] == i {
			out[i] = e.definition(i).expression
		}
	}
	return out
}

// definition compiles the definition of a variable, once.
func (e *expressions) definition(i int) typed {
	if !e.tried[i] {
		e.tried[i] = true
		e.open = append(e.open, i)
		e.compiled[i] = e.expression(e.variables[i].Expression, e.variables[i].Position, 1)
		e.open = e.open[:len(e.open)-1]
	}
	return e.compiled[i]
}

// expression compiles an expression. at is the place of the element around it,
// and depth the number of expressions around it, itself included.
func (e *expressions) expression(x Expression, at Position, depth int) typed {
	if depth > e.bounds.ExpressionDepth {
		e.deep(at)
		return typed{}
	}
	if !e.step() {
		return typed{}
	}
	switch x := x.(type) {
	case *Literal:
		return e.literal(x)
	case *Designator:
		return e.designator(x)
	case *Selector:
		return e.selector(x)
	case *VariableReference:
		return e.reference(x)
	case *Apply:
		return e.apply(x, depth)
	case *FunctionReference:
		e.add(x.Position, "function %s is no value here: expected a value, a bag or an Apply", value.Quote(x.ID))
		return typed{}
	}
	e.add(at, "an expression is missing: expected a value, an attribute, a variable or an Apply")
	return typed{}
}

// deep reports that the bound on the depth of expressions is exceeded.
func (e *expressions) deep(at Position) {
	e.add(at, "the expression is nested deeper than the bound %q allows: expected at most %d levels", BoundExpressionDepth, e.bounds.ExpressionDepth)
}

func (e *expressions) literal(x *Literal) typed {
	if x.Value.Type() == 0 {
		e.add(x.Position, "a value has no type: expected a data type of XACML")
		return typed{}
	}
	return typed{&literal{function.Single(x.Value)}, function.Shape{Type: x.Value.Type()}, 1, &x.Value}
}

func (e *expressions) designator(x *Designator) typed {
	if x.Type.URI() == "" {
		e.add(x.Position, "attribute %s has no type: expected a data type of XACML", value.Quote(x.ID))
		return typed{}
	}
	d := &designator{slot: e.slots.number(x), shape: function.Shape{Type: x.Type, Bag: true}}
	if x.MustBePresent {
		d.missing = missing(status.Missing{Category: x.Category, ID: x.ID, Type: x.Type, Issuer: x.Issuer})
	}
	return typed{expression: d, shape: d.shape, depth: 1}
}

// missing returns the status of a missing attribute.
func missing(m status.Missing) *status.Error {
	return &status.Error{Code: status.MissingAttribute, Missing: []status.Missing{m},
		Message: "the request has no attribute " + value.Quote(m.ID) + " of type " + m.Type.String() + " in category " + value.Quote(m.Category)}
}

// reference compiles the use of a variable.
func (e *expressions) reference(x *VariableReference) typed {
	i, ok := e.numbers[x.ID]
	if !ok {
		e.add(x.Position, "unknown variable %s: expected one that the policy defines", value.Quote(x.ID))
		return typed{}
	}
	if slices.Contains(e.open, i) {
		// Which definition of a variable is meant, and so whether there is a loop, is not
		// known if it has two.
		if loop := e.loop(i); !slices.ContainsFunc(loop, func(id string) bool { return e.twice[id] }) {
			e.add(x.Position, "variables use each other: %s: expected no loop", strings.Join(loop, " -> "))
		}
		return typed{}
	}
	definition := e.definition(i)
	switch {
	case definition.expression == nil:
		return typed{}
	case definition.depth+1 > e.bounds.ExpressionDepth:
		e.deep(x.Position)
		return typed{}
	}
	return typed{&variable{i}, definition.shape, definition.depth + 1, nil}
}

// loop returns the ids of the variables from i to the one that is being
// compiled, and i again.
func (e *expressions) loop(i int) (ids []string) {
	for _, on := range append(slices.Clone(e.open[slices.Index(e.open, i):]), i) {
		ids = append(ids, e.variables[on].ID)
	}
	return ids
}

// apply compiles a call.
func (e *expressions) apply(x *Apply, depth int) typed {
	f, ok := e.functions.Find(x.Function)
	args := x.Arguments
	var inner *FunctionReference
	if ok && f.Bind != nil && len(args) > 0 {
		if inner, _ = args[0].(*FunctionReference); inner != nil {
			args = args[1:]
		}
	}
	list, deepest, good := e.arguments(args, x.Position, depth)
	switch {
	case !ok:
		e.add(x.Position, "unknown function %s%s: expected one that is defined", value.Quote(x.Function), e.nearestFunction(x.Function))
		return typed{}
	case deepest+1 > e.bounds.ExpressionDepth:
		e.deep(x.Position)
		return typed{}
	case f.Bind != nil && inner == nil:
		e.add(x.Position, "function %s has no function as its first argument: expected a Function element", value.Quote(x.Function))
		return typed{}
	case !good:
		return typed{}
	}
	var out typed
	if f.Bind != nil {
		out = e.bind(x, f, inner, list)
	} else {
		out = e.call(x, f, list)
	}
	out.depth = deepest + 1
	return out
}

// arguments compiles arguments. It returns false if one is wrong.
func (e *expressions) arguments(args []Expression, at Position, depth int) (list []typed, deepest int, good bool) {
	list, good = make([]typed, len(args)), true
	for i, arg := range args {
		list[i] = e.expression(arg, at, depth+1)
		deepest = max(deepest, list[i].depth)
		good = good && list[i].expression != nil
	}
	return list, deepest, good
}

// split returns the parts of compiled arguments.
func split(args []typed) (expressions []expression, shapes []function.Shape, literals []*value.Value) {
	for _, a := range args {
		expressions = append(expressions, a.expression)
		shapes = append(shapes, a.shape)
		literals = append(literals, a.literal)
	}
	return expressions, shapes, literals
}

// call compiles a call of a function that is not of higher order.
func (e *expressions) call(x *Apply, f *function.Function, args []typed) typed {
	list, shapes, literals := split(args)
	if err := f.Signature.Check(shapes); err != nil {
		e.add(x.Position, "function %s: %s", value.Quote(x.Function), err)
		return typed{}
	}
	plain, test, err := f.Specialize(literals)
	if err != nil {
		e.add(x.Position, "function %s: %s", value.Quote(x.Function), err)
		return typed{}
	}
	out := typed{shape: f.Signature.Result}
	switch {
	case f.Lazy != nil:
		out.expression = &lazyCall{f.Lazy, list}
	case test != nil:
		out.expression = &testCall{test, list[0], list[1]}
	default:
		out.expression = &call{function: plain, args: list}
	}
	return out
}

// bind compiles a call of a higher-order function.
func (e *expressions) bind(x *Apply, f *function.Function, ref *FunctionReference, args []typed) typed {
	inner, ok := e.functions.Find(ref.ID)
	if !ok {
		e.add(ref.Position, "unknown function %s%s: expected one that is defined", value.Quote(ref.ID), e.nearestFunction(ref.ID))
		return typed{}
	}
	list, shapes, literals := split(args)
	bound, err := f.Bind(inner, shapes, literals)
	if err != nil {
		e.add(x.Position, "function %s with function %s: %s", value.Quote(x.Function), value.Quote(ref.ID), err)
		return typed{}
	}
	return typed{expression: &call{function: bound.Call, args: list, product: true}, shape: bound.Result}
}

// condition compiles a condition; nil is always true.
func (e *expressions) condition(x Expression, at Position) expression {
	if x == nil {
		return nil
	}
	out := e.expression(x, at, 1)
	if out.expression != nil && out.shape != (function.Shape{Type: value.Boolean}) {
		e.add(at, "the condition is a %s: expected a boolean", out.shape)
	}
	return out.expression
}

// slotsBuilder numbers attributes. The slots that it begins with are copied
// before the first change, because a plan uses them.
type slotsBuilder struct {
	*slots
	owned bool
}

// number returns the slot of an attribute, and makes one if there is none.
func (b *slotsBuilder) number(d *Designator) int32 {
	if n, ok := b.find(d); ok {
		return n
	}
	b.own()
	is := *d
	is.MustBePresent, is.Position = false, Position{}
	n := int32(len(b.list))
	b.list = append(b.list, slot{designator: is, clock: isClock(d)})
	ids := b.categories[d.Category]
	if ids == nil {
		ids = map[string][]int32{}
		b.categories[d.Category] = ids
	}
	ids[d.ID] = append(ids[d.ID], n)
	return n
}

// own copies the slots unless that has been done.
func (b *slotsBuilder) own() {
	if b.owned {
		return
	}
	old := b.slots
	b.owned = true
	b.slots = &slots{seed: old.seed, list: slices.Clone(old.list), selectors: maps.Clone(old.selectors),
		categories: make(map[string]map[string][]int32, len(old.categories))}
	for category, ids := range old.categories {
		mine := make(map[string][]int32, len(ids))
		for id, numbers := range ids {
			mine[id] = slices.Clip(numbers)
		}
		b.categories[category] = mine
	}
}
