package cel

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/workshop/golden"
	"github.com/ostiary/ostiary/rel"
)

// TestCosts compares the costs of expressions with testdata/costs.txt: the cost of
// the evaluation with the conversion of its values, and the smallest CostMax with
// which it ends. What a call of a wrong type has cost counts, too.
func TestCosts(t *testing.T) {
	t.Parallel()
	const declared = "s:string t:string p:string n:int l:list-int at:timestamp a:any b:any wrong:any"
	request := expr.Values{
		"s": strings.Repeat("a", 150), "t": "7", "p": "a{1,30}b|c+[d-f]{3}", "n": 5, "wrong": 5.0, "l": numbers(20), "at": "2026-01-01T00:00:00Z",
		"a": []any{numbers(12), strings.Repeat("x", 100)}, "b": []any{numbers(12), strings.Repeat("x", 100)},
	}
	var out strings.Builder
	for _, source := range []string{
		`n == 5`, `n in l`, `19 in l`, `21 in l`, `l == l`, `l == [1]`, `a == b`, `a != b`, `a == l`, `s == s`, `s == "a"`, `s != p`, `s == a`, `b"abcdefghijklmnop" == b"abcdefghijklmnop"`,
		`s < p`, `s >= s`, `b"abcdefghijklm" < b"abcdefghijklmn"`, `s.startsWith(s)`, `s.endsWith("aa")`, `s + s != ""`, `size(b"abcdefghijkl" + b"mnopqrstuvwxyz") > 1`,
		`s.contains("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")`, `at.getHours("Europe/Vienna") < 24`, `at.getHours() < 24`, `size(s) > 0`, `s.size() > 0`, `size(l) > 0`,
		`string(n) == "5"`, `int("12345678901234567") > 0`, `double("1.5") > 1.0`, `timestamp("2026-01-01T00:00:00Z") == at`, `duration("1h") > duration("1m")`, `bytes(s) == b"a"`, `string(s) == s`,
		`s.matches("a")`, `s.matches("a{1,30}b")`, `s.matches(p)`, `matches(s, "(aaaa){5}")`, `s.matches("a|b|c|d|e")`, `s.matches("(a{1,5}){1,5}")`,
		`l.all(x, x >= 0)`, `l.map(x, x).size() == 20`, `l + l == l`, `[s, s] == [s, p]`, `{"a": s} == {"a": s}`,
		`s.matches(wrong)`, `wrong.matches(s)`, `1 in wrong`, `wrong in wrong`, `wrong + l == l`, `wrong.size() > 0`, `string(wrong) == "5"`, // wrong has a type that the function does not accept
		// The types are known only when these functions are called.
		`n in dyn(l)`, `[1] in [dyn(l)]`, `n in dyn({5: l})`, `dyn(s) < dyn(s)`, `dyn(s) >= dyn(t)`, `dyn(b"abcdefghijklmn") > dyn(b"abcdefghijklmn")`, `size(dyn(s)) > 0`, `dyn(s).size() > 0`, `dyn(l).size() > 0`,
		`dyn(s) + dyn(s) != ""`, `dyn(l) + dyn(l) == l`, `dyn(n) + dyn(n) > 9`, `dyn(n) < dyn(9)`,
		// Short texts cost at least 1 where they are read, and a call of constants costs as much as it may.
		`size(t) > 0`, `t.size() > 0`, `int(t) == 7`, `t == t`, `t < t`, `t.startsWith(t)`, `t.contains(t)`, `t.matches("7")`, `"aaaaaaaaaaaaaaaaaaaaaaaa".matches("a+b+c+d+e+")`,
		`[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12] == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]`, `s.matches("a{4}")`, `s.matches("a{3}")`, `s.matches("a{5}")`,
	} {
		p := compileCost(t, Options{}, declared, source)
		res := p.Eval(nil, request, 0)
		failure := ""
		if res.Err != nil {
			failure = ": " + res.Err.Error()
		}
		// The smallest limit is found by bisection: too small is ErrCost.
		low, high := uint64(0), res.Cost
		for low+1 < high {
			most := (low + high) / 2
			if r := compileCost(t, Options{CostMax: most}, declared, source).Eval(nil, request, 0); errors.Is(r.Err, expr.ErrCost) {
				low = most
			} else {
				high = most
			}
		}
		fmt.Fprintf(&out, "%d %d %s%s\n", res.Cost, high, source, failure)
	}
	golden.Equal(t, "testdata/costs.txt", out.String())
}

// TestPatternSizes compares the smallest RegexSizeMax that admits a pattern with
// testdata/patterns.txt.
func TestPatternSizes(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	for _, pattern := range []string{"a", "abc", "a|b", "[a-z]+", "a{3}", "a{1,30}", "a{30,}", "(a{1,5}){1,5}", "(abc){7}d", "((a|b){4}c){2,9}", "^a.*b$", "", "(aaaaaaaaaa){2}", "a{0,1}"} {
		for most := 1; ; most++ {
			if most > 500 {
				t.Fatalf("%s is refused", pattern)
			}
			if r := compileCost(t, Options{RegexSizeMax: most}, "s:string p:string", "s.matches(p)").Eval(nil, expr.Values{"s": "x", "p": pattern}, 0); r.Err == nil {
				fmt.Fprintf(&out, "%d %s\n", most, pattern)
				break
			}
		}
	}
	golden.Equal(t, "testdata/patterns.txt", out.String())
}

// TestForms checks parameters that are given as values of Go's types, and types
// without elements.
func TestForms(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		declared, source string
		value            any
		ok               bool
	}{
		{"x:ipaddress", `x.in_cidr("10.0.0.0/8")`, netip.MustParseAddr("10.1.2.3"), true},
		{"x:ipaddress", `x.in_cidr("10.0.0.0/8")`, netip.MustParseAddr("::ffff:10.1.2.3"), true},
		{"x:ipaddress", `x.in_cidr("10.0.0.0/8")`, "10.1.2.3", true},
		{"x:ipaddress", `x.in_cidr("10.0.0.0/8")`, 5, false},
		{"x:timestamp", `x.getFullYear() == 2026`, at, true},
		{"x:timestamp", `x.getFullYear() == 2026`, "2026-01-02T03:04:05Z", true},
		{"x:timestamp", `x.getFullYear() == 2026`, 5, false},
		{"x:duration", `x == duration("90s")`, 90 * time.Second, true},
		{"x:duration", `x == duration("90s")`, "90s", true},
		{"x:duration", `x == duration("90s")`, true, false},
	} {
		got := compileCost(t, Options{}, c.declared, c.source).Eval(nil, expr.Values{"x": c.value}, rel.Time(0))
		if c.ok != (got.Err == nil) || c.ok != (got.Value == expr.True) || !c.ok && !errors.Is(got.Err, expr.ErrType) {
			t.Errorf("%s of %T: %v, %v", c.source, c.value, got.Value, got.Err)
		}
	}
	for _, c := range []struct {
		kind  expr.Kind
		value any
		want  any // nil if the value is refused
	}{
		{expr.Int, json.Number("5"), int64(5)}, {expr.Int, "5", int64(5)}, {expr.Int, 5.0, int64(5)}, {expr.Int, 5, int64(5)}, {expr.Int, int64(5), int64(5)}, {expr.Int, uint64(5), int64(5)},
		{expr.Int, json.Number("1e3"), int64(1000)}, {expr.Int, "-5", int64(-5)}, {expr.Int, json.Number("9223372036854775807"), int64(9223372036854775807)},
		{expr.Int, "000000000000000000000000000000000000000000000000000000000000007", int64(7)}, {expr.Int, "0000000000000000000000000000000000000000000000000000000000000007", int64(7)},
		{expr.Int, json.Number("9223372036854775808"), nil}, {expr.Int, 1.5, nil}, {expr.Int, "x", nil}, {expr.Int, "Inf", nil}, {expr.Int, "-Inf", nil}, {expr.Int, "NaN", nil}, {expr.Int, true, nil}, {expr.Int, "1e400", nil}, {expr.Int, "", nil},
		{expr.Uint, json.Number("18446744073709551615"), uint64(18446744073709551615)}, {expr.Uint, "18446744073709551616", nil}, {expr.Uint, -1, nil}, {expr.Uint, "x", nil}, {expr.Uint, true, nil}, {expr.Uint, 12, uint64(12)},
		{expr.Double, json.Number("1.5"), 1.5}, {expr.Double, "1.5", 1.5}, {expr.Double, 0.1, 0.1}, {expr.Double, 3, 3.0}, {expr.Double, int64(-12), -12.0}, {expr.Double, uint64(12), 12.0}, {expr.Double, "x", nil}, {expr.Double, "1e400", nil}, {expr.Double, true, nil},
		{expr.Bool, true, true}, {expr.Bool, "true", nil}, {expr.String, "a", "a"}, {expr.String, 1, nil},
	} {
		got, err := convert(expr.Type{Kind: c.kind}, c.value)
		if (err == nil) != (c.want != nil) || got != c.want {
			t.Errorf("%v of %T %v: %T %v, %v", c.kind, c.value, c.value, got, got, err)
		}
	}
	number := &expr.Type{Kind: expr.Int}
	for _, c := range []struct {
		typ   expr.Type
		value any
		want  string
	}{
		{expr.Type{Kind: expr.List, Elem: number}, []any{1, "2"}, "[1 2]"}, {expr.Type{Kind: expr.List, Elem: number}, []any{1, "x"}, "element 1: "},
		{expr.Type{Kind: expr.List, Elem: number}, map[string]any{}, "expected a list, got an object"},
		{expr.Type{Kind: expr.Map, Elem: number}, map[string]any{"a": 1}, "map[a:1]"}, {expr.Type{Kind: expr.Map, Elem: number}, map[string]any{"a": "x"}, `entry "a": `},
		{expr.Type{Kind: expr.Timestamp}, json.Number("5"), `expected a time such as "2026-01-02T15:04:05Z", got a number`},
		{expr.Type{Kind: expr.Timestamp}, "2026-01-02", `"2026-01-02" is not a time such as "2026-01-02T15:04:05Z"`},
		{expr.Type{Kind: expr.Duration}, "1 day", `"1 day" is not a duration such as "1h30m"`},
		{expr.Type{Kind: expr.Bool}, "true", `"true" is not true or false`},
		{expr.Type{Kind: expr.Map, Elem: number}, []any{}, "expected an object, got a list"},
	} {
		got, err := convert(c.typ, c.value)
		if text := fmt.Sprint(got, err); !strings.Contains(text, c.want) {
			t.Errorf("%v of %v: %s, want %q", c.typ, c.value, text, c.want)
		}
	}
	if got := plain(map[string]any{"a": []any{json.Number("1.5"), json.Number("1e400"), "x"}}); fmt.Sprint(got) != "map[a:[1.5 1e400 x]]" {
		t.Errorf("%v", got)
	}
	for _, kind := range []expr.Kind{expr.List, expr.Map} {
		_, err := New(Options{}).Compile(expr.Definition{Name: "c", Params: []expr.Param{{Name: "x", Type: expr.Type{Kind: kind}}}, Source: "true"})
		if !errors.Is(err, expr.ErrCompile) || !strings.Contains(err.Error(), "element type") {
			t.Errorf("%v without an element: %v", kind, err)
		}
	}
}
