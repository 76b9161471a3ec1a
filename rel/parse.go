package rel

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Bounds on names, in bytes. A name at its bound is accepted, one above it is
// refused by name.
const (
	TypeBytesMax     = 254
	RelationBytesMax = 200
	IDBytesMax       = 1024
	ContextBytesMax  = 32 << 10
)

// ErrName is the kind of every error about a malformed or oversized name.
var ErrName = errors.New("invalid name")

// ParseObject reads "type:id". The type ends at the first colon; the id may
// hold any further colon. A '#' belongs to an id only where no subject
// relation could be meant, so an object's id holds none.
func ParseObject(s string) (Object, error) {
	typ, id, ok := strings.Cut(s, ":")
	if !ok || typ == "" || id == "" {
		return Object{}, fmt.Errorf("%w: object %q is not type:id", ErrName, s)
	}
	o := Object{typ, id}
	return o, o.Validate()
}

// ParseSubject reads "type:id", "type:*" or "type:id#relation". The relation
// begins after the last '#'.
func ParseSubject(s string) (Subject, error) {
	typ, rest, ok := strings.Cut(s, ":")
	if !ok || typ == "" || rest == "" {
		return Subject{}, fmt.Errorf("%w: subject %q is not type:id, type:* or type:id#relation", ErrName, s)
	}
	sub := Subject{Type: typ, ID: rest}
	if i := strings.LastIndexByte(rest, '#'); i >= 0 {
		sub.ID, sub.Relation = rest[:i], rest[i+1:]
		if sub.ID == "" || sub.Relation == "" {
			return Subject{}, fmt.Errorf("%w: subject %q is not type:id#relation", ErrName, s)
		}
	}
	return sub, sub.Validate()
}

// Parse reads what Tuple.String prints.
func Parse(s string) (Tuple, error) {
	head, tail, _ := strings.Cut(s, " ")
	// An object's id holds no '#' and a relation no '@', so the first '#' ends
	// the object and the next '@' the relation.
	hash := strings.IndexByte(head, '#')
	if hash < 0 {
		return Tuple{}, fmt.Errorf("%w: tuple %q has no '#'", ErrName, s)
	}
	at := strings.IndexByte(head[hash:], '@')
	if at < 0 {
		return Tuple{}, fmt.Errorf("%w: tuple %q has no '@' after its relation", ErrName, s)
	}
	at += hash
	var t Tuple
	var err error
	if t.Object, err = ParseObject(head[:hash]); err != nil {
		return Tuple{}, err
	}
	t.Relation = head[hash+1 : at]
	if t.Subject, err = ParseSubject(head[at+1:]); err != nil {
		return Tuple{}, err
	}
	if rest, ok := strings.CutPrefix(tail, "until "); ok {
		tail = " until " + rest
	} else if rest, ok := strings.CutPrefix(tail, "with "); ok {
		name, after, _ := strings.Cut(rest, " ")
		t.Condition, tail = name, ""
		if strings.HasPrefix(after, "{") {
			dec := json.NewDecoder(strings.NewReader(after))
			var raw json.RawMessage
			if err := dec.Decode(&raw); err != nil {
				return Tuple{}, fmt.Errorf("%w: context of %q: %v", ErrName, s, err)
			}
			if t.Context, err = Canonical(raw); err != nil {
				return Tuple{}, err
			}
			tail = after[dec.InputOffset():]
		} else if after != "" {
			tail = " " + after
		}
	}
	if tail != "" {
		when, ok := strings.CutPrefix(tail, " until ")
		if !ok {
			return Tuple{}, fmt.Errorf("%w: tuple %q ends in %q", ErrName, s, tail)
		}
		at, err := ParseExpiry(when)
		if err != nil {
			return Tuple{}, fmt.Errorf("of %q: %w", s, err)
		}
		t.Expires = at
	}
	return t, t.Validate()
}

// ParseExpiry reads when a tuple ends, as RFC 3339 writes it. A time that
// nanoseconds cannot say, or that would mean "never", is refused: no tuple lasts
// for ever because its end was out of range.
func ParseExpiry(s string) (Time, error) {
	at, err := time.Parse(time.RFC3339Nano, s)
	if t := TimeOf(at); err == nil && t != 0 && t.Time().Equal(at) {
		return t, nil
	}
	return 0, fmt.Errorf("%w: expiry %q is not a time (RFC 3339, years 1678 to 2262)", ErrName, s)
}

// Validate checks the form of o: what every store holds, whatever its schema.
// A type has no ':', '#', '@' or white space, an id no '#' or white space.
func (o Object) Validate() error {
	if err := name("type", o.Type, TypeBytesMax, ":#@"); err != nil {
		return err
	}
	return name("id", o.ID, IDBytesMax, "#")
}

// Validate checks the form of s.
func (s Subject) Validate() error {
	if err := s.Object().Validate(); err != nil {
		return err
	}
	if s.Relation == "" {
		return nil
	}
	if s.ID == Wildcard {
		return fmt.Errorf("%w: %q is a wildcard with a relation", ErrName, s)
	}
	return name("relation", s.Relation, RelationBytesMax, ":#@")
}

// Validate checks the form of k.
func (k Key) Validate() error {
	if err := k.Object.Validate(); err != nil {
		return err
	}
	if err := name("relation", k.Relation, RelationBytesMax, ":#@"); err != nil {
		return err
	}
	return k.Subject.Validate()
}

// Validate checks the form of t: its names, that context comes with a
// condition, and that the context is canonical and within its bound.
func (t Tuple) Validate() error {
	if err := t.Key().Validate(); err != nil {
		return err
	}
	if t.Condition == "" {
		if t.Context != "" {
			return fmt.Errorf("%w: %s has a context but no condition", ErrName, t.Key())
		}
		return nil
	}
	if err := name("condition", t.Condition, TypeBytesMax, ":#@"); err != nil {
		return err
	}
	if len(t.Context) > ContextBytesMax {
		return fmt.Errorf("%w: context of %s has %d bytes, the maximum is %d", ErrName, t.Key(), len(t.Context), ContextBytesMax)
	}
	return nil
}

func name(what, s string, bytesMax int, forbidden string) error {
	if s == "" {
		return fmt.Errorf("%w: empty %s", ErrName, what)
	}
	if len(s) > bytesMax {
		return fmt.Errorf("%w: %s of %d bytes, the maximum is %d", ErrName, what, len(s), bytesMax)
	}
	wrong, found := byte(blankByte|wideByte), byte(0)
	for i := 0; i < len(forbidden); i++ {
		wrong |= byteClass[forbidden[i]]
	}
	for i := 0; i < len(s); i++ {
		found |= byteClass[s[i]]
	}
	if found&wrong == 0 {
		return nil
	}
	return wrongName(what, s, forbidden)
}

// Classes of bytes: most names are seen to be good by these alone.
const (
	blankByte = 1 << iota // a blank or control byte
	colonByte
	hashByte
	atByte
	wideByte // not ASCII
)

const (
	blanks8  = "\x01\x01\x01\x01\x01\x01\x01\x01"
	plain8   = "\x00\x00\x00\x00\x00\x00\x00\x00"
	wide8    = "\x10\x10\x10\x10\x10\x10\x10\x10"
	plain31  = plain8 + plain8 + plain8 + "\x00\x00\x00\x00\x00\x00\x00"
	wide32   = wide8 + wide8 + wide8 + wide8
	blanks32 = blanks8 + blanks8 + blanks8 + blanks8

	byteClass = blanks32 + // control bytes
		"\x01\x00\x00\x04\x00\x00\x00\x00" + plain8 + plain8 + "\x00\x00\x02\x00\x00\x00\x00\x00" + // blank, #, :
		"\x08" + plain31 + // @
		plain31 + "\x01" + // DEL
		wide32 + wide32 + wide32 + wide32
)

// wrongName is name for what may be wrong.
func wrongName(what, s, forbidden string) error {
	ascii := true
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c <= ' ' || c == 0x7f:
			return fmt.Errorf("%w: %s %q holds a blank or control byte", ErrName, what, s)
		case c >= utf8.RuneSelf:
			ascii = false
		case strings.IndexByte(forbidden, c) >= 0:
			return fmt.Errorf("%w: %s %q holds %q", ErrName, what, s, c)
		}
	}
	if !ascii && !utf8.ValidString(s) {
		return fmt.Errorf("%w: %s %q is not UTF-8", ErrName, what, s)
	}
	return nil
}

// Canonical returns raw, any JSON value, with sorted keys, no white space and
// numbers as written, so that equal values have equal text. An empty object
// is "" (a context that says nothing is none).
func Canonical(raw []byte) (string, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return "", fmt.Errorf("%w: context: %v", ErrName, err)
	}
	if dec.More() {
		return "", fmt.Errorf("%w: context: more than one JSON value", ErrName)
	}
	return CanonicalValue(v)
}

// CanonicalValue is Canonical for a decoded value (nil, bool, float64,
// json.Number, string, []any, map[string]any, or what encoding/json accepts).
func CanonicalValue(v any) (string, error) {
	if m, ok := v.(map[string]any); ok && len(m) == 0 {
		return "", nil
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil { // encoding/json sorts map keys
		return "", fmt.Errorf("%w: context: %v", ErrName, err)
	}
	return strings.TrimSuffix(buf.String(), "\n"), nil
}
