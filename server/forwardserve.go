package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/cluster/forward"
	"github.com/ostiary/ostiary/internal/engine/journal"
	"github.com/ostiary/ostiary/internal/trail/logins"
	"github.com/ostiary/ostiary/server/internal/conn"
	"github.com/ostiary/ostiary/storage"
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
	q := &request{ResponseWriter: w, shared: s.shared, door: d, conn: c, start: time.Now(), remote: as.Remote, series: d.unmatched}
	q.ctx.Context = ctx
	q.stale = q.staleCount()
	q.id[0] = as.ID
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
		defer q.end(r)
		d.notFound(q, r, methods)
		return nil
	}
	q.series = d.metrics[route]
	q.ctx.journal.Made = made
	q.serveForwarded(r, route, p, &as)
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
func (q *request) serveForwarded(r *http.Request, route *door.Route, p door.Params, as *forward.Head) {
	q.streams = route.Streams
	defer q.end(r)
	ctx := r.Context()
	key, why := q.liveKey(ctx, as, route.Public || q.door.OwnAuthentication)
	if why != nil {
		q.metrics.loginFailed(q.door.Name, logins.Failure{Credential: logins.CredentialKey, Reason: logins.Refused})
		q.logins.Failed(q.door.Name, as.Remote, as.ID, why.Error())
		q.refuse(r, why)
		return
	}
	if q.key, q.ctx.key = key, key; key.known() {
		ctx = door.WithCaller(ctx, key.caller)
		if why := key.opens(ctx, q.door); why != nil {
			q.refuse(r, why)
			return
		}
	}
	beginJournal(&q.ctx.journal, as, key)
	if why := q.enter(route); why != nil {
		q.refuse(r, why)
		return
	}
	defer q.leave(route)
	budget := &q.bodies
	if q.door.OwnAuthentication {
		budget = &q.ownBodies
		ctx = door.WithAuthenticated(q.countsFailedLogins(ctx), func() { q.Header().Set(headerNodeAccepted, "1") })
		if why := budget.Acquire(&q.ownRequests, q.conn); why != nil {
			q.refuse(r, why)
			return
		}
		defer q.ownRequests.Release()
	}
	q.charge = budget.NewCharge(q.conn)
	defer q.charge.Release()
	if !q.boundBody(r, route) {
		return
	}
	q.ctx.Context, q.ctx.door, q.ctx.request, q.ctx.stream = ctx, q.door.name, requestOf{q}, q.streams
	q.ctx.work.Use(q.turns)
	timeout := max(q.requestTimeout, q.door.RequestTimeout)
	if as.Timeout > 0 && (timeout <= 0 || as.Timeout < timeout) {
		timeout = as.Timeout
	}
	switch {
	case q.streams:
		var release func()
		q.ctx.Context, release = q.beginStream(ctx, r)
		defer release()
	case timeout > 0:
		q.ctx.setDeadline(q.start, timeout)
	}
	defer q.ctx.release()
	// The other node cannot send the body of a stream again.
	if !q.streams {
		q.droppable = func() bool {
			return q.ctx.journal.Forwardable() || q.status >= http.StatusBadRequest && forward.LostAnswer(&q.ctx.journal)
		}
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

// noteOutcome adds the headers for the node that has forwarded the request.
func (q *request) noteOutcome() {
	h := q.Header()
	if q.door.OwnAuthentication && q.ctx.journal.Name != storage.CallerLocal {
		h.Set(headerNodeCaller, q.ctx.journal.Name)
	}
	if text := forward.ChangesText(&q.ctx.journal); text != "" {
		h.Set(headerNodeChanges, text)
	}
}

// liveKey returns the key of a forwarded request, if this server still accepts it. open is
// true if the operation needs none.
func (s *shared) liveKey(ctx context.Context, as *forward.Head, open bool) (*hashedKey, *door.Refusal) {
	switch key := s.keys.live(ctx, as); {
	case key != nil || open:
		return key, nil
	case !s.keys.required():
		return s.keys.unkeyed(), nil
	}
	return nil, &door.Refusal{Reason: door.BadCredentials}
}

// beginJournal sets the origin of the writes of a forwarded request.
func beginJournal(j *journal.Journal, as *forward.Head, key *hashedKey) {
	j.SetOrigin(as.Origin)
	j.Repeated = as.Repeated
	if key.known() {
		j.Name = key.author
	}
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

// rawMessage is a message of a call in the encoding of protobuf.
type rawMessage []byte

// remoteName is the address of a client as text.
type remoteName string

func (remoteName) Network() string  { return "tcp" }
func (n remoteName) String() string { return string(n) }

// forwardedMethod is a unary method that may be forwarded, with what serves it.
type forwardedMethod struct {
	*method
	impl   any
	handle grpc.MethodHandler
}

// headersOfCall collects the metadata that a service sends with its response.
type headersOfCall struct {
	method string
	md     metadata.MD
}

func (h *headersOfCall) Method() string { return h.method }

func (h *headersOfCall) SetHeader(md metadata.MD) error {
	h.md = metadata.Join(h.md, md)
	return nil
}

func (h *headersOfCall) SendHeader(md metadata.MD) error { return h.SetHeader(md) }
func (h *headersOfCall) SetTrailer(metadata.MD) error    { return nil }

// invoke calls the service with a message.
func (m *forwardedMethod) invoke(ctx context.Context, c *codec, message []byte) (a forward.Answer) {
	headers := &headersOfCall{method: m.full}
	out, err := m.handle(m.impl, grpc.NewContextWithServerTransportStream(ctx, headers), func(v any) error {
		return c.Unmarshal(mem.BufferSlice{mem.SliceBuffer(message)}, v)
	}, pass)
	a.Metadata = headers.md
	if err == nil {
		a.Message, err = c.encode(out)
	}
	a.Err = err
	return a
}

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
	conn := newForwardedConn(s.connections, cancel)
	defer conn.Close()
	made, leave, err := s.shared.arrivals.Begin(ctx, &as)
	if err != nil {
		return forward.Answer{}, err
	}
	defer leave()
	l := &lazyDeadline{Context: peer.NewContext(ctx, &peer.Peer{Addr: remoteName(as.Remote)}), door: d.name}
	l.journal.Made = made
	if a = s.invokeCounted(l, conn, m, c.Message, &as); l.journal.Forwardable() {
		return forward.Answer{}, forward.ErrNotBegun
	}
	if text := forward.ChangesText(&l.journal); text != "" {
		a.Metadata = metadata.Join(a.Metadata, metadata.Pairs(metadataNodeChanges, text))
	}
	return a, nil
}

// invokeCounted checks the key of a call, counts it and calls the service.
func (s *Server) invokeCounted(l *lazyDeadline, conn *conn.Conn, m *forwardedMethod, message []byte, as *forward.Head) (a forward.Answer) {
	guard := &interceptor{shared: s.shared}
	key, why := s.shared.liveKey(l, as, m.public)
	if l.key = key; key.known() {
		why = key.opens(l, m.door)
		l.Context = context.WithValue(door.WithCaller(l.Context, key.caller), keyOfCall{}, key)
	}
	beginJournal(&l.journal, as, key)
	defer guard.end(l.Context, m.method, time.Now(), &l.journal.Author, &a.Err)
	if why == nil {
		why = s.admitForwarded(conn, len(message), func() { a = s.invokeForwarded(l, m, message, as.Timeout) })
	}
	if why == nil && a.Err != nil && forward.LostAnswer(&l.journal) {
		why = &door.Refusal{Reason: door.Lost}
	}
	if why != nil {
		a.Err = guard.refuse(m.method, why)
	}
	return a
}

// admitForwarded calls serve within the bounds of the server, for a message of a size.
func (s *Server) admitForwarded(c *conn.Conn, size int, serve func()) *door.Refusal {
	if n := int64(size); n > s.shared.bodyBytes {
		return &door.Refusal{Reason: door.TooLarge, Bound: "BodyBytes", Limit: s.shared.bodyBytes}
	}
	if why := s.shared.requests.Acquire(); why != nil {
		return why
	}
	defer s.shared.requests.Release()
	charge := s.shared.bodies.NewCharge(c)
	defer charge.Release()
	if size > conn.BodyFree {
		if why := charge.Add(int64(size)); why != nil {
			return why
		}
		charge.Whole()
	}
	serve()
	return nil
}

// invokeForwarded calls the service within the time that is left.
func (s *Server) invokeForwarded(l *lazyDeadline, m *forwardedMethod, message []byte, timeout time.Duration) forward.Answer {
	l.work.Use(s.shared.turns)
	if own := s.shared.requestTimeout; own > 0 && (timeout <= 0 || own < timeout) {
		timeout = own
	}
	if timeout > 0 {
		l.setDeadline(time.Now(), timeout)
	}
	defer l.release()
	return m.invoke(l, &s.shared.codec, message)
}

// forward serves a call that changes a store, or may do so, see [forward.Sending].
func (c *call) forward(m *forwardedMethod) error {
	var message rawMessage
	if err := c.decode(&message); err != nil {
		return err
	}
	var a forward.Answer
	md, _ := metadata.FromIncomingContext(c.ctx.Context)
	md = md.Copy()
	delete(md, "authorization")
	f := forward.Sending{Sender: c.sender, Again: func() bool { return true },
		Own: func() bool {
			a = m.invoke(&c.ctx, &c.codec, message)
			moved := c.ctx.journal.Forwardable()
			c.ctx.journal.Retry()
			return !moved
		},
		Other: func(t forward.Target, as *forward.Head) (err error) {
			c.ctx.work.End()
			c.ctx.passedOn.Store(true)
			defer c.ctx.passedOn.Store(false)
			a, err = t.RPC(&c.ctx, forward.Call{Method: m.full, Metadata: md, Message: message}, *as)
			return err
		},
	}
	as := forward.Head{Door: m.door.Name, Keys: c.key.forwardIDs(), Origin: c.ctx.journal.Origin(), Remote: remoteOf(c.ctx.Context)}
	if !m.writes && f.Own() {
		return c.answer(&a)
	}
	if err := f.Run(&c.ctx, as); err != nil {
		if why, ok := errors.AsType[*door.Refusal](err); ok {
			return c.refuse(m.method, why)
		}
		return status.FromContextError(err).Err()
	}
	return c.answer(&a)
}

// answer sends the result of a call.
func (c *call) answer(a *forward.Answer) error {
	if text := a.Metadata.Get(metadataNodeChanges); text != nil {
		forward.NoteChanges(&c.ctx.journal, text[0])
		a.Metadata = a.Metadata.Copy()
		delete(a.Metadata, metadataNodeChanges)
	}
	if err := c.record(a.Err); err != nil {
		return err
	}
	if len(a.Metadata) > 0 {
		if err := c.ServerStream.SetHeader(a.Metadata); err != nil {
			return err
		}
	}
	if a.Err != nil {
		return a.Err
	}
	return c.SendMsg(rawMessage(a.Message))
}
