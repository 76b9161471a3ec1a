package xmlread

import (
	"bytes"
	"encoding/binary"
	"unicode/utf8"
)

// checkCharacters checks that the whole text is UTF-8 and consists of the
// characters of XML (section 2.2), and passes a byte order mark.
func (r *Reader) checkCharacters() {
	b, i := r.b, 0
	ascii := true
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		ascii = ascii && w&tops == 0
		// A byte below a blank borrows from the top bit. Bytes above may be marked by
		// mistake.
		if (w-' '*ones)&^w&tops != 0 && !r.checkControls(i, i+8) {
			return
		}
	}
	if !r.checkControls(i, len(b)) {
		return
	}
	for ; i < len(b); i++ {
		ascii = ascii && b[i] < utf8.RuneSelf
	}
	if !ascii {
		r.checkUTF8()
	}
}

const ones, tops = 0x0101010101010101, 0x8080808080808080

func (r *Reader) checkControls(from, to int) bool {
	for i, c := range r.b[from:to] {
		if c < ' ' && c != '\n' && c != '\t' && c != '\r' {
			r.FailAt(from+i, "unexpected control character U+%04X", c)
			return false
		}
	}
	return true
}

func (r *Reader) checkUTF8() {
	if !utf8.Valid(r.b) {
		at := 0
		for at < len(r.b) {
			c, n := utf8.DecodeRune(r.b[at:])
			if c == utf8.RuneError && n == 1 {
				break
			}
			at += n
		}
		r.FailAt(at, "invalid UTF-8")
		return
	}
	for _, no := range []string{"\uFFFE", "\uFFFF"} {
		if at := bytes.Index(r.b, []byte(no)); at >= 0 {
			r.FailAt(at, "unexpected character %U", []rune(no)[0])
			return
		}
	}
	if bytes.HasPrefix(r.b, []byte("\uFEFF")) {
		r.i = len("\uFEFF")
	}
}

// isCharacter reports whether a character reference may name c.
func isCharacter(c rune) bool {
	switch {
	case c < ' ':
		return c == '\t' || c == '\n' || c == '\r'
	case c < 0xD800:
		return true
	}
	return c >= 0xE000 && c <= 0xFFFD || c >= 0x10000 && c <= 0x10FFFF
}

// nameBytes are the ASCII characters of names, colons apart: 1 at the beginning
// and inside, 2 only inside.
var nameBytes = func() (set [utf8.RuneSelf]uint8) {
	for c := 'a'; c <= 'z'; c++ {
		set[c], set[c-'a'+'A'] = 1, 1
	}
	for c := '0'; c <= '9'; c++ {
		set[c] = 2
	}
	set['_'], set['-'], set['.'] = 1, 2, 2
	return set
}()

// isNameRune reports whether a character outside of ASCII may be in a name
// (productions 4 and 4a of XML 1.0).
func isNameRune(c rune, start bool) bool {
	if !start && (c == 0xB7 || c >= 0x300 && c <= 0x36F || c == 0x203F || c == 0x2040) {
		return true
	}
	for _, x := range [...][2]rune{{0xC0, 0xD6}, {0xD8, 0xF6}, {0xF8, 0x2FF}, {0x370, 0x37D}, {0x37F, 0x1FFF}, {0x200C, 0x200D},
		{0x2070, 0x218F}, {0x2C00, 0x2FEF}, {0x3001, 0xD7FF}, {0xF900, 0xFDCF}, {0xFDF0, 0xFFFD}, {0x10000, 0xEFFFF}} {
		if c >= x[0] && c <= x[1] {
			return true
		}
	}
	return false
}

// word returns the end of the name without colons that begins at i; i itself if
// none does.
func (r *Reader) word(i int) int {
	for from := i; i < len(r.b); {
		c := r.b[i]
		if c < utf8.RuneSelf {
			if kind := nameBytes[c]; kind == 0 || kind == 2 && i == from {
				return i
			}
			i++
			continue
		}
		long, n := utf8.DecodeRune(r.b[i:])
		if !isNameRune(long, i == from) {
			return i
		}
		i += n
	}
	return i
}

// name reads a name with at most one prefix. It returns where the local name
// begins and where the name ends; both are 0 if there is none.
func (r *Reader) name() (local, to int) {
	from := r.i
	to = r.word(from)
	local = from
	if to < len(r.b) && r.b[to] == ':' && to > from {
		local = to + 1
		to = r.word(local)
	}
	if to == local {
		r.FailAt(from, "expected a name")
		return 0, 0
	}
	r.i = to
	return local, to
}

// space passes white space and reports whether there was any.
func (r *Reader) space() bool {
	from := r.i
	for r.i < len(r.b) && isSpace(r.b[r.i]) {
		r.i++
	}
	return r.i > from
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

// IsName reports whether text is UTF-8 and a name without a colon (production 4 of
// Namespaces in XML).
func IsName(text string) bool {
	r := Reader{b: []byte(text)}
	return text != "" && utf8.ValidString(text) && r.word(0) == len(text)
}

// Expressible reports whether XML can express text: it is UTF-8 and has only
// characters of XML.
func Expressible(text string) bool {
	for _, c := range text {
		if !isCharacter(c) {
			return false
		}
	}
	return utf8.ValidString(text)
}
