package server

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/ostiary/ostiary/server/internal/conn"
)

// Server is a set of ports and the doors on them. Make one with [New]. Its
// methods may be called concurrently.
type Server struct {
	opts    Options
	shared  *shared
	metrics *metrics
	health  *healthService
	// doors are all doors by their names, and methods their unary gRPC methods by their full
	// names, for requests that other nodes forward.
	doors   map[string]*servedDoor
	methods map[string]*forwardedMethod
	// listeners are all ports: those of Options.ports in their order, then the
	// metrics port.
	listeners   []*listener
	connections *conn.Connections
	// metricsConnections are those of the metrics port, which clients of the other
	// ports cannot take.
	metricsConnections *conn.Connections
	serving            sync.WaitGroup // the goroutines that serve the listeners
	failed             chan error     // the first error of a listener
	stopPreload        context.CancelFunc
	stopOnce           sync.Once
	stopErr            error // the result of Stop
}

// Start listens on all ports and serves them in goroutines, which [Server.Stop]
// ends. If it returns an error, no port is left open. It is called once.
func (s *Server) Start() error {
	for i, l := range s.listeners {
		places := s.connections
		if l.name == nameMetrics {
			places = s.metricsConnections
		}
		if err := l.listen(s.opts.Listen, places); err != nil {
			for _, open := range s.listeners[:i] {
				open.net.Close()
			}
			s.shared.endStreams()
			return err
		}
	}
	for _, l := range s.listeners {
		s.serving.Go(func() {
			if err := l.serve(); err != nil && s.shared.stopping.Err() == nil {
				s.fail(err)
			}
		})
	}
	s.preload()
	return nil
}

// fail makes [Server.Wait] return err. Only the first error counts.
func (s *Server) fail(err error) {
	select {
	case s.failed <- err:
	default:
	}
}

// Addresses returns where the server listens. It is called after [Server.Start].
func (s *Server) Addresses() []Address {
	var out []Address
	for _, l := range s.listeners {
		out = append(out, Address{l.name, l.net.Addr()})
	}
	return out
}

// Handler returns the handler of the shared HTTP port, or of the first dedicated
// one, or nil if there is no HTTP port. It is for tests without a network.
func (s *Server) Handler() http.Handler {
	for _, l := range s.listeners {
		if l.handler != nil {
			return l.handler
		}
	}
	return nil
}

// preload runs Options.Preload in a goroutine, and reports the server as ready
// when it is done.
func (s *Server) preload() {
	if s.opts.Preload == nil {
		s.shared.loaded.Store(true)
		s.health.set(true)
		return
	}
	s.health.set(false)
	var ctx context.Context
	ctx, s.stopPreload = context.WithCancel(context.Background())
	s.serving.Go(func() {
		start := time.Now()
		s.opts.Preload(ctx)
		if ctx.Err() != nil {
			return
		}
		s.shared.loaded.Store(true)
		s.health.set(s.shared.healthy())
		s.opts.Log.LogAttrs(context.Background(), slog.LevelInfo, "ready", millis(time.Since(start)))
	})
}
