package literal

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/ostiary/ostiary/internal/tool/jsonread"
	"github.com/ostiary/ostiary/policy/value"
)

// Raw is a value as it is in a JSON text, before its data type is known. The zero
// Raw is none.
type Raw struct {
	Kind Kind        // kind of the value in JSON
	Text string      // text of a string or a number, "true" or "false"
	Path value.XPath // the value, if Kind is PathKind
}

// Kind is the kind of a value in JSON.
type Kind uint8

// The kinds.
const (
	StringKind  Kind = iota + 1 // a string
	BooleanKind                 // true or false
	IntegerKind                 // a number without a fraction and an exponent
	DoubleKind                  // another number
	PathKind                    // an object with an XPath
)

// ReadJSON reads a value that is not an array. Its error makes r fail. long
// returns the id of a category that may be given by its short name.
func ReadJSON(r *jsonread.Reader, long func(string) string) Raw {
	switch c := r.Kind(); {
	case c == '"':
		return Raw{Kind: StringKind, Text: r.String()}
	case c == 't' || c == 'f':
		if r.Bool() {
			return Raw{Kind: BooleanKind, Text: "true"}
		}
		return Raw{Kind: BooleanKind, Text: "false"}
	case c == '{':
		return Raw{Kind: PathKind, Path: readPath(r, long)}
	case c == '-' || c >= '0' && c <= '9':
		text := string(r.Number())
		for i := range text {
			if text[i] == '.' || text[i] == 'e' || text[i] == 'E' {
				return Raw{Kind: DoubleKind, Text: text}
			}
		}
		return Raw{Kind: IntegerKind, Text: text}
	}
	r.Fail("expected a string, a number, true, false or an object with an XPath")
	return Raw{}
}

// readPath reads the object of an xpathExpression (section 4.2.4.1 of the JSON
// profile).
func readPath(r *jsonread.Reader, long func(string) string) value.XPath {
	var out value.XPath
	var category, path bool
	for r.Object(); r.Field(); {
		switch string(r.Name()) {
		case "XPathCategory":
			out.Category, category = long(r.String()), true
		case "XPath":
			out.Path, path = r.String(), true
		case "Namespaces":
			out.Namespaces = ReadJSONNamespaces(r)
		default:
			r.Unknown()
		}
	}
	if !category || !path {
		r.Fail("an object without XPathCategory or XPath: expected both")
	}
	out.Namespaces = Prefixes(out.Namespaces, out.Path)
	return out
}

// ReadJSONNamespaces reads an array of namespaces. One without a prefix is the
// default namespace, which XPath 1.0 does not use.
func ReadJSONNamespaces(r *jsonread.Reader) map[string]string {
	out := map[string]string{}
	for r.Array(); r.Item(); {
		var prefix, uri string
		for r.Object(); r.Field(); {
			switch string(r.Name()) {
			case "Prefix":
				prefix = r.String()
			case "Namespace":
				uri = r.String()
			default:
				r.Unknown()
			}
		}
		switch _, twice := out[prefix]; {
		case uri == "":
			r.Fail("a namespace without Namespace: expected its URI")
		case twice:
			r.Fail("a prefix with two namespaces: expected one")
		}
		out[prefix] = uri
	}
	return out
}

// Type returns the data type of a value whose text does not name one (section
// 3.3.1 of the JSON profile). It returns 0 for the zero Raw.
func (v Raw) Type() value.Type {
	return [...]value.Type{StringKind: value.String, BooleanKind: value.Boolean, IntegerKind: value.Integer,
		DoubleKind: value.Double, PathKind: value.XPathExpression}[v.Kind]
}

// Value returns the value of a data type. It makes r fail and returns the zero
// Value if the value is not of the type.
func (v Raw) Value(r *jsonread.Reader, t value.Type) value.Value {
	switch {
	case v.Kind == PathKind && t == value.XPathExpression:
		return value.NewXPath(v.Path)
	case v.Kind == PathKind:
		r.Fail("unexpected object: only an xpathExpression is one")
		return value.Value{}
	case t == value.XPathExpression:
		r.Fail("invalid xpathExpression: expected an object with XPathCategory and XPath")
		return value.Value{}
	}
	out, err := value.Parse(t, v.Text)
	if err != nil {
		r.Fail(err.Error())
	}
	return out
}

// ParseType returns the data type with a short name or an identifier.
func ParseType(name string) (value.Type, bool) {
	if t, ok := value.ParseShortType(name); ok {
		return t, true
	}
	return value.ParseType(name)
}

// AppendJSON appends a value without its data type. A number whose text JSON
// cannot express, for example INF, is a string.
func AppendJSON(dst []byte, v value.Value) []byte {
	text := v.Text()
	switch v.Type() {
	case value.Boolean:
		if text == "true" || text == "false" {
			return append(dst, text...)
		}
	case value.Integer, value.Double:
		if json.Valid([]byte(text)) {
			return append(dst, text...)
		}
	case value.XPathExpression:
		return appendPath(dst, v)
	}
	return jsonread.AppendString(dst, text)
}

func appendPath(dst []byte, v value.Value) []byte {
	x, _ := v.XPath()
	dst = jsonread.AppendString(append(dst, `{"XPathCategory":`...), x.Category)
	if len(x.Namespaces) > 0 {
		dst = AppendJSONNamespaces(append(dst, `,"Namespaces":`...), x.Namespaces)
	}
	return append(jsonread.AppendString(append(dst, `,"XPath":`...), x.Path), '}')
}

// AppendJSONNamespaces appends namespaces as an array, sorted by prefix.
func AppendJSONNamespaces(dst []byte, spaces map[string]string) []byte {
	dst = append(dst, '[')
	for i, prefix := range slices.Sorted(maps.Keys(spaces)) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = jsonread.AppendString(append(dst, `{"Prefix":`...), prefix)
		dst = append(jsonread.AppendString(append(dst, `,"Namespace":`...), spaces[prefix]), '}')
	}
	return append(dst, ']')
}
