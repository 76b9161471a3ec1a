package function

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/policy/status"
	"github.com/ostiary/ostiary/policy/value"
)

func find(t testing.TB, id string) *Function {
	t.Helper()
	f, ok := Standard().Find(id)
	if !ok {
		t.Fatalf("no function %s", id)
	}
	return f
}

func integers(n int) Operand {
	values := make([]value.Value, n)
	for i := range values {
		values[i] = value.NewInteger(int64(i))
	}
	return Bag(value.Integer, values)
}

func text(size int) Operand { return Single(value.NewString(strings.Repeat("x", size))) }

func integer(digits int) Operand {
	v, _ := value.Parse(value.Integer, strings.Repeat("9", digits))
	return Single(v)
}

// TestBounds tests each bound at its value and one above.
func TestBounds(t *testing.T) {
	t.Parallel()
	wide := bind(t, v3+"any-of-any", v1+"integer-equal", bagOf(value.Integer), bagOf(value.Integer))
	pairs := bind(t, v1+"all-of-any", v1+"integer-greater-than", bagOf(value.Integer), bagOf(value.Integer))
	lower := bind(t, v3+"map", v1+"string-normalize-to-lower-case", bagOf(value.String))
	none := Bag(value.Integer, []value.Value{value.NewInteger(-1)})
	low := Bag(value.Integer, []value.Value{value.NewInteger(-2)})
	for _, c := range []struct {
		bound     string
		call      Call
		at, above []Operand
	}{
		{"text bytes", find(t, v2+"string-concatenate").Call, []Operand{text(textBytesMax - 1), text(1)}, []Operand{text(textBytesMax), text(1)}},
		{"text bytes", lower, []Operand{Bag(value.String, []value.Value{text(textBytesMax).Value})}, []Operand{Bag(value.String, []value.Value{text(textBytesMax).Value, text(1).Value})}},
		{"integer digits", find(t, v1+"integer-multiply").Call, []Operand{integer(2000), integer(value.IntegerDigitsMax - 2000)}, []Operand{integer(2000), integer(value.IntegerDigitsMax - 1999)}},
		{"integer digits", find(t, v1+"integer-add").Call, []Operand{integer(value.IntegerDigitsMax), Single(value.NewInteger(0))}, []Operand{integer(value.IntegerDigitsMax), Single(value.NewInteger(1))}},
		{"function calls", wide, []Operand{integers(callsMax), none}, []Operand{integers(callsMax + 1), none}},
		{"function calls", pairs, []Operand{none, integers(callsMax)}, []Operand{low, integers(callsMax + 1)}},
	} {
		if _, err := c.call(nil, c.at); err != nil {
			t.Errorf("at the bound %s: %v", c.bound, err)
		}
		_, err := c.call(nil, c.above)
		var e *status.Error
		if !errors.As(err, &e) || e.Bound != c.bound || e.Code != status.ProcessingError {
			t.Errorf("above the bound %s: %v", c.bound, err)
		}
	}
}

func bind(t testing.TB, id, inner string, shapes ...Shape) Call {
	t.Helper()
	bound, err := find(t, id).Bind(find(t, inner), shapes, make([]*value.Value, len(shapes)))
	if err != nil {
		t.Fatal(err)
	}
	return bound.Call
}

// TestContext shows that a long evaluation ends with the context.
func TestContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	env := &Env{Context: ctx}
	equal := bind(t, v3+"any-of-any", v1+"integer-equal", bagOf(value.Integer), bagOf(value.Integer))
	args := []Operand{integers(contextEvery), Bag(value.Integer, []value.Value{value.NewInteger(-1)})}
	if o, err := equal(env, args); err != nil || o.Value.Bool() {
		t.Errorf("with time left: %v, %v", o.Value.Text(), err)
	}
	cancel()
	if _, err := equal(env, args); err == nil {
		t.Error("without time left: no error")
	}
}

// TestBindErrors shows the texts of arguments that do not fit.
func TestBindErrors(t *testing.T) {
	t.Parallel()
	s, bag := one(value.String), bagOf(value.String)
	pattern := value.NewString("(")
	for _, c := range []struct {
		id, inner string
		args      []Shape
		want      string
	}{
		{v3 + "any-of", v3 + "any-of", []Shape{s, bag}, "the first argument is a higher-order function: expected one whose arguments are values"},
		{v3 + "any-of", v1 + "integer-add", []Shape{s, bag}, "function " + v1 + "integer-add: the result is a integer: expected a boolean"},
		{v3 + "map", v1 + "string-bag", []Shape{bag}, "function " + v1 + "string-bag: the result is a bag of string: expected a single value"},
		{v3 + "any-of", v1 + "string-equal", []Shape{s, s}, "0 bags after the function: expected exactly one"},
		{v1 + "all-of-any", v1 + "string-equal", []Shape{s, bag}, "2 arguments with 1 bags after the function: expected two bags"},
		{v3 + "any-of", v1 + "integer-equal", []Shape{s, bag}, "function " + v1 + "integer-equal: argument 1 has the type string: expected integer"},
		{v3 + "any-of", v1 + "string-regexp-match", []Shape{s, bag}, "function " + v1 + `string-regexp-match: invalid pattern "(", at byte 2: expected a )`},
	} {
		_, err := find(t, c.id).Bind(find(t, c.inner), c.args, []*value.Value{&pattern, nil})
		if err == nil || err.Error() != c.want {
			t.Errorf("%s: %v, expected %q", c.id, err, c.want)
		}
	}
}

// counted are arguments that count how many of them were evaluated.
type counted struct {
	script
	evaluated *int
}

func (c counted) Argument(i int) (Operand, error) {
	*c.evaluated++
	return c.script.Argument(i)
}

// TestLazy shows that lazy functions evaluate no argument after those that
// decide.
func TestLazy(t *testing.T) {
	t.Parallel()
	yes, no := boolean(true), boolean(false)
	two := Single(value.NewInteger(2))
	for _, c := range []struct {
		id        string
		args      []Operand
		evaluated int
	}{
		{v1 + "or", []Operand{no, yes, no}, 2},
		{v1 + "and", []Operand{yes, no, yes}, 2},
		{v1 + "n-of", []Operand{two, yes, yes, no}, 3},
		{v1 + "n-of", []Operand{two, no, no, yes}, 3},
		{v1 + "n-of", []Operand{Single(value.NewInteger(0)), no}, 1},
	} {
		n := 0
		args := counted{script: script{operands: c.args, errs: make([]error, len(c.args))}, evaluated: &n}
		if _, err := find(t, c.id).Lazy(args); err != nil || n != c.evaluated {
			t.Errorf("%s: %d arguments evaluated, %v, expected %d", c.id, n, err, c.evaluated)
		}
	}
}

// TestSet shows what a set refuses.
func TestSet(t *testing.T) {
	t.Parallel()
	call := func(*Env, []Operand) (Operand, error) { return boolean(true), nil }
	own := &Function{ID: "urn:example:own", Signature: Signature{Result: one(value.Boolean)}, Call: call}
	set, err := Standard().With(own)
	if err != nil {
		t.Fatal(err)
	}
	if f, ok := set.Find(own.ID); !ok || f != own {
		t.Error("the function is not in the set")
	}
	if _, ok := Standard().Find(own.ID); ok {
		t.Error("With changed the standard set")
	}
	for name, f := range map[string]*Function{
		"own id":      own,
		"standard id": {ID: v1 + "or", Call: call},
		"no form":     {ID: "urn:example:none"},
		"two forms":   {ID: "urn:example:two", Call: call, Lazy: func(Arguments) (Operand, error) { return Operand{}, nil }},
	} {
		if _, err := set.With(f); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestSignature lists which arguments fit.
func TestSignature(t *testing.T) {
	t.Parallel()
	s, i := one(value.String), one(value.Integer)
	bag := bagOf(value.String)
	for _, c := range []struct {
		signature Signature
		args      []Shape
		want      string // "" if the arguments fit
	}{
		{Signature{Params: []Shape{s, i}}, []Shape{s, i}, ""},
		{Signature{Params: []Shape{s, i}}, []Shape{s}, "number of arguments 1: expected 2"},
		{Signature{Params: []Shape{s, i}}, []Shape{s, i, i}, "number of arguments 3: expected 2"},
		{Signature{Params: []Shape{s, i}}, []Shape{s, s}, "argument 2 has the type string: expected integer"},
		{Signature{Params: []Shape{s}}, []Shape{bag}, "argument 1 has the type bag of string: expected string"},
		{Signature{Params: []Shape{bag}}, []Shape{s}, "argument 1 has the type string: expected bag of string"},
		{Signature{Params: []Shape{s}, Repeat: 1, Optional: 1}, nil, ""},
		{Signature{Params: []Shape{s}, Repeat: 1, Optional: 1}, []Shape{s, s, s}, ""},
		{Signature{Params: []Shape{s}, Repeat: 1, Optional: 1}, []Shape{s, s, i}, "argument 3 has the type integer: expected string"},
		{Signature{Params: []Shape{s, s}, Repeat: 1}, []Shape{s}, "number of arguments 1: expected at least 2"},
		{Signature{Params: []Shape{s, i}, Repeat: 2}, []Shape{s, i, s, i}, ""},
		{Signature{Params: []Shape{s, i}, Repeat: 2}, []Shape{s, i, s}, "number of arguments 3: expected 2 and a multiple of 2 more"},
		{Signature{Params: []Shape{s, i}, Optional: 1}, []Shape{s}, ""},
		{Signature{Params: []Shape{s, i}, Optional: 1}, nil, "number of arguments 0: expected at least 1"},
	} {
		got := ""
		if err := c.signature.Check(c.args); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s with %v: %q, expected %q", c.signature, c.args, got, c.want)
		}
	}
}

// TestHotCalls shows that the tests of most decisions allocate nothing.
func TestHotCalls(t *testing.T) {
	env := &Env{}
	a, b := value.NewString("https://example.com/a"), value.NewString("https://example.com/a")
	pattern := value.NewString("^https://[a-z.]+/")
	_, match, err := find(t, v1+"string-regexp-match").Specialize([]*value.Value{&pattern, nil})
	if err != nil {
		t.Fatal(err)
	}
	bag := Bag(value.String, []value.Value{value.NewString("x"), b})
	anyOf := bind(t, v3+"any-of", v1+"string-equal", one(value.String), bagOf(value.String))
	isIn := find(t, v1+"string-is-in").Call
	args := []Operand{Single(a), bag}
	for name, call := range map[string]func() (bool, error){
		"string-equal":        func() (bool, error) { return find(t, v1+"string-equal").Test(env, a, b) },
		"string-starts-with":  func() (bool, error) { return find(t, v3+"string-starts-with").Test(env, a, b) },
		"string-regexp-match": func() (bool, error) { return match(env, pattern, b) },
		"string-is-in":        func() (bool, error) { o, err := isIn(env, args); return o.Value.Bool(), err },
		"any-of":              func() (bool, error) { o, err := anyOf(env, args); return o.Value.Bool(), err },
	} {
		allocations := testing.AllocsPerRun(100, func() {
			if ok, err := call(); !ok || err != nil {
				t.Errorf("%s: %v, %v", name, ok, err)
			}
		})
		if allocations > 0 {
			t.Errorf("%s: %v allocations", name, allocations)
		}
	}
}

func BenchmarkCalls(b *testing.B) {
	env := &Env{}
	x, y := value.NewInteger(20), value.NewInteger(30)
	s := value.NewString("https://example.com/a")
	bag := func(n int) Operand { return integers(n) }
	benchmark := func(name string, call Call, args ...Operand) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := call(env, args); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	benchmark("integer-add", find(b, v1+"integer-add").Call, Single(x), Single(y))
	benchmark("string-equal", find(b, v1+"string-equal").Call, Single(s), Single(s))
	benchmark("integer-one-and-only", find(b, v1+"integer-one-and-only").Call, bag(1))
	for _, n := range []int{4, 1000} {
		benchmark(fmt.Sprintf("integer-is-in/%d", n), find(b, v1+"integer-is-in").Call, Single(value.NewInteger(-1)), bag(n))
		benchmark(fmt.Sprintf("integer-subset/%d", n), find(b, v1+"integer-subset").Call, bag(n), bag(n))
		benchmark(fmt.Sprintf("any-of/%d", n), bind(b, v3+"any-of", v1+"integer-equal", one(value.Integer), bagOf(value.Integer)), Single(value.NewInteger(-1)), bag(n))
		benchmark(fmt.Sprintf("all-of-any/%d", n), bind(b, v1+"all-of-any", v1+"integer-equal", bagOf(value.Integer), bagOf(value.Integer)), bag(n), bag(n))
	}
}
