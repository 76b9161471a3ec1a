package server

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"time"

	"github.com/ostiary/ostiary/door"
)

// serveHealth answers GET /healthz and GET /readyz in the form that OpenFGA uses, with
// details if there are some.
func serveHealth(w http.ResponseWriter, serving bool, details any) {
	h := w.Header()
	h["Content-Type"] = []string{"application/json"}
	answer := struct {
		Status string `json:"status"`
		Node   any    `json:"node,omitempty"`
	}{"SERVING", details}
	if !serving {
		door.SetRetryAfter(h, http.StatusServiceUnavailable)
		w.WriteHeader(http.StatusServiceUnavailable)
		answer.Status = "NOT_SERVING"
	}
	text, _ := json.Marshal(answer) // plain values
	w.Write(text)
}

// withHealth returns the handler of the port of metrics, which also serves health: it
// has connections of its own, so clients of the other ports cannot keep out a probe.
func (s *Server) withHealth(exposition http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", exposition)
	mux.HandleFunc("GET "+pathHealth, func(w http.ResponseWriter, _ *http.Request) { serveHealth(w, s.shared.healthy(), nil) })
	mux.HandleFunc("GET "+pathReady, func(w http.ResponseWriter, r *http.Request) {
		var details any
		if readiness := s.shared.readiness; readiness != nil && (!s.opts.MetricsTLS || s.refuseMetrics(r) == nil) {
			_, details = readiness()
		}
		serveHealth(w, s.shared.ready(), details)
	})
	return mux
}

// healthy reports whether the server works and is not stopping. It calls
// Options.Probe, so that a failure shows before [Server.Wait] probes again.
func (s *shared) healthy() bool {
	return !s.draining.Load() && s.failure.Load() == nil && (s.probe == nil || s.probe() == nil)
}

// ready reports whether the server is healthy, Options.Preload is done and
// Options.Readiness reports true.
func (s *shared) ready() bool {
	ok := s.loaded.Load() && s.healthy()
	if ok && s.readiness != nil {
		ok, _ = s.readiness()
	}
	return ok
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
