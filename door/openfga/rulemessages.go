package openfga

import (
	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/ostiary/ostiary/door/openfga/internal/wire"
)

// The functions here convert requests to the protocol's messages. The caller then
// runs the rules of the messages. No rule checks contexts, so the messages omit
// them.

func checkMessage(r *wire.CheckRequest) *openfgav1.CheckRequest {
	return &openfgav1.CheckRequest{
		StoreId: r.StoreID, AuthorizationModelId: r.ModelID, TupleKey: checkKeyMessage(r.HasKey, &r.Key),
		ContextualTuples: contextualMessage(r.Tuples), Consistency: openfgav1.ConsistencyPreference(r.Consistency),
	}
}

func checkKeyMessage(has bool, k *wire.Key) *openfgav1.CheckRequestTupleKey {
	if !has {
		return nil
	}
	return &openfgav1.CheckRequestTupleKey{User: k.User, Relation: k.Relation, Object: k.Object}
}

func tupleMessages(tuples []wire.Tuple) []*openfgav1.TupleKey {
	out := make([]*openfgav1.TupleKey, len(tuples))
	for i := range tuples {
		t := &tuples[i]
		out[i] = &openfgav1.TupleKey{User: t.User, Relation: t.Relation, Object: t.Object}
		if t.Condition != nil {
			out[i].Condition = &openfgav1.RelationshipCondition{Name: t.Condition.Name}
		}
	}
	return out
}

func contextualMessage(tuples []wire.Tuple) *openfgav1.ContextualTupleKeys {
	return &openfgav1.ContextualTupleKeys{TupleKeys: tupleMessages(tuples)}
}

func batchMessage(r *wire.BatchCheckRequest) *openfgav1.BatchCheckRequest {
	m := &openfgav1.BatchCheckRequest{
		StoreId: r.StoreID, AuthorizationModelId: r.ModelID, Consistency: openfgav1.ConsistencyPreference(r.Consistency),
	}
	for i := range r.Checks {
		c := &r.Checks[i]
		m.Checks = append(m.Checks, &openfgav1.BatchCheckItem{
			TupleKey: checkKeyMessage(c.HasKey, &c.Key), ContextualTuples: contextualMessage(c.Tuples), CorrelationId: c.CorrelationID,
		})
	}
	return m
}

func objectsMessage(r *wire.ListObjectsRequest) *openfgav1.ListObjectsRequest {
	return &openfgav1.ListObjectsRequest{
		StoreId: r.StoreID, AuthorizationModelId: r.ModelID, Type: r.Type, Relation: r.Relation, User: r.User,
		ContextualTuples: contextualMessage(r.Tuples), Consistency: openfgav1.ConsistencyPreference(r.Consistency),
	}
}

func streamedMessage(r *wire.ListObjectsRequest) *openfgav1.StreamedListObjectsRequest {
	return &openfgav1.StreamedListObjectsRequest{
		StoreId: r.StoreID, AuthorizationModelId: r.ModelID, Type: r.Type, Relation: r.Relation, User: r.User,
		ContextualTuples: contextualMessage(r.Tuples), Consistency: openfgav1.ConsistencyPreference(r.Consistency),
	}
}

func usersMessage(r *wire.ListUsersRequest) *openfgav1.ListUsersRequest {
	m := &openfgav1.ListUsersRequest{
		StoreId: r.StoreID, AuthorizationModelId: r.ModelID, Relation: r.Relation,
		ContextualTuples: tupleMessages(r.Tuples), Consistency: openfgav1.ConsistencyPreference(r.Consistency),
	}
	if r.HasObject {
		m.Object = &openfgav1.Object{Type: r.Object.Type, Id: r.Object.ID}
	}
	for _, f := range r.Filters {
		m.UserFilters = append(m.UserFilters, &openfgav1.UserTypeFilter{Type: f.Type, Relation: f.Relation})
	}
	return m
}

func writeMessage(r *wire.WriteRequest) *openfgav1.WriteRequest {
	m := &openfgav1.WriteRequest{StoreId: r.StoreID, AuthorizationModelId: r.ModelID}
	if r.HasWrites {
		m.Writes = &openfgav1.WriteRequestWrites{TupleKeys: tupleMessages(r.Writes), OnDuplicate: r.OnDuplicate}
	}
	if r.HasDeletes {
		m.Deletes = &openfgav1.WriteRequestDeletes{OnMissing: r.OnMissing}
		for _, k := range r.Deletes {
			m.Deletes.TupleKeys = append(m.Deletes.TupleKeys,
				&openfgav1.TupleKeyWithoutCondition{User: k.User, Relation: k.Relation, Object: k.Object})
		}
	}
	return m
}

func readRequestMessage(r *wire.ReadRequest) *openfgav1.ReadRequest {
	m := &openfgav1.ReadRequest{
		StoreId: r.StoreID, ContinuationToken: r.Token, Consistency: openfgav1.ConsistencyPreference(r.Consistency),
	}
	if r.HasKey {
		m.TupleKey = &openfgav1.ReadRequestTupleKey{User: r.Key.User, Relation: r.Key.Relation, Object: r.Key.Object}
	}
	if r.HasPageSize {
		m.PageSize = wrapperspb.Int32(r.PageSize)
	}
	return m
}

func expandMessage(r *wire.ExpandRequest) *openfgav1.ExpandRequest {
	m := &openfgav1.ExpandRequest{
		StoreId: r.StoreID, AuthorizationModelId: r.ModelID,
		ContextualTuples: contextualMessage(r.Tuples), Consistency: openfgav1.ConsistencyPreference(r.Consistency),
	}
	if r.HasKey {
		m.TupleKey = &openfgav1.ExpandRequestTupleKey{Relation: r.Relation, Object: r.Object}
	}
	return m
}
