// Package canonical reads the parts of canonical bytes: formats in which each value
// has exactly one form, so that equal values have equal hashes. Its main type is
// [Reader]. The package knows no format.
package canonical

import "fmt"

// Reader reads canonical bytes from any input. After the first error all of its
// methods return zero values. It is used by one goroutine.
type Reader struct {
	// Text is the input. What the methods return shares its memory.
	Text string
	// At is the index of the next byte.
	At int
	// Err is the first error.
	Err error
	// Damage is the error that Fail wraps.
	Damage error
	// What names the format in errors, for example "entry".
	What string
	// StringMax is the maximum length of a string in bytes.
	StringMax int
}

// Fail sets Err to Damage with a text, unless Err is set.
func (r *Reader) Fail(format string, args ...any) {
	if r.Err == nil {
		r.Err = fmt.Errorf("%w: %s: "+format, append([]any{r.Damage, r.What}, args...)...)
	}
}

// Rest returns the number of bytes that are left.
func (r *Reader) Rest() int { return len(r.Text) - r.At }

// End fails if bytes are left.
func (r *Reader) End() {
	if r.Err == nil && r.At != len(r.Text) {
		r.Fail("unexpected %d bytes after the end", r.Rest())
	}
}

// Take returns the next n bytes.
func (r *Reader) Take(n int) string {
	if r.Err != nil || n > len(r.Text)-r.At {
		r.Fail("unexpected end after %d bytes", len(r.Text))
		return ""
	}
	r.At += n
	return r.Text[r.At-n : r.At]
}

// Byte returns the next byte.
func (r *Reader) Byte() byte {
	if s := r.Take(1); s != "" {
		return s[0]
	}
	return 0
}

// Fixed64 returns the next eight bytes as a number, big endian.
func (r *Reader) Fixed64() uint64 {
	s := r.Take(8)
	if s == "" {
		return 0
	}
	var n uint64
	for i := range 8 {
		n = n<<8 | uint64(s[i])
	}
	return n
}

// Uvarint accepts only the shortest form of a number. Otherwise different bytes
// could be read as the same value.
func (r *Reader) Uvarint() uint64 {
	var n uint64
	for shift := uint(0); shift < 64; shift += 7 {
		c := r.Byte()
		if r.Err != nil {
			return 0
		}
		if shift == 63 && c > 1 || shift > 0 && c == 0 {
			break
		}
		n |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return n
		}
	}
	r.Fail("malformed number that ends before byte %d", r.At)
	return 0
}

// Count returns a number of elements that have at least least bytes each. A number
// that the rest of the input cannot have is damage, so that it causes no large
// allocation.
func (r *Reader) Count(what string, least int) int {
	n := r.Uvarint()
	if r.Err == nil && n > uint64(r.Rest())/uint64(least) {
		r.Fail("%d %s in %d bytes", n, what, r.Rest())
	}
	if r.Err != nil {
		return 0
	}
	return int(n)
}

// String returns a string, which is its length as a uvarint and its bytes.
func (r *Reader) String() string {
	if r.At < len(r.Text) && r.Text[r.At] < 0x80 && r.Err == nil {
		n := int(r.Text[r.At])
		if n < len(r.Text)-r.At {
			r.At += 1 + n
			return r.Text[r.At-n : r.At]
		}
	}
	n := r.Uvarint()
	if n > uint64(r.StringMax) {
		r.Fail("a string has %d bytes, the maximum is %d", n, r.StringMax)
		return ""
	}
	return r.Take(int(n))
}
