package cel

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/cel-go/common/types"
	exprpb "google.golang.org/genproto/googleapis/api/expr/v1alpha1"

	"github.com/ostiary/ostiary/expr"
)

// TestAddresses evaluates all that an expression can do with an address.
func TestAddresses(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		`a == ipaddress("10.1.2.3")`:                                "true",
		`a == ipaddress("::ffff:10.1.2.3")`:                         "true",
		`a == b`:                                                    "false",
		`a == dyn("10.1.2.3")`:                                      "false",
		`type(a) == type(b)`:                                        "true",
		`type(a) == string`:                                         "false",
		`ipaddress(s).in_cidr("10.0.0.0/8")`:                        "true",
		`ipaddress("10.0.0") == a`:                                  `unknown ParseAddr("10.0.0"): IPv4 address too short`,
		`ipaddress(any) == a`:                                       "unknown no such overload",
		`any.in_cidr("10.0.0.0/8")`:                                 "unknown no such overload",
		`a.in_cidr(any)`:                                            "unknown no such overload",
		`a.in_cidr("10.0.0.0/33")`:                                  "unknown not a CIDR range, for example 10.0.0.0/8",
		`a.in_cidr("10.1.2.3/32") && !a.in_cidr("10.1.2.2/32")`:     "true",
		`b.in_cidr("2001:db8::/64") && !b.in_cidr("2001:db9::/64")`: "true",
		`a.in_cidr("::ffff:10.1.2.0/120")`:                          "true",
		`a.in_cidr("::ffff:10.1.2.77/120")`:                         "true", // bits of the host
		`a.in_cidr("::ffff:10.1.3.0/120")`:                          "false",
		`a.in_cidr("::ffff:a01:203/128")`:                           "true",
		`a.in_cidr("::ffff:0:0/96") && a.in_cidr("0.0.0.0/0")`:      "true",
		`b.in_cidr("::ffff:0:0/96") || b.in_cidr("0.0.0.0/0")`:      "false",
		`a.in_cidr("::/0") || a.in_cidr("::ffff:0:0/95")`:           "false", // as in OpenFGA
		`b.in_cidr("::/0")`:                                         "true",
		`["::ffff:10.0.0.0/104"].exists(n, a.in_cidr(n))`:           "true",
		`["::ffff:10.0.0.0/104"].all(n, !a.in_cidr(n))`:             "false",
		`a.in_cidr("::ffff:10.0.0.0/129")`:                          "unknown not a CIDR range",
		`a.in_cidr("::ffff:10.0.0.0%eth0/104")`:                     "unknown not a CIDR range",
		`a in [b, a]`:                                               "true",
		`l.exists(x, x == a)`:                                       "true",
		`missing.in_cidr("10.0.0.0/8")`:                             "unknown missing",
		`missing.in_cidr("10.0.0.0/8") || a.in_cidr("10.0.0.0/8")`:  "true",
	} {
		p := compileCost(t, Options{}, "a:ipaddress b:ipaddress missing:ipaddress l:list-ipaddress s:string any:any", source)
		res := p.Eval(nil, expr.Values{"a": "::ffff:10.1.2.3", "b": "2001:db8::1", "l": []any{"10.1.2.3"}, "s": "10.0.0.1", "any": 5.0}, 0)
		got := res.Value.String()
		for _, m := range res.Missing {
			got += " " + m
		}
		if res.Err != nil {
			got += " " + res.Err.Error()
		}
		if !strings.HasPrefix(got, want) || res.Err == nil && got != want {
			t.Errorf("%s: got %s, want %s", source, got, want)
		}
	}
	a := ip{netip.MustParseAddr("10.1.2.3")}
	if native, err := a.ConvertToNative(reflect.TypeFor[netip.Addr]()); err != nil || native != a.addr || a.Value() != native {
		t.Errorf("as a Go value: %v, %v", native, err)
	}
	if native, err := a.ConvertToNative(reflect.TypeFor[string]()); err == nil || native != nil {
		t.Errorf("as a Go string: %v, %v", native, err)
	}
	if same := a.ConvertToType(ipType); same != a {
		t.Errorf("as an address: %v", same)
	}
	if text := a.ConvertToType(types.StringType); text != types.String("10.1.2.3") {
		t.Errorf("as a string: %v", text)
	}
	if other := a.ConvertToType(types.IntType); !types.IsError(other) {
		t.Errorf("as an int: %v", other)
	}
}

// TestLimits checks the defaults of the limits, and each of those that Compile checks,
// at the limit and one above.
func TestLimits(t *testing.T) {
	t.Parallel()
	if got, want := New(Options{}).limits, (Options{10_000, 16 << 10, 100, 5_000, 64 << 10}); got != want {
		t.Errorf("the defaults are %+v, want %+v", got, want)
	}
	if own := (Options{1, 2, 3, 4, 5}); New(own).limits != own {
		t.Errorf("the limits are %+v, want %+v", New(own).limits, own)
	}
	declared := func(n int) (all []expr.Param) {
		for i := range n {
			all = append(all, expr.Param{Name: fmt.Sprint("p", i), Type: expr.Type{Kind: expr.Bool}})
		}
		return all
	}
	unknown := expr.Type{Kind: 99, Elem: &expr.Type{Kind: expr.Int}}
	nested := expr.Type{Kind: expr.List, Elem: &expr.Type{Kind: expr.Map}}
	for _, c := range []struct {
		def  expr.Definition
		want string // the end of the error; "" for none
	}{
		{expr.Definition{Params: declared(3), Source: "p0"}, ""},
		{expr.Definition{Params: declared(4), Source: "p0"}, "4 parameters, the maximum is 3"},
		{expr.Definition{Params: declared(1), Source: "p0" + strings.Repeat(" ", 18)}, ""},
		{expr.Definition{Params: declared(1), Source: "p0" + strings.Repeat(" ", 19)}, "the expression has 21 bytes, the maximum is 20"},
		{expr.Definition{Params: []expr.Param{{Name: "x", Type: unknown}}, Source: "true"}, `parameter "x": unknown type 99`},
		{expr.Definition{Params: []expr.Param{{Name: "x", Type: nested}}, Source: "true"}, `parameter "x": a list or map must have an element type`},
		{expr.Definition{Params: append(declared(1), declared(1)...), Source: "true"}, `parameter "p0" is declared twice`},
		{expr.Definition{Source: "1 + 1"}, "the expression has type int, expected bool"},
		{expr.Definition{Params: []expr.Param{{Name: "x"}}, Source: "x"}, "the expression has type dyn, expected bool"},
		{expr.Definition{Source: "'a'.matches('(')"}, "missing closing ): `(`"},
		// Constants that have no value.
		{expr.Definition{Source: "int('x') == 1"}, "type conversion error from 'string' to 'int'"},
	} {
		_, err := New(Options{SourceBytesMax: 20, ParamsMax: 3}).Compile(c.def)
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, expr.ErrCompile) || !strings.HasSuffix(err.Error(), c.want)) {
			t.Errorf("%+v: error %v, want %q", c.def, err, c.want)
		}
	}
}

// TestConversionCost checks what it costs to convert values.
func TestConversionCost(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		value any
		want  uint64
	}{
		{nil, 1}, {true, 1}, {1.5, 1}, {"", 1}, {strings.Repeat("a", 63), 1}, {strings.Repeat("a", 64), 2}, {strings.Repeat("a", 640), 11},
		{json.Number("5"), 1}, {json.Number(strings.Repeat("1", 128)), 3},
		{[]any{}, 1}, {[]any{1.0, strings.Repeat("a", 64)}, 4}, {map[string]any{}, 1}, {map[string]any{"a": 1.0, "b": []any{1.0, 2.0}}, 5},
	} {
		if got := conversionCost(c.value); got != c.want {
			t.Errorf("%v: %d, want %d", c.value, got, c.want)
		}
	}
	p := compileCost(t, Options{}, "a:string", "a != 'b'")
	if given, stored := p.Eval(nil, expr.Values{"a": "c"}, 0).Cost, p.Eval(expr.Values{"a": strings.Repeat("c", 640)}, nil, 0).Cost; stored != given+10 {
		t.Errorf("a long value of a tuple costs %d, a short one of the request %d", stored, given)
	}
	for _, kind := range []expr.Kind{expr.Int, expr.Uint, expr.Double} {
		if _, err := convert(expr.Type{Kind: kind}, true); err == nil || !strings.HasSuffix(err.Error(), " number, got true or false") {
			t.Errorf("%v of true: %v", kind, err)
		}
	}
	// A value counts even if the evaluation ends early.
	request := expr.Values{"a": strings.Repeat("a", 640), "b": "x"}
	for _, strict := range []bool{false, true} {
		for declared, want := range map[string]uint64{"a:string b:int": 12, "a:string c:int": 11} {
			p, err := New(Options{}).Compile(expr.Definition{Name: "c", Params: params(declared), Source: "a == 'a'", Strict: strict})
			if err != nil {
				t.Fatal(err)
			}
			if res := p.Eval(nil, request, 0); res.Cost < want || res.Cost > want+5 {
				t.Errorf("%s, strict %v: cost %d, want %d and a few steps", declared, strict, res.Cost, want)
			}
		}
	}
}

// TestChecked returns the expression of a condition, with its types.
func TestChecked(t *testing.T) {
	t.Parallel()
	p := compileCost(t, Options{}, "x:int", "x < 5").(interface {
		CheckedExpr() (*exprpb.CheckedExpr, error)
	})
	e, err := p.CheckedExpr()
	if err != nil {
		t.Fatal(err)
	}
	if call := e.GetExpr().GetCallExpr(); call.GetFunction() != "_<_" || e.GetTypeMap()[e.GetExpr().GetId()].GetPrimitive() != exprpb.Type_BOOL {
		t.Errorf("%v", e)
	}
}

// TestManyPatterns uses more regular expressions than are kept, and each again.
func TestManyPatterns(t *testing.T) {
	t.Parallel()
	m := &meter{regexSizeMax: 1000}
	for range 2 {
		for i := range 3 * patternsMax {
			text := fmt.Sprintf("^a{%d}$", i)
			p := m.pattern(text)
			if p.err != nil || !p.re.MatchString(strings.Repeat("a", i)) || p.re.MatchString(strings.Repeat("a", i+1)) {
				t.Errorf("%s: %v", text, p.err)
			}
			if again := m.pattern(text); again != p {
				t.Errorf("%s is compiled again", text)
			}
			if len(m.patterns) > patternsMax {
				t.Fatalf("%d patterns are kept", len(m.patterns))
			}
		}
	}
	kept := make([]*pattern, patternsMax)
	clear(m.patterns)
	for i := range 2 * patternsMax { // the second time, none is compiled
		p := m.pattern(strings.Repeat("b", i%patternsMax))
		if i >= patternsMax && p != kept[i%patternsMax] {
			t.Errorf("pattern %d is compiled again", i)
		}
		kept[i%patternsMax] = p
	}
	if p := m.pattern("("); p.err == nil || p.re != nil || m.pattern("(") != p {
		t.Errorf("an invalid pattern: %+v", p)
	}
}

// TestZones evaluates the methods of timestamps that take a time zone, on a machine with
// another zone under the name of Europe/Berlin. The files of the machine are not used: it
// may have none, or other ones.
func TestZones(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("ZONEINFO", folder)
	other := append([]byte("TZif"), make([]byte, 40)...)
	other[39], other[43] = 1, 4 // one type of time, with a name of 4 bytes
	other = append(other, 0, 0, 0x7e, 0x90, 0, 0, 'X', 'X', 'X', 0)
	if err := errors.Join(os.Mkdir(folder+"/Europe", 0o700), os.WriteFile(folder+"/Europe/Berlin", other, 0o600)); err != nil {
		t.Fatal(err)
	}
	for source, want := range map[string]string{
		`at.getFullYear("Pacific/Auckland") == 2027`:   "true",
		`at.getMonth("Pacific/Auckland") == 0`:         "true",
		`at.getDayOfYear("Pacific/Auckland") == 0`:     "true",
		`at.getDayOfMonth("Pacific/Auckland") == 0`:    "true",
		`at.getDate("Pacific/Auckland") == 1`:          "true",
		`at.getDayOfWeek("Pacific/Auckland") == 5`:     "true",
		`at.getHours("Europe/Berlin") == 23`:           "true",
		`at.getMinutes("Asia/Kolkata") == 0`:           "true",
		`at.getSeconds("Asia/Kolkata") == 15`:          "true",
		`at.getMilliseconds("Asia/Kolkata") == 250`:    "true",
		`at.getHours("") == 22 && at.getHours() == 22`: "true",
		`at.getHours("UTC") == 22`:                     "true",
		`at.getHours("-03:30") == 19`:                  "true",
		`at.getMinutes("-03:30") == 0`:                 "true",
		`at.getHours(zone) == 23`:                      "true",
		`at.getHours("Local") == 22`:                   `unknown unknown time zone "Local": expected a name of the IANA database`,
		`at.getHours("../etc/localtime") == 22`:        "unknown unknown time zone",
		`at.getHours("Mars/Olympus") == 22`:            "unknown unknown time zone",
		`at.getHours("25:00") == 22`:                   "unknown timezone offset hours out of range",
		`at.getHours(any) == 22`:                       "unknown no such overload",
		`duration("90m").getHours() == 1`:              "true",
	} {
		p := compileCost(t, Options{}, "at:timestamp zone:string any:any", source)
		res := p.Eval(nil, expr.Values{"at": "2026-12-31T22:30:15.25Z", "zone": "Europe/Berlin", "any": 5.0}, 0)
		got := res.Value.String()
		if res.Err != nil {
			got += " " + res.Err.Error()
		}
		if !strings.HasPrefix(got, want) || res.Err == nil && got != want {
			t.Errorf("%s: got %s, want %s", source, got, want)
		}
	}
}
