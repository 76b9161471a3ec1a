package server

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/ostiary/ostiary/door"
)

// AnswerStarting answers on open HTTP ports while there is no [Server] for them yet, for
// example because a node waits for the others: /healthz with 200, /readyz and all else with
// 503. ports are the listeners by their names, see [Address]. On the port of metrics /readyz
// has what details returns, unless MetricsTLS is set. The options are those of the server,
// whose bounds hold. stop returns when nothing is answered any more; it leaves the listeners
// open for the server.
func AnswerStarting(o Options, ports map[string]*net.TCPListener, details func() any) (stop func()) {
	s := &Server{opts: withDefaults(o), metrics: newMetrics()}
	s.openConnections()
	s.shared = newShared(&s.opts, s.metrics, nil)
	for name, port := range ports {
		l, places, certificate, shown := &listener{name: name, shared: s.shared}, s.connections, s.opts.TLS, func() any { return nil }
		if name == nameMetrics {
			places = s.metricsConnections
			if !o.MetricsTLS {
				certificate, shown = nil, details
			}
		}
		l.secure(s.newHTTP(starting(shown)), certificate)
		// It cannot fail: the port is open.
		_ = l.listen(func(string, string) (net.Listener, error) { return lent{port}, nil }, places)
		s.listeners = append(s.listeners, l)
		s.serving.Go(func() {
			_ = l.serve() // a failure of the port shows when the server takes it
			_ = port.SetDeadline(time.Time{})
		})
	}
	return sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), startingEnd)
		defer cancel()
		for _, l := range s.listeners {
			_ = l.shutdown(ctx)
		}
		s.serving.Wait()
		s.shared.endStreams()
	})
}

// startingEnd is how long the end of AnswerStarting waits for requests that have begun.
const startingEnd = 200 * time.Millisecond

// starting returns the handler of a port that has no doors yet.
func starting(details func() any) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close") // the next request is for the server
		probe := r.Method == http.MethodGet || r.Method == http.MethodHead
		switch {
		case probe && r.URL.Path == pathHealth:
			serveHealth(w, true, nil)
		case probe && r.URL.Path == pathReady:
			serveHealth(w, false, details())
		default:
			door.SetRetryAfter(w.Header(), http.StatusServiceUnavailable)
			http.Error(w, "the server is starting", http.StatusServiceUnavailable)
		}
	})
}

// lent is a port that stays open when its borrower closes it.
type lent struct{ *net.TCPListener }

// Close ends Accept.
func (l lent) Close() error { return l.SetDeadline(time.Unix(1, 0)) }
