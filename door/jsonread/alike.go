package jsonread

import (
	"bytes"
	"unicode/utf8"
)

// Alike is a value that was read, and two strings in it. The items of a list
// are often alike but for these; then Again reads the next one by comparing.
// The zero Alike is like nothing. Use: Begin, read a value with Note behind each
// of the two strings, End.
type Alike struct {
	from, to int     // the value's place; to is 0 for none
	vary     [2]span // what is between the strings' quotes
	noted    int
}

// Begin begins the value that is read next.
func (a *Alike) Begin(r *Reader) {
	r.space()
	*a = Alike{from: r.i}
}

// Note says that the string that was just read may be another one in the next
// value. A nil Alike takes no notes.
func (a *Alike) Note(r *Reader) {
	if a == nil {
		return
	}
	if a.noted < len(a.vary) && r.last.to > 0 {
		a.vary[a.noted] = r.last
	} else {
		a.noted = len(a.vary) // none with escapes, and no third one
	}
	a.noted++
}

// End ends the value, behind its last member.
func (a *Alike) End(r *Reader) {
	if r.err == nil && a.noted == len(a.vary) {
		a.to = r.i
	}
}

// Again reads the next value if it is a's but for the two strings, which it
// returns in their order, and these have no escapes and are ASCII. Otherwise it
// reads nothing.
func (r *Reader) Again(a *Alike) (one, two string, ok bool) {
	if a.to == 0 || r.err != nil {
		return "", "", false
	}
	r.space()
	i, from := r.i, a.from
	var found [len(a.vary)]span
	for k, v := range a.vary {
		same := r.b[from:v.from]
		if !bytes.HasPrefix(r.b[i:], same) {
			return "", "", false
		}
		i += len(same)
		found[k].from = int32(i)
		for i < len(r.b) && varies[r.b[i]] {
			i++
		}
		found[k].to, from = int32(i), int(v.to)
	}
	same := r.b[from:a.to]
	if !bytes.HasPrefix(r.b[i:], same) {
		return "", "", false
	}
	r.i = i + len(same)
	return r.part(found[0]), r.part(found[1]), true
}

// varies are the bytes of a string that need no second look.
var varies = func() (set [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		set[c] = c != '"' && c != '\\'
	}
	return set
}()
