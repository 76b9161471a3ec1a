package wire

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ostiary/ostiary/expr"
)

// texts are names and messages that an answer may hold.
var texts = []string{"", "anne", "document:1", "é😀\u2028\ufffd", "a\"b\\c/d", "\x00\b\f\n\r\t\x1f\x7f", "<&>", strings.Repeat("long ", 100)}

func text(rng *rand.Rand) string { return texts[rng.IntN(len(texts))] }

// means compares a response with its message: protojson reads the response
// back as that message, and writes the same fields itself.
func means(t *testing.T, got []byte, want proto.Message) {
	t.Helper()
	read := want.ProtoReflect().New().Interface()
	if err := protojson.Unmarshal(got, read); err != nil {
		t.Fatalf("%s: %v", got, err)
	}
	if !proto.Equal(read, want) {
		t.Fatalf("%s\nis %v\nwant %v", got, read, want)
	}
	theirs, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := canonical(t, got), canonical(t, theirs); a != b {
		t.Fatalf("ours   %s\ntheirs %s", a, b)
	}
}

func canonical(t *testing.T, b []byte) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	for _, allowed := range []bool{true, false} {
		means(t, AppendCheck(nil, allowed), &openfgav1.CheckResponse{Allowed: allowed})
	}
	means(t, AppendWrite(nil), &openfgav1.WriteResponse{})
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range 200 {
		n %= 6
		answerLists(t, rng, n)
		answerBatch(t, rng, n)
		answerRead(t, rng, n)
		code, message := text(rng), text(rng)
		want, err := json.Marshal(map[string]string{"code": code, "message": message})
		if err != nil {
			t.Fatal(err)
		}
		if got := AppendError(nil, code, message); canonical(t, got) != canonical(t, want) {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

func answerLists(t *testing.T, rng *rand.Rand, n int) {
	t.Helper()
	typ := text(rng)
	var ids []string
	var users []User
	objects, list := &openfgav1.ListObjectsResponse{}, &openfgav1.ListUsersResponse{}
	for range n {
		id := text(rng)
		ids = append(ids, id)
		objects.Objects = append(objects.Objects, typ+":"+id)
		u := User{Type: typ, ID: text(rng), Relation: text(rng)}
		wire := &openfgav1.User{}
		switch {
		case u.ID == "":
			u.Relation = ""
			wire.User = &openfgav1.User_Wildcard{Wildcard: &openfgav1.TypedWildcard{Type: typ}}
		case u.Relation == "":
			wire.User = &openfgav1.User_Object{Object: &openfgav1.Object{Type: typ, Id: u.ID}}
		default:
			wire.User = &openfgav1.User_Userset{Userset: &openfgav1.UsersetUser{Type: typ, Id: u.ID, Relation: u.Relation}}
		}
		users, list.Users = append(users, u), append(list.Users, wire)
		line := AppendStreamedObject(nil, typ, id)
		body, ok := strings.CutPrefix(strings.TrimSuffix(string(line), "}\n"), `{"result":`)
		if !ok || strings.ContainsRune(body, '\n') {
			t.Fatalf("line %q", line)
		}
		means(t, []byte(body), &openfgav1.StreamedListObjectsResponse{Object: typ + ":" + id})
	}
	means(t, AppendObjects(nil, typ, ids), objects)
	means(t, AppendUsers(nil, users), list)
}

func answerBatch(t *testing.T, rng *rand.Rand, n int) {
	t.Helper()
	want := &openfgav1.BatchCheckResponse{Result: map[string]*openfgav1.BatchCheckSingleResult{}}
	var results []BatchResult
	for i := range n {
		r := BatchResult{CorrelationID: fmt.Sprint(text(rng), i), Message: text(rng)}
		wire := &openfgav1.BatchCheckSingleResult{}
		switch rng.IntN(3) {
		case 0:
			r.InputError = "validation_error"
			wire.CheckResult = &openfgav1.BatchCheckSingleResult_Error{Error: &openfgav1.CheckError{Message: r.Message,
				Code: &openfgav1.CheckError_InputError{InputError: openfgav1.ErrorCode_validation_error}}}
		case 1:
			r.InternalError = "deadline_exceeded"
			wire.CheckResult = &openfgav1.BatchCheckSingleResult_Error{Error: &openfgav1.CheckError{Message: r.Message,
				Code: &openfgav1.CheckError_InternalError{InternalError: openfgav1.InternalErrorCode_deadline_exceeded}}}
		default:
			r.Allowed = rng.IntN(2) == 0
			wire.CheckResult = &openfgav1.BatchCheckSingleResult_Allowed{Allowed: r.Allowed}
		}
		results, want.Result[r.CorrelationID] = append(results, r), wire
	}
	means(t, AppendBatchCheck(nil, len(results), func(i int) BatchResult { return results[i] }), want)
}

func answerRead(t *testing.T, rng *rand.Rand, n int) {
	t.Helper()
	token := text(rng)
	want := &openfgav1.ReadResponse{ContinuationToken: token}
	var tuples []ReadTuple
	for range n {
		created := time.Unix(rng.Int64N(4e9), rng.Int64N(4)*rng.Int64N(250)*[]int64{1, 1_000, 1_000_000}[rng.IntN(3)])
		rt := ReadTuple{Created: created, Tuple: Tuple{Key: Key{text(rng), text(rng), text(rng)}}}
		tk := &openfgav1.TupleKey{User: rt.User, Relation: rt.Relation, Object: rt.Object}
		if rng.IntN(2) == 0 {
			rt.Condition = &Condition{Name: text(rng)}
			tk.Condition = &openfgav1.RelationshipCondition{Name: rt.Condition.Name}
			if rng.IntN(2) == 0 {
				rt.Condition.Context = values(rng, 0)
				tk.Condition.Context = structOf(t, rt.Condition.Context)
			}
		}
		tuples = append(tuples, rt)
		want.Tuples = append(want.Tuples, &openfgav1.Tuple{Key: tk, Timestamp: timestamppb.New(created)})
	}
	means(t, AppendRead(nil, tuples, token), want)
}

func structOf(t *testing.T, v expr.Values) *structpb.Struct {
	t.Helper()
	s, err := structpb.NewStruct(v)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func values(rng *rand.Rand, depth int) expr.Values {
	out := expr.Values{}
	for range rng.IntN(4) {
		out[text(rng)] = randomValue(rng, depth+1)
	}
	return out
}

func randomValue(rng *rand.Rand, depth int) any {
	switch n := rng.IntN(6); {
	case n == 0:
		return nil
	case n == 1:
		return rng.IntN(2) == 0
	case n == 2:
		return []float64{0, -1.5, 1e21, 1e20, 1e-6, 1e-7, 1e300, 5e-324, 9007199254740993, 0.1}[rng.IntN(10)]
	case n == 3 && depth < 4:
		return values(rng, depth)
	case n == 4 && depth < 4:
		out := []any{}
		for range rng.IntN(4) {
			out = append(out, randomValue(rng, depth+1))
		}
		return out
	}
	return text(rng)
}

// TestContexts reads back what AppendValues writes, and measures it as the
// protocol's encoding does.
func TestContexts(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2000) {
		v := values(rand.New(rand.NewPCG(3, seed)), 0)
		s := structOf(t, v)
		if got, want := ContextSize(v), proto.Size(s); got != want {
			t.Fatalf("seed %d: %d bytes, want %d: %v", seed, got, want, v)
		}
		means(t, AppendValues(nil, v), s)
		var r CheckRequest
		if err := r.Parse(append(AppendValues([]byte(`{"context":`), v), '}')); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if got := structOf(t, r.Context); !proto.Equal(got, s) {
			t.Fatalf("seed %d: %v, want %v", seed, got, s)
		}
	}
}
