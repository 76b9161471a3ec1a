package server

import (
	"encoding/json"
	"net/http"

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

// The paths of health on every HTTP port.
const (
	pathHealth = "/healthz" // whether the process works
	pathReady  = "/readyz"  // whether it works and Options.Preload is done
)
