package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/cluster/forward"
	"github.com/ostiary/ostiary/internal/tool/turns"
	"github.com/ostiary/ostiary/internal/trail/logins"
	"github.com/ostiary/ostiary/server/internal/conn"
)

// Server is a set of ports and the doors on them. Make one with [New]. Its
// methods may be called concurrently.
type Server struct {
	opts    Options
	shared  *shared
	metrics *metrics
	health  *healthService
	// doors are all doors by their names, and methods their unary gRPC methods by their full
	// names, for requests that other nodes forward.
	doors   map[string]*servedDoor
	methods map[string]*forwardedMethod
	// listeners are all ports: those of Options.ports in their order, then the
	// metrics port.
	listeners   []*listener
	connections *conn.Connections
	// metricsConnections are those of the metrics port, which clients of the other
	// ports cannot take.
	metricsConnections *conn.Connections
	serving            sync.WaitGroup // the goroutines that serve the listeners
	failed             chan error     // the first error of a listener
	stopPreload        context.CancelFunc
	stopOnce           sync.Once
	stopErr            error // the result of Stop
}

// New returns a server that does not listen yet. It returns [ErrExposed] or
// [ErrNoKeys] for options that would leave a port open by omission, and other
// errors for invalid CORS origins and for doors that cannot share a port.
func New(o Options) (*Server, error) {
	o = withDefaults(o)
	if err := o.CheckExposure(); err != nil {
		return nil, err
	}
	allowed, err := newCORS(o.CORS)
	if err != nil {
		return nil, err
	}
	if o.CallersOptional && (o.Keys != nil || o.Tokens != nil || o.ClientCA != nil) {
		return nil, errors.New("invalid options: CallersOptional with Keys, Tokens or ClientCA")
	}
	if (o.ClientCA != nil && o.Callers == nil) || (o.ClientCA != nil || o.MetricsTLS) && o.TLS == nil {
		return nil, errors.New("invalid options: ClientCA needs TLS and Callers, and MetricsTLS needs TLS")
	}
	if o.Callers != nil {
		if o.Keys == nil {
			o.Keys = &Keys{}
		}
		o.Keys.stored, o.Keys.tokens = o.Callers, newTokens(o.Tokens, o.Callers, o.Log)
		o.Callers.Avoid(o.Keys.Names)
		if o.CallersOptional {
			o.Keys.open = openKey(o.Callers)
		}
	}
	s := &Server{opts: o, metrics: newMetrics(), health: newHealthService(), failed: make(chan error, 1)}
	s.openConnections()
	s.shared = newShared(&s.opts, s.metrics, allowed)
	s.shared.detached = conn.NewDetached(s.connections)
	if open := o.Keys.unkeyed(); open != nil {
		ended, _ := open.until()
		context.AfterFunc(ended, s.connections.DistrustAll)
	}
	s.stopPreload = func() {}
	if err := s.build(); err != nil {
		s.shared.endStreams()
		return nil, err
	}
	return s, nil
}

// metricsConnections bounds the connections of the port of metrics.
const metricsConnections = 16

// openConnections makes the connections of all ports, and those of the port of metrics, of
// which none is ever trusted.
func (s *Server) openConnections() {
	b := s.opts.connectionBounds()
	s.connections = conn.NewConnections(b)
	b.Max, b.PerAddress = metricsConnections, metricsConnections
	s.metricsConnections = conn.NewConnections(b)
}

// connectionBounds returns the bounds of all ports but that of metrics.
func (o *Options) connectionBounds() conn.Bounds {
	return conn.Bounds{Max: o.ConnectionsMax, PerAddress: o.ConnectionsPerAddress, HeaderTimeout: o.HeaderTimeout,
		UnsentTotal: o.UnsentBytesTotal, UnsentPerConnection: o.UnsentBytesPerConnection, Accepted: o.Keys.shownIn}
}

func newShared(o *Options, m *metrics, allowed *cors) *shared {
	s := &shared{
		keys: o.Keys, clients: o.ClientCA, cors: allowed, log: o.Log, logins: logins.New(o.Log), accessLog: o.AccessLog, trail: o.Audit, auditContent: o.AuditContent, metrics: m, probe: o.Probe, readiness: o.Readiness,
		localOnly:      !o.authenticated() && !o.Anonymous,
		requestTimeout: max(o.RequestTimeout, 0), transferTime: o.TransferTime, bodyBytes: o.BodyBytes,
		requests:     conn.Limiter{Name: "RequestsMax", Max: o.RequestsMax},
		streams:      conn.Limiter{Name: "StreamsMax", Max: o.StreamsMax},
		ownRequests:  conn.Limiter{Name: "OwnAuthenticationRequestsMax", Max: max(o.RequestsMax/ownDivisor, 1)},
		publicPlaces: conn.NewPublicPlaces(o.RequestsMax, o.StreamsMax),
		bodies:       conn.BodiesBudget{Name: "BodyBytesTotal", Max: o.BodyBytesTotal, PerConnection: o.BodyBytesPerConnection},
		ownBodies: conn.BodiesBudget{Name: "OwnAuthenticationBodyBytes", Max: max(o.BodyBytesTotal/ownBodiesDivisor, o.BodyBytes),
			PerConnection: o.BodyBytesPerConnection},
		codec: newCodec(), staleReads: o.StaleReads, arrivals: forward.Arrivals{Engine: o.Engine},
	}
	if o.Forwarder != nil {
		s.sender = &forward.Sender{Forwarder: o.Forwarder, Engine: o.Engine, Timeout: s.requestTimeout}
	}
	if o.Engine != nil {
		s.turns = turns.Of(o.Engine.ShareTurn)
	}
	s.stopping, s.beginStop = context.WithCancel(context.Background())
	s.ending, s.endStreams = context.WithCancel(context.Background())
	return s
}

// build creates the listeners of all ports without listening, so that doors that
// conflict are an error before any port is open.
func (s *Server) build() error {
	served := map[*door.Door]*servedDoor{} // a door on several ports shares its metrics
	s.doors, s.methods = map[string]*servedDoor{}, map[string]*forwardedMethod{}
	for _, p := range s.opts.ports() {
		var doors []*servedDoor
		for _, d := range p.doors {
			if served[d] == nil {
				var err error
				if served[d], err = newServedDoor(d, s.metrics); err != nil {
					return err
				}
				s.doors[d.Name] = served[d]
				s.addMethods(served[d])
			}
			doors = append(doors, served[d])
		}
		l, err := s.newListener(p, doors)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		s.listeners = append(s.listeners, l)
	}
	if s.opts.Metrics == "" {
		return nil
	}
	exposition, err := s.metrics.handler(s, s.opts.Collectors)
	if err != nil {
		return err
	}
	l := &listener{name: nameMetrics, address: s.opts.Metrics, shared: s.shared}
	if !s.opts.MetricsExposed && !s.opts.metricsForCallers() {
		exposition = s.localPages(exposition)
	}
	var certificate *Certificate
	if s.opts.MetricsTLS {
		exposition, certificate = s.forCallers(exposition), s.opts.TLS
	}
	l.secure(s.newHTTP(s.withHealth(exposition)), certificate)
	s.listeners = append(s.listeners, l)
	return nil
}

// addMethods adds the unary methods of a door to those that other nodes forward.
func (s *Server) addMethods(d *servedDoor) {
	for _, service := range d.Services {
		for _, desc := range service.Desc.Methods {
			m := newMethod(d, &service, desc.MethodName, false, s.metrics)
			s.methods[m.full] = &forwardedMethod{method: m, impl: service.Impl, handle: desc.Handler}
		}
	}
}

// Start listens on all ports and serves them in goroutines, which [Server.Stop]
// ends. If it returns an error, no port is left open. It is called once.
func (s *Server) Start() error {
	for i, l := range s.listeners {
		places := s.connections
		if l.name == nameMetrics {
			places = s.metricsConnections
		}
		if err := l.listen(s.opts.Listen, places); err != nil {
			for _, open := range s.listeners[:i] {
				open.net.Close()
			}
			s.shared.endStreams()
			return err
		}
	}
	for _, l := range s.listeners {
		s.serving.Go(func() {
			if err := l.serve(); err != nil && s.shared.stopping.Err() == nil {
				s.fail(err)
			}
		})
	}
	s.preload()
	return nil
}

// fail makes [Server.Wait] return err. Only the first error counts.
func (s *Server) fail(err error) {
	select {
	case s.failed <- err:
	default:
	}
}

// Addresses returns where the server listens. It is called after [Server.Start].
func (s *Server) Addresses() []Address {
	var out []Address
	for _, l := range s.listeners {
		out = append(out, Address{l.name, l.net.Addr()})
	}
	return out
}

// Handler returns the handler of the shared HTTP port, or of the first dedicated
// one, or nil if there is no HTTP port. It is for tests without a network.
func (s *Server) Handler() http.Handler {
	for _, l := range s.listeners {
		if l.handler != nil {
			return l.handler
		}
	}
	return nil
}

// longestRequest returns the longest request timeout of the server and its doors.
func (o *Options) longestRequest() time.Duration {
	longest := max(o.RequestTimeout, 0)
	for _, d := range o.Doors {
		longest = max(longest, d.RequestTimeout)
	}
	for _, d := range o.Dedicated {
		longest = max(longest, d.Door.RequestTimeout)
	}
	return longest
}

// newHTTP returns a server of net/http that serves h within the bounds of the
// options.
func (s *Server) newHTTP(h http.Handler) *http.Server {
	o := &s.opts
	response := o.TransferTime + o.longestRequest()
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: o.HeaderTimeout,
		ReadTimeout:       o.HeaderTimeout + o.TransferTime,
		WriteTimeout:      o.TransferTime + response,
		IdleTimeout:       o.IdleTimeout,
		MaxHeaderBytes:    o.HeaderBytes,
		// net/http logs the mistakes of clients: failed handshakes, broken requests.
		ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: min(o.StreamsPerConnection, http2StreamsMax),
			MaxReceiveBufferPerConnection: http2ConnectionBuffer, MaxReceiveBufferPerStream: http2StreamBuffer},
		ConnContext: conn.WithConn, ConnState: conn.Idle,
	}
}

const (
	// http2StreamsMax bounds the requests in flight on one HTTP/2 connection.
	http2StreamsMax = 250
	// http2ConnectionBuffer and http2StreamBuffer bound the bytes of bodies that
	// the server accepts on HTTP/2 before a handler reads them.
	http2ConnectionBuffer = 256 << 10
	http2StreamBuffer     = 64 << 10
)
