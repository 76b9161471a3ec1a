// Package beside runs the workloads of `ostiary-bench` against Ostiary and
// against OpenFGA in one run: over HTTP and gRPC as processes, and embedded in the
// test's process. The runs are its tests; package bench does the measuring.
package beside

import (
	"context"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"google.golang.org/grpc"

	"github.com/openfga/openfga/pkg/server"
)

// inProcess calls OpenFGA's service without a socket. It has the calls that
// bench.NewService makes; any other one panics.
type inProcess struct {
	openfgav1.OpenFGAServiceClient
	server *server.Server
}

func (p inProcess) CreateStore(ctx context.Context, r *openfgav1.CreateStoreRequest, _ ...grpc.CallOption) (*openfgav1.CreateStoreResponse, error) {
	return p.server.CreateStore(ctx, r)
}

func (p inProcess) DeleteStore(ctx context.Context, r *openfgav1.DeleteStoreRequest, _ ...grpc.CallOption) (*openfgav1.DeleteStoreResponse, error) {
	return p.server.DeleteStore(ctx, r)
}

func (p inProcess) WriteAuthorizationModel(ctx context.Context, r *openfgav1.WriteAuthorizationModelRequest, _ ...grpc.CallOption) (*openfgav1.WriteAuthorizationModelResponse, error) {
	return p.server.WriteAuthorizationModel(ctx, r)
}

func (p inProcess) Write(ctx context.Context, r *openfgav1.WriteRequest, _ ...grpc.CallOption) (*openfgav1.WriteResponse, error) {
	return p.server.Write(ctx, r)
}

func (p inProcess) Check(ctx context.Context, r *openfgav1.CheckRequest, _ ...grpc.CallOption) (*openfgav1.CheckResponse, error) {
	return p.server.Check(ctx, r)
}

func (p inProcess) BatchCheck(ctx context.Context, r *openfgav1.BatchCheckRequest, _ ...grpc.CallOption) (*openfgav1.BatchCheckResponse, error) {
	return p.server.BatchCheck(ctx, r)
}

func (p inProcess) ListObjects(ctx context.Context, r *openfgav1.ListObjectsRequest, _ ...grpc.CallOption) (*openfgav1.ListObjectsResponse, error) {
	return p.server.ListObjects(ctx, r)
}
