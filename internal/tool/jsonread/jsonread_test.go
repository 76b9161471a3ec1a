package jsonread_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/internal/tool/jsonread"
)

type person struct {
	Name  string
	Age   int64
	Tags  []string
	Extra map[string]any
	Any   any
	OK    bool
}

func read(text string) (p person, err error) {
	r := jsonread.New([]byte(text))
	for r.Object(); r.Field(); {
		switch string(r.Name()) {
		case "name":
			p.Name = r.String()
		case "age":
			p.Age = r.Int(0, 150)
		case "tags":
			p.Tags = r.Strings()
		case "extra":
			p.Extra = r.Values()
		case "any":
			p.Any = r.Value()
		case "ok":
			p.OK = r.Bool()
		case "skip":
			r.Skip()
		default:
			r.Unknown()
		}
	}
	return p, r.End()
}

func TestReads(t *testing.T) {
	t.Parallel()
	p, err := read(` { "name" : "A\u00e9\ud83d\ude00\n" , "age": 1.5e1, "tags":["x","y"], "extra":{"a\u0062":[1,{"c":null}]},
		"any": -0.25e-2, "ok": true, "skip": {"z":[true,false,null,"\"",{}]} } `)
	want := person{"Aé😀\n", 15, []string{"x", "y"}, map[string]any{"ab": []any{json.Number("1"), map[string]any{"c": nil}}},
		json.Number("-0.25e-2"), true}
	if err != nil || !reflect.DeepEqual(p, want) {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, why string }{
		{``, "expected an object"},
		{`[]`, "expected an object"},
		{`{"name":"x"`, "expected a comma or the end"},
		{`{"name":"x"}}`, "unexpected data after"},
		{`{"name":"x","name":"y"}`, "name: duplicate member"},
		{`{"extra":{"a":1,"\u0061":2}}`, "duplicate member"},
		{`{"n\u0061me":"x"}`, "unexpected escape"},
		{`{"Name":"x"}`, "Name: unknown member"},
		{`{"name":null}`, "name: expected a string"},
		{`{"name":"\ud800"}`, "malformed escape"},
		{`{"name":"\q"}`, "malformed escape"},
		{"{\"name\":\"\xff\"}", "invalid UTF-8"},
		{"{\"name\":\"\n\"}", "control character"},
		{`{"name":"x\`, "closing quotation mark"},
		{`{"age":151}`, "from 0 to 150"},
		{`{"age":1.5}`, "whole number"},
		{`{"age":01}`, "expected a number"},
		{`{"age":+1}`, "expected a number"},
		{`{"age":1e999}`, "whole number"},
		{`{"tags":["x",]}`, "tags[1]: expected a string"},
		{`{"tags":["x" "y"]}`, "tags[0]: expected a comma"},
		{`{,"name":"x"}`, "expected a string"},
		{`{"name" "x"}`, "a colon"},
		{`{"any":nul}`, "expected a JSON value"},
		{`{"ok":1}`, "true or false"},
	} {
		if _, err := read(c.text); err == nil || !strings.Contains(err.Error(), c.why) || !errors.Is(err, jsonread.ErrSyntax) {
			t.Errorf("%s: %v, want %q", c.text, err, c.why)
		}
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	deep := func(n int) string { return `{"any":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}` }
	if _, err := read(deep(jsonread.DepthMax - 1)); err != nil {
		t.Error(err)
	}
	if _, err := read(deep(jsonread.DepthMax)); err == nil {
		t.Error("deeper than the bound")
	}
	wide := func(n int) error {
		var b strings.Builder
		for i := range n {
			b.WriteString(`,"n` + strings.Repeat("x", i) + `":1`)
		}
		r := jsonread.New([]byte("{" + b.String()[1:] + "}"))
		for r.Object(); r.Field(); {
			r.Skip()
		}
		return r.End()
	}
	if err := wide(jsonread.MembersMax); err != nil {
		t.Error(err)
	}
	var e *jsonread.Error
	if err := wide(jsonread.MembersMax + 1); !errors.As(err, &e) || e.Bound != "JSON members" {
		t.Errorf("wider than the bound: %v", err)
	}
}

// FuzzValue compares the reader with the standard library, which must accept
// what the reader accepts, with the same meaning.
func FuzzValue(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5e3,"x\u00e9\ud83d\ude00",null,true,{}]}`, `"\ud800"`, "\"\xff\"", `{"a":1,"a":2}`, `[1,]`, ` 0 `, `-`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r := jsonread.New(text)
		got := r.Value()
		if err := r.End(); err != nil {
			return
		}
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.UseNumber()
		var want any
		if err := dec.Decode(&want); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%q: %#v, the library returns %#v, %v", text, got, want, err)
		}
		again := jsonread.New(text)
		if again.Skip(); again.End() != nil {
			t.Fatalf("%q is not passed: %v", text, again.Err())
		}
	})
}

func FuzzAppendString(f *testing.F) {
	f.Add("a\"\\\x00\x1f\n é \xff 😀")
	f.Fuzz(func(t *testing.T, s string) {
		b := jsonread.AppendString(nil, s)
		var back string
		if err := json.Unmarshal(b, &back); err != nil || back != string([]rune(s)) {
			t.Fatalf("%q: %s, %v", s, b, err)
		}
		if got := jsonread.New(b).String(); got != back {
			t.Fatalf("%s: %q, want %q", b, got, back)
		}
	})
}
