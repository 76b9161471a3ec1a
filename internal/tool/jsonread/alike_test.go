package jsonread

import (
	"slices"
	"testing"
)

// TestAlike checks that Again reads items that differ in two strings only, and no
// others.
func TestAlike(t *testing.T) {
	t.Parallel()
	const text = ` [ {"a":"1","b":"2"}, {"a":"","b":"33"} ,{"a":"x y","b":"{}"},{"a":"\u0031","b":"2"},{"b":"1","a":"2"},` +
		`{"b":"3","a":"4"},{"b":"5" ,"a":"6"},{"b":"7","a":"ü"},{"a":"8"},{"b":"9","a":"10"},{"b":"11","a":"12" },` +
		`{"b":"13","a":"14" }, {"b":"15","a":"16"}]`
	for _, shared := range []bool{false, true} {
		r := New([]byte(text))
		if shared {
			r.ShareText()
		}
		var alike Alike
		var got, compared []string
		for r.Array(); r.Item(); {
			if one, two, ok := r.Again(&alike); ok {
				got = append(got, one+"|"+two)
				compared = append(compared, one+"|"+two)
				continue
			}
			alike.Begin(r)
			var all string
			for r.Object(); r.Field(); {
				if all != "" {
					all += "|"
				}
				all += r.String()
				alike.Note(r)
			}
			alike.End(r)
			got = append(got, all)
		}
		if err := r.End(); err != nil {
			t.Fatal(err)
		}
		if want := []string{"1|2", "|33", "x y|{}", "1|2", "1|2", "3|4", "5|6", "7|ü", "8", "9|10", "11|12", "13|14", "15|16"}; !slices.Equal(got, want) {
			t.Errorf("read %q", got)
		}
		if want := []string{"|33", "x y|{}", "3|4", "13|14"}; !slices.Equal(compared, want) {
			t.Errorf("compared %q", compared)
		}
	}
	(*Alike)(nil).Note(New(nil)) // does nothing
	// A text that is not UTF-8 is an error, also in a string that may differ.
	for _, bad := range []string{"\x80", "\xff", "x\xc3"} {
		if readAlike(`[{"a":"1","b":"2"},{"a":"3","b":"`+bad+`"}]`) == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	// A text that is cut off anywhere is an error.
	const whole = `[{"a":"1","b":"2"},{"a":"3","b":"4"}]`
	for i := range whole {
		if readAlike(whole[:i]) == nil {
			t.Errorf("%q is taken", whole[:i])
		}
	}
}

// readAlike reads a list of objects of texts that are alike, and returns the error.
func readAlike(text string) error {
	r := New([]byte(text))
	var alike Alike
	for r.Array(); r.Item(); {
		if _, _, ok := r.Again(&alike); ok {
			continue
		}
		alike.Begin(r)
		for r.Object(); r.Field(); {
			_ = r.String()
			alike.Note(r)
		}
		alike.End(r)
	}
	return r.End()
}

// TestPlainPrefix compares plainPrefix with a search byte by byte.
func TestPlainPrefix(t *testing.T) {
	t.Parallel()
	const plain = " !#[]abcxyz~09<>AZ^_`"
	for length := range 2*8 + 5 {
		for special := range 256 {
			for at := range length {
				text := []byte(plain[:length])
				text[at] = byte(special)
				for from := range length + 1 {
					want := from
					for want < length && text[want] >= ' ' && text[want] < 0x80 && text[want] != '"' && text[want] != '\\' {
						want++
					}
					if got := plainPrefix(text, from); got != want {
						t.Fatalf("%q from %d: %d, expected %d", text, from, got, want)
					}
					if got := plainPrefix(string(text), from); got != want {
						t.Fatalf("the string %q from %d: %d, expected %d", text, from, got, want)
					}
				}
			}
		}
	}
}
