// Package quote has what an error needs to quote a foreign text: [Of] cuts it between two
// runes, [Index] finds the line and the column of an offset, and [Nearest] finds the name
// that a misspelt one probably means. It does not know what a text means.
package quote

import (
	"strings"
	"unicode/utf8"
)

// text is a string or bytes of a request.
type text interface{ ~string | ~[]byte }

// Of returns t as a string. If t is longer than most bytes, it returns the
// [Start] of t and an ellipsis. The result shares the memory of a string t.
func Of[T text](t T, most int) string {
	if len(t) <= most {
		return string(t)
	}
	return string(Start(t, most)) + "…"
}

// Start returns the first bytes of t, at most a number of them. It cuts before a
// rune, never inside one. The result shares the memory of t.
func Start[T text](t T, most int) T {
	if len(t) <= most {
		return t
	}
	for most > 0 && !utf8.RuneStart(t[most]) {
		most--
	}
	return t[:most]
}

// OfForeign is [Of] for the error text of another library. The result is valid
// UTF-8: a question mark replaces each run of invalid bytes. Blanks replace the
// no-break spaces that protobuf's library writes in some builds.
func OfForeign(t string, most int) string {
	return Of(strings.ToValidUTF8(strings.ReplaceAll(t, "\u00a0", " "), "?"), most)
}
