package policy

import (
	"github.com/ostiary/ostiary/policy/function"
	"github.com/ostiary/ostiary/policy/status"
	"github.com/ostiary/ostiary/policy/value"
)

// evalBoolean returns the value of a boolean expression.
func evalBoolean(e expression, r *run) (bool, *status.Error) {
	if t, ok := e.(*testCall); ok {
		return t.test(r)
	}
	v, err := e.eval(r)
	return v.Value.Bool(), err
}

// literal is a value in a policy.
type literal struct{ value function.Operand }

func (l *literal) eval(*run) (function.Operand, *status.Error) { return l.value, nil }

// designator is the bag of an attribute.
type designator struct {
	slot  int32
	shape function.Shape
	// missing is the status if the bag is empty; nil if it may be empty.
	missing *status.Error
}

func (d *designator) bag(r *run) ([]value.Value, *status.Error) {
	values, err := r.bag(d.slot)
	if err == nil && len(values) == 0 && d.missing != nil {
		return nil, d.missing
	}
	return values, err
}

func (d *designator) eval(r *run) (function.Operand, *status.Error) {
	values, err := d.bag(r)
	return function.Operand{Shape: d.shape, Values: values}, err
}

// variable is the value of a variable of the policy that is being evaluated.
type variable struct{ number int }

func (v *variable) eval(r *run) (function.Operand, *status.Error) {
	at := r.frame + v.number
	if s := &r.variables[at]; s.known {
		return s.value, s.err
	}
	got, err := r.owner.variables[v.number].eval(r)
	r.variables[at] = variableState{got, err, true}
	return got, err
}

// call is a call of a function that gets its evaluated arguments. An argument
// that is Indeterminate makes the call Indeterminate.
type call struct {
	function function.Call
	args     []expression
	// product is true for a higher-order function, whose cost is the product of the
	// sizes of its bags.
	product bool
}

func (c *call) eval(r *run) (function.Operand, *status.Error) {
	base := len(r.args)
	cost := 1
	for _, arg := range c.args {
		v, err := arg.eval(r)
		if err != nil {
			r.args = r.args[:base]
			return function.Operand{}, err
		}
		r.args = append(r.args, v)
		cost = c.cost(cost, len(v.Values))
	}
	err := r.step(cost)
	var result function.Operand
	if err == nil {
		var failed error
		if result, failed = c.function(&r.env, r.args[base:]); failed != nil {
			err = asStatus(failed)
		}
	}
	r.args = r.args[:base]
	return result, err
}

// stepsMax is more than any bound on steps that is useful, and small enough that
// products of it do not overflow.
const stepsMax = 1 << 40

// cost returns the number of steps of a call with one more bag of a size.
func (c *call) cost(cost, size int) int {
	if !c.product {
		return cost + size
	}
	return min(cost*max(size, 1), stepsMax)
}

// testCall is a call of a function of two single values with a boolean result.
type testCall struct {
	function function.Test
	a, b     expression
}

func (t *testCall) test(r *run) (bool, *status.Error) {
	a, err := t.a.eval(r)
	if err != nil {
		return false, err
	}
	b, err := t.b.eval(r)
	if err != nil {
		return false, err
	}
	if err := r.step(1); err != nil {
		return false, err
	}
	ok, failed := t.function(&r.env, a.Value, b.Value)
	if failed != nil {
		return false, asStatus(failed)
	}
	return ok, nil
}

func (t *testCall) eval(r *run) (function.Operand, *status.Error) {
	ok, err := t.test(r)
	return function.Single(value.NewBoolean(ok)), err
}

// lazyCall is a call of a function that evaluates its arguments itself.
type lazyCall struct {
	function func(function.Arguments) (function.Operand, error)
	args     []expression
}

// lazyArguments are the arguments of a lazyCall in a run.
type lazyArguments struct {
	run  *run
	args []expression
}

// Len returns the number of arguments.
func (l *lazyArguments) Len() int { return len(l.args) }

// Argument evaluates an argument.
func (l *lazyArguments) Argument(index int) (function.Operand, error) {
	v, err := l.args[index].eval(l.run)
	if err != nil {
		return v, err
	}
	return v, nil
}

func (c *lazyCall) eval(r *run) (function.Operand, *status.Error) {
	if err := r.step(1); err != nil {
		return function.Operand{}, err
	}
	r.lazies = append(r.lazies, lazyArguments{r, c.args})
	last := len(r.lazies) - 1
	v, err := c.function(&r.lazies[last])
	r.lazies = r.lazies[:last]
	if err != nil {
		return v, asStatus(err)
	}
	return v, nil
}
