// Package client is OpenFGA's service in process: the calls that OpenFGA's own
// suites make, answered by the door's gRPC service, without a socket. Its main
// type is Client. It translates nothing and knows no rule of the protocol.
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

// conditionCostMax is the original's bound on a condition's cost.
const conditionCostMax = 100

// Client answers the service's calls. It is safe for concurrent use.
type Client struct {
	engine *ostiary.Engine
	server openfgav1.OpenFGAServiceServer
}

// New returns a client of an engine of its own, over the driver or, if that
// is nil, in memory. The driver stays the caller's to close.
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

// CreateStore is the service's.
func (c *Client) CreateStore(ctx context.Context, in *openfgav1.CreateStoreRequest, _ ...grpc.CallOption) (*openfgav1.CreateStoreResponse, error) {
	out, err := c.server.CreateStore(ctx, in)
	return out, wire(err)
}

// WriteAuthorizationModel is the service's.
func (c *Client) WriteAuthorizationModel(ctx context.Context, in *openfgav1.WriteAuthorizationModelRequest, _ ...grpc.CallOption) (*openfgav1.WriteAuthorizationModelResponse, error) {
	out, err := c.server.WriteAuthorizationModel(ctx, in)
	return out, wire(err)
}

// Write is the service's.
func (c *Client) Write(ctx context.Context, in *openfgav1.WriteRequest, _ ...grpc.CallOption) (*openfgav1.WriteResponse, error) {
	out, err := c.server.Write(ctx, in)
	return out, wire(err)
}

// Check is the service's.
func (c *Client) Check(ctx context.Context, in *openfgav1.CheckRequest, _ ...grpc.CallOption) (*openfgav1.CheckResponse, error) {
	out, err := c.server.Check(ctx, in)
	return out, wire(err)
}

// BatchCheck is the service's.
func (c *Client) BatchCheck(ctx context.Context, in *openfgav1.BatchCheckRequest, _ ...grpc.CallOption) (*openfgav1.BatchCheckResponse, error) {
	out, err := c.server.BatchCheck(ctx, in)
	return out, wire(err)
}

// ListObjects is the service's.
func (c *Client) ListObjects(ctx context.Context, in *openfgav1.ListObjectsRequest, _ ...grpc.CallOption) (*openfgav1.ListObjectsResponse, error) {
	out, err := c.server.ListObjects(ctx, in)
	return out, wire(err)
}

// ListUsers is the service's.
func (c *Client) ListUsers(ctx context.Context, in *openfgav1.ListUsersRequest, _ ...grpc.CallOption) (*openfgav1.ListUsersResponse, error) {
	out, err := c.server.ListUsers(ctx, in)
	return out, wire(err)
}

// StreamedListObjects is the service's. An error comes with the stream, as it
// does over the wire.
func (c *Client) StreamedListObjects(ctx context.Context, in *openfgav1.StreamedListObjectsRequest, _ ...grpc.CallOption) (openfgav1.OpenFGAService_StreamedListObjectsClient, error) {
	sent := &sentStream{ctx: ctx}
	err := c.server.StreamedListObjects(in, sent)
	return &stream{objects: sent.objects, err: wire(err)}, nil
}

// wire gives an error the form that it has behind a socket.
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

// stream gives out what was sent, and then its error.
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
