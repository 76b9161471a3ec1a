package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/native"
	"github.com/ostiary/ostiary/door/openfga"
	"github.com/ostiary/ostiary/rel"
)

// Some commands use the native API. With --server they send requests to the
// server; otherwise they call the native door on the folder's engine, without a
// network. Both ways give the same results.

const (
	// nativePrefix is the start of the native API's paths.
	nativePrefix = "/ostiary/v1"
	// nativePath is the start of the native API's paths about a store.
	nativePath = nativePrefix + "/stores/"
)

// native sends a request about a store and returns the response body.
func (a *app) native(ctx context.Context, method, path string, in any) ([]byte, error) {
	body, err := a.nativeStream(ctx, method, path, in)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, responseBytesMax+1))
	if err == nil && len(text) > responseBytesMax {
		err = fmt.Errorf("%s: the response is larger than %d bytes", path, responseBytesMax)
	}
	return text, err
}

// nativeStream is like native but returns the body as a stream, which the caller
// closes.
func (a *app) nativeStream(ctx context.Context, method, path string, in any) (io.ReadCloser, error) {
	return a.stream(ctx, method, nativePath, path, in)
}

// openFGA sends a request about a store in OpenFGA's API and reads the whole
// response.
func (a *app) openFGA(ctx context.Context, method, path string, in any) error {
	body, err := a.stream(ctx, method, "/stores/", path, in)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, body)
	return errors.Join(err, body.Close())
}

// stream sends a request to a path that begins with prefix and the store's id. It
// returns the response body, which the caller closes.
func (a *app) stream(ctx context.Context, method, prefix, path string, in any) (io.ReadCloser, error) {
	if r := a.remote(); r != nil {
		s, err := r.find(ctx, a.store)
		if err != nil {
			return nil, err
		}
		if err := r.requireRevision(ctx, s.ID, in); err != nil {
			return nil, err
		}
		resp, err := r.send(ctx, method, prefix+s.ID+path, in)
		if err != nil {
			return nil, nativeMissing(err)
		}
		return resp.Body, nil
	}
	var body io.Reader = http.NoBody
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	ctx, cancel := context.WithCancel(ctx)
	reader, writer := io.Pipe()
	response := &pipedResponse{to: writer, header: http.Header{}, begun: make(chan struct{})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := a.withNamed(ctx, nil, func(e *ostiary.Engine, s *ostiary.Store) error {
			req, err := http.NewRequestWithContext(ctx, method, prefix+s.ID().String()+path, body)
			if err != nil {
				return err
			}
			req.Header.Set("Content-Type", "application/json")
			return serveLocal(e, response, req)
		})
		response.end(err)
	}()
	<-response.begun
	out := &pipedBody{reader, cancel, done}
	if response.status < 300 {
		return out, nil
	}
	defer out.Close()
	if response.err != nil {
		return nil, response.err
	}
	refused := &remoteError{Status: response.status}
	text, err := io.ReadAll(reader)
	if err == nil {
		err = json.Unmarshal(text, refused)
	}
	return nil, errors.Join(err, &folderError{refused})
}

// nativeMissing explains the error of a server without the native API. It returns
// other errors unchanged.
func nativeMissing(err error) error {
	if isForeign(err) {
		return fmt.Errorf("this needs the native API, which only ostiary serve has: %w", err)
	}
	return err
}

// isForeign reports whether err is the response of a server without the native API
// to a request for it.
func isForeign(err error) bool {
	refused, ok := errors.AsType[*remoteError](err)
	return ok && refused.Status == http.StatusNotFound && slices.Contains([]string{"", "undefined_endpoint", "error"}, refused.Code)
}

// folderError is an error response of the native door on the folder's engine.
type folderError struct{ *remoteError }

func (e *folderError) Error() string { return e.Message }
func (e *folderError) Unwrap() error { return e.remoteError }

// serveLocal serves a request with the native door or the OpenFGA door over e.
func serveLocal(e *ostiary.Engine, w http.ResponseWriter, r *http.Request) error {
	var d *door.Door
	var err error
	if strings.HasPrefix(r.URL.Path, nativePrefix) {
		d, err = native.New(e, native.Options{Dialects: dialects()})
	} else {
		d, err = openfga.New(e, openfga.Options{})
	}
	if err != nil {
		return err
	}
	router, err := door.NewRouter(d.Routes)
	if err != nil {
		return err
	}
	var p door.Params
	route, _ := router.Find(r.Method, r.URL.EscapedPath(), &p)
	if route == nil {
		return fmt.Errorf("no route %s %s", r.Method, r.URL.Path)
	}
	route.Serve(w, r, p)
	return nil
}

// pipedResponse is a [http.ResponseWriter] that writes the body to a pipe.
type pipedResponse struct {
	to     *io.PipeWriter
	header http.Header
	begun  chan struct{} // closed once status is set
	status int
	err    error
}

func (p *pipedResponse) Header() http.Header { return p.header }

// Flush does nothing: the pipe has no buffer. Streams require the method.
func (p *pipedResponse) Flush() {}

func (p *pipedResponse) WriteHeader(status int) {
	if p.status == 0 {
		p.status = status
		close(p.begun)
	}
}

func (p *pipedResponse) Write(b []byte) (int, error) {
	p.WriteHeader(http.StatusOK)
	return p.to.Write(b)
}

// end closes the response. If no status is set yet, err becomes the error of the
// whole request.
func (p *pipedResponse) end(err error) {
	if p.status == 0 && err != nil {
		p.err = err
		p.WriteHeader(http.StatusInternalServerError)
	}
	p.WriteHeader(http.StatusOK)
	p.to.CloseWithError(err)
}

// pipedBody is the reading end of a [pipedResponse]. Close waits until the folder
// is closed.
type pipedBody struct {
	*io.PipeReader
	cancel context.CancelFunc
	done   <-chan struct{}
}

func (b *pipedBody) Close() error {
	b.cancel()
	err := b.PipeReader.Close()
	<-b.done
	return err
}

// printNative prints a response of the native API: unchanged with --json.
// Otherwise it decodes the response into out and calls human.
func (a *app) printNative(text []byte, out any, human func(io.Writer)) error {
	if a.json {
		_, err := a.out.Write(append(bytes.TrimSpace(text), '\n'))
		return err
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("the response is not valid in the native API: %w", err)
	}
	return a.print(nil, human)
}

// nativeQuestion adds the flags of a query to a request body of the native API.
func (f *queryFlags) nativeQuestion(in map[string]any) (map[string]any, error) {
	ask, err := f.options()
	if err != nil {
		return nil, err
	}
	if at, err := nativeAt("--at", f.at); err != nil {
		return nil, err
	} else if at != nil {
		in["at"] = at
	}
	if ask.SchemaID != "" {
		in["schema"] = ask.SchemaID
	}
	if ask.Context != nil {
		in["context"] = ask.Context
	}
	if len(ask.Tuples) > 0 {
		in["tuples"] = nativeTuples(ask.Tuples)
	}
	return in, nil
}

func oneTuple(t rel.Tuple) []rel.Tuple { return []rel.Tuple{t} }

func nativeTuples(tuples []rel.Tuple) []map[string]any {
	out := []map[string]any{}
	for _, t := range tuples {
		m := map[string]any{"object": t.Object.String(), "relation": t.Relation, "subject": t.Subject.String()}
		if t.Condition != "" {
			m["condition"] = t.Condition
		}
		if t.Context != "" {
			m["context"] = json.RawMessage(t.Context)
		}
		if t.Expires != 0 {
			m["expires"] = t.Expires.Time().Format(time.RFC3339Nano)
		}
		out = append(out, m)
	}
	return out
}

// nativeAt parses a revision, a time or a token, the value of a flag, into the native
// API's form. It returns nil, the newest revision, for the empty string.
func nativeAt(flag, s string) (map[string]any, error) {
	if s == "" {
		return nil, nil
	}
	if _, err := parseAt(flag, s); err != nil {
		return nil, err
	}
	switch {
	case json.Valid([]byte(s)):
		return map[string]any{"revision": json.Number(s)}, nil
	case len(s) > 2 && s[:2] == "o1":
		return map[string]any{"exactly": s}, nil
	}
	return map[string]any{"time": s}, nil
}
