// Package printable escapes what a terminal, or a reader of a log, would not see as it is:
// control characters, characters that change the direction of text, and characters without
// a width. A name in stored data can have them, to forge or to hide output. Letters, marks,
// digits, symbols and blanks of all scripts stay as they are. The package does not decide
// where a text is printed.
package printable

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// invisible are characters that [unicode.IsPrint] accepts and that have no width.
var invisible = []*unicode.RangeTable{unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector}

// emojiSelector asks for the colored form of the symbol before it.
const emojiSelector = '\ufe0f'

// shown reports whether a rune can be printed as it is after another one. The selector of
// emoji counts only after a symbol, so that it makes no second form of a name of letters.
func shown(before, r rune) bool {
	switch {
	case r >= ' ' && r < 0x7f:
		return true
	case r < 0xa0:
		return false
	case r == emojiSelector:
		return unicode.IsSymbol(before)
	}
	return (unicode.IsPrint(r) || unicode.Is(unicode.Zs, r)) && !unicode.In(r, invisible...)
}

// find returns the place of the first rune of a text that must be escaped, its value and its
// size, or -1. keep are characters that need no escape.
func find[T string | []byte](text T, keep string) (at int, r rune, size int) {
	before := rune(0)
	for at < len(text) {
		if c := text[at]; c < utf8.RuneSelf {
			r, size = rune(c), 1
		} else {
			r, size = utf8.DecodeRuneInString(string(text[at:min(len(text), at+utf8.UTFMax)]))
		}
		if (r == utf8.RuneError && size == 1 || !shown(before, r)) && strings.IndexByte(keep, text[at]) < 0 {
			return at, r, size
		}
		at, before = at+size, r
	}
	return -1, 0, 0
}

// escape appends a text to b, with the result of one for each rune that must be escaped.
// wrong is the byte of an invalid encoding, whose rune is [utf8.RuneError].
func escape[T string | []byte](b []byte, text T, keep string, one func(b []byte, r rune, wrong byte) []byte) []byte {
	for {
		at, r, size := find(text, keep)
		if at < 0 {
			return append(b, text...)
		}
		b = append(b, text[:at]...)
		wrong := byte(0)
		if r == utf8.RuneError && size == 1 {
			wrong = text[at]
		}
		b, text = one(b, r, wrong), text[at+size:]
	}
}

// forPeople appends a rune as Go writes it: \n, \x1b, \u202e, \U000e0001.
func forPeople(b []byte, r rune, wrong byte) []byte {
	if wrong != 0 {
		return fmt.Appendf(b, `\x%02x`, wrong)
	}
	quoted := strconv.AppendQuoteRuneToASCII(nil, r)
	return append(b, quoted[1:len(quoted)-1]...)
}

// Text returns a text on one line, with escapes as Go has them. A backslash in the text
// stays as it is.
func Text(text string) string {
	if at, _, _ := find(text, ""); at < 0 {
		return text
	}
	return string(escape(nil, text, "", forPeople))
}

// Lines is [Text] for a text of several lines: line feeds and tabs stay as they are.
func Lines(text string) string {
	if at, _, _ := find(text, "\n\t"); at < 0 {
		return text
	}
	return string(escape(nil, text, "\n\t", forPeople))
}

// JSON returns valid JSON with the same values, whose strings have the escapes of JSON for
// what [Text] escapes. It returns its argument if nothing is to be escaped. Bytes that are
// not UTF-8 become U+FFFD.
func JSON(text []byte) []byte {
	if at, _, _ := find(text, "\n\t\r"); at < 0 {
		return text
	}
	return escape(nil, text, "\n\t\r", func(b []byte, r rune, _ byte) []byte {
		if high, low := utf16.EncodeRune(r); r > 0xffff {
			return fmt.Appendf(b, `\u%04x\u%04x`, high, low)
		}
		return fmt.Appendf(b, `\u%04x`, r)
	})
}

// Args returns the arguments of a format, so that what they print has the form of [Text].
// Numbers and truth values stay as they are.
func Args(args []any) []any {
	out := make([]any, len(args))
	for i, arg := range args {
		switch arg := arg.(type) {
		case nil, bool, int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64, float32, float64:
			out[i] = arg
		case string:
			out[i] = Text(arg)
		default:
			out[i] = formatted{arg}
		}
	}
	return out
}

// formatted prints a value in the form of [Text].
type formatted struct{ value any }

// Format implements [fmt.Formatter].
func (f formatted) Format(s fmt.State, verb rune) {
	io.WriteString(s, Text(fmt.Sprintf(fmt.FormatString(s, verb), f.value)))
}

// Writer returns a writer to w that escapes what is written by form, which is [JSON] or
// [LinesOf]. Each write must have whole characters.
func Writer(w io.Writer, form func([]byte) []byte) io.Writer { return writer{w, form} }

type writer struct {
	io.Writer
	form func([]byte) []byte
}

// Write implements [io.Writer].
func (w writer) Write(p []byte) (int, error) {
	if _, err := w.Writer.Write(w.form(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// LinesOf is [Lines] for [Writer].
func LinesOf(text []byte) []byte {
	if at, _, _ := find(text, "\n\t"); at < 0 {
		return text
	}
	return escape(nil, text, "\n\t", forPeople)
}
