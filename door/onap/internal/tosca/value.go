// Package tosca reads and prints TOSCA service templates as ONAP's policy
// framework uses them: policy types, data types, policies and node templates, as
// JSON and as YAML. Its main types are [Value], a tree of values with their
// places in the text, and [Template], the entities of a service template.
//
// The package checks the form of a template, not its meaning: it never decides
// whether a type exists or whether a property fits its type.
package tosca

import (
	"fmt"
	"strings"
)

// Bounds on a text. One more is refused.
const (
	// DepthMax is how deep maps and lists may nest.
	DepthMax = 64
	// ValuesMax is the number of values in one text, with the maps and lists.
	ValuesMax = 200_000
	// NumberBytesMax is the length of a number, in bytes.
	NumberBytesMax = 300
	// YAMLBytesMax is the largest YAML text, in bytes. The YAML parser takes much
	// more memory than the text.
	YAMLBytesMax = 1 << 20
)

// Kind is the kind of a [Value].
type Kind uint8

// The kinds of values.
const (
	Null   Kind = iota // null, or nothing in YAML
	Bool               // true or false
	Number             // a number, as the text writes it
	String             // a string
	List               // a list
	Map                // a map with names in the order of the text
)

// kindNames are the names of kinds in errors.
var kindNames = [...]string{Null: "null", Bool: "a boolean", Number: "a number", String: "a string", List: "a list", Map: "a map"}

// String returns the name of the kind with its article, for example "a map".
func (k Kind) String() string { return kindNames[k] }

// Position is a place in a text. The zero Position means that there was no text.
type Position struct {
	Line   int // line, from 1
	Column int // column in bytes, from 1
}

// Value is a value of a template. It is read-only after it was read.
type Value struct {
	Kind     Kind     // kind of the value
	Text     string   // text of a string or a number; "true" or "false"
	Items    []Value  // items of a list
	Members  []Member // members of a map, each name once
	Position Position // place of the value
}

// Member is a member of a map.
type Member struct {
	Name     string   // name of the member
	Value    Value    // its value
	Position Position // place of the name
}

// Error is an error in a text, with its place.
type Error struct {
	Position Position // place; zero if the text has none
	Text     string   // what is wrong and what was expected
}

// Error returns the place and the text.
func (e *Error) Error() string {
	if e.Position == (Position{}) {
		return e.Text
	}
	return fmt.Sprintf("line %d, column %d: %s", e.Position.Line, e.Position.Column, e.Text)
}

// errorAt returns an error with a place.
func errorAt(at Position, format string, args ...any) error {
	return &Error{at, fmt.Sprintf(format, args...)}
}

// NewString returns a string value.
func NewString(s string) Value { return Value{Kind: String, Text: s} }

// NewMap returns a map with the members.
func NewMap(members ...Member) Value { return Value{Kind: Map, Members: members} }

// Get returns the member of a map with that name, or nil. The result is nil for
// other kinds, too.
func (v *Value) Get(name string) *Value {
	if v == nil || v.Kind != Map {
		return nil
	}
	for i := range v.Members {
		if v.Members[i].Name == name {
			return &v.Members[i].Value
		}
	}
	return nil
}

// Scalar returns the text of a string, a number or a boolean, and "" for
// everything else.
func (v *Value) Scalar() string {
	if v == nil || v.Kind < Bool || v.Kind > String {
		return ""
	}
	return v.Text
}

// With returns a copy of a map in which the member has the value. It replaces a
// member of that name and appends a new one. The other members are shared.
func (v *Value) With(name string, value Value) Value {
	out := *v
	out.Kind = Map
	out.Members = append([]Member(nil), v.Members...)
	for i := range out.Members {
		if out.Members[i].Name == name {
			out.Members[i].Value = value
			return out
		}
	}
	out.Members = append(out.Members, Member{Name: name, Value: value})
	return out
}

// Equal reports whether two values are equal. The order of members and the
// places do not matter; numbers are equal if their texts are.
func Equal(a, b *Value) bool {
	if a.Kind != b.Kind || a.Text != b.Text || len(a.Items) != len(b.Items) || len(a.Members) != len(b.Members) {
		return false
	}
	for i := range a.Items {
		if !Equal(&a.Items[i], &b.Items[i]) {
			return false
		}
	}
	if len(a.Members) == 0 {
		return true
	}
	others := make(map[string]*Value, len(b.Members))
	for i := range b.Members {
		others[b.Members[i].Name] = &b.Members[i].Value
	}
	for i := range a.Members {
		other := others[a.Members[i].Name]
		if other == nil || !Equal(&a.Members[i].Value, other) {
			return false
		}
	}
	return true
}

// shown returns a text for an error, cut to a sane length.
func shown(s string) string {
	const bytesMax = 80
	if len(s) > bytesMax {
		return fmt.Sprintf("%q…", strings.ToValidUTF8(s[:bytesMax], ""))
	}
	return fmt.Sprintf("%q", s)
}
