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
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	"github.com/ostiary/ostiary/door"
)

const (
	// grpcWorkersPerProcessor is the number of goroutines per processor that wait
	// for calls. Their stacks have already grown; growing the stack of a new
	// goroutine is a sixth of the cost of a small call. When all are busy, calls
	// get new goroutines.
	grpcWorkersPerProcessor = 32
	// grpcStreamsPerConnection bounds the calls in flight on one connection.
	// RequestsMax and StreamsMax bound those of all connections.
	grpcStreamsPerConnection = 10_000
	// publicStreamsDivisor: StreamsMax divided by it bounds the streams of callers
	// without a key, if keys are set. Only health's Watch is such a stream.
	publicStreamsDivisor = 10

	grpcPingAfter       = time.Minute      // the server pings a connection that is silent for so long
	grpcPingTimeout     = 20 * time.Second // and closes it if no answer comes within this time
	grpcPingIntervalMin = 10 * time.Second // a client that pings more often is disconnected
)

// method is one gRPC method with what its calls need.
type method struct {
	door   *servedDoor
	series *series // the metrics of the method
	public bool    // needs no key
}

// interceptor guards one gRPC port. Every call of every service passes its
// unary or its stream method.
type interceptor struct {
	*shared
	methods map[string]*method // by full name, "/package.Service/Method"
}

// newGRPC returns a gRPC server with the services of doors, reflection and
// health. It returns an error if two doors have the same service.
func (s *Server) newGRPC(doors []*servedDoor) (*grpc.Server, error) {
	i := &interceptor{shared: s.shared, methods: map[string]*method{}}
	server := grpc.NewServer(s.grpcOptions(i)...)
	for _, d := range doors {
		for _, service := range d.Services {
			if _, exists := server.GetServiceInfo()[service.Desc.ServiceName]; exists {
				return nil, fmt.Errorf("two doors have the gRPC service %s", service.Desc.ServiceName)
			}
			server.RegisterService(service.Desc, service.Impl)
			i.addService(d, service.Desc, service.Public)
		}
	}
	own := &servedDoor{Door: &door.Door{Name: "server"}} // the label of the server's own services
	healthpb.RegisterHealthServer(server, s.health)
	i.addService(own, &healthpb.Health_ServiceDesc, []string{healthpb.Health_Check_FullMethodName, healthpb.Health_Watch_FullMethodName,
		healthpb.Health_List_FullMethodName})
	i.addReflection(own, server)
	return server, nil
}

// grpcOptions returns the settings of a gRPC server that i guards.
func (s *Server) grpcOptions(i *interceptor) []grpc.ServerOption {
	o := &s.opts
	options := []grpc.ServerOption{
		grpc.UnaryInterceptor(i.unary), grpc.StreamInterceptor(i.stream), grpc.ForceServerCodecV2(newCodec()),
		grpc.NumStreamWorkers(uint32(grpcWorkersPerProcessor * runtime.GOMAXPROCS(0))),

		grpc.MaxRecvMsgSize(int(o.BodyBytes)), grpc.MaxHeaderListSize(uint32(o.HeaderBytes)),
		grpc.MaxConcurrentStreams(grpcStreamsPerConnection), grpc.ConnectionTimeout(o.HeaderTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: grpcPingAfter, Timeout: grpcPingTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: grpcPingIntervalMin, PermitWithoutStream: true}),
	}
	if o.TLS != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(o.TLS.config("h2"))))
	}
	return options
}

// addService adds the methods of a service. public lists the full names of the
// methods that need no key.
func (i *interceptor) addService(d *servedDoor, desc *grpc.ServiceDesc, public []string) {
	service := desc.ServiceName[strings.LastIndexByte(desc.ServiceName, '.')+1:]
	add := func(name string) {
		full := "/" + desc.ServiceName + "/" + name
		i.methods[full] = &method{door: d, series: i.metrics.series(d.Name, "grpc", service+"."+name), public: slices.Contains(public, full)}
	}
	for _, m := range desc.Methods {
		add(m.MethodName)
	}
	for _, stream := range desc.Streams {
		add(stream.StreamName)
	}
}

// addReflection registers gRPC's reflection services and adds their methods.
func (i *interceptor) addReflection(own *servedDoor, server *grpc.Server) {
	before := server.GetServiceInfo()
	reflection.Register(server)
	for name, info := range server.GetServiceInfo() {
		if _, existed := before[name]; existed {
			continue
		}
		for _, m := range info.Methods {
			i.methods["/"+name+"/"+m.Name] = &method{door: own, series: i.metrics.series(own.Name, "grpc", m.Name)}
		}
	}
}

// unary guards, bounds and counts a call with one request and one response.
func (i *interceptor) unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (_ any, err error) {
	start := time.Now()
	m := i.methods[info.FullMethod]
	if m == nil {
		return nil, i.refuse(nil, false, &door.Refusal{Reason: door.Failed})
	}
	defer i.end(m, info.FullMethod, start, false, &err)
	ctx, why := i.authenticate(ctx, m)
	if why != nil {
		return nil, i.refuse(m.door, false, why)
	}
	if why := i.requests.acquire(); why != nil {
		return nil, i.refuse(m.door, false, why)
	}
	defer i.requests.release()
	if i.requestTimeout > 0 {
		deadline := start.Add(i.requestTimeout)
		if client, ok := ctx.Deadline(); !ok || deadline.Before(client) {
			limited := &lazyDeadline{Context: ctx, deadline: deadline}
			defer limited.release()
			ctx = limited
		}
	}
	return handle(ctx, request)
}

// stream guards, bounds and counts a call with streams.
func (i *interceptor) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) (err error) {
	start := time.Now()
	m := i.methods[info.FullMethod]
	if m == nil {
		return i.refuse(nil, true, &door.Refusal{Reason: door.Failed})
	}
	defer i.end(m, info.FullMethod, start, true, &err)
	ctx, why := i.authenticate(ss.Context(), m)
	if why != nil {
		return i.refuse(m.door, true, why)
	}
	limit := &i.streams
	if m.public && i.keys != nil {
		limit = &i.publicStreams
	}
	if why := limit.acquire(); why != nil {
		return i.refuse(m.door, true, why)
	}
	defer limit.release()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(i.ending, cancel)()
	return handle(srv, &endingStream{ss, ctx})
}

// endingStream is a stream whose context ends when the server stops.
type endingStream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context returns the stream's context.
func (s *endingStream) Context() context.Context { return s.ctx }

// authenticate returns ctx with the caller of a call, or why the call is
// refused.
func (i *interceptor) authenticate(ctx context.Context, m *method) (context.Context, *door.Refusal) {
	if i.keys == nil || m.public {
		return ctx, nil
	}
	caller, why := i.keys.check(metadata.ValueFromIncomingContext(ctx, "authorization"))
	if why != 0 {
		return nil, &door.Refusal{Reason: why}
	}
	return door.WithCaller(ctx, caller), nil
}

// refuse returns why as an error in the shape of a door. d may be nil.
func (i *interceptor) refuse(d *servedDoor, stream bool, why *door.Refusal) error {
	i.metrics.refused(why.Reason)
	if i.log.Enabled(context.Background(), slog.LevelDebug) {
		i.log.Debug("refused", "why", why.Error())
	}
	switch {
	case d != nil && stream && d.RefuseStream != nil:
		return d.RefuseStream(why)
	case d != nil && d.RefuseRPC != nil:
		return d.RefuseRPC(why)
	}
	return status.Error(why.Code(), why.Error())
}

// end counts and logs a call. It must be deferred, because it also turns a panic
// of the handler into the door's refusal.
func (i *interceptor) end(m *method, name string, start time.Time, stream bool, err *error) {
	if p := recover(); p != nil {
		logPanic(i.log, p, m.door.Name, name, "")
		*err = i.refuse(m.door, stream, &door.Refusal{Reason: door.Failed})
	}
	took := time.Since(start)
	code := status.Code(*err)
	m.series.observe(took, outcomeOfCode(code))
	if i.accessLog {
		i.log.LogAttrs(context.Background(), slog.LevelInfo, "request", slog.String("door", m.door.Name), slog.String("route", m.series.route),
			slog.String("method", "GRPC"), slog.String("status", code.String()), slog.Duration("took", took))
	}
}
