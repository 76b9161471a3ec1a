package server

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net/http"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/tool/turns"
	"github.com/ostiary/ostiary/internal/trail/audit"
	"github.com/ostiary/ostiary/server/internal/conn"
)

// call is one gRPC call in flight. It is also the stream that the handlers of
// streams get.
type call struct {
	passage // its charge is what the received message counts, until the next one is read
	grpc.ServerStream
	method   *method
	prefix   [5]byte // of a message: a flag and the length
	received bool    // a message was received
	out      conn.Outgoing
	taken    bool          // out was handed to gRPC
	held     conn.Held     // what a stream keeps for its client
	message  any           // the request of a unary call
	refusal  *door.Refusal // of the call before its handler
	recorded bool          // see record
}

// transportStream has the methods of grpc-go's own stream that read a message in
// two steps. The server uses them to learn the length of a message before gRPC
// accepts it.
type transportStream interface {
	// ReadMessageHeader reads the 5 bytes before a message. It returns [io.EOF]
	// if the client sends no further message.
	ReadMessageHeader(header []byte) error
	// Read lets the client send n bytes and reads them.
	Read(n int) (mem.BufferSlice, error)
	// WriteStatus ends the stream. Reads that wait return an error then.
	WriteStatus(*status.Status) error
}

// newCall returns a call that has not passed the gates.
func newCall(s *shared, m *method, stream grpc.ServerStream) *call {
	ctx := stream.Context()
	c := &call{passage: passage{shared: s, op: &m.operation, door: m.door, conn: s.detached, start: time.Now(), stale: s.staleCount(),
		required: s.keys.required(), most: min(s.bodyBytes, math.MaxInt32), free: conn.BodyFree}, ServerStream: stream, method: m}
	c.header, _ = ctx.Value(headerOfCall{}).(http.Header)
	c.ctx.Context, c.ctx.door, c.ctx.request, c.ctx.stream = ctx, m.door.name, callOf{c}, m.streams
	c.ctx.work.Use(s.turns)
	if own := conn.OfCall(ctx); own != nil {
		c.conn = own
	}
	c.charge = s.bodies.NewCharge(c.conn)
	return c
}

// begin begins with a call that has passed the gates. The caller must call release.
func (c *call) begin() {
	if c.public {
		c.most = min(c.most, conn.PublicMessageMax)
	}
	c.conn.Begin()
}

// release ends the call.
func (c *call) release() {
	if c.staleCount() != c.stale {
		c.SetTrailer(metadata.Pairs(headerStale, "true"))
	}
	c.ctx.release()
	c.leave()
	c.conn.End(c.ServerStream.Context(), 0)
}

// endable gives a stream a context that ends when the server stops or the
// caller's key is removed. In the latter case the stream itself ends as well.
// The returned function frees the resources.
func (c *call) endable() (release func()) {
	ctx, cancel := context.WithCancel(c.ctx.Context)
	c.held = conn.Held{Conn: c.conn}
	c.ctx.Context = door.WithHold(ctx, func(bytes int64) error {
		c.ctx.work.End()
		if why := c.held.Set(c.ServerStream.Context(), bytes, c.transferTime); why != nil {
			c.metrics.refused(why.Reason)
			return why
		}
		return nil
	})
	stopEnding := context.AfterFunc(c.ending, cancel)
	stopRemoved := c.ctx.key.onEnd(func() {
		cancel()
		c.abort(&door.Refusal{Reason: door.BadCredentials})
	})
	return func() {
		stopEnding()
		stopRemoved()
		cancel()
		c.held.Release()
	}
}

// Context returns the stream's context.
func (c *call) Context() context.Context { return &c.ctx }

// transport returns grpc-go's own stream.
func (c *call) transport() transportStream {
	t, _ := grpc.ServerTransportStreamFromContext(c.ServerStream.Context()).(transportStream)
	return t
}

// abort ends the call with a refusal, whatever its handler waits for.
func (c *call) abort(why *door.Refusal) {
	if t := c.transport(); t != nil {
		t.WriteStatus(status.Convert(c.refuseCall(c.method, why)))
	}
}

// decode receives the request of a call with one request. Then it starts the
// request's deadline.
func (c *call) decode(v any) error {
	if err := c.RecvMsg(v); err != nil {
		return err
	}
	c.message = v
	if c.requestTimeout <= 0 {
		return nil
	}
	c.ctx.setDeadline(time.Now(), c.requestTimeout)
	return nil
}

// RecvMsg receives a message. Its length is charged before gRPC accepts it. From
// its first byte on, a message has TransferTime; the only message of a client
// has it from the call's headers on.
func (c *call) RecvMsg(v any) error {
	t := c.transport()
	if t == nil {
		return c.ServerStream.RecvMsg(v) // grpc-go has changed, see TestReceive
	}
	c.charge.Release()
	c.ctx.work.End() // the client may send slowly
	var timer *time.Timer
	if !c.method.clientStreams {
		timer = time.AfterFunc(c.transferTime, c.expire)
		defer timer.Stop()
	}
	if err := t.ReadMessageHeader(c.prefix[:]); err != nil {
		if err == io.EOF && !c.method.clientStreams && !c.received {
			return status.Error(codes.Internal, "cardinality violation: received no request message from non-client-streaming RPC")
		}
		return receiveError(err)
	}
	n, err := c.announced()
	if err != nil {
		return err
	}
	if timer == nil {
		timer = time.AfterFunc(c.transferTime, c.expire)
		defer timer.Stop()
	}
	data, err := t.Read(n)
	if err != nil {
		return receiveError(noEOF(err))
	}
	defer data.Free()
	c.ctx.work.Resume()
	c.charge.Whole()
	if n > door.BodyLarge {
		if err := turns.Hold(&c.ctx); err != nil {
			return status.FromContextError(err).Err()
		}
	}
	if err := c.codec.Unmarshal(data, v); err != nil {
		return status.Errorf(codes.Internal, "grpc: failed to unmarshal the received message: %v", err)
	}
	c.received = true
	if c.method.clientStreams {
		return nil
	}
	switch err := t.ReadMessageHeader(c.prefix[:]); err {
	case nil:
		return status.Error(codes.Internal, "cardinality violation: expected <EOF> for non client-streaming RPCs, but received another message")
	case io.EOF:
		return nil
	default:
		return receiveError(err)
	}
}

// announced checks the header of a message, sends the message through its gates, and returns
// its length.
func (c *call) announced() (int, error) {
	if c.prefix[0] != 0 {
		return 0, status.Error(codes.Unimplemented, "grpc: Decompressor is not installed for the message's grpc-encoding")
	}
	c.length = int64(binary.BigEndian.Uint32(c.prefix[1:]))
	if why := c.pass(messageGates[:]); why != nil {
		return 0, c.refuseCall(c.method, why)
	}
	return int(c.length), nil
}

// expire ends a call whose message takes too long.
func (c *call) expire() {
	c.abort(&door.Refusal{Reason: door.TimedOut, Bound: "TransferTime", Time: c.transferTime})
}

func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// receiveError returns an error of reading as the error of a call.
func receiveError(err error) error {
	if err == io.EOF {
		return err
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return status.Error(codes.Internal, io.ErrUnexpectedEOF.Error())
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	return status.Error(codes.Unavailable, err.Error())
}

// SendMsg sends a response. It waits while the connection holds too many unsent
// bytes, at most for TransferTime; then it closes the connection.
func (c *call) SendMsg(v any) error {
	data, err := c.codec.encode(v)
	if err != nil {
		return status.Errorf(codes.Internal, "grpc: error while marshaling: %v", err)
	}
	c.ctx.work.End() // the client may read slowly
	c.out, c.taken = conn.NewOutgoing(c.conn, data), false
	size := c.out.Size()
	unsent := &c.conn.All.Unsent
	if why := unsent.Reserve(c.conn, size); why != nil {
		return c.refuseCall(c.method, why)
	}
	defer func() {
		if !c.taken {
			unsent.Release(size)
		}
	}()
	if !c.conn.Roomy(c.held.Bytes) {
		if !c.op.streams {
			c.leavePlace() // the call is done and only waits for its client
		}
		if !c.conn.Await(c.ServerStream.Context(), c.held.Bytes, c.transferTime) {
			return c.refuseCall(c.method, unsent.Slow())
		}
	}
	return c.ServerStream.SendMsg(c)
}

// take hands the response to gRPC.
func (c *call) take() mem.BufferSlice {
	c.taken = true
	return c.out.Buffers()
}

// callOf is a [door.Request] over gRPC.
type callOf struct{ *call }

func (o callOf) Operation() string { return o.op.series.route }
func (o callOf) Remote() string    { return remoteOf(o.ServerStream.Context()) }
func (o callOf) ID() string        { return "" }
func (o callOf) Author() string    { return callerText(o.door.Door, o.ctx.key, &o.ctx.journal.Author) }

// record adds the record of a call with the result err, once, if the call needs one. It
// returns an error if the call must not be answered otherwise.
func (c *call) record(err error) error {
	if c.trail == nil || c.recorded {
		return nil
	}
	c.recorded = true
	code := status.Code(err)
	r := audit.Record{Time: c.start, Door: c.door.Name, Operation: c.op.series.route, Method: "GRPC", From: c.from(),
		Outcome: outcomeOfCall(err), Status: code.String()}
	switch m := c.message.(type) {
	case interface{ GetStoreId() string }:
		r.Store = m.GetStoreId()
	case interface{ GetTenantId() string }:
		r.Store = m.GetTenantId()
	}
	if m, ok := c.message.(proto.Message); ok && c.auditContent && c.op.writes {
		content, _ := protojson.Marshal(m) // a message with invalid UTF-8 has no content
		r.Content = string(content)
	}
	if why := c.passage.record(&r, c.refusal, code == codes.Unauthenticated || code == codes.PermissionDenied); why != nil {
		return c.refuseCall(c.method, why)
	}
	return nil
}

// outcomeOfCall returns the outcome of a gRPC call.
func outcomeOfCall(err error) audit.Outcome {
	switch status.Code(err) {
	case codes.OK:
		return audit.Made
	case codes.Unauthenticated, codes.PermissionDenied:
		return audit.Refused
	case codes.Internal, codes.Unknown, codes.Unavailable, codes.DataLoss, codes.DeadlineExceeded, codes.Canceled:
		return audit.Failed
	}
	return audit.Rejected
}
