package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// floorPut is the method that sets the response of a gRPC floor.
const floorPut = "/ostiary.bench.Floor/Put"

// NewGRPCFloor returns the gRPC server that servers are compared with: it reads the message
// of a call and answers it with a fixed one, without decoding either. A call of
// [FloorGRPC] sets the answer.
func NewGRPCFloor() *grpc.Server {
	var response atomic.Pointer[[]byte]
	response.Store(new([]byte))
	return grpc.NewServer(grpc.ForceServerCodec(rawCodec{}), grpc.MaxRecvMsgSize(floorBytesMax), grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
		var message []byte
		if err := s.RecvMsg(&message); err != nil {
			return err
		}
		if method, _ := grpc.MethodFromServerStream(s); method == floorPut {
			response.Store(&message)
			return s.SendMsg(new([]byte))
		}
		return s.SendMsg(response.Load())
	}))
}

// rawCodec sends and reads messages as bytes.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) ([]byte, error) {
	b, ok := v.(*[]byte)
	if !ok {
		return nil, fmt.Errorf("message %T: expected bytes", v)
	}
	return *b, nil
}

func (rawCodec) Unmarshal(data []byte, v any) error {
	b, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("message %T: expected bytes", v)
	}
	*b = append([]byte(nil), data...)
	return nil
}

// FloorGRPC is a [Target] that sends the calls of another gRPC target to a gRPC floor, which
// answers them with the other server's response.
type FloorGRPC struct {
	*GRPC
	like *GRPC
}

// NewFloorGRPC returns a target for the gRPC floor at address. It sends what like sends.
func NewFloorGRPC(address string, like *GRPC) (*FloorGRPC, error) {
	t, err := NewGRPC(address, like.token)
	if err != nil {
		return nil, err
	}
	return &FloorGRPC{t, like}, nil
}

// Setup does nothing: the floor holds no data.
func (t *FloorGRPC) Setup(context.Context, string, Tuples, func(int)) error { return nil }

// Teardown does nothing.
func (t *FloorGRPC) Teardown(context.Context) error { return nil }

// Prepare sends r to the other server once, and gives its response to the floor. A write is
// not sent, because it would change the data: its response is always empty. The floor has one
// response for all calls, so that of a call is not compared with what r expects.
func (t *FloorGRPC) Prepare(r Request) (Prepared, error) {
	t.store, t.model = t.like.store, t.like.model
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var response []byte
	if r.Write == nil && r.Remove == nil {
		sample := *t.like
		sample.client = openfgav1.NewOpenFGAServiceClient(&recordedReply{t.like.conn, &response})
		p, err := sample.Prepare(r)
		if err != nil {
			return nil, err
		}
		if err := p.Send(ctx, 0); err != nil {
			return nil, err
		}
	}
	if err := t.conn.Invoke(ctx, floorPut, &response, new([]byte), grpc.ForceCodec(rawCodec{})); err != nil {
		return nil, err
	}
	p, err := t.GRPC.Prepare(r)
	if err != nil {
		return nil, err
	}
	return grpcCall(func(ctx context.Context) (bool, error) {
		_, err := p.(grpcCall)(ctx)
		return true, err
	}), nil
}

// recordedReply is a connection that keeps the last reply.
type recordedReply struct {
	grpc.ClientConnInterface
	reply *[]byte
}

func (c *recordedReply) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	err := c.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
	if m, ok := reply.(proto.Message); ok && err == nil {
		*c.reply, err = proto.Marshal(m)
	}
	return err
}
