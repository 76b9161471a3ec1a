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

// Limits in bytes. A value of exactly this length is valid; a longer one is
// rejected with [ErrName].
const (
	TypeBytesMax     = 254      // a type, a condition or an attribute
	RelationBytesMax = 200      // a relation
	IDBytesMax       = 1024     // the id of an object or subject
	ContextBytesMax  = 32 << 10 // the stored context of a condition
)

// ErrName is wrapped by every error about a malformed or oversized name, tuple
// or context.
var ErrName = errors.New("invalid name")

// ParseObject reads "type:id". The type ends at the first colon; the id may
// contain more colons, but no '#'. Errors wrap [ErrName].
func ParseObject(s string) (Object, error) {
	typ, id, ok := strings.Cut(s, ":")
	if !ok || typ == "" || id == "" {
		return Object{}, fmt.Errorf("%w: object %q is not type:id", ErrName, s)
	}
	o := Object{typ, id}
	return o, o.Validate()
}

// ParseSubject reads "type:id", "type:*" or "type:id#relation". The type ends at
// the first colon, and the relation begins after the last '#'. Errors wrap
// [ErrName].
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

// Parse reads the text that [Tuple.String] returns. Errors wrap [ErrName].
func Parse(s string) (Tuple, error) {
	key, suffix, _ := strings.Cut(s, " ")
	// An object's id contains no '#' and a relation no '@'. So the first '#' ends
	// the object, and the next '@' ends the relation.
	object, rest, ok := strings.Cut(key, "#")
	if !ok {
		return Tuple{}, fmt.Errorf("%w: tuple %q has no '#': expected object#relation@subject", ErrName, s)
	}
	relation, subject, ok := strings.Cut(rest, "@")
	if !ok {
		return Tuple{}, fmt.Errorf("%w: tuple %q has no '@': expected object#relation@subject", ErrName, s)
	}
	t := Tuple{Relation: relation}
	var err error
	if t.Object, err = ParseObject(object); err != nil {
		return Tuple{}, err
	}
	if t.Subject, err = ParseSubject(subject); err != nil {
		return Tuple{}, err
	}
	if err := t.parseSuffix(suffix); err != nil {
		return Tuple{}, fmt.Errorf("tuple %q: %w", s, err)
	}
	return t, t.Validate()
}

// parseSuffix reads the condition and the expiry of a tuple: the text after its
// key and a space.
func (t *Tuple) parseSuffix(s string) (err error) {
	if condition, ok := strings.CutPrefix(s, "with "); ok {
		if s, err = t.parseCondition(condition); err != nil {
			return err
		}
	} else if s != "" {
		s = " " + s
	}
	if s == "" {
		return nil
	}
	expiry, ok := strings.CutPrefix(s, " until ")
	if !ok {
		return fmt.Errorf("%w: unexpected %q at the end: expected \" with condition\" or \" until time\"", ErrName, s)
	}
	t.Expires, err = ParseExpiry(expiry)
	return err
}

// parseCondition reads "condition" or "condition {context}" and returns the text
// after it.
func (t *Tuple) parseCondition(s string) (rest string, err error) {
	name, after, _ := strings.Cut(s, " ")
	if name == "" {
		return "", fmt.Errorf("%w: %q without a condition: expected its name", ErrName, "with")
	}
	t.Condition = name
	if !strings.HasPrefix(after, "{") {
		if after != "" {
			after = " " + after
		}
		return after, nil
	}
	dec := json.NewDecoder(strings.NewReader(after))
	var raw json.RawMessage
	if err := dec.Decode(&raw); err != nil {
		return "", fmt.Errorf("%w: the context is not JSON: %v", ErrName, err)
	}
	t.Context, err = Canonical(raw)
	return after[dec.InputOffset():], err
}

// ParseExpiry reads the time at which a tuple expires, in the format of
// RFC 3339. It rejects a time outside the range of [Time], and the Unix epoch,
// because both would otherwise become an expiry that means "never". Errors wrap
// [ErrName].
func ParseExpiry(s string) (Time, error) {
	at, err := time.Parse(time.RFC3339Nano, s)
	if t := TimeOf(at); err == nil && t != 0 && t.Time().Equal(at) {
		return t, nil
	}
	return 0, fmt.Errorf("%w: expiry %q: expected RFC 3339 within the years 1678 to 2262, for example 2026-01-02T15:04:05Z", ErrName, s)
}

// Validate checks the form of o, which is the same in every schema: both names
// are valid UTF-8, not empty and within their limits. A type contains no ':',
// '#', '@', white space or control character; an id contains no '#', white space
// or control character. Errors wrap [ErrName].
func (o Object) Validate() error {
	if err := name("type", o.Type, TypeBytesMax, ":#@"); err != nil {
		return err
	}
	return name("id", o.ID, IDBytesMax, "#")
}

// Validate checks the form of s, as [Object.Validate] does. A wildcard must not
// have a relation.
func (s Subject) Validate() error {
	if err := s.Object().Validate(); err != nil {
		return err
	}
	if s.Relation == "" {
		return nil
	}
	if s.ID == Wildcard {
		return fmt.Errorf("%w: subject %q is a wildcard and must not have a relation", ErrName, s)
	}
	return name("relation", s.Relation, RelationBytesMax, ":#@")
}

// Validate checks the form of k, as [Object.Validate] does.
func (k Key) Validate() error {
	if err := k.Object.Validate(); err != nil {
		return err
	}
	if err := name("relation", k.Relation, RelationBytesMax, ":#@"); err != nil {
		return err
	}
	return k.Subject.Validate()
}

// Validate checks the form of t: its names, that a context comes with a
// condition, and that the context has at most ContextBytesMax bytes. Errors wrap
// [ErrName].
func (t Tuple) Validate() error {
	if err := t.Key().Validate(); err != nil {
		return err
	}
	if t.Condition == "" {
		if t.Context != "" {
			return fmt.Errorf("%w: tuple %s has a context but no condition", ErrName, t.Key())
		}
		return nil
	}
	if err := name("condition", t.Condition, TypeBytesMax, ":#@"); err != nil {
		return err
	}
	if len(t.Context) > ContextBytesMax {
		return fmt.Errorf("%w: context of tuple %s has %d bytes, the maximum is %d", ErrName, t.Key(), len(t.Context), ContextBytesMax)
	}
	return nil
}

// name checks s, which is called what in errors. forbidden lists the characters
// that s must not contain, besides white space and control characters.
func name(what, s string, bytesMax int, forbidden string) error {
	if s == "" {
		return fmt.Errorf("%w: empty %s", ErrName, what)
	}
	if len(s) > bytesMax {
		return fmt.Errorf("%w: %s has %d bytes, the maximum is %d", ErrName, what, len(s), bytesMax)
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

// Classes of bytes. Most names are accepted by looking at the classes alone.
const (
	blankByte = 1 << iota // white space or a control character
	colonByte
	hashByte
	atByte
	wideByte // not ASCII
)

// byteClass maps each byte to its classes. The other constants are its parts.
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

// wrongName returns the error of a name in which [name] found a byte that may be
// forbidden, or nil if the name is valid.
func wrongName(what, s, forbidden string) error {
	ascii := true
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c <= ' ' || c == 0x7f:
			return fmt.Errorf("%w: %s %q contains white space or a control character", ErrName, what, s)
		case c >= utf8.RuneSelf:
			ascii = false
		case strings.IndexByte(forbidden, c) >= 0:
			return fmt.Errorf("%w: %s %q must not contain %q", ErrName, what, s, c)
		}
	}
	if !ascii && !utf8.ValidString(s) {
		return fmt.Errorf("%w: %s %q is not valid UTF-8", ErrName, what, s)
	}
	return nil
}

// Canonical returns the JSON value raw with sorted keys and without white space,
// so that equal values have equal text. Numbers keep their spelling. An empty
// object becomes "", because an empty context is the same as none. Errors wrap
// [ErrName].
func Canonical(raw []byte) (string, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return "", fmt.Errorf("%w: context is not JSON: %v", ErrName, err)
	}
	if dec.More() {
		return "", fmt.Errorf("%w: unexpected data after the JSON value of a context", ErrName)
	}
	return CanonicalValue(v)
}

// CanonicalValue is like [Canonical] for a decoded value: nil, bool, float64,
// json.Number, string, []any, map[string]any, or any other type that
// encoding/json can encode.
func CanonicalValue(v any) (string, error) {
	if m, ok := v.(map[string]any); ok && len(m) == 0 {
		return "", nil
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil { // encoding/json sorts map keys
		return "", fmt.Errorf("%w: context cannot be written as JSON: %v", ErrName, err)
	}
	return strings.TrimSuffix(buf.String(), "\n"), nil
}
