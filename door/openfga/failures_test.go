package openfga

import (
	"fmt"
	"strings"
	"testing"
	"time"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door/openfga/language"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/workshop/golden"
	"github.com/ostiary/ostiary/rel"
)

// TestFailureForms compares the forms of every kind of error, and of every code of
// gRPC, with testdata/failures.txt: the gRPC code, the number, and over HTTP the
// status, the name and the family of streams.
func TestFailureForms(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	print := func(what string, f *failure) {
		h := f.httpError()
		fmt.Fprintf(&out, "%s: %d, %d, HTTP %d %s, %s: %s\n", what, f.code, f.number(), h.status, h.name, h.family, h.message)
	}
	for _, k := range errorKinds() {
		print(k.kind.Error(), toFailure(fmt.Errorf("outer: %w", k.kind)))
	}
	for c := codes.Code(1); c < 18; c++ {
		print(c.String(), newFailure(c, "text"))
	}
	for _, f := range fieldCodes() {
		for _, field := range []string{f.field, strings.TrimSuffix(f.field, "[]") + "[3]", "Other." + f.field} {
			print("field "+field, newFailure(codes.InvalidArgument, "invalid Message."+field+": "+f.reason+" something"))
		}
	}
	print("other reason", newFailure(codes.InvalidArgument, "invalid Message.StoreId: it is wrong"))
	print("chain", newFailure(codes.InvalidArgument, "invalid A.B: embedded | caused by: invalid C.Id: value length must be at most 5"))
	golden.Equal(t, "testdata/failures.txt", out.String())
}

// TestTypesWithin checks types nested at the bound and one above.
func TestTypesWithin(t *testing.T) {
	t.Parallel()
	nested := func(n int) *openfgav1.ConditionParamTypeRef {
		typ := &openfgav1.ConditionParamTypeRef{TypeName: openfgav1.ConditionParamTypeRef_TYPE_NAME_STRING}
		for range n - 1 {
			typ = &openfgav1.ConditionParamTypeRef{TypeName: openfgav1.ConditionParamTypeRef_TYPE_NAME_LIST, GenericTypes: []*openfgav1.ConditionParamTypeRef{typ}}
		}
		return typ
	}
	if !typesWithin(nested(language.TypeDepthMax), language.TypeDepthMax) || typesWithin(nested(language.TypeDepthMax+1), language.TypeDepthMax) {
		t.Error("the bound on nested types is not the one of the language")
	}
}

// TestPrintable checks that control characters are refused wherever they are in a
// context.
func TestPrintable(t *testing.T) {
	t.Parallel()
	for _, bad := range []expr.Values{
		{"\x00": 1}, {"a": "\x01"}, {"a": []any{"b", "\x7f"}}, {"a": map[string]any{"\u0085": 1}}, {"a": map[string]any{"b": []any{map[string]any{"c": "\n"}}}},
	} {
		if checkPrintable(bad) == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
	if err := checkPrintable(expr.Values{"a": "ü b", "b": []any{1.5, true, nil, "x"}, "c": map[string]any{"d": "~"}}); err != nil {
		t.Error(err)
	}
}

// TestChangesStartInEntry checks that a page which ends within the first entry
// after start_time is continued there, and not at the start of the log.
func TestChangesStartInEntry(t *testing.T) {
	t.Parallel()
	now := time.Now().Add(-2 * time.Hour)
	s, st := testService(t, ostiary.Options{Clock: func() time.Time { return now }}, Options{})
	addTuples(t, st, "document:1#viewer@user:a")
	now = now.Add(time.Hour)
	addTuples(t, st, "document:2#viewer@user:a", "document:3#viewer@user:a")
	in := &openfgav1.ReadChangesRequest{StoreId: st.ID().String(), StartTime: timestamppb.New(now.Add(-time.Minute)), PageSize: wrapperspb.Int32(1)}
	var got []string
	for range 3 {
		out, err := s.readChanges(t.Context(), &headers{}, in)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range out.GetChanges() {
			got = append(got, c.GetTupleKey().GetObject())
		}
		in.ContinuationToken = out.GetContinuationToken()
	}
	if fmt.Sprint(got) != "[document:2 document:3]" {
		t.Errorf("the changes are %v", got)
	}
}

// TestTupleMessage checks that a stored condition keeps its context.
func TestTupleMessage(t *testing.T) {
	t.Parallel()
	for context, want := range map[string]string{"": "{}", `{"a":[1,"x"]}`: `{"a":[1,"x"]}`} {
		tuple := rel.Tuple{Object: rel.Object{Type: "d", ID: "1"}, Relation: "r", Subject: rel.Subject{Type: "u", ID: "a"}, Condition: "c", Context: context}
		k, err := tupleMessage(&tuple)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := k.GetCondition().GetContext().MarshalJSON(); err != nil || strings.ReplaceAll(string(text), " ", "") != want {
			t.Errorf("%s %v, want %s", text, err, want)
		}
	}
}
