package openfga

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
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
	"github.com/ostiary/ostiary/door/jsonread"
	"github.com/ostiary/ostiary/door/openfga/wire"
)

// httpServer answers the protocol over HTTP.
type httpServer struct {
	s           *service
	contentType []string
	requests    sync.Pool // of *exchange
}

// httpRequest is a request as operations see it: bytes in, bytes out. Its memory
// is used again for other requests.
type httpRequest struct {
	headers
	params   door.Params
	query    string
	body     []byte // valid until the answer is written
	response []byte

	// The requests of the most frequent calls keep their memory.
	check wire.CheckRequest
	batch wire.BatchCheckRequest
}

// storeID is the path's first parameter, which the answer then names. It is
// asked for when the rest of the request could be read: an answer that says
// why not names no store, in the original either.
func (x *httpRequest) storeID() string {
	id := x.params.At(0)
	x.setStore(id)
	return id
}

// handler appends an answer to dst and returns it with its status.
type handler func(ctx context.Context, s *service, x *httpRequest, dst []byte) (answer []byte, status int, err error)

// serve makes an operation a route's function.
func (h *httpServer) serve(op handler) func(http.ResponseWriter, *http.Request, door.Params) {
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
		answer, status, err := op(r.Context(), h.s, x, x.response[:0])
		if answer != nil {
			x.response = answer
		}
		if err != nil {
			x.writeTo(w.Header(), 0)
			h.writeError(w, toFailure(h.s.report(err)))
			return
		}
		if status == http.StatusNoContent {
			x.writeTo(w.Header(), 0)
			w.Header()["Content-Type"] = h.contentType // as the original, of nothing
			w.WriteHeader(status)
			return
		}
		h.respond(w, &x.headers, status, answer)
	}
}

func (h *httpServer) newRequest() *httpRequest {
	if x, ok := h.requests.Get().(*httpRequest); ok {
		return x
	}
	return &httpRequest{response: make([]byte, 0, 1024)}
}

// responseKeptMax is the largest answer whose memory is kept, in bytes, and
// checksKeptMax the largest batch, in items.
const (
	responseKeptMax = 256 << 10
	checksKeptMax   = 1000
)

// recycle keeps an exchange's memory, but nothing of the request.
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

// revisionOf reads the header of a request.
func revisionOf(r *http.Request) string {
	if v := r.Header[headerRevision]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// writeTo writes what an answer says besides its body, and the body's length if
// that is above 0.
func (c *headers) writeTo(h http.Header, length int) {
	values := new([5]string) // one piece of memory for all, which h keeps
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

func (h *httpServer) body(w http.ResponseWriter, r *http.Request) (*door.Body, bool) {
	body, err := door.ReadBody(r)
	if err == nil {
		return body, true
	}
	var why *door.Refusal
	if errors.As(err, &why) {
		h.writeError(w, refusalFailure(why))
	} else {
		h.writeError(w, newFailure(codeValidation, "the request's body cannot be read"))
	}
	return nil, false
}

func (h *httpServer) respond(w http.ResponseWriter, c *headers, status int, body []byte) {
	header := w.Header()
	c.writeTo(header, len(body))
	header["Content-Type"] = h.contentType
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that is gone is nobody to tell
}

func (h *httpServer) writeError(w http.ResponseWriter, f *failure) {
	form := f.httpError()
	h.respond(w, &headers{}, form.status, wire.AppendError(nil, form.name, form.message))
}

// streamChunk is how many lines are written at once.
const streamChunk = 1000

// stream answers StreamedListObjects: a line an object. An error before the
// first line is the status; all errors lose their name, as in the original.
func (h *httpServer) stream(w http.ResponseWriter, r *http.Request, p door.Params) {
	body, ok := h.body(w, r)
	if !ok {
		return
	}
	defer body.Free()
	var in wire.ListObjectsRequest
	if err := in.Parse(body.Bytes); err != nil {
		h.writeError(w, bodyFailure(err))
		return
	}
	in.StoreID = p.At(0)
	out := objectStream{h: h, w: w, typ: in.Type}
	out.call.revision = revisionOf(r)
	out.call.setStore(in.StoreID)
	err := h.s.streamObjects(r.Context(), &out.call, &in, func(ids []string) error {
		if err := out.objects(ids); err != nil {
			return err
		}
		return r.Context().Err()
	})
	if err != nil && r.Context().Err() == nil {
		out.fail(toFailure(h.s.report(err)).httpError())
	}
}

// objectStream writes a stream.
type objectStream struct {
	h       *httpServer
	w       http.ResponseWriter
	call    headers
	typ     string
	started bool
	buf     []byte
}

func (l *objectStream) begin(status int) {
	if l.started {
		return
	}
	l.started = true
	l.call.writeTo(l.w.Header(), 0)
	l.w.Header()["Content-Type"] = l.h.contentType
	l.w.WriteHeader(status)
}

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
		_ = control.Flush() // without it the lines come later
	}
	return nil
}

func (l *objectStream) fail(f httpError) {
	l.begin(f.streamStatus())
	l.buf = strconv.AppendInt(append(l.buf[:0], `{"error":{"code":`...), int64(f.family), 10)
	l.buf = jsonread.AppendString(append(l.buf, `,"message":`...), f.message)
	_, _ = l.w.Write(append(l.buf, ",\"details\":[]}}\n"...))
}

// streamStatus is the status of a stream that ends before it begins: that of
// the code that streams tell.
func (f httpError) streamStatus() int {
	if f.status == http.StatusUnprocessableEntity {
		return http.StatusTooManyRequests
	}
	return f.status
}

// bodyFailure says why a body cannot be read.
func bodyFailure(err error) *failure {
	text := strings.TrimSpace(strings.TrimPrefix(err.Error(), "proto:"))
	return newFailure(codeValidation, strings.ReplaceAll(text, "unexpected EOF", "malformed JSON"))
}

// bodyError makes a reading's error one of the protocol.
func bodyError(err error) error {
	if err == nil {
		return nil
	}
	return bodyFailure(err)
}

// unmarshal reads a body as a message.
func unmarshal(body []byte, m proto.Message) error { return bodyError(wire.Unmarshal(body, m)) }

// marshal appends a message as the protocol's gateway writes it: every field,
// the empty ones too.
func marshal(dst []byte, m proto.Message) ([]byte, error) {
	text, err := protojson.MarshalOptions{EmitUnpopulated: true}.Marshal(m)
	if err != nil {
		return nil, translateError(err)
	}
	buf := bytes.NewBuffer(dst)
	if err := json.Compact(buf, text); err != nil { // protojson adds blanks by chance
		return nil, translateError(err)
	}
	return buf.Bytes(), nil
}

// handleMessage is an operation of the calls that speak in messages.
func handleMessage[In, Out proto.Message](ctx context.Context, x *httpRequest, dst []byte, status int, in In, f func(context.Context, *headers, In) (Out, error)) ([]byte, int, error) {
	out, err := f(ctx, &x.headers, in)
	if err != nil || status == http.StatusNoContent {
		return dst, status, err
	}
	dst, err = marshal(dst, out)
	return dst, status, err
}

// queryParams are a query's values. A name that is given twice, and a value that is
// not of its type, are errors; other names are ignored.
type queryParams struct {
	values url.Values
	err    error
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
