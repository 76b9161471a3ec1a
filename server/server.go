// Package server puts doors on the network: listeners, TLS, who may come in,
// bounds and deadlines, health, metrics, logs and a graceful stop. Its main type
// is Server. It answers no question about authorization: doors translate, the
// engine answers. Every request of every door passes the same gate, in one place
// for HTTP (entrance.go) and one for gRPC (rpc.go).
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door"
)

// The defaults of Options.
const (
	RequestTimeoutDefault = 3 * time.Second
	HeaderTimeoutDefault  = 10 * time.Second
	IdleTimeoutDefault    = 2 * time.Minute
	TransferTimeDefault   = 30 * time.Second
	DrainTimeDefault      = time.Second
	StopTimeoutDefault    = 10 * time.Second
	HeaderBytesDefault    = 64 << 10
	RequestsMaxDefault    = 4096
	StreamsMaxDefault     = 20_000
)

// probeEvery is how often Options.Probe is asked.
const probeEvery = 500 * time.Millisecond

// ErrExposed: an address that others than this machine can reach, without keys
// and without Options.Anonymous, or metrics there without Options.MetricsExposed.
var ErrExposed = errors.New("reachable from other machines without authentication")

// Options are a server's settings. Addresses are "host:port"; port 0 is any
// free one, "" is no such port.
type Options struct {
	// HTTP and GRPC are the ports that all of Doors share. A path there belongs to
	// the door with the longest prefix of whole segments.
	HTTP, GRPC string
	Doors      []*door.Door
	// Alone are doors on ports of their own, where they answer everything in
	// their own shape.
	Alone []Alone
	// Metrics serves GET /metrics and nothing else. It must be a loopback address,
	// unless MetricsExposed.
	Metrics        string
	MetricsExposed bool

	// Keys are asked for by every route and method that is not public. Nil asks
	// nobody, and then all addresses must be loopback ones, unless Anonymous.
	Keys      *Keys
	Anonymous bool
	// TLS is for all ports but Metrics. Nil is plain text.
	TLS *Certificate
	// CORS are the origins of web pages that may ask over HTTP, as browsers send
	// them ("https://app.example"); "*" is any. None by default.
	CORS []string

	// RequestTimeout ends a request's context; streams have none. Negative: never.
	RequestTimeout time.Duration
	// HeaderTimeout bounds reading a request's headers, IdleTimeout how long a
	// connection may say nothing between requests, TransferTime reading a body
	// and, after that and RequestTimeout, writing the answer; in streams, each
	// write.
	HeaderTimeout, IdleTimeout, TransferTime time.Duration
	// DrainTime is how long a stopping server still accepts while it says that it
	// is not serving and asks its clients to go elsewhere; 0 is the default,
	// negative none. It ends early when nobody is connected. StopTimeout is how
	// long it then waits for requests under way; streams are ended after half of
	// it.
	DrainTime, StopTimeout time.Duration

	// BodyBytes bounds a request's body and a gRPC message, where a route says
	// nothing; default door.BodyBytesMax. HeaderBytes bounds a request's headers.
	BodyBytes   int64
	HeaderBytes int
	// RequestsMax bounds requests under way, StreamsMax streams, of all ports.
	RequestsMax, StreamsMax int64

	// Engine's figures are among the metrics. It may be nil.
	Engine *ostiary.Engine
	// Collectors add metrics.
	Collectors []prometheus.Collector
	// Probe says why the process can no longer do its work (a disk that failed),
	// or nil. Then health says so, and Run returns the error. It must not block, and
	// is called concurrently.
	Probe func() error
	// Log takes what happens; default slog.Default. AccessLog logs each request.
	Log       *slog.Logger
	AccessLog bool
}

// Alone is a door on ports of its own; either may be "".
type Alone struct {
	Door       *door.Door
	HTTP, GRPC string
}

// Address is where a server listens.
type Address struct {
	// Name is "http", "grpc", "metrics", or "permify http" for a door alone.
	Name string
	Addr net.Addr
}

// Server is a set of listening ports. Make one with New; its methods may be
// called concurrently.
type Server struct {
	opts    Options
	gate    *gate
	metrics *metrics
	health  *health.Server
	// Of each listener, in the order of start.
	listeners []Address
	https     []*http.Server
	entrances []*entrance
	rpcs      []*grpc.Server
	serving   sync.WaitGroup
	patience  *patience
	watching  sync.WaitGroup
	served    chan struct{} // closed when nothing is served any more
	failed    chan error
	stopOnce  sync.Once
	stopErr   error
}

// gate is what all requests pass: the state that ports share.
type gate struct {
	keys        *Keys
	log         *slog.Logger
	accessLog   bool
	metrics     *metrics
	timeout     time.Duration // 0: none
	clock       *patience
	transfer    time.Duration
	bodyBytes   int64
	requestsMax int64
	streamsMax  int64
	cors        *cors
	// machine says that whoever is on this machine may ask: no keys, and nobody
	// said that this is meant for others.
	machine bool

	requests atomic.Int64
	streams  atomic.Int64
	// publicStreams are those of public methods, where keys are set.
	publicStreams atomic.Int64
	draining      atomic.Bool
	failure       atomic.Pointer[error] // what Probe said
	probe         func() error          // Options.Probe
	// ending ends streams when the server stops.
	ending    context.Context
	endStream context.CancelFunc
}

// New checks the options and makes a server that does not listen yet.
func New(o Options) (*Server, error) {
	o = withDefaults(o)
	if err := o.exposed(); err != nil {
		return nil, err
	}
	s := &Server{opts: o, metrics: newMetrics(), health: health.NewServer(), failed: make(chan error, 1),
		patience: newPatience(), served: make(chan struct{})}
	g := &gate{clock: s.patience, keys: o.Keys, log: o.Log, accessLog: o.AccessLog, metrics: s.metrics, timeout: max(o.RequestTimeout, 0), transfer: o.TransferTime,
		probe: o.Probe, bodyBytes: o.BodyBytes, requestsMax: o.RequestsMax, streamsMax: o.StreamsMax,
		machine: o.Keys == nil && !o.Anonymous}
	g.ending, g.endStream = context.WithCancel(context.Background())
	var err error
	if g.cors, err = newCORS(o.CORS); err != nil {
		return nil, err
	}
	s.gate = g
	if err := s.build(); err != nil {
		g.endStream()
		return nil, err
	}
	return s, nil
}

func withDefaults(o Options) Options {
	set := func(d *time.Duration, otherwise time.Duration) {
		if *d == 0 {
			*d = otherwise
		}
	}
	set(&o.RequestTimeout, RequestTimeoutDefault)
	set(&o.HeaderTimeout, HeaderTimeoutDefault)
	set(&o.IdleTimeout, IdleTimeoutDefault)
	set(&o.TransferTime, TransferTimeDefault)
	set(&o.DrainTime, DrainTimeDefault)
	set(&o.StopTimeout, StopTimeoutDefault)
	if o.BodyBytes <= 0 {
		o.BodyBytes = door.BodyBytesMax
	}
	if o.HeaderBytes <= 0 {
		o.HeaderBytes = HeaderBytesDefault
	}
	if o.RequestsMax <= 0 {
		o.RequestsMax = RequestsMaxDefault
	}
	if o.StreamsMax <= 0 {
		o.StreamsMax = StreamsMaxDefault
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return o
}

// exposed refuses what "unset" would leave open.
func (o *Options) exposed() error {
	if o.Keys != nil && o.Keys.Len() == 0 {
		return ErrNoKeys
	}
	if o.Metrics != "" && !o.MetricsExposed && !loopback(o.Metrics) {
		return fmt.Errorf("metrics on %s: %w", o.Metrics, ErrExposed)
	}
	if o.Keys != nil || o.Anonymous {
		return nil
	}
	for _, p := range o.ports() {
		if !loopback(p.address) {
			return fmt.Errorf("%s on %s: %w", p.name, p.address, ErrExposed)
		}
	}
	return nil
}

// loopback says whether only this machine reaches an address. A name is
// believed if it is localhost: others may resolve to anything.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	return loopbackHost(host)
}

func loopbackHost(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// port is one address to listen on.
type port struct {
	name    string
	address string
	rpc     bool
	doors   []*door.Door
	alone   bool
}

// ports lists what Options wants listened on, metrics aside.
func (o *Options) ports() (out []port) {
	add := func(p port) {
		if p.address != "" {
			out = append(out, p)
		}
	}
	add(port{name: "http", address: o.HTTP, doors: o.Doors})
	add(port{name: "grpc", address: o.GRPC, doors: o.Doors, rpc: true})
	for _, a := range o.Alone {
		only := []*door.Door{a.Door}
		add(port{name: a.Door.Name + " http", address: a.HTTP, doors: only, alone: true})
		add(port{name: a.Door.Name + " grpc", address: a.GRPC, doors: only, alone: true, rpc: true})
	}
	return out
}

// build makes the servers of all ports, so that two doors that claim one path
// are an error before anything listens.
func (s *Server) build() error {
	mounts := map[*door.Door]*mounted{}
	for _, p := range s.opts.ports() {
		var on []*mounted
		for _, d := range p.doors {
			m := mounts[d]
			if m == nil {
				var err error
				if m, err = newMounted(d, s.metrics); err != nil {
					return err
				}
				mounts[d] = m
			}
			on = append(on, m)
		}
		if p.rpc {
			server, err := s.newRPC(on)
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			s.rpcs = append(s.rpcs, server)
			continue
		}
		table, err := newTable(on, p.alone)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		e := &entrance{gate: s.gate, table: table}
		s.entrances = append(s.entrances, e)
		s.https = append(s.https, s.newHTTP(e))
	}
	if s.opts.Metrics != "" {
		handler, err := s.metrics.handler(s.gate, s.opts.Engine, s.opts.Collectors)
		if err != nil {
			return err
		}
		server := s.newHTTP(handler)
		s.https = append(s.https, server)
	}
	return nil
}

// Start listens on all ports and serves them, in goroutines that Stop ends. On
// an error nothing is left listening.
func (s *Server) Start() error {
	type serve struct {
		listener net.Listener
		run      func(net.Listener) error
	}
	var all []serve
	https, rpcs := s.https, s.rpcs
	listen := func(name, address string, rpc, plain bool, run func(net.Listener) error) error {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		s.listeners = append(s.listeners, Address{name, l.Addr()})
		if !rpc {
			l = s.patience.listener(l)
		}
		if s.opts.TLS != nil && !plain && !rpc {
			l = s.opts.TLS.listener(l)
		}
		all = append(all, serve{l, run})
		return nil
	}
	err := func() error {
		for _, p := range s.opts.ports() {
			if p.rpc {
				// grpc-go does TLS itself, with the certificate it was made with.
				server := rpcs[0]
				rpcs = rpcs[1:]
				if err := listen(p.name, p.address, true, false, server.Serve); err != nil {
					return err
				}
				continue
			}
			server := https[0]
			https = https[1:]
			if err := listen(p.name, p.address, false, false, server.Serve); err != nil {
				return err
			}
		}
		if s.opts.Metrics != "" {
			return listen("metrics", s.opts.Metrics, false, true, https[0].Serve)
		}
		return nil
	}()
	if err != nil {
		for _, v := range all {
			v.listener.Close()
		}
		s.gate.endStream()
		return err
	}
	for _, v := range all {
		s.serving.Go(func() {
			if err := v.run(v.listener); err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, grpc.ErrServerStopped) {
				s.fail(err)
			}
		})
	}
	s.watching.Go(func() { s.patience.run(s.served) })
	s.setServing(true)
	return nil
}

// Addresses are where the server listens, after Start.
func (s *Server) Addresses() []Address { return s.listeners }

// Handler is what the shared HTTP port answers with, or the first door's that
// is alone; nil if there is no HTTP port. It is for tests that need no network.
func (s *Server) Handler() http.Handler {
	if len(s.entrances) == 0 {
		return nil
	}
	return s.entrances[0]
}

func (s *Server) fail(err error) {
	select {
	case s.failed <- err:
	default:
	}
}

// newHTTP is net/http's server with every bound set.
func (s *Server) newHTTP(h http.Handler) *http.Server {
	o := &s.opts
	answer := o.TransferTime
	if o.RequestTimeout > 0 {
		answer += o.RequestTimeout
	}
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: o.HeaderTimeout,
		ReadTimeout:       o.HeaderTimeout + o.TransferTime,
		WriteTimeout:      o.TransferTime + answer,
		IdleTimeout:       o.IdleTimeout,
		MaxHeaderBytes:    o.HeaderBytes,
		ErrorLog:          slog.NewLogLogger(quiet{o.Log.Handler()}, slog.LevelDebug),
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: 250},
	}
}

// quiet keeps what clients do wrong (handshakes, broken requests) at debug
// level, whatever net/http thinks of it.
type quiet struct{ slog.Handler }
