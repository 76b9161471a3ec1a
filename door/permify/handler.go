package permify

import (
	"context"
	"net/http"

	"google.golang.org/protobuf/proto"

	"github.com/ostiary/ostiary/door"
)

// serveFunc is the type of [door.Route.Serve].
type serveFunc = func(w http.ResponseWriter, r *http.Request, p door.Params)

// endpoint serves a call that has one response over HTTP. Q is the decoded
// request, A the result of the call. Every error of a step ends the request
// with the protocol's error response.
type endpoint[Q, A any] struct {
	// decode reads the request from a body of JSON and from the path's
	// parameters. The request may refer to body until free is called.
	decode func(body []byte, p door.Params) (Q, error)
	// call executes the request.
	call func(ctx context.Context, request Q) (A, error)
	// encode returns the result as JSON.
	encode func(result A) ([]byte, error)
	// free, if not nil, recycles the request after the response is written, or
	// after call or encode failed. It is not called if decode failed.
	free func(request Q)
}

// serve is a serveFunc: it decodes, calls and encodes.
func (e endpoint[Q, A]) serve(w http.ResponseWriter, r *http.Request, p door.Params) {
	body, err := door.ReadBody(r)
	if err != nil {
		serveError(w, err)
		return
	}
	defer body.Free()
	request, err := e.decode(body.Bytes, p)
	if err != nil {
		serveError(w, err)
		return
	}
	if e.free != nil {
		defer e.free(request)
	}
	result, err := e.call(r.Context(), request)
	if err != nil {
		serveError(w, err)
		return
	}
	out, err := e.encode(result)
	if err != nil {
		serveError(w, err)
		return
	}
	door.WriteJSON(w, http.StatusOK, out)
}

// unary serves a call whose JSON needs no fast path.
func unary[In any, I message[In], O proto.Message](call func(context.Context, I) (O, error)) serveFunc {
	return endpoint[I, O]{decode: decodeMessage[In, I], call: call, encode: encodeMessage[O]}.serve
}

// streaming serves a call that has many responses, one on each line. An error
// before the first response is an ordinary error response; a later one is a
// line {"error": ...}.
func streaming[In any, I message[In], O proto.Message](call func(context.Context, I, func(O) error) error) serveFunc {
	return func(w http.ResponseWriter, r *http.Request, p door.Params) {
		body, err := door.ReadBody(r)
		if err != nil {
			serveError(w, err)
			return
		}
		in, err := decodeMessage[In, I](body.Bytes, p)
		body.Free() // the message holds copies
		if err != nil {
			serveError(w, err)
			return
		}
		lines := lineWriter{w: w, flush: http.NewResponseController(w).Flush}
		err = call(r.Context(), in, func(out O) error { return lines.write(out) })
		switch {
		case err == nil:
			lines.begin()
		case !lines.begun:
			serveError(w, err)
		default: // also if the key of the caller has ended: a part must not look whole
			_, _ = w.Write(append(appendError([]byte(`{"error":`), asFailure(err)), "}\n"...)) // the client may be gone
		}
	}
}

// lineWriter writes the responses of a stream.
type lineWriter struct {
	w http.ResponseWriter
	// flush sends the written bytes to the client.
	flush func() error
	// begun is true once the status and the headers are written.
	begun bool
}

// begin writes the status and the headers, once.
func (l *lineWriter) begin() {
	if !l.begun {
		l.w.Header().Set("Content-Type", "application/json")
		l.w.WriteHeader(http.StatusOK)
		l.begun = true
	}
}

// write writes one response and flushes it.
func (l *lineWriter) write(m proto.Message) error {
	line, err := appendMessage([]byte(`{"result":`), m)
	if err != nil {
		return err
	}
	l.begin()
	if _, err := l.w.Write(append(line, "}\n"...)); err != nil {
		return err
	}
	return l.flush()
}
