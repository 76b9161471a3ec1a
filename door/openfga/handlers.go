package openfga

import (
	"context"
	"encoding/json"
	"net/http"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"

	"github.com/ostiary/ostiary/door/openfga/internal/wire"
	"github.com/ostiary/ostiary/rel"
)

// The functions here are the handlers of the routes. Each reads its request from the
// path, the query and the body. The path overrides the body.

func createStore(ctx context.Context, s *service, x *httpRequest, dst []byte) ([]byte, int, error) {
	in := &openfgav1.CreateStoreRequest{}
	if err := unmarshal(x.body, in); err != nil {
		return dst, 0, err
	}
	return handleMessage(ctx, x, dst, http.StatusCreated, in, s.createStore)
}

func listStores(ctx context.Context, s *service, x *httpRequest, dst []byte) ([]byte, int, error) {
	f := x.queryParams()
	in := &openfgav1.ListStoresRequest{PageSize: f.pageSize(), ContinuationToken: f.text("continuation_token"), Name: f.text("name")}
	if f.err != nil {
		return dst, 0, f.err
	}
	return handleMessage(ctx, x, dst, http.StatusOK, in, s.listStores)
}

func getStore(ctx context.Context, s *service, x *httpRequest, dst []byte) ([]byte, int, error) {
	return handleMessage(ctx, x, dst, http.StatusOK, &openfgav1.GetStoreRequest{StoreId: x.storeID()}, s.getStore)
}

func updateStore(ctx context.Context, s *service, x *httpRequest, dst []byte) ([]byte, int, error) {
	in := &openfgav1.UpdateStoreRequest{}
	if err := unmarshal(x.body, in); err != nil {
		return dst, 0, err
	}
	in.StoreId = x.storeID()
	return handleMessage(ctx, x, dst, http.StatusOK, in, s.updateStore)
}

func deleteStore(ctx context.Context, s *service, x *httpRequest, dst []byte) ([]byte, int, error) {
	return handleMessage(ctx, x, dst, http.StatusNoContent, &openfgav1.DeleteStoreRequest{StoreId: x.storeID()}, s.deleteStore)
}

func writeModel(ctx context.Context, s *service, x *httpRequest, dst []byte) ([]byte, int, error) {
	in := &openfgav1.WriteAuthorizationModelRequest{}
	if err := unmarshal(x.body, in); err != nil {
		return dst, 0, err
	}
	in.StoreId = x.storeID()
	return handleMessage(ctx, x, dst, http.StatusCreated, in, s.writeModel)
}

func readModel(ctx context.Context, s *service, x *httpRequest, dst []byte) ([]byte, int, error) {
	in := &openfgav1.ReadAuthorizationModelRequest{StoreId: x.storeID(), Id: x.params.At(1)}
	return handleMessage(ctx, x, dst, http.StatusOK, in, s.readModel)
}

func readModels(ctx context.Context, s *service, x *httpRequest, dst []byte) ([]byte, int, error) {
	f := x.queryParams()
	in := &openfgav1.ReadAuthorizationModelsRequest{
		StoreId: x.storeID(), PageSize: f.pageSize(), ContinuationToken: f.text("continuation_token"),
	}
	if f.err != nil {
		x.store = "" // OpenFGA has not read the path yet
		return dst, 0, f.err
	}
	return handleMessage(ctx, x, dst, http.StatusOK, in, s.readModels)
}

func readChanges(ctx context.Context, s *service, x *httpRequest, dst []byte) ([]byte, int, error) {
	f := x.queryParams()
	in := &openfgav1.ReadChangesRequest{
		StoreId: x.storeID(), Type: f.text("type"), PageSize: f.pageSize(),
		ContinuationToken: f.text("continuation_token"), StartTime: f.time("start_time"),
	}
	if f.err != nil {
		x.store = "" // OpenFGA has not read the path yet
		return dst, 0, f.err
	}
	return handleMessage(ctx, x, dst, http.StatusOK, in, s.readChanges)
}

func writeAssertions(ctx context.Context, s *service, x *httpRequest, dst []byte) ([]byte, int, error) {
	in := &openfgav1.WriteAssertionsRequest{}
	if err := unmarshal(x.body, in); err != nil {
		return dst, 0, err
	}
	in.StoreId, in.AuthorizationModelId = x.storeID(), x.params.At(1)
	return handleMessage(ctx, x, dst, http.StatusNoContent, in, s.writeAssertions)
}

func readAssertions(ctx context.Context, s *service, x *httpRequest, dst []byte) ([]byte, int, error) {
	in := &openfgav1.ReadAssertionsRequest{StoreId: x.storeID(), AuthorizationModelId: x.params.At(1)}
	return handleMessage(ctx, x, dst, http.StatusOK, in, s.readAssertions)
}

func write(ctx context.Context, s *service, x *httpRequest, dst []byte) ([]byte, int, error) {
	var in wire.WriteRequest
	if err := bodyError(in.Parse(x.body)); err != nil {
		return dst, 0, err
	}
	in.StoreID = x.storeID()
	err := s.write(ctx, &x.headers, &in)
	return wire.AppendWrite(dst), http.StatusOK, err
}

func read(ctx context.Context, s *service, x *httpRequest, dst []byte) ([]byte, int, error) {
	var in wire.ReadRequest
	if err := bodyError(in.Parse(x.body)); err != nil {
		return dst, 0, err
	}
	in.StoreID = x.storeID()
	page, next, err := s.read(ctx, &x.headers, &in)
	if err != nil {
		return dst, 0, err
	}
	tuples := make([]wire.ReadTuple, len(page.Tuples))
	for i := range page.Tuples {
		t := &page.Tuples[i]
		tuples[i].Created = t.Created
		if tuples[i].Tuple, err = wireTuple(&t.Tuple); err != nil {
			return dst, 0, translateError(err)
		}
	}
	return wire.AppendRead(dst, tuples, next), http.StatusOK, nil
}

// wireTuple translates a stored tuple.
func wireTuple(t *rel.Tuple) (wire.Tuple, error) {
	out := wire.Tuple{Key: wire.Key{User: t.Subject.String(), Relation: t.Relation, Object: t.Object.String()}}
	if t.Condition == "" {
		return out, nil
	}
	out.Condition = &wire.Condition{Name: t.Condition, Context: map[string]any{}}
	if t.Context == "" {
		return out, nil
	}
	return out, json.Unmarshal([]byte(t.Context), &out.Condition.Context)
}

func check(ctx context.Context, s *service, x *httpRequest, dst []byte) ([]byte, int, error) {
	in := &x.check
	if err := bodyError(in.Parse(x.body)); err != nil {
		return dst, 0, err
	}
	in.StoreID = x.storeID()
	allowed, err := s.check(ctx, &x.headers, in)
	return wire.AppendCheck(dst, allowed && err == nil), http.StatusOK, err
}

func batchCheck(ctx context.Context, s *service, x *httpRequest, dst []byte) ([]byte, int, error) {
	in := &x.batch
	if err := bodyError(in.Parse(x.body)); err != nil {
		return dst, 0, err
	}
	in.StoreID = x.storeID()
	m := s.newBatch()
	defer s.recycleBatch(m)
	if err := s.batchCheck(ctx, &x.headers, in, m); err != nil {
		return dst, 0, err
	}
	return wire.AppendBatchCheck(dst, len(m.results), func(i int) wire.BatchResult { return m.results[i].result() }), http.StatusOK, nil
}

// result returns the result of an item for a response in JSON.
func (o *batchResult) result() wire.BatchResult {
	r := wire.BatchResult{CorrelationID: o.correlation, Allowed: o.allowed}
	if o.err == nil {
		return r
	}
	r.Message = o.err.message
	if n, input := o.err.inputError(); input {
		r.InputError = openfgav1.ErrorCode(n).String()
	} else {
		r.InternalError = openfgav1.InternalErrorCode(n).String()
	}
	return r
}

func expand(ctx context.Context, s *service, x *httpRequest, dst []byte) ([]byte, int, error) {
	var in wire.ExpandRequest
	if err := bodyError(in.Parse(x.body)); err != nil {
		return dst, 0, err
	}
	in.StoreID = x.storeID()
	tree, err := s.expand(ctx, &x.headers, &in)
	if err != nil {
		return dst, 0, err
	}
	dst, err = marshal(dst, &openfgav1.ExpandResponse{Tree: tree})
	return dst, http.StatusOK, err
}

func listObjects(ctx context.Context, s *service, x *httpRequest, dst []byte) ([]byte, int, error) {
	var in wire.ListObjectsRequest
	if err := bodyError(in.Parse(x.body)); err != nil {
		return dst, 0, err
	}
	in.StoreID = x.storeID()
	ids, err := s.listObjects(ctx, &x.headers, &in)
	return wire.AppendObjects(dst, in.Type, ids), http.StatusOK, err
}

func listUsers(ctx context.Context, s *service, x *httpRequest, dst []byte) ([]byte, int, error) {
	var in wire.ListUsersRequest
	if err := bodyError(in.Parse(x.body)); err != nil {
		return dst, 0, err
	}
	in.StoreID = x.storeID()
	users, err := s.listUsers(ctx, &x.headers, &in)
	out := make([]wire.User, len(users))
	for i, u := range users {
		out[i] = wire.User{Type: u.Type, ID: u.ID, Relation: u.Relation}
		if u.IsWildcard() {
			out[i].ID = ""
		}
	}
	return wire.AppendUsers(dst, out), http.StatusOK, err
}
