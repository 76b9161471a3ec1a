package server

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/tap"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/trail/audit"
	"github.com/ostiary/ostiary/server/internal/conn"
)

const (
	// grpcWorkersPerProcessor is the number of goroutines per processor that wait
	// for calls. Their stacks have already grown; growing the stack of a new
	// goroutine is a sixth of the cost of a small call. When all are busy, calls
	// get new goroutines.
	grpcWorkersPerProcessor = 32
	// grpcWindow is how much of a message gRPC accepts before the server reads the
	// message's length, in bytes. It is the smallest window that gRPC has.
	grpcWindow = 64 << 10
	// grpcReadBuffer is the read buffer of each connection, in bytes. Write
	// buffers are shared by all connections.
	grpcReadBuffer = 8 << 10

	grpcPingAfter       = time.Minute      // the server pings a connection that is silent for so long
	grpcPingTimeout     = 20 * time.Second // and closes it if no answer comes within this time
	grpcPingIntervalMin = 10 * time.Second // a client that pings more often is disconnected
)

// interceptor guards one gRPC port. Every call of every service passes its tap,
// and then its unary or its stream handler. It is the [grpc.ServiceRegistrar] of
// the port, and registers services with these handlers.
type interceptor struct {
	*shared
	server   *grpc.Server
	methods  map[string]*method          // by full name
	owner    *servedDoor                 // the door whose service is registered now
	service  *door.Service               // that service
	forwards map[string]*forwardedMethod // see Server.methods
}

// newGRPC returns a gRPC server with the services of doors, reflection and
// health. It returns an error if two doors have the same service.
func (s *Server) newGRPC(doors []*servedDoor) (*grpc.Server, error) {
	i := &interceptor{shared: s.shared, methods: map[string]*method{}, forwards: s.methods}
	i.server = grpc.NewServer(s.grpcOptions(i)...)
	for _, d := range doors {
		for _, service := range d.Services {
			if _, exists := i.server.GetServiceInfo()[service.Desc.ServiceName]; exists {
				return nil, fmt.Errorf("two doors have the gRPC service %s", service.Desc.ServiceName)
			}
			i.owner, i.service = d, &service
			i.RegisterService(service.Desc, service.Impl)
		}
	}
	i.owner = &servedDoor{Door: &door.Door{Name: ownDoor}}
	i.service = &door.Service{Public: []string{healthpb.Health_Check_FullMethodName, healthpb.Health_Watch_FullMethodName, healthpb.Health_List_FullMethodName}}
	healthpb.RegisterHealthServer(i, s.health)
	reflection.Register(i)
	s.health.register(i.server.GetServiceInfo())
	return i.server, nil
}

// grpcOptions returns the settings of a gRPC server that i guards.
func (s *Server) grpcOptions(i *interceptor) []grpc.ServerOption {
	o := &s.opts
	options := []grpc.ServerOption{
		grpc.InTapHandle(i.tap), grpc.ForceServerCodecV2(i.codec),
		grpc.NumStreamWorkers(uint32(grpcWorkersPerProcessor * runtime.GOMAXPROCS(0))),

		grpc.MaxRecvMsgSize(int(o.BodyBytes)), grpc.MaxHeaderListSize(uint32(o.HeaderBytes)),
		grpc.MaxConcurrentStreams(uint32(o.StreamsPerConnection)), grpc.ConnectionTimeout(o.HeaderTimeout),
		grpc.InitialWindowSize(grpcWindow), grpc.InitialConnWindowSize(grpcWindow),
		grpc.ReadBufferSize(grpcReadBuffer), grpc.SharedWriteBuffer(true),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: grpcPingAfter, Timeout: grpcPingTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: grpcPingIntervalMin, PermitWithoutStream: true}),
	}
	transport := insecure.NewCredentials()
	if o.TLS != nil {
		transport = credentials.NewTLS(o.TLS.config(o.ClientCA, "h2"))
	}
	return append(options, grpc.Creds(conn.NewCredentials(transport, s.shared.shaken)))
}

// RegisterService registers a service whose calls i guards. All its methods
// become streams for grpc-go, which reads the message of any other method before
// it calls the server.
func (i *interceptor) RegisterService(desc *grpc.ServiceDesc, impl any) {
	guarded := *desc
	guarded.Methods, guarded.Streams = nil, make([]grpc.StreamDesc, 0, len(desc.Methods)+len(desc.Streams))
	for _, m := range desc.Methods {
		guarded.Streams = append(guarded.Streams, grpc.StreamDesc{StreamName: m.MethodName, ServerStreams: true,
			Handler: i.unary(i.addMethod(desc, m.MethodName, false, false), m.Handler)})
	}
	for _, s := range desc.Streams {
		handle := i.stream(i.addMethod(desc, s.StreamName, true, s.ClientStreams), s.Handler)
		guarded.Streams = append(guarded.Streams, grpc.StreamDesc{StreamName: s.StreamName, ServerStreams: s.ServerStreams,
			ClientStreams: s.ClientStreams, Handler: handle})
	}
	i.server.RegisterService(&guarded, impl)
}

// GetServiceInfo returns the registered services, for reflection.
func (i *interceptor) GetServiceInfo() map[string]grpc.ServiceInfo { return i.server.GetServiceInfo() }

func (i *interceptor) addMethod(desc *grpc.ServiceDesc, name string, stream, clientStreams bool) *method {
	service := *i.service
	service.Desc = desc
	m := newMethod(i.owner, &service, name, stream, i.metrics)
	m.clientStreams = clientStreams
	i.methods[m.full] = m
	return m
}

// tap authenticates a call when its headers have arrived, before gRPC accepts
// any part of a message.
func (i *interceptor) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	m := i.methods[info.FullMethodName]
	if reasons := info.Header[metadataReason]; reasons != nil {
		ctx = context.WithValue(ctx, headerOfCall{}, http.Header{headerReason: reasons})
	}
	if m == nil || m.public || !i.keys.required() {
		return ctx, nil
	}
	p := passage{shared: i.shared, op: &m.operation, door: m.door, conn: conn.OfCall(ctx)}
	p.ctx.Context = ctx
	if why := p.identify(info.Header["authorization"]); why != nil {
		return nil, i.refuseTap(ctx, m, why)
	}
	return context.WithValue(p.ctx.Context, keyOfCall{}, p.ctx.key), nil
}

// refuseTap returns the error of a call that is refused because of its headers.
func (i *interceptor) refuseTap(ctx context.Context, m *method, why *door.Refusal) (err error) {
	p := &passage{shared: i.shared, op: &m.operation, door: m.door, start: time.Now()}
	p.ctx.Context = ctx
	if p.tracer != nil {
		p.conn = i.detached
		p.beginSpan("", incoming{ctx})
		p.refused(why)
	}
	defer p.endCall(m, &err)
	if c := conn.OfCall(ctx); c != nil {
		c.DelayRefusal(ctx, i.stopping)
	}
	p.recordTap(why)
	return i.refuseCall(m, why)
}

// counted returns the handler of a method. It counts the call, sends it through the gates, and
// runs serve.
func (i *interceptor) counted(m *method, serve func(srv any, c *call) error) grpc.StreamHandler {
	return func(srv any, ss grpc.ServerStream) (err error) {
		c := newCall(i.shared, m, ss)
		defer c.pace(ss.Context())
		defer func() { _ = c.record(err) }() // unless it has a record
		defer c.endCall(m, &err)
		gates := callGates[:]
		if c.required && m.public {
			gates = publicCallGates[:]
		}
		c.refusal = c.pass(gates)
		if c.tracer != nil {
			c.beginSpan("", incoming{c.ctx.Context})
		}
		if c.refusal != nil {
			c.refused(c.refusal)
			c.leave()
			return c.refuseCall(m, c.refusal)
		}
		c.begin()
		defer c.release()
		return serve(srv, c)
	}
}

// unary returns the handler of a method with one request and one response. It
// counts the call and then reads the request.
func (i *interceptor) unary(m *method, handle grpc.MethodHandler) grpc.StreamHandler {
	return i.counted(m, func(srv any, c *call) error {
		if i.sender != nil && m.changes() {
			return c.forward(i.forwards[m.full])
		}
		out, err := handle(srv, &c.ctx, c.decode, pass)
		if failed := c.record(err); failed != nil {
			return failed
		}
		if err != nil {
			return err
		}
		return c.SendMsg(out)
	})
}

// stream returns the handler of a method with streams.
func (i *interceptor) stream(m *method, handle grpc.StreamHandler) grpc.StreamHandler {
	return i.counted(m, func(srv any, c *call) error {
		defer c.endable()()
		err := handle(srv, c)
		if c.ctx.key != nil && c.ctx.key.ended() {
			err = m.shape(&door.Refusal{Reason: door.BadCredentials}) // endable counts it
		}
		return err
	})
}

// recordTap adds the record of a call that is refused because of its headers.
func (p *passage) recordTap(why *door.Refusal) {
	if p.trail == nil {
		return
	}
	r := audit.Record{Time: time.Now(), Door: p.door.Name, Operation: p.op.series.route, Method: "GRPC", From: p.from(),
		Outcome: audit.Refused, Status: why.Code().String()}
	_ = p.record(&r, why, false) // the call has no effect
}
