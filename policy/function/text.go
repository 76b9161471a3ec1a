package function

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/ostiary/ostiary/policy/value"
)

// textBytesMax is the bound "text bytes": the length of a string that a function
// makes. Variables that concatenate each other would otherwise double it again
// and again.
const textBytesMax = 1 << 20

// text adds the functions on strings and URIs (appendices A.3.3 and A.3.9).
func (b *builder) text() {
	b.unary(v1+"string-normalize-space", value.String, value.String, func(v value.Value) (value.Value, error) {
		return value.NewString(strings.Trim(v.Text(), " \t\r\n")), nil
	})
	b.unary(v1+"string-normalize-to-lower-case", value.String, value.String, func(v value.Value) (value.Value, error) {
		return value.NewString(strings.ToLower(v.Text())), nil
	})
	b.concatenation(v2+"string-concatenate", value.String, value.NewString)
	b.concatenation(v2+"uri-string-concatenate", value.AnyURI, value.NewAnyURI)
	for _, t := range []value.Type{value.String, value.AnyURI} {
		b.test(v3+t.String()+"-starts-with", value.String, t, func(_ *Env, part, whole value.Value) (bool, error) {
			return strings.HasPrefix(whole.Text(), part.Text()), nil
		})
		b.test(v3+t.String()+"-ends-with", value.String, t, func(_ *Env, part, whole value.Value) (bool, error) {
			return strings.HasSuffix(whole.Text(), part.Text()), nil
		})
		b.test(v3+t.String()+"-contains", value.String, t, func(_ *Env, part, whole value.Value) (bool, error) {
			return strings.Contains(whole.Text(), part.Text()), nil
		})
		b.add(&Function{
			ID:            v3 + t.String() + "-substring",
			Signature:     Signature{Params: []Shape{one(t), one(value.Integer), one(value.Integer)}, Result: one(value.String)},
			Call:          substring,
			CheckLiterals: checkSubstring,
		})
	}
}

// concatenation adds a function that joins its first argument, of the type, with
// one or more strings.
func (b *builder) concatenation(id string, t value.Type, make func(string) value.Value) {
	b.add(&Function{
		ID:        id,
		Signature: Signature{Params: []Shape{one(t), one(value.String)}, Repeat: 1, Result: one(t)},
		Call: func(_ *Env, args []Operand) (Operand, error) {
			size := 0
			for _, arg := range args {
				size += len(arg.Value.Text())
			}
			if size > textBytesMax {
				return Operand{}, tooMany("text bytes", textBytesMax)
			}
			var joined strings.Builder
			joined.Grow(size)
			for _, arg := range args {
				joined.WriteString(arg.Value.Text())
			}
			return Single(make(joined.String())), nil
		},
	})
}

// substring returns the characters from the beginning, counted from 0, to the
// end, which is excluded. The end -1 is that of the text.
func substring(_ *Env, args []Operand) (Operand, error) {
	text := args[0].Value.Text()
	begin, okBegin := args[1].Value.Int64()
	end, okEnd := args[2].Value.Int64()
	from := byteOffset(text, begin)
	to := len(text)
	if end != -1 {
		to = byteOffset(text, end)
	}
	if !okBegin || !okEnd || from < 0 || to < from {
		return Operand{}, processing("substring from %s to %s of a text of %d characters: expected places within it",
			cut(args[1].Value), cut(args[2].Value), utf8.RuneCountInString(text))
	}
	return Single(value.NewString(text[from:to])), nil
}

// byteOffset returns where the character with a number begins, the length of
// text for the number of its characters, and -1 for every other number.
func byteOffset(text string, character int64) int {
	if character < 0 || character > int64(len(text)) {
		return -1
	}
	for i := range text {
		if character == 0 {
			return i
		}
		character--
	}
	if character == 0 {
		return len(text)
	}
	return -1
}

// checkSubstring rejects a literal beginning or end that lies in no text.
func checkSubstring(literals []*value.Value) error {
	begin, end := int64(0), int64(-1)
	ok := true
	if literals[1] != nil {
		begin, ok = literals[1].Int64()
	}
	if !ok || begin < 0 {
		return fmt.Errorf("substring begins at %s: expected 0 or more", cut(*literals[1]))
	}
	if literals[2] != nil {
		end, ok = literals[2].Int64()
	}
	if !ok || end < begin && end != -1 {
		return fmt.Errorf("substring ends at %s: expected -1, or %d or more", cut(*literals[2]), begin)
	}
	return nil
}
