package permify

import (
	"strconv"
	"strings"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/permifypb"
	"github.com/ostiary/ostiary/rel"
)

// A line is a tuple or an attribute as text. Validation files use lines as they
// are; lines of bundles may contain {{.argument}} in place of names. A bundle's
// line is split into its parts before the arguments are filled in. So an
// argument is always part of one name, and no value of an argument can change
// the line's structure.

// ParseTuple parses a tuple: "doc:1#viewer@group:1#member". Its errors are
// failures of the protocol.
func ParseTuple(text string) (rel.Tuple, error) { return parseTuple(text, nil) }

// ParseAttribute parses an attribute and its type: "doc:1$public|boolean:true",
// "org:1$ips|string[]:a,b". The type may be left out to name an attribute for
// deletion; the returned type is then [expr.Any].
func ParseAttribute(text string) (rel.Attribute, expr.Type, error) { return parseAttribute(text, nil) }

// fill replaces each {{.name}} in text with the argument of that name. No other
// template syntax is allowed.
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
			return "", invalidArgument("malformed template in %q: expected {{.argument}}", text)
		}
		value, ok := args[name]
		if !ok {
			return "", codeError(permifypb.ErrorCode_ERROR_CODE_MISSING_ARGUMENT)
		}
		b.WriteString(value)
		text = after
	}
}

// fillAll fills each part in place.
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

// parseTuple is ParseTuple with arguments.
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
		return t, invalidArgument("malformed relationship %q", text)
	}
	if err := fillAll(args, &t.Object.Type, &t.Object.ID, &t.Relation, &t.Subject.Type, &t.Subject.ID, &t.Subject.Relation); err != nil {
		return t, err
	}
	if err := validTuple(&t); err != nil {
		return t, err
	}
	t.Subject.Relation = optionalRelation(t.Subject.Relation)
	return t, nil
}

// splitAttribute splits a line about an attribute and fills in its parts.
// typeName is "" if the line has no type.
func splitAttribute(text string, args map[string]string) (a rel.Attribute, typeName, value string, err error) {
	head, typed, hasType := strings.Cut(strings.TrimSpace(text), "|")
	entity, name, ok1 := strings.Cut(head, "$")
	var ok2 bool
	a.Object.Type, a.Object.ID, ok2 = strings.Cut(entity, ":")
	a.Name = name
	typeName, value, ok3 := strings.Cut(typed, ":")
	if !ok1 || !ok2 || hasType && !ok3 {
		return a, "", "", invalidArgument("malformed attribute %q", text)
	}
	if err = fillAll(args, &a.Object.Type, &a.Object.ID, &a.Name, &typeName, &value); err != nil {
		return a, "", "", err
	}
	if hasType && typeName == "" || !validName(a.Object.Type) || !validID(a.Object.ID) || !validName(a.Name) {
		return a, "", "", invalidArgument("malformed attribute %q", text)
	}
	return a, typeName, value, nil
}

// parseAttribute is ParseAttribute with arguments.
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
		return a, t, invalidArgument("malformed attribute %q", text)
	}
	return a, t, nil
}

// parseValue parses a value of the named type. It returns false if the type is
// unknown or the text does not fit it.
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

// parseScalar parses a value that is not a list.
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

// ParseAttributeMessage parses an attribute into the protocol's message. The
// type must be present.
func ParseAttributeMessage(text string) (*permifypb.Attribute, error) {
	a, t, err := parseAttribute(text, nil)
	if err != nil {
		return nil, err
	}
	if t.Kind == expr.Any {
		return nil, invalidArgument("malformed attribute %q", text)
	}
	v, err := valueMessage(a.Value, t)
	if err != nil {
		return nil, err
	}
	return &permifypb.Attribute{Entity: entityMessage(a.Object), Attribute: a.Name, Value: v}, nil
}
