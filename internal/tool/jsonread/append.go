package jsonread

import (
	"math/bits"
	"unicode/utf8"
)

// AppendString appends s to dst as a JSON string. Bytes that are not UTF-8
// become U+FFFD.
func AppendString(dst []byte, s string) []byte {
	return append(AppendText(append(dst, '"'), s), '"')
}

// AppendText is like [AppendString] without the quotes around the string.
func AppendText(dst []byte, s string) []byte {
	if i := plainPrefix(s, 0); i < len(s) {
		return appendEscaped(dst, s, i)
	}
	return append(dst, s...)
}

// appendEscaped is AppendText for a string whose first i bytes need no escape.
func appendEscaped(dst []byte, s string, i int) []byte {
	from, ascii := 0, true
	for ; i < len(s); i++ {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			ascii = ascii && c < utf8.RuneSelf
			continue
		}
		dst = appendUTF8(dst, s[from:i], ascii)
		dst = appendEscape(dst, c)
		from, ascii = i+1, true
	}
	return appendUTF8(dst, s[from:], ascii)
}

func appendUTF8(dst []byte, s string, ascii bool) []byte {
	if ascii || utf8.ValidString(s) {
		return append(dst, s...)
	}
	for _, c := range s {
		dst = utf8.AppendRune(dst, c)
	}
	return dst
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, `\b`...)
	case '\f':
		return append(dst, `\f`...)
	case '\n':
		return append(dst, `\n`...)
	case '\r':
		return append(dst, `\r`...)
	case '\t':
		return append(dst, `\t`...)
	}
	const digits = "0123456789abcdef"
	return append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
}

// plainPrefix returns the first position from i on whose byte is not printable
// ASCII, or is a quote or a backslash. It looks at eight bytes at a time.
func plainPrefix[S []byte | string](s S, i int) int {
	for ; i+8 <= len(s); i += 8 {
		if marks := markSpecial(loadWord(s, i)); marks != 0 {
			return i + bits.TrailingZeros64(marks)/8
		}
	}
	rest := len(s) - i
	if rest <= 0 {
		return i
	}
	if len(s) >= 8 { // load the last eight bytes and shift out those already seen
		if marks := markSpecial(loadWord(s, len(s)-8) >> (8 * (8 - rest))); marks != 0 {
			return i + min(bits.TrailingZeros64(marks)/8, rest)
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

// loadWord returns the eight bytes of s from i on, the first one lowest.
func loadWord[S []byte | string](s S, i int) uint64 {
	_ = s[i+7]
	return uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 |
		uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56
}

// markSpecial sets the top bit of each byte of w that is not ASCII, is below a
// blank, or is a quote or a backslash. A byte above a marked one may be marked
// by mistake; the lowest mark is always right.
func markSpecial(w uint64) uint64 {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	quote, slash := w^'"'*ones, w^'\\'*ones
	return (w | (w - ' '*ones) | (quote - ones) | (slash - ones)) & tops
}
