package server

import (
	"context"
	"net/http"
	"time"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/ostiary/ostiary/door"
)

// serveHealth answers GET /healthz and GET /readyz in the form that OpenFGA uses.
func serveHealth(w http.ResponseWriter, serving bool) {
	h := w.Header()
	h["Content-Type"] = []string{"application/json"}
	if !serving {
		door.SetRetryAfter(h)
		w.WriteHeader(http.StatusServiceUnavailable)
		w.Write([]byte(`{"status":"NOT_SERVING"}`))
		return
	}
	w.Write([]byte(`{"status":"SERVING"}`))
}

// healthy reports whether the server works and is not stopping. It calls
// Options.Probe, so that a failure shows before [Server.Wait] probes again.
func (s *shared) healthy() bool {
	return !s.draining.Load() && s.failure.Load() == nil && (s.probe == nil || s.probe() == nil)
}

// ready reports whether the server is healthy and Options.Preload is done.
func (s *shared) ready() bool { return s.loaded.Load() && s.healthy() }

// preload runs Options.Preload in a goroutine, and reports the server as ready
// when it is done.
func (s *Server) preload() {
	if s.opts.Preload == nil {
		s.shared.loaded.Store(true)
		s.setServing(true)
		return
	}
	s.setServing(false)
	var ctx context.Context
	ctx, s.stopPreload = context.WithCancel(context.Background())
	s.serving.Go(func() {
		start := time.Now()
		s.opts.Preload(ctx)
		if ctx.Err() != nil {
			return
		}
		s.shared.loaded.Store(true)
		s.setServing(s.shared.healthy())
		s.opts.Log.Info("ready", "after", time.Since(start).Round(time.Millisecond))
	})
}

// setServing sets the status of gRPC's health service, for the whole server and
// for each service.
func (s *Server) setServing(serving bool) {
	status := healthpb.HealthCheckResponse_NOT_SERVING
	if serving {
		status = healthpb.HealthCheckResponse_SERVING
	}
	s.health.SetServingStatus("", status)
	for _, l := range s.listeners {
		if l.grpc == nil {
			continue
		}
		for name := range l.grpc.GetServiceInfo() {
			s.health.SetServingStatus(name, status)
		}
	}
}
