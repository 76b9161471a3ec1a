package cel

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/expr"
)

func compileCost(t *testing.T, o Options, declared, source string) expr.Program {
	t.Helper()
	p, err := New(o).Compile(expr.Definition{Name: "c", Params: params(declared), Source: source})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func numbers(n int) []any {
	list := make([]any, n)
	for i := range list {
		list[i] = float64(i)
	}
	return list
}

// TestChargedBefore evaluates functions that would run for seconds or minutes.
// They are charged before they run, so each evaluation ends with ErrCost before
// the function begins.
func TestChargedBefore(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 500_000)
	doubled := "[l]" + strings.Repeat(".map(x, x + x)", 40) + "[0]"
	doubledAny := "[any]" + strings.Repeat(".map(x, x + x)", 40) + "[0]"
	nested := "[l]" + strings.Repeat(".map(x, [x, x])", 40)
	for name, c := range map[string]struct {
		params, source string
		request        expr.Values
	}{
		"equality of lists that contain the same list often":   {"l:list-int", nested + " == " + nested, expr.Values{"l": numbers(9)}},
		"inequality of lists that contain the same list often": {"l:list-int", nested + " != " + nested, expr.Values{"l": numbers(9)}},
		"member that contains the same list often":             {"l:list-int", nested + " in [" + nested + "]", expr.Values{"l": numbers(9)}},
		"regular expression, constant":                         {"s:string", `s.matches("(a{1,30}){1,30}b")`, expr.Values{"s": long}},
		"regular expression, parameter":                        {"s:string p:string", `s.matches(p)`, expr.Values{"s": long[:60_000], "p": "(a{1,30}){1,30}b"}},
		"as a function":                                        {"s:string p:string", `matches(s, p)`, expr.Values{"s": long[:60_000], "p": "(a{1,30}){1,30}b"}},
		"large regular expression":                             {"s:string p:string", `s.matches(p)`, expr.Values{"s": "a", "p": strings.Repeat("((a{1,10}){1,10}){1,10}", 200)}},
		"long regular expression":                              {"s:string p:string", `s.matches(p)`, expr.Values{"s": "a", "p": long}},
		"repeated":                                             {"s:string l:list-int", `l.all(x, !s.matches("(a{1,30}){1,30}b"))`, expr.Values{"s": long[:400], "l": numbers(3000)}},
		"member of a doubled list":                             {"l:list-int", "1 in " + doubled, expr.Values{"l": numbers(1000)}},
		"member of a list of any type":                         {"any:any l:list-int", "l.all(x, !(-1 in any))", expr.Values{"any": numbers(1000), "l": numbers(20)}},
		"member of a doubled list of any type":                 {"any:any", "-1 in " + doubledAny, expr.Values{"any": numbers(1000)}},
		"size of a doubled list of any type":                   {"any:any", doubledAny + ".size() > 0", expr.Values{"any": numbers(1000)}},
		"size of a doubled text of any type":                   {"any:any", doubledAny + ".size() > 0", expr.Values{"any": "aaaaaaaaaa"}},
		"order of a long text of any type":                     {"any:any l:list-int", "l.all(x, any <= any)", expr.Values{"any": long[:500], "l": numbers(500)}},
		"size of a long text of any type":                      {"any:any l:list-int", "l.all(x, any.size() > 0)", expr.Values{"any": long[:500], "l": numbers(500)}},
		"equality of doubled lists":                            {"l:list-int", doubled + " == " + doubled, expr.Values{"l": numbers(1000)}},
		"equality of nested lists":                             {"m:any n:any", "m == n", expr.Values{"m": []any{numbers(200_000)}, "n": []any{numbers(200_000)}}},
		"size of a long string":                                {"s:string l:list-int", "l.all(x, size(s) > 0)", expr.Values{"s": long, "l": numbers(3000)}},
		"number of a long string":                              {"s:string l:list-int", "l.all(x, double(s) > 0.0)", expr.Values{"s": strings.Repeat("1", 300), "l": numbers(9000)}},
		"time zones":                                           {"at:timestamp l:list-int", `l.all(x, at.getHours("Europe/Vienna") < 24)`, expr.Values{"at": "2026-01-01T00:00:00Z", "l": numbers(3000)}},
	} {
		t.Run(name, func(t *testing.T) {
			p := compileCost(t, Options{}, c.params, c.source)
			res := p.Eval(nil, c.request, 0)
			if res.Value != expr.Unknown || !errors.Is(res.Err, expr.ErrCost) || res.Cost < CostMaxDefault {
				t.Errorf("%v, cost %d, error %v; want ErrCost", res.Value, res.Cost, res.Err)
			}
		})
	}
}

// TestCallTooExpensive evaluates calls that alone cost more than an evaluation may,
// and that would end quickly. Each is refused before it is made: the error has the
// cost of this call.
func TestCallTooExpensive(t *testing.T) {
	t.Parallel()
	request := expr.Values{"s": strings.Repeat("a", 50), "l": numbers(600), "m": map[string]any{"a": numbers(600)}}
	for source, cost := range map[string]int{
		`1 in l`:                             600,
		`"a" in dyn(l)`:                      600,
		`l in [l]`:                           61,
		`l == l`:                             61,
		`l != l`:                             61,
		`m == m`:                             61,
		`s.matches("(a{1,30}){1,20}")`:       2790,
		`matches(s, "(a{1,30}){1,20}")`:      2790,
		`dyn(s).matches("(a{1,30}){1,20}")`:  2790,
		`(absent || true) && 1 in l`:         600,
		`absent || s.matches("(a{1,30}b)+")`: 144,
	} {
		p := compileCost(t, Options{CostMax: 60}, "s:string l:list-int m:map-any absent:bool", source)
		res := p.Eval(nil, request, 0)
		wantBound(t, res.Err, expr.BoundCost)
		if want := fmt.Sprintf("a function call would cost %d, CostMax is 60", cost); res.Err == nil || !strings.Contains(res.Err.Error(), want) {
			t.Errorf("%s: %v; want %q", source, res.Err, want)
		}
	}
}

// TestRegexBounds matches at each bound of regular expressions and one beyond
// it. Beyond it the error names the bound.
func TestRegexBounds(t *testing.T) {
	t.Parallel()
	o := Options{RegexSizeMax: 50, RegexInputMax: 100}
	input := compileCost(t, o, "s:string", `s.matches("^a*$")`)
	size := compileCost(t, o, "s:string p:string", "s.matches(p)")
	for i, c := range []struct {
		p       expr.Program
		request expr.Values
		bound   string
	}{
		{input, expr.Values{"s": strings.Repeat("a", 100)}, ""},
		{input, expr.Values{"s": strings.Repeat("a", 101)}, expr.BoundRegexInput},
		{size, expr.Values{"s": "a", "p": "a" + strings.Repeat("b?", 23) + "$"}, ""},
		{size, expr.Values{"s": "a", "p": "a" + strings.Repeat("b?", 24) + "$"}, expr.BoundRegexSize},
		{size, expr.Values{"s": "aaaaaaa", "p": "^a{1,7}$"}, ""},
		{size, expr.Values{"s": "aaaaaaa", "p": "^(a{1,7}){1,7}$"}, expr.BoundRegexSize},
	} {
		res := c.p.Eval(nil, c.request, 0)
		if c.bound == "" && res.Value != expr.True {
			t.Errorf("%d: %v, %v; want true", i, res.Value, res.Err)
		}
		if c.bound != "" {
			wantBound(t, res.Err, c.bound)
		}
	}
}

// TestLongConstantPattern compiles a constant pattern that is too long, and invalid. Its
// evaluation names the bound.
func TestLongConstantPattern(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{"((((((", "aaaaaa"} {
		p := compileCost(t, Options{RegexSizeMax: 5}, "s:string", fmt.Sprintf("s.matches(%q)", pattern))
		wantBound(t, p.Eval(nil, expr.Values{"s": "a"}, 0).Err, expr.BoundRegexSize)
	}
}

// wantBound checks that an error names a bound, in its text too.
func wantBound(t *testing.T, err error, bound string) {
	t.Helper()
	named, ok := errors.AsType[*expr.BoundError](err)
	if !ok || named.Bound != bound || !errors.Is(err, expr.ErrCost) || !strings.Contains(err.Error(), bound) {
		t.Errorf("%v; want an error that names %q", err, bound)
	}
}

// TestBoundNames checks which bound an evaluation names that one call, many steps
// or a long list stops.
func TestBoundNames(t *testing.T) {
	t.Parallel()
	for source, bound := range map[string]string{
		`l.all(a, l.all(b, l.all(c, a + b + c >= 0)))`:                expr.BoundCost,
		`l.all(x, l.all(y, x == 0 || y > -1)) && (l + l) in [l, l+l]`: expr.BoundCost,
	} {
		res := compileCost(t, Options{CostMax: 500}, "l:list-int", source).Eval(nil, expr.Values{"l": numbers(60)}, 0)
		wantBound(t, res.Err, bound)
	}
	long := "l" + strings.Repeat(" + l", 40)
	res := compileCost(t, Options{CostMax: 1 << 40}, "l:list-int", "("+long+").size() > 0").Eval(nil, expr.Values{"l": numbers(30_000)}, 0)
	wantBound(t, res.Err, expr.BoundListLen)
}

// TestCostBound evaluates at the cost limit and one unit below what the
// condition needs.
func TestCostBound(t *testing.T) {
	t.Parallel()
	const source = `l.all(x, x >= 0) && s.matches("a+") && 3 in l && l == l`
	request := expr.Values{"l": numbers(20), "s": "aaa"}
	need := compileCost(t, Options{}, "l:list-int s:string", source).Eval(nil, request, 0)
	if need.Value != expr.True {
		t.Fatalf("%v, %v", need.Value, need.Err)
	}
	own := need.Cost - 21 - 1 // without the conversion of the two values
	if res := compileCost(t, Options{CostMax: own}, "l:list-int s:string", source).Eval(nil, request, 0); res.Value != expr.True {
		t.Errorf("at the bound %d: %v, %v", own, res.Value, res.Err)
	}
	if res := compileCost(t, Options{CostMax: own - 1}, "l:list-int s:string", source).Eval(nil, request, 0); !errors.Is(res.Err, expr.ErrCost) {
		t.Errorf("one unit below: %v, %v", res.Value, res.Err)
	}
}

// TestPreparedConverts expects a prepared program to convert the values of the
// request once, and those of each tuple every time.
func TestPreparedConverts(t *testing.T) {
	t.Parallel()
	p := compileCost(t, Options{}, "l:list-int x:int", "x in l").(expr.Preparer).Prepare(context.Background(), expr.Values{"l": numbers(1000)})
	first := p.Eval(expr.Values{"x": 1.0}, 0)
	second := p.Eval(expr.Values{"x": 1.0}, 0)
	if first.Value != expr.True || second.Value != expr.True || first.Cost-second.Cost != 1001 {
		t.Errorf("first %+v, second %+v", first, second)
	}
	if other := p.Eval(expr.Values{"x": 5000.0}, 0); other.Value != expr.False {
		t.Errorf("%+v", other)
	}
}

// TestInterrupted ends the context of an evaluation that iterates.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	p := compileCost(t, Options{CostMax: 1 << 40}, "l:list-int", "l.all(a, l.all(b, l.all(c, a + b + c >= 0)))").(expr.Preparer).Prepare(ctx, expr.Values{"l": numbers(5000)})
	time.AfterFunc(10*time.Millisecond, cancel)
	res := p.Eval(nil, 0)
	if res.Value != expr.Unknown || !errors.Is(res.Err, context.Canceled) {
		t.Errorf("%+v", res)
	}
}

// TestSameResults compares the functions that are charged before they run with
// the results that CEL defines.
func TestSameResults(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]expr.Tristate{
		`s.matches("^a.c$")`:             expr.True,
		`matches(s, "b$")`:               expr.False,
		`s.matches("(")`:                 expr.Unknown,
		`s.matches(s + "(")`:             expr.Unknown,
		`a.matches("1")`:                 expr.Unknown,
		`1 in [1, 2] && a in l`:          expr.True,
		`[1] in [[1], [2]]`:              expr.True,
		`3 in l + [3]`:                   expr.True,
		`l + [3] == [1, 2, 3]`:           expr.True,
		`l != [1, 2]`:                    expr.False,
		`a == 1.0 && a != "1"`:           expr.True,
		`{"a": [1]} == {"a": [1]}`:       expr.True,
		`{"a": [1]} == {"a": [2]}`:       expr.False,
		`a in l`:                         expr.True,
		`timestamp("x") == timestamp(s)`: expr.Unknown,
		`b == 1 || true`:                 expr.True,
		`b == 1`:                         expr.Unknown,
		`b in [1] && false`:              expr.False,
		// The types of the arguments are known only when these functions are called.
		`a < 2.0 && a + a == 2.0`:        expr.True,
		`a - a < a && a * a > a`:         expr.False,
		`size(dyn(l)) == 2`:              expr.True,
		`dyn(s) + dyn(s) == "abcabc"`:    expr.True,
		`dyn(l) + dyn(l) == l + l`:       expr.True,
		`dyn(l) + a == l`:                expr.Unknown,
		`s.matches(a)`:                   expr.Unknown,
		`s.matches(dyn("b"))`:            expr.True,
		`dyn(s).matches("^abc$")`:        expr.True,
		`b"abc" == a || s == a`:          expr.False,
		`dyn(b"abc") == dyn(b"abc")`:     expr.True,
		`dyn({"x": a}) == dyn({"x": 1})`: expr.True,
	} {
		p, err := New(Options{}).Compile(expr.Definition{Name: "c", Params: params("s:string l:list-int a:any b:int"), Source: source})
		if err != nil {
			if want != expr.Unknown {
				t.Errorf("%s: %v", source, err)
			}
			continue
		}
		if res := p.Eval(nil, expr.Values{"s": "abc", "l": []any{1.0, 2.0}, "a": 1.0}, 0); res.Value != want || errors.Is(res.Err, expr.ErrCost) {
			t.Errorf("%s: %v, %v; want %v", source, res.Value, fmt.Sprint(res.Missing, res.Err), want)
		}
	}
}
