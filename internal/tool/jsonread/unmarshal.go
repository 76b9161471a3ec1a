package jsonread

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
)

// Unmarshal reads a text into the value that into points to, as [json.Unmarshal] does,
// but with exact names. It refuses a name that differs from that of a field only in
// case, which encoding/json takes for the field, a name that comes twice in an object,
// and all else that a [Reader] refuses. Members without a field are ignored.
func Unmarshal(text []byte, into any) error { return unmarshal(text, into, false) }

// UnmarshalKnown is like [Unmarshal], and also refuses members without a field.
func UnmarshalKnown(text []byte, into any) error { return unmarshal(text, into, true) }

func unmarshal(text []byte, into any, known bool) error {
	r := New(text)
	r.matchNames(reflect.TypeOf(into), known)
	if err := r.End(); err != nil {
		return err
	}
	err := json.Unmarshal(text, into)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return &Error{Offset: int(wrong.Offset), Path: wrong.Field, Text: "expected " + expected(wrong.Type) + ", got " + wrong.Value}
	}
	return err
}

// expected returns what a value of a type is in JSON.
func expected(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Struct, reflect.Map:
		return "an object"
	}
	return "a number"
}

// matchNames passes a value that will be decoded into the type t.
func (r *Reader) matchNames(t reflect.Type, known bool) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	c := r.peek()
	switch custom := reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()); {
	case custom: // reads the names itself, if it has any
		r.Skip()
	case c == '{' && t.Kind() == reflect.Struct:
		r.matchFields(fieldsOf(t, nil), known)
	case c == '{' && t.Kind() == reflect.Map:
		r.matchMembers(func(string) { r.matchNames(t.Elem(), known) })
	case c == '[' && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array):
		for r.Array(); r.Item(); {
			r.matchNames(t.Elem(), known)
		}
	default:
		r.Skip()
	}
}

// matchFields passes an object that will be decoded into a struct with these fields.
func (r *Reader) matchFields(fields map[string]reflect.Type, known bool) {
	r.matchMembers(func(name string) {
		if t, exact := fields[name]; exact {
			r.matchNames(t, known)
			return
		}
		for field := range fields {
			if strings.EqualFold(name, field) {
				r.Fail("unknown member: expected " + field + ", in this case")
			}
		}
		if known {
			r.Unknown()
		}
		r.Skip()
	})
}

// matchMembers passes an object. read reads the value of each member.
func (r *Reader) matchMembers(read func(name string)) {
	seen := map[string]bool{}
	r.Object()
	for name, ok := r.Entry(); ok; name, ok = r.Entry() {
		if seen[name] {
			r.Fail("duplicate member")
		}
		seen[name] = true
		read(name)
	}
}

// fieldsOf returns the types of the fields of a struct, by their names in JSON. It adds
// them to into, unless that is nil.
func fieldsOf(t reflect.Type, into map[string]reflect.Type) map[string]reflect.Type {
	if into == nil {
		into = map[string]reflect.Type{}
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch {
		case f.Tag.Get("json") == "-":
		case f.Anonymous && name == "" && inner.Kind() == reflect.Struct:
			fieldsOf(inner, into)
		case !f.IsExported():
		case name == "":
			into[f.Name] = f.Type
		default:
			into[name] = f.Type
		}
	}
	return into
}
