package permify

import (
	"encoding/json"
	"math"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door/permify/basev1"
	"github.com/ostiary/ostiary/door/permify/language"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

func object(e *basev1.Entity) rel.Object { return rel.Object{Type: e.Type, ID: e.Id} }

func subject(s *basev1.Subject) rel.Subject {
	return rel.Subject{Type: s.Type, ID: s.Id, Relation: optionalRelation(s.Relation)}
}

// optionalRelation returns a subject's relation. "..." means none.
func optionalRelation(relation string) string {
	if relation == noRelation {
		return ""
	}
	return relation
}

func tuple(t *basev1.Tuple) rel.Tuple {
	return rel.Tuple{Object: object(t.Entity), Relation: t.Relation, Subject: subject(t.Subject)}
}

func entityMessage(o rel.Object) *basev1.Entity { return &basev1.Entity{Type: o.Type, Id: o.ID} }

func tupleMessage(k rel.Key) *basev1.Tuple {
	return &basev1.Tuple{Entity: entityMessage(k.Object), Relation: k.Relation,
		Subject: &basev1.Subject{Type: k.Subject.Type, Id: k.Subject.ID, Relation: k.Subject.Relation}}
}

// attribute translates an attribute. It fails if the schema lacks the attribute
// or declares another type for its value.
func attribute(a *basev1.Attribute, s *schema.Schema) (rel.Attribute, error) {
	typ, err := attributeType(s, a.Entity.Type, a.Attribute)
	if err != nil {
		return rel.Attribute{}, err
	}
	text, ok, err := valueText(a.Value, typ)
	if err != nil {
		return rel.Attribute{}, err
	}
	if !ok {
		return rel.Attribute{}, codeError(basev1.ErrorCode_ERROR_CODE_ATTRIBUTE_TYPE_MISMATCH)
	}
	return rel.Attribute{Object: object(a.Entity), Name: a.Attribute, Value: text}, nil
}

// attributeType returns the declared type of an entity's attribute.
func attributeType(s *schema.Schema, entity, name string) (expr.Type, error) {
	t, ok := s.Type(entity)
	if !ok {
		return expr.Type{}, codeError(basev1.ErrorCode_ERROR_CODE_ENTITY_DEFINITION_NOT_FOUND)
	}
	typ, ok := t.Attributes[name]
	if !ok {
		return expr.Type{}, codeError(basev1.ErrorCode_ERROR_CODE_ATTRIBUTE_DEFINITION_NOT_FOUND)
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
	case *basev1.BooleanValue:
		data, is, isList = m.Data, expr.Bool, false
	case *basev1.StringValue:
		data, is, isList = m.Data, expr.String, false
	case *basev1.IntegerValue:
		data, is, isList = m.Data, expr.Int, false
	case *basev1.DoubleValue:
		data, is, isList = m.Data, expr.Double, false
	case *basev1.BooleanArrayValue:
		data, is = nonNil(m.Data), expr.Bool
	case *basev1.StringArrayValue:
		data, is = nonNil(m.Data), expr.String
	case *basev1.IntegerArrayValue:
		data, is = nonNil(m.Data), expr.Int
	case *basev1.DoubleArrayValue:
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
		v := &basev1.BooleanValue{}
		m, into = v, &v.Data
	case kind == expr.String && !isList:
		v := &basev1.StringValue{}
		m, into = v, &v.Data
	case kind == expr.Int && !isList:
		v := &basev1.IntegerValue{}
		m, into = v, &v.Data
	case !isList:
		v := &basev1.DoubleValue{}
		m, into = v, &v.Data
	case kind == expr.Bool:
		v := &basev1.BooleanArrayValue{}
		m, into = v, &v.Data
	case kind == expr.String:
		v := &basev1.StringArrayValue{}
		m, into = v, &v.Data
	case kind == expr.Int:
		v := &basev1.IntegerArrayValue{}
		m, into = v, &v.Data
	default:
		v := &basev1.DoubleArrayValue{}
		m, into = v, &v.Data
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return nil, &failure{code: codeOf(basev1.ErrorCode_ERROR_CODE_TYPE_CONVERSATION),
			message: basev1.ErrorCode_ERROR_CODE_TYPE_CONVERSATION.String(), cause: err}
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
func wireType(t language.AttributeType) basev1.AttributeType {
	base, isList := t.List()
	n := map[language.AttributeType]basev1.AttributeType{
		"boolean": basev1.AttributeType_ATTRIBUTE_TYPE_BOOLEAN,
		"string":  basev1.AttributeType_ATTRIBUTE_TYPE_STRING,
		"integer": basev1.AttributeType_ATTRIBUTE_TYPE_INTEGER,
		"double":  basev1.AttributeType_ATTRIBUTE_TYPE_DOUBLE,
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
