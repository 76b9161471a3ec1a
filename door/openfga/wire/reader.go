package wire

import (
	"strings"
	"unicode/utf8"
)

// reader walks over a body once, from its start to its end. The first error
// stays: after it, every method does nothing and every loop ends.
//
// An object is read as
//
//	for seen, more := fields(0), r.open('{'); more; more = r.more('}') {
//		switch r.name() {
//		case "user":
//			if r.once(&seen, 1) { … r.text() }
//		default:
//			r.skip()
//		}
//	}
type reader struct {
	s     string
	i     int
	depth int
	// own makes strings copies, where they would be views of the body.
	own bool
	err error
}

// fields are the fields of a message that were seen.
type fields uint16

func (r *reader) fail(text string) {
	if r.err == nil {
		r.err = syntaxError(r.s, r.i, text)
	}
}

// peek passes blanks and returns the byte that follows, 0 at the end.
func (r *reader) peek() byte {
	for r.i < len(r.s) {
		c := r.s[r.i]
		if c > ' ' || c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return c
		}
		r.i++
	}
	return 0
}

// open enters an object or list; false if it is empty or something else.
func (r *reader) open(bracket byte) bool {
	if r.err != nil {
		return false
	}
	if r.peek() != bracket || r.i == len(r.s) {
		r.unexpected()
		return false
	}
	if r.depth == DepthMax {
		r.err = errDepth()
		return false
	}
	r.i++
	if r.peek() == bracket+2 { // { and }, [ and ] are two apart
		r.i++
		return false
	}
	r.depth++
	return true
}

// more says whether another element follows, and passes what divides them.
func (r *reader) more(bracket byte) bool {
	if r.err != nil {
		return false
	}
	switch c := r.peek(); {
	case c == ',':
		r.i++
		return true
	case c == bracket:
		r.i++
		r.depth--
		return false
	}
	r.unexpected()
	return false
}

// name reads a member's name and the colon.
func (r *reader) name() string {
	own := r.own
	r.own = false // names are compared and forgotten
	s := r.text()
	r.own = own
	if r.err != nil {
		return ""
	}
	if r.peek() != ':' {
		r.unexpected()
		return ""
	}
	r.i++
	return s
}

// once marks a field as seen, which it may be once, and says whether it has a
// value: null is none.
func (r *reader) once(seen *fields, field fields) bool {
	if r.err != nil {
		return false
	}
	if *seen&field != 0 {
		r.fail("duplicate field")
		return false
	}
	*seen |= field
	if r.peek() == 'n' {
		r.literal("null")
		return false
	}
	return true
}

func (r *reader) literal(word string) bool {
	if r.err != nil {
		return false
	}
	if !strings.HasPrefix(r.s[r.i:], word) {
		r.unexpected()
		return false
	}
	r.i += len(word)
	return true
}

func (r *reader) bool() bool {
	if r.err != nil {
		return false
	}
	if r.peek() == 't' {
		return r.literal("true")
	}
	r.literal("false")
	return false
}

func (r *reader) unexpected() {
	if r.i >= len(r.s) {
		r.fail("unexpected end")
		return
	}
	_, n := utf8.DecodeRuneInString(r.s[r.i:])
	r.fail("unexpected " + r.s[r.i:r.i+n])
}

// skip passes a value of any kind, which must be well formed.
func (r *reader) skip() {
	if r.err != nil {
		return
	}
	switch c := r.peek(); c {
	case '{':
		for more := r.open('{'); more; more = r.more('}') {
			r.name()
			r.skip()
		}
	case '[':
		for more := r.open('['); more; more = r.more(']') {
			r.skip()
		}
	case '"':
		own := r.own
		r.own = false
		r.text()
		r.own = own
	case 't', 'f':
		r.bool()
	case 'n':
		r.literal("null")
	default:
		r.number()
	}
}

// end refuses what follows the message.
func (r *reader) end() {
	if r.err == nil && (r.peek() != 0 || r.i < len(r.s)) {
		r.unexpected()
	}
}
