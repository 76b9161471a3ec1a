package server

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/cluster/forward"
)

// method is one gRPC method with what its calls need.
type method struct {
	operation
	door *servedDoor
	full string // "/package.Service/Method"
	// clientStreams is true if a call may have several requests.
	clientStreams bool
}

// newMethod returns a method of a service of a door. stream is true unless a call has one
// request and one response.
func newMethod(d *servedDoor, s *door.Service, name string, stream bool, metrics *metrics) *method {
	service := s.Desc.ServiceName[strings.LastIndexByte(s.Desc.ServiceName, '.')+1:]
	m := &method{door: d, full: "/" + s.Desc.ServiceName + "/" + name}
	m.operation = operation{series: metrics.series(d.Name, "grpc", service+"."+name), pattern: m.full[1:], public: slices.Contains(s.Public, m.full),
		streams: stream, writes: slices.Contains(s.Writes, name)}
	if !stream {
		m.mayWrite = s.MayWrite
	}
	return m
}

// refuseCall counts and logs a refusal, and returns it in the shape of the method's door.
func (s *shared) refuseCall(m *method, why *door.Refusal) error {
	s.metrics.refused(why.Reason)
	if s.log.Enabled(context.Background(), slog.LevelDebug) {
		s.log.Debug("refused", "why", why.Error())
	}
	return m.shape(why)
}

// shape returns a refusal as an error in the shape of the method's door.
func (m *method) shape(why *door.Refusal) error {
	switch {
	case m.streams && m.door.RefuseStream != nil:
		return m.door.RefuseStream(why)
	case m.door.RefuseRPC != nil:
		return m.door.RefuseRPC(why)
	}
	return status.Error(why.Code(), why.Error())
}

// endCall counts and logs a call. It must be deferred, because it also turns a panic of the
// handler into the door's refusal.
func (p *passage) endCall(m *method, err *error) {
	if v := recover(); v != nil {
		logPanic(p.log, v, m.door.Name, m.full, "")
		*err = p.refuseCall(m, &door.Refusal{Reason: door.Failed})
	}
	*err = p.ctx.limits.retryInfo(*err)
	took := time.Since(p.start)
	code := status.Code(*err)
	m.series.observe(took, outcomeOfCode(code))
	p.endRPC(*err)
	if p.accessLog {
		key := p.ctx.key
		if !key.known() {
			key = nil
		}
		line := []slog.Attr{slog.String("door", m.door.Name), slog.String("route", m.series.route), slog.String("method", "GRPC"),
			slog.String("status", code.String()), millis(took), slog.String("caller", callerText(m.door.Door, key, &p.ctx.journal.Author)), slog.String("remote", p.from())}
		line = logSpan(line, p.ctx.span)
		p.log.LogAttrs(context.Background(), slog.LevelInfo, "request", logRevision(line, &p.ctx.journal.Author)...)
	}
}

// pass is an interceptor that does nothing.
func pass(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	return handle(ctx, request)
}

// forwardedMethod is a unary method that may be forwarded, with what serves it.
type forwardedMethod struct {
	*method
	impl   any
	handle grpc.MethodHandler
}

// headersOfCall collects the metadata that a service sends with its response.
type headersOfCall struct {
	method string
	md     metadata.MD
}

func (h *headersOfCall) Method() string { return h.method }

func (h *headersOfCall) SetHeader(md metadata.MD) error {
	h.md = metadata.Join(h.md, md)
	return nil
}

func (h *headersOfCall) SendHeader(md metadata.MD) error { return h.SetHeader(md) }

func (h *headersOfCall) SetTrailer(metadata.MD) error { return nil }

// invoke calls the service with a message.
func (m *forwardedMethod) invoke(ctx context.Context, c *codec, message []byte) (a forward.Answer) {
	headers := &headersOfCall{method: m.full}
	out, err := m.handle(m.impl, grpc.NewContextWithServerTransportStream(ctx, headers), func(v any) error {
		return c.Unmarshal(mem.BufferSlice{mem.SliceBuffer(message)}, v)
	}, pass)
	a.Metadata = headers.md
	if err == nil {
		a.Message, err = c.encode(out)
	}
	a.Err = err
	return a
}
