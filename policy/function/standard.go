package function

import (
	"sync"

	"github.com/ostiary/ostiary/policy/value"
)

// The namespaces of the standard's function ids, by the version of XACML that
// introduced the function.
const (
	v1 = "urn:oasis:names:tc:xacml:1.0:function:"
	v2 = "urn:oasis:names:tc:xacml:2.0:function:"
	v3 = "urn:oasis:names:tc:xacml:3.0:function:"
)

// standard makes the set of standard functions on first use.
var standard = sync.OnceValue(func() *Set {
	b := &builder{set: map[string]*Function{}}
	b.equality()
	b.comparison()
	b.logic()
	b.arithmetic()
	b.text()
	b.conversion()
	b.bags()
	b.dates()
	b.matching()
	b.patterns()
	b.higherOrder()
	b.xpath()
	return &Set{byID: b.set}
})

// Standard returns all functions of this package. It is made on first use.
func Standard() *Set { return standard() }

// builder collects the standard functions.
type builder struct {
	set map[string]*Function
}

// add adds a function. Ids come from this package, so a duplicate is a bug, which
// panics on first use of the set.
func (b *builder) add(f *Function) {
	if b.set[f.ID] != nil {
		panic("function " + f.ID + " is defined twice")
	}
	b.set[f.ID] = f
}

// one returns the shape of a single value.
func one(t value.Type) Shape { return Shape{Type: t} }

// bagOf returns the shape of a bag.
func bagOf(t value.Type) Shape { return Shape{Type: t, Bag: true} }

// test adds a function of two single values with a boolean result.
func (b *builder) test(id string, first, second value.Type, test Test) {
	b.add(&Function{
		ID:        id,
		Signature: Signature{Params: []Shape{one(first), one(second)}, Result: one(value.Boolean)},
		Test:      test,
		Call:      callTest(test),
	})
}

// callTest returns the form of a Test that takes operands.
func callTest(test Test) Call {
	return func(env *Env, args []Operand) (Operand, error) {
		ok, err := test(env, args[0].Value, args[1].Value)
		if err != nil {
			return Operand{}, err
		}
		return Single(value.NewBoolean(ok)), nil
	}
}
