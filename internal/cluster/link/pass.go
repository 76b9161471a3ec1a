package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/ostiary/ostiary/internal/cluster/forward"
	"github.com/ostiary/ostiary/internal/cluster/lease"
	"github.com/ostiary/ostiary/internal/cluster/link/wire"
)

// This file has the stream of Pass at the node that forwards requests.

const (
	// PassedMax is the maximum number of requests in flight on a stream of Pass. A node
	// forwards more with streams of their own.
	PassedMax = StreamsMax
	// passWindow is how many parts of a response, of at most PartBytesMax and a head, wait for
	// a client that reads slowly. The other node waits before it sends more.
	passWindow = 16
	// passBytes is the size from which on no more is added to a message of Pass.
	passBytes = 1 << 20
)

// errNoPass means that the other node is of a version that has no Pass.
var errNoPass = errors.New("the node does not have Pass")

// passing is a stream of Pass to another node. It ends with its connection; the next request
// opens another one.
type passing struct {
	to    lease.Peer
	wake  chan struct{} // gets an element when queue grows
	ended chan struct{} // closed when err is set

	number atomic.Uint64 // of the last request

	mu    sync.Mutex
	all   map[uint64]*passed // in flight, by number
	queue []encoded          // not sent
	err   error              // why the stream has ended
	// refused is true if the other node has begun with no request of the stream.
	refused bool
}

// encoded is a message of a request with a number.
type encoded struct {
	number uint64
	bytes  []byte
}

// passed is a request on a stream of Pass.
type passed struct {
	on        *passing
	number    uint64
	responses chan passedResponse
	sent      bool // guarded by on.mu

	shown uint64
	rest  []*wire.ForwardResponse // of the last response
	taken bool                    // a response was taken, and it was not the last one
}

type passedResponse struct {
	*wire.PassedResponse
	shown uint64
}

// pass sends a whole request on the stream of Pass. It returns nil if the request needs a
// stream of its own.
func (t target) pass(ctx context.Context, head *wire.RequestHead, body []byte) *exchange {
	if len(body) > PartBytesMax {
		return nil
	}
	on := t.link.passing(t.to)
	if on == nil {
		return nil
	}
	x := &passed{on: on, number: on.number.Add(1), responses: make(chan passedResponse, passWindow+1)}
	m, err := proto.Marshal(&wire.Passed{Number: x.number, Head: head, Body: body})
	if err != nil || len(m) > 2*PartBytesMax {
		return nil
	}
	on.mu.Lock()
	defer on.mu.Unlock()
	if on.err != nil || len(on.all) >= PassedMax {
		return nil
	}
	on.all[x.number] = x
	on.put(x.number, m)
	return &exchange{target: t, ctx: ctx, cancel: x.leave, passed: x}
}

// passing returns the stream of Pass to a node, or nil if the node has none. It opens the
// stream, which takes the first request meanwhile.
func (l *Link) passing(to lease.Peer) *passing {
	peer, err := l.peer(to)
	if err != nil {
		return nil
	}
	l.outgoing.mu.Lock()
	defer l.outgoing.mu.Unlock()
	if peer.noPass || l.ctx.Err() != nil {
		return nil
	}
	if peer.passing == nil || peer.passing.hasEnded() {
		on := &passing{to: to, wake: make(chan struct{}, 1), ended: make(chan struct{}), all: map[uint64]*passed{}}
		peer.passing = on
		l.background.Go(func() { l.runPassing(peer, on) })
	}
	return peer.passing
}

func (p *passing) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// runPassing opens a stream and serves it until it ends.
func (l *Link) runPassing(peer *outgoingPeer, on *passing) {
	ctx, cancel := context.WithCancel(l.ctx)
	defer cancel()
	stream, err := peer.client.Pass(peer.call(ctx))
	if err != nil { // no byte of the stream was sent
		on.end(received(on.to, err), true)
		return
	}
	l.background.Go(func() { on.send(stream) })
	err = l.receivePassed(on, stream)
	header, _ := stream.Header()
	admitted := len(header.Get(identityHeader)) > 0
	if !admitted && status.Code(err) == codes.Unimplemented {
		l.outgoing.mu.Lock()
		peer.noPass = true
		l.outgoing.mu.Unlock()
		on.end(errNoPass, true)
		return
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	err = received(on.to, err)
	on.end(err, !admitted && (errors.Is(err, lease.ErrPeer) || errors.Is(err, errNotReady)))
}

// end fails all requests of the stream.
func (p *passing) end(err error, refused bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err, p.refused = err, refused
	close(p.ended)
}

// put adds a message to the queue. The caller holds p.mu.
func (p *passing) put(number uint64, m []byte) {
	p.queue = append(p.queue, encoded{number, m})
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// do sends what the caller does with the response of a request.
func (p *passing) do(number uint64, taken bool) {
	if m, err := proto.Marshal(&wire.Passed{Number: number, Taken: taken}); err == nil {
		p.put(number, m)
	}
}

// take removes the messages of the next batch from the queue.
func (p *passing) take() (batch [][]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for bytes := 0; len(batch) < len(p.queue) && bytes < passBytes; {
		m := p.queue[len(batch)]
		if x := p.all[m.number]; x != nil {
			x.sent = true
		}
		batch, bytes = append(batch, m.bytes), bytes+len(m.bytes)
	}
	p.queue = slices.Delete(p.queue, 0, len(batch))
	return batch
}

// send sends the queue until the stream ends.
func (p *passing) send(stream grpc.BidiStreamingClient[wire.PassRequest, wire.PassResponse]) {
	for {
		select {
		case <-p.wake:
		case <-p.ended:
			return
		}
		runtime.Gosched() // requests that are about to be put go with this one
		for batch := p.take(); len(batch) > 0; batch = p.take() {
			if stream.Send(&wire.PassRequest{Passed: batch}) != nil {
				return // receivePassed returns why
			}
		}
	}
}

// receivePassed delivers responses until the stream ends. Their node must be the one that was
// called.
func (l *Link) receivePassed(on *passing, stream grpc.BidiStreamingClient[wire.PassRequest, wire.PassResponse]) error {
	if err := l.verifyHeader(stream, on.to); err != nil {
		return err
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		if err := on.deliver(m); err != nil {
			return err
		}
	}
}

// deliver gives each request its response.
func (p *passing) deliver(m *wire.PassResponse) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, text := range m.GetResponses() {
		r := &wire.PassedResponse{}
		if err := proto.Unmarshal(text, r); err != nil {
			return fmt.Errorf("%w: a response: %w", lease.ErrPeer, err)
		}
		x := p.all[r.GetNumber()]
		if x == nil {
			continue // the client has left
		}
		if last(r) {
			delete(p.all, r.GetNumber())
		}
		select {
		case x.responses <- passedResponse{r, m.GetShown()}:
		default:
			return fmt.Errorf("%w: a response has more than %d parts that were not taken", lease.ErrPeer, passWindow)
		}
	}
	return nil
}

// last reports whether a response ends its request.
func last(r *wire.PassedResponse) bool {
	parts := r.GetParts()
	return len(r.GetFailure()) > 0 || len(parts) > 0 && parts[len(parts)-1].GetEnd() != nil
}

// next returns the next part of the response.
func (x *passed) next(ctx context.Context) (*wire.ForwardResponse, error) {
	for len(x.rest) == 0 {
		r, err := x.response(ctx)
		if err != nil {
			return nil, err
		}
		if text := r.GetFailure(); len(text) > 0 {
			failed, err := statusIn(text)
			if err == nil {
				err = received(x.on.to, failed)
			}
			return nil, notBegun(err)
		}
		x.shown, x.rest, x.taken = r.shown, r.GetParts(), !last(r.PassedResponse)
	}
	m := x.rest[0]
	x.rest = x.rest[1:]
	m.Shown = x.shown
	return m, nil
}

// response waits for the next response.
func (x *passed) response(ctx context.Context) (r passedResponse, err error) {
	if x.taken {
		x.on.mu.Lock()
		x.on.do(x.number, true)
		x.on.mu.Unlock()
	}
	select {
	case r = <-x.responses:
		return r, nil
	default:
	}
	select {
	case r = <-x.responses:
		return r, nil
	case <-x.on.ended:
	case <-ctx.Done():
		return r, x.failed(received(x.on.to, status.FromContextError(ctx.Err()).Err()))
	}
	select {
	case r = <-x.responses: // which came before the stream ended
		return r, nil
	default:
		return r, x.failed(x.on.err)
	}
}

// failed returns the error of a request without a response.
func (x *passed) failed(err error) error {
	x.on.mu.Lock()
	defer x.on.mu.Unlock()
	if x.on.refused || !x.sent {
		return fmt.Errorf("%w: %w", forward.ErrNotBegun, err)
	}
	return err
}

// leave ends the request at the other node, unless it has ended.
func (x *passed) leave() {
	p := x.on
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all[x.number] == nil || p.err != nil {
		return
	}
	delete(p.all, x.number)
	if x.sent {
		p.do(x.number, false)
		return
	}
	p.queue = slices.DeleteFunc(p.queue, func(m encoded) bool { return m.number == x.number })
}
