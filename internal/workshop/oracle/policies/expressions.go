package policies

import (
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/function"
	"github.com/ostiary/ostiary/policy/value"
)

// apply returns a call of a function.
func apply(id string, arguments ...policy.Expression) policy.Expression {
	return &policy.Apply{Function: id, Arguments: arguments}
}

// single returns the shape of one value of a type, and bagOf that of a bag.
func single(t value.Type) function.Shape { return function.Shape{Type: t} }
func bagOf(t value.Type) function.Shape  { return function.Shape{Type: t, Bag: true} }

// expression returns an expression of a shape that is nested at most depth deep.
func (g *generator) expression(s function.Shape, depth int) policy.Expression {
	if g.one(3) {
		for _, v := range g.variables {
			if v.shape == s && g.one(2) {
				return &policy.VariableReference{ID: v.id}
			}
		}
	}
	switch {
	case s.Bag:
		return g.bag(s.Type, depth)
	case depth <= 0 && g.one(2):
		return &policy.Literal{Value: g.literal(s.Type)}
	case depth <= 0:
		return g.oneOf(s.Type)
	case s.Type == value.Boolean:
		return g.boolean(depth)
	case s.Type == value.Integer:
		return g.integer(depth)
	case s.Type == value.String:
		return g.text(depth)
	case g.one(2):
		return &policy.Literal{Value: g.literal(s.Type)}
	}
	return g.oneOf(s.Type)
}

// oneOf returns the only value of a bag: an error if it has another size.
func (g *generator) oneOf(t value.Type) policy.Expression {
	return apply(familyOf(t, "-one-and-only"), g.bag(t, 0))
}

// bag returns a bag of a type.
func (g *generator) bag(t value.Type, depth int) policy.Expression {
	switch {
	case g.one(6):
		return g.selection(t)
	case depth <= 0 || g.one(2):
		return g.designator(t)
	}
	next := func() policy.Expression { return g.expression(bagOf(t), depth-1) }
	one := func() policy.Expression { return g.expression(single(t), depth-1) }
	switch g.IntN(6) {
	case 0:
		return apply(familyOf(t, "-bag"))
	case 1:
		return apply(familyOf(t, "-bag"), one(), one())
	case 2:
		return apply(familyOf(t, "-union"), next(), next())
	case 3:
		return apply(familyOf(t, "-intersection"), next(), next())
	}
	switch t {
	case value.String:
		return higher(g.either("map"), standard3+"string-from-integer", g.expression(bagOf(value.Integer), depth-1))
	case value.Integer:
		return higher(g.either("map"), standard3+"integer-from-string", g.expression(bagOf(value.String), depth-1))
	}
	return g.designator(t)
}

// higher returns a call of a higher-order function.
func higher(id, inner string, arguments ...policy.Expression) policy.Expression {
	return apply(id, append([]policy.Expression{&policy.FunctionReference{ID: inner}}, arguments...)...)
}

// either returns the id of a function in 1.0 or in 3.0.
func (g *generator) either(name string) string { return g.pick(standard1, standard3) + name }

// boolean returns a boolean expression.
func (g *generator) boolean(depth int) policy.Expression {
	t := g.typeOf()
	next := func() policy.Expression { return g.expression(booleanShape, depth-1) }
	one := func() policy.Expression { return g.expression(single(t), depth-1) }
	bag := func() policy.Expression { return g.expression(bagOf(t), depth-1) }
	switch g.IntN(12) {
	case 0, 1:
		return apply(g.pick(or, and), next(), next())
	case 2:
		return apply(standard1+"not", next())
	case 3:
		least := g.IntN(4)
		return apply(nOf, &policy.Literal{Value: value.NewInteger(int64(least))}, next(), next(), next())
	case 4:
		// A literal that is out of range would be rejected.
		least := apply(standard1+"integer-subtract", g.expression(single(value.Integer), depth-1), g.expression(single(value.Integer), 0))
		return apply(nOf, least, next(), next())
	case 5:
		return apply(equalOf(t), one(), one())
	case 6, 7:
		return apply(familyOf(t, "-is-in"), one(), bag())
	case 8:
		return apply(familyOf(t, g.pick("-subset", "-set-equals", "-at-least-one-member-of")), bag(), bag())
	case 9:
		return apply(g.pick(or, and))
	case 10:
		x, y := g.expression(single(value.Integer), depth-1), g.expression(single(value.Integer), depth-1)
		return apply(standard1+"integer-"+g.pick("greater-than", "less-than-or-equal"), x, y)
	}
	return g.quantified(t, one, bag)
}

// quantified returns a higher-order function with a boolean result.
func (g *generator) quantified(t value.Type, one, bag func() policy.Expression) policy.Expression {
	equal := equalOf(t)
	switch g.IntN(7) {
	case 0:
		return higher(g.either(g.pick("any-of", "all-of")), equal, one(), bag())
	case 1:
		return higher(g.either(g.pick("any-of", "all-of")), equal, bag(), one())
	case 2:
		return higher(g.either("any-of-any"), equal, one(), bag())
	case 3:
		return higher(g.either("any-of-any"), equal, bag(), bag())
	case 4:
		return higher(standard1+g.pick("all-of-any", "any-of-all", "all-of-all"), equal, bag(), bag())
	case 5:
		// Some texts are no regular expressions.
		return higher(standard1+"any-of-any", standard1+"string-regexp-match", g.bag(value.String, 0), g.bag(value.String, 0))
	}
	return higher(standard1+g.pick("all-of-any", "any-of-all"), standard1+g.pick("integer-less-than", "integer-greater-than"),
		g.bag(value.Integer, 1), g.bag(value.Integer, 1))
}

// integer returns an integer expression.
func (g *generator) integer(depth int) policy.Expression {
	next := func() policy.Expression { return g.expression(single(value.Integer), depth-1) }
	switch g.IntN(8) {
	case 7:
		return apply(standard3+"xpath-node-count", &policy.Literal{Value: value.NewXPath(value.XPath{Category: g.category(), Path: g.path()})})
	case 0:
		return apply(standard1+g.pick("integer-add", "integer-multiply"), next(), next(), next())
	case 1:
		return apply(standard1+"integer-subtract", next(), next())
	case 2:
		return apply(standard1+g.pick("integer-divide", "integer-mod"), next(), next())
	case 3:
		t := g.typeOf()
		return apply(familyOf(t, "-bag-size"), g.expression(bagOf(t), depth-1))
	case 4:
		return apply(standard3+"integer-from-string", g.expression(single(value.String), depth-1))
	case 5:
		return g.oneOf(value.Integer)
	}
	return &policy.Literal{Value: g.literal(value.Integer)}
}

// text returns a string expression.
func (g *generator) text(depth int) policy.Expression {
	next := func() policy.Expression { return g.expression(single(value.String), depth-1) }
	switch g.IntN(5) {
	case 0:
		return apply(standard1+"string-normalize-to-lower-case", next())
	case 1:
		return apply("urn:oasis:names:tc:xacml:2.0:function:string-concatenate", next(), next())
	case 2:
		return apply(standard3+"string-from-integer", g.expression(single(value.Integer), depth-1))
	case 3:
		return g.oneOf(value.String)
	}
	return &policy.Literal{Value: g.literal(value.String)}
}
