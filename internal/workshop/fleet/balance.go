//go:build linux

package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"sync"
	"sync/atomic"
	"time"
)

// Balancer is a reverse proxy that sends each request to the next one of some servers,
// also if the requests come over one connection: HTTP/1, or HTTP/2 without TLS, as gRPC
// uses it. A request goes to another server only if there is no connection to the first
// one. It implements [http.Handler].
type Balancer struct {
	proxy  httputil.ReverseProxy
	to     []*behind
	next   atomic.Uint64
	direct http.RoundTripper
	server *http.Server
}

// behind is a server behind a balancer.
type behind struct {
	address string
	out     atomic.Bool  // it gets no requests
	busy    atomic.Int64 // requests that are under way
}

// NewBalancer returns a proxy for servers with these addresses. With rpc it sends HTTP/2.
func NewBalancer(to []string, rpc bool) *Balancer {
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64, Protocols: &http.Protocols{}}
	transport.Protocols.SetHTTP1(!rpc)
	transport.Protocols.SetUnencryptedHTTP2(rpc)
	b := &Balancer{direct: transport}
	for _, address := range to {
		b.to = append(b.to, &behind{address: address})
	}
	b.proxy = httputil.ReverseProxy{FlushInterval: -1, Transport: b, Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host = "http", to[0]
	}}
	return b
}

// trail makes trailers of the status of a gRPC call that is in the header of a response,
// which has no body then: the proxy may send the header before it ends the response, and
// clients expect the status in trailers then.
func trail(r *http.Response) {
	if r.Header.Get("Grpc-Status") == "" {
		return
	}
	r.Header.Del("Content-Length")
	r.Trailer = http.Header{}
	for _, name := range []string{"Grpc-Status", "Grpc-Message", "Grpc-Status-Details-Bin"} {
		if values := r.Header.Values(name); values != nil {
			r.Trailer[name] = values
			r.Header.Del(name)
		}
	}
}

// ServeHTTP implements [http.Handler].
func (b *Balancer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// Without it the server ends the body of the request when the header of the response is
	// written. The transport, which looks for the end of that body after its last byte, then
	// closes the connection in the middle of a response that came early.
	c := http.NewResponseController(w)
	_ = c.EnableFullDuplex()
	b.proxy.ServeHTTP(w, r)
	// The end of the request may still be on its way. Without it the server resets the stream
	// after the response, which grpc-js now and then takes for the outcome.
	_ = c.SetReadDeadline(time.Now().Add(restTime))
	_, _ = io.Copy(io.Discard, r.Body)
}

// restTime is how long the proxy waits for the end of a request after its response.
const restTime = time.Second

// RoundTrip implements [http.RoundTripper].
func (b *Balancer) RoundTrip(r *http.Request) (response *http.Response, err error) {
	first := int(b.next.Add(1))
	for i := range b.to {
		to := b.to[(first+i)%len(b.to)]
		to.busy.Add(1)
		if to.out.Load() {
			to.busy.Add(-1)
			continue
		}
		r := r.Clone(r.Context())
		r.URL.Host = to.address
		if r.Body != nil && r.Body != http.NoBody {
			r.Body = io.NopCloser(r.Body) // without a connection it is not read
		}
		if response, err = b.direct.RoundTrip(r); err == nil {
			trail(response)
			response.Body = &counted{ReadCloser: response.Body, to: to}
			return response, nil
		}
		to.busy.Add(-1)
		if dial, ok := errors.AsType[*net.OpError](err); !ok || dial.Op != "dial" {
			return nil, err
		}
	}
	return nil, fmt.Errorf("no server answers: %w", err)
}

// counted is the body of a response. Its request is under way until it is closed.
type counted struct {
	io.ReadCloser
	to   *behind
	once sync.Once
}

// Close implements [io.Closer].
func (c *counted) Close() error {
	c.once.Do(func() { c.to.busy.Add(-1) })
	return c.ReadCloser.Close()
}

// takeOut sends no more requests to a server, and waits until those that are under way
// have ended, or ctx has.
func (b *Balancer) takeOut(ctx context.Context, server int) {
	to := b.to[server]
	to.out.Store(true)
	for to.busy.Load() > 0 && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
}

func (b *Balancer) putBack(server int) { b.to[server].out.Store(false) }

// Listen serves the proxy on an address, until Close, and returns the address.
func (b *Balancer) Listen(address string) (string, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return "", err
	}
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	b.server = &http.Server{Handler: b, Protocols: protocols}
	go func() { _ = b.server.Serve(l) }()
	return l.Addr().String(), nil
}

// Close ends what Listen has begun, once the requests that are under way have ended or
// ctx has.
func (b *Balancer) Close(ctx context.Context) error {
	if b.server == nil {
		return nil
	}
	return errors.Join(b.server.Shutdown(ctx), b.server.Close())
}
