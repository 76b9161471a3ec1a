// Package admit checks tuples, attributes and contexts against a compiled
// schema: [Tuple], [Context], [AttributeKey] and [AttributeValue]. It never
// looks at stored data.
package admit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"net/netip"
	"strconv"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/engine/eval"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// Tuple reports why the schema does not admit a stored tuple: its type
// restrictions, its condition's parameters, a wildcard as object, or a tuple
// that is true without being written. It returns nil if the schema admits it.
func Tuple(s *schema.Schema, t *rel.Tuple) error {
	if err := eval.Admit(s, t); err != nil {
		return err
	}
	if t.Object.ID == rel.Wildcard && !s.Options.StarIsOrdinary {
		return fmt.Errorf("%w: %s: the object is a wildcard, expected an id", authz.ErrInvalidTuple, t.Key())
	}
	if t.Subject.Relation == t.Relation && t.Subject.ID == t.Object.ID && t.Subject.Type == t.Object.Type {
		return fmt.Errorf("%w: %s: the object and the subject are the same userset, which is always true", authz.ErrInvalidTuple, t.Key())
	}
	if t.Context != "" {
		return Context(s, t)
	}
	return nil
}

// Context reports why a tuple's context is wrong: it must be canonical JSON and
// name parameters of the tuple's condition, with values of their types.
func Context(s *schema.Schema, t *rel.Tuple) error {
	values, err := contextValues(t)
	if err != nil {
		return err
	}
	params := s.Conditions[t.Condition].Definition.Params
	for name, v := range values {
		known := false
		for i := range params {
			if p := &params[i]; p.Name == name {
				known = true
				if !conforms(v, p.Type) {
					return fmt.Errorf("%w: %s: parameter %q of condition %s: %s", authz.ErrInvalidTuple, t.Key(), name, t.Condition, mismatch(v, p.Type))
				}
			}
		}
		if !known {
			return fmt.Errorf("%w: %s: condition %s has no parameter %q", authz.ErrInvalidTuple, t.Key(), t.Condition, name)
		}
	}
	return nil
}

// mismatch describes a value that does not conform to a type.
func mismatch(v any, t expr.Type) string {
	if n, ok := v.(json.Number); ok {
		return fmt.Sprintf("%.60s is not %s", n, t.Form())
	}
	if t.Form() == expr.JSONKind(v) { // an element of it does not conform
		return "expected " + t.Form() + " of " + t.Elem.String()
	}
	return t.Mismatch(v)
}

// contextValues reads a tuple's context, which must be canonical JSON.
func contextValues(t *rel.Tuple) (map[string]any, error) {
	dec := json.NewDecoder(bytes.NewReader([]byte(t.Context)))
	dec.UseNumber()
	var values map[string]any
	if err := dec.Decode(&values); err != nil || !atEnd(dec) || values == nil {
		return nil, fmt.Errorf("%w: %s: invalid context: expected a JSON object", authz.ErrInvalidTuple, t.Key())
	}
	if text, err := rel.CanonicalValue(values); err != nil || text != t.Context {
		return nil, fmt.Errorf("%w: %s: invalid context: expected canonical JSON, as rel.CanonicalValue writes it", authz.ErrInvalidTuple, t.Key())
	}
	return values, nil
}

// atEnd reports whether nothing but white space follows the value that dec read.
func atEnd(dec *json.Decoder) bool {
	_, err := dec.Token()
	return errors.Is(err, io.EOF)
}

// AttributeKey reports why an attribute's object or name is malformed.
func AttributeKey(a *rel.Attribute) error {
	if err := a.Object.Validate(); err != nil {
		return err
	}
	// The name of an attribute follows the rules for names of relations.
	return rel.Key{Object: a.Object, Relation: a.Name, Subject: a.Object.AsSubject()}.Validate()
}

// AttributeValue checks an attribute's value against the type that def gives
// it, and returns the value as canonical JSON.
func AttributeValue(def *schema.Type, a *rel.Attribute) (string, error) {
	typ, ok := def.Attributes[a.Name]
	if !ok {
		return "", fmt.Errorf("%w: type %s has no attribute %q", authz.ErrInvalidTuple, def.Name, a.Name)
	}
	dec := json.NewDecoder(bytes.NewReader([]byte(a.Value)))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil || !atEnd(dec) {
		return "", fmt.Errorf("%w: invalid value of attribute %s of %s: expected JSON", authz.ErrInvalidTuple, a.Name, a.Object)
	}
	if !conforms(v, typ) {
		return "", fmt.Errorf("%w: invalid value of attribute %s of %s: expected %s", authz.ErrInvalidTuple, a.Name, a.Object, typ)
	}
	return rel.CanonicalValue(v)
}

// conforms reports whether a decoded JSON value has the type. Numbers may
// also come as decimal text, as protobuf's JSON writes 64-bit integers.
func conforms(v any, t expr.Type) bool {
	switch t.Kind {
	case expr.Any:
		return true
	case expr.Bool:
		_, ok := v.(bool)
		return ok
	case expr.String:
		_, ok := v.(string)
		return ok
	case expr.List:
		list, ok := v.([]any)
		for i := 0; ok && t.Elem != nil && i < len(list); i++ {
			ok = conforms(list[i], *t.Elem)
		}
		return ok
	case expr.Map:
		m, ok := v.(map[string]any)
		for _, e := range m {
			ok = ok && (t.Elem == nil || conforms(e, *t.Elem))
		}
		return ok
	case expr.Int, expr.Uint, expr.Double:
		return conformsNumber(v, t.Kind)
	}
	text, ok := v.(string)
	if !ok {
		return false
	}
	var err error
	switch t.Kind {
	case expr.Duration:
		_, err = time.ParseDuration(text)
	case expr.Timestamp:
		_, err = time.Parse(time.RFC3339Nano, text)
	case expr.IPAddress:
		_, err = netip.ParseAddr(text)
	default:
		return false
	}
	return err == nil
}

// numberBytesMax bounds the text of a number, because its digits are read
// exactly.
const numberBytesMax = 400

func conformsNumber(v any, k expr.Kind) bool {
	var text string
	switch n := v.(type) {
	case json.Number:
		text = n.String()
	case string:
		text = n
	default:
		return false
	}
	if len(text) > numberBytesMax {
		return false
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return false
	}
	if k == expr.Double {
		return true
	}
	i, ok := new(big.Int).SetString(text, 10)
	if !ok { // 1e3 and 5.0 are whole, too
		if f != math.Trunc(f) {
			return false
		}
		i, _ = big.NewFloat(f).Int(nil)
	}
	if k == expr.Uint {
		return i.IsUint64()
	}
	return i.IsInt64()
}
