package function

import (
	"errors"
	"fmt"

	"github.com/ostiary/ostiary/policy/value"
)

// callsMax is the bound "function calls": how often one evaluation of a
// higher-order function may call its function.
const callsMax = 1_000_000

// contextEvery is the number of calls between two looks at the context.
const contextEvery = 1024

// higherOrder adds the functions of appendix A.3.12. Those with one bag find it
// at any place, in 1.0 too, where it was the last argument.
func (b *builder) higherOrder() {
	for _, namespace := range []string{v1, v3} {
		b.bind(namespace+"any-of", booleanResult, oneBag, anyOf)
		b.bind(namespace+"all-of", booleanResult, oneBag, allOf)
		b.bind(namespace+"any-of-any", booleanResult, anyShapes, anyOf)
		b.bind(namespace+"map", singleResult, oneBag, mapped)
	}
	b.bind(v1+"all-of-any", booleanResult, twoBags, nested(0, allOf, anyOf))
	b.bind(v1+"any-of-all", booleanResult, twoBags, nested(1, allOf, anyOf))
	b.bind(v1+"all-of-all", booleanResult, twoBags, allOf)
}

// A combiner computes the result of an application to arguments.
type combiner func(a *application, env *Env, args []Operand) (Operand, error)

// bind adds a higher-order function. accept checks the result of the inner
// function and returns that of the higher-order function; shapes checks the
// arguments.
func (b *builder) bind(id string, accept func(result Shape) (Shape, error), shapes func(args []Shape) error, combine combiner) {
	b.add(&Function{ID: id, Bind: func(inner *Function, args []Shape, literals []*value.Value) (Bound, error) {
		if inner.Bind != nil {
			return Bound{}, errors.New("the first argument is a higher-order function: expected one whose arguments are values")
		}
		result, err := accept(inner.Signature.Result)
		if err != nil {
			return Bound{}, fmt.Errorf("function %s: %w", inner.ID, err)
		}
		if err := shapes(args); err != nil {
			return Bound{}, err
		}
		singles := make([]Shape, len(args))
		for i, arg := range args {
			singles[i] = one(arg.Type)
		}
		if err := inner.Signature.Check(singles); err != nil {
			return Bound{}, fmt.Errorf("function %s: %w", inner.ID, err)
		}
		a, err := newApplication(inner, literals)
		if err != nil {
			return Bound{}, fmt.Errorf("function %s: %w", inner.ID, err)
		}
		return Bound{Result: result, Call: func(env *Env, args []Operand) (Operand, error) {
			run := *a
			return combine(&run, env, args)
		}}, nil
	}})
}

func booleanResult(result Shape) (Shape, error) {
	if result != one(value.Boolean) {
		return Shape{}, fmt.Errorf("the result is a %s: expected a boolean", result)
	}
	return result, nil
}

// singleResult is for map, which returns a bag of single results.
func singleResult(result Shape) (Shape, error) {
	if result.Bag || result.Type == 0 {
		return Shape{}, fmt.Errorf("the result is a %s: expected a single value", result)
	}
	return bagOf(result.Type), nil
}

func countBags(args []Shape) int {
	n := 0
	for _, arg := range args {
		if arg.Bag {
			n++
		}
	}
	return n
}

func oneBag(args []Shape) error {
	if n := countBags(args); n != 1 {
		return fmt.Errorf("%d bags after the function: expected exactly one", n)
	}
	return nil
}

func twoBags(args []Shape) error {
	if len(args) != 2 || countBags(args) != 2 {
		return fmt.Errorf("%d arguments with %d bags after the function: expected two bags", len(args), countBags(args))
	}
	return nil
}

func anyShapes(args []Shape) error {
	if len(args) == 0 {
		return errors.New("no argument after the function: expected at least one")
	}
	return nil
}

// application is one evaluation of a higher-order function.
type application struct {
	call   Call
	test   Test  // the faster form of call, or nil
	result Shape // type of the result of the inner function
	calls  int   // calls so far
}

func newApplication(inner *Function, literals []*value.Value) (*application, error) {
	call, test, err := inner.Specialize(literals)
	if inner.Lazy != nil {
		call = func(_ *Env, args []Operand) (Operand, error) { return inner.Lazy(evaluated(args)) }
	}
	return &application{call: call, test: test, result: inner.Signature.Result}, err
}

// count counts a call. It fails if there were too many, or if the evaluation has
// no time left.
func (a *application) count(env *Env) error {
	a.calls++
	switch {
	case a.calls > callsMax:
		return tooMany("function calls", callsMax)
	case a.calls%contextEvery == 0:
		return env.long()
	}
	return nil
}

// evaluated are arguments that have been evaluated.
type evaluated []Operand

func (e evaluated) Len() int                        { return len(e) }
func (e evaluated) Argument(i int) (Operand, error) { return e[i], nil }

// product calls f with the result of the function for each element of the cross
// product of the bags, until f returns false. The last bag changes fastest.
func (a *application) product(env *Env, args []Operand, f func(Operand, error) bool) error {
	single := make([]Operand, len(args))
	place := make([]int, len(args))
	for i, arg := range args {
		switch {
		case !arg.Shape.Bag:
			single[i] = arg
		case len(arg.Values) == 0:
			return nil
		default:
			single[i] = Single(arg.Values[0])
		}
	}
	for {
		if err := a.count(env); err != nil {
			return err
		}
		if !f(a.call(env, single)) || !advance(args, single, place) {
			return nil
		}
	}
}

// advance moves to the next element of the cross product. It returns false after
// the last one.
func advance(args, single []Operand, place []int) bool {
	for i := len(args) - 1; i >= 0; i-- {
		if !args[i].Shape.Bag {
			continue
		}
		place[i] = (place[i] + 1) % len(args[i].Values)
		single[i] = Single(args[i].Values[place[i]])
		if place[i] > 0 {
			return true
		}
	}
	return false
}

// anyOf is true if the function is true for one element of the cross product.
func anyOf(a *application, env *Env, args []Operand) (Operand, error) {
	return a.until(env, args, true)
}

// allOf is true if the function is true for all elements of the cross product.
func allOf(a *application, env *Env, args []Operand) (Operand, error) {
	return a.until(env, args, false)
}

// until returns the decisive value if the function has it for one element.
// Otherwise it returns the first error, or else the opposite value. A bound is an
// error whatever the elements before it were.
func (a *application) until(env *Env, args []Operand, decisive bool) (Operand, error) {
	if a.test != nil && args[0].Shape.Bag != args[1].Shape.Bag {
		return a.scan(env, args[0], args[1], decisive)
	}
	var first error
	found := false
	err := a.product(env, args, func(o Operand, err error) bool {
		if err != nil && first == nil {
			first = err
		}
		found = err == nil && o.Value.Bool() == decisive
		return !found
	})
	switch {
	case err != nil:
		return Operand{}, err
	case found:
		return boolean(decisive), nil
	case first != nil:
		return Operand{}, first
	}
	return boolean(!decisive), nil
}

// scan does what until does for a value and a bag, in either order, without
// allocating.
func (a *application) scan(env *Env, x, y Operand, decisive bool) (Operand, error) {
	var first error
	for i := range max(len(x.Values), len(y.Values)) {
		if err := a.count(env); err != nil {
			return Operand{}, err
		}
		if x.Shape.Bag {
			x.Value = x.Values[i]
		} else {
			y.Value = y.Values[i]
		}
		ok, err := a.test(env, x.Value, y.Value)
		switch {
		case err == nil && ok == decisive:
			return boolean(decisive), nil
		case first == nil:
			first = err
		}
	}
	if first != nil {
		return Operand{}, first
	}
	return boolean(!decisive), nil
}

// nested combines two bags with two combiners: outer over the bag at the place,
// and inner over the other one. all-of-any demands for each value of the first
// bag one of the second; any-of-all demands for each value of the second bag one
// of the first.
func nested(place int, outer, inner combiner) combiner {
	return func(a *application, env *Env, args []Operand) (Operand, error) {
		each := application{call: func(env *Env, values []Operand) (Operand, error) {
			pair := [2]Operand{args[0], args[1]}
			pair[place] = values[0]
			return inner(a, env, pair[:])
		}}
		return outer(&each, env, args[place:place+1])
	}
}

// mapped returns the bag of the results for each value of the bag.
func mapped(a *application, env *Env, args []Operand) (Operand, error) {
	var results []value.Value
	size := 0
	var first error
	err := a.product(env, args, func(o Operand, err error) bool {
		size += len(o.Value.Text())
		if err == nil && size > textBytesMax {
			err = tooMany("text bytes", textBytesMax)
		}
		first = err
		results = append(results, o.Value)
		return err == nil
	})
	if err == nil {
		err = first
	}
	if err != nil {
		return Operand{}, err
	}
	return Bag(a.result.Type, results), nil
}
