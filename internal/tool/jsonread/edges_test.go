package jsonread_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/internal/tool/jsonread"
)

// TestEscapes checks escapes at the edges of the surrogates.
func TestEscapes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`\u0000`: "\x00", `\u007f`: "\x7f", `\ud7ff`: "\ud7ff", `\ue000`: "\ue000", `\uffff`: "\uffff", `\uABCD\uabcd`: "\uabcd\uabcd",
		`\ud800\udc00`: "\U00010000", `\udbff\udfff`: "\U0010ffff", `a\ud83d\ude00b`: "a😀b", `\"\\\/\b\f\n\r\t`: "\"\\/\b\f\n\r\t",
	} {
		r := jsonread.New([]byte(`"` + text + `"`))
		if got := r.String(); got != want || r.End() != nil {
			t.Errorf("%s: %q, %v", text, got, r.End())
		}
		if r = jsonread.New([]byte(`"` + text + `"`)); r.StringLike("x") != want || r.End() != nil {
			t.Errorf("%s: StringLike differs: %v", text, r.End())
		}
	}
	for _, text := range []string{`\udc00`, `\udfff`, `\ud800`, `\ud800a`, `\ud800\n`, `\ud800\udbff`, `\ud800\ue000`, `\ud800\ud800`, `\ud800\xdc00`, `\ud800xudc00`, `\u12`, `\u12g4`, `\u123G`, `\u:123`, `\u/123`, `\u@123`, "\\u`123", `\x`, `\U0000`} {
		r := jsonread.New([]byte(`"` + text + `"`))
		if got := r.String(); got != "" || r.End() == nil {
			t.Errorf("%s: %q, %v", text, got, r.End())
		}
	}
}

// TestInts checks whole numbers at the bounds of Int and of the exact ones that
// have a fraction or an exponent.
func TestInts(t *testing.T) {
	t.Parallel()
	const low, high = -9223372036854775808, 9223372036854775807
	for text, want := range map[string]int64{"0": 0, "-0": 0, "9223372036854775807": high, "-9223372036854775808": low, "9007199254740991.0": 1<<53 - 1,
		"-9007199254740991e0": -(1<<53 - 1), "1.5e1": 15, "150e-1": 15} {
		r := jsonread.New([]byte(text))
		if got := r.Int(low, high); got != want || r.End() != nil {
			t.Errorf("%s: %d, %v", text, got, r.End())
		}
	}
	for _, text := range []string{"9223372036854775808", "9007199254740992.0", "-9007199254740992e0", "0.5", "1e400", `"1"`, "-", "null", ""} {
		r := jsonread.New([]byte(text))
		if got := r.Int(low, high); got != 0 || r.Err() == nil || r.End() == nil {
			t.Errorf("%s: %d, %v", text, got, r.Err())
		}
	}
	for text, ok := range map[string]bool{"3": true, "7": true, "2": false, "8": false} {
		r := jsonread.New([]byte(text))
		if got := r.Int(3, 7); ok != (r.Err() == nil) || ok != (got != 0) {
			t.Errorf("%s: %d, %v", text, got, r.Err())
		}
	}
}

// TestNesting checks how deep texts nest.
func TestNesting(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"": 0, "1": 0, "[]": 1, "{}": 1, "[[],[]]": 2, `{"a":[{}]}`: 3, `["[[["]`: 1, `["\"[["]`: 1, `["\\",[]]`: 2, `["a\\\"[",[[]]]`: 3, "[[[[[[[[": 6} {
		if got := jsonread.Nesting([]byte(text), 5); got != want {
			t.Errorf("%s: %d, want %d", text, got, want)
		}
	}
}

// TestPaths checks the place that an error names.
func TestPaths(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"extra":{"a":[1,{"b":x}]}}`: "extra.a[1].b: ", `{"any":[[1],[2,]]}`: "any[1][1]: ", `{"any":[x]}`: "any[0]: ", `{"any":{"a":[`: "any.a",
		`{"any":[],"tags":[1]}`: "tags[0]: ", `{"any":{"` + strings.Repeat("n", 70) + `":x}}`: "any." + strings.Repeat("n", 64) + ": ",
	} {
		if _, err := read(text); err == nil || !strings.HasPrefix(strings.TrimPrefix(err.Error(), "malformed JSON: "), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestAppendString writes each character at each place of strings of different
// lengths.
func TestAppendString(t *testing.T) {
	t.Parallel()
	for length := range 26 {
		for place := range length {
			for c := range 256 {
				text := strings.Repeat("~ !#[]z", 4)[:length]
				text = text[:place] + string(rune(c)) + text[place+1:]
				got := string(jsonread.AppendString(nil, text))
				var back string
				if err := json.Unmarshal([]byte(got), &back); err != nil || back != text {
					t.Fatalf("%q: %s, %v", text, got, err)
				}
				if plain := c >= ' ' && c < 0x7f && c != '"' && c != '\\'; plain && got != `"`+text+`"` {
					t.Fatalf("%q: %s", text, got)
				}
			}
		}
	}
}

// TestSkips checks that a value which is skipped is checked like one that is read.
func TestSkips(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		`"a"`: true, `"\u00e9\n"`: true, `"\q"`: false, `"\ud800"`: false, `["\q"]`: false, `[1,{"a":"\q"}]`: false, `{"a":1,"a":2}`: false, `[1,[2,{"b":[]}],null]`: true, `nul`: false, `-`: false, `"a`: false,
	} {
		r := jsonread.New([]byte(text))
		if r.Skip(); ok != (r.End() == nil) {
			t.Errorf("%s: %v", text, r.End())
		}
	}
	for text, want := range map[string]float64{"1.5": 1.5, "-2e3": -2000, "1e400": 0, "x": 0, `"1"`: 0, "1 2": 1} {
		r := jsonread.New([]byte(text))
		if got := r.Float(); got != want || (r.Err() == nil) != (want != 0) {
			t.Errorf("%s: %v, %v", text, got, r.Err())
		}
	}
	if jsonread.MembersMax != 256 || jsonread.DepthMax != 64 {
		t.Errorf("the bounds are %d members and %d levels, want 256 and 64", jsonread.MembersMax, jsonread.DepthMax)
	}
}
