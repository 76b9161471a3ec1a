// Package percent encodes texts as signed requests need it: percent-encoding of
// RFC 3986, with upper-case digits, and without the exceptions that net/url makes
// for paths and queries. It has one function, [Encode].
package percent

import "strings"

// Encode returns s with all bytes escaped that RFC 3986 does not call unreserved:
// letters, digits, and the characters - . _ ~
func Encode(s string) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	b.Grow(len(s))
	for i := range len(s) {
		c := s[i]
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-_.~", c) >= 0 {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', digits[c>>4], digits[c&15]})
		}
	}
	return b.String()
}
