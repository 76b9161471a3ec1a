package literal

import (
	"maps"
	"slices"
	"strings"

	"github.com/ostiary/ostiary/internal/tool/quote"
	"github.com/ostiary/ostiary/internal/tool/xmlread"
	"github.com/ostiary/ostiary/policy/value"
)

// Namespace is the XML namespace of XACML 3.0.
const Namespace = "urn:oasis:names:tc:xacml:3.0:core:schema:wd-17"

// ReadXML reads an AttributeValue element (section 5.31) that r just went to. It
// returns the zero Value and makes r fail if the element is malformed.
func ReadXML(r *xmlread.Reader) value.Value {
	var uri, category string
	r.OpenFields(xmlread.Field{Name: "DataType", To: &uri}, xmlread.Field{Name: "XPathCategory", To: &category, Optional: true})
	return ReadXMLText(r, uri, category)
}

// ReadXMLText reads the text of an element whose DataType and XPathCategory have
// been read; category is "" if there is none. It returns the zero Value and makes
// r fail if the text is not of the type.
func ReadXMLText(r *xmlread.Reader, uri, category string) value.Value {
	at := r.Offset()
	t, ok := value.ParseType(uri)
	var spaces map[string]string
	switch {
	case !ok:
		r.Fail("unknown data type %q: expected a type of XACML 3.0, for example %q", short(uri), value.String.URI())
	case t == value.XPathExpression && category == "":
		r.Fail("element %s has no attribute XPathCategory: an xpathExpression needs one", r.Name())
	case t == value.XPathExpression:
		spaces = r.Namespaces()
	case category != "":
		r.Fail("unexpected attribute XPathCategory: only an xpathExpression has one")
	}
	text := r.Text()
	if r.Failed() {
		return value.Value{}
	}
	if t == value.XPathExpression {
		return value.NewXPath(value.XPath{Category: category, Path: text, Namespaces: Prefixes(spaces, text)})
	}
	v, err := value.Parse(t, text)
	if err != nil {
		r.FailAt(at, "%v", err)
	}
	return v
}

// Prefixes returns the namespaces that an expression of XPath 1.0 can use: those
// whose prefix and a colon are in it. It changes spaces, and returns nil instead
// of an empty map.
func Prefixes(spaces map[string]string, path string) map[string]string {
	maps.DeleteFunc(spaces, func(prefix, _ string) bool { return prefix == "" || !strings.Contains(path, prefix+":") })
	if len(spaces) == 0 {
		return nil
	}
	return spaces
}

// ReadXMLBoolean returns the value of an attribute of type xs:boolean. It makes r
// fail if text is none.
func ReadXMLBoolean(r *xmlread.Reader, name, text string) bool {
	switch text {
	case "false", "0":
		return false
	case "true", "1":
		return true
	}
	r.Fail("invalid %s %q: expected true or false", name, short(text))
	return false
}

// AppendXMLAttributes appends the XML attributes of a value: its DataType, and for
// an xpathExpression its XPathCategory and namespaces.
func AppendXMLAttributes(dst []byte, v value.Value) []byte {
	dst = append(append(append(dst, ` DataType="`...), v.Type().URI()...), '"')
	x, ok := v.XPath()
	if !ok {
		return dst
	}
	dst = append(xmlread.AppendAttribute(append(dst, ` XPathCategory="`...), x.Category), '"')
	return AppendXMLNamespaces(dst, x.Namespaces)
}

// AppendXMLNamespaces appends namespace declarations, sorted by prefix. A prefix
// that is not a name is left out.
func AppendXMLNamespaces(dst []byte, spaces map[string]string) []byte {
	for _, prefix := range slices.Sorted(maps.Keys(spaces)) {
		if xmlread.IsName(prefix) {
			dst = append(append(append(dst, " xmlns:"...), prefix...), `="`...)
			dst = append(xmlread.AppendAttribute(dst, spaces[prefix]), '"')
		}
	}
	return dst
}

// short cuts a text for an error.
func short(text string) string { return quote.Of(text, 100) }
