package client

import (
	"context"
	"io"
	"net/http"
)

// Handler returns a transport that passes each request to a handler in this process.
// A response begins when the handler writes it, so streams work as over a network.
// Closing the body of a response ends the handler's context, and waits until the
// handler has returned.
func Handler(h http.Handler) http.RoundTripper { return handlerTransport{h} }

type handlerTransport struct{ handler http.Handler }

// RoundTrip implements [http.RoundTripper].
func (t handlerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	r = r.Clone(ctx)
	if r.Body == nil {
		r.Body = http.NoBody
	}
	reader, writer := io.Pipe()
	w := &pipedResponse{to: writer, header: http.Header{}, begun: make(chan struct{})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		t.handler.ServeHTTP(w, r)
		w.WriteHeader(http.StatusOK)
		writer.Close()
	}()
	<-w.begun
	return &http.Response{StatusCode: w.status, Status: http.StatusText(w.status), Header: w.sent, Request: r, ContentLength: -1,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: &pipedBody{reader, cancel, done}}, nil
}

// pipedResponse is a [http.ResponseWriter] that writes the body to a pipe.
type pipedResponse struct {
	to           *io.PipeWriter
	header, sent http.Header
	begun        chan struct{} // closed once status and sent are set
	status       int
}

func (p *pipedResponse) Header() http.Header { return p.header }

// Flush does nothing: the pipe has no buffer. Streams require the method.
func (p *pipedResponse) Flush() {}

func (p *pipedResponse) WriteHeader(status int) {
	if p.status == 0 {
		p.status, p.sent = status, p.header.Clone()
		close(p.begun)
	}
}

func (p *pipedResponse) Write(b []byte) (int, error) {
	p.WriteHeader(http.StatusOK)
	return p.to.Write(b)
}

// pipedBody is the reading end of a [pipedResponse].
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
