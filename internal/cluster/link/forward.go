package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/ostiary/ostiary/internal/cluster/forward"
	"github.com/ostiary/ostiary/internal/cluster/lease"
	"github.com/ostiary/ostiary/internal/cluster/link/wire"
	"github.com/ostiary/ostiary/storage"
)

// Target returns a node as the receiver of forwarded requests.
func (l *Link) Target(to lease.Peer) forward.Target { return target{l, to} }

// target implements [forward.Target].
type target struct {
	link *Link
	to   lease.Peer
}

// Node implements [forward.Target].
func (t target) Node() string { return t.to.ID.String() }

// exchange is a forwarded request at the node that forwards it.
type exchange struct {
	target
	stream grpc.BidiStreamingClient[wire.ForwardRequest, wire.ForwardResponse] // nil if it is on a stream of Pass
	passed *passed                                                             // nil if it has a stream of its own
	ctx    context.Context
	cancel context.CancelFunc
}

// begin opens a stream and sends the head of a request.
func (t target) begin(ctx context.Context, head *wire.RequestHead) (*exchange, error) {
	p, err := t.link.peer(t.to)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", forward.ErrNotBegun, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	stream, err := p.client.Forward(p.call(ctx))
	if err != nil { // no byte of the stream was sent
		cancel()
		return nil, fmt.Errorf("%w: %w", forward.ErrNotBegun, received(t.to, err))
	}
	x := &exchange{target: t, stream: stream, ctx: ctx, cancel: cancel}
	x.send(&wire.ForwardRequest{Part: &wire.ForwardRequest_Head{Head: head}})
	return x, nil
}

// send sends a part. It ignores errors, because receive returns why the stream ended.
func (x *exchange) send(m *wire.ForwardRequest) bool { return x.stream.Send(m) == nil }

// sendBody sends what it reads, and then ends the request. It returns the error of body.
func (x *exchange) sendBody(body io.Reader) error {
	buffer := make([]byte, PartBytesMax)
	for {
		n, err := body.Read(buffer)
		if n > 0 && !x.send(&wire.ForwardRequest{Part: &wire.ForwardRequest_Body{Body: buffer[:n]}}) {
			return nil
		}
		if errors.Is(err, io.EOF) {
			_ = x.stream.CloseSend()
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// receive returns the next part, once this node shows what it can rest on.
func (x *exchange) receive() (*wire.ForwardResponse, error) {
	m, err := x.next()
	if err != nil {
		return nil, err
	}
	if len(m.GetBody()) > PartBytesMax {
		return nil, fmt.Errorf("%w: a part of a response has %d bytes, expected at most %d (PartBytesMax)", lease.ErrPeer, len(m.GetBody()), PartBytesMax)
	}
	node, _ := x.link.attached()
	if node == nil {
		return nil, errNotReady
	}
	if err := node.WaitShown(x.ctx, m.GetShown()); err != nil {
		return nil, fmt.Errorf("waiting for sequence %d, which node %s has: %w", m.GetShown(), x.to.ID, err)
	}
	return m, nil
}

// next returns the next part as it comes.
func (x *exchange) next() (*wire.ForwardResponse, error) {
	if x.passed != nil {
		return x.passed.next(x.ctx)
	}
	m, err := x.stream.Recv()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return m, notBegun(received(x.to, err))
}

// notBegun returns the error of a request. A node that refuses one has not begun with it.
func notBegun(err error) error {
	if errors.Is(err, lease.ErrPeer) || errors.Is(err, errNotReady) {
		return fmt.Errorf("%w: %w", forward.ErrNotBegun, err)
	}
	return err
}

// head receives the first part. The other node must be the one that was called.
func (x *exchange) head() (*wire.ResponseHead, error) {
	if x.passed == nil {
		if err := x.link.verifyHeader(x.stream, x.to); err != nil {
			return nil, err
		}
	}
	m, err := x.receive()
	if err != nil {
		return nil, err
	}
	if m.GetHead() == nil {
		return nil, x.broken(m)
	}
	return m.GetHead(), nil
}

// broken returns the error of a part at a wrong place.
func (x *exchange) broken(m *wire.ForwardResponse) error {
	return fmt.Errorf("%w: node %s: a response has a %T at a wrong place", lease.ErrPeer, x.to.ID, m.GetPart())
}

// HTTP implements [forward.Target].
func (t target) HTTP(w http.ResponseWriter, r *http.Request, as forward.Head) error {
	head := headOut(as)
	head.Request = &wire.RequestHead_Http{Http: &wire.HTTPRequest{
		Method: r.Method, Target: encodable(r.URL.RequestURI()), Host: r.Host, ContentLength: r.ContentLength, Header: fieldsOut(r.Header),
	}}
	if whole, ok := r.Body.(*forward.Whole); ok {
		if x := t.pass(r.Context(), head, whole.Bytes); x != nil {
			if err := x.end(func() error { return x.copy(w) }); !errors.Is(err, errNoPass) {
				return err
			}
		}
	}
	x, err := t.begin(r.Context(), head)
	if err != nil {
		return err
	}
	defer x.cancel()
	if r.ContentLength == 0 || r.Body == nil || r.Body == http.NoBody {
		_ = x.stream.CloseSend()
		return x.copy(w)
	}
	// The other node may answer before it has read the body. The handler must not
	// return while the body is read.
	sent := make(chan error, 1)
	go func() {
		err := x.sendBody(r.Body)
		if sent <- err; err != nil {
			x.cancel() // the other node must not take the request for complete
		}
	}()
	err = x.copy(w)
	x.cancel()
	select {
	case errSent := <-sent:
		if err != nil && errSent != nil {
			err = errSent
		}
	default:
		_ = http.NewResponseController(w).SetReadDeadline(time.Now())
		<-sent
	}
	return err
}

// encodable returns a target that a message can have, which is text in UTF-8: a client may have
// sent other bytes in the query without escaping them.
func encodable(target string) string {
	if utf8.ValidString(target) {
		return target
	}
	var b strings.Builder
	for i := range len(target) {
		if c := target[i]; c < utf8.RuneSelf {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// end ends the exchange after do, also if that panics.
func (x *exchange) end(do func() error) error {
	defer x.cancel()
	return do()
}

// copy copies the response to w while it comes.
func (x *exchange) copy(w http.ResponseWriter) error {
	head, err := x.head()
	if err != nil {
		return err
	}
	for _, f := range head.GetHeader() {
		for _, value := range f.GetValues() {
			w.Header().Add(f.GetName(), string(value))
		}
	}
	w.WriteHeader(int(head.GetStatus()))
	flush := http.NewResponseController(w)
	for {
		m, err := x.receive()
		switch {
		case err != nil:
			return err
		case m.GetEnd() != nil:
			return nil
		case m.GetHead() != nil:
			return x.broken(m)
		}
		if len(m.GetBody()) == 0 {
			_ = flush.Flush()
			continue
		}
		if _, err := w.Write(m.GetBody()); err != nil {
			return err
		}
	}
}

// RPC implements [forward.Target].
func (t target) RPC(ctx context.Context, c forward.Call, as forward.Head) (forward.Answer, error) {
	head := headOut(as)
	head.Request = &wire.RequestHead_Call{Call: &wire.Call{Method: c.Method, Metadata: fieldsOut(c.Metadata)}}
	if x := t.pass(ctx, head, c.Message); x != nil {
		var a forward.Answer
		err := x.end(func() (err error) { a, err = x.answer(); return err })
		if !errors.Is(err, errNoPass) {
			return a, err
		}
	}
	x, err := t.begin(ctx, head)
	if err != nil {
		return forward.Answer{}, err
	}
	defer x.cancel()
	for rest := c.Message; len(rest) > 0; {
		n := min(len(rest), PartBytesMax)
		if !x.send(&wire.ForwardRequest{Part: &wire.ForwardRequest_Body{Body: rest[:n]}}) {
			break
		}
		rest = rest[n:]
	}
	_ = x.stream.CloseSend()
	return x.answer()
}

// answer receives the answer of a call.
func (x *exchange) answer() (forward.Answer, error) {
	head, err := x.head()
	if err != nil {
		return forward.Answer{}, err
	}
	out := forward.Answer{Metadata: metadata.MD{}}
	for _, f := range head.GetHeader() {
		for _, value := range f.GetValues() {
			out.Metadata[f.GetName()] = append(out.Metadata[f.GetName()], string(value))
		}
	}
	for {
		m, err := x.receive()
		if err != nil {
			return forward.Answer{}, err
		}
		switch of := m.GetPart().(type) {
		case *wire.ForwardResponse_Body:
			if out.Message = append(out.Message, of.Body...); len(out.Message) > MessageBytesMax {
				return forward.Answer{}, fmt.Errorf("%w: node %s: an answer has more than %d bytes (MessageBytesMax)", lease.ErrPeer, x.to.ID, MessageBytesMax)
			}
		case *wire.ForwardResponse_End:
			out.Err, err = statusIn(of.End.GetStatus())
			return out, err
		default:
			return forward.Answer{}, x.broken(m)
		}
	}
}

// Forward implements [wire.LinkServer].
func (s service) Forward(stream grpc.BidiStreamingServer[wire.ForwardRequest, wire.ForwardResponse]) error {
	m, err := stream.Recv()
	if err != nil {
		return err
	}
	head := m.GetHead()
	if head == nil {
		return fmt.Errorf("%w: the first part of a forwarded request is no head", lease.ErrPeer)
	}
	l, err := s.link()
	if err != nil {
		return err
	}
	if err := l.mayBegin(); err != nil {
		return err
	}
	h := &handling{body: &body{stream: stream}}
	h.send = func(m *wire.ForwardResponse) (err error) {
		if m.Shown, err = h.node.Reached(); err != nil {
			return lost(err)
		}
		return stream.Send(m)
	}
	ctx := stream.Context()
	if left := timeLeft(head); left > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, left)
		defer cancel()
	}
	return l.handle(ctx, head, h)
}

// mayBegin returns why the node begins with no request, or nil.
func (l *Link) mayBegin() error {
	node, receiver := l.attached()
	if node == nil || receiver == nil {
		return errNotReady
	}
	if _, err := node.Reached(); err != nil {
		return fmt.Errorf("%w: %w", forward.ErrNotBegun, err)
	}
	return nil
}

// timeLeft returns the time that is left for a request, or 0 if it has no bound.
func timeLeft(head *wire.RequestHead) time.Duration {
	return time.Duration(head.GetTimeoutNanoseconds())
}

// handle runs a request. ctx has its deadline.
func (l *Link) handle(ctx context.Context, head *wire.RequestHead, h *handling) (err error) {
	if h.as, err = headIn(head); err != nil {
		return err
	}
	if h.node, h.receiver = l.attached(); h.node == nil || h.receiver == nil {
		return errNotReady
	}
	switch of := head.GetRequest().(type) {
	case *wire.RequestHead_Http:
		return h.http(ctx, of.Http)
	case *wire.RequestHead_Call:
		return h.call(ctx, of.Call)
	}
	return fmt.Errorf("%w: a forwarded request that is neither one of HTTP nor a call", lease.ErrPeer)
}

// lost returns the error of a response whose position is not known: it may lack what the
// request has written. The other node then asks the next holder.
func lost(err error) error { return fmt.Errorf("the answer is lost: %w", err) }

// handling is a forwarded request at the node that runs it.
type handling struct {
	node     Keeper
	receiver Receiver
	as       forward.Head
	body     io.ReadCloser
	// send sends a part with the sequence that it can rest on, or fails, see lost.
	send func(m *wire.ForwardResponse) error
}

func (h *handling) end(text []byte) error {
	return h.send(&wire.ForwardResponse{Part: &wire.ForwardResponse_End{End: &wire.End{Status: text}}})
}

// http runs a request of HTTP.
func (h *handling) http(ctx context.Context, m *wire.HTTPRequest) error {
	at, err := url.ParseRequestURI(m.GetTarget())
	if err != nil {
		return fmt.Errorf("%w: a forwarded request for an invalid target: %w", lease.ErrPeer, err)
	}
	r := (&http.Request{
		Method: m.GetMethod(), URL: at, Host: m.GetHost(), RequestURI: m.GetTarget(), RemoteAddr: h.as.Remote,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: headerIn(m.GetHeader()), ContentLength: m.GetContentLength(), Body: h.body,
	}).WithContext(ctx)
	w := &writer{handling: h, header: http.Header{}}
	if err := h.receiver.ServeForwarded(w, r, h.as); err != nil {
		return err
	}
	if err := w.finish(); err != nil {
		return err
	}
	return h.end(nil)
}

// call runs a call of gRPC.
func (h *handling) call(ctx context.Context, m *wire.Call) error {
	c := forward.Call{Method: m.GetMethod(), Metadata: metadata.MD{}}
	for _, f := range m.GetMetadata() {
		for _, value := range f.GetValues() {
			c.Metadata[f.GetName()] = append(c.Metadata[f.GetName()], string(value))
		}
	}
	message, err := io.ReadAll(io.LimitReader(h.body, MessageBytesMax+1))
	if err != nil {
		return err
	}
	if len(message) > MessageBytesMax {
		return fmt.Errorf("%w: a forwarded call has more than %d bytes (MessageBytesMax)", lease.ErrPeer, MessageBytesMax)
	}
	c.Message = message
	a, err := h.receiver.InvokeForwarded(ctx, c, h.as)
	if err != nil {
		return err
	}
	if err := h.send(&wire.ForwardResponse{Part: &wire.ForwardResponse_Head{Head: &wire.ResponseHead{Header: fieldsOut(a.Metadata)}}}); err != nil {
		return err
	}
	for rest := a.Message; len(rest) > 0; {
		n := min(len(rest), PartBytesMax)
		if err := h.send(&wire.ForwardResponse{Part: &wire.ForwardResponse_Body{Body: rest[:n]}}); err != nil {
			return err
		}
		rest = rest[n:]
	}
	text, err := statusOut(a.Err)
	if err != nil {
		return err
	}
	return h.end(text)
}

// body is the body of a forwarded request.
type body struct {
	stream grpc.BidiStreamingServer[wire.ForwardRequest, wire.ForwardResponse]
	rest   []byte
	err    error
}

// Read implements [io.Reader].
func (b *body) Read(p []byte) (int, error) {
	for len(b.rest) == 0 {
		if b.err != nil {
			return 0, b.err
		}
		b.rest, b.err = b.next()
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

func (b *body) next() ([]byte, error) {
	m, err := b.stream.Recv()
	if err != nil {
		return nil, err // io.EOF at the end of the request
	}
	part, ok := m.GetPart().(*wire.ForwardRequest_Body)
	if !ok || len(part.Body) > PartBytesMax {
		return nil, fmt.Errorf("%w: a part of a request is no body of at most %d bytes (PartBytesMax)", lease.ErrPeer, PartBytesMax)
	}
	return part.Body, nil
}

// Close implements [io.Closer].
func (b *body) Close() error { return nil }

// writer is the response to a forwarded request. It gathers small writes.
type writer struct {
	*handling
	header http.Header
	begun  bool
	part   []byte
	err    error
}

// Header implements [http.ResponseWriter].
func (w *writer) Header() http.Header { return w.header }

// WriteHeader implements [http.ResponseWriter].
func (w *writer) WriteHeader(code int) {
	if w.begun || code < 200 { // what informs a client is not forwarded
		return
	}
	w.begun = true
	w.err = w.send(&wire.ForwardResponse{Part: &wire.ForwardResponse_Head{Head: &wire.ResponseHead{Status: uint32(code), Header: fieldsOut(w.header)}}})
}

// Write implements [http.ResponseWriter].
func (w *writer) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	n := 0
	for len(p) > 0 && w.err == nil {
		k := min(len(p), PartBytesMax-len(w.part))
		w.part = append(w.part, p[:k]...)
		p, n = p[k:], n+k
		if len(w.part) == PartBytesMax {
			w.sendPart()
		}
	}
	return n, w.err
}

// sendPart sends what was gathered.
func (w *writer) sendPart() {
	if w.err == nil && len(w.part) > 0 {
		w.err = w.send(&wire.ForwardResponse{Part: &wire.ForwardResponse_Body{Body: w.part}})
		w.part = nil
	}
}

// FlushError sends what was gathered, and has the other node flush it, for
// [http.ResponseController].
func (w *writer) FlushError() error {
	w.WriteHeader(http.StatusOK)
	if w.sendPart(); w.err == nil {
		w.err = w.send(&wire.ForwardResponse{Part: &wire.ForwardResponse_Body{}})
	}
	return w.err
}

// SetReadDeadline implements the method of [http.ResponseController]. The context of
// the request has the deadline.
func (w *writer) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline implements the method of [http.ResponseController].
func (w *writer) SetWriteDeadline(time.Time) error { return nil }

func (w *writer) finish() error {
	w.WriteHeader(http.StatusOK)
	w.sendPart()
	return w.err
}

func headOut(as forward.Head) *wire.RequestHead {
	var keys []byte
	for _, id := range as.Keys {
		keys = append(keys, id[:]...)
	}
	return &wire.RequestHead{
		Door: as.Door, Key: keys, Caller: as.Origin.Caller, Reason: as.Origin.Reason,
		RequestNode: as.Origin.Request.Node[:], RequestNumber: as.Origin.Request.Number, After: as.After, Repeated: as.Repeated,
		Remote: as.Remote, Id: as.ID, Secure: as.Secure, TimeoutNanoseconds: int64(as.Timeout),
	}
}

func headIn(m *wire.RequestHead) (as forward.Head, err error) {
	if n := len(m.GetKey()); n == 0 || n%len(forward.KeyID{}) != 0 {
		return as, fmt.Errorf("%w: the ids of keys have %d bytes, expected a multiple of %d", lease.ErrPeer, n, len(forward.KeyID{}))
	}
	var keys []forward.KeyID
	for id := range slices.Chunk(m.GetKey(), len(forward.KeyID{})) {
		keys = append(keys, forward.KeyID(id))
	}
	if n := len(m.GetRequestNode()); n != len(storage.NodeID{}) {
		return as, fmt.Errorf("%w: a node id of %d bytes, expected %d", lease.ErrPeer, n, len(storage.NodeID{}))
	}
	return forward.Head{
		Door: m.GetDoor(), Keys: keys,
		Origin: storage.Origin{Caller: m.GetCaller(), Reason: m.GetReason(),
			Request: storage.RequestID{Node: storage.NodeID(m.GetRequestNode()), Number: m.GetRequestNumber()}},
		After: m.GetAfter(), Repeated: m.GetRepeated(), Remote: m.GetRemote(), ID: m.GetId(), Secure: m.GetSecure(),
		Timeout: time.Duration(m.GetTimeoutNanoseconds()),
	}, nil
}

func fieldsOut(all map[string][]string) []*wire.Field {
	out := make([]*wire.Field, 0, len(all))
	for name, values := range all {
		f := &wire.Field{Name: name, Values: make([][]byte, len(values))}
		for i, v := range values {
			f.Values[i] = []byte(v)
		}
		out = append(out, f)
	}
	return out
}

func headerIn(fields []*wire.Field) http.Header {
	out := make(http.Header, len(fields))
	for _, f := range fields {
		for _, value := range f.GetValues() {
			out.Add(f.GetName(), string(value))
		}
	}
	return out
}

// statusOut returns the encoding of the status of an error.
func statusOut(err error) ([]byte, error) {
	if err == nil {
		return nil, nil
	}
	s, _ := status.FromError(err)
	return proto.Marshal(s.Proto())
}

// statusIn reads it.
func statusIn(text []byte) (error, error) {
	if len(text) == 0 {
		return nil, nil
	}
	m := status.New(0, "").Proto()
	if err := proto.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("%w: the status of a call: %w", lease.ErrPeer, err)
	}
	return status.ErrorProto(m), nil
}
