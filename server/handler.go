package server

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/cluster/forward"
	"github.com/ostiary/ostiary/internal/tool/turns"
	"github.com/ostiary/ostiary/internal/trail/audit"
	"github.com/ostiary/ostiary/internal/trail/logins"
	"github.com/ostiary/ostiary/server/internal/conn"
)

// The paths of health on every HTTP port.
const (
	pathHealth = "/healthz" // whether the process works
	pathReady  = "/readyz"  // whether it works and Options.Preload is done
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

// handler serves one HTTP port. Every HTTP request of every door passes its
// ServeHTTP.
type handler struct {
	*shared
	router *router
	// authenticated is true if the doors of the port authenticate their callers.
	authenticated bool
}

// ServeHTTP routes the request, refuses what no door may see, and passes the
// rest to [request.serve].
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var m match
	h.router.match(r, &m)
	req := &request{ResponseWriter: w, passage: passage{shared: h.shared, door: m.door, conn: conn.Of(r, h.detached), start: time.Now(), remote: r.RemoteAddr}}
	req.ctx.Context = r.Context()
	if r.TLS == nil {
		r.TLS = req.conn.TLS
	}
	req.conn.Begin()
	defer req.endOnConn(r.Context())
	req.setID(r)
	if h.draining.Load() {
		w.Header().Set("Connection", "close")
	}
	switch {
	case !m.canonical:
		req.refuse(r, &door.Refusal{Reason: door.BadPath})
	case m.path == pathHealth && (r.Method == http.MethodGet || r.Method == http.MethodHead):
		serveHealth(w, h.healthy(), nil)
	case m.path == pathReady && (r.Method == http.MethodGet || r.Method == http.MethodHead):
		serveHealth(w, h.ready(), nil)
	case m.door != nil && m.path == m.door.HealthPath && (r.Method == http.MethodGet || r.Method == http.MethodHead):
		m.door.ServeHealth(w, r, h.healthy())
	case h.cors != nil && h.cors.apply(w, r):
	case h.localOnly && !h.authenticated && h.cors.foreignOrigin(r):
		req.door = nil // the page does not learn which door has the path
		req.refuse(r, &door.Refusal{Reason: door.ForeignPage})
	case h.localOnly && !h.authenticated && !localHost(r.Host):
		req.door = nil
		req.refuse(r, &door.Refusal{Reason: door.ForeignName})
	case m.door == nil:
		h.router.notFound(w)
	case m.route == nil:
		req.op = m.door.unmatched
		defer req.end(r)
		m.door.notFound(req, r, m.methods)
	default:
		req.op = m.door.operations[m.route]
		req.serve(r, m.route, m.params)
	}
}

// endOnConn ends the request for its connection.
func (q *request) endOnConn(ctx context.Context) { q.conn.End(ctx, q.ended) }

// staleCount returns what Options.StaleReads counts now.
func (s *shared) staleCount() uint64 {
	if s.staleReads == nil {
		return 0
	}
	return s.staleReads()
}
