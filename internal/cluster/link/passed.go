package link

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/ostiary/ostiary/internal/cluster/lease"
	"github.com/ostiary/ostiary/internal/cluster/link/wire"
)

// This file has the stream of Pass at the node that runs the requests.

// idleMax is how many goroutines of a stream wait for the next request: a new goroutine has to
// grow its stack each time.
const idleMax = 64

// passage is a stream of Pass at the node that runs the requests.
type passage struct {
	link   *Link
	stream grpc.BidiStreamingServer[wire.PassRequest, wire.PassResponse]
	ctx    context.Context
	wake   chan struct{} // gets an element when queue grows
	work   chan *running // to goroutines that wait; it has a place for each of them

	background sync.WaitGroup // requests, and send

	mu      sync.Mutex
	ended   bool
	running map[uint64]*running // by number
	idle    int                 // goroutines that wait
	queue   []response
}

// response is a message for the other node.
type response struct {
	number uint64
	bytes  []byte
	failed bool
}

// running is a request of a passage.
type running struct {
	*passage
	asked  *wire.Passed
	ctx    context.Context
	cancel context.CancelFunc
	sent   chan struct{} // an element for each response that the other node has not taken

	parts []*wire.ForwardResponse // not sent
	bytes int                     // of the bodies in parts
}

// Pass implements [wire.LinkServer].
func (s service) Pass(stream grpc.BidiStreamingServer[wire.PassRequest, wire.PassResponse]) error {
	l, err := s.link()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(stream.Context())
	p := &passage{link: l, stream: stream, ctx: ctx, wake: make(chan struct{}, 1), work: make(chan *running, idleMax), running: map[uint64]*running{}}
	l.background.Go(func() { cancel(p.receive()) }) // ends when the handler returns
	p.background.Go(func() { cancel(p.send()) })
	<-ctx.Done()
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	p.background.Wait()
	if err = context.Cause(ctx); errors.Is(err, io.EOF) {
		err = nil
	}
	return err
}

// receive begins with requests until the stream ends.
func (p *passage) receive() error {
	for {
		m, err := p.stream.Recv()
		if err != nil {
			return err
		}
		why := p.link.mayBegin()
		for _, text := range m.GetPassed() {
			q := &wire.Passed{}
			if err := proto.Unmarshal(text, q); err != nil {
				return fmt.Errorf("%w: a request: %w", lease.ErrPeer, err)
			}
			if err := p.begin(q, why); err != nil {
				return err
			}
		}
	}
}

// begin begins with a request, or does what the other node asks for with one that runs. It
// fails if the message is wrong. If why is not nil, the request fails with it.
func (p *passage) begin(q *wire.Passed, why error) error {
	wrong := func(text string) error { return fmt.Errorf("%w: request %d: %s", lease.ErrPeer, q.GetNumber(), text) }
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.running[q.GetNumber()]
	switch {
	case p.ended:
		return p.ctx.Err()
	case q.GetHead() == nil && r == nil: // it has ended
		return nil
	case q.GetHead() == nil && q.GetTaken():
		select {
		case <-r.sent:
			return nil
		default:
			return wrong("a response was taken that was not sent")
		}
	case q.GetHead() == nil:
		r.cancel()
		return nil
	case r != nil:
		return wrong("it runs already")
	case len(p.running) >= PassedMax:
		return wrong(fmt.Sprintf("more than %d run (PassedMax)", PassedMax))
	case len(q.GetBody()) > PartBytesMax:
		return wrong(fmt.Sprintf("its body has %d bytes, expected at most %d (PartBytesMax)", len(q.GetBody()), PartBytesMax))
	}
	if why != nil {
		p.add(failed(q.GetNumber(), why))
		return nil
	}
	r = &running{passage: p, asked: q, sent: make(chan struct{}, passWindow)}
	if left := timeLeft(q.GetHead()); left > 0 {
		r.ctx, r.cancel = context.WithTimeout(p.ctx, left)
	} else {
		r.ctx, r.cancel = context.WithCancel(p.ctx)
	}
	p.running[q.GetNumber()] = r
	if p.idle > 0 {
		p.idle--
		p.work <- r
		return nil
	}
	p.background.Go(func() { p.serve(r) })
	return nil
}

// serve runs a request, and then others.
func (p *passage) serve(r *running) {
	for r != nil {
		r.finish(r.run())
		r = p.rest()
	}
}

// rest waits for another request. It returns nil if enough goroutines do, or the stream ends.
func (p *passage) rest() *running {
	p.mu.Lock()
	if p.ended || p.idle >= idleMax {
		p.mu.Unlock()
		return nil
	}
	p.idle++
	p.mu.Unlock()
	select {
	case r := <-p.work:
		return r
	case <-p.ctx.Done():
	}
	return nil
}

// run runs the request.
func (r *running) run() error {
	h := &handling{body: io.NopCloser(bytes.NewReader(r.asked.GetBody())), send: r.send}
	return r.link.handle(r.ctx, r.asked.GetHead(), h)
}

// send gathers the parts of a response until they are full, flushed or the last ones.
func (r *running) send(m *wire.ForwardResponse) error {
	body, isBody := m.GetPart().(*wire.ForwardResponse_Body)
	r.parts, r.bytes = append(r.parts, m), r.bytes+len(m.GetBody())
	switch {
	case m.GetEnd() != nil:
		return nil // finish sends it
	case r.bytes < PartBytesMax && (!isBody || len(body.Body) > 0):
		return nil
	}
	select {
	case r.sent <- struct{}{}:
	case <-r.ctx.Done():
		return r.ctx.Err()
	}
	out, err := r.take(nil)
	if err == nil {
		r.put(out)
	}
	return err
}

// take encodes what was gathered, or a failure instead of it.
func (r *running) take(why error) (out response, err error) {
	m := &wire.PassedResponse{Number: r.asked.GetNumber(), Parts: r.parts}
	if r.parts, r.bytes = nil, 0; why != nil {
		return failed(m.Number, why), nil
	}
	out.number = m.Number
	out.bytes, err = proto.Marshal(m)
	return out, err
}

// failed returns the failure of a request.
func failed(number uint64, why error) response {
	s := status.Convert(failure(why)).Proto()
	s.Message = strings.ToValidUTF8(s.GetMessage(), "\uFFFD")
	text, _ := proto.Marshal(s) // of valid text only
	m, _ := proto.Marshal(&wire.PassedResponse{Number: number, Failure: text})
	return response{number, m, true}
}

// finish ends the request with the rest of its response, or with an error.
func (r *running) finish(err error) {
	out, errOut := r.take(err)
	if errOut != nil {
		out = failed(r.asked.GetNumber(), errOut)
	}
	r.cancel()
	r.mu.Lock()
	delete(r.running, out.number)
	r.mu.Unlock()
	r.put(out)
}

func (p *passage) put(m response) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.add(m)
}

// add adds a message to the queue. The caller holds p.mu.
func (p *passage) add(m response) {
	p.queue = append(p.queue, m)
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// take removes the responses of the next message from the queue.
func (p *passage) take() (batch []response) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for size := 0; len(batch) < len(p.queue) && size < passBytes; size += len(batch[len(batch)-1].bytes) {
		batch = append(batch, p.queue[len(batch)])
	}
	p.queue = slices.Delete(p.queue, 0, len(batch))
	return batch
}

// send sends the queue until the stream ends.
func (p *passage) send() error {
	for {
		select {
		case <-p.wake:
		case <-p.ctx.Done():
			return p.ctx.Err()
		}
		runtime.Gosched() // responses that are about to be put go with this one
		for batch := p.take(); len(batch) > 0; batch = p.take() {
			if err := p.sendBatch(batch); err != nil {
				return err
			}
		}
	}
}

// sendBatch sends responses with the sequence that they can rest on. If that may lack what the
// requests have written, the responses are lost, see [handling.send].
func (p *passage) sendBatch(batch []response) error {
	m := &wire.PassResponse{Responses: make([][]byte, len(batch))}
	err := errors.New("the node is stopping")
	if node, _ := p.link.attached(); node != nil {
		m.Shown, err = node.Reached()
	}
	for i, r := range batch {
		if err != nil && !r.failed {
			r = failed(r.number, lost(err))
		}
		m.Responses[i] = r.bytes
	}
	return p.stream.Send(m)
}
