// Package client calls the gRPC service of door/openfga in process, without a
// socket. Its main type is [Client], which has the calls that OpenFGA's own suites
// make. It translates nothing and has no rule of the protocol.
package client

import (
	"context"
	"io"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door/openfga"
	"github.com/ostiary/ostiary/expr/cel"
	"github.com/ostiary/ostiary/storage"
)

// conditionCostMax is OpenFGA's bound on the cost of a condition.
const conditionCostMax = 100

// Client makes the calls. It is safe for concurrent use.
type Client struct {
	engine *ostiary.Engine
	server openfgav1.OpenFGAServiceServer
}

// New returns a client of a new engine on a driver, or in memory if driver is
// nil. The caller closes the driver after the client.
func New(ctx context.Context, driver storage.Driver) (*Client, error) {
	conditions := openfga.Conditions{Inner: cel.New(cel.Options{CostMax: conditionCostMax})}
	engine, err := ostiary.Open(ctx, ostiary.Options{Driver: driver, Conditions: conditions})
	if err != nil {
		return nil, err
	}
	d, err := openfga.New(engine, openfga.Options{InlineExpressions: true})
	if err != nil {
		return nil, err
	}
	return &Client{engine, d.Services[0].Impl.(openfgav1.OpenFGAServiceServer)}, nil
}

// Close closes the engine.
func (c *Client) Close() error { return c.engine.Close() }

// CreateStore makes the call of that name.
func (c *Client) CreateStore(ctx context.Context, in *openfgav1.CreateStoreRequest, _ ...grpc.CallOption) (*openfgav1.CreateStoreResponse, error) {
	out, err := c.server.CreateStore(ctx, in)
	return out, wire(err)
}

// WriteAuthorizationModel makes the call of that name.
func (c *Client) WriteAuthorizationModel(ctx context.Context, in *openfgav1.WriteAuthorizationModelRequest, _ ...grpc.CallOption) (*openfgav1.WriteAuthorizationModelResponse, error) {
	out, err := c.server.WriteAuthorizationModel(ctx, in)
	return out, wire(err)
}

// Write makes the call of that name.
func (c *Client) Write(ctx context.Context, in *openfgav1.WriteRequest, _ ...grpc.CallOption) (*openfgav1.WriteResponse, error) {
	out, err := c.server.Write(ctx, in)
	return out, wire(err)
}

// Check makes the call of that name.
func (c *Client) Check(ctx context.Context, in *openfgav1.CheckRequest, _ ...grpc.CallOption) (*openfgav1.CheckResponse, error) {
	out, err := c.server.Check(ctx, in)
	return out, wire(err)
}

// BatchCheck makes the call of that name.
func (c *Client) BatchCheck(ctx context.Context, in *openfgav1.BatchCheckRequest, _ ...grpc.CallOption) (*openfgav1.BatchCheckResponse, error) {
	out, err := c.server.BatchCheck(ctx, in)
	return out, wire(err)
}

// ListObjects makes the call of that name.
func (c *Client) ListObjects(ctx context.Context, in *openfgav1.ListObjectsRequest, _ ...grpc.CallOption) (*openfgav1.ListObjectsResponse, error) {
	out, err := c.server.ListObjects(ctx, in)
	return out, wire(err)
}

// ListUsers makes the call of that name.
func (c *Client) ListUsers(ctx context.Context, in *openfgav1.ListUsersRequest, _ ...grpc.CallOption) (*openfgav1.ListUsersResponse, error) {
	out, err := c.server.ListUsers(ctx, in)
	return out, wire(err)
}

// StreamedListObjects makes the call of that name. As over a socket, the stream
// returns the call's error.
func (c *Client) StreamedListObjects(ctx context.Context, in *openfgav1.StreamedListObjectsRequest, _ ...grpc.CallOption) (openfgav1.OpenFGAService_StreamedListObjectsClient, error) {
	sent := &sentStream{ctx: ctx}
	err := c.server.StreamedListObjects(in, sent)
	return &stream{objects: sent.objects, err: wire(err)}, nil
}

// wire returns an error as it arrives over a socket.
func wire(err error) error {
	if err == nil {
		return nil
	}
	return status.Convert(err).Err()
}

// sentStream keeps what the service sends.
type sentStream struct {
	grpc.ServerStream
	ctx     context.Context
	objects []*openfgav1.StreamedListObjectsResponse
}

func (s *sentStream) Context() context.Context { return s.ctx }

func (s *sentStream) Send(o *openfgav1.StreamedListObjectsResponse) error {
	s.objects = append(s.objects, o)
	return nil
}

// stream returns the objects that were sent, and then the error.
type stream struct {
	grpc.ClientStream
	objects []*openfgav1.StreamedListObjectsResponse
	err     error
}

func (s *stream) Recv() (*openfgav1.StreamedListObjectsResponse, error) {
	if len(s.objects) > 0 {
		o := s.objects[0]
		s.objects = s.objects[1:]
		return o, nil
	}
	if s.err != nil {
		return nil, s.err
	}
	return nil, io.EOF
}
