package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/cluster/forward"
	"github.com/ostiary/ostiary/server/internal/conn"
)

// ServeForwarded serves a request that another node has forwarded to this one, within the
// bounds of this server and with its doors, metrics and access log. The other node has
// authenticated the caller; ServeForwarded checks that the caller's key is still accepted.
// r has the method, the URL, the Host, the headers and the body of the client's request,
// and its context ends when the client or the other node leaves. ServeForwarded never
// forwards a request again: it returns an error that wraps [forward.ErrNotBegun], and writes
// nothing, if this node is not the holder or stops being the holder before the request
// has had an effect. It returns any other error if the response breaks off or if as is
// not valid.
func (s *Server) ServeForwarded(w http.ResponseWriter, r *http.Request, as forward.Head) (err error) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	d, err := s.receive(ctx, &as)
	if err != nil {
		return err
	}
	c := newForwardedConn(s.connections, cancel)
	defer c.Close()
	made, leave, err := s.shared.arrivals.Begin(ctx, &as)
	if err != nil {
		return err
	}
	defer leave()
	r = r.WithContext(ctx)
	r.RemoteAddr, r.TLS = as.Remote, nil
	if as.Secure {
		r.TLS = &tls.ConnectionState{HandshakeComplete: true}
	}
	var p door.Params
	path := rawPath(r)
	route, methods := d.routes.Find(r.Method, path, &p)
	q := &request{ResponseWriter: w, passage: passage{shared: s.shared, op: d.unmatched, door: d, conn: c, start: time.Now(), stale: s.shared.staleCount(),
		as: &as, id: [1]string{as.ID}, remote: as.Remote}}
	q.ctx.Context = ctx
	q.Header()[headerRequestID] = q.id[:]
	defer func() {
		switch p := recover(); p {
		case nil:
			if q.dropped {
				err = forward.ErrNotBegun
			}
		case http.ErrAbortHandler:
			err = errors.New("the response broke off")
		default:
			panic(p)
		}
	}()
	if route == nil { // the nodes have different versions
		if q.tracer != nil {
			q.beginSpan(r.Method, r.Header)
		}
		defer q.end(r)
		d.notFound(q, r, methods)
		return nil
	}
	q.op = d.operations[route]
	q.ctx.journal.Made = made
	q.serveForwarded(r, route, p)
	return nil
}

// receive checks a forwarded request before anything else, and returns its door.
func (s *Server) receive(ctx context.Context, as *forward.Head) (*servedDoor, error) {
	if s.opts.Forwarder == nil || s.opts.Engine == nil || !s.opts.Forwarder.Begin(ctx) {
		return nil, fmt.Errorf("%w: it is not the holder", forward.ErrNotBegun)
	}
	d := s.doors[as.Door]
	if d == nil {
		s.opts.Log.Warn("another node forwards requests of a door that this node does not serve", "door", as.Door)
		return nil, fmt.Errorf("%w: it does not serve the door %q", forward.ErrNotBegun, as.Door)
	}
	return d, as.Origin.Validate()
}

// serveForwarded is [request.serve] for a request that another node has forwarded.
func (q *request) serveForwarded(r *http.Request, route *door.Route, p door.Params) {
	defer q.end(r)
	defer q.leave()
	why := q.arrive(r, forwardedRouteGates[:])
	if q.tracer != nil {
		q.beginSpan(r.Method, r.Header)
	}
	if why != nil {
		q.refuse(r, why)
		return
	}
	if q.op.own {
		q.ctx.Context = door.WithAuthenticated(q.ctx.Context, func() { q.Header().Set(headerNodeAccepted, "1") })
	}
	q.open(r, q.timeLeft(max(q.requestTimeout, q.door.RequestTimeout)))
	// The other node cannot send the body of a stream again.
	if !q.op.streams {
		q.droppable = func() bool { return q.ctx.journal.Forwardable() || q.lostAnswer() }
	}
	q.noted = true
	route.Serve(q, r.WithContext(&q.ctx), p)
	if q.dropped = q.drops(); q.dropped && forward.LostAnswer(&q.ctx.journal) {
		q.droppable, q.dropped, q.status = nil, false, 0
		clear(q.Header())
		q.Header()[headerRequestID] = q.id[:]
		q.refuse(r, &door.Refusal{Reason: door.Lost})
	}
}

// timeLeft returns the time of a forwarded request: what the other node has left of its own, or
// the time that this node allows, 0 for no bound, if that is less.
func (p *passage) timeLeft(allowed time.Duration) time.Duration {
	if p.as.Timeout > 0 && (allowed <= 0 || p.as.Timeout < allowed) {
		return p.as.Timeout
	}
	return allowed
}

// forwardedConn is the connection of one forwarded request: the bounds of connections
// count each such request for itself.
type forwardedConn struct {
	net.Conn
	cancel context.CancelFunc
}

// Close ends the request.
func (c *forwardedConn) Close() error {
	c.cancel()
	return c.Conn.Close()
}

func newForwardedConn(all *conn.Connections, cancel context.CancelFunc) *conn.Conn {
	c := conn.NewDetached(all)
	c.Conn = &forwardedConn{c.Conn, cancel}
	return c
}

// remoteName is the address of a client as text.
type remoteName string

func (remoteName) Network() string  { return "tcp" }
func (n remoteName) String() string { return string(n) }

// InvokeForwarded is [Server.ServeForwarded] for a unary gRPC call.
func (s *Server) InvokeForwarded(ctx context.Context, c forward.Call, as forward.Head) (a forward.Answer, err error) {
	ctx, cancel := context.WithCancel(metadata.NewIncomingContext(ctx, c.Metadata))
	defer cancel()
	d, err := s.receive(ctx, &as)
	if err != nil {
		return forward.Answer{}, err
	}
	m := s.methods[c.Method]
	if m == nil || m.door != d {
		return forward.Answer{}, fmt.Errorf("%w: the door %s has no method %q", forward.ErrNotBegun, as.Door, c.Method)
	}
	own := newForwardedConn(s.connections, cancel)
	defer own.Close()
	made, leave, err := s.shared.arrivals.Begin(ctx, &as)
	if err != nil {
		return forward.Answer{}, err
	}
	defer leave()
	p := &passage{shared: s.shared, op: &m.operation, door: d, conn: own, start: time.Now(), as: &as, required: s.shared.keys.required(),
		length: int64(len(c.Message)), most: s.shared.bodyBytes, free: conn.BodyFree}
	p.charge = p.bodies.NewCharge(own)
	p.ctx.Context, p.ctx.door, p.ctx.journal.Made = peer.NewContext(ctx, &peer.Peer{Addr: remoteName(as.Remote)}), d.name, made
	if a = p.invoke(m, c.Message); p.ctx.journal.Forwardable() {
		return forward.Answer{}, forward.ErrNotBegun
	}
	if text := forward.ChangesText(&p.ctx.journal); text != "" {
		a.Metadata = metadata.Join(a.Metadata, metadata.Pairs(metadataNodeChanges, text))
	}
	return a, nil
}

// invoke calls the service of a forwarded call, if the gates let the call pass.
func (p *passage) invoke(m *forwardedMethod, message []byte) (a forward.Answer) {
	defer p.endCall(m.method, &a.Err)
	defer p.leave()
	why := p.pass(forwardedCallGates[:])
	if p.tracer != nil {
		p.beginSpan("", incoming{p.ctx.Context})
	}
	if why == nil {
		p.charge.Whole()
		p.ctx.work.Use(p.turns)
		if timeout := p.timeLeft(p.requestTimeout); timeout > 0 {
			p.ctx.setDeadline(time.Now(), timeout)
		}
		defer p.ctx.release()
		if a = m.invoke(&p.ctx, &p.codec, message); a.Err != nil && forward.LostAnswer(&p.ctx.journal) {
			why = &door.Refusal{Reason: door.Lost}
		}
	}
	if why != nil {
		p.refused(why)
		a.Err = p.refuseCall(m.method, why)
	}
	return a
}
