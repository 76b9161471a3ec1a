package wire

import (
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/tool/jsonread"
)

// The Append functions write responses as the protocol's gateway does: every
// field, also the empty ones, in the order of their numbers. Each appends to dst
// and returns the extended slice.

// AppendCheck writes the response of Check.
func AppendCheck(dst []byte, allowed bool) []byte {
	if allowed {
		return append(dst, `{"allowed":true,"resolution":""}`...)
	}
	return append(dst, `{"allowed":false,"resolution":""}`...)
}

// BatchResult is the result of one item of a batch.
type BatchResult struct {
	// CorrelationID is that of the item.
	CorrelationID string
	// Allowed is the result if there is no error.
	Allowed bool
	// InputError is the name of an ErrorCode if the item failed because of the
	// request, else "".
	InputError string
	// InternalError is the name of an InternalErrorCode if the item failed inside the
	// server, else "".
	InternalError string
	// Message is the text of the error.
	Message string
}

// AppendBatchCheck writes the response of BatchCheck: n results with different
// correlation ids.
func AppendBatchCheck(dst []byte, n int, result func(i int) BatchResult) []byte {
	dst = append(dst, `{"result":{`...)
	for i := range n {
		if i > 0 {
			dst = append(dst, ',')
		}
		r := result(i)
		dst = append(jsonread.AppendString(dst, r.CorrelationID), ':')
		switch {
		case r.InputError != "":
			dst = appendBatchError(dst, `{"error":{"input_error":`, r.InputError, r.Message)
		case r.InternalError != "":
			dst = appendBatchError(dst, `{"error":{"internal_error":`, r.InternalError, r.Message)
		case r.Allowed:
			dst = append(dst, `{"allowed":true}`...)
		default:
			dst = append(dst, `{"allowed":false}`...)
		}
	}
	return append(dst, `}}`...)
}

func appendBatchError(dst []byte, head, code, message string) []byte {
	dst = jsonread.AppendString(append(dst, head...), code)
	dst = jsonread.AppendString(append(dst, `,"message":`...), message)
	return append(dst, `}}`...)
}

// AppendObjects writes the response of ListObjects: objects of one type.
func AppendObjects(dst []byte, typ string, ids []string) []byte {
	dst = append(dst, `{"objects":[`...)
	head := append(jsonread.AppendText([]byte(`","`), typ), ':')
	for i, id := range ids {
		if i == 0 {
			dst = append(dst, head[2:]...)
		} else {
			dst = append(dst, head...)
		}
		dst = jsonread.AppendText(dst, id)
	}
	if len(ids) > 0 {
		dst = append(dst, '"')
	}
	return append(dst, `]}`...)
}

// AppendStreamedObject writes one line of the response of StreamedListObjects.
func AppendStreamedObject(dst []byte, typ, id string) []byte {
	dst = jsonread.AppendText(append(dst, `{"result":{"object":"`...), typ)
	dst = jsonread.AppendText(append(dst, ':'), id)
	return append(dst, "\"}}\n"...)
}

// User is a user in the response of ListUsers.
type User struct {
	// Type is the user's type.
	Type string
	// ID is the user's id; "" means all users of the type.
	ID string
	// Relation makes the user a userset; "" is a plain user.
	Relation string
}

// AppendUsers writes the response of ListUsers.
func AppendUsers(dst []byte, users []User) []byte {
	dst = append(dst, `{"users":[`...)
	for i := range users {
		if i > 0 {
			dst = append(dst, ',')
		}
		u := &users[i]
		switch {
		case u.ID == "":
			dst = append(dst, `{"wildcard":{"type":`...)
			dst = jsonread.AppendString(dst, u.Type)
		case u.Relation == "":
			dst = jsonread.AppendString(append(dst, `{"object":{"type":`...), u.Type)
			dst = jsonread.AppendString(append(dst, `,"id":`...), u.ID)
		default:
			dst = jsonread.AppendString(append(dst, `{"userset":{"type":`...), u.Type)
			dst = jsonread.AppendString(append(dst, `,"id":`...), u.ID)
			dst = jsonread.AppendString(append(dst, `,"relation":`...), u.Relation)
		}
		dst = append(dst, `}}`...)
	}
	return append(dst, `]}`...)
}

// AppendTuple writes a tuple as the message TupleKey.
func AppendTuple(dst []byte, t *Tuple) []byte {
	dst = jsonread.AppendString(append(dst, `{"user":`...), t.User)
	dst = jsonread.AppendString(append(dst, `,"relation":`...), t.Relation)
	dst = jsonread.AppendString(append(dst, `,"object":`...), t.Object)
	if t.Condition == nil {
		return append(dst, `,"condition":null}`...)
	}
	dst = jsonread.AppendString(append(dst, `,"condition":{"name":`...), t.Condition.Name)
	dst = append(dst, `,"context":`...)
	if t.Condition.Context == nil {
		return append(dst, `null}}`...)
	}
	dst = AppendValues(dst, t.Condition.Context)
	return append(dst, `}}`...)
}

// ReadTuple is a tuple in the response of Read.
type ReadTuple struct {
	Tuple
	// Created is when the tuple was written.
	Created time.Time
}

// AppendRead writes the response of Read. token is the continuation token, ""
// after the last page.
func AppendRead(dst []byte, tuples []ReadTuple, token string) []byte {
	dst = append(dst, `{"tuples":[`...)
	for i := range tuples {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendTuple(append(dst, `{"key":`...), &tuples[i].Tuple)
		dst = AppendTime(append(dst, `,"timestamp":`...), tuples[i].Created)
		dst = append(dst, '}')
	}
	dst = jsonread.AppendString(append(dst, `],"continuation_token":`...), token)
	return append(dst, '}')
}

// AppendWrite writes the response of Write.
func AppendWrite(dst []byte) []byte { return append(dst, `{}`...) }

// AppendError writes the error of a call: the name of its code and a text.
func AppendError(dst []byte, code, message string) []byte {
	dst = jsonread.AppendString(append(dst, `{"code":`...), code)
	dst = jsonread.AppendString(append(dst, `,"message":`...), message)
	return append(dst, '}')
}

// AppendTime writes a time as the message Timestamp: UTC with 0, 3, 6 or 9 digits
// of a second.
func AppendTime(dst []byte, t time.Time) []byte {
	t = t.UTC()
	layout := "2006-01-02T15:04:05Z"
	switch n := t.Nanosecond(); {
	case n == 0:
	case n%1_000_000 == 0:
		layout = "2006-01-02T15:04:05.000Z"
	case n%1_000 == 0:
		layout = "2006-01-02T15:04:05.000000Z"
	default:
		layout = "2006-01-02T15:04:05.000000000Z"
	}
	return append(t.AppendFormat(append(dst, '"'), layout), '"')
}

// AppendValues writes a context with its names sorted. It writes null for a value
// that is not one of decoded JSON, and for a number that JSON does not have.
func AppendValues(dst []byte, values expr.Values) []byte {
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names)
	dst = append(dst, '{')
	for i, name := range names {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(jsonread.AppendString(dst, name), ':')
		dst = appendValue(dst, values[name])
	}
	return append(dst, '}')
}

func appendValue(dst []byte, v any) []byte {
	switch x := v.(type) {
	case bool:
		return strconv.AppendBool(dst, x)
	case string:
		return jsonread.AppendString(dst, x)
	case float64:
		return appendFloat(dst, x)
	case map[string]any:
		return AppendValues(dst, x)
	case []any:
		dst = append(dst, '[')
		for i, e := range x {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendValue(dst, e)
		}
		return append(dst, ']')
	}
	return append(dst, "null"...)
}

// appendFloat writes the shortest number that reads back as f. Very large and very
// small numbers have an exponent.
func appendFloat(dst []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(dst, "null"...)
	}
	if a := math.Abs(f); a != 0 && (a < 1e-6 || a >= 1e21) {
		return strconv.AppendFloat(dst, f, 'e', -1, 64)
	}
	return strconv.AppendFloat(dst, f, 'f', -1, 64)
}
