package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/server/internal/conn"
)

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
	s.metrics.classOf = o.Class
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
		UnsentTotal: o.UnsentBytesTotal, UnsentPerConnection: o.UnsentBytesPerConnection, Accepted: o.Keys.shownIn, FrameClock: o.frameClock}
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
	exposition, err := s.exposition()
	if err != nil {
		return err
	}
	l := &listener{name: nameMetrics, address: s.opts.Metrics, shared: s.shared}
	if !s.opts.MetricsExposed && !s.opts.metricsForCallers() {
		exposition = s.localPages(exposition)
	}
	var certificate *Certificate
	if s.opts.MetricsTLS {
		exposition, certificate = s.forCallers(exposition, s.refuseMetrics), s.opts.TLS
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

// newListener returns the listener of p, which does not listen yet.
func (s *Server) newListener(p port, doors []*servedDoor) (*listener, error) {
	l := &listener{name: p.name, address: p.address, shared: s.shared}
	if p.grpc {
		var err error
		l.grpc, err = s.newGRPC(doors)
		return l, err
	}
	router, err := newRouter(doors, p.dedicated)
	if err != nil {
		return nil, err
	}
	if router.front, err = newFront(doors, s.metrics); err != nil {
		return nil, err
	}
	l.handler = &handler{s.shared, router, p.authenticated()}
	l.secure(s.newHTTP(l.handler), s.opts.TLS)
	return l, nil
}

const (
	// http2StreamsMax bounds the requests in flight on one HTTP/2 connection.
	http2StreamsMax = 250
	// http2ConnectionBuffer and http2StreamBuffer bound the bytes of bodies that
	// the server accepts on HTTP/2 before a handler reads them.
	http2ConnectionBuffer = 256 << 10
	http2StreamBuffer     = 64 << 10
)
