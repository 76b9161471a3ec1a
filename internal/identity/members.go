package identity

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// Member is a member of a JSON object.
type Member struct {
	Name  string          // name of the member
	Value json.RawMessage // value as JSON text, never empty
}

// Members are the members of a JSON object in their order. Names are unique.
type Members []Member

// ParseMembers reads a JSON object. It fails if text is anything else, or if a
// name occurs twice.
func ParseMembers(text []byte) (Members, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, fmt.Errorf("invalid JSON: expected an object")
	}
	var m Members
	names := map[string]bool{}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, fmt.Errorf("invalid JSON: %w", err)
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, fmt.Errorf("invalid JSON: %w", err)
		}
		if names[name.(string)] {
			return nil, fmt.Errorf("invalid JSON: member %.64q occurs twice", name)
		}
		names[name.(string)] = true
		m = append(m, Member{name.(string), value})
	}
	if _, err := dec.Token(); err != nil {
		return nil, fmt.Errorf("invalid JSON: %w", err)
	}
	if dec.More() {
		return nil, fmt.Errorf("invalid JSON: text after the object")
	}
	return m, nil
}

// Get returns the value of a member. The second result is false if there is none.
func (m Members) Get(name string) (json.RawMessage, bool) {
	i := slices.IndexFunc(m, func(x Member) bool { return x.Name == name })
	if i < 0 {
		return nil, false
	}
	return m[i].Value, true
}

// has returns whether there is a member with the name.
func (m Members) has(name string) bool {
	_, ok := m.Get(name)
	return ok
}

// Text returns a member that is a string. It returns "" for a member that is
// absent or of another type.
func (m Members) Text(name string) (s string) {
	if value, ok := m.Get(name); ok && json.Unmarshal(value, &s) != nil {
		return ""
	}
	return s
}

// Bool returns a member that is true or false, or otherwise fallback.
func (m Members) Bool(name string, fallback bool) bool {
	value, _ := m.Get(name)
	switch string(value) {
	case "true":
		return true
	case "false":
		return false
	}
	return fallback
}

// With returns a copy in which the member has the value, which must be
// serializable as JSON. A new member comes last.
func (m Members) With(name string, value any) Members {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // values are strings, booleans, numbers, or parsed JSON
	}
	m = slices.Clone(m)
	for i := range m {
		if m[i].Name == name {
			m[i].Value = text
			return m
		}
	}
	return append(m, Member{name, text})
}

// Without returns a copy without the members.
func (m Members) Without(names ...string) Members {
	return slices.DeleteFunc(slices.Clone(m), func(x Member) bool { return slices.Contains(names, x.Name) })
}

// Append appends the members to dst as "name":value pairs with commas between
// them.
func (m Members) Append(dst []byte) []byte {
	for i, x := range m {
		if i > 0 {
			dst = append(dst, ',')
		}
		name, _ := json.Marshal(x.Name)
		dst = append(append(append(dst, name...), ':'), x.Value...)
	}
	return dst
}

// MarshalJSON returns the object.
func (m Members) MarshalJSON() ([]byte, error) {
	return append(m.Append([]byte{'{'}), '}'), nil
}

// UnmarshalJSON reads an object.
func (m *Members) UnmarshalJSON(text []byte) (err error) {
	*m, err = ParseMembers(text)
	return err
}

// Join returns the members followed by others. A name that is in both has the
// value of the other.
func (m Members) Join(others Members) Members {
	for _, x := range others {
		m = m.With(x.Name, x.Value)
	}
	return m
}
