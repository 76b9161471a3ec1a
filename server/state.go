package server

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/forward"
	"github.com/ostiary/ostiary/internal/tool/turns"
	"github.com/ostiary/ostiary/internal/trail/audit"
	"github.com/ostiary/ostiary/internal/trail/logins"
	"github.com/ostiary/ostiary/internal/trail/traces"
	"github.com/ostiary/ostiary/server/internal/conn"
)

// shared is the state that all ports of a server use.
type shared struct {
	keys *Keys // nil accepts every caller
	// clients are the authorities of client certificates; nil asks for none.
	clients *ClientCA
	cors    *cors // nil allows no foreign page
	// trail gets a record of what callers change and of what is refused; nil keeps none.
	// auditContent adds the content of requests.
	trail        *audit.Trail
	auditContent bool
	tracer       traces.Tracer // nil traces no request
	log          *slog.Logger
	logins       *logins.Log // of callers whose key is not accepted
	accessLog    bool
	metrics      *metrics
	// localOnly is true if no keys are set and Options.Anonymous is false. Then
	// only programs and pages of this machine may call the server, except doors that
	// authenticate their callers on ports of their own.
	localOnly bool

	requestTimeout time.Duration // 0: none
	transferTime   time.Duration // see Options.TransferTime
	bodyBytes      int64         // see Options.BodyBytes

	requests conn.Limiter
	streams  conn.Limiter
	// publicPlaces bounds the requests and streams of callers without a key, if keys are
	// set.
	publicPlaces conn.PublicPlaces
	// ownRequests bounds the HTTP requests of doors that authenticate their callers
	// themselves, in addition to requests: half of its places stay for callers whose
	// key was checked before.
	ownRequests conn.Limiter
	// bodies are charged for all requests but those of such doors, which have
	// ownBodies: bodies that are held back without a key do not keep out others.
	bodies, ownBodies conn.BodiesBudget
	// detached is the connection of requests that came without one, in tests of
	// [Server.Handler].
	detached *conn.Conn
	codec    codec
	turns    *turns.Turns // of long requests; nil without Options.Engine
	// sender finds the node that writes; nil on a single node.
	sender *forward.Sender
	// staleReads is Options.StaleReads.
	staleReads func() uint64
	arrivals   forward.Arrivals

	draining atomic.Bool           // a stop has begun
	loaded   atomic.Bool           // Options.Preload is done
	failure  atomic.Pointer[error] // the error of Options.Probe, if any
	probe    func() error          // Options.Probe
	// readiness is Options.Readiness.
	readiness func() (bool, any)
	// stopping is canceled when a stop begins.
	stopping  context.Context
	beginStop context.CancelFunc
	// ending is canceled by endStreams, when a stop ends all streams.
	ending     context.Context
	endStreams context.CancelFunc
}

// staleCount returns what Options.StaleReads counts now.
func (s *shared) staleCount() uint64 {
	if s.staleReads == nil {
		return 0
	}
	return s.staleReads()
}

// newShared returns the state of a server with options.
func newShared(o *Options, m *metrics, allowed *cors) *shared {
	s := &shared{
		keys: o.Keys, clients: o.ClientCA, cors: allowed, log: o.Log, logins: logins.New(o.Log), accessLog: o.AccessLog, trail: o.Audit, auditContent: o.AuditContent, tracer: o.Tracer, metrics: m, probe: o.Probe, readiness: o.Readiness,
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

// loginFailed counts and logs a caller whose credential is not accepted.
func (s *shared) loginFailed(door string, credential logins.Failure, remote, id, why string) {
	s.metrics.loginFailed(door, credential)
	s.logins.Failed(door, remote, id, why)
}

const (
	// ownDivisor: RequestsMax divided by it bounds the requests of doors that
	// authenticate their callers themselves.
	ownDivisor = 2
	// ownBodiesDivisor: BodyBytesTotal divided by it bounds the bodies of such
	// doors.
	ownBodiesDivisor = 4
)
