package jsonread

import (
	"bytes"
	"unicode/utf8"
)

// Alike remembers a value that was read, and two strings in it. The items of a
// list are often equal but for two strings; [Reader.Again] then reads the next
// item by comparing it with the remembered one. To remember a value: call
// [Alike.Begin], read the value and call [Alike.Note] after each of the two
// strings, call [Alike.End]. The zero Alike remembers nothing.
type Alike struct {
	from, to int     // the value's position; to is 0 if no value is remembered
	vary     [2]span // between the quotes of the two strings
	noted    int     // strings noted so far
}

// Begin starts with the value that is read next.
func (a *Alike) Begin(r *Reader) {
	r.space()
	*a = Alike{from: r.i}
}

// Note marks the string that was just read as one that may differ in the next
// value. It does nothing for a nil Alike.
func (a *Alike) Note(r *Reader) {
	if a == nil {
		return
	}
	if a.noted < len(a.vary) && r.last.to > 0 {
		a.vary[a.noted] = r.last
	} else {
		a.noted = len(a.vary) // a string with escapes, or a third one: remember nothing
	}
	a.noted++
}

// End ends the value, after its last member.
func (a *Alike) End(r *Reader) {
	if r.err == nil && a.noted == len(a.vary) {
		a.to = r.i
	}
}

// Again reads the next value if it differs from the value that a remembers only
// in the two strings, and if both strings are ASCII without escapes. It returns
// the two strings in their order. Otherwise it reads nothing and ok is false.
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

// varies holds the bytes that need no check in a string.
var varies = func() (set [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		set[c] = c != '"' && c != '\\'
	}
	return set
}()
