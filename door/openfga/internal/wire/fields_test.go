package wire

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/ostiary/ostiary/internal/workshop/golden"
)

// fill sets every field of a message, and of the messages in it, to a value of its
// own. Lists have two items.
func fill(m protoreflect.Message, path string) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		name := path + "." + string(f.Name())
		switch {
		case f.IsMap():
			m.Set(f, m.NewField(f))
			entry := m.Mutable(f).Map().NewValue()
			if f.MapValue().Message() != nil {
				if f.MapValue().Message().FullName() == "google.protobuf.Value" {
					entry.Message().Set(entry.Message().Descriptor().Fields().ByName("string_value"), protoreflect.ValueOfString(name))
				} else {
					fill(entry.Message(), name)
				}
			}
			m.Mutable(f).Map().Set(protoreflect.ValueOfString("key").MapKey(), entry)
		case f.IsList() && f.Message() != nil:
			for n := range 2 {
				fill(m.Mutable(f).List().AppendMutable().Message(), fmt.Sprint(name, n))
			}
		case f.Message() != nil:
			fill(m.Mutable(f).Message(), name)
		case f.Kind() == protoreflect.StringKind:
			m.Set(f, protoreflect.ValueOfString(name))
		case f.Kind() == protoreflect.BoolKind:
			m.Set(f, protoreflect.ValueOfBool(true))
		case f.Kind() == protoreflect.Int32Kind:
			m.Set(f, protoreflect.ValueOfInt32(7))
		case f.Kind() == protoreflect.EnumKind:
			m.Set(f, protoreflect.ValueOfEnum(200))
		}
	}
}

// show returns a request as text: each field that is set, with its value.
func show(v any, indent string) string {
	switch v := v.(type) {
	case map[string]any:
		var names []string
		for name := range v {
			names = append(names, name)
		}
		slices.Sort(names)
		var b strings.Builder
		for _, name := range names {
			if text := show(v[name], indent+"\t"); text != "" {
				fmt.Fprintf(&b, "\n%s%s: %s", indent, name, text)
			}
		}
		return b.String()
	case []any:
		var b strings.Builder
		for i, item := range v {
			fmt.Fprintf(&b, "\n%s%d:%s", indent, i, show(item, indent+"\t"))
		}
		return b.String()
	case nil:
		return ""
	}
	if text := fmt.Sprint(v); text != "" && text != "0" && text != "false" {
		return text
	}
	return ""
}

// TestFields reads a request of each call with all fields, by hand and from the
// protocol's message, and compares both with testdata/fields.txt. Then it reads the
// request without each field, and with null, {}, [], "", 0 and -1 for it.
func TestFields(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	for _, c := range calls() {
		m := c.empty()
		fill(m.ProtoReflect(), "")
		body, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if !same(t, c, body) {
			t.Errorf("%s: a request with all fields is refused: %s", c.name, body)
		}
		want := show(alike(c.theirs(m)), "\t")
		fmt.Fprintf(&out, "%s%s\n", c.name, want)
		if c.byHand != nil {
			testByHand(t, c, body, want)
		}
		var value any
		if err := json.Unmarshal(body, &value); err != nil {
			t.Fatal(err)
		}
		for _, other := range variants(value) {
			text, err := json.Marshal(other)
			if err != nil {
				t.Fatal(err)
			}
			same(t, c, text)
		}
		for _, number := range []string{"2147483647", "2147483648", "-2147483648", "-2147483649", "4294967297", "1e2", "1.5", `"5"`} {
			for _, field := range []string{"page_size", "consistency"} {
				same(t, c, []byte(`{"`+field+`":`+number+`}`))
			}
		}
		empty := c.empty()
		if text := show(alike(c.theirs(empty)), ""); text != "" {
			t.Errorf("%s: an empty message is read as %s", c.name, text)
		}
	}
	golden.Equal(t, "testdata/fields.txt", out.String())
}

// testByHand reads a request with all fields by hand, and with one field at a time,
// which has its value or null.
func testByHand(t *testing.T, c call, body []byte, want string) {
	t.Helper()
	if got, err := c.byHand(body); err != nil || show(alike(got), "\t") != want {
		t.Errorf("%s: a request with all fields, read by hand: %v\n%s\nexpected\n%s", c.name, err, show(alike(got), "\t"), want)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		t.Fatal(err)
	}
	for name, value := range fields {
		for _, value := range []string{string(value), "null"} {
			text := `{"` + name + `":` + value + `,"unknown":[{}]}`
			m := c.empty()
			if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal([]byte(text), m); err != nil {
				t.Fatal(err)
			}
			got, err := c.byHand([]byte(text))
			if want := show(alike(c.theirs(m)), ""); err != nil || show(alike(got), "") != want {
				t.Errorf("%s: %s, read by hand: %v\n%s\nexpected\n%s", c.name, text, err, show(alike(got), ""), want)
			}
		}
	}
}

// variants returns copies of a JSON value in which one member, at any depth, is
// missing, comes with an unknown one, or has another value.
func variants(v any) (all []any) {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			with := func(x any) map[string]any {
				other := map[string]any{name: x}
				for n, m := range v {
					if n != name {
						other[n] = m
					}
				}
				return other
			}
			less := with(nil)
			delete(less, name)
			all = append(all, less)
			for _, x := range []any{nil, map[string]any{}, []any{}, "", 0, -1, map[string]any{"unknown": []any{1}}, []any{nil}} {
				all = append(all, with(x))
			}
			for _, x := range variants(member) {
				all = append(all, with(x))
			}
		}
		more := map[string]any{"unknown": map[string]any{"x": []any{1, "y"}}}
		for n, m := range v {
			more[n] = m
		}
		all = append(all, more)
	case []any:
		for i := range v {
			for _, x := range variants(v[i]) {
				other := slices.Clone(v)
				other[i] = x
				all = append(all, other)
			}
		}
	}
	return all
}
