package differential

import (
	"context"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"

	"github.com/ostiary/ostiary/conformance/openfga/client"
)

// Ours opens an engine in memory, behind the door.
func Ours(ctx context.Context) (Side, error) {
	c, err := client.New(ctx, nil)
	if err != nil {
		return nil, err
	}
	return &side{ours{c}, func() { _ = c.Close() }}, nil
}

// ours makes the calls without call options.
type ours struct{ c *client.Client }

func (o ours) CreateStore(ctx context.Context, r *openfgav1.CreateStoreRequest) (*openfgav1.CreateStoreResponse, error) {
	return o.c.CreateStore(ctx, r)
}
func (o ours) WriteAuthorizationModel(ctx context.Context, r *openfgav1.WriteAuthorizationModelRequest) (*openfgav1.WriteAuthorizationModelResponse, error) {
	return o.c.WriteAuthorizationModel(ctx, r)
}
func (o ours) Write(ctx context.Context, r *openfgav1.WriteRequest) (*openfgav1.WriteResponse, error) {
	return o.c.Write(ctx, r)
}
func (o ours) Check(ctx context.Context, r *openfgav1.CheckRequest) (*openfgav1.CheckResponse, error) {
	return o.c.Check(ctx, r)
}
func (o ours) ListObjects(ctx context.Context, r *openfgav1.ListObjectsRequest) (*openfgav1.ListObjectsResponse, error) {
	return o.c.ListObjects(ctx, r)
}
func (o ours) ListUsers(ctx context.Context, r *openfgav1.ListUsersRequest) (*openfgav1.ListUsersResponse, error) {
	return o.c.ListUsers(ctx, r)
}
