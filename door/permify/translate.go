package permify

import (
	"encoding/json"
	"math"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door/permify/language"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/permifypb"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

func object(e *permifypb.Entity) rel.Object { return rel.Object{Type: e.Type, ID: e.Id} }

func subject(s *permifypb.Subject) rel.Subject {
	return rel.Subject{Type: s.Type, ID: s.Id, Relation: optionalRelation(s.Relation)}
}

// optionalRelation returns a subject's relation. "..." means none.
func optionalRelation(relation string) string {
	if relation == noRelation {
		return ""
	}
	return relation
}

func tuple(t *permifypb.Tuple) rel.Tuple {
	return rel.Tuple{Object: object(t.Entity), Relation: t.Relation, Subject: subject(t.Subject)}
}

func entityMessage(o rel.Object) *permifypb.Entity { return &permifypb.Entity{Type: o.Type, Id: o.ID} }

func tupleMessage(k rel.Key) *permifypb.Tuple {
	return &permifypb.Tuple{Entity: entityMessage(k.Object), Relation: k.Relation,
		Subject: &permifypb.Subject{Type: k.Subject.Type, Id: k.Subject.ID, Relation: k.Subject.Relation}}
}

// attribute translates an attribute. It fails if the schema lacks the attribute
// or declares another type for its value.
func attribute(a *permifypb.Attribute, s *schema.Schema) (rel.Attribute, error) {
	typ, err := attributeType(s, a.Entity.Type, a.Attribute)
	if err != nil {
		return rel.Attribute{}, err
	}
	text, ok, err := valueText(a.Value, typ)
	if err != nil {
		return rel.Attribute{}, err
	}
	if !ok {
		return rel.Attribute{}, codeError(permifypb.ErrorCode_ERROR_CODE_ATTRIBUTE_TYPE_MISMATCH)
	}
	return rel.Attribute{Object: object(a.Entity), Name: a.Attribute, Value: text}, nil
}

// attributeType returns the declared type of an entity's attribute.
func attributeType(s *schema.Schema, entity, name string) (expr.Type, error) {
	t, ok := s.Type(entity)
	if !ok {
		return expr.Type{}, codeError(permifypb.ErrorCode_ERROR_CODE_ENTITY_DEFINITION_NOT_FOUND)
	}
	typ, ok := t.Attributes[name]
	if !ok {
		return expr.Type{}, codeError(permifypb.ErrorCode_ERROR_CODE_ATTRIBUTE_DEFINITION_NOT_FOUND)
	}
	return typ, nil
}

// elementKind returns the kind of a type or, for a list, of its elements.
func elementKind(t expr.Type) (kind expr.Kind, isList bool) {
	if t.Kind == expr.List {
		return t.Elem.Kind, true
	}
	return t.Kind, false
}

// valueText returns a value as canonical JSON. ok is false if its type is not
// t.
func valueText(v *anypb.Any, t expr.Type) (text string, ok bool, err error) {
	m, err := v.UnmarshalNew()
	if err != nil {
		return "", false, invalidArgument("invalid Attribute.Value: %q is not the type of an attribute's value", v.GetTypeUrl())
	}
	var data any
	var is expr.Kind
	isList := true
	switch m := m.(type) {
	case *permifypb.BooleanValue:
		data, is, isList = m.Data, expr.Bool, false
	case *permifypb.StringValue:
		data, is, isList = m.Data, expr.String, false
	case *permifypb.IntegerValue:
		data, is, isList = m.Data, expr.Int, false
	case *permifypb.DoubleValue:
		data, is, isList = m.Data, expr.Double, false
	case *permifypb.BooleanArrayValue:
		data, is = nonNil(m.Data), expr.Bool
	case *permifypb.StringArrayValue:
		data, is = nonNil(m.Data), expr.String
	case *permifypb.IntegerArrayValue:
		data, is = nonNil(m.Data), expr.Int
	case *permifypb.DoubleArrayValue:
		data, is = nonNil(m.Data), expr.Double
	default:
		return "", false, invalidArgument("invalid Attribute.Value: %q is not the type of an attribute's value", v.GetTypeUrl())
	}
	if kind, wantList := elementKind(t); kind != is || wantList != isList {
		return "", false, nil
	}
	text, err = rel.CanonicalValue(data)
	if err != nil {
		return "", false, invalidArgument("invalid Attribute.Value: the number is not finite")
	}
	return text, true, nil
}

// nonNil returns l, or an empty list instead of nil, which would be JSON null.
func nonNil[T any](l []T) []T {
	if l == nil {
		return []T{}
	}
	return l
}

// storedValue translates a stored value. If the schema is nil or no longer has
// the attribute, the type is guessed from the value.
func storedValue(text string, s *schema.Schema, entity, name string) (*anypb.Any, error) {
	if s != nil {
		if typ, err := attributeType(s, entity, name); err == nil {
			return valueMessage(text, typ)
		}
	}
	return valueMessage(text, guessType(text))
}

// valueMessage translates a value of type t from canonical JSON. It fails if
// the value has another type.
func valueMessage(text string, t expr.Type) (*anypb.Any, error) {
	var m proto.Message
	var into any
	switch kind, isList := elementKind(t); {
	case kind == expr.Bool && !isList:
		v := &permifypb.BooleanValue{}
		m, into = v, &v.Data
	case kind == expr.String && !isList:
		v := &permifypb.StringValue{}
		m, into = v, &v.Data
	case kind == expr.Int && !isList:
		v := &permifypb.IntegerValue{}
		m, into = v, &v.Data
	case !isList:
		v := &permifypb.DoubleValue{}
		m, into = v, &v.Data
	case kind == expr.Bool:
		v := &permifypb.BooleanArrayValue{}
		m, into = v, &v.Data
	case kind == expr.String:
		v := &permifypb.StringArrayValue{}
		m, into = v, &v.Data
	case kind == expr.Int:
		v := &permifypb.IntegerArrayValue{}
		m, into = v, &v.Data
	default:
		v := &permifypb.DoubleArrayValue{}
		m, into = v, &v.Data
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return nil, &failure{code: codeOf(permifypb.ErrorCode_ERROR_CODE_TYPE_CONVERSATION),
			message: permifypb.ErrorCode_ERROR_CODE_TYPE_CONVERSATION.String(), cause: err}
	}
	return anypb.New(m)
}

// guessType returns the type that fits a value best.
func guessType(text string) expr.Type {
	if strings.HasPrefix(text, "[") {
		elem := expr.Type{Kind: expr.String}
		if rest := strings.TrimPrefix(text, "["); rest != "]" && rest != "" {
			elem = guessType(rest)
		}
		return expr.Type{Kind: expr.List, Elem: &elem}
	}
	switch {
	case strings.HasPrefix(text, "t"), strings.HasPrefix(text, "f"):
		return expr.Type{Kind: expr.Bool}
	case strings.HasPrefix(text, `"`):
		return expr.Type{Kind: expr.String}
	case strings.ContainsAny(text, ".eE"):
		return expr.Type{Kind: expr.Double}
	}
	return expr.Type{Kind: expr.Int}
}

// wireType translates an attribute's type.
func wireType(t language.AttributeType) permifypb.AttributeType {
	base, isList := t.List()
	n := map[language.AttributeType]permifypb.AttributeType{
		"boolean": permifypb.AttributeType_ATTRIBUTE_TYPE_BOOLEAN,
		"string":  permifypb.AttributeType_ATTRIBUTE_TYPE_STRING,
		"integer": permifypb.AttributeType_ATTRIBUTE_TYPE_INTEGER,
		"double":  permifypb.AttributeType_ATTRIBUTE_TYPE_DOUBLE,
	}[base]
	if isList {
		n++ // each list type follows the type of its elements
	}
	return n
}

// boundDepth returns the engine's bounds for a request's depth.
func boundDepth(depth int32) authz.QuestionBounds {
	return authz.QuestionBounds{Depth: int(min(int64(depth), math.MaxInt32))}
}
