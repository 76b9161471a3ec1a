package server

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/ostiary/ostiary/door"
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

// ownDoor is the label of the server's own services, which every key may use.
const ownDoor = "server"

// method is one gRPC method with what its calls need.
type method struct {
	operation
	door *servedDoor
	full string // "/package.Service/Method"
	// clientStreams is true if a call may have several requests.
	clientStreams bool
}

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

// newMethod returns a method of a service of a door. stream is true unless a call has one
// request and one response.
func newMethod(d *servedDoor, s *door.Service, name string, stream bool, metrics *metrics) *method {
	service := s.Desc.ServiceName[strings.LastIndexByte(s.Desc.ServiceName, '.')+1:]
	m := &method{door: d, full: "/" + s.Desc.ServiceName + "/" + name}
	m.operation = operation{series: metrics.series(d.Name, "grpc", service+"."+name), public: slices.Contains(s.Public, m.full),
		streams: stream, writes: slices.Contains(s.Writes, name)}
	if !stream {
		m.mayWrite = s.MayWrite
	}
	return m
}

// keyOfCall is the context key of the *hashedKey that the tap has found.
type keyOfCall struct{}

// headerOfCall is the context key of the [http.Header] with what a call has as metadata for
// the reason of its writes, in place of a header.
type headerOfCall struct{}

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
		defer func() { _ = c.record(err) }() // unless it has a record
		defer c.endCall(m, &err)
		gates := callGates[:]
		if c.required && m.public {
			gates = publicCallGates[:]
		}
		if c.refusal = c.pass(gates); c.refusal != nil {
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

// pass is an interceptor that does nothing.
func pass(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	return handle(ctx, request)
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

// refuseCall counts and logs a refusal, and returns it in the shape of the method's door.
func (s *shared) refuseCall(m *method, why *door.Refusal) error {
	s.metrics.refused(why.Reason)
	if s.log.Enabled(context.Background(), slog.LevelDebug) {
		s.log.Debug("refused", "why", why.Error())
	}
	return m.shape(why)
}

// shape returns a refusal as an error in the shape of the method's door.
func (m *method) shape(why *door.Refusal) error {
	switch {
	case m.streams && m.door.RefuseStream != nil:
		return m.door.RefuseStream(why)
	case m.door.RefuseRPC != nil:
		return m.door.RefuseRPC(why)
	}
	return status.Error(why.Code(), why.Error())
}

// endCall counts and logs a call. It must be deferred, because it also turns a panic of the
// handler into the door's refusal.
func (p *passage) endCall(m *method, err *error) {
	if v := recover(); v != nil {
		logPanic(p.log, v, m.door.Name, m.full, "")
		*err = p.refuseCall(m, &door.Refusal{Reason: door.Failed})
	}
	took := time.Since(p.start)
	code := status.Code(*err)
	m.series.observe(took, outcomeOfCode(code))
	if p.accessLog {
		key := p.ctx.key
		if !key.known() {
			key = nil
		}
		line := []slog.Attr{slog.String("door", m.door.Name), slog.String("route", m.series.route), slog.String("method", "GRPC"),
			slog.String("status", code.String()), millis(took), slog.String("caller", callerText(m.door.Door, key, &p.ctx.journal.Author)), slog.String("remote", p.from())}
		p.log.LogAttrs(context.Background(), slog.LevelInfo, "request", logRevision(line, &p.ctx.journal.Author)...)
	}
}

// remoteOf returns the address of the caller of a gRPC method.
func remoteOf(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok {
		return p.Addr.String()
	}
	return ""
}
