package wire

import (
	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/ostiary/ostiary/expr"
)

// FromProto copies the protocol's message into r. It forgets what r held but
// keeps its memory. r shares strings with m, and nothing else.
func (r *CheckRequest) FromProto(m *openfgav1.CheckRequest) {
	*r = CheckRequest{
		StoreID: m.GetStoreId(), ModelID: m.GetAuthorizationModelId(),
		HasKey: m.GetTupleKey() != nil, Key: keyOf(m.GetTupleKey()),
		Tuples:  tuplesOf(r.Tuples[:0], m.GetContextualTuples().GetTupleKeys()),
		Context: valuesOf(m.GetContext()), Consistency: int32(m.GetConsistency()), Trace: m.GetTrace(),
	}
}

// FromProto is like [CheckRequest.FromProto].
func (r *BatchCheckRequest) FromProto(m *openfgav1.BatchCheckRequest) {
	*r = BatchCheckRequest{
		StoreID: m.GetStoreId(), ModelID: m.GetAuthorizationModelId(),
		Checks: r.Checks[:0], Consistency: int32(m.GetConsistency()),
	}
	for _, item := range m.GetChecks() {
		r.Checks = append(r.Checks, BatchItem{
			CorrelationID: item.GetCorrelationId(),
			HasKey:        item.GetTupleKey() != nil, Key: keyOf(item.GetTupleKey()),
			Tuples: tuplesOf(nil, item.GetContextualTuples().GetTupleKeys()), Context: valuesOf(item.GetContext()),
		})
	}
}

// FromProto is like [CheckRequest.FromProto].
func (r *ListObjectsRequest) FromProto(m *openfgav1.ListObjectsRequest) { r.fromProto(m) }

// FromStreamed is like FromProto for the message of the streamed call, which has
// the same fields.
func (r *ListObjectsRequest) FromStreamed(m *openfgav1.StreamedListObjectsRequest) { r.fromProto(m) }

// listObjects has the methods that both messages have.
type listObjects interface {
	GetStoreId() string
	GetAuthorizationModelId() string
	GetType() string
	GetRelation() string
	GetUser() string
	GetContextualTuples() *openfgav1.ContextualTupleKeys
	GetContext() *structpb.Struct
	GetConsistency() openfgav1.ConsistencyPreference
}

func (r *ListObjectsRequest) fromProto(m listObjects) {
	*r = ListObjectsRequest{
		StoreID: m.GetStoreId(), ModelID: m.GetAuthorizationModelId(),
		Type: m.GetType(), Relation: m.GetRelation(), User: m.GetUser(),
		Tuples:  tuplesOf(nil, m.GetContextualTuples().GetTupleKeys()),
		Context: valuesOf(m.GetContext()), Consistency: int32(m.GetConsistency()),
	}
}

// FromProto is like [CheckRequest.FromProto].
func (r *ListUsersRequest) FromProto(m *openfgav1.ListUsersRequest) {
	*r = ListUsersRequest{
		StoreID: m.GetStoreId(), ModelID: m.GetAuthorizationModelId(),
		HasObject: m.GetObject() != nil, Object: Object{m.GetObject().GetType(), m.GetObject().GetId()},
		Relation: m.GetRelation(), Tuples: tuplesOf(nil, m.GetContextualTuples()),
		Context: valuesOf(m.GetContext()), Consistency: int32(m.GetConsistency()),
	}
	for _, f := range m.GetUserFilters() {
		r.Filters = append(r.Filters, UserFilter{f.GetType(), f.GetRelation()})
	}
}

// FromProto is like [CheckRequest.FromProto].
func (r *WriteRequest) FromProto(m *openfgav1.WriteRequest) {
	*r = WriteRequest{
		StoreID: m.GetStoreId(), ModelID: m.GetAuthorizationModelId(),
		HasWrites: m.GetWrites() != nil, Writes: tuplesOf(nil, m.GetWrites().GetTupleKeys()),
		OnDuplicate: m.GetWrites().GetOnDuplicate(),
		HasDeletes:  m.GetDeletes() != nil, OnMissing: m.GetDeletes().GetOnMissing(),
	}
	for _, k := range m.GetDeletes().GetTupleKeys() {
		r.Deletes = append(r.Deletes, keyOf(k))
	}
}

// FromProto is like [CheckRequest.FromProto].
func (r *ReadRequest) FromProto(m *openfgav1.ReadRequest) {
	*r = ReadRequest{
		StoreID: m.GetStoreId(), HasKey: m.GetTupleKey() != nil, Key: keyOf(m.GetTupleKey()),
		HasPageSize: m.GetPageSize() != nil, PageSize: m.GetPageSize().GetValue(),
		Token: m.GetContinuationToken(), Consistency: int32(m.GetConsistency()),
	}
}

// FromProto is like [CheckRequest.FromProto].
func (r *ExpandRequest) FromProto(m *openfgav1.ExpandRequest) {
	*r = ExpandRequest{
		StoreID: m.GetStoreId(), ModelID: m.GetAuthorizationModelId(),
		HasKey: m.GetTupleKey() != nil, Relation: m.GetTupleKey().GetRelation(), Object: m.GetTupleKey().GetObject(),
		Tuples: tuplesOf(nil, m.GetContextualTuples().GetTupleKeys()), Consistency: int32(m.GetConsistency()),
	}
}

// keyed has the methods that the protocol's several messages for a tuple share.
// They work on nil messages.
type keyed interface {
	GetUser() string
	GetRelation() string
	GetObject() string
}

func keyOf(k keyed) Key { return Key{k.GetUser(), k.GetRelation(), k.GetObject()} }

func tuplesOf(out []Tuple, in []*openfgav1.TupleKey) []Tuple {
	for _, tk := range in {
		out = append(out, TupleOf(tk))
	}
	return out
}

// TupleOf returns a tuple of the protocol's message.
func TupleOf(tk *openfgav1.TupleKey) Tuple {
	t := Tuple{Key: keyOf(tk)}
	if c := tk.GetCondition(); c != nil {
		t.Condition = &Condition{Name: c.GetName(), Context: valuesOf(c.GetContext())}
	}
	return t
}

func valuesOf(s *structpb.Struct) expr.Values {
	if s == nil {
		return nil
	}
	return s.AsMap()
}
