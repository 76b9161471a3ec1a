package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/native"
	"github.com/ostiary/ostiary/door/openfga"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// Some commands use the native API. With --server they send requests to the
// server; otherwise they call the native door on the folder's engine, without a
// network. Both ways give the same results.

const (
	// NativePrefix is the start of the native API's paths.
	NativePrefix = "/ostiary/v1"
	// NativePath is the start of the native API's paths about a store.
	NativePath = NativePrefix + "/stores/"
)

// Native sends a request about a store and returns the response body.
func (a *App) Native(ctx context.Context, method, path string, in any) ([]byte, error) {
	body, err := a.NativeStream(ctx, method, path, in)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, ResponseBytesMax+1))
	if err == nil && len(text) > ResponseBytesMax {
		err = fmt.Errorf("%s: the response is larger than %d bytes", path, ResponseBytesMax)
	}
	return text, err
}

// NativeStream is like native but returns the body as a stream, which the caller
// closes.
func (a *App) NativeStream(ctx context.Context, method, path string, in any) (io.ReadCloser, error) {
	return a.stream(ctx, method, NativePath, path, in)
}

// OpenFGA sends a request about a store in OpenFGA's API and reads the whole
// response.
func (a *App) OpenFGA(ctx context.Context, method, path string, in any) error {
	body, err := a.stream(ctx, method, "/stores/", path, in)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, body)
	return errors.Join(err, body.Close())
}

// stream sends a request to a path that begins with prefix and the store's id. It
// returns the response body, which the caller closes.
func (a *App) stream(ctx context.Context, method, prefix, path string, in any) (io.ReadCloser, error) {
	if r := a.Remote(); r != nil {
		s, err := r.Find(ctx, a.Store)
		if err != nil {
			return nil, err
		}
		if err := r.requireRevision(ctx, s.ID, in); err != nil {
			return nil, err
		}
		resp, err := r.Send(ctx, method, prefix+s.ID+path, in)
		if err != nil {
			return nil, NativeMissing(err)
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
		err := a.WithNamed(ctx, nil, func(e *ostiary.Engine, s *ostiary.Store) error {
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
	refused := &RemoteError{Status: response.status}
	text, err := io.ReadAll(reader)
	if err == nil {
		err = json.Unmarshal(text, refused)
	}
	return nil, errors.Join(err, &folderError{refused})
}

// NativeMissing explains the error of a server without the native API. It returns
// other errors unchanged.
func NativeMissing(err error) error {
	if IsForeign(err) {
		return fmt.Errorf("this needs the native API, which only ostiary serve has: %w", err)
	}
	return err
}

// IsForeign reports whether err is the response of a server without the native API
// to a request for it.
func IsForeign(err error) bool {
	refused, ok := errors.AsType[*RemoteError](err)
	return ok && refused.Status == http.StatusNotFound && slices.Contains([]string{"", "undefined_endpoint", "error"}, refused.Code)
}

// folderError is an error response of the native door on the folder's engine.
type folderError struct{ *RemoteError }

func (e *folderError) Error() string { return e.Message }
func (e *folderError) Unwrap() error { return e.RemoteError }

// serveLocal serves a request with the native door or the OpenFGA door over e.
func serveLocal(e *ostiary.Engine, w http.ResponseWriter, r *http.Request) error {
	var d *door.Door
	var err error
	if strings.HasPrefix(r.URL.Path, NativePrefix) {
		d, err = native.New(e, native.Options{Dialects: Dialects()})
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

// PrintNative prints a response of the native API: unchanged with --json.
// Otherwise it decodes the response into out and calls human.
func (a *App) PrintNative(text []byte, out any, human func(io.Writer)) error {
	if a.JSON {
		_, err := a.Out.Write(append(bytes.TrimSpace(text), '\n'))
		return err
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("the response is not valid in the native API: %w", err)
	}
	return a.Print(nil, human)
}

func OneTuple(t rel.Tuple) []rel.Tuple { return []rel.Tuple{t} }

func NativeTuples(tuples []rel.Tuple) []map[string]any {
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

// NativeAt parses a revision, a time or a token, the value of a flag, into the native
// API's form. It returns nil, the newest revision, for the empty string.
func NativeAt(flag, s string) (map[string]any, error) {
	if s == "" {
		return nil, nil
	}
	if _, err := ParseAt(flag, s); err != nil {
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

// ParseAt parses a revision, a time (RFC 3339) or a token, the value of a flag. The
// empty string is the newest revision.
func ParseAt(flag, s string) (ostiary.Consistency, error) {
	if s == "" {
		return ostiary.MinimizeLatency(), nil
	}
	if n, err := strconv.ParseUint(s, 10, 64); err == nil {
		return ostiary.AtRevision(storage.Revision(n)), nil
	}
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		if t.After(time.Now()) {
			return ostiary.Consistency{}, fmt.Errorf("%w: invalid %s %q: the time is in the future", ErrUsage, flag, s)
		}
		return ostiary.AtTime(t), nil
	}
	token := ostiary.Token(s)
	if _, err := token.Revision(); err != nil {
		return ostiary.Consistency{}, fmt.Errorf("%w: invalid %s %q: expected a revision, a time (RFC 3339) or a token", ErrUsage, flag, s)
	}
	return ostiary.AtExactly(token), nil
}

// requireRevision fails with [ostiary.ErrFuture] if the request in is about a
// revision that the store does not have yet. The server would wait for it until
// the request times out.
func (r *Remote) requireRevision(ctx context.Context, store string, in any) error {
	body, _ := in.(map[string]any)
	number := json.Number("")
	for _, member := range [...]string{"at", "from", "to"} {
		at, _ := body[member].(map[string]any)
		if asked, ok := at["revision"].(json.Number); ok && isLater(asked, number) {
			number = asked
		}
	}
	if number == "" {
		return nil
	}
	var now struct{ Revision uint64 }
	if _, err := r.Call(ctx, http.MethodGet, NativePath+store, nil, &now); err != nil {
		return NativeMissing(err)
	}
	if isLater(number, json.Number(strconv.FormatUint(now.Revision, 10))) {
		return &ostiary.Error{Op: "query", Kind: ostiary.ErrFuture, Err: fmt.Errorf("%w: revision %s, the newest is %d", ostiary.ErrFuture, number, now.Revision)}
	}
	return nil
}

// isLater reports whether a revision is later than another one. "" is earlier than
// every revision.
func isLater(a, b json.Number) bool {
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) > 0
}
