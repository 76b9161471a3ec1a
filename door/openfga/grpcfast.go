package openfga

import (
	"context"
	"slices"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/ostiary/ostiary/door/openfga/wire"
)

// The frequent calls read their messages and write their answers by hand,
// where the gRPC server asks messages for that (door.ProtoReader): protobuf's
// reflection costs as much as a check. With any other server, and for messages
// that hold what is rare, the protocol's own are used.

// serviceDesc is the protocol's service, its frequent calls by hand.
func serviceDesc() *grpc.ServiceDesc {
	desc := openfgav1.OpenFGAService_ServiceDesc
	desc.Methods = slices.Clone(desc.Methods)
	for i := range desc.Methods {
		m := &desc.Methods[i]
		switch m.MethodName {
		case "Check":
			m.Handler = fastHandler[*openfgav1.CheckRequest, *openfgav1.CheckResponse](openfgav1.OpenFGAService_Check_FullMethodName, (*grpcServer).checkBytes)
		case "BatchCheck":
			m.Handler = fastHandler[*openfgav1.BatchCheckRequest, *openfgav1.BatchCheckResponse](openfgav1.OpenFGAService_BatchCheck_FullMethodName, (*grpcServer).batchBytes)
		case "ListObjects":
			m.Handler = fastHandler[*openfgav1.ListObjectsRequest, *openfgav1.ListObjectsResponse](openfgav1.OpenFGAService_ListObjects_FullMethodName, (*grpcServer).objectsBytes)
		}
	}
	return &desc
}

// fastRequest is what wire's requests have in common. M is the protocol's message.
type fastRequest[M proto.Message, R any] interface {
	*R
	ParseProto(data []byte) bool
	FromProto(M)
}

// incomingRequest is a request on its way into wire's form.
type incomingRequest[M proto.Message, R any, P fastRequest[M, R]] struct {
	request R
	message M // made where request cannot be read by hand
	made    bool
}

// ReadProto reads the request.
func (in *incomingRequest[M, R, P]) ReadProto(data []byte) error {
	if P(&in.request).ParseProto(data) {
		return nil
	}
	return proto.Unmarshal(data, in)
}

// ProtoReflect is the protocol's message, which protobuf's library fills.
func (in *incomingRequest[M, R, P]) ProtoReflect() protoreflect.Message {
	if !in.made {
		in.message, in.made = in.message.ProtoReflect().New().Interface().(M), true
	}
	return in.message.ProtoReflect()
}

// encodedResponse is an answer on its way out. A is the protocol's message.
type encodedResponse[A proto.Message] struct{ bytes []byte }

// WriteProto is the answer.
func (e *encodedResponse[A]) WriteProto() []byte { return e.bytes }

// ProtoReflect is the protocol's message, for servers that know no other.
func (e *encodedResponse[A]) ProtoReflect() protoreflect.Message {
	var like A
	m := like.ProtoReflect().New()
	if err := proto.Unmarshal(e.bytes, m.Interface()); err != nil {
		panic(err) // we wrote it
	}
	return m
}

// fastCall is a call in one piece of memory.
type fastCall[M, A proto.Message, R any, P fastRequest[M, R]] struct {
	incomingRequest[M, R, P]
	call   headers
	info   grpc.UnaryServerInfo
	answer encodedResponse[A]
}

// fastHandler makes a method of f, which answers with encoded bytes.
func fastHandler[M, A proto.Message, R any, P fastRequest[M, R]](name string, f func(*grpcServer, context.Context, *headers, P) ([]byte, error)) grpc.MethodHandler {
	return func(srv any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
		x := &fastCall[M, A, R, P]{}
		if err := decode(&x.incomingRequest); err != nil {
			return nil, err
		}
		if x.made {
			P(&x.request).FromProto(x.message)
		}
		handle := func(ctx context.Context, _ any) (_ any, err error) {
			if x.answer.bytes, err = f(srv.(*grpcServer), ctx, &x.call, &x.request); err != nil {
				return nil, err
			}
			return &x.answer, nil
		}
		if intercept == nil {
			return handle(ctx, &x.incomingRequest)
		}
		x.info.Server, x.info.FullMethod = srv, name
		return intercept(ctx, &x.incomingRequest, &x.info, handle)
	}
}

func (g *grpcServer) checkBytes(ctx context.Context, c *headers, r *wire.CheckRequest) ([]byte, error) {
	allowed, err := g.decide(ctx, c, r)
	return wire.AppendCheckProto(nil, allowed), err
}

func (g *grpcServer) batchBytes(ctx context.Context, c *headers, r *wire.BatchCheckRequest) ([]byte, error) {
	m := g.s.newBatch()
	defer g.s.recycleBatch(m)
	if err := g.decideAll(ctx, c, r, m); err != nil {
		return nil, err
	}
	const each = 16 // bytes, with a short correlation id
	out := make([]byte, 0, each*len(m.results))
	for i := range m.results {
		o := &m.results[i]
		var failure []byte
		if o.err != nil {
			var err error
			if failure, err = proto.Marshal(o.failure()); err != nil {
				return nil, err
			}
		}
		out = wire.AppendBatchResultProto(out, o.correlation, o.allowed, failure)
	}
	return out, nil
}

func (g *grpcServer) objectsBytes(ctx context.Context, c *headers, r *wire.ListObjectsRequest) ([]byte, error) {
	ids, err := g.objects(ctx, c, r)
	size := 0
	for _, id := range ids {
		size += len(r.Type) + len(id) + 4 // a colon, a tag and the length
	}
	return wire.AppendObjectsProto(make([]byte, 0, size), r.Type, ids), err
}
