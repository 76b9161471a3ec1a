package server

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/callers"
	"github.com/ostiary/ostiary/internal/trail/logins"
	"github.com/ostiary/ostiary/server/internal/conn"
	"github.com/ostiary/ostiary/storage"
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
	*shared
	ctx     lazyDeadline // the context of the handler
	conn    *conn.Conn
	charge  conn.Charge   // of the body
	door    *servedDoor   // nil: refusals have the server's own shape
	series  *series       // the metrics of the route
	body    *trackedBody  // nil for a body that net/http reads to its end itself
	key     *hashedKey    // see Keys.unkeyed without a caller; nil on public routes
	place   *conn.Limiter // the bound that the request counts in, see enter
	start   time.Time
	ended   int64       // when the response was complete, Unix time in nanoseconds, or 0
	remote  string      // the address of the client
	held    conn.Held   // what a stream keeps for its client
	stale   uint64      // Options.StaleReads when the request came
	status  int         // 0 until the handler sets it
	id      [1]string   // the value of X-Request-Id, in the form of a header
	own     [20]byte    // the memory of an id that setID makes
	removed atomic.Bool // the caller's key was removed while the stream ran
	begun   bool        // the status was passed on, with the first part of the body
	unread  bool        // see refuseBody
	streams bool        // the response may last, see door.Route.Streams
	http2   bool        // a stream over HTTP/2
	noted   bool        // another node has forwarded the request, see noteOutcome
	public  bool        // the place is that of a caller without a key, see conn.PublicPlaces

	// droppable reports whether the response that is about to begin must be dropped,
	// because the request is sent to another node; nil if it must not. dropped is true
	// once it has. See [request.attempt].
	dropped   bool
	droppable func() bool

	audit *audited // nil without an audit log, and for a forwarded request
}

const (
	// ownDivisor: RequestsMax divided by it bounds the requests of doors that
	// authenticate their callers themselves.
	ownDivisor = 2
	// ownBodiesDivisor: BodyBytesTotal divided by it bounds the bodies of such
	// doors.
	ownBodiesDivisor = 4
)

// countsFailedLogins returns a context in which the door counts the logins that it refuses.
func (q *request) countsFailedLogins(ctx context.Context) context.Context {
	return logins.WithFailures(ctx, func(l logins.Failure) { q.metrics.loginFailed(q.door.Name, l) })
}

// serve authenticates the caller, acquires a place within the bounds, and calls
// the handler of route.
func (q *request) serve(r *http.Request, route *door.Route, p door.Params) {
	q.streams = route.Streams
	q.stale = q.staleCount()
	q.beginAudit(r, route, &p)
	q.keepBody(r)
	defer q.end(r)
	ctx := r.Context()
	required := q.keys.required()
	if required && !route.Public && !q.door.OwnAuthentication {
		key, why := q.keys.identify(ctx, r.Header["Authorization"], q.door.Basic, q.conn)
		if refusal := q.lockout(r, key); refusal != nil {
			q.conn.DelayRefusal(ctx, q.stopping)
			q.refuse(r, refusal)
			return
		}
		if why != 0 {
			refusal := &door.Refusal{Reason: why}
			if why == door.BadCredentials {
				q.metrics.loginFailed(q.door.Name, q.keys.refusedBy(r.Header["Authorization"]))
				q.logins.Failed(q.door.Name, r.RemoteAddr, q.requestID(), refusal.Error())
			}
			q.refuse(r, refusal)
			return
		}
		if key.basic {
			q.conn.Shown.Store(key)
		}
		q.key, q.ctx.key = key, key
		ctx = door.WithCaller(ctx, key.caller)
		if why := key.opens(ctx, q.door); why != nil {
			q.refuse(r, why)
			return
		}
	}
	if !required && !q.door.OwnAuthentication && !(route.Public && !q.streams) {
		q.key = q.keys.unkeyed()
		q.ctx.key = q.key
	}
	if q.key != nil || !required && !q.door.OwnAuthentication {
		if why := q.key.trust(q.conn); why != nil {
			q.refuse(r, why)
			return
		}
	}
	if !required && !q.door.OwnAuthentication && r.Header["Authorization"] != nil {
		q.Header().Set(headerAuthentication, "off")
	}
	origin, why := q.key.origin(r.Header[headerReason])
	if why != nil {
		q.refuse(r, why)
		return
	}
	q.ctx.journal.SetOrigin(origin)
	if q.audit.changes() && q.trail.Ready() != nil {
		q.refuse(r, &door.Refusal{Reason: door.Unaudited})
		return
	}
	if why := q.enter(route); why != nil {
		q.refuse(r, why)
		return
	}
	defer q.leave(route)
	budget := &q.bodies
	if q.door.OwnAuthentication {
		budget = &q.ownBodies
	}
	q.charge = budget.NewCharge(q.conn)
	defer q.charge.Release()
	if q.door.OwnAuthentication {
		ctx = q.countsFailedLogins(ctx)
		if !q.conn.Trusted.Load() {
			ctx = door.WithAuthenticated(ctx, func() { _ = q.conn.Trust() }) // without a place, the connection stays untrusted
		}
		if why := budget.Acquire(&q.ownRequests, q.conn); why != nil {
			q.refuse(r, why)
			return
		}
		defer q.ownRequests.Release() // before the charge, whose end wakes those that wait
	}
	if !q.boundBody(r, route) {
		return
	}
	q.audit.keepContent(r)
	q.ctx.Context, q.ctx.door, q.ctx.request, q.ctx.stream = ctx, q.door.name, requestOf{q}, q.streams
	q.ctx.work.Use(q.turns)
	switch {
	case q.streams:
		var release func()
		q.ctx.Context, release = q.beginStream(ctx, r)
		defer release()
	case q.requestTimeout > 0:
		q.ctx.setDeadline(q.start, max(q.requestTimeout, q.door.RequestTimeout))
	}
	defer q.ctx.release()
	if q.sender != nil && changes(route) {
		q.forward(r.WithContext(&q.ctx), route, p)
		return
	}
	route.Serve(q, r.WithContext(&q.ctx), p)
}

// lockout returns the refusal of a request with a user's password, right or wrong, if
// its address has sent too many wrong ones for this user. key is nil if the password is
// wrong. A user who was accepted last on the connection is not refused.
func (q *request) lockout(r *http.Request, key *hashedKey) *door.Refusal {
	user, _, basic := r.BasicAuth()
	if !basic || !q.door.Basic || !validUser(user) || key != nil && q.conn.Shown.Load() == any(key) {
		return nil
	}
	refused, first := q.conn.All.Standings.Guess(q.conn.Address, user, key == nil)
	if !refused {
		return nil
	}
	if first {
		q.log.Warn("too many wrong passwords: an address may try this user's only now and then", "door", q.door.Name, "remote", r.RemoteAddr, "user", user)
	}
	q.refuseBody(r)
	return &door.Refusal{Reason: door.TooMany, Bound: "WrongPasswordsPerAddress", Limit: conn.GuessesMax}
}

// enter takes a place for the request within the bounds. If there is one, leave gives it
// back.
func (q *request) enter(route *door.Route) (why *door.Refusal) {
	if q.public = q.keys.required() && route.Public; q.public {
		q.place, why = q.publicPlaces.Enter(q.conn, route.Streams)
		return why
	}
	q.place = &q.shared.requests
	if route.Streams {
		q.place = &q.shared.streams
	}
	return q.place.Acquire()
}

// leave gives back the place that enter took.
func (q *request) leave(route *door.Route) {
	q.place.Release()
	if q.public {
		q.conn.LeavePublic(route.Streams)
	}
}

// boundBody keeps the body within its bounds: it refuses a request that announces
// a larger body, and cuts a body of unknown length at the bound. It charges the
// body, unless the request is a stream, which does not keep its body. It reports
// whether the request may go on.
func (q *request) boundBody(r *http.Request, route *door.Route) bool {
	limit := route.BodyMax
	if limit <= 0 {
		limit = q.bodyBytes
	}
	if r.ContentLength > limit {
		if r.ProtoMajor == 1 { // over HTTP/2, clients that still send would lose the response's body
			q.Header().Set("Connection", "close")
		}
		q.refuse(r, &door.Refusal{Reason: door.TooLarge, Bound: "BodyBytes", Limit: limit})
		return false
	}
	free := int64(conn.BodyFree)
	if q.door.OwnAuthentication {
		free = 0 // the budget knows all bodies, to find one that is held back
	}
	if !q.streams {
		if why := q.charge.Body(r, free); why != nil {
			q.refuse(r, why)
			return false
		}
	}
	if r.ContentLength < 0 {
		r.Body = http.MaxBytesReader(q.ResponseWriter, r.Body, limit)
	}
	return true
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
	q.series.observe(took, outcome)
	if q.accessLog {
		line := []slog.Attr{slog.String("door", q.door.Name), slog.String("route", q.series.route), slog.String("method", r.Method), slog.Int("status", q.status),
			millis(took), slog.String("caller", callerText(q.door.Door, q.key, &q.ctx.journal.Author)), slog.String("remote", r.RemoteAddr), slog.String("id", q.requestID())}
		q.log.LogAttrs(context.Background(), slog.LevelInfo, what, logRevision(line, &q.ctx.journal.Author)...)
	}
	if !whole {
		panic(http.ErrAbortHandler)
	}
}

// millis is a duration in a line of the log, in milliseconds.
func millis(took time.Duration) slog.Attr {
	return slog.Float64("duration_ms", float64(took.Microseconds())/1000)
}

// callerText names the caller of a request to door d in the access log, as the log of
// the store does: the user of a door that authenticates its callers, the name or the
// fingerprint of the key, or "local" without keys. It is "anonymous" if the request
// was refused without any of them: then the log of the store has no entry of it.
func callerText(d *door.Door, key *hashedKey, a *authz.Author) string {
	caller := a.Name
	switch {
	case caller != "" && !(d.OwnAuthentication && caller == storage.CallerLocal):
		return caller
	case key != nil: // the request was refused before it had an author
		return key.author
	}
	return callers.CallerAnonymous
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
		logPanic(q.log, p, q.door.Name, q.series.route, q.requestID())
	}
	if q.begun {
		return false
	}
	q.status = 0
	q.Header().Del("Content-Length")
	q.refuse(r, why)
	return true
}

// logPanic logs a panic with its stack. It logs the panic's value only if it is
// an error of the Go runtime; other values get only their type logged, because
// they may hold content of the request.
func logPanic(log *slog.Logger, p any, door, route, id string) {
	what := fmt.Sprintf("%T", p)
	if e, ok := p.(runtime.Error); ok {
		what = e.Error()
	}
	log.Error("panic", "door", door, "route", route, "id", id, "what", what, "stack", string(debug.Stack()))
}

// refuse answers the request with why, in the shape of its door.
func (q *request) refuse(r *http.Request, why *door.Refusal) {
	q.metrics.refused(why.Reason)
	q.noteRefusal(r, why)
	if q.log.Enabled(context.Background(), slog.LevelDebug) {
		q.log.Debug("refused", "why", why.Error(), "remote", r.RemoteAddr, "id", q.requestID())
	}
	if why.Reason == door.NoCredentials || why.Reason == door.BadCredentials {
		q.Header().Set("WWW-Authenticate", "Bearer")
		if q.door != nil && q.door.Basic {
			q.Header().Add("WWW-Authenticate", `Basic realm="ostiary", charset="UTF-8"`)
		}
		q.refuseBody(r)
		q.conn.DelayRefusal(r.Context(), q.stopping)
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
		q.id[0] = newID(&q.own)
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
	if q.streams {
		free = streamFree
	}
	if len(p) > free {
		if why := q.conn.HoldFor(q.ctx.Context, int64(len(p)), q.held.Bytes, q.transferTime); why != nil {
			if !q.streams {
				panic(unsentRefusal{why})
			}
			q.metrics.refused(why.Reason)
			return 0, why
		}
	}
	q.begin()
	if q.streams {
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
	if q.streams || len(s) > conn.BodyFree {
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
	if q.streams {
		q.boundWrite()
		defer q.endWrite()
	}
	if f, ok := q.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}
