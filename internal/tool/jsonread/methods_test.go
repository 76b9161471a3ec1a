package jsonread_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/internal/tool/jsonread"
	"github.com/ostiary/ostiary/internal/workshop/golden"
)

// method is one way to read a value.
type method struct {
	name string
	// first are the bytes that begin a value of this kind, or a text that is almost one.
	// If it is "", the method reads values of all kinds.
	first string
	read  func(r *jsonread.Reader) any
}

// methods are all ways to read a value.
var methods = []method{
	{"value", ``, func(r *jsonread.Reader) any { return r.Value() }},
	{"values", `{`, func(r *jsonread.Reader) any { return r.Values() }},
	{"members", ``, func(r *jsonread.Reader) any { return members(r) }},
	{"strings", `[`, func(r *jsonread.Reader) any { return r.Strings() }},
	{"skip", ``, func(r *jsonread.Reader) any { r.Skip(); return nil }},
	{"discard", ``, func(r *jsonread.Reader) any { r.Discard(); return nil }},
	{"raw", ``, func(r *jsonread.Reader) any { return string(r.Raw()) }},
	{"string", `"`, func(r *jsonread.Reader) any { return r.String() }},
	{"like", `"`, func(r *jsonread.Reader) any { return r.StringLike("known") }},
	{"bool", `tfT`, func(r *jsonread.Reader) any { return r.Bool() }},
	{"number", `0123456789-+.x`, func(r *jsonread.Reader) any { return r.Number() }},
	{"float", `0123456789-+.x`, func(r *jsonread.Reader) any { return r.Float() }},
	{"int", `0123456789-+.x`, func(r *jsonread.Reader) any { return r.Int(-100, 100) }},
	{"null", `n`, func(r *jsonread.Reader) any { return r.Null() }},
}

// members reads objects and arrays with Field and Item. A member whose value is "stop" makes
// it fail, like one that the caller does not know.
func members(r *jsonread.Reader) string {
	switch r.Kind() {
	case '{':
		out := "{"
		for r.Object(); r.Field(); {
			name := string(r.Name())
			out += name + ":"
			if name == "stop" {
				r.Unknown()
			}
			out += members(r) + " "
		}
		return out + "}"
	case '[':
		out := "["
		for r.Array(); r.Item(); {
			out += members(r) + " "
		}
		return out + "]"
	}
	return fmt.Sprint(r.Value())
}

// TestMethods reads texts in each way, and compares the results and errors with a file.
func TestMethods(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"a":`, 20)
	many := func(n int, last string) string {
		out := "{"
		for i := range n {
			out += fmt.Sprintf(`"n%d":%d,`, i, i)
		}
		return out + last + "}"
	}
	// Each method reads these.
	ofEachKind := []string{`null`, `true`, `7`, `"text"`, `["a"]`, `{"a":1}`}
	texts := append(ofEachKind, ``, ` `, "\t\r\n 1 \t\r\n", "\v1", `x`, `1 2`, `[] []`,
		`null`, ` null`, `nul`, `nullx`, `true`, ` false`, `tru`, `fals`, `True`,
		`0`, `-0`, `7`, `10`, `-12`, `100`, `101`, `-100`, `-101`, `01`, `-01`, `+1`, `-`, `--1`, `.5`, `1.`, `0.5`, `1.50`, `1.e1`, `1e2`, `1E+2`, `10e-1`, `1e`, `1e+`, `1e-`, `1e5x`, `1e400`, `-1e400`, `0x1`, `1/`, `1:`,
		`""`, `"known"`, ` "text" `, `"a\nb"`, `"\u00e9"`, `"\"`, `"open`, `"x\`, "\"tab\t\"", "\"\x1f\"", "\"\x20\x7f\"", "\"\xff\"", "\"long enough for a word\xff\"", `"é😀"`, `"\x"`, `"\ud800"`, `'x'`,
		`[]`, `[ ]`, `[1]`, `[ 1 , 2 ]`, `["a","b"]`, `["a" "b"]`, `["a",]`, `[,]`, `["a"`, `["a",`, `[`, `]`, `[1,[2,{"a":3}],"x"]`, `["a",1]`,
		`{}`, `{ }`, `{"a":1}`, ` { "a" : 1 , "b" : "x" } `, `{"a":{"a":1}}`, `{"a":{"b":1},"a":2}`, `{"a":{"b":1},"b":2}`, `{"a":1,"a":2}`, `{"a":[{"a":1},{"a":2}],"b":{"a":1}}`, `{"a":{"c":1,"c":2}}`,
		`{"a":1,"\u0061":2}`, `{"\u0061":1}`, `{"a":x}`, `{"\u0061":x}`, `{"a":{"b":x}}`, `{"a":[1,[x]]}`, `[{"a":x}]`, `{"":x}`, `{"a":[`, `{"a":1`, `{"a":`, `{"a"`, `{"a" 1}`, `{"a":1 "b":2}`, `{"a":1,}`, `{,}`, `{1:2}`, `{`, `}`, `{"a":1]`, `[1}`,
		`{"stop":1}`, `{"a":{"stop":1}}`, "{\"\xff\":1}", "{\"a\":{\"é\":x}}", `{"`+strings.Repeat("é", 40)+`":x}`,
		deep+`x`, deep+`1,"a":2}`, deep+`{"b":1,"c":[x`, many(23, `"n0":1`), many(24, `"n0":1`), many(25, `"n24":1`), many(30, `"n24":1`), many(30, `"o":{"n0":1,"n29":1,"p":x`), many(30, `"o":{"n0":1,"p":2},"n29":1`), many(30, `"o":{"n0":1,"p":2},"p":3,"n30":1,"o":1`), many(30, `"o":{"p":1,"q":2},"r":3,"r":4`))
	var out strings.Builder
	for _, text := range texts {
		fmt.Fprintf(&out, "%.80q\n", text)
		var outcomes []string
		by := map[string][]string{}
		for _, m := range methods {
			start := strings.TrimLeft(text, "\t\r\n ")
			if m.first != "" && len(start) > 0 && !strings.Contains(m.first, start[:1]) && !slices.Contains(ofEachKind, text) {
				continue
			}
			r := jsonread.New([]byte(text))
			got := m.read(r)
			outcome := fmt.Sprintf("%.160s", fmt.Sprintf("%#v", got))
			if err := r.End(); err != nil {
				var e *jsonread.Error
				if !errors.As(err, &e) || !errors.Is(err, jsonread.ErrSyntax) || errors.Is(err, errors.ErrUnsupported) {
					t.Fatalf("%q: %v", text, err)
				}
				outcome += fmt.Sprintf(", at byte %d, path %q: %s", e.Offset, e.Path, e.Text)
				if e.Offset > len(text) {
					t.Errorf("%q: an error at byte %d", text, e.Offset)
				}
			}
			if by[outcome] == nil {
				outcomes = append(outcomes, outcome)
			}
			by[outcome] = append(by[outcome], m.name)
		}
		for _, o := range outcomes {
			fmt.Fprintf(&out, "  %s: %s\n", strings.Join(by[o], ", "), o)
		}
	}
	golden.Equal(t, "testdata/methods.txt", out.String())
}

// TestAfterAnError checks that a reader which has failed reads nothing, and keeps its error.
func TestAfterAnError(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`null`, `true`, `7`, `"text"`, `["a"]`, `{"a":1}`} {
		for _, m := range methods {
			want := m.read(jsonread.New(nil))
			r := jsonread.New([]byte(text))
			r.Fail("first")
			r.Fail("second")
			r.FailBound("third", 3)
			r.Unknown()
			got := m.read(r)
			if err := r.End(); fmt.Sprint(err) != "at byte 0: first" || r.Err() != err {
				t.Errorf("%s of %s: error %v, %v", m.name, text, err, r.Err())
			}
			if fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", want) || r.Offset() != 0 || r.Kind() != 0 || r.Item() || r.Field() {
				t.Errorf("%s of %s: got %#v at byte %d, expected %#v at 0", m.name, text, got, r.Offset(), want)
			}
			if _, ok := r.Entry(); ok {
				t.Errorf("%s of %s: another member", m.name, text)
			}
		}
	}
	r := jsonread.New([]byte(`["a"]`))
	r.Array()
	r.Item()
	r.FailBound("names", 3)
	var e *jsonread.Error
	if err := r.End(); !errors.As(err, &e) || *e != (jsonread.Error{Offset: 1, Path: "[0]", Bound: "names", Text: `the text exceeds the bound "names": expected at most 3`}) {
		t.Errorf("got %+v", e)
	}
}

// TestNames asks for the name of a member where there is one and where there is none.
func TestNames(t *testing.T) {
	t.Parallel()
	r := jsonread.New([]byte(` {"a":[1], "b":{"c":2}} `))
	name := func(want string) {
		t.Helper()
		if got := string(r.Name()); got != want {
			t.Errorf("at byte %d: name %q, expected %q", r.Offset(), got, want)
		}
	}
	name("")
	r.Object()
	name("")
	r.Field()
	name("a")
	r.Array()
	r.Item()
	name("")
	if r.Field() || r.Offset() != 7 {
		t.Error("an array has a member")
	}
	r.Skip()
	r.Item()
	name("a")
	if r.Item() || r.Offset() != 9 {
		t.Error("an object has an item")
	}
	r.Field()
	name("b")
	r.Object()
	r.Field()
	name("c")
	r.Skip()
	r.Field()
	name("b")
	r.Field()
	name("")
	if err := r.End(); err != nil {
		t.Error(err)
	}
}

// TestReset reads texts of all kinds with one reader, in any order, as with new readers. The
// bound on depth stays.
func TestReset(t *testing.T) {
	t.Parallel()
	texts := []string{`{"a":[{"b":{"c":"x\u0061"}}]}`, `["open`, ``, strings.Repeat("[", 70), `{"a":{"b":1},"b":"` + strings.Repeat("long ", 2000) + `"}`, `{"a":1,"a":2}`, `"y"`,
		`{` + strings.Repeat(`"x":{`, 20)}
	for i := range 30 {
		texts = append(texts, fmt.Sprintf(`{"n%d":"%d"}`, i, i))
	}
	prepare := []func(r *jsonread.Reader){func(*jsonread.Reader) {}, (*jsonread.Reader).ShareText, (*jsonread.Reader).BorrowText}
	r := jsonread.New(nil)
	for round := range 3 {
		for i := range texts {
			text := texts[(i*7+round)%len(texts)]
			fresh := jsonread.New([]byte(text))
			r.Reset([]byte(text))
			prepare[(i+round)%3](r)
			prepare[round](fresh)
			if got, want := members(r), members(fresh); got != want || fmt.Sprint(r.End()) != fmt.Sprint(fresh.End()) {
				t.Fatalf("%q: got %v, %v, expected %v, %v", text, got, r.End(), want, fresh.End())
			}
		}
	}
	for _, c := range []struct{ bound, deepest int }{{3, 3}, {100, 100}, {0, jsonread.DepthMax}, {-1, jsonread.DepthMax}, {1, 1}} {
		r.SetDepthMax(c.bound)
		for depth := c.deepest; depth <= c.deepest+1; depth++ {
			r.Reset([]byte(strings.Repeat(`{"a":[`, depth/2) + strings.Repeat("[", depth%2) + strings.Repeat("]", depth%2) + strings.Repeat("]}", depth/2)))
			r.Skip()
			err := r.End()
			var e *jsonread.Error
			if depth == c.deepest && err != nil || depth > c.deepest && (!errors.As(err, &e) || e.Bound != "JSON depth" || !strings.Contains(e.Text, fmt.Sprintf("more than %d nested", c.deepest))) {
				t.Errorf("bound %d, depth %d: %v", c.bound, depth, err)
			}
		}
	}
}

// TestKeptStrings checks that strings stay as they are when the reader's text changes.
func TestKeptStrings(t *testing.T) {
	t.Parallel()
	for _, pad := range []int{0, 5000} {
		for _, share := range []bool{false, true} {
			text := []byte(`["first","","` + strings.Repeat("p", pad) + `","last"]`)
			r := jsonread.New(text)
			if share {
				r.ShareText()
			}
			got := r.Strings()
			clear(text)
			if want := []string{"first", "", strings.Repeat("p", pad), "last"}; !slices.Equal(got, want) || r.End() != nil {
				t.Errorf("%d bytes, shared %v: got %q", pad, share, got)
			}
		}
	}
}

// TestBorrowedStrings checks that borrowed strings and known ones take no memory.
func TestBorrowedStrings(t *testing.T) {
	text := []byte(`["first","known"` + strings.Repeat(" ", 5000) + "]")
	r := jsonread.New(text)
	known := "known"
	if n := testing.AllocsPerRun(10, func() {
		r.Reset(text)
		r.BorrowText()
		r.Array()
		r.Item()
		one := r.String()
		r.Item()
		if two := r.StringLike(known); one != "first" || two != known {
			t.Errorf("got %q, %q", one, two)
		}
	}); n != 0 {
		t.Errorf("%v allocations, expected none", n)
	}
	r.Reset([]byte(`["first"]`))
	if got := r.Strings(); len(got) != 1 || got[0] != "first" {
		t.Errorf("after borrowed strings: %q", got)
	}
}

// TestShortEscapes checks the form of the characters that JSON escapes.
func TestShortEscapes(t *testing.T) {
	t.Parallel()
	got := string(jsonread.AppendText([]byte("before "), "\"\\/\b\f\n\r\t\x00\x1f\x7f é\u2028<"))
	if want := `before \"\\/\b\f\n\r\t\u0000\u001f` + "\x7f é\u2028<"; got != want {
		t.Errorf("got %s, expected %s", got, want)
	}
	for text, want := range map[string]string{"\xff": "\ufffd", "é\"\xff\"é": `é\"` + "\ufffd" + `\"é`, "a\nb\xffc": `a\nb` + "\ufffd" + "c", "": ""} {
		if got := string(jsonread.AppendText(nil, text)); got != want {
			t.Errorf("%q: got %q, expected %q", text, got, want)
		}
	}
	if got, err := json.Marshal(string(jsonread.AppendString([]byte("x"), "y"))); err != nil || string(got) != `"x\"y\""` {
		t.Errorf("got %s, %v", got, err)
	}
}
