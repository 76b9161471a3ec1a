package cel

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/expr"
)

func params(s string) (out []expr.Param) {
	for _, f := range strings.Fields(s) {
		name, kind, _ := strings.Cut(f, ":")
		t := expr.Type{}
		if elem, ok := strings.CutPrefix(kind, "list-"); ok {
			k, _ := expr.ParseKind(elem)
			t = expr.Type{Kind: expr.List, Elem: &expr.Type{Kind: k}}
		} else if elem, ok := strings.CutPrefix(kind, "map-"); ok {
			k, _ := expr.ParseKind(elem)
			t = expr.Type{Kind: expr.Map, Elem: &expr.Type{Kind: k}}
		} else {
			t.Kind, _ = expr.ParseKind(kind)
		}
		out = append(out, expr.Param{Name: name, Type: t})
	}
	return out
}

func values(t *testing.T, s string) expr.Values {
	t.Helper()
	if s == "" {
		return nil
	}
	var v expr.Values
	dec := json.NewDecoder(strings.NewReader(s))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestEval(t *testing.T) {
	for _, c := range []struct {
		params, source, stored, request string
		want                            expr.Tristate
		missing                         string
		err                             error
	}{
		{"x:int", "x < 5", "", `{"x":4}`, expr.True, "", nil},
		{"x:int", "x < 5", "", `{"x":5}`, expr.False, "", nil},
		{"x:int", "x < 5", `{"x":9}`, `{"x":4}`, expr.False, "", nil}, // the context of the tuple takes precedence
		{"x:int", "x == 9007199254740993", "", `{"x":9007199254740993}`, expr.True, "", nil},
		{"x:int", "x == 1000", "", `{"x":1e3}`, expr.True, "", nil},
		{"x:int", "x < 5", "", `{"x":"4"}`, expr.True, "", nil},
		{"x:int", "x < 5", "", `{"x":1e999999999}`, expr.Unknown, "", expr.ErrType},
		{"x:int", "x < 5", "", `{"x":4.5}`, expr.Unknown, "", expr.ErrType},
		{"x:int", "x < 5", "", `{"x":null}`, expr.Unknown, "", expr.ErrType},
		{"x:uint", "x < 5u", "", `{"x":-1}`, expr.Unknown, "", expr.ErrType},
		// The largest and the smallest values of the types, and one beyond them.
		{"x:int", "x > 0", "", `{"x":9223372036854775807}`, expr.True, "", nil},
		{"x:int", "x > 0", "", `{"x":"9223372036854775807"}`, expr.True, "", nil},
		{"x:int", "x < 0", "", `{"x":-9223372036854775808}`, expr.True, "", nil},
		{"x:int", "x > 0 || x < 0", "", `{"x":9223372036854775808}`, expr.Unknown, "", expr.ErrType},
		{"x:int", "x > 0 || x < 0", "", `{"x":"9223372036854775808"}`, expr.Unknown, "", expr.ErrType},
		{"x:int", "x > 0 || x < 0", "", `{"x":9.223372036854775808e18}`, expr.Unknown, "", expr.ErrType},
		{"x:int", "x > 0 || x < 0", "", `{"x":-9223372036854775809}`, expr.Unknown, "", expr.ErrType},
		{"x:uint", "x == 0u", "", `{"x":0}`, expr.True, "", nil},
		{"x:uint", "x > 0u", "", `{"x":18446744073709551615}`, expr.True, "", nil},
		{"x:uint", "x > 0u", "", `{"x":18446744073709551616}`, expr.Unknown, "", expr.ErrType},
		{"x:uint", "x > 0u", "", `{"x":"18446744073709551616"}`, expr.Unknown, "", expr.ErrType},
		{"x:uint", "x > 0u", "", `{"x":1.8446744073709551616e19}`, expr.Unknown, "", expr.ErrType},
		{"l:list-int", "l.size() == 1", "", `{"l":[9223372036854775808]}`, expr.Unknown, "", expr.ErrType},
		{"x:int", "x < 5", "", "", expr.Unknown, "x", nil},
		{"x:int y:bool", "y || x < 5", "", `{"y":true}`, expr.True, "", nil},
		{"x:int y:bool", "y && x < 5", "", `{"y":false}`, expr.False, "", nil},
		{"x:int y:bool", "y && x < 5", "", `{"y":true}`, expr.Unknown, "x", nil},
		{"x:int y:int", "x < 5 && y < 5", "", "", expr.Unknown, "x y", nil},
		{"x:int y:int", "x / y == 1", "", `{"x":1,"y":0}`, expr.Unknown, "", errAny},
		{"a:ipaddress", `a.in_cidr("10.0.0.0/8")`, "", `{"a":"10.1.2.3"}`, expr.True, "", nil},
		{"a:ipaddress", `a.in_cidr("10.0.0.0/8")`, "", `{"a":"11.1.2.3"}`, expr.False, "", nil},
		{"a:ipaddress", `a.in_cidr("2001:db8::/32")`, "", `{"a":"2001:db8::1"}`, expr.True, "", nil},
		{"a:ipaddress", `a.in_cidr("10.0.0.0/8")`, "", `{"a":"::ffff:10.1.2.3"}`, expr.True, "", nil},
		{"a:ipaddress", `a.in_cidr("nowhere")`, "", `{"a":"11.1.2.3"}`, expr.Unknown, "", errAny},
		{"a:ipaddress", `a.in_cidr("10.0.0.0/8")`, "", `{"a":"x"}`, expr.Unknown, "", expr.ErrType},
		{"now:timestamp from:timestamp d:duration", "now < from + d", `{"from":"2026-01-01T00:00:00Z","d":"1h"}`, `{"now":"2026-01-01T00:59:59Z"}`, expr.True, "", nil},
		{"now:timestamp from:timestamp d:duration", "now < from + d", `{"from":"2026-01-01T00:00:00Z","d":"1h"}`, `{"now":"2026-01-01T01:00:00Z"}`, expr.False, "", nil},
		{"l:list-string s:string", "s in l", `{"l":["a","b"]}`, `{"s":"b"}`, expr.True, "", nil},
		{"l:list-string s:string", "s in l", `{"l":["a",1]}`, `{"s":"b"}`, expr.Unknown, "", expr.ErrType},
		{"m:map-int", `m["a"] == 1`, "", `{"m":{"a":1}}`, expr.True, "", nil},
		{"m:map-int", `m["b"] == 1`, "", `{"m":{"a":1}}`, expr.Unknown, "", errAny},
		{"x:any", `x == 1.0`, "", `{"x":1}`, expr.True, "", nil},
		{"l:list-int", `l.all(a, l.all(b, l.all(c, a+b+c >= 0)))`, "", `{"l":[` + strings.Repeat("1,", 60) + `1]}`, expr.Unknown, "", expr.ErrCost},
	} {
		p, err := New(Options{}).Compile(expr.Definition{Name: "c", Params: params(c.params), Source: c.source})
		if err != nil {
			t.Errorf("%s: %v", c.source, err)
			continue
		}
		res := p.Eval(values(t, c.stored), values(t, c.request), 0)
		if res.Value != c.want || strings.Join(res.Missing, " ") != c.missing {
			t.Errorf("%s with stored %s, request %s: %v, missing %v, error %v; want %v, missing %q", c.source, c.stored, c.request, res.Value, res.Missing, res.Err, c.want, c.missing)
		}
		if (res.Err != nil) != (c.err != nil) || c.err != errAny && !errors.Is(res.Err, c.err) {
			t.Errorf("%s with stored %s, request %s: error %v, want %v", c.source, c.stored, c.request, res.Err, c.err)
		}
	}
}

var errAny = errors.New("any error")

func TestCompileErrors(t *testing.T) {
	for _, c := range []struct{ name, params, source string }{
		{"syntax", "x:int", "x <"},
		{"not a bool", "x:int", "x + 1"},
		{"type", "x:int", `x == "a"`},
		{"undeclared", "x:int", "y == 1"},
		{"parameter twice", "x:int x:int", "x == 1"},
		{"too long", "x:int", "x == " + strings.Repeat("1", sourceBytesMaxDefault)},
		{"deep", "x:int", strings.Repeat("(", 5000) + "x == 1" + strings.Repeat(")", 5000)},
		{"list without element", "x:list", "true"},
	} {
		if _, err := New(Options{}).Compile(expr.Definition{Name: "c", Params: params(c.params), Source: c.source}); !errors.Is(err, expr.ErrCompile) {
			t.Errorf("%s: error %v, want ErrCompile", c.name, err)
		}
	}
}

func TestSourceBound(t *testing.T) {
	source := "x == 1" + strings.Repeat(" ", sourceBytesMaxDefault-6)
	for extra, ok := range map[string]bool{"": true, " ": false} {
		_, err := New(Options{}).Compile(expr.Definition{Name: "c", Params: params("x:int"), Source: source + extra})
		if (err == nil) != ok {
			t.Errorf("%d bytes: %v", len(source+extra), err)
		}
	}
}

func FuzzEval(f *testing.F) {
	f.Add("x < 5", `{"x":1}`)
	f.Add("y.in_cidr(\"10.0.0.0/8\")", `{"y":"10.0.0.1"}`)
	compiler := New(Options{})
	f.Fuzz(func(t *testing.T, source, context string) {
		p, err := compiler.Compile(expr.Definition{Name: "c", Params: params("x:int y:ipaddress l:list-string m:map-any"), Source: source})
		if err != nil {
			return
		}
		var v expr.Values
		if json.Unmarshal([]byte(context), &v) != nil {
			return
		}
		res := p.Eval(nil, v, 0)
		if (res.Value == expr.Unknown) != (len(res.Missing) > 0 || res.Err != nil) || !slices.IsSorted(res.Missing) {
			t.Fatalf("%q with %s: %+v", source, context, res)
		}
	})
}

func BenchmarkEval(b *testing.B) {
	p, err := New(Options{}).Compile(expr.Definition{Name: "c", Params: params("x:int y:string"), Source: `x < 5 && y == "a"`})
	if err != nil {
		b.Fatal(err)
	}
	v := expr.Values{"x": 4.0, "y": "a"}
	b.ReportAllocs()
	for b.Loop() {
		p.Eval(nil, v, 0)
	}
}

func TestStrictNeedsEveryParameter(t *testing.T) {
	t.Parallel()
	compile := func(def expr.Definition) expr.Program {
		p, err := New(Options{}).Compile(def)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	def := expr.Definition{Name: "c", Params: params("b:bool a:bool"), Source: "a || b", Strict: true}
	given := expr.Values{"a": true}
	if r := compile(def).Eval(nil, given, 0); r.Value != expr.Unknown || !slices.Equal(r.Missing, []string{"b"}) {
		t.Errorf("without b: %+v", r)
	}
	if r := compile(def).Eval(nil, nil, 0); !slices.Equal(r.Missing, []string{"a", "b"}) {
		t.Errorf("without both: %+v", r)
	}
	if r := compile(def).Eval(expr.Values{"b": false}, given, 0); r.Value != expr.True {
		t.Errorf("with both: %+v", r)
	}
	if r := compile(def).Eval(nil, expr.Values{"a": "x"}, 0); !errors.Is(r.Err, expr.ErrType) {
		t.Errorf("value of a wrong type: %+v", r)
	}
	none := expr.Definition{Name: "n", Source: "true", Strict: true}
	if r := compile(none).Eval(nil, given, 0); !errors.Is(r.Err, expr.ErrType) {
		t.Errorf("a value for a condition without parameters: %+v", r)
	}
	if r := compile(none).Eval(nil, nil, 0); r.Value != expr.True {
		t.Errorf("no values for a condition without parameters: %+v", r)
	}
}
