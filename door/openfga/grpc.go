package openfga

import (
	"context"
	"strings"
	"sync/atomic"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ostiary/ostiary/door/openfga/internal/wire"
	"github.com/ostiary/ostiary/rel"
)

// grpcServer is the protocol's gRPC service. Each method translates its message into
// a request of package wire or passes it on, and translates the result back.
type grpcServer struct {
	openfgav1.UnimplementedOpenFGAServiceServer
	s    *service
	last atomic.Pointer[responseMetadata] // of the last response, for reuse
}

// newHeaders reads the metadata of a request to a store.
func newHeaders(ctx context.Context, store string) headers {
	var c headers
	c.setStore(store)
	if v := metadata.ValueFromIncomingContext(ctx, metadataRevision); len(v) > 0 {
		c.revision = v[0]
	}
	return c
}

// responseMetadata is the metadata of responses. Responses with the same values share
// one, which is not changed any more.
type responseMetadata struct {
	store, model, revision string
	md                     metadata.MD
}

// sendMetadata sends the metadata of a response and reports err, which it returns.
// In a call without a server the metadata is dropped.
func (g *grpcServer) sendMetadata(ctx context.Context, c *headers, err error) error {
	last := g.last.Load()
	if last == nil || c.truncated != "" || last.store != c.store || last.model != c.model || last.revision != string(c.token) {
		last = c.metadata()
		if c.truncated == "" {
			g.last.Store(last)
		}
	}
	_ = grpc.SetHeader(ctx, last.md)
	return g.s.report(err)
}

// metadata returns the headers as metadata of a response.
func (c *headers) metadata() *responseMetadata {
	out := &responseMetadata{strings.Clone(c.store), c.model, string(c.token), metadata.MD{}}
	for _, h := range [...]struct{ name, value string }{
		{metadataStore, out.store}, {metadataModel, out.model}, {metadataRevision, out.revision}, {metadataTruncated, c.truncated},
	} {
		if h.value != "" {
			out.md[h.name] = []string{h.value}
		}
	}
	return out
}

// unary runs a call that takes and returns the protocol's messages.
func unary[In, Out any](ctx context.Context, g *grpcServer, in In, f func(context.Context, *headers, In) (Out, error)) (Out, error) {
	store := ""
	if in, ok := any(in).(interface{ GetStoreId() string }); ok {
		store = in.GetStoreId()
	}
	c := newHeaders(ctx, store)
	out, err := f(ctx, &c, in)
	return out, g.sendMetadata(ctx, &c, err)
}

// CreateStore handles the call of that name.
func (g *grpcServer) CreateStore(ctx context.Context, in *openfgav1.CreateStoreRequest) (*openfgav1.CreateStoreResponse, error) {
	return unary(ctx, g, in, g.s.createStore)
}

// UpdateStore handles the call of that name.
func (g *grpcServer) UpdateStore(ctx context.Context, in *openfgav1.UpdateStoreRequest) (*openfgav1.UpdateStoreResponse, error) {
	return unary(ctx, g, in, g.s.updateStore)
}

// DeleteStore handles the call of that name.
func (g *grpcServer) DeleteStore(ctx context.Context, in *openfgav1.DeleteStoreRequest) (*openfgav1.DeleteStoreResponse, error) {
	return unary(ctx, g, in, g.s.deleteStore)
}

// GetStore handles the call of that name.
func (g *grpcServer) GetStore(ctx context.Context, in *openfgav1.GetStoreRequest) (*openfgav1.GetStoreResponse, error) {
	return unary(ctx, g, in, g.s.getStore)
}

// ListStores handles the call of that name.
func (g *grpcServer) ListStores(ctx context.Context, in *openfgav1.ListStoresRequest) (*openfgav1.ListStoresResponse, error) {
	return unary(ctx, g, in, g.s.listStores)
}

// WriteAuthorizationModel handles the call of that name.
func (g *grpcServer) WriteAuthorizationModel(ctx context.Context, in *openfgav1.WriteAuthorizationModelRequest) (*openfgav1.WriteAuthorizationModelResponse, error) {
	return unary(ctx, g, in, g.s.writeModel)
}

// ReadAuthorizationModel handles the call of that name.
func (g *grpcServer) ReadAuthorizationModel(ctx context.Context, in *openfgav1.ReadAuthorizationModelRequest) (*openfgav1.ReadAuthorizationModelResponse, error) {
	return unary(ctx, g, in, g.s.readModel)
}

// ReadAuthorizationModels handles the call of that name.
func (g *grpcServer) ReadAuthorizationModels(ctx context.Context, in *openfgav1.ReadAuthorizationModelsRequest) (*openfgav1.ReadAuthorizationModelsResponse, error) {
	return unary(ctx, g, in, g.s.readModels)
}

// ReadChanges handles the call of that name.
func (g *grpcServer) ReadChanges(ctx context.Context, in *openfgav1.ReadChangesRequest) (*openfgav1.ReadChangesResponse, error) {
	return unary(ctx, g, in, g.s.readChanges)
}

// WriteAssertions handles the call of that name.
func (g *grpcServer) WriteAssertions(ctx context.Context, in *openfgav1.WriteAssertionsRequest) (*openfgav1.WriteAssertionsResponse, error) {
	return unary(ctx, g, in, g.s.writeAssertions)
}

// ReadAssertions handles the call of that name.
func (g *grpcServer) ReadAssertions(ctx context.Context, in *openfgav1.ReadAssertionsRequest) (*openfgav1.ReadAssertionsResponse, error) {
	return unary(ctx, g, in, g.s.readAssertions)
}

// Write handles the call of that name.
func (g *grpcServer) Write(ctx context.Context, in *openfgav1.WriteRequest) (*openfgav1.WriteResponse, error) {
	c := newHeaders(ctx, in.GetStoreId())
	var r wire.WriteRequest
	r.FromProto(in)
	err := g.s.write(ctx, &c, &r)
	if err := g.sendMetadata(ctx, &c, err); err != nil {
		return nil, err
	}
	return &openfgav1.WriteResponse{}, nil
}

// Read handles the call of that name.
func (g *grpcServer) Read(ctx context.Context, in *openfgav1.ReadRequest) (*openfgav1.ReadResponse, error) {
	c := newHeaders(ctx, in.GetStoreId())
	var r wire.ReadRequest
	r.FromProto(in)
	page, next, err := g.s.read(ctx, &c, &r)
	if err := g.sendMetadata(ctx, &c, err); err != nil {
		return nil, err
	}
	out := &openfgav1.ReadResponse{ContinuationToken: next}
	for i := range page.Tuples {
		k, err := tupleMessage(&page.Tuples[i].Tuple)
		if err != nil {
			return nil, translateError(err)
		}
		out.Tuples = append(out.Tuples, &openfgav1.Tuple{Key: k, Timestamp: timestamppb.New(page.Tuples[i].Created)})
	}
	return out, nil
}

// Check handles the call of that name.
func (g *grpcServer) Check(ctx context.Context, in *openfgav1.CheckRequest) (*openfgav1.CheckResponse, error) {
	var r wire.CheckRequest
	r.FromProto(in)
	c := newHeaders(ctx, r.StoreID)
	allowed, err := g.s.check(ctx, &c, &r)
	if err := g.sendMetadata(ctx, &c, err); err != nil {
		return nil, err
	}
	return &openfgav1.CheckResponse{Allowed: allowed}, nil
}

// BatchCheck handles the call of that name.
func (g *grpcServer) BatchCheck(ctx context.Context, in *openfgav1.BatchCheckRequest) (*openfgav1.BatchCheckResponse, error) {
	var r wire.BatchCheckRequest
	r.FromProto(in)
	m := g.s.newBatch()
	defer g.s.recycleBatch(m)
	if err := g.decideAll(ctx, &headers{}, &r, m); err != nil {
		return nil, err
	}
	out := &openfgav1.BatchCheckResponse{Result: make(map[string]*openfgav1.BatchCheckSingleResult, len(m.results))}
	for i := range m.results {
		out.Result[m.results[i].correlation] = m.results[i].message()
	}
	return out, nil
}

func (g *grpcServer) decideAll(ctx context.Context, c *headers, r *wire.BatchCheckRequest, m *batch) error {
	*c = newHeaders(ctx, r.StoreID)
	return g.sendMetadata(ctx, c, g.s.batchCheck(ctx, c, r, m))
}

func (o *batchResult) message() *openfgav1.BatchCheckSingleResult {
	if o.err == nil {
		return &openfgav1.BatchCheckSingleResult{CheckResult: &openfgav1.BatchCheckSingleResult_Allowed{Allowed: o.allowed}}
	}
	return &openfgav1.BatchCheckSingleResult{CheckResult: &openfgav1.BatchCheckSingleResult_Error{Error: o.failure()}}
}

// failure translates the error of an item.
func (o *batchResult) failure() *openfgav1.CheckError {
	e := &openfgav1.CheckError{Message: o.err.message}
	if n, input := o.err.inputError(); input {
		e.Code = &openfgav1.CheckError_InputError{InputError: openfgav1.ErrorCode(n)}
	} else {
		e.Code = &openfgav1.CheckError_InternalError{InternalError: openfgav1.InternalErrorCode(n)}
	}
	return e
}

// Expand handles the call of that name.
func (g *grpcServer) Expand(ctx context.Context, in *openfgav1.ExpandRequest) (*openfgav1.ExpandResponse, error) {
	c := newHeaders(ctx, in.GetStoreId())
	var r wire.ExpandRequest
	r.FromProto(in)
	tree, err := g.s.expand(ctx, &c, &r)
	if err := g.sendMetadata(ctx, &c, err); err != nil {
		return nil, err
	}
	return &openfgav1.ExpandResponse{Tree: tree}, nil
}

// ListObjects handles the call of that name.
func (g *grpcServer) ListObjects(ctx context.Context, in *openfgav1.ListObjectsRequest) (*openfgav1.ListObjectsResponse, error) {
	var r wire.ListObjectsRequest
	r.FromProto(in)
	ids, err := g.objects(ctx, &headers{}, &r)
	if err != nil {
		return nil, err
	}
	return &openfgav1.ListObjectsResponse{Objects: objectNames(r.Type, ids)}, nil
}

func (g *grpcServer) objects(ctx context.Context, c *headers, r *wire.ListObjectsRequest) (ids []string, err error) {
	*c = newHeaders(ctx, r.StoreID)
	ids, err = g.s.listObjects(ctx, c, r)
	return ids, g.sendMetadata(ctx, c, err)
}

// objectNames returns "type:id" for each id. All of them share one allocation.
func objectNames(typ string, ids []string) []string {
	size := 0
	for _, id := range ids {
		size += len(typ) + 1 + len(id)
	}
	all := make([]byte, 0, size)
	for _, id := range ids {
		all = append(append(append(all, typ...), ':'), id...)
	}
	text, names := string(all), make([]string, len(ids))
	for i, id := range ids {
		n := len(typ) + 1 + len(id)
		names[i], text = text[:n], text[n:]
	}
	return names
}

// StreamedListObjects handles the call of that name.
func (g *grpcServer) StreamedListObjects(in *openfgav1.StreamedListObjectsRequest, stream openfgav1.OpenFGAService_StreamedListObjectsServer) error {
	ctx := stream.Context()
	c := newHeaders(ctx, in.GetStoreId())
	var r wire.ListObjectsRequest
	r.FromStreamed(in)
	sent := false
	sendOnce := func() { // before the first object or the error
		if !sent {
			_ = g.sendMetadata(ctx, &c, nil)
			sent = true
		}
	}
	err := g.s.streamObjects(ctx, &c, &r, func(ids []string) error {
		sendOnce()
		for _, id := range ids {
			if err := stream.Send(&openfgav1.StreamedListObjectsResponse{Object: r.Type + ":" + id}); err != nil {
				return err
			}
		}
		return nil
	})
	sendOnce()
	return g.s.report(err)
}

// ListUsers handles the call of that name.
func (g *grpcServer) ListUsers(ctx context.Context, in *openfgav1.ListUsersRequest) (*openfgav1.ListUsersResponse, error) {
	c := newHeaders(ctx, in.GetStoreId())
	var r wire.ListUsersRequest
	r.FromProto(in)
	users, err := g.s.listUsers(ctx, &c, &r)
	if err := g.sendMetadata(ctx, &c, err); err != nil {
		return nil, err
	}
	out := &openfgav1.ListUsersResponse{Users: make([]*openfgav1.User, len(users))}
	for i := range users {
		out.Users[i] = userMessage(users[i])
	}
	return out, nil
}

func userMessage(s rel.Subject) *openfgav1.User {
	switch {
	case s.Relation != "":
		return &openfgav1.User{User: &openfgav1.User_Userset{Userset: &openfgav1.UsersetUser{Type: s.Type, Id: s.ID, Relation: s.Relation}}}
	case s.IsWildcard():
		return &openfgav1.User{User: &openfgav1.User_Wildcard{Wildcard: &openfgav1.TypedWildcard{Type: s.Type}}}
	}
	return &openfgav1.User{User: &openfgav1.User_Object{Object: &openfgav1.Object{Type: s.Type, Id: s.ID}}}
}
