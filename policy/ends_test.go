package policy

import (
	"context"
	"errors"
	"testing"

	"github.com/ostiary/ostiary/policy/value"
)

// looks is a context that ends when it has been looked at so many times.
type looks struct {
	context.Context
	most, taken int
}

func (l *looks) Err() error {
	if l.taken++; l.taken > l.most {
		return context.Canceled
	}
	return nil
}

// TestCompilationEndsWithItsContext checks and compiles policies whose context ends at
// each of its looks. The error is that of the context, also if the policies have
// mistakes, and the plan before stays valid.
func TestCompilationEndsWithItsContext(t *testing.T) {
	t.Parallel()
	const members = 300
	for _, mistakes := range []bool{false, true} {
		root := &PolicySet{Header: Header{ID: "root", Version: "1", Algorithm: AlgorithmDenyUnlessPermit}}
		for i := range members {
			p := onePolicy(i)
			if mistakes && i%2 == 0 {
				p.Rules[0].Condition = &Apply{Function: "unknown"}
			}
			root.Children = append(root.Children, p)
		}
		previous := compiled(t, onePolicy(0))
		for name, run := range map[string]func(ctx context.Context) error{
			"Check": func(ctx context.Context) error { return Check(ctx, root, CompileOptions{}) },
			"Compile": func(ctx context.Context) error {
				_, err := Compile(ctx, root, root.Children, CompileOptions{Previous: previous})
				return err
			},
		} {
			all := &looks{Context: t.Context(), most: 1 << 30}
			if err := run(all); (err != nil) != mistakes || all.taken < members/128 {
				t.Errorf("%s: %d looks at %d policies: %v", name, all.taken, members, err)
			}
			for most := range all.taken {
				ctx := &looks{Context: t.Context(), most: most}
				if err := run(ctx); !errors.Is(err, context.Canceled) || ctx.taken != most+1 {
					t.Errorf("%s after %d looks: %d looks, %v", name, most, ctx.taken, err)
				}
			}
		}
		if r := previous.Decide(t.Context(), ask("anne", 0), Options{})[0]; r.Decision != Permitted {
			t.Errorf("the plan before: %+v", r)
		}
	}
}

// TestLongExpressionIsLookedAt checks one expression with 10,000 arguments.
func TestLongExpressionIsLookedAt(t *testing.T) {
	t.Parallel()
	const arguments = 10_000
	p := onePolicy(0)
	bag := &Apply{Function: "urn:oasis:names:tc:xacml:1.0:function:string-bag"}
	for range arguments {
		bag.Arguments = append(bag.Arguments, &Literal{Value: value.NewString("a")})
	}
	p.Variables = append(p.Variables, Variable{ID: "many", Expression: bag})
	ctx := &looks{Context: t.Context(), most: 1 << 30}
	if err := Check(ctx, p, CompileOptions{}); err != nil || ctx.taken < arguments/256 {
		t.Errorf("%d looks at %d arguments: %v", ctx.taken, arguments, err)
	}
}
