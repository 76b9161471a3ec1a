package jsonread

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"unicode/utf8"
)

// text passes a string. It returns the position of the bytes between the quotes.
// plain is true if these have no escapes.
func (r *Reader) text() (raw span, plain bool) {
	if r.peek() != '"' {
		r.Fail("expected a string")
		return span{}, false
	}
	r.i++
	from, plain, ascii := int32(r.i), true, true
	r.i = plainPrefix(r.b, r.i)
	for r.i < len(r.b) {
		switch c := r.b[r.i]; {
		case c == '"':
			raw = span{from, int32(r.i)}
			if !ascii && !utf8.Valid(r.b[raw.from:raw.to]) {
				r.Fail("invalid UTF-8")
				return span{}, false
			}
			r.i++
			return raw, plain
		case c == '\\':
			plain = false
			r.i += 2
		case c < ' ':
			r.Fail("unescaped control character in a string")
			return span{}, false
		default:
			if c >= utf8.RuneSelf {
				ascii = false
			}
			r.i++
		}
	}
	r.i = len(r.b)
	r.Fail("string without a closing quotation mark")
	return span{}, false
}

// Kind returns the first byte of the next value, 0 at the end of the text. It
// distinguishes objects, arrays, strings and other values.
func (r *Reader) Kind() byte { return r.peek() }

// String reads a string.
func (r *Reader) String() string {
	raw, plain := r.text()
	r.last = span{}
	switch {
	case r.err != nil:
		return ""
	case !plain:
		return r.unescape(raw)
	}
	r.last = raw
	return r.part(raw)
}

// part returns a part of the text as a string.
func (r *Reader) part(p span) string {
	switch {
	case p.from == p.to:
		return ""
	case len(r.b) > sharedBytesMax && !r.shared:
		return string(r.b[p.from:p.to])
	}
	if r.copied == "" {
		r.copied = string(r.b)
	}
	return r.copied[p.from:p.to]
}

// StringLike reads a string. If it equals known, it returns known itself, so
// that a list of similar things takes no memory for each name.
func (r *Reader) StringLike(known string) string {
	raw, plain := r.text()
	if r.err == nil && !plain {
		return r.unescape(raw)
	}
	if text := r.b[raw.from:raw.to]; string(text) != known {
		return string(text)
	}
	return known
}

func (r *Reader) unescape(raw span) string {
	in := r.b[raw.from:raw.to]
	out := make([]byte, 0, len(in))
	for i := 0; i < len(in); {
		if in[i] != '\\' {
			out = append(out, in[i])
			i++
			continue
		}
		c, n := rune(-1), 2
		switch in[i+1] {
		case '"', '\\', '/':
			c = rune(in[i+1])
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		case 'u':
			c, n = unicodeEscape(in[i:])
		}
		if c < 0 {
			r.Fail("malformed escape in a string")
			return ""
		}
		out = utf8.AppendRune(out, c)
		i += n
	}
	return string(out)
}

// unicodeEscape reads \u and its four digits, or two of them that are a
// surrogate pair. It returns the character and the length of the escape; a
// character of -1 means neither.
func unicodeEscape(in []byte) (rune, int) {
	c, ok := hex4(in)
	switch {
	case !ok || c >= 0xDC00 && c < 0xE000:
		return -1, 0
	case c < 0xD800 || c >= 0xE000:
		return c, 6
	}
	low, ok := hex4(in[6:])
	if !ok || low < 0xDC00 || low >= 0xE000 {
		return -1, 0
	}
	return 0x10000 + (c-0xD800)<<10 + (low - 0xDC00), 12
}

func hex4(in []byte) (rune, bool) {
	if len(in) < 6 || in[0] != '\\' || in[1] != 'u' {
		return 0, false
	}
	c := rune(0)
	for _, h := range in[2:6] {
		switch {
		case h >= '0' && h <= '9':
			h -= '0'
		case h >= 'a' && h <= 'f':
			h -= 'a' - 10
		case h >= 'A' && h <= 'F':
			h -= 'A' - 10
		default:
			return 0, false
		}
		c = c<<4 | rune(h)
	}
	return c, true
}

// word passes w if the text goes on with it.
func (r *Reader) word(w string) bool {
	if r.err == nil && bytes.HasPrefix(r.b[r.i:], []byte(w)) {
		r.i += len(w)
		return true
	}
	return false
}

// Null passes a null and reports whether there is one.
func (r *Reader) Null() bool { return r.peek() == 'n' && r.word("null") }

// Bool reads true or false.
func (r *Reader) Bool() bool {
	r.peek()
	if r.word("true") {
		return true
	}
	if !r.word("false") {
		r.Fail("expected true or false")
	}
	return false
}

// number passes a number and returns its text.
func (r *Reader) number() []byte {
	r.peek()
	from, i := r.i, r.i
	digits := func() bool {
		start := i
		for i < len(r.b) && r.b[i] >= '0' && r.b[i] <= '9' {
			i++
		}
		return i > start
	}
	if i < len(r.b) && r.b[i] == '-' {
		i++
	}
	zero := i < len(r.b) && r.b[i] == '0'
	start := i
	ok := digits() && (!zero || i == start+1)
	if ok && i < len(r.b) && r.b[i] == '.' {
		i++
		ok = digits()
	}
	if ok && i < len(r.b) && (r.b[i] == 'e' || r.b[i] == 'E') {
		if i++; i < len(r.b) && (r.b[i] == '+' || r.b[i] == '-') {
			i++
		}
		ok = digits()
	}
	if !ok || r.err != nil {
		r.Fail("expected a number")
		return nil
	}
	r.i = i
	return r.b[from:i]
}

// Number reads a number and returns its text.
func (r *Reader) Number() json.Number { return json.Number(r.number()) }

// Float reads a number as a float64, which may be less precise. It fails for a
// number out of float64's range.
func (r *Reader) Float() float64 {
	text := r.number()
	if r.err != nil {
		return 0
	}
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		r.Fail("number out of range")
		return 0
	}
	return f
}

// Int reads a whole number from low to high. It may be written with a fraction
// or an exponent, as long as it is whole.
func (r *Reader) Int(low, high int64) int64 {
	text := string(r.number())
	if r.err != nil {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		f, ferr := strconv.ParseFloat(text, 64)
		if ferr != nil || f != math.Trunc(f) || math.Abs(f) >= 1<<53 {
			r.Fail("expected a whole number")
			return 0
		}
		n = int64(f)
	}
	if n < low || n > high {
		r.Fail("expected a number from " + strconv.FormatInt(low, 10) + " to " + strconv.FormatInt(high, 10))
		return 0
	}
	return n
}

// Value reads any value: nil, bool, [json.Number], string, []any or
// map[string]any.
func (r *Reader) Value() any {
	switch r.peek() {
	case '{':
		return r.Values()
	case '[':
		list := []any{}
		for r.Array(); r.Item(); {
			list = append(list, r.Value())
		}
		return list
	case '"':
		return r.String()
	case 't', 'f':
		return r.Bool()
	case 'n':
		if r.Null() {
			return nil
		}
	default:
		if n := r.number(); r.err == nil {
			return json.Number(n)
		}
	}
	r.Fail("expected a JSON value")
	return nil
}

// Values reads an object whose names are data: they may have escapes. A name
// that comes twice is refused.
func (r *Reader) Values() map[string]any {
	out := map[string]any{}
	r.Object()
	if r.err != nil {
		return nil
	}
	for name, ok := r.Entry(); ok; name, ok = r.Entry() {
		if _, twice := out[name]; twice {
			r.Fail("duplicate member")
		}
		out[name] = r.Value()
	}
	return out
}

// Skip passes a value of any kind. It refuses what [Reader.Value] refuses.
func (r *Reader) Skip() {
	switch r.peek() {
	case '{':
		r.Values()
	case '[':
		for r.Array(); r.Item(); {
			r.Skip()
		}
	case '"':
		if raw, plain := r.text(); !plain && r.err == nil {
			r.unescape(raw)
		}
	default:
		r.Value()
	}
}

// Discard is like [Reader.Skip], but an object may have a name twice. It serves
// protocols that ignore unknown members.
func (r *Reader) Discard() {
	switch r.peek() {
	case '{':
		r.Object()
		for _, ok := r.Entry(); ok; _, ok = r.Entry() {
			r.Discard()
		}
	case '[':
		for r.Array(); r.Item(); {
			r.Discard()
		}
	default:
		r.Skip()
	}
}

// Raw passes a value and returns its text, which is a part of the whole text.
func (r *Reader) Raw() []byte {
	r.peek()
	from := r.i
	if r.Skip(); r.err != nil {
		return nil
	}
	return r.b[from:r.i]
}

// Strings reads an array of strings.
func (r *Reader) Strings() []string {
	out := []string{}
	for r.Array(); r.Item(); {
		out = append(out, r.String())
	}
	return out
}

// Nesting returns how deep objects and arrays nest in a text, counting up to
// limit+1. It does not check that the text is JSON.
func Nesting(text []byte, limit int) int {
	depth, deepest, quoted := 0, 0, false
	for i := 0; i < len(text) && deepest <= limit; i++ {
		switch c := text[i]; {
		case quoted:
			if c == '\\' {
				i++
			} else if c == '"' {
				quoted = false
			}
		case c == '"':
			quoted = true
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}

// Offset returns the position of the next value in the text, in bytes from its
// start.
func (r *Reader) Offset() int {
	r.space()
	return r.i
}
