package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/native"
	"github.com/ostiary/ostiary/rel"
)

// Some commands speak the native API: to a server, or to the folder's own
// engine, without a network between. So both say the same.

// nativePath is what stands before every path of that API.
const nativePath = "/ostiary/v1/stores/"

// native sends a request about a store and returns the answer's text.
func (a *app) native(ctx context.Context, method, path string, in any) ([]byte, error) {
	body, err := a.nativeStream(ctx, method, path, in)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, answerBytesMax+1))
	if err == nil && len(text) > answerBytesMax {
		err = fmt.Errorf("%s: the answer is larger than %d bytes", path, answerBytesMax)
	}
	return text, err
}

// nativeStream is native for an answer that may last. The caller closes it.
func (a *app) nativeStream(ctx context.Context, method, path string, in any) (io.ReadCloser, error) {
	if r := a.remote(); r != nil {
		s, err := r.find(ctx, a.store)
		if err != nil {
			return nil, err
		}
		resp, err := r.send(ctx, method, nativePath+s.ID+path, in)
		if err != nil {
			return nil, err
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
	answer := &pipedAnswer{to: writer, header: http.Header{}, begun: make(chan struct{})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := a.named(ctx, nil, func(e *ostiary.Engine, s *ostiary.Store) error {
			req, err := http.NewRequestWithContext(ctx, method, nativePath+s.ID().String()+path, body)
			if err != nil {
				return err
			}
			return serveNative(e, answer, req)
		})
		answer.end(err)
	}()
	<-answer.begun
	out := &pipedBody{reader, cancel, done}
	if answer.status < 300 {
		return out, nil
	}
	defer out.Close()
	if answer.err != nil {
		return nil, answer.err
	}
	refused := &remoteError{Status: answer.status}
	text, err := io.ReadAll(reader)
	if err == nil {
		err = json.Unmarshal(text, refused)
	}
	return nil, errors.Join(err, &folderError{refused})
}

// folderError is a refusal by the folder's own engine.
type folderError struct{ *remoteError }

func (e *folderError) Error() string { return e.Message }

// serveNative answers a request by the native door over e.
func serveNative(e *ostiary.Engine, w http.ResponseWriter, r *http.Request) error {
	d, err := native.New(e, native.Options{Dialects: dialects()})
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

// pipedAnswer hands a door's answer over as it comes.
type pipedAnswer struct {
	to     *io.PipeWriter
	header http.Header
	begun  chan struct{} // closed when the status is known
	status int
	err    error
}

func (p *pipedAnswer) Header() http.Header { return p.header }

// Flush lets a stream be written; there is nothing that it would wait in.
func (p *pipedAnswer) Flush() {}

func (p *pipedAnswer) WriteHeader(status int) {
	if p.status == 0 {
		p.status = status
		close(p.begun)
	}
}

func (p *pipedAnswer) Write(b []byte) (int, error) {
	p.WriteHeader(http.StatusOK)
	return p.to.Write(b)
}

// end ends the answer; err is why there is none.
func (p *pipedAnswer) end(err error) {
	if p.status == 0 && err != nil {
		p.err = err
		p.WriteHeader(http.StatusInternalServerError)
	}
	p.WriteHeader(http.StatusOK)
	p.to.CloseWithError(err)
}

// pipedBody is the other end; Close waits until the folder is closed.
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

// printNative prints an answer: its text with --json, else what human makes of
// it, once it is read into out.
func (a *app) printNative(text []byte, out any, human func(io.Writer)) error {
	if a.json {
		_, err := a.out.Write(append(bytes.TrimSpace(text), '\n'))
		return err
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("the answer is not what the native API has: %w", err)
	}
	return a.print(nil, human)
}

// nativeQuestion is what the flags of a question say, in the native API's words.
func (f *askFlags) nativeQuestion(in map[string]any) (map[string]any, error) {
	ask, err := f.ask()
	if err != nil {
		return nil, err
	}
	if at, err := nativeAt(f.at); err != nil {
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
		out = append(out, m)
	}
	return out
}

// nativeAt reads a revision, a time or a token; nil is the newest revision.
func nativeAt(s string) (map[string]any, error) {
	if s == "" {
		return nil, nil
	}
	if _, err := parseAt(s); err != nil {
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
