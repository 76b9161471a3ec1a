package openfga

import (
	"context"
	"slices"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/ostiary/ostiary/door/openfga/internal/wire"
)

// The calls with large messages read their requests and write their responses without
// protobuf's reflection, which costs a batch more than its checks. This needs a gRPC server
// that supports it ([door.ProtoReader]). Other servers, and rare messages, use the
// generated messages.

// serviceDesc returns the protocol's service with fast handlers for the calls with
// large messages.
func serviceDesc() *grpc.ServiceDesc {
	desc := openfgav1.OpenFGAService_ServiceDesc
	desc.Methods = slices.Clone(desc.Methods)
	for i := range desc.Methods {
		m := &desc.Methods[i]
		switch m.MethodName {
		case "BatchCheck":
			m.Handler = fastHandler[*openfgav1.BatchCheckRequest, *openfgav1.BatchCheckResponse](openfgav1.OpenFGAService_BatchCheck_FullMethodName, (*grpcServer).batchBytes)
		case "ListObjects":
			m.Handler = fastHandler[*openfgav1.ListObjectsRequest, *openfgav1.ListObjectsResponse](openfgav1.OpenFGAService_ListObjects_FullMethodName, (*grpcServer).objectsBytes)
		}
	}
	return &desc
}

// fastRequest has the methods that wire's requests share. M is the generated
// message.
type fastRequest[M proto.Message, R any] interface {
	*R
	ParseProto(data []byte) bool
	FromProto(M)
}

// incomingRequest is a request that is being decoded into wire's form.
type incomingRequest[M proto.Message, R any, P fastRequest[M, R]] struct {
	request R
	message M // used if request cannot be read by hand
	made    bool
}

// ReadProto decodes the request. It implements [door.ProtoReader].
func (in *incomingRequest[M, R, P]) ReadProto(data []byte) error {
	if P(&in.request).ParseProto(data) {
		return nil
	}
	return proto.Unmarshal(data, in)
}

// ProtoReflect returns the generated message, which protobuf's library fills.
func (in *incomingRequest[M, R, P]) ProtoReflect() protoreflect.Message {
	if !in.made {
		in.message, in.made = in.message.ProtoReflect().New().Interface().(M), true
	}
	return in.message.ProtoReflect()
}

// encodedResponse is a response in protobuf. A is the generated message.
type encodedResponse[A proto.Message] struct{ bytes []byte }

// WriteProto returns the bytes of the response.
func (e *encodedResponse[A]) WriteProto() []byte { return e.bytes }

// ProtoReflect returns the generated message, for servers that do not use
// WriteProto.
func (e *encodedResponse[A]) ProtoReflect() protoreflect.Message {
	var like A
	m := like.ProtoReflect().New()
	if err := proto.Unmarshal(e.bytes, m.Interface()); err != nil {
		panic(err) // this package encoded it
	}
	return m
}

// fastCall is a request and its response in one allocation.
type fastCall[M, A proto.Message, R any, P fastRequest[M, R]] struct {
	incomingRequest[M, R, P]
	call   headers
	info   grpc.UnaryServerInfo
	answer encodedResponse[A]
}

// fastHandler returns the gRPC handler of f, which returns an encoded response.
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

func (g *grpcServer) batchBytes(ctx context.Context, c *headers, r *wire.BatchCheckRequest) ([]byte, error) {
	m := g.s.newBatch()
	defer g.s.recycleBatch(m)
	if err := g.decideAll(ctx, c, r, m); err != nil {
		return nil, err
	}
	const resultBytes = 16 // of one result with a short correlation id
	out := make([]byte, 0, resultBytes*len(m.results))
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
