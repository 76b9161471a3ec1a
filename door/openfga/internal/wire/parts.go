package wire

import (
	"strconv"
	"strings"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/tool/jsonread"
)

// readString reads a string or null, which leaves to as it is.
func readString(in *jsonread.Reader, to *string) {
	if !in.Null() {
		*to = in.String()
	}
}

// readOwn is like readString, but returns a copy that is independent of the body.
func readOwn(in *jsonread.Reader, to *string) {
	if !in.Null() {
		*to = strings.Clone(in.String())
	}
}

// readKey reads a tuple without a condition, or null. It reports whether there
// is a tuple.
func readKey(in *jsonread.Reader, to *Key) bool {
	if in.Null() {
		return false
	}
	for in.Object(); in.Field(); {
		switch string(in.Name()) {
		case "user":
			readString(in, &to.User)
		case "relation":
			readString(in, &to.Relation)
		case "object":
			readString(in, &to.Object)
		default:
			in.Discard()
		}
	}
	return true
}

// readPair reads a message of a type and one other string.
func readPair(in *jsonread.Reader, other string, typ, to *string) {
	for in.Object(); in.Field(); {
		switch string(in.Name()) {
		case "type":
			readString(in, typ)
		case other:
			readString(in, to)
		default:
			in.Discard()
		}
	}
}

// readContextual reads the message around contextual tuples, or null.
func readContextual(in *jsonread.Reader, to *[]Tuple) {
	if in.Null() {
		return
	}
	for in.Object(); in.Field(); {
		if string(in.Name()) != "tuple_keys" {
			in.Discard()
		} else if !in.Null() {
			readTuples(in, to)
		}
	}
}

// readTuples reads a list of tuples. Their strings have their own memory: what
// remembers a tuple then does not keep the whole body.
func readTuples(in *jsonread.Reader, to *[]Tuple) {
	for in.Array(); in.Item(); {
		*to = append(*to, Tuple{})
		readTuple(in, &(*to)[len(*to)-1], true)
	}
}

// readTuple reads a tuple. A condition is an unknown member unless conditional is
// set.
func readTuple(in *jsonread.Reader, to *Tuple, conditional bool) {
	for in.Object(); in.Field(); {
		switch name := string(in.Name()); {
		case name == "user":
			readOwn(in, &to.User)
		case name == "relation":
			readOwn(in, &to.Relation)
		case name == "object":
			readOwn(in, &to.Object)
		case name == "condition" && conditional:
			if !in.Null() {
				to.Condition = &Condition{}
				readCondition(in, to.Condition)
			}
		default:
			in.Discard()
		}
	}
}

func readCondition(in *jsonread.Reader, to *Condition) {
	for in.Object(); in.Field(); {
		switch string(in.Name()) {
		case "name":
			readOwn(in, &to.Name)
		case "context":
			readContext(in, &to.Context)
		default:
			in.Discard()
		}
	}
}

// readContext reads a context, or null. Its strings have their own memory.
func readContext(in *jsonread.Reader, to *expr.Values) {
	if !in.Null() {
		*to = readValues(in)
	}
}

func readValues(in *jsonread.Reader) expr.Values {
	out := expr.Values{}
	in.Object()
	for name, ok := in.Entry(); ok; name, ok = in.Entry() {
		if _, twice := out[name]; twice {
			in.Fail("duplicate map key")
			break
		}
		out[strings.Clone(name)] = readValue(in)
	}
	return out
}

// readValue reads a context's value: nil, bool, float64, string, []any or
// map[string]any, as structpb's AsInterface returns them.
func readValue(in *jsonread.Reader) any {
	switch in.Kind() {
	case '{':
		return readValues(in)
	case '[':
		out := []any{}
		for in.Array(); in.Item(); {
			out = append(out, readValue(in))
		}
		return out
	case '"':
		return strings.Clone(in.String())
	case 't', 'f':
		return in.Bool()
	case 'n':
		if in.Null() {
			return nil
		}
	}
	return in.Float()
}

// readConsistency reads the enum, or null. An unknown name means "unspecified";
// an unknown number is kept.
func readConsistency(in *jsonread.Reader, to *int32) {
	switch {
	case in.Null():
	case in.Kind() != '"':
		n, err := strconv.ParseInt(in.Number().String(), 10, 32)
		if err != nil {
			in.Fail("expected a number without fraction and exponent")
		}
		*to = int32(n)
	default:
		switch in.String() {
		case "MINIMIZE_LATENCY":
			*to = ConsistencyMinimizeLatency
		case "HIGHER_CONSISTENCY":
			*to = ConsistencyHigher
		}
	}
}
