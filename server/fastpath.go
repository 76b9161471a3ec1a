package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// fastPath serves an HTTP port. It reads by itself what clients send nearly all
// of the time: requests of HTTP/1.1 in their plainest form, a body with a length
// or none. Whatever else a connection says (chunks, HTTP/2, upgrades, odd
// headers, a route that streams, anything that it is not sure to read as
// net/http does) goes to net/http: the connection with all that it said and was
// not answered, for good. So there is one place that knows HTTP whole, and a
// request that both could read means the same to both (FuzzSameAsNetHTTP).
// Both call one handler, the entrance.
type fastPath struct {
	entrance *entrance
	rest     *http.Server
	log      *slog.Logger
	handed   handover

	mu       sync.Mutex
	listener net.Listener
	conns    map[*fastConn]struct{}
	wait     sync.WaitGroup // of conns
	closing  atomic.Bool    // set with mu held
}

func newFastPath(e *entrance, rest *http.Server, log *slog.Logger) *fastPath {
	return &fastPath{entrance: e, rest: rest, log: log, conns: map[*fastConn]struct{}{},
		handed: handover{conns: make(chan net.Conn), closed: make(chan struct{})}}
}

// Serve accepts connections of l, which must be patience's, until Shutdown or
// Close, and then returns http.ErrServerClosed. It is called once.
func (f *fastPath) Serve(l net.Listener) error {
	f.mu.Lock()
	f.listener = l
	f.mu.Unlock()
	if f.closing.Load() {
		l.Close()
	}
	f.handed.addr = l.Addr()
	rest := make(chan error, 1)
	go func() { rest <- f.rest.Serve(&f.handed) }()
	if err := f.accept(l); !errors.Is(err, net.ErrClosed) {
		f.rest.Close()
		<-rest
		return err
	}
	return <-rest
}

// The time after which a machine out of file descriptors is asked again for a
// connection, as net/http has it.
const (
	acceptAgain    = 5 * time.Millisecond
	acceptAgainMax = time.Second
)

func (f *fastPath) accept(l net.Listener) error {
	again := time.Duration(0)
	for {
		conn, err := l.Accept()
		if err != nil {
			// Temporary is deprecated, but net/http asks it too: nothing else says it.
			if timed, ok := err.(net.Error); ok && timed.Temporary() {
				again = min(max(2*again, acceptAgain), acceptAgainMax)
				f.log.Warn("no connection accepted", "why", err, "again_in", again)
				time.Sleep(again)
				continue
			}
			return err
		}
		again = 0
		patient, ok := conn.(*patientConn)
		if !ok {
			f.handed.give(conn)
			continue
		}
		c := newFastConn(f, patient)
		if !f.add(c) {
			conn.Close()
			continue
		}
		go c.serve()
	}
}

func (f *fastPath) add(c *fastConn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closing.Load() {
		return false
	}
	f.conns[c] = struct{}{}
	f.wait.Add(1)
	return true
}

func (f *fastPath) remove(c *fastConn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.conns, c)
	f.wait.Done()
}

// newGrace is how long a stop waits for the first request of a connection, as
// net/http has it.
const newGrace = 5 * time.Second

// Shutdown accepts no more, ends connections as they fall idle and waits for
// all, or for ctx, whose error it then returns. One that was just made, and
// whose first request may be on its way, has newGrace for it.
func (f *fastPath) Shutdown(ctx context.Context) error {
	f.stop(func(c *fastConn) { c.endIn(connIdle) })
	late := time.AfterFunc(newGrace, func() { f.stop(func(c *fastConn) { c.endIn(connNew) }) })
	defer late.Stop()
	done := make(chan struct{})
	go func() {
		f.wait.Wait()
		close(done)
	}()
	select {
	case <-done: // what they handed over has been accepted
	case <-ctx.Done():
		return ctx.Err()
	}
	return f.rest.Shutdown(ctx)
}

// Close ends all connections and the contexts of their requests at once. It does
// not wait for those that answer.
func (f *fastPath) Close() error {
	f.stop(func(c *fastConn) {
		c.Close()
		c.cancel()
	})
	f.handed.Close() // the rest may not have begun to listen
	return f.rest.Close()
}

func (f *fastPath) stop(end func(*fastConn)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closing.Store(true)
	if f.listener != nil {
		f.listener.Close()
	}
	for c := range f.conns {
		end(c)
	}
}

// handover is the listener that net/http gets connections from.
type handover struct {
	conns  chan net.Conn
	addr   net.Addr
	once   sync.Once
	closed chan struct{}
}

// give waits until net/http has the connection; where it has stopped, the
// connection ends.
func (h *handover) give(c net.Conn) {
	select {
	case h.conns <- c:
	case <-h.closed:
		c.Close()
	}
}

// Accept waits for the next connection.
func (h *handover) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

// Close makes Accept return.
func (h *handover) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

// Addr is the port's.
func (h *handover) Addr() net.Addr { return h.addr }

// replayed is a connection that first says again what was read of it.
type replayed struct {
	*patientConn
	said []byte
}

// Read reads.
func (r *replayed) Read(p []byte) (int, error) {
	if len(r.said) == 0 {
		return r.patientConn.Read(p)
	}
	n := copy(p, r.said)
	if r.said = r.said[n:]; len(r.said) == 0 {
		r.said = nil
	}
	return n, nil
}

// The states of a fastConn.
const (
	connNew   = iota // nothing has come yet; the zero state
	connIdle         // nothing of another request has come: a stop may end it
	connBusy         // a request is read or answered
	connEnded        // a stop ended it
)

// fastConn is a connection, served by one goroutine. What a request needs is
// made once and used again for the next.
type fastConn struct {
	*patientConn
	f     *fastPath
	state atomic.Int32

	in          []byte // in[next:end] was read and not used
	next, end   int
	head        head
	answer      answer
	body        fastBody
	request     http.Request
	ctx         context.Context // ends with the connection
	cancel      context.CancelFunc
	handedOver  bool
	closeBehind bool // the connection ends behind the answer
}

// fastBuffer is what a connection reads at once, in bytes. A head that is
// larger is net/http's.
const fastBuffer = 4 << 10

func newFastConn(f *fastPath, conn *patientConn) *fastConn {
	c := &fastConn{patientConn: conn, f: f, in: make([]byte, fastBuffer)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.answer.c, c.body.c = c, c
	c.gone = c.cancel
	c.request = http.Request{Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, RemoteAddr: conn.RemoteAddr().String()}
	return c
}

// serve answers requests until the connection ends or is net/http's.
func (c *fastConn) serve() {
	defer c.leave()
	wait := c.f.rest.ReadHeaderTimeout
	for c.await(wait) && c.readHead() && c.one() {
		c.state.Store(connIdle)
		wait = c.f.rest.IdleTimeout
	}
}

// endIn ends the connection if it is in a state in which nobody waits for an
// answer.
func (c *fastConn) endIn(state int32) {
	if c.state.CompareAndSwap(state, connEnded) {
		c.Close()
	}
}

// leave ends the connection, unless somebody else has it now. A panic is the
// entrance's way to end one in the middle of an answer.
func (c *fastConn) leave() {
	if p := recover(); p != nil && p != http.ErrAbortHandler {
		logPanic(c.f.log, p, "", "", "")
	}
	c.watch(false)
	if c.handedOver {
		said := append([]byte(nil), c.in[c.next:c.end]...)
		c.f.handed.give(&replayed{c.patientConn, said})
	} else {
		c.Close()
		c.cancel()
	}
	c.f.remove(c)
}

// await waits for the first bytes of a request.
func (c *fastConn) await(atMost time.Duration) bool {
	state := c.state.Load()
	if state == connEnded {
		return false
	}
	if c.next == c.end {
		if state == connIdle && c.f.closing.Load() {
			return false
		}
		c.read.within(c.p, atMost, c.Conn.SetReadDeadline)
		n, err := c.Read(c.in)
		if err != nil {
			return false
		}
		c.next, c.end = 0, n
	}
	return c.state.CompareAndSwap(state, connBusy)
}

// readHead reads a request's head, or hands the connection over.
func (c *fastConn) readHead() bool {
	for first := true; ; first = false {
		switch c.head.parse(c.in[c.next:c.end]) {
		case headWhole:
			c.next += c.head.size
			return true
		case headOther:
			c.handedOver = true
			return false
		}
		if c.next > 0 {
			c.end = copy(c.in, c.in[c.next:c.end])
			c.next = 0
		}
		if c.end == len(c.in) {
			c.handedOver = true
			return false
		}
		if first {
			c.read.within(c.p, c.f.rest.ReadHeaderTimeout, c.Conn.SetReadDeadline)
		}
		n, err := c.Read(c.in[c.end:])
		c.end += n
		if err != nil {
			return false // half a request: nobody waits for an answer
		}
	}
}

// one answers the request whose head was read, and says whether another one
// may follow.
func (c *fastConn) one() bool {
	h, e := &c.head, c.f.entrance
	var at place
	e.find(h.method, h.path(), &at)
	if at.route != nil && at.route.Streams {
		c.next -= h.size
		c.handedOver = true
		return false
	}
	r := &c.request
	r.Method, r.RequestURI, r.URL, r.Host, r.Header = h.method, h.target, &h.url, h.host, h.header
	r.ContentLength, r.Close = h.length, h.closes
	c.body.left = h.length
	if h.length == 0 {
		r.Body = http.NoBody
	} else {
		r.Body = &c.body
		if int64(c.end-c.next) < h.length {
			c.read.within(c.p, e.transfer, c.Conn.SetReadDeadline)
		}
	}
	c.write.within(c.p, c.f.rest.WriteTimeout, c.Conn.SetWriteDeadline)
	c.closeBehind = h.closes
	c.answer.begin()
	c.watch(true)
	c.call(e, &at)
	c.watch(false)
	if c.body.left > 0 {
		c.skip()
	}
	if c.answer.finish() != nil || c.ctx.Err() != nil {
		return false
	}
	if c.closeBehind {
		c.linger()
	}
	return !c.closeBehind
}

// call lets the entrance answer. Where the gate sets no time, the request's
// context ends here.
func (c *fastConn) call(e *entrance, at *place) {
	ctx := c.ctx
	if e.timeout == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
	}
	e.answer(ctx, &c.answer, &c.request, at)
}

// skip goes over the rest of a body that nobody read, if it is here already;
// else the connection ends behind the answer.
func (c *fastConn) skip() {
	if here := int64(c.end - c.next); c.body.left <= here {
		c.next += int(c.body.left)
		c.body.left = 0
		return
	}
	c.closeBehind = true
}

// lingerTime is how long a client may take to read its last answer and to go,
// and lingerBytes how much of what it still sends is looked at.
const (
	lingerTime  = 500 * time.Millisecond
	lingerBytes = 256 << 10
)

// linger waits for the client to go: a connection that ends while it still
// sends is reset, and takes answers that it has not read with it (RFC 9112,
// section 9.6).
func (c *fastConn) linger() {
	if c.CloseWrite() != nil {
		return
	}
	c.read.within(c.p, lingerTime, c.Conn.SetReadDeadline)
	io.CopyN(io.Discard, c.patientConn, lingerBytes)
}

// fastBody is the body of the request under way.
type fastBody struct {
	c    *fastConn
	left int64
}

// Read reads. The body's end comes with its last bytes.
func (b *fastBody) Read(p []byte) (n int, err error) {
	c := b.c
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	switch {
	case len(p) == 0:
	case c.next < c.end:
		n = copy(p, c.in[c.next:c.end])
		c.next += n
	default:
		if n, err = c.Read(p); err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
	}
	b.left -= int64(n)
	if b.left == 0 && err == nil {
		err = io.EOF
	}
	return n, err
}

// Close does nothing: what is left is skipped behind the answer.
func (b *fastBody) Close() error { return nil }
