package wire

import (
	"math/bits"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// text reads a string. Without escapes it is a view of the body, or a copy
// where the reader owns; with escapes it is new.
func (r *reader) text() string {
	if r.err != nil {
		return ""
	}
	if r.peek() != '"' {
		r.unexpected()
		return ""
	}
	s, start := r.s, r.i+1
	i, ascii := plain(s, start), true
	for ; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			r.i = i + 1
			if !ascii && !utf8.ValidString(s[start:i]) {
				r.fail("invalid UTF-8 in string")
				return ""
			}
			if r.own {
				return strings.Clone(s[start:i])
			}
			return s[start:i]
		case c == '\\':
			return r.escaped(start, i)
		case c < ' ':
			r.i = i
			r.fail("invalid character in string")
			return ""
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	r.i = len(s)
	r.unexpected()
	return ""
}

// plain returns the first position from i on whose byte is not printable ASCII
// or is a quote or backslash. It looks at eight bytes at a time.
func plain(s string, i int) int {
	for ; i+8 <= len(s); i += 8 {
		if odd := odd(word(s[i : i+8])); odd != 0 {
			return i + bits.TrailingZeros64(odd)/8
		}
	}
	left := len(s) - i
	if left == 0 {
		return i
	}
	if len(s) >= 8 { // the last eight, but those that were seen
		if odd := odd(word(s[len(s)-8:]) >> (8 * (8 - left))); odd != 0 {
			return i + min(bits.TrailingZeros64(odd)/8, left)
		}
		return len(s)
	}
	for ; i < len(s); i++ {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return i
		}
	}
	return i
}

// word is eight bytes, the first the lowest.
func word(b string) uint64 {
	_ = b[7]
	return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
		uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
}

// odd sets a byte's top bit where the byte is not ASCII, below a blank, a quote
// or a backslash. Bytes above one of these may be marked in error, the lowest
// is not.
func odd(w uint64) uint64 {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	quote, slash := w^'"'*ones, w^'\\'*ones
	return (w | (w - ' '*ones) | (quote - ones) | (slash - ones)) & tops
}

// escaped reads on in a string that began at start, from the escape at i.
func (r *reader) escaped(start, i int) string {
	s := r.s
	out := append(make([]byte, 0, i-start+32), s[start:i]...)
	for i < len(s) {
		switch c := s[i]; {
		case c == '"':
			r.i = i + 1
			if !utf8.Valid(out) {
				r.fail("invalid UTF-8 in string")
				return ""
			}
			return string(out)
		case c == '\\':
			var n int
			if out, n = unescape(out, s[i:]); n == 0 {
				r.i = i
				r.fail("invalid escape code in string")
				return ""
			}
			i += n
		case c < ' ':
			r.i = i
			r.fail("invalid character in string")
			return ""
		default:
			out = append(out, c)
			i++
		}
	}
	r.i = len(s)
	r.unexpected()
	return ""
}

// unescape appends what the escape at the start of s stands for and returns
// its length, 0 if it is none. Half of a surrogate pair is none.
func unescape(out []byte, s string) ([]byte, int) {
	if len(s) < 2 {
		return out, 0
	}
	switch c := s[1]; c {
	case '"', '\\', '/':
		return append(out, c), 2
	case 'b':
		return append(out, '\b'), 2
	case 'f':
		return append(out, '\f'), 2
	case 'n':
		return append(out, '\n'), 2
	case 'r':
		return append(out, '\r'), 2
	case 't':
		return append(out, '\t'), 2
	}
	c, ok := hex(s)
	if !ok {
		return out, 0
	}
	if !utf16.IsSurrogate(c) {
		return utf8.AppendRune(out, c), 6
	}
	low, ok := hex(s[6:])
	if !ok {
		return out, 0
	}
	if c = utf16.DecodeRune(c, low); c == utf8.RuneError {
		return out, 0
	}
	return utf8.AppendRune(out, c), 12
}

// hex reads \u and its four digits.
func hex(s string) (rune, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	var v rune
	for _, c := range []byte(s[2:6]) {
		switch {
		case '0' <= c && c <= '9':
			v = v<<4 | rune(c-'0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			v = v<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return v, true
}
