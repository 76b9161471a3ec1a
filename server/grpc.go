package server

import (
	"context"
	"fmt"
	"log/slog"
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

	"github.com/ostiary/ostiary/authz"
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
	door   *servedDoor
	full   string  // "/package.Service/Method"
	series *series // the metrics of the method
	public bool    // needs no key
	// stream is true unless a call has one request and one response.
	stream bool
	// clientStreams is true if a call may have several requests.
	clientStreams bool
	// writes is true for one of Writes of [door.Service]; mayWrite is its MayWrite.
	writes   bool
	mayWrite func() bool
}

// changes reports whether a call of the method changes a store, or may do so.
func (m *method) changes() bool {
	return m.writes || !m.stream && m.mayWrite != nil && m.mayWrite()
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
	m := newMethod(i.owner, &service, name, i.metrics)
	m.stream, m.clientStreams = stream, clientStreams
	i.methods[m.full] = m
	return m
}

// newMethod returns a unary method of a service of a door.
func newMethod(d *servedDoor, s *door.Service, name string, metrics *metrics) *method {
	service := s.Desc.ServiceName[strings.LastIndexByte(s.Desc.ServiceName, '.')+1:]
	m := &method{door: d, full: "/" + s.Desc.ServiceName + "/" + name, series: metrics.series(d.Name, "grpc", service+"."+name)}
	m.public = slices.Contains(s.Public, m.full)
	m.writes, m.mayWrite = slices.Contains(s.Writes, name), s.MayWrite
	return m
}

// keyOfCall is the context key of the *hashedKey that the tap has found.
type keyOfCall struct{}

// reasonsOfCall is the context key of the []string that a call has as metadata for
// the reason of its writes.
type reasonsOfCall struct{}

// tap authenticates a call when its headers have arrived, before gRPC accepts
// any part of a message.
func (i *interceptor) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	m := i.methods[info.FullMethodName]
	if reasons := info.Header[metadataReason]; reasons != nil {
		ctx = context.WithValue(ctx, reasonsOfCall{}, reasons)
	}
	if m == nil || m.public || !i.keys.required() {
		return ctx, nil
	}
	key, why := i.keys.identify(ctx, info.Header["authorization"], false, conn.OfCall(ctx))
	if why == 0 {
		return context.WithValue(door.WithCaller(ctx, key.caller), keyOfCall{}, key), nil
	}
	start := time.Now()
	if why == door.BadCredentials {
		i.metrics.loginFailed(m.door.Name, i.keys.refusedBy(info.Header["authorization"]))
		i.logins.Failed(m.door.Name, remoteOf(ctx), "", (&door.Refusal{Reason: why}).Error())
	}
	if c := conn.OfCall(ctx); c != nil {
		c.DelayRefusal(ctx, i.stopping)
	}
	i.recordTap(remoteOf(ctx), m, why)
	err := i.refuse(m, &door.Refusal{Reason: why})
	i.end(ctx, m, start, &authz.Author{}, &err)
	return nil, err
}

// counted returns the handler of a method. It counts the call, admits it, and
// runs serve.
func (i *interceptor) counted(m *method, serve func(srv any, c *call) error) grpc.StreamHandler {
	return func(srv any, ss grpc.ServerStream) (err error) {
		start := time.Now()
		c := &call{interceptor: i, method: m, ServerStream: ss, start: start}
		defer func() { _ = c.record(err) }() // unless it has a record
		defer i.end(ss.Context(), m, start, &c.ctx.journal.Author, &err)
		why := c.admit()
		if why == nil && m.changes() && i.trail.Ready() != nil {
			c.release()
			why = &door.Refusal{Reason: door.Unaudited}
		}
		if why != nil {
			c.refusal = why
			return i.refuse(m, why)
		}
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
		if c.key != nil && c.key.ended() {
			err = m.shape(&door.Refusal{Reason: door.BadCredentials}) // endable counts it
		}
		return err
	})
}

// refuse counts and logs a refusal, and returns it in the shape of the method's door.
func (i *interceptor) refuse(m *method, why *door.Refusal) error {
	i.metrics.refused(why.Reason)
	if i.log.Enabled(context.Background(), slog.LevelDebug) {
		i.log.Debug("refused", "why", why.Error())
	}
	return m.shape(why)
}

// shape returns a refusal as an error in the shape of the method's door.
func (m *method) shape(why *door.Refusal) error {
	switch {
	case m.stream && m.door.RefuseStream != nil:
		return m.door.RefuseStream(why)
	case m.door.RefuseRPC != nil:
		return m.door.RefuseRPC(why)
	}
	return status.Error(why.Code(), why.Error())
}

// end counts and logs a call, whose writes have the author a. It must be deferred,
// because it also turns a panic of the handler into the door's refusal.
func (i *interceptor) end(ctx context.Context, m *method, start time.Time, a *authz.Author, err *error) {
	if p := recover(); p != nil {
		logPanic(i.log, p, m.door.Name, m.full, "")
		*err = i.refuse(m, &door.Refusal{Reason: door.Failed})
	}
	took := time.Since(start)
	code := status.Code(*err)
	m.series.observe(took, outcomeOfCode(code))
	if i.accessLog {
		key, _ := ctx.Value(keyOfCall{}).(*hashedKey)
		line := []slog.Attr{slog.String("door", m.door.Name), slog.String("route", m.series.route), slog.String("method", "GRPC"),
			slog.String("status", code.String()), millis(took), slog.String("caller", callerText(m.door.Door, key, a)), slog.String("remote", remoteOf(ctx))}
		i.log.LogAttrs(context.Background(), slog.LevelInfo, "request", logRevision(line, a)...)
	}
}

// remoteOf returns the address of the caller of a gRPC method.
func remoteOf(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok {
		return p.Addr.String()
	}
	return ""
}
