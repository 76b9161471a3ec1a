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
	"time"

	"github.com/ostiary/ostiary/door"
)

const (
	headerRequestID   = "X-Request-Id"
	requestIDBytesMax = 64
	pathHealth        = "/healthz"
)

// entrance is the handler of an HTTP port: the one place that every HTTP
// request of every door comes through.
type entrance struct {
	*gate
	table *table
}

// place is what a request's method and path lead to.
type place struct {
	path    string
	odd     bool // not a path that has one reading
	door    *mounted
	route   *door.Route
	methods []string // of the routes with this path, if it has none for the method
	params  door.Params
}

// find finds the door and its route.
func (e *entrance) find(method, path string, at *place) {
	at.path, at.odd = path, !canonical(path)
	if at.door = e.table.find(path); at.door != nil && !at.odd {
		at.route, at.methods = at.door.router.Find(method, path, &at.params)
	}
}

// ServeHTTP finds the door, guards it, bounds the request and counts it.
func (e *entrance) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var at place
	e.find(r.Method, rawPath(r), &at)
	c := &call{ResponseWriter: w, gate: e.gate, start: time.Now()}
	c.identify(r)
	d := at.door
	if e.draining.Load() {
		w.Header().Set("Connection", "close")
	}
	switch {
	case at.odd:
		c.refuse(d, r, &door.Refusal{Reason: door.BadPath})
		return
	case at.path == pathHealth && (r.Method == http.MethodGet || r.Method == http.MethodHead):
		e.sayHealth(w)
		return
	case e.cors != nil && e.cors.answer(w, r):
		return
	case e.machine && e.cors.foreign(r):
		c.refuse(nil, r, &door.Refusal{Reason: door.ForeignPage})
		return
	case e.machine && !ownName(r.Host):
		c.refuse(nil, r, &door.Refusal{Reason: door.ForeignName})
		return
	case d == nil:
		e.table.nobody(w, r)
		return
	case at.route == nil:
		c.series = d.missing
		defer c.end(d, r)
		d.miss(c, r, at.methods)
		return
	}
	c.series = d.routes[at.route]
	c.serve(r.Context(), d, at.route, r, at.params)
}

// call is one request under way. It is the request's context, which ends when
// its time is up, and the writer of its answer, which remembers the status. It
// is not used again for another request: a door that holds on to it by mistake
// sees an ended request, not somebody else's.
type call struct {
	http.ResponseWriter
	limit
	*gate
	series  *series
	start   time.Time
	status  int
	streams bool
	id      [1]string // the header's value, in place
}

// serve asks who it is, admits the request within its bounds, and lets the door
// answer.
func (c *call) serve(ctx context.Context, d *mounted, route *door.Route, r *http.Request, p door.Params) {
	c.streams = route.Streams
	defer c.end(d, r)
	if c.keys != nil && !route.Public {
		caller, why := c.keys.check(r.Header["Authorization"])
		if why != 0 {
			c.refuse(d, r, &door.Refusal{Reason: why})
			return
		}
		ctx = door.WithCaller(ctx, caller)
	}
	count, most, bound := &c.requests, c.requestsMax, "RequestsMax"
	if route.Streams {
		count, most, bound = &c.gate.streams, c.streamsMax, "StreamsMax"
	}
	defer count.Add(-1)
	if count.Add(1) > most {
		c.refuse(d, r, &door.Refusal{Reason: door.TooMany, Bound: bound, Limit: most})
		return
	}
	if !c.boundBody(d, route, r) {
		return
	}
	c.Context = ctx
	if route.Streams {
		defer c.stream(r)()
	} else if c.timeout > 0 {
		c.deadline, c.limit.clock = c.start.Add(c.timeout), c.gate.clock
	}
	defer c.release()
	route.Serve(c, r.WithContext(c), p)
}

// boundBody keeps a body within its bound: what says that it is larger is
// refused at once, what says nothing is cut.
func (c *call) boundBody(d *mounted, route *door.Route, r *http.Request) bool {
	most := route.BodyMax
	if most <= 0 {
		most = c.bodyBytes
	}
	if r.ContentLength > most {
		c.Header().Set("Connection", "close") // the rest is not read
		c.refuse(d, r, &door.Refusal{Reason: door.TooLarge, Bound: "BodyBytes", Limit: most})
		return false
	}
	if r.ContentLength < 0 {
		r.Body = http.MaxBytesReader(c.ResponseWriter, r.Body, most)
	}
	return true
}

// stream lifts the connection's deadlines for an answer that lasts: reading
// ends with the body, each write has its own, and the server's stop ends it.
func (c *call) stream(r *http.Request) (done func()) {
	control := http.NewResponseController(c.ResponseWriter)
	if r.ContentLength == 0 {
		control.SetReadDeadline(time.Time{})
	} else {
		r.Body = &untilRead{r.Body, control, c.transfer}
	}
	ctx, cancel := context.WithCancel(c.Context)
	forget := context.AfterFunc(c.ending, cancel)
	c.Context = ctx
	return func() {
		forget()
		cancel()
	}
}

// untilRead gives each read of a stream's body a deadline of its own, as writes
// have: an import may be long, but not silent. It lifts the deadline when the
// body has been read: net/http would take its passing for a client that went
// away.
type untilRead struct {
	io.ReadCloser
	control  *http.ResponseController
	transfer time.Duration
}

func (u *untilRead) Read(p []byte) (int, error) {
	u.control.SetReadDeadline(time.Now().Add(u.transfer))
	n, err := u.ReadCloser.Read(p)
	if err == io.EOF {
		u.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// end counts the request, and turns a panic into the door's refusal.
func (c *call) end(d *mounted, r *http.Request) {
	if p := recover(); p != nil {
		c.failed(d, r, p)
	} else if c.status == 0 {
		// The door gave up, over a body that broke off, say. Silence would be a 200,
		// and a 200 may be taken for a write.
		c.refuse(d, r, &door.Refusal{Reason: door.Failed})
	}
	took := time.Since(c.start)
	c.series.add(took, outcomeOfStatus(c.status))
	if c.accessLog {
		c.log.LogAttrs(context.Background(), slog.LevelInfo, "request", slog.String("door", d.Name), slog.String("route", c.series.route),
			slog.String("method", r.Method), slog.Int("status", c.status), slog.Duration("took", took), slog.String("id", c.id[0]))
	}
}

// failed logs a panic once, without what the request held, and answers if
// nothing was answered yet; else it ends the connection, so that nobody takes
// half an answer for a whole one.
func (c *call) failed(d *mounted, r *http.Request, p any) {
	if p == http.ErrAbortHandler {
		panic(p)
	}
	logPanic(c.log, p, d.Name, c.series.route, c.id[0])
	if c.status != 0 {
		panic(http.ErrAbortHandler)
	}
	c.refuse(d, r, &door.Refusal{Reason: door.Failed})
}

// logPanic shows the stack, and of the value only what cannot hold a request's
// content: the runtime's own errors.
func logPanic(log *slog.Logger, p any, name, route, id string) {
	what := fmt.Sprintf("%T", p)
	if e, ok := p.(runtime.Error); ok {
		what = e.Error()
	}
	log.Error("panic", "door", name, "route", route, "id", id, "what", what, "stack", string(debug.Stack()))
}

// refuse answers for the door what the door never sees.
func (c *call) refuse(d *mounted, r *http.Request, why *door.Refusal) {
	c.metrics.refused(why.Reason)
	if c.log.Enabled(context.Background(), slog.LevelDebug) {
		c.log.Debug("refused", "why", why.Error(), "id", c.id[0])
	}
	if why.Reason == door.NoCredentials || why.Reason == door.BadCredentials {
		c.Header().Set("WWW-Authenticate", "Bearer")
	}
	switch {
	case d == nil:
		writeError(c, why.Status(), "refused", why.Error(), nil)
	case d.Refuse == nil:
		c.WriteHeader(why.Status())
	default:
		d.Refuse(c, r, why)
	}
}

// identify gives the request an id, the caller's own if it is a sane one.
func (c *call) identify(r *http.Request) {
	if own := r.Header[headerRequestID]; len(own) == 1 && saneID(own[0]) {
		c.id[0] = own[0]
	} else {
		c.id[0] = newID()
	}
	c.Header()[headerRequestID] = c.id[:]
}

func saneID(s string) bool {
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

// newID is 96 random bits; it need not be secret, only rarely the same.
func newID() string {
	const digits = "0123456789abcdefghijklmnopqrstuv"
	var b [20]byte
	a, z := rand.Uint64(), rand.Uint64()
	for i := range 10 {
		b[i], b[i+10] = digits[a&31], digits[z&31]
		a, z = a>>5, z>>5
	}
	return string(b[:])
}

// Unwrap is for http.ResponseController.
func (c *call) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// WriteHeader remembers the status.
func (c *call) WriteHeader(status int) {
	if c.status == 0 && status >= 200 {
		c.status = status
	}
	c.ResponseWriter.WriteHeader(status)
}

// Write writes, in a stream with a deadline of its own.
func (c *call) Write(p []byte) (int, error) {
	if c.status == 0 {
		c.status = http.StatusOK
	}
	if c.streams {
		http.NewResponseController(c.ResponseWriter).SetWriteDeadline(time.Now().Add(c.transfer))
	}
	return c.ResponseWriter.Write(p)
}

// WriteString spares a copy.
func (c *call) WriteString(s string) (int, error) {
	if c.status == 0 {
		c.status = http.StatusOK
	}
	if c.streams {
		return c.Write([]byte(s))
	}
	return io.WriteString(c.ResponseWriter, s)
}

// Flush sends what was written.
func (c *call) Flush() {
	if c.status == 0 {
		c.status = http.StatusOK
	}
	if f, ok := c.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}
