package server

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/cluster/forward"
	"github.com/ostiary/ostiary/internal/trail/traces"
)

// beginSpan begins the span of a request to a door, once the gates know its caller. There is
// a tracer.
func (p *passage) beginSpan(method string, header interface{ Get(string) string }) {
	if p.door.Name == ownDoor {
		return // health, and the page at /
	}
	p.ctx.span = p.tracer.Begin(&traces.Request{Start: p.start, Method: method, Route: p.op.pattern, Door: p.door.Name, Operation: p.op.series.route,
		Known:     p.ctx.key.known() || p.localOnly && !p.required || p.op.own && p.conn.Trusted.Load(),
		Forwarded: p.as != nil, Header: header})
}

// endSpan ends the span of a request. failed is the kind of the error that is the server's, ""
// without one.
func (p *passage) endSpan(failed string, err error) {
	span := p.ctx.span
	if p.tracer.Content() {
		span.Set("enduser.id", callerText(p.door.Door, p.ctx.key, &p.ctx.journal.Author))
		span.Set("client.address", p.from())
	}
	if failed != "" {
		span.Fail(failed, err)
	}
	span.End()
}

// refused notes in the span, if there is one, why the request is refused.
func (p *passage) refused(why *door.Refusal) {
	if p.ctx.span != nil {
		p.ctx.span.Set("ostiary.refusal", reasonLabel(why.Reason))
	}
}

// endHTTP ends the span of a request over HTTP. whole is false if the response broke off.
func (q *request) endHTTP(r *http.Request, whole bool) {
	span := q.ctx.span
	if span == nil {
		return
	}
	span.Set("http.response.status_code", q.status)
	if q.tracer.Content() {
		span.Set("url.path", r.URL.Path)
		span.Set("ostiary.request_id", q.requestID())
	}
	failed := ""
	switch {
	case q.dropped:
		span.Set("ostiary.not_begun", true) // another node serves the request
	case !whole:
		failed = "broken_response"
	case q.status >= http.StatusInternalServerError:
		failed = strconv.Itoa(q.status)
	}
	q.endSpan(failed, nil)
}

// endRPC ends the span of a call with the result err.
func (p *passage) endRPC(err error) {
	if p.ctx.span == nil {
		return
	}
	code := status.Code(err)
	p.ctx.span.Set("rpc.response.status_code", code.String())
	failed := ""
	if outcomeOfCode(code) == outcomeServer {
		failed = code.String()
	}
	p.endSpan(failed, err)
}

// beginHop begins the part of a traced request that another node serves.
func beginHop(ctx context.Context, to forward.Target) (context.Context, traces.Span) {
	ctx, hop := traces.Start(ctx, "forward", traces.Hop)
	if hop != nil {
		hop.Set("ostiary.node", to.Node())
	}
	return ctx, hop
}

// replaceSpan removes the headers in which the client may name its span, and names the hop, if
// there is one: the other node traces what this one traces.
func replaceSpan(hop traces.Span, remove func(name string), set func(name, value string)) {
	for _, name := range traces.Headers() {
		remove(name)
	}
	if hop != nil {
		hop.Inject(set)
	}
}

// endHop ends the part with the outcome of a forwarded request.
func endHop(hop traces.Span, err error) {
	switch {
	case hop == nil:
		return
	case errors.Is(err, forward.ErrNotBegun):
		hop.Fail("not_begun", err)
	case err != nil:
		hop.Fail("broken_response", err)
	}
	hop.End()
}

// logSpan adds the ids of the span, if there is one, to a line of the access log.
func logSpan(line []slog.Attr, span traces.Span) []slog.Attr {
	if span == nil {
		return line
	}
	trace, id := span.IDs()
	return append(line, slog.String("trace_id", trace), slog.String("span_id", id))
}

// incoming is the context of a call over gRPC, for its headers.
type incoming struct{ context.Context }

// Get returns the only value of a header, or "".
func (i incoming) Get(name string) string {
	if values := metadata.ValueFromIncomingContext(i.Context, name); len(values) == 1 {
		return values[0]
	}
	return ""
}
