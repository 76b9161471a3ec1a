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
			m.Handler = byHand[*openfgav1.CheckRequest, *openfgav1.CheckResponse](openfgav1.OpenFGAService_Check_FullMethodName, (*grpcServer).checkBytes)
		case "BatchCheck":
			m.Handler = byHand[*openfgav1.BatchCheckRequest, *openfgav1.BatchCheckResponse](openfgav1.OpenFGAService_BatchCheck_FullMethodName, (*grpcServer).batchBytes)
		case "ListObjects":
			m.Handler = byHand[*openfgav1.ListObjectsRequest, *openfgav1.ListObjectsResponse](openfgav1.OpenFGAService_ListObjects_FullMethodName, (*grpcServer).objectsBytes)
		}
	}
	return &desc
}

// readable is what wire's requests have in common. M is the protocol's message.
type readable[M proto.Message, R any] interface {
	*R
	ParseProto(data []byte) bool
	FromProto(M)
}

// incoming is a request on its way into wire's form.
type incoming[M proto.Message, R any, P readable[M, R]] struct {
	request R
	message M // made where request cannot be read by hand
	made    bool
}

// ReadProto reads the request.
func (in *incoming[M, R, P]) ReadProto(data []byte) error {
	if P(&in.request).ParseProto(data) {
		return nil
	}
	return proto.Unmarshal(data, in)
}

// ProtoReflect is the protocol's message, which protobuf's library fills.
func (in *incoming[M, R, P]) ProtoReflect() protoreflect.Message {
	if !in.made {
		in.message, in.made = in.message.ProtoReflect().New().Interface().(M), true
	}
	return in.message.ProtoReflect()
}

// encoded is an answer on its way out. A is the protocol's message.
type encoded[A proto.Message] struct{ bytes []byte }

// WriteProto is the answer.
func (e *encoded[A]) WriteProto() []byte { return e.bytes }

// ProtoReflect is the protocol's message, for servers that know no other.
func (e *encoded[A]) ProtoReflect() protoreflect.Message {
	var like A
	m := like.ProtoReflect().New()
	if err := proto.Unmarshal(e.bytes, m.Interface()); err != nil {
		panic(err) // we wrote it
	}
	return m
}

// handCall is a call in one piece of memory.
type handCall[M, A proto.Message, R any, P readable[M, R]] struct {
	incoming[M, R, P]
	call   call
	info   grpc.UnaryServerInfo
	answer encoded[A]
}

// byHand makes a method of f, which answers with encoded bytes.
func byHand[M, A proto.Message, R any, P readable[M, R]](name string, f func(*grpcServer, context.Context, *call, P) ([]byte, error)) grpc.MethodHandler {
	return func(srv any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
		x := &handCall[M, A, R, P]{}
		if err := decode(&x.incoming); err != nil {
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
			return handle(ctx, &x.incoming)
		}
		x.info.Server, x.info.FullMethod = srv, name
		return intercept(ctx, &x.incoming, &x.info, handle)
	}
}

func (g *grpcServer) checkBytes(ctx context.Context, c *call, r *wire.CheckRequest) ([]byte, error) {
	allowed, err := g.decide(ctx, c, r)
	return wire.AppendCheckProto(nil, allowed), err
}

func (g *grpcServer) batchBytes(ctx context.Context, c *call, r *wire.BatchCheckRequest) ([]byte, error) {
	m := g.s.many()
	defer g.s.free(m)
	if err := g.decideAll(ctx, c, r, m); err != nil {
		return nil, err
	}
	const each = 16 // bytes, with a short correlation id
	out := make([]byte, 0, each*len(m.outcomes))
	for i := range m.outcomes {
		o := &m.outcomes[i]
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

func (g *grpcServer) objectsBytes(ctx context.Context, c *call, r *wire.ListObjectsRequest) ([]byte, error) {
	ids, err := g.objects(ctx, c, r)
	size := 0
	for _, id := range ids {
		size += len(r.Type) + len(id) + 4 // a colon, a tag and the length
	}
	return wire.AppendObjectsProto(make([]byte, 0, size), r.Type, ids), err
}
