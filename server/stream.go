package server

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/tool/turns"
	"github.com/ostiary/ostiary/server/internal/conn"
)

// beginStream prepares a stream: it replaces the connection's deadlines by a
// deadline for each read and each write ([request.Write]), and returns a context
// that the server's stop and the removal of the caller's key cancel, and in which
// [door.Hold] works. release frees the context's resources.
func (q *request) beginStream(ctx context.Context, r *http.Request) (_ context.Context, release func()) {
	control := http.NewResponseController(q.ResponseWriter)
	if r.ContentLength != 0 {
		r.Body = &streamBody{r.Body, control, q.transferTime, &q.ctx.work, &q.removed}
	}
	ctx, cancel := context.WithCancel(ctx)
	q.held, q.http2 = conn.Held{Conn: q.conn}, r.ProtoMajor == 2
	held := door.WithHold(ctx, func(bytes int64) error {
		q.ctx.work.End()
		if why := q.held.Set(ctx, bytes, q.transferTime); why != nil {
			q.metrics.refused(why.Reason)
			return why
		}
		return nil
	})
	stopEnding := context.AfterFunc(q.ending, cancel)
	stopRemoved := q.ctx.key.onEnd(func() {
		cancel()
		q.removed.Store(true)
		control.SetReadDeadline(time.Now()) // ends a read that waits
		control.SetWriteDeadline(time.Now().Add(removedTime))
	})
	return held, func() {
		stopEnding()
		stopRemoved()
		cancel()
		q.held.Release()
		q.boundWrite() // of what is still in buffers
	}
}

// removedTime is how long a stream whose caller's key was removed can still write, so that
// its client gets its end.
const removedTime = time.Second

// boundWrite gives the next write of a stream TransferTime, or less once the caller's key
// was removed.
func (q *request) boundWrite() {
	control := http.NewResponseController(q.ResponseWriter)
	control.SetWriteDeadline(time.Now().Add(q.transferTime))
	if q.removed.Load() { // after the deadline was set, because the removal sets it too
		control.SetWriteDeadline(time.Now().Add(min(removedTime, q.transferTime)))
	}
}

// endWrite ends the deadline of boundWrite: over HTTP/2, a deadline that passes
// between two writes would end the stream.
func (q *request) endWrite() {
	if q.http2 && !q.removed.Load() {
		http.NewResponseController(q.ResponseWriter).SetWriteDeadline(time.Time{})
	}
}

// streamBody is the body of a stream. Each read has its own deadline: an import
// may take long, but it may not stall. At the end of the body there is no
// deadline any more, because net/http would treat its passing as a client that
// disconnected.
type streamBody struct {
	io.ReadCloser
	control      *http.ResponseController
	transferTime time.Duration // of each read
	work         *turns.Work   // of the request
	removed      *atomic.Bool  // of the request
}

func (b *streamBody) Read(p []byte) (int, error) {
	b.work.End() // the client may write slowly
	b.control.SetReadDeadline(time.Now().Add(b.transferTime))
	if b.removed.Load() { // after the deadline was set, because the removal sets it too
		b.control.SetReadDeadline(time.Now())
	}
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}
