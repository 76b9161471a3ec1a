package permify

import (
	"encoding/json"
	"math"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/ostiary/ostiary/door/permify/basev1"
	"github.com/ostiary/ostiary/door/permify/language"
	"github.com/ostiary/ostiary/eval"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

func object(e *basev1.Entity) rel.Object { return rel.Object{Type: e.Type, ID: e.Id} }

func subject(s *basev1.Subject) rel.Subject {
	return rel.Subject{Type: s.Type, ID: s.Id, Relation: plain(s.Relation)}
}

// plain takes "..." for no relation.
func plain(relation string) string {
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

// attribute translates an attribute and checks its value's type against the
// schema.
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
		return rel.Attribute{}, coded(basev1.ErrorCode_ERROR_CODE_ATTRIBUTE_TYPE_MISMATCH)
	}
	return rel.Attribute{Object: object(a.Entity), Name: a.Attribute, Value: text}, nil
}

func attributeType(s *schema.Schema, entity, name string) (expr.Type, error) {
	t, ok := s.Type(entity)
	if !ok {
		return expr.Type{}, coded(basev1.ErrorCode_ERROR_CODE_ENTITY_DEFINITION_NOT_FOUND)
	}
	typ, ok := t.Attributes[name]
	if !ok {
		return expr.Type{}, coded(basev1.ErrorCode_ERROR_CODE_ATTRIBUTE_DEFINITION_NOT_FOUND)
	}
	return typ, nil
}

// scalar is the name of a type in this protocol's words, and whether it is a
// list of it.
func scalar(t expr.Type) (kind expr.Kind, list bool) {
	if t.Kind == expr.List {
		return t.Elem.Kind, true
	}
	return t.Kind, false
}

// valueText returns a value as canonical JSON, and whether it is of the type.
func valueText(v *anypb.Any, t expr.Type) (string, bool, error) {
	m, err := v.UnmarshalNew()
	if err != nil {
		return "", false, invalid("invalid Attribute.Value: %q is no value of an attribute", v.GetTypeUrl())
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
		data, is = list(m.Data), expr.Bool
	case *basev1.StringArrayValue:
		data, is = list(m.Data), expr.String
	case *basev1.IntegerArrayValue:
		data, is = list(m.Data), expr.Int
	case *basev1.DoubleArrayValue:
		data, is = list(m.Data), expr.Double
	default:
		return "", false, invalid("invalid Attribute.Value: %q is no value of an attribute", v.GetTypeUrl())
	}
	if kind, wantList := scalar(t); kind != is || wantList != isList {
		return "", false, nil
	}
	text, err := rel.CanonicalValue(data)
	if err != nil {
		return "", false, invalid("invalid Attribute.Value: a number is not finite")
	}
	return text, true, nil
}

// list makes an empty list a list, not nothing.
func list[T any](l []T) []T {
	if l == nil {
		return []T{}
	}
	return l
}

// value returns a stored value as the protocol has it. Where the schema does
// not know the attribute any more, the value tells its type itself.
func value(text string, s *schema.Schema, entity, name string) (*anypb.Any, error) {
	if s != nil {
		if typ, err := attributeType(s, entity, name); err == nil {
			return valueMessage(text, typ)
		}
	}
	return valueMessage(text, guessed(text))
}

func valueMessage(text string, t expr.Type) (*anypb.Any, error) {
	var m proto.Message
	var into any
	switch kind, isList := scalar(t); {
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

// guessed is the type of a value that nothing else tells of.
func guessed(text string) expr.Type {
	if strings.HasPrefix(text, "[") {
		elem := expr.Type{Kind: expr.String}
		if rest := strings.TrimPrefix(text, "["); rest != "]" && rest != "" {
			elem = guessed(rest)
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

// wireType is a type in this protocol's words.
func wireType(t language.AttributeType) basev1.AttributeType {
	base, isList := t.List()
	n := map[language.AttributeType]basev1.AttributeType{
		"boolean": basev1.AttributeType_ATTRIBUTE_TYPE_BOOLEAN,
		"string":  basev1.AttributeType_ATTRIBUTE_TYPE_STRING,
		"integer": basev1.AttributeType_ATTRIBUTE_TYPE_INTEGER,
		"double":  basev1.AttributeType_ATTRIBUTE_TYPE_DOUBLE,
	}[base]
	if isList {
		n++
	}
	return n
}

// boundDepth is the engine's bound for a depth that was asked for.
func boundDepth(depth int32) eval.Bounds {
	return eval.Bounds{Depth: int(min(int64(depth), math.MaxInt32))}
}
