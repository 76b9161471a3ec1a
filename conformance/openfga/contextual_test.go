package openfga

import (
	"context"
	"slices"
	"sync"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"google.golang.org/grpc"

	"github.com/ostiary/ostiary/conformance/openfga/client"
)

// contextual is a client that stores no tuples. It sends the tuples that were
// written to a store as contextual tuples of every question on that store.
type contextual struct {
	*client.Client

	mu     sync.Mutex
	tuples map[string][]*openfgav1.TupleKey // by store
}

func (c *contextual) Write(_ context.Context, in *openfgav1.WriteRequest, _ ...grpc.CallOption) (*openfgav1.WriteResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tuples[in.GetStoreId()] = append(c.tuples[in.GetStoreId()], in.GetWrites().GetTupleKeys()...)
	return &openfgav1.WriteResponse{}, nil
}

// with returns a question's contextual tuples together with the store's.
func (c *contextual) with(store string, own []*openfgav1.TupleKey) []*openfgav1.TupleKey {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Concat(own, c.tuples[store])
}

func (c *contextual) keys(store string, own *openfgav1.ContextualTupleKeys) *openfgav1.ContextualTupleKeys {
	return &openfgav1.ContextualTupleKeys{TupleKeys: c.with(store, own.GetTupleKeys())}
}

func (c *contextual) Check(ctx context.Context, in *openfgav1.CheckRequest, o ...grpc.CallOption) (*openfgav1.CheckResponse, error) {
	in.ContextualTuples = c.keys(in.GetStoreId(), in.GetContextualTuples())
	return c.Client.Check(ctx, in, o...)
}

func (c *contextual) ListObjects(ctx context.Context, in *openfgav1.ListObjectsRequest, o ...grpc.CallOption) (*openfgav1.ListObjectsResponse, error) {
	in.ContextualTuples = c.keys(in.GetStoreId(), in.GetContextualTuples())
	return c.Client.ListObjects(ctx, in, o...)
}

func (c *contextual) StreamedListObjects(ctx context.Context, in *openfgav1.StreamedListObjectsRequest, o ...grpc.CallOption) (openfgav1.OpenFGAService_StreamedListObjectsClient, error) {
	in.ContextualTuples = c.keys(in.GetStoreId(), in.GetContextualTuples())
	return c.Client.StreamedListObjects(ctx, in, o...)
}

func (c *contextual) ListUsers(ctx context.Context, in *openfgav1.ListUsersRequest, o ...grpc.CallOption) (*openfgav1.ListUsersResponse, error) {
	in.ContextualTuples = c.with(in.GetStoreId(), in.GetContextualTuples())
	return c.Client.ListUsers(ctx, in, o...)
}
