package wire

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"testing"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// byLibrary reads a message by protobuf's library, by hand a second time, and
// compares what both made of it. It reports whether ParseProto could read it.
func byLibrary[R any, M proto.Message, P interface {
	*R
	ParseProto([]byte) bool
	FromProto(M)
}](t *testing.T, data []byte, message M) bool {
	t.Helper()
	var got, want R
	read := P(&got).ParseProto(bytes.Clone(data))
	if !read {
		return false
	}
	if err := proto.Unmarshal(data, message); err != nil {
		t.Fatalf("%x is read by hand, and not by the library: %v", data, err)
	}
	if P(&want).FromProto(message); !reflect.DeepEqual(got, want) {
		t.Fatalf("%x\nby hand    %+v\nby library %+v", data, got, want)
	}
	return true
}

func sameAsLibrary(t *testing.T, data []byte) (batch, list bool) {
	t.Helper()
	return byLibrary[BatchCheckRequest](t, data, &openfgav1.BatchCheckRequest{}),
		byLibrary[ListObjectsRequest](t, data, &openfgav1.ListObjectsRequest{})
}

// messages are such as clients send, and one of each kind that is rare.
func messages() []proto.Message {
	key := &openfgav1.CheckRequestTupleKey{User: "user:anne", Relation: "viewer", Object: "document:é"}
	ids := "01ARZ3NDEKTSV4RRFFQ69G5FAV"
	const number = 1 << 20 // which is not read by hand
	values, _ := structpb.NewStruct(map[string]any{"a": 1.0})
	tuples := &openfgav1.ContextualTupleKeys{TupleKeys: []*openfgav1.TupleKey{{User: "user:a", Relation: "b", Object: "c:d"}}}
	long := &openfgav1.CheckRequestTupleKey{User: string(bytes.Repeat([]byte("u"), 300)), Object: string(bytes.Repeat([]byte("o"), 20_000))}
	items := []*openfgav1.BatchCheckItem{{TupleKey: key, CorrelationId: "1"}, {CorrelationId: "2", TupleKey: &openfgav1.CheckRequestTupleKey{}}, {}}
	return []proto.Message{
		&openfgav1.BatchCheckRequest{},
		&openfgav1.BatchCheckRequest{StoreId: ids, AuthorizationModelId: ids, Checks: items, Consistency: 200},
		&openfgav1.BatchCheckRequest{Checks: items, Consistency: -1},
		&openfgav1.BatchCheckRequest{Checks: items, Consistency: number},
		&openfgav1.BatchCheckRequest{Checks: []*openfgav1.BatchCheckItem{{TupleKey: long}}},
		&openfgav1.BatchCheckRequest{Checks: append(items, &openfgav1.BatchCheckItem{TupleKey: key, Context: values}, &openfgav1.BatchCheckItem{ContextualTuples: tuples})},
		&openfgav1.ListObjectsRequest{StoreId: ids, AuthorizationModelId: ids, Type: "document", Relation: "viewer", User: "user:anne", Consistency: 100},
		&openfgav1.ListObjectsRequest{StoreId: ids, Context: values, ContextualTuples: tuples},
	}
}

func TestPlainMessagesAreReadByHand(t *testing.T) {
	t.Parallel()
	for i, m := range messages() {
		data, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		batch, list := sameAsLibrary(t, data)
		read := map[string]bool{"BatchCheckRequest": batch, "ListObjectsRequest": list}[string(m.ProtoReflect().Descriptor().Name())]
		if rare := i >= 2 && i <= 5 || i == 7; read == rare {
			t.Errorf("message %d is read by hand: %v", i, read)
		}
	}
}

// TestSameAsLibrary reads what clients send, with a few bytes altered, cut,
// doubled or set behind each other.
func TestSameAsLibrary(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	var all [][]byte
	for _, m := range messages() {
		data, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) < 1000 {
			all = append(all, data)
		}
	}
	read := 0
	for range 200_000 {
		data := bytes.Clone(all[rng.IntN(len(all))])
		for range rng.IntN(4) {
			data = altered(rng, data, all)
		}
		if batch, list := sameAsLibrary(t, data); batch || list {
			read++
		}
	}
	if read < 20_000 {
		t.Fatalf("%d were read by hand: too few for the test to mean anything", read)
	}
}

func altered(rng *rand.Rand, data []byte, all [][]byte) []byte {
	i := rng.IntN(len(data) + 1)
	switch rng.IntN(7) {
	case 0: // another byte
		if i < len(data) {
			data[i] = byte(rng.Uint32())
		}
	case 1: // a bit
		if i < len(data) {
			data[i] ^= 1 << rng.IntN(8)
		}
	case 2:
		return data[:i]
	case 3: // one byte more
		return append(data[:i:i], append([]byte{byte(rng.Uint32())}, data[i:]...)...)
	case 4: // merged
		return append(data, all[rng.IntN(len(all))]...)
	case 5: // a field of any number and kind
		data = protowire.AppendTag(data, protowire.Number(1+rng.IntN(20)), protowire.Type(rng.IntN(3)))
		return protowire.AppendVarint(data, uint64(rng.IntN(300)))
	case 6: // a string
		data = protowire.AppendTag(data, protowire.Number(1+rng.IntN(8)), protowire.BytesType)
		return protowire.AppendString(data, texts[rng.IntN(len(texts))])
	}
	return data
}

func FuzzSameAsProtobuf(f *testing.F) {
	for _, m := range messages() {
		data, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) { sameAsLibrary(t, data) })
}

func TestProtoAnswers(t *testing.T) {
	t.Parallel()
	is := func(got []byte, want proto.Message) {
		t.Helper()
		read := want.ProtoReflect().New().Interface()
		if err := proto.Unmarshal(got, read); err != nil || !proto.Equal(read, want) {
			t.Errorf("%x is %v (%v), not %v", got, read, err, want)
		}
	}
	long := string(bytes.Repeat([]byte("i"), 300))
	is(AppendObjectsProto(nil, "document", []string{"1", long, "é"}), &openfgav1.ListObjectsResponse{Objects: []string{"document:1", "document:" + long, "document:é"}})
	is(AppendObjectsProto(nil, "document", nil), &openfgav1.ListObjectsResponse{})

	e := &openfgav1.CheckError{Message: long, Code: &openfgav1.CheckError_InputError{InputError: openfgav1.ErrorCode_validation_error}}
	failure, err := proto.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	var batch []byte
	batch = AppendBatchResultProto(batch, "a", true, nil)
	batch = AppendBatchResultProto(batch, long, false, nil)
	batch = AppendBatchResultProto(batch, "c", false, failure)
	is(batch, &openfgav1.BatchCheckResponse{Result: map[string]*openfgav1.BatchCheckSingleResult{
		"a":  {CheckResult: &openfgav1.BatchCheckSingleResult_Allowed{Allowed: true}},
		long: {CheckResult: &openfgav1.BatchCheckSingleResult_Allowed{}},
		"c":  {CheckResult: &openfgav1.BatchCheckSingleResult_Error{Error: e}},
	}})
}
