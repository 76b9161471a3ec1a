package server

import (
	"net/http"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// serveHealth answers GET /healthz on every HTTP port, in the form that OpenFGA
// uses.
func (s *shared) serveHealth(w http.ResponseWriter) {
	h := w.Header()
	h["Content-Type"] = []string{"application/json"}
	if !s.healthy() {
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
