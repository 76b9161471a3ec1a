// Package traces carries the trace of a request through the rooms that serve it. The server
// asks a [Tracer] for the [Span] of each request, and puts it into the context; any room
// below adds a part with [Start]. The package knows no format of traces and sends nothing:
// the program implements the Tracer.
package traces

import (
	"context"
	"time"
)

// Tracer decides which requests are traced. Its methods may be called concurrently.
type Tracer interface {
	// Begin returns the span of a request, or nil if the request is not traced.
	Begin(r *Request) Span
	// Content reports whether spans have content: names, ids and messages of errors.
	Content() bool
}

// Request is a request that has come.
type Request struct {
	// Start is when it came.
	Start time.Time
	// Method is that of HTTP; "" over gRPC.
	Method string
	// Route is the template of the path, or the full name of the method of gRPC without its
	// slash; "" if the request has no route.
	Route string
	// Door and Operation name the door, and its operation as the metrics do.
	Door, Operation string
	// Known is true if the caller is authenticated, or is on this machine and needs no key.
	// Nothing that another caller sends decides whether the request is traced.
	Known bool
	// Forwarded is true if another node has sent the request. It is traced here if it is
	// traced there.
	Forwarded bool
	// Header has the headers, in which the caller may name its own span.
	Header interface{ Get(name string) string }
}

// Kind is what a part of a request is.
type Kind uint8

const (
	// Internal is work on this node.
	Internal Kind = iota
	// Client is a request to another program.
	Client
	// Hop is a request to another node.
	Hop
)

// Span is a part of a request, from its start to its end. Its methods may be called
// concurrently, but for End, which is the last one.
type Span interface {
	// Start begins a part of the span. It returns nil if the request has too many parts.
	Start(name string, kind Kind) Span
	// Set adds an attribute: a string, an int or a bool.
	Set(name string, value any)
	// Fail marks the span as failed, with a kind of error that has no content. The message
	// of err, which may be nil, is kept only if content is asked for.
	Fail(kind string, err error)
	// Inject calls set for each header that names the span to the receiver of a request.
	Inject(set func(name, value string))
	// IDs returns the ids of the trace and the span, as lines of the log have them.
	IDs() (trace, span string)
	// End ends the span.
	End()
}

// Headers are the names of the headers of Inject, in the form of HTTP/2.
func Headers() [2]string { return [2]string{"traceparent", "tracestate"} }

// Key is the key under which a context has its [Span].
type Key struct{}

// Of returns the span of a context, or nil.
func Of(ctx context.Context) Span {
	s, _ := ctx.Value(Key{}).(Span)
	return s
}

// Start begins a part of the span of a context, and returns a context with the part. It
// returns ctx and nil if the request is not traced.
func Start(ctx context.Context, name string, kind Kind) (context.Context, Span) {
	s := Of(ctx)
	if s == nil {
		return ctx, nil
	}
	part := s.Start(name, kind)
	if part == nil {
		return ctx, nil
	}
	return context.WithValue(ctx, Key{}, part), part
}
