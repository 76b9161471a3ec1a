package server

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
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
	rpcBufferBytes = 64 << 10
	// rpcWorkersPerProcessor goroutines wait for calls with a stack that has
	// grown already: to copy a new one's as it grows is a sixth of a small call.
	// Calls beyond them, and behind streams that stay, get goroutines of their
	// own.
	rpcWorkersPerProcessor = 32
	// rpcStreamsPerConnection bounds one connection's calls; StreamsMax and
	// RequestsMax bound all of them.
	rpcStreamsPerConnection = 10_000
	// publicStreamsPart of StreamsMax is what callers without a key may have
	// besides, where keys are asked for: of health's watch.
	publicStreamsPart = 10
	rpcPingAfter      = time.Minute
	rpcPingTimeout    = 20 * time.Second
	rpcPingsAtMost    = 10 * time.Second
)

// method is one gRPC method with what the gate wants to know of it.
type method struct {
	door   *mounted
	series *series
	public bool
}

// rpcEntrance is the gate of a gRPC port: the one place that every call of
// every service comes through.
type rpcEntrance struct {
	*gate
	methods map[string]*method
}

// newRPC makes a gRPC server with the services of doors, reflection and health.
func (s *Server) newRPC(doors []*mounted) (*grpc.Server, error) {
	e := &rpcEntrance{gate: s.gate, methods: map[string]*method{}}
	o := &s.opts
	options := []grpc.ServerOption{
		grpc.UnaryInterceptor(e.unary), grpc.StreamInterceptor(e.stream), grpc.ForceServerCodecV2(newCodec()),
		grpc.NumStreamWorkers(uint32(rpcWorkersPerProcessor * runtime.GOMAXPROCS(0))),
		grpc.ReadBufferSize(rpcBufferBytes), grpc.WriteBufferSize(rpcBufferBytes),
		grpc.MaxRecvMsgSize(int(o.BodyBytes)), grpc.MaxHeaderListSize(uint32(o.HeaderBytes)),
		grpc.MaxConcurrentStreams(rpcStreamsPerConnection), grpc.ConnectionTimeout(o.HeaderTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: rpcPingAfter, Timeout: rpcPingTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: rpcPingsAtMost, PermitWithoutStream: true}),
	}
	if o.TLS != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(o.TLS.config("h2"))))
	}
	server := grpc.NewServer(options...)
	for _, d := range doors {
		for _, service := range d.Services {
			if _, taken := server.GetServiceInfo()[service.Desc.ServiceName]; taken {
				return nil, fmt.Errorf("two doors have the gRPC service %s", service.Desc.ServiceName)
			}
			server.RegisterService(service.Desc, service.Impl)
			e.add(s.metrics, d, service.Desc, service.Public)
		}
	}
	own := &mounted{Door: &door.Door{Name: "server"}}
	healthpb.RegisterHealthServer(server, s.health)
	e.add(s.metrics, own, &healthpb.Health_ServiceDesc, []string{healthpb.Health_Check_FullMethodName, healthpb.Health_Watch_FullMethodName,
		healthpb.Health_List_FullMethodName})
	before := server.GetServiceInfo()
	reflection.Register(server)
	for name, info := range server.GetServiceInfo() {
		if _, was := before[name]; !was {
			for _, m := range info.Methods {
				e.methods["/"+name+"/"+m.Name] = &method{door: own, series: s.metrics.series(own.Name, "grpc", m.Name)}
			}
		}
	}
	return server, nil
}

func (e *rpcEntrance) add(m *metrics, d *mounted, desc *grpc.ServiceDesc, public []string) {
	one := func(name string) {
		full := "/" + desc.ServiceName + "/" + name
		add := &method{door: d, series: m.series(d.Name, "grpc", desc.ServiceName[strings.LastIndexByte(desc.ServiceName, '.')+1:]+"."+name)}
		for _, p := range public {
			add.public = add.public || p == full
		}
		e.methods[full] = add
	}
	for _, method := range desc.Methods {
		one(method.MethodName)
	}
	for _, stream := range desc.Streams {
		one(stream.StreamName)
	}
}

// unary guards, bounds and counts a call.
func (e *rpcEntrance) unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (_ any, err error) {
	start := time.Now()
	m := e.methods[info.FullMethod]
	if m == nil {
		return nil, e.refuse(nil, false, &door.Refusal{Reason: door.Failed})
	}
	defer e.end(m, info.FullMethod, start, false, &err)
	caller, why := e.caller(ctx, m)
	if why != 0 {
		return nil, e.refuse(m.door, false, &door.Refusal{Reason: why})
	}
	defer e.requests.Add(-1)
	if e.requests.Add(1) > e.requestsMax {
		return nil, e.refuse(m.door, false, &door.Refusal{Reason: door.TooMany, Bound: "RequestsMax", Limit: e.requestsMax})
	}
	if caller.Method != "" {
		ctx = door.WithCaller(ctx, caller)
	}
	if e.timeout > 0 {
		deadline := start.Add(e.timeout)
		if own, ok := ctx.Deadline(); !ok || deadline.Before(own) {
			limited := &limit{Context: ctx, deadline: deadline, clock: e.clock}
			defer limited.release()
			ctx = limited
		}
	}
	return handle(ctx, request)
}

// stream guards, bounds and counts a call that lasts.
func (e *rpcEntrance) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) (err error) {
	start := time.Now()
	m := e.methods[info.FullMethod]
	if m == nil {
		return e.refuse(nil, true, &door.Refusal{Reason: door.Failed})
	}
	defer e.end(m, info.FullMethod, start, true, &err)
	caller, why := e.caller(ss.Context(), m)
	if why != 0 {
		return e.refuse(m.door, true, &door.Refusal{Reason: why})
	}
	count, most, bound := &e.streams, e.streamsMax, "StreamsMax"
	if m.public && e.keys != nil { // nobody without a key takes the places of those with one
		count, most, bound = &e.publicStreams, max(most/publicStreamsPart, 1), "PublicStreamsMax"
	}
	defer count.Add(-1)
	if count.Add(1) > most {
		return e.refuse(m.door, true, &door.Refusal{Reason: door.TooMany, Bound: bound, Limit: most})
	}
	ctx, cancel := context.WithCancel(ss.Context())
	defer cancel()
	defer context.AfterFunc(e.ending, cancel)()
	if caller.Method != "" {
		ctx = door.WithCaller(ctx, caller)
	}
	return handle(srv, &endingStream{ss, ctx})
}

// endingStream is a stream that the server's stop ends.
type endingStream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context is the stream's.
func (s *endingStream) Context() context.Context { return s.ctx }

func (e *rpcEntrance) caller(ctx context.Context, m *method) (door.Caller, door.Reason) {
	if e.keys == nil || m.public {
		return door.Caller{}, 0
	}
	return e.keys.check(metadata.ValueFromIncomingContext(ctx, "authorization"))
}

func (e *rpcEntrance) refuse(d *mounted, stream bool, why *door.Refusal) error {
	e.metrics.refused(why.Reason)
	if e.log.Enabled(context.Background(), slog.LevelDebug) {
		e.log.Debug("refused", "why", why.Error())
	}
	switch {
	case d != nil && stream && d.RefuseStream != nil:
		return d.RefuseStream(why)
	case d != nil && d.RefuseRPC != nil:
		return d.RefuseRPC(why)
	}
	return status.Error(why.Code(), why.Error())
}

// end counts the call, and turns a panic into the door's refusal.
func (e *rpcEntrance) end(m *method, name string, start time.Time, stream bool, err *error) {
	if p := recover(); p != nil {
		logPanic(e.log, p, m.door.Name, name, "")
		*err = e.refuse(m.door, stream, &door.Refusal{Reason: door.Failed})
	}
	took := time.Since(start)
	code := status.Code(*err)
	m.series.add(took, outcomeOfCode(code))
	if e.accessLog {
		e.log.LogAttrs(context.Background(), slog.LevelInfo, "request", slog.String("door", m.door.Name), slog.String("route", m.series.route),
			slog.String("method", "GRPC"), slog.String("status", code.String()), slog.Duration("took", took))
	}
}
