package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"google.golang.org/grpc"

	"github.com/ostiary/ostiary/server/internal/conn"
)

// nameMetrics is the name of the port of metrics, as in [Address].Name.
const nameMetrics = "metrics"

// listener is one port with the server behind it: either http or grpc is set.
type listener struct {
	name    string // as in Address.Name
	address string // as in Options
	http    *http.Server
	grpc    *grpc.Server
	// handler is http's handler, or nil on the metrics port.
	handler *handler
	// tls is the certificate of an HTTP port, or nil for plain text. grpc-go does
	// TLS itself, with the certificate that it was made with.
	tls    *Certificate
	shared *shared
	net    net.Listener // nil until listen
}

// Listen opens a TCP port. 0.0.0.0 means only the IPv4 addresses of this machine,
// unlike in [net.Listen]; [::] and an empty host mean all addresses.
func Listen(address string) (net.Listener, error) {
	if host, _, _ := net.SplitHostPort(address); host == "0.0.0.0" {
		return net.Listen("tcp4", address)
	}
	return net.Listen("tcp", address)
}

// secure sets the server of an HTTP port, and its certificate unless that is nil.
func (l *listener) secure(h *http.Server, c *Certificate) {
	if l.http, l.tls = h, c; c != nil {
		h.Protocols = &http.Protocols{} // see secured
		h.Protocols.SetHTTP1(true)
		h.Protocols.SetUnencryptedHTTP2(true)
	}
}

// listen opens the port.
func (l *listener) listen(open func(name, address string) (net.Listener, error), c *conn.Connections) error {
	var err error
	if l.net, err = open(l.name, l.address); err != nil {
		return fmt.Errorf("%s: %w", l.name, err)
	}
	l.net = c.Listener(l.net, l.http != nil)
	if l.tls != nil {
		l.net = l.tls.listener(l.net, l.shared)
	}
	return nil
}

// serve accepts connections until the listener is shut down; then it returns
// nil.
func (l *listener) serve() error {
	var err error
	if l.grpc != nil {
		err = l.grpc.Serve(l.net)
	} else {
		err = l.http.Serve(l.net)
	}
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, grpc.ErrServerStopped) {
		return nil
	}
	return err
}

// shutdown closes the port and waits for the requests in flight. If ctx ends
// first, it cuts them off and returns [ErrStopped].
func (l *listener) shutdown(ctx context.Context) error {
	if l.grpc == nil {
		// Another error means that the port is closed already.
		if err := l.http.Shutdown(ctx); err != nil && errors.Is(err, ctx.Err()) {
			l.http.Close()
			return ErrStopped
		}
		return nil
	}
	stop := context.AfterFunc(ctx, l.grpc.Stop)
	l.grpc.GracefulStop()
	if !stop() { // the time was up
		return ErrStopped
	}
	return nil
}

// ErrStopped is returned by [Server.Stop] if requests were cut off because
// Options.StopTimeout passed.
var ErrStopped = errors.New("stopped before all requests were answered")
