package server

import (
	"context"
	"net/http"
	"time"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/server/internal/conn"
)

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
		if h.tracer != nil {
			req.beginSpan(r.Method, r.Header)
		}
		defer req.end(r)
		m.door.notFound(req, r, m.methods)
	default:
		req.op = m.door.operations[m.route]
		req.serve(r, m.route, m.params)
	}
}

// endOnConn ends the request for its connection.
func (q *request) endOnConn(ctx context.Context) { q.conn.End(ctx, q.ended) }
