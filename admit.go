package ostiary

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"net/netip"
	"strconv"
	"time"

	"github.com/ostiary/ostiary/eval"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// admit holds a tuple against the schema: its type restrictions, its
// condition's parameters, and that it says more than is true of itself.
func (g *group) admit(ctx context.Context, t *rel.Tuple, schemaID string) error {
	r, err := g.ready(ctx, t.Object.Type, schemaID)
	if err != nil {
		return err
	}
	return admitted(r.schema, t)
}

func admitted(s *schema.Schema, t *rel.Tuple) error {
	if err := eval.Admit(s, t); err != nil {
		return err
	}
	if t.Object.ID == rel.Wildcard && !s.Options.StarIsOrdinary {
		return fmt.Errorf("%w: %s: a wildcard is no object", ErrInvalidTuple, t.Key())
	}
	if t.Subject.Relation == t.Relation && t.Subject.ID == t.Object.ID && t.Subject.Type == t.Object.Type {
		return fmt.Errorf("%w: %s is true without being written", ErrInvalidTuple, t.Key())
	}
	if t.Context != "" {
		return admittedContext(s, t)
	}
	return nil
}

// admittedContext checks that a stored context is canonical and names known
// parameters with values of their types.
func admittedContext(s *schema.Schema, t *rel.Tuple) error {
	dec := json.NewDecoder(bytes.NewReader([]byte(t.Context)))
	dec.UseNumber()
	var values map[string]any
	if err := dec.Decode(&values); err != nil || dec.More() || values == nil {
		return fmt.Errorf("%w: %s: context is not a JSON object", ErrInvalidTuple, t.Key())
	}
	if text, err := rel.CanonicalValue(values); err != nil || text != t.Context {
		return fmt.Errorf("%w: %s: context is not canonical JSON", ErrInvalidTuple, t.Key())
	}
	c := s.Conditions[t.Condition]
	for name, v := range values {
		known := false
		for i := range c.Definition.Params {
			if p := &c.Definition.Params[i]; p.Name == name {
				known = true
				if !conforms(v, p.Type) {
					return fmt.Errorf("%w: %s: parameter %q of condition %s is no %s", ErrInvalidTuple, t.Key(), name, t.Condition, p.Type)
				}
			}
		}
		if !known {
			return fmt.Errorf("%w: %s: condition %s has no parameter %q", ErrInvalidTuple, t.Key(), t.Condition, name)
		}
	}
	return nil
}

// attribute checks an attribute against the schema and returns it with its
// canonical value.
func (g *group) attribute(ctx context.Context, a *rel.Attribute, schemaID string) (rel.Attribute, error) {
	r, err := g.ready(ctx, a.Object.Type, schemaID)
	if err != nil {
		return rel.Attribute{}, err
	}
	def, ok := r.schema.Type(a.Object.Type)
	if !ok {
		return rel.Attribute{}, fmt.Errorf("%w: no type %q", ErrInvalidTuple, a.Object.Type)
	}
	value, err := canonicalValue(def, a)
	if err != nil {
		return rel.Attribute{}, err
	}
	return rel.Attribute{Object: a.Object, Name: a.Name, Value: value}, nil
}

// conforms says whether a decoded JSON value can stand for a type. Numbers may
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

// numberBytesMax bounds the text of a number, whose digits are read exactly.
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
