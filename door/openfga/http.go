package openfga

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/openfga/internal/wire"
	"github.com/ostiary/ostiary/internal/tool/jsonread"
)

// httpServer handles HTTP requests.
type httpServer struct {
	s           *service
	contentType []string
	requests    sync.Pool // of *httpRequest
}

// httpRequest is a request as handlers see it: a body in, a response out. Its memory
// is reused for other requests.
type httpRequest struct {
	headers
	params   door.Params
	query    string
	body     []byte // valid until the response is written
	response []byte

	// The requests of the most frequent calls keep their memory.
	check wire.CheckRequest
	batch wire.BatchCheckRequest
}

// storeID returns the store id of the path, and adds it to the response's headers.
// Handlers call it after they have read the rest of the request: as in OpenFGA, the
// response to a malformed request has no store.
func (x *httpRequest) storeID() string {
	id := x.params.At(0)
	x.setStore(id)
	return id
}

// handler appends the body of a response to dst and returns it with its status.
type handler func(ctx context.Context, s *service, x *httpRequest, dst []byte) (body []byte, status int, err error)

// serve returns the function of a route with this handler.
func (h *httpServer) serve(handle handler) func(http.ResponseWriter, *http.Request, door.Params) {
	return func(w http.ResponseWriter, r *http.Request, p door.Params) {
		x := h.newRequest()
		defer h.recycle(x)
		x.params, x.query, x.revision = p, r.URL.RawQuery, revisionOf(r)
		if r.Method == http.MethodPost || r.Method == http.MethodPut || r.Method == http.MethodPatch {
			body, ok := h.body(w, r)
			if !ok {
				return
			}
			defer body.Free()
			x.body = body.Bytes
		}
		response, status, err := handle(r.Context(), h.s, x, x.response[:0])
		if response != nil {
			x.response = response
		}
		if err != nil {
			x.writeTo(w.Header(), 0)
			h.writeError(w, toFailure(h.s.report(err)))
			return
		}
		if status == http.StatusNoContent {
			x.writeTo(w.Header(), 0)
			w.Header()["Content-Type"] = h.contentType // as OpenFGA does, although the response has no body
			w.WriteHeader(status)
			return
		}
		h.respond(w, &x.headers, status, response)
	}
}

func (h *httpServer) newRequest() *httpRequest {
	if x, ok := h.requests.Get().(*httpRequest); ok {
		return x
	}
	return &httpRequest{response: make([]byte, 0, 1024)}
}

// responseKeptMax is the largest response whose memory is kept, in bytes, and
// checksKeptMax the largest batch, in items.
const (
	responseKeptMax = 256 << 10
	checksKeptMax   = 1000
)

// recycle clears a request and keeps its memory for another one.
func (h *httpServer) recycle(x *httpRequest) {
	if cap(x.response) > responseKeptMax || cap(x.batch.Checks) > checksKeptMax {
		return
	}
	clear(x.check.Tuples[:cap(x.check.Tuples)])
	clear(x.batch.Checks[:cap(x.batch.Checks)])
	*x = httpRequest{
		response: x.response,
		check:    wire.CheckRequest{Tuples: x.check.Tuples[:0]},
		batch:    wire.BatchCheckRequest{Checks: x.batch.Checks[:0]},
	}
	h.requests.Put(x)
}

// revisionOf returns the request's header with a revision, or "".
func revisionOf(r *http.Request) string {
	if v := r.Header[headerRevision]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// writeTo sets the headers of a response, and the length of its body if that is
// above 0.
func (c *headers) writeTo(h http.Header, length int) {
	values := new([5]string) // one allocation for all values
	n := 0
	set := func(name, value string) {
		if value != "" {
			values[n] = value
			h[name] = values[n : n+1 : n+1]
			n++
		}
	}
	set(headerStore, c.store)
	set(headerModel, c.model)
	set(headerRevision, string(c.token))
	set(headerTruncated, c.truncated)
	if length > 0 {
		set("Content-Length", strconv.Itoa(length))
	}
}

// body reads the body of a request. If it cannot, it writes an error and ok is
// false.
func (h *httpServer) body(w http.ResponseWriter, r *http.Request) (_ *door.Body, ok bool) {
	body, err := door.ReadBody(r)
	if err == nil {
		return body, true
	}
	h.writeError(w, toFailure(err))
	return nil, false
}

// respond writes a response. Unlike [door.WriteJSON] it allocates the values of all
// headers at once, because every check needs it.
func (h *httpServer) respond(w http.ResponseWriter, c *headers, status int, body []byte) {
	header := w.Header()
	c.writeTo(header, len(body))
	header["Content-Type"] = h.contentType
	w.WriteHeader(status)
	_, _ = w.Write(body) // it fails if the client has gone
}

func (h *httpServer) writeError(w http.ResponseWriter, f *failure) {
	e := f.httpError()
	door.WriteJSON(w, e.status, wire.AppendError(nil, e.name, e.message))
}

// streamChunk is the number of lines that are written at once.
const streamChunk = 1000

// stream handles StreamedListObjects: it writes one line for each object. An error
// before the first line sets the status. As in OpenFGA, errors have no name here.
func (h *httpServer) stream(w http.ResponseWriter, r *http.Request, p door.Params) {
	body, ok := h.body(w, r)
	if !ok {
		return
	}
	defer body.Free()
	var in wire.ListObjectsRequest
	if err := in.Parse(body.Bytes); err != nil {
		h.writeError(w, toFailure(bodyError(err)))
		return
	}
	in.StoreID = p.At(0)
	out := objectStream{h: h, w: w, typ: in.Type}
	out.headers.revision = revisionOf(r)
	out.headers.setStore(in.StoreID)
	err := h.s.streamObjects(r.Context(), &out.headers, &in, func(ids []string) error {
		if err := out.objects(ids); err != nil {
			return err
		}
		return r.Context().Err()
	})
	if err == nil {
		return
	}
	if r.Context().Err() == nil {
		err = h.s.report(err)
	}
	out.fail(toFailure(err).httpError()) // also if the key of the caller has ended: a part must not look whole
}

// objectStream writes the response of StreamedListObjects.
type objectStream struct {
	h       *httpServer
	w       http.ResponseWriter
	headers headers
	typ     string
	started bool
	buf     []byte
}

// begin writes the status and the headers, once.
func (l *objectStream) begin(status int) {
	if l.started {
		return
	}
	l.started = true
	l.headers.writeTo(l.w.Header(), 0)
	l.w.Header()["Content-Type"] = l.h.contentType
	l.w.WriteHeader(status)
}

// objects writes a line for each object.
func (l *objectStream) objects(ids []string) error {
	l.begin(http.StatusOK)
	control := http.NewResponseController(l.w)
	for part := range slices.Chunk(ids, streamChunk) {
		l.buf = l.buf[:0]
		for _, id := range part {
			l.buf = wire.AppendStreamedObject(l.buf, l.typ, id)
		}
		if _, err := l.w.Write(l.buf); err != nil {
			return err
		}
		_ = control.Flush() // else the lines wait in a buffer
	}
	return nil
}

func (l *objectStream) fail(f httpError) {
	if !l.started {
		door.SetRetryAfter(l.w.Header(), f.status)
	}
	l.begin(f.streamStatus())
	l.buf = strconv.AppendInt(append(l.buf[:0], `{"error":{"code":`...), int64(f.family), 10)
	l.buf = jsonread.AppendString(append(l.buf, `,"message":`...), f.message)
	_, _ = l.w.Write(append(l.buf, ",\"details\":[]}}\n"...))
}

// streamStatus returns the status of a stream that fails before its first line.
func (f httpError) streamStatus() int {
	if f.status == http.StatusUnprocessableEntity {
		return http.StatusTooManyRequests
	}
	return f.status
}

// bodyError translates an error of package wire about a body. It returns nil for nil.
func bodyError(err error) error {
	if err == nil {
		return nil
	}
	text := strings.TrimSpace(strings.TrimPrefix(err.Error(), "proto:"))
	return newFailure(codeValidation, strings.ReplaceAll(text, "unexpected EOF", "malformed JSON"))
}

// unmarshal reads a body as a message.
func unmarshal(body []byte, m proto.Message) error { return bodyError(wire.Unmarshal(body, m)) }

// marshal appends a message as the protocol's gateway writes it: with every field,
// also the empty ones.
func marshal(dst []byte, m proto.Message) ([]byte, error) {
	text, err := protojson.MarshalOptions{EmitUnpopulated: true}.Marshal(m)
	if err != nil {
		return nil, translateError(err)
	}
	buf := bytes.NewBuffer(dst)
	if err := json.Compact(buf, text); err != nil { // protojson adds random blanks
		return nil, translateError(err)
	}
	return buf.Bytes(), nil
}

// handleMessage runs a call that takes and returns the protocol's messages.
func handleMessage[In, Out proto.Message](ctx context.Context, x *httpRequest, dst []byte, status int, in In, f func(context.Context, *headers, In) (Out, error)) ([]byte, int, error) {
	out, err := f(ctx, &x.headers, in)
	if err != nil || status == http.StatusNoContent {
		return dst, status, err
	}
	dst, err = marshal(dst, out)
	return dst, status, err
}

// queryParams are the parameters of a URL's query. A parameter that comes twice, or
// that has a wrong type, is an error. Unknown parameters are ignored.
type queryParams struct {
	values url.Values
	err    error // the first error
}

func (x *httpRequest) queryParams() queryParams {
	if x.query == "" {
		return queryParams{}
	}
	v, err := url.ParseQuery(x.query)
	if err != nil {
		return queryParams{err: failf(codeValidation, "%v", err)}
	}
	return queryParams{values: v}
}

func (f *queryParams) text(name string) string {
	v := f.values[name]
	if len(v) > 1 && f.err == nil {
		f.err = failf(codeValidation, "too many values for field %q: %s", name, clip(strings.Join(v, ", ")))
	}
	if len(v) == 0 {
		return ""
	}
	return v[0]
}

func (f *queryParams) pageSize() *wrapperspb.Int32Value {
	text := f.text("page_size")
	if !f.values.Has("page_size") {
		return nil
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil && f.err == nil {
		f.err = failf(codeValidation, "parsing field \"page_size\": %s", clip(err.Error()))
	}
	return wrapperspb.Int32(int32(n))
}

func (f *queryParams) time(name string) *timestamppb.Timestamp {
	text := f.text(name)
	if !f.values.Has(name) {
		return nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil && f.err == nil {
		f.err = failf(codeValidation, "parsing field %q: %s", name, clip(err.Error()))
	}
	return timestamppb.New(t)
}
