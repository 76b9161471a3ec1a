package wire

import "github.com/ostiary/ostiary/expr"

// ContextSize returns the size of a context in the protocol's binary encoding,
// in bytes. The protocol's limit on contexts counts these.
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

// field returns the size of a field of n bytes with its number and length.
func field(n int) int {
	size := 2 + n
	for m := n; m >= 1<<7; m >>= 7 {
		size++
	}
	return size
}
