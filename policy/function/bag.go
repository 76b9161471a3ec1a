package function

import (
	"time"

	"github.com/ostiary/ostiary/policy/value"
)

// bags adds the functions on bags (appendix A.3.10) and sets (A.3.11).
func (b *builder) bags() {
	for _, t := range value.Types() {
		if t == value.XPathExpression {
			continue
		}
		for _, namespace := range bagVersions(t) {
			b.bagFunctions(namespace+t.String(), t)
			if t.HasEquality() {
				b.setFunctions(namespace+t.String(), t)
			}
		}
	}
}

// bagVersions returns the namespaces of the bag and set functions of a type. The
// durations have those of 1.0, too, which 3.0 replaced when it renamed the types.
func bagVersions(t value.Type) []string {
	switch t {
	case value.DayTimeDuration, value.YearMonthDuration:
		return []string{v3, v1}
	case value.IPAddress, value.DNSName:
		return []string{v2}
	}
	return []string{v1}
}

func (b *builder) bagFunctions(prefix string, t value.Type) {
	b.add(&Function{
		ID:        prefix + "-one-and-only",
		Signature: Signature{Params: []Shape{bagOf(t)}, Result: one(t)},
		Call: func(_ *Env, args []Operand) (Operand, error) {
			if n := len(args[0].Values); n != 1 {
				return Operand{}, processing("%s-one-and-only: the bag has %d values: expected one", t, n)
			}
			return Single(args[0].Values[0]), nil
		},
	})
	b.add(&Function{
		ID:        prefix + "-bag-size",
		Signature: Signature{Params: []Shape{bagOf(t)}, Result: one(value.Integer)},
		Call: func(_ *Env, args []Operand) (Operand, error) {
			return Single(value.NewInteger(int64(len(args[0].Values)))), nil
		},
	})
	b.add(&Function{
		ID:        prefix + "-bag",
		Signature: Signature{Params: []Shape{one(t)}, Repeat: 1, Optional: 1, Result: bagOf(t)},
		Call: func(_ *Env, args []Operand) (Operand, error) {
			values := make([]value.Value, len(args))
			for i, arg := range args {
				values[i] = arg.Value
			}
			return Bag(t, values), nil
		},
	})
}

func (b *builder) setFunctions(prefix string, t value.Type) {
	b.add(&Function{
		ID:        prefix + "-is-in",
		Signature: Signature{Params: []Shape{one(t), bagOf(t)}, Result: one(value.Boolean)},
		Call: func(env *Env, args []Operand) (Operand, error) {
			return boolean(isIn(args[0].Value, args[1].Values, env.zone())), nil
		},
	})
	two := []Shape{bagOf(t), bagOf(t)}
	b.add(&Function{
		ID:        prefix + "-union",
		Signature: Signature{Params: two, Repeat: 1, Result: bagOf(t)},
		Call: func(env *Env, args []Operand) (Operand, error) {
			return Bag(t, union(args, env.zone())), nil
		},
	})
	b.add(&Function{
		ID:        prefix + "-intersection",
		Signature: Signature{Params: two, Result: bagOf(t)},
		Call: func(env *Env, args []Operand) (Operand, error) {
			return Bag(t, intersection(args[0].Values, args[1].Values, env.zone())), nil
		},
	})
	b.setTest(prefix+"-at-least-one-member-of", two, func(x, y *finder) bool { return y.hasAny(x.values) })
	b.setTest(prefix+"-subset", two, func(x, y *finder) bool { return y.hasAll(x.values) })
	b.setTest(prefix+"-set-equals", two, func(x, y *finder) bool { return y.hasAll(x.values) && x.hasAll(y.values) })
}

// setTest adds a function of two bags with a boolean result.
func (b *builder) setTest(id string, two []Shape, test func(x, y *finder) bool) {
	b.add(&Function{
		ID:        id,
		Signature: Signature{Params: two, Result: one(value.Boolean)},
		Call: func(env *Env, args []Operand) (Operand, error) {
			x := finder{values: args[0].Values, zone: env.zone()}
			y := finder{values: args[1].Values, zone: env.zone()}
			return boolean(test(&x, &y)), nil
		},
	})
}

func boolean(b bool) Operand { return Single(value.NewBoolean(b)) }

// isIn reports whether a bag has a value that equals v.
func isIn(v value.Value, bag []value.Value, zone *time.Location) bool {
	for i := range bag {
		if value.EqualIn(v, bag[i], zone) {
			return true
		}
	}
	return false
}

// union returns the values of all bags without duplicates, in order of their
// first occurrence.
func union(bags []Operand, zone *time.Location) []value.Value {
	var all []value.Value
	for _, bag := range bags {
		all = append(all, bag.Values...)
	}
	return distinct(all, zone)
}

// intersection returns the values of x that are in y, without duplicates.
func intersection(x, y []value.Value, zone *time.Location) []value.Value {
	in := finder{values: y, zone: zone}
	var both []value.Value
	for _, v := range x {
		if in.has(v) {
			both = append(both, v)
		}
	}
	return distinct(both, zone)
}

// distinct returns values without those that equal an earlier one.
func distinct(values []value.Value, zone *time.Location) []value.Value {
	seen := make(map[value.Key]bool, len(values))
	kept := make([]value.Value, 0, len(values))
	for _, v := range values {
		if key := v.KeyIn(zone); !seen[key] {
			kept = append(kept, v)
			seen[key] = true
		}
	}
	return kept
}

// scanMax is the size of a bag up to which comparing with each value is faster
// than making a map of keys.
const scanMax = 8

// finder finds values in a bag.
type finder struct {
	values []value.Value
	zone   *time.Location
	keys   map[value.Key]bool // made on first use, if there are many values
}

// has reports whether a value of the bag equals v.
func (f *finder) has(v value.Value) bool {
	if len(f.values) <= scanMax {
		return isIn(v, f.values, f.zone)
	}
	if f.keys == nil {
		f.keys = make(map[value.Key]bool, len(f.values))
		for _, v := range f.values {
			f.keys[v.KeyIn(f.zone)] = true
		}
	}
	return f.keys[v.KeyIn(f.zone)]
}

func (f *finder) hasAny(values []value.Value) bool {
	for _, v := range values {
		if f.has(v) {
			return true
		}
	}
	return false
}

func (f *finder) hasAll(values []value.Value) bool {
	for _, v := range values {
		if !f.has(v) {
			return false
		}
	}
	return true
}
