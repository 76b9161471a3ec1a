package wire

import (
	"strconv"
	"strings"
)

// number passes a number and returns its text.
func (r *reader) number() string {
	if r.err != nil {
		return ""
	}
	r.peek()
	n := numberLen(r.s[r.i:])
	if n == 0 {
		r.unexpected()
		return ""
	}
	r.i += n
	return r.s[r.i-n : r.i]
}

// numberLen is the length of the JSON number that s begins with, 0 if it
// begins with none. What follows the number is not looked at: it cannot follow
// a value, or it can.
func numberLen(s string) int {
	i := 0
	if i < len(s) && s[i] == '-' {
		i++
	}
	switch n := digits(s, i); {
	case n == 0:
		return 0
	case s[i] == '0':
		i++ // a digit after it cannot follow a value
	default:
		i += n
	}
	if i < len(s) && s[i] == '.' {
		n := digits(s, i+1)
		if n == 0 {
			return 0
		}
		i += 1 + n
	}
	if i < len(s) && s[i]|0x20 == 'e' {
		i++
		if i < len(s) && (s[i] == '+' || s[i] == '-') {
			i++
		}
		n := digits(s, i)
		if n == 0 {
			return 0
		}
		i += n
	}
	return i
}

func digits(s string, i int) int {
	n := 0
	for i+n < len(s) && '0' <= s[i+n] && s[i+n] <= '9' {
		n++
	}
	return n
}

func (r *reader) float() float64 {
	f, err := strconv.ParseFloat(r.number(), 64)
	if err != nil {
		r.fail("number out of range")
		return 0
	}
	return f
}

// int32 reads a whole number, which may be written with a fraction or an
// exponent, or as a string.
func (r *reader) int32() int32 {
	var s string
	if r.peek() == '"' {
		s = r.text()
		if r.err == nil && (s == "" || numberLen(s) != len(s)) {
			r.fail("not a whole number")
		}
	} else {
		s = r.number()
	}
	if r.err != nil {
		return 0
	}
	n, ok := wholeInt32(s)
	if !ok {
		r.fail("not a whole number of 32 bits")
	}
	return n
}

// digitsMax bounds a whole number's digits once its exponent is written out.
const digitsMax = 20

// wholeInt32 reads a JSON number that is whole: 5, 5.0, 5e0, 50e-1.
func wholeInt32(s string) (int32, bool) {
	if n, err := strconv.ParseInt(s, 10, 32); err == nil {
		return int32(n), true
	}
	s, negative := strings.CutPrefix(s, "-")
	whole, exponent := s, ""
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		whole, exponent = s[:i], s[i+1:]
	}
	whole, fraction, _ := strings.Cut(whole, ".")
	if fraction = strings.TrimRight(fraction, "0"); whole == "0" {
		whole = ""
	}
	if whole == "" && fraction == "" {
		return 0, true
	}
	shift := int64(0)
	if exponent != "" {
		var err error
		if shift, err = strconv.ParseInt(exponent, 10, 32); err != nil {
			return 0, false
		}
	}
	digits, ok := shifted(whole, fraction, int(shift))
	if !ok {
		return 0, false
	}
	if negative {
		digits = "-" + digits
	}
	n, err := strconv.ParseInt(digits, 10, 32)
	return int32(n), err == nil
}

// shifted moves the point between whole and fraction, and is false where what
// comes out is not whole or too long.
func shifted(whole, fraction string, by int) (string, bool) {
	if by >= 0 {
		if len(fraction) > by || len(whole)+by > digitsMax {
			return "", false
		}
		return whole + fraction + strings.Repeat("0", by-len(fraction)), true
	}
	at := len(whole) + by
	if fraction != "" || at < 0 || strings.Trim(whole[at:], "0") != "" {
		return "", false
	}
	return whole[:at], true
}
