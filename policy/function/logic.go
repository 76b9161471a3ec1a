package function

import (
	"fmt"
	"strings"

	"github.com/ostiary/ostiary/policy/value"
)

// logic adds or, and, n-of and not (appendix A.3.5).
func (b *builder) logic() {
	booleans := Signature{Params: []Shape{one(value.Boolean)}, Repeat: 1, Optional: 1, Result: one(value.Boolean)}
	b.add(&Function{ID: v1 + "or", Signature: booleans, Lazy: decideBy(true)})
	b.add(&Function{ID: v1 + "and", Signature: booleans, Lazy: decideBy(false)})
	b.add(&Function{
		ID: v1 + "n-of",
		Signature: Signature{
			Params: []Shape{one(value.Integer), one(value.Boolean)},
			Repeat: 1, Optional: 1, Result: one(value.Boolean),
		},
		Lazy:          nOf,
		CheckLiterals: checkNOf,
	})
	b.unary(v1+"not", value.Boolean, value.Boolean, func(v value.Value) (value.Value, error) {
		return value.NewBoolean(!v.Bool()), nil
	})
}

// decideBy returns a function that is decided by the first argument with the
// value, also if there are errors before it: true for or, false for and. If no
// argument has it, the result is the first error, or else the opposite value.
func decideBy(decisive bool) func(Arguments) (Operand, error) {
	return func(args Arguments) (Operand, error) {
		var first error
		for i := range args.Len() {
			arg, err := args.Argument(i)
			if err == nil && arg.Value.Bool() == decisive {
				return boolean(decisive), nil
			}
			if first == nil {
				first = err
			}
		}
		return boolean(!decisive), first
	}
}

// nOf is true if at least n of the booleans are true, where n is the first
// argument. It stops as soon as the result is certain. An error is the result
// only if the arguments without an error do not decide.
func nOf(args Arguments) (Operand, error) {
	least, err := args.Argument(0)
	if err != nil {
		return Operand{}, err
	}
	if err := checkCount(least.Value, args.Len()-1); err != nil {
		return Operand{}, processing("n-of: %v", err)
	}
	missing, _ := least.Value.Int64()
	possible := int64(args.Len() - 1) // booleans that are or may become true
	var first error
	for i := 1; i < args.Len() && missing > 0 && missing <= possible; i++ {
		arg, err := args.Argument(i)
		switch {
		case err != nil && first == nil:
			first = err
		case err == nil && arg.Value.Bool():
			missing--
			possible--
		case err == nil:
			possible--
		}
	}
	switch {
	case missing == 0:
		return boolean(true), nil
	case missing > possible:
		return boolean(false), nil
	}
	return Operand{}, first
}

// checkCount fails if a number of booleans is negative or more than there are.
func checkCount(n value.Value, booleans int) error {
	if i, ok := n.Int64(); !ok || i < 0 || i > int64(booleans) {
		return fmt.Errorf("invalid number %s: expected 0 to %d, the number of boolean arguments", cut(n), booleans)
	}
	return nil
}

func checkNOf(literals []*value.Value) error {
	if literals[0] == nil {
		return nil
	}
	return checkCount(*literals[0], len(literals)-1)
}

// cut returns the text of a value for an error, shortened if it is long, and in
// quotes unless it is a number.
func cut(v value.Value) string {
	text := value.Quote(v.Text())
	if t := v.Type(); t == value.Integer || t == value.Double {
		return strings.ReplaceAll(text, `"`, "")
	}
	return text
}
