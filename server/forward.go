package server

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/cluster/forward"
	"github.com/ostiary/ostiary/storage"
)

// The headers with which a node describes to another one what became of a forwarded
// request. No client gets them.
const (
	headerNodeAccepted = "Ostiary-Node-Accepted" // the door has accepted the caller
	headerNodeCaller   = "Ostiary-Node-Caller"   // the caller of the writes
	headerNodeChanges  = "Ostiary-Node-Changes"  // the stores that were changed, see forward.ChangesText
)

// forward serves a request that changes a store, or may do so, see [forward.Sending].
func (q *request) forward(r *http.Request, route *door.Route, p door.Params) {
	var body *door.Body
	read := false // a part of the body of a stream was read
	if q.op.streams {
		r.Body = &touchedBody{r.Body, &read}
	} else {
		var err error
		if body, err = door.ReadBody(r); err != nil {
			r.Body = io.NopCloser(failedReader{err})
			route.Serve(q, r, p)
			return
		}
		defer body.Free()
	}
	rewind := func() bool {
		if body != nil {
			r.ContentLength = int64(len(body.Bytes))
			r.Body = forward.NewWhole(body.Bytes)
		}
		return !read
	}
	rewind()
	var base http.Header // of the response, before the door began
	f := forward.Sending{Sender: q.sender, Again: rewind,
		Own: func() bool {
			if base == nil {
				base = maps.Clone(q.Header())
			}
			return q.attempt(r, route, p, base, &read)
		},
		Other: func(t forward.Target, as *forward.Head) error {
			q.ctx.work.End() // it waits for the other node
			q.ctx.passedOn.Store(true)
			defer q.ctx.passedOn.Store(false)
			return q.send(r, t, as)
		},
	}
	if !q.op.writes && f.Own() {
		return
	}
	if !rewind() {
		q.refuse(r, &door.Refusal{Reason: door.NoHolder})
		return
	}
	err := f.Run(&q.ctx, q.forwarded(r))
	var why *door.Refusal
	switch {
	case err == nil:
	case errors.As(err, &why):
		q.refuse(r, why)
	default:
		panic(http.ErrAbortHandler)
	}
}

// attempt serves the request on this node. It returns false, with the response dropped, if
// this node may not write and nothing was written. base are the headers of the response
// before the door began. A request whose body cannot be read again is answered in any case.
func (q *request) attempt(r *http.Request, route *door.Route, p door.Params, base http.Header, read *bool) bool {
	moved := func() bool { return !*read && q.ctx.journal.Forwardable() }
	q.droppable = func() bool { return moved() || q.lostAnswer() }
	route.Serve(q, r, p)
	dropped := q.dropped || !q.begun && q.droppable()
	q.droppable, q.dropped = nil, false
	if !dropped {
		return true
	}
	lost := !moved()
	q.status = 0
	q.ctx.journal.Retry()
	h := q.Header()
	clear(h)
	for name, values := range base {
		h[name] = values
	}
	if lost {
		q.refuse(r, &door.Refusal{Reason: door.Lost})
	}
	return lost
}

// lostAnswer reports whether the response is an error about what the request itself has changed
// when it was sent to another node, see [forward.LostAnswer].
func (q *request) lostAnswer() bool {
	return q.status >= http.StatusBadRequest && forward.LostAnswer(&q.ctx.journal)
}

// drops reports whether what the door writes is dropped, because the request is sent to
// another node.
func (q *request) drops() bool {
	if q.droppable != nil && !q.begun && !q.dropped {
		q.dropped = q.droppable()
	}
	return q.dropped
}

// forwarded returns what this node knows about the request.
func (q *request) forwarded(r *http.Request) forward.Head {
	return forward.Head{Door: q.door.Name, Keys: q.ctx.key.forwardIDs(), Origin: q.ctx.journal.Origin(), Remote: r.RemoteAddr, ID: q.id[0], Secure: r.TLS != nil}
}

// send sends the request to another node.
func (q *request) send(r *http.Request, t forward.Target, as *forward.Head) error {
	ctx, hop := beginHop(r.Context(), t)
	sent := r.WithContext(ctx)
	sent.Header = maps.Clone(r.Header) // only whole fields are replaced
	if !q.op.own {
		sent.Header.Del("Authorization")
	}
	replaceSpan(hop, sent.Header.Del, sent.Header.Set)
	a := &answer{request: q, header: http.Header{}}
	err := t.HTTP(a, sent, *as)
	endHop(hop, err)
	if a.refused != nil {
		panic(*a.refused)
	}
	switch {
	case err == nil:
		a.writeHead(http.StatusOK)
		return nil
	case a.written:
		return &forward.BrokenResponse{Cause: err}
	}
	return err
}

// answer is the writer of a response of another node.
type answer struct {
	*request
	header  http.Header // of the other node
	written bool
	refused *unsentRefusal
}

// Header returns the headers of the other node's response.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader sends the headers.
func (a *answer) WriteHeader(status int) {
	if status >= http.StatusOK {
		a.writeHead(status)
	}
}

// writeHead adds the headers of the other node to those of this one.
func (a *answer) writeHead(status int) {
	if a.written {
		return
	}
	a.written = true
	own, q := a.request.Header(), a.request
	if a.header.Get(headerNodeAccepted) != "" {
		_ = q.conn.Trust() // without a place, the connection stays untrusted
	}
	if caller := a.header.Get(headerNodeCaller); caller != "" {
		q.ctx.journal.Name = caller
	}
	forward.NoteChanges(&q.ctx.journal, a.header.Get(headerNodeChanges))
	for name, values := range a.header {
		switch name {
		case headerNodeAccepted, headerNodeCaller, headerNodeChanges, "Connection":
		case "Vary":
			own[name] = append(own[name], values...)
		default:
			own[name] = values
		}
	}
	q.WriteHeader(status)
}

// Write sends a part of the body.
func (a *answer) Write(p []byte) (n int, err error) {
	a.writeHead(http.StatusOK)
	defer func() {
		// The refusal must not unwind the code of the link.
		if r := recover(); r != nil {
			unsent, ok := r.(unsentRefusal)
			if !ok {
				panic(r)
			}
			a.refused, err = &unsent, unsent.Refusal
		}
	}()
	return a.request.Write(p)
}

// WriteString sends a part of the body.
func (a *answer) WriteString(s string) (int, error) { return a.Write([]byte(s)) }

// SetReadDeadline ends reads of the body of a stream that wait. Other bodies are in memory,
// and a deadline would cancel the later requests of the connection.
func (a *answer) SetReadDeadline(at time.Time) error {
	if !a.op.streams {
		return nil
	}
	return http.NewResponseController(a.ResponseWriter).SetReadDeadline(at)
}

// Flush sends what was written so far.
func (a *answer) Flush() {
	a.writeHead(http.StatusOK)
	a.request.Flush()
}

// touchedBody is a body that notes that it was read.
type touchedBody struct {
	io.ReadCloser
	read *bool
}

func (b *touchedBody) Read(p []byte) (int, error) {
	*b.read = true
	return b.ReadCloser.Read(p)
}

// failedReader is a body that cannot be read.
type failedReader struct{ err error }

func (f failedReader) Read([]byte) (int, error) { return 0, f.err }

// metadataNodeChanges is headerNodeChanges for gRPC.
const metadataNodeChanges = "ostiary-node-changes"

// noteOutcome adds the headers for the node that has forwarded the request.
func (q *request) noteOutcome() {
	h := q.Header()
	if q.op.own && q.ctx.journal.Name != storage.CallerLocal {
		h.Set(headerNodeCaller, q.ctx.journal.Name)
	}
	if text := forward.ChangesText(&q.ctx.journal); text != "" {
		h.Set(headerNodeChanges, text)
	}
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
			if !moved && a.Err != nil && forward.LostAnswer(&c.ctx.journal) {
				a.Err = c.refuseCall(m.method, &door.Refusal{Reason: door.Lost})
			}
			c.ctx.journal.Retry()
			return !moved
		},
		Other: func(t forward.Target, as *forward.Head) (err error) {
			c.ctx.work.End()
			c.ctx.passedOn.Store(true)
			defer c.ctx.passedOn.Store(false)
			ctx, hop := beginHop(&c.ctx, t)
			replaceSpan(hop, func(name string) { md.Delete(name) }, func(name, value string) { md.Set(name, value) })
			a, err = t.RPC(ctx, forward.Call{Method: m.full, Metadata: md, Message: message}, *as)
			endHop(hop, err)
			return err
		},
	}
	as := forward.Head{Door: m.door.Name, Keys: c.ctx.key.forwardIDs(), Origin: c.ctx.journal.Origin(), Remote: remoteOf(c.ctx.Context)}
	if !c.op.writes && f.Own() {
		return c.answer(&a)
	}
	if err := f.Run(&c.ctx, as); err != nil {
		if why, ok := errors.AsType[*door.Refusal](err); ok {
			return c.refuseCall(m.method, why)
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
