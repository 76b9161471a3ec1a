package doortest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// kind is the type of a JSON value.
type kind byte

const (
	kindNull kind = iota
	kindBool
	kindNumber
	kindString
	kindArray
	kindObject
)

// value is a JSON value. Unlike a map, it keeps the order of an object's
// members.
type value struct {
	kind kind
	// text is the content of a string, and the JSON text of a number, a boolean
	// or null.
	text string
	// names are the names of an object's members.
	names []string
	// items are an array's items, or the values of an object's members.
	items []*value
}

// depthMax bounds the nesting of a body's values.
const depthMax = 1000

// readValues reads a sequence of JSON values. A duplicate member is an error,
// because two parsers could choose different values for it.
func readValues(text string) (values []*value, err error) {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	for {
		token, err := dec.Token()
		if err == io.EOF {
			return values, nil
		}
		if err != nil {
			return nil, err
		}
		v, err := readValue(dec, token, 0)
		if err != nil {
			return nil, err
		}
		values = append(values, v)
	}
}

// readValue reads the value that begins with token, at the given nesting depth.
func readValue(dec *json.Decoder, token json.Token, depth int) (*value, error) {
	if depth > depthMax {
		return nil, fmt.Errorf("nested deeper than %d levels", depthMax)
	}
	switch t := token.(type) {
	case nil:
		return &value{kind: kindNull, text: "null"}, nil
	case bool:
		return &value{kind: kindBool, text: fmt.Sprint(t)}, nil
	case json.Number:
		return &value{kind: kindNumber, text: t.String()}, nil
	case string:
		return &value{kind: kindString, text: t}, nil
	case json.Delim:
		v := &value{kind: kindArray}
		if t == '{' {
			v.kind = kindObject
		}
		return v, v.readItems(dec, depth)
	}
	return nil, fmt.Errorf("unexpected token %v", token)
}

// readItems reads the items of an array, or the members of an object.
func (v *value) readItems(dec *json.Decoder, depth int) error {
	for {
		token, err := dec.Token()
		if err == io.EOF {
			return io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
		if d, ok := token.(json.Delim); ok && (d == ']' || d == '}') {
			return nil
		}
		if v.kind == kindObject {
			name, _ := token.(string)
			if slices.Contains(v.names, name) {
				return fmt.Errorf("duplicate member %q", name)
			}
			v.names = append(v.names, name)
			if token, err = dec.Token(); err != nil {
				return err
			}
		}
		item, err := readValue(dec, token, depth+1)
		if err != nil {
			return err
		}
		v.items = append(v.items, item)
	}
}

// String formats a value as JSON on one line.
func (v *value) String() string {
	var b strings.Builder
	v.write(&b)
	return b.String()
}

func (v *value) write(b *strings.Builder) {
	switch v.kind {
	case kindString:
		b.WriteString(quote(v.text))
	case kindArray, kindObject:
		brackets := "[]"
		if v.kind == kindObject {
			brackets = "{}"
		}
		b.WriteByte(brackets[0])
		for i, item := range v.items {
			if i > 0 {
				b.WriteString(", ")
			}
			if v.kind == kindObject {
				b.WriteString(quote(v.names[i]) + ": ")
			}
			item.write(b)
		}
		b.WriteByte(brackets[1])
	default:
		b.WriteString(v.text)
	}
}

// quote returns a JSON string. It does not escape HTML characters.
func quote(s string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return `"?"` // a string always encodes
	}
	return strings.TrimSuffix(b.String(), "\n")
}
