package permify

import (
	"strconv"
	"strings"

	"github.com/ostiary/ostiary/door/permify/basev1"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
)

// Lines are tuples and attributes as text: in validation files as they are, in
// bundles with {{.argument}} in the place of names. A line is taken apart
// before its arguments are put in, so that an argument is a part of one name
// and never of the line's structure, whatever it holds.

// ParseTuple reads a tuple: "doc:1#viewer@group:1#member".
func ParseTuple(text string) (rel.Tuple, error) { return parseTuple(text, nil) }

// ParseAttribute reads an attribute and its type: "doc:1$public|boolean:true",
// "org:1$ips|string[]:a,b". A line without a type names an attribute that is to
// be deleted.
func ParseAttribute(text string) (rel.Attribute, expr.Type, error) { return parseAttribute(text, nil) }

// fill puts arguments in the place of {{.name}}, as they are. It knows nothing
// else of templates.
func fill(text string, args map[string]string) (string, error) {
	if !strings.Contains(text, "{{") {
		return text, nil
	}
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "{{")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		inside, after, closed := strings.Cut(rest, "}}")
		name, dotted := strings.CutPrefix(strings.TrimSpace(inside), ".")
		if !closed || !dotted || name == "" {
			return "", invalid("a line may hold {{.argument}}, and no other template: %q", text)
		}
		value, ok := args[name]
		if !ok {
			return "", coded(basev1.ErrorCode_ERROR_CODE_MISSING_ARGUMENT)
		}
		b.WriteString(value)
		text = after
	}
}

// fillAll fills parts in their place.
func fillAll(args map[string]string, parts ...*string) error {
	for _, p := range parts {
		filled, err := fill(*p, args)
		if err != nil {
			return err
		}
		*p = filled
	}
	return nil
}

func parseTuple(text string, args map[string]string) (rel.Tuple, error) {
	var t rel.Tuple
	entity, rest, ok1 := strings.Cut(strings.TrimSpace(text), "#")
	relation, sub, ok2 := strings.Cut(rest, "@")
	sub, subRelation, hasRelation := strings.Cut(sub, "#")
	var ok3, ok4 bool
	t.Object.Type, t.Object.ID, ok3 = strings.Cut(entity, ":")
	t.Subject.Type, t.Subject.ID, ok4 = strings.Cut(sub, ":")
	t.Relation, t.Subject.Relation = relation, subRelation
	if !ok1 || !ok2 || !ok3 || !ok4 || hasRelation && subRelation == "" {
		return t, invalid("malformed relationship %q", text)
	}
	if err := fillAll(args, &t.Object.Type, &t.Object.ID, &t.Relation, &t.Subject.Type, &t.Subject.ID, &t.Subject.Relation); err != nil {
		return t, err
	}
	if err := validTuple(&t); err != nil {
		return t, err
	}
	t.Subject.Relation = plain(t.Subject.Relation)
	return t, nil
}

// splitAttribute takes a line apart and fills its parts; typeName is "" where
// it ends before the type.
func splitAttribute(text string, args map[string]string) (a rel.Attribute, typeName, value string, err error) {
	head, typed, hasType := strings.Cut(strings.TrimSpace(text), "|")
	entity, name, ok1 := strings.Cut(head, "$")
	var ok2 bool
	a.Object.Type, a.Object.ID, ok2 = strings.Cut(entity, ":")
	a.Name = name
	typeName, value, ok3 := strings.Cut(typed, ":")
	if !ok1 || !ok2 || hasType && !ok3 {
		return a, "", "", invalid("malformed attribute %q", text)
	}
	if err = fillAll(args, &a.Object.Type, &a.Object.ID, &a.Name, &typeName, &value); err != nil {
		return a, "", "", err
	}
	if !validName(a.Object.Type) || !validID(a.Object.ID) || !validName(a.Name) {
		return a, "", "", invalid("malformed attribute %q", text)
	}
	return a, typeName, value, nil
}

func parseAttribute(text string, args map[string]string) (rel.Attribute, expr.Type, error) {
	a, typeName, value, err := splitAttribute(text, args)
	if err != nil || typeName == "" {
		return a, expr.Type{}, err
	}
	t, v, ok := parseValue(typeName, value)
	if ok {
		a.Value, err = rel.CanonicalValue(v)
	}
	if !ok || err != nil {
		return a, t, invalid("malformed attribute %q", text)
	}
	return a, t, nil
}

// parseValue reads a value's text.
func parseValue(typeName, text string) (expr.Type, any, bool) {
	base, isList := strings.CutSuffix(typeName, "[]")
	t := expr.Type{Kind: map[string]expr.Kind{"boolean": expr.Bool, "string": expr.String, "integer": expr.Int, "double": expr.Double}[base]}
	if t.Kind == expr.Any {
		return t, nil, false
	}
	if !isList {
		v, ok := parseScalar(t.Kind, text)
		return t, v, ok
	}
	items := []any{}
	for _, item := range strings.Split(text, ",") {
		if text == "" {
			break
		}
		v, ok := parseScalar(t.Kind, item)
		if !ok {
			return t, nil, false
		}
		items = append(items, v)
	}
	return expr.Type{Kind: expr.List, Elem: &t}, items, true
}

func parseScalar(k expr.Kind, text string) (any, bool) {
	switch k {
	case expr.Bool:
		return text == "true", text == "true" || text == "false"
	case expr.Int:
		n, err := strconv.ParseInt(text, 10, 32)
		return n, err == nil
	case expr.Double:
		f, err := strconv.ParseFloat(text, 64)
		return f, err == nil
	}
	return text, true
}

// ParseAttributeMessage reads a line with its type as the protocol's message.
func ParseAttributeMessage(text string) (*basev1.Attribute, error) {
	a, t, err := parseAttribute(text, nil)
	if err != nil {
		return nil, err
	}
	if t.Kind == expr.Any {
		return nil, invalid("malformed attribute %q", text)
	}
	v, err := valueMessage(a.Value, t)
	if err != nil {
		return nil, err
	}
	return &basev1.Attribute{Entity: entityMessage(a.Object), Attribute: a.Name, Value: v}, nil
}
