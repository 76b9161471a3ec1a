package server

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/trail/logins"
	"github.com/ostiary/ostiary/server/internal/conn"
)

const (
	headerRequestID = "X-Request-Id"
	headerStale     = "Ostiary-Stale"
	// headerAuthentication has the value "off" in the response of a server without
	// keys to a request with a key, so that its sender can notice that nothing was
	// checked.
	headerAuthentication = "Ostiary-Authentication"
	requestIDBytesMax    = 64
)

// request is one HTTP request in flight. It is also the response writer that the
// door's handler gets, and records the status. A request is never reused, so a
// handler that keeps it by mistake cannot see another caller's data.
type request struct {
	http.ResponseWriter
	passage
	body      *trackedBody // nil for a body that net/http reads to its end itself
	ended     int64        // when the response was complete, Unix time in nanoseconds, or 0
	held      conn.Held    // what a stream keeps for its client
	endStream func()       // frees what a stream has; nil for another request
	status    int          // 0 until the handler sets it
	ownID     [20]byte     // the memory of an id that setID makes
	removed   atomic.Bool  // the caller's key was removed while the stream ran
	begun     bool         // the status was passed on, with the first part of the body
	unread    bool         // see refuseBody
	http2     bool         // a stream over HTTP/2
	running   runningBody  // of a request with limits
	noted     bool         // another node has forwarded the request, see noteOutcome

	// droppable reports whether the response that is about to begin must be dropped,
	// because the request is sent to another node; nil if it must not. dropped is true
	// once it has. See [request.attempt].
	dropped   bool
	droppable func() bool

	audit *audited // nil without an audit log, and for a forwarded request
}

// serve passes a request to the handler of its route, if the gates let it pass.
func (q *request) serve(r *http.Request, route *door.Route, p door.Params) {
	q.stale = q.staleCount()
	q.beginAudit(r, &p)
	q.keepBody(r)
	defer q.pace(r.Context())
	defer q.end(r)
	defer q.leave()
	why := q.arrive(r, routeGates[:])
	if q.tracer != nil {
		q.beginSpan(r.Method, r.Header)
	}
	if why != nil {
		q.refuse(r, why)
		return
	}
	if q.op.own && !q.conn.Trusted.Load() {
		q.ctx.Context = door.WithAuthenticated(q.ctx.Context, func() { _ = q.conn.Trust() }) // without a place, the connection stays untrusted
	}
	timeout := q.requestTimeout
	if timeout > 0 {
		timeout = max(timeout, q.door.RequestTimeout)
	}
	q.open(r, timeout)
	if q.sender != nil && q.op.changes() {
		q.forward(r.WithContext(&q.ctx), route, p)
		return
	}
	route.Serve(q, r.WithContext(&q.ctx), p)
}

// arrive sends a request through gates, and returns the refusal if they do not let it pass.
func (q *request) arrive(r *http.Request, gates []gate) *door.Refusal {
	q.header, q.required = r.Header, q.keys.required()
	q.length, q.most, q.free = r.ContentLength, cmp.Or(q.op.bodyMax, q.bodyBytes), conn.BodyFree
	q.ctx.stream = q.op.streams
	budget := &q.bodies
	if q.op.own {
		budget, q.free = &q.ownBodies, 0 // the budget knows all bodies, to find one that is held back
	}
	if q.op.streams {
		q.free = math.MaxInt64 // a stream does not keep its body
	}
	q.charge = budget.NewCharge(q.conn)
	if !q.required && !q.op.own && r.Header["Authorization"] != nil && q.as == nil {
		q.Header().Set(headerAuthentication, "off")
	}
	return q.pass(gates)
}

// open prepares the context and the body of a request for its handler, which has timeout from
// the start of the request on, unless that is 0 or the request is a stream.
func (q *request) open(r *http.Request, timeout time.Duration) {
	if !q.op.streams {
		q.charge.Body(r, q.free)
	}
	if r.ContentLength < 0 {
		r.Body = http.MaxBytesReader(q.ResponseWriter, r.Body, q.most)
	}
	if q.ctx.limits.of != nil {
		q.running = runningBody{r.Body, &q.ctx.work}
		r.Body = &q.running
	}
	q.audit.keepContent(r)
	q.ctx.door, q.ctx.request = q.door.name, requestOf{q}
	q.ctx.work.Use(q.turns)
	q.ctx.journal.Frees = r.Method == http.MethodDelete
	if q.op.own {
		q.ctx.Context = logins.WithFailures(q.ctx.Context, func(l logins.Failure) { q.metrics.loginFailed(q.door.Name, l) })
	}
	switch {
	case q.op.streams:
		q.ctx.Context, q.endStream = q.beginStream(q.ctx.Context, r)
	case timeout > 0:
		q.ctx.setDeadline(q.start, timeout)
	}
}

// leave ends the context of the handler, and gives back what the gates took.
func (q *request) leave() {
	q.ctx.release()
	if q.endStream != nil {
		q.endStream()
	}
	q.passage.leave()
}

// end counts and logs the request. It must be deferred, because it also turns a
// panic of the handler into the door's refusal. If the response has already
// begun, it aborts the connection instead, so that the client cannot take half a
// response for a whole one.
func (q *request) end(r *http.Request) {
	whole := true
	if q.audit != nil {
		q.audit.ending = true
	}
	if p := recover(); p != nil {
		whole = q.recovered(r, p)
	} else if q.status == 0 {
		// The handler wrote nothing, for example because the body broke off. net/http
		// would send 200, which a client could take for a successful write.
		q.refuse(r, &door.Refusal{Reason: door.Failed})
	}
	if q.dropped {
		q.endHTTP(r, whole)
		return // another node serves the request
	}
	if why := q.recordEnd(whole); why != nil && whole {
		q.status = 0
		q.Header().Del("Content-Length")
		q.refuse(r, why)
	}
	what, outcome := "request", outcomeServer
	switch {
	case whole:
		q.begin()
		switch {
		case q.unread:
			q.abandon()
		case q.status >= 400:
			q.drain()
		}
		q.closeUnread()
		outcome = outcomeOfStatus(q.status)
	case r.Context().Err() != nil:
		what, outcome = "request whose client left", outcomeClient
	default:
		what = "request with a response that broke off"
	}
	now := time.Now()
	q.ended = now.UnixNano()
	took := now.Sub(q.start)
	q.op.series.observe(took, outcome)
	if q.accessLog {
		line := []slog.Attr{slog.String("door", q.door.Name), slog.String("route", q.op.series.route), slog.String("method", r.Method), slog.Int("status", q.status),
			millis(took), slog.String("caller", callerText(q.door.Door, q.ctx.key, &q.ctx.journal.Author)), slog.String("remote", r.RemoteAddr), slog.String("id", q.requestID())}
		line = logSpan(line, q.ctx.span)
		q.log.LogAttrs(context.Background(), slog.LevelInfo, what, logRevision(line, &q.ctx.journal.Author)...)
	}
	q.endHTTP(r, whole)
	if !whole {
		panic(http.ErrAbortHandler)
	}
}

// recovered handles a panic of a handler: it logs the panic once, without
// content of the request, and refuses the request. It returns false if the
// response has already begun, or if the handler aborted it.
func (q *request) recovered(r *http.Request, p any) (whole bool) {
	if p == http.ErrAbortHandler {
		return false
	}
	why := &door.Refusal{Reason: door.Failed}
	if unsent, refused := p.(unsentRefusal); refused {
		why = unsent.Refusal
	} else {
		logPanic(q.log, p, q.door.Name, q.op.series.route, q.requestID())
	}
	if q.begun {
		return false
	}
	q.status = 0
	q.Header().Del("Content-Length")
	q.refuse(r, why)
	return true
}

// refuse answers the request with why, in the shape of its door.
func (q *request) refuse(r *http.Request, why *door.Refusal) {
	q.metrics.refused(why.Reason)
	q.refused(why)
	q.noteRefusal(r, why)
	if q.log.Enabled(context.Background(), slog.LevelDebug) {
		q.log.Debug("refused", "why", why.Error(), "remote", r.RemoteAddr, "id", q.requestID())
	}
	credentials := why.Reason == door.NoCredentials || why.Reason == door.BadCredentials
	if credentials {
		q.Header().Set("WWW-Authenticate", "Bearer")
		if q.door != nil && q.door.Basic {
			q.Header().Add("WWW-Authenticate", `Basic realm="ostiary", charset="UTF-8"`)
		}
	}
	switch {
	case credentials || why.Bound == boundGuesses:
		q.refuseBody(r)
		q.conn.DelayRefusal(r.Context(), q.stopping)
	case why.Reason == door.TooLarge && r.ProtoMajor == 1: // over HTTP/2, clients that still send would lose the response's body
		q.Header().Set("Connection", "close")
	}
	switch {
	case q.door == nil:
		writeError(q, why.Status(), "refused", why.Error(), nil)
	case q.door.Refuse == nil:
		q.WriteHeader(why.Status())
	default:
		q.door.Refuse(q, r, why)
	}
	q.begin()
}

// setID sets the request's id: the client's own if it has a valid form,
// otherwise a new one.
func (q *request) setID(r *http.Request) {
	if own := r.Header[headerRequestID]; len(own) == 1 && validID(own[0]) {
		q.id[0] = own[0]
	} else {
		q.id[0] = newID(&q.ownID)
	}
	q.Header()[headerRequestID] = q.id[:]
}

// requestID returns the id of the request for logs. It is what the response has:
// a door may have replaced the server's id by one of its protocol's form.
func (q *request) requestID() string {
	if id := q.Header()[headerRequestID]; len(id) == 1 {
		return id[0]
	}
	return q.id[0]
}

func validID(s string) bool {
	if s == "" || len(s) > requestIDBytesMax {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '.') {
			return false
		}
	}
	return true
}

// newID returns 100 random bits as text in the memory of b, which the caller must not
// change. Ids are not secret.
func newID(b *[20]byte) string {
	const digits = "0123456789abcdefghijklmnopqrstuv"
	first, second := rand.Uint64(), rand.Uint64()
	for i := range 10 {
		b[i], b[i+10] = digits[first&31], digits[second&31]
		first, second = first>>5, second>>5
	}
	return unsafe.String(&b[0], len(b))
}

// Unwrap returns the underlying writer, for [http.ResponseController].
func (q *request) Unwrap() http.ResponseWriter { return q.ResponseWriter }

// WriteHeader records the status. It is written with the first part of the body,
// so that a response can still be refused when its body turns out to be too
// large for the bounds.
func (q *request) WriteHeader(status int) {
	if status < 200 {
		q.ResponseWriter.WriteHeader(status)
	} else if q.status == 0 {
		q.status = status
	}
}

// begin writes the status, once.
func (q *request) begin() {
	if q.status == 0 {
		q.status = http.StatusOK
	}
	if !q.begun && !q.dropped {
		if why := q.recordFirst(); why != nil {
			panic(unsentRefusal{why})
		}
		q.begun = true
		if q.noted {
			q.noteOutcome()
		}
		q.ctx.limits.retryAfter(q.Header(), q.status)
		if q.staleCount() != q.stale {
			q.Header()[headerStale] = []string{"true"}
		}
		q.ResponseWriter.WriteHeader(q.status)
	}
}

// Write writes p. In a stream, each Write has its own deadline. Beyond the bounds
// of unsent responses, a stream gets the refusal as an error; any other response
// is replaced by the refusal.
func (q *request) Write(p []byte) (int, error) {
	if q.drops() {
		return len(p), nil
	}
	q.ctx.work.End() // the client may read slowly
	free := conn.BodyFree
	if q.ctx.stream {
		free = streamFree
	}
	if len(p) > free {
		if why := q.conn.HoldFor(q.ctx.Context, int64(len(p)), q.held.Bytes, q.transferTime); why != nil {
			if !q.ctx.stream {
				panic(unsentRefusal{why})
			}
			q.metrics.refused(why.Reason)
			return 0, why
		}
	}
	q.begin()
	if q.ctx.stream {
		q.boundWrite()
		defer q.endWrite()
	}
	if len(p) > free {
		return q.conn.WriteHeld(q.ResponseWriter, p)
	}
	return q.ResponseWriter.Write(p)
}

// streamFree is the size up to which the write of a stream is not counted, in
// bytes. net/http has a buffer of this size for each connection.
const streamFree = 4 << 10

// unsentRefusal is the panic of a response that the bounds of unsent responses
// do not allow.
type unsentRefusal struct{ *door.Refusal }

// WriteString writes s, a short one without copying it.
func (q *request) WriteString(s string) (int, error) {
	if q.ctx.stream || len(s) > conn.BodyFree {
		return q.Write([]byte(s))
	}
	if q.drops() {
		return len(s), nil
	}
	q.begin()
	return io.WriteString(q.ResponseWriter, s)
}

// Flush sends what was written so far.
func (q *request) Flush() {
	if q.drops() {
		return
	}
	q.begin()
	if q.ctx.stream {
		q.boundWrite()
		defer q.endWrite()
	}
	if f, ok := q.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

// requestOf is a [door.Request] over HTTP.
type requestOf struct{ *request }

func (o requestOf) Operation() string { return o.op.series.route }
func (o requestOf) Remote() string    { return o.remote }
func (o requestOf) ID() string        { return o.requestID() }
func (o requestOf) Author() string    { return callerText(o.door.Door, o.ctx.key, &o.ctx.journal.Author) }
