package function

import (
	"math"
	"math/big"
	"math/bits"
	"sync"

	"github.com/ostiary/ostiary/policy/value"
)

// arithmetic adds the functions of appendix A.3.2 and the conversions between
// numbers of A.3.4.
func (b *builder) arithmetic() {
	b.fold(v1+"integer-add", value.Integer, addIntegers)
	b.fold(v1+"integer-multiply", value.Integer, multiplyIntegers)
	b.fold(v1+"double-add", value.Double, doubles(func(x, y float64) float64 { return x + y }))
	b.fold(v1+"double-multiply", value.Double, doubles(func(x, y float64) float64 { return x * y }))
	b.binary(v1+"integer-subtract", value.Integer, subtractIntegers)
	b.binary(v1+"double-subtract", value.Double, doubles(func(x, y float64) float64 { return x - y }))
	b.binary(v1+"integer-divide", value.Integer, notByZero((*big.Int).Quo))
	b.binary(v1+"integer-mod", value.Integer, notByZero((*big.Int).Rem))
	b.binary(v1+"double-divide", value.Double, divideDoubles)
	b.unary(v1+"integer-abs", value.Integer, value.Integer, func(v value.Value) (value.Value, error) {
		return value.NewBigInteger(v.BigInt().Abs(v.BigInt())), nil
	})
	b.unary(v1+"double-abs", value.Double, value.Double, ofDouble(math.Abs))
	b.unary(v1+"round", value.Double, value.Double, ofDouble(math.RoundToEven))
	b.unary(v1+"floor", value.Double, value.Double, ofDouble(math.Floor))
	b.unary(v1+"double-to-integer", value.Double, value.Integer, doubleToInteger)
	b.unary(v1+"integer-to-double", value.Integer, value.Double, integerToDouble)
}

// operation computes a value of two values.
type operation func(x, y value.Value) (value.Value, error)

// unary adds a function of one single value.
func (b *builder) unary(id string, param, result value.Type, f func(value.Value) (value.Value, error)) {
	b.add(&Function{
		ID:        id,
		Signature: Signature{Params: []Shape{one(param)}, Result: one(result)},
		Call: func(_ *Env, args []Operand) (Operand, error) {
			v, err := f(args[0].Value)
			return Single(v), err
		},
	})
}

// binary adds a function of two values of a type that returns one of the type.
func (b *builder) binary(id string, t value.Type, f operation) {
	b.add(&Function{
		ID:        id,
		Signature: Signature{Params: []Shape{one(t), one(t)}, Result: one(t)},
		Call: func(_ *Env, args []Operand) (Operand, error) {
			v, err := f(args[0].Value, args[1].Value)
			return Single(v), err
		},
	})
}

// fold adds a function of two or more values of a type, which are combined from
// the left.
func (b *builder) fold(id string, t value.Type, f operation) {
	b.add(&Function{
		ID:        id,
		Signature: Signature{Params: []Shape{one(t), one(t)}, Repeat: 1, Result: one(t)},
		Call: func(_ *Env, args []Operand) (Operand, error) {
			sum, err := args[0].Value, error(nil)
			for _, arg := range args[1:] {
				if sum, err = f(sum, arg.Value); err != nil {
					return Operand{}, err
				}
			}
			return Single(sum), nil
		},
	})
}

func addIntegers(x, y value.Value) (value.Value, error) {
	a, okA := x.Int64()
	b, okB := y.Int64()
	if sum := a + b; okA && okB && (sum > a) == (b > 0) {
		return value.NewInteger(sum), nil
	}
	return bounded(x.BigInt().Add(x.BigInt(), y.BigInt()))
}

func subtractIntegers(x, y value.Value) (value.Value, error) {
	a, okA := x.Int64()
	b, okB := y.Int64()
	if rest := a - b; okA && okB && (rest < a) == (b > 0) {
		return value.NewInteger(rest), nil
	}
	return bounded(x.BigInt().Sub(x.BigInt(), y.BigInt()))
}

func multiplyIntegers(x, y value.Value) (value.Value, error) {
	a, okA := x.Int64()
	b, okB := y.Int64()
	if okA && okB && bits.Len64(magnitude(a))+bits.Len64(magnitude(b)) <= 63 {
		return value.NewInteger(a * b), nil
	}
	return bounded(new(big.Int).Mul(x.BigInt(), y.BigInt()))
}

func magnitude(i int64) uint64 {
	if i < 0 {
		return -uint64(i)
	}
	return uint64(i)
}

// notByZero returns a division of integers that fails for the divisor 0.
func notByZero(divide func(z, x, y *big.Int) *big.Int) operation {
	return func(x, y value.Value) (value.Value, error) {
		divisor := y.BigInt()
		if divisor.Sign() == 0 {
			return value.Value{}, processing("division of %s by zero", cut(x))
		}
		return value.NewBigInteger(divide(new(big.Int), x.BigInt(), divisor)), nil
	}
}

// beyond is the smallest integer with too many digits.
var beyond = sync.OnceValue(func() *big.Int {
	return new(big.Int).Exp(big.NewInt(10), big.NewInt(value.IntegerDigitsMax), nil)
})

// bounded returns an integer, or an error if it has more digits than allowed.
func bounded(i *big.Int) (value.Value, error) {
	if i.CmpAbs(beyond()) >= 0 {
		return value.Value{}, tooMany("integer digits", value.IntegerDigitsMax)
	}
	return value.NewBigInteger(i), nil
}

func doubles(f func(x, y float64) float64) operation {
	return func(x, y value.Value) (value.Value, error) {
		return value.NewDouble(f(x.Double(), y.Double())), nil
	}
}

func ofDouble(f func(float64) float64) func(value.Value) (value.Value, error) {
	return func(v value.Value) (value.Value, error) { return value.NewDouble(f(v.Double())), nil }
}

func divideDoubles(x, y value.Value) (value.Value, error) {
	if y.Double() == 0 {
		return value.Value{}, processing("division of %s by zero", cut(x))
	}
	return value.NewDouble(x.Double() / y.Double()), nil
}

// doubleToInteger drops the fraction.
func doubleToInteger(v value.Value) (value.Value, error) {
	f := v.Double()
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return value.Value{}, processing("%s is not an integer: expected a finite double", cut(v))
	}
	i, _ := new(big.Float).SetFloat64(f).Int(nil)
	return value.NewBigInteger(i), nil
}

func integerToDouble(v value.Value) (value.Value, error) {
	f, _ := new(big.Float).SetInt(v.BigInt()).Float64()
	if math.IsInf(f, 0) {
		return value.Value{}, processing("%s is too large for a double", cut(v))
	}
	return value.NewDouble(f), nil
}
