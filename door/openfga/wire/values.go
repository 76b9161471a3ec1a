package wire

import "github.com/ostiary/ostiary/expr"

// values reads a context. A name stands in it once.
func (r *reader) values() expr.Values {
	out := expr.Values{}
	for more := r.open('{'); more; more = r.more('}') {
		name := r.text()
		if r.err == nil && r.peek() != ':' {
			r.unexpected()
		}
		if r.err != nil {
			break
		}
		r.i++
		if _, ok := out[name]; ok {
			r.fail("duplicate map key")
			break
		}
		out[name] = r.value()
	}
	return out
}

// value reads a context's value: nil, bool, float64, string, []any or
// map[string]any, as structpb's AsInterface gives them.
func (r *reader) value() any {
	if r.err != nil {
		return nil
	}
	switch r.peek() {
	case '{':
		return r.values()
	case '[':
		out := []any{}
		for more := r.open('['); more; more = r.more(']') {
			out = append(out, r.value())
		}
		return out
	case '"':
		return r.text()
	case 't', 'f':
		return r.bool()
	case 'n':
		r.literal("null")
		return nil
	}
	return r.float()
}

// ContextSize is the size in bytes of a context in the protocol's binary
// encoding, which its bounds on contexts are about.
func ContextSize(values expr.Values) int {
	n := 0
	for name, v := range values {
		entry := field(len(name)) + field(valueSize(v))
		n += field(entry)
	}
	return n
}

func valueSize(v any) int {
	switch x := v.(type) {
	case float64:
		return 9
	case string:
		return field(len(x))
	case map[string]any:
		return field(ContextSize(x))
	case []any:
		n := 0
		for _, e := range x {
			n += field(valueSize(e))
		}
		return field(n)
	}
	return 2 // null and bool
}

// field is the size of a field of n bytes with its number and length.
func field(n int) int {
	size := 2 + n
	for m := n; m >= 1<<7; m >>= 7 {
		size++
	}
	return size
}
