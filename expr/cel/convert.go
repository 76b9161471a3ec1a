package cel

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"net/netip"
	"strconv"
	"time"

	"github.com/ostiary/ostiary/expr"
)

// convert converts a decoded JSON value or Go scalar to the CEL value of a
// parameter of type t. A value of another type is an error. A number may also be
// decimal text, because the JSON form of protobuf writes 64-bit integers that
// way.
func convert(t expr.Type, v any) (any, error) {
	switch t.Kind {
	case expr.Any:
		return plain(v), nil
	case expr.Bool:
		if b, ok := v.(bool); ok {
			return b, nil
		}
	case expr.String:
		if s, ok := v.(string); ok {
			return s, nil
		}
	case expr.Int:
		return integer(v)
	case expr.Uint:
		return unsigned(v)
	case expr.Double:
		return double(v)
	case expr.List, expr.Map:
		return collection(t, v)
	case expr.Duration:
		switch d := v.(type) {
		case time.Duration:
			return d, nil
		case string:
			if d, err := time.ParseDuration(d); err == nil {
				return d, nil
			}
		}
	case expr.Timestamp:
		switch at := v.(type) {
		case time.Time:
			return at, nil
		case string:
			if at, err := time.Parse(time.RFC3339Nano, at); err == nil {
				return at, nil
			}
		}
	case expr.IPAddress:
		switch a := v.(type) {
		case netip.Addr:
			return ip{a.Unmap()}, nil
		case string:
			return parseIP(a)
		}
	}
	return nil, wrongType(t, v)
}

// conversionCost returns the cost of converting a value: one unit for each value
// in it, and more for long texts.
func conversionCost(v any) uint64 {
	switch x := v.(type) {
	case string:
		return 1 + uint64(len(x))/conversionBytes
	case json.Number:
		return 1 + uint64(len(x))/conversionBytes
	case []any:
		cost := uint64(1)
		for _, e := range x {
			cost += conversionCost(e)
		}
		return cost
	case map[string]any:
		cost := uint64(1)
		for _, e := range x {
			cost += conversionCost(e)
		}
		return cost
	}
	return 1
}

// conversionBytes is the number of bytes of a text that are converted for one
// unit of cost.
const conversionBytes = 64

// wrongType is the error for a value that has not the JSON form of its type.
func wrongType(t expr.Type, v any) error { return errors.New(t.Mismatch(v)) }

// collection converts a list or a map.
func collection(t expr.Type, v any) (any, error) {
	if t.Kind == expr.List {
		list, ok := v.([]any)
		if !ok {
			return nil, wrongType(t, v)
		}
		out := make([]any, len(list))
		for i, e := range list {
			var err error
			if out[i], err = convert(*t.Elem, e); err != nil {
				return nil, fmt.Errorf("element %d: %w", i, err)
			}
		}
		return out, nil
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, wrongType(t, v)
	}
	out := make(map[string]any, len(m))
	for k, e := range m {
		var err error
		if out[k], err = convert(*t.Elem, e); err != nil {
			return nil, fmt.Errorf("entry %q: %w", k, err)
		}
	}
	return out, nil
}

// text returns the decimal text of a number, and false if v is not a number. A
// string is returned as it is.
func text(v any) (string, bool) {
	switch n := v.(type) {
	case json.Number:
		return n.String(), true
	case string:
		return n, true
	case float64:
		return strconv.FormatFloat(n, 'g', -1, 64), true
	case int:
		return strconv.Itoa(n), true
	case int64:
		return strconv.FormatInt(n, 10), true
	case uint64:
		return strconv.FormatUint(n, 10), true
	}
	return "", false
}

// whole returns the exact value of a whole number. Its text may also be 1e3 or
// 5.0. Such texts are read as float64 first, so that a large exponent does not
// become a number with many digits.
func whole(v any) (*big.Int, error) {
	s, ok := text(v)
	if !ok {
		return nil, fmt.Errorf("expected a whole number, got %s", expr.JSONKind(v))
	}
	if len(s) < 64 { // longer texts take long to read as an integer
		if i, ok := new(big.Int).SetString(s, 10); ok {
			return i, nil
		}
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) || f != math.Trunc(f) {
		return nil, fmt.Errorf("%q is not a whole number", s)
	}
	i, _ := big.NewFloat(f).Int(nil)
	return i, nil
}

func integer(v any) (any, error) {
	i, err := whole(v)
	if err != nil {
		return nil, err
	}
	if !i.IsInt64() {
		return nil, fmt.Errorf("%v is out of range for int", v)
	}
	return i.Int64(), nil
}

func unsigned(v any) (any, error) {
	i, err := whole(v)
	if err != nil {
		return nil, err
	}
	if !i.IsUint64() {
		return nil, fmt.Errorf("%v is out of range for uint", v)
	}
	return i.Uint64(), nil
}

func double(v any) (any, error) {
	s, ok := text(v)
	if !ok {
		return nil, fmt.Errorf("expected a number, got %s", expr.JSONKind(v))
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return nil, fmt.Errorf("%q is not a number", s)
	}
	return f, nil
}

// plain converts v for a parameter of type any: each json.Number becomes a
// float64, because CEL does not know json.Number.
func plain(v any) any {
	switch x := v.(type) {
	case json.Number:
		f, err := x.Float64()
		if err != nil {
			return x.String()
		}
		return f
	case []any:
		out := make([]any, len(x))
		for i, e := range x {
			out[i] = plain(e)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(x))
		for k, e := range x {
			out[k] = plain(e)
		}
		return out
	}
	return v
}
