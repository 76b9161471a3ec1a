package server

import (
	"net/http"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// sayHealth answers GET /healthz as OpenFGA and its kin do, on every HTTP port.
func (g *gate) sayHealth(w http.ResponseWriter) {
	h := w.Header()
	h["Content-Type"] = []string{"application/json"}
	if !g.healthy() {
		w.WriteHeader(http.StatusServiceUnavailable)
		w.Write([]byte(`{"status":"NOT_SERVING"}`))
		return
	}
	w.Write([]byte(`{"status":"SERVING"}`))
}

// healthy says whether the server does its work. What fails is seen here before
// Wait looks again.
func (g *gate) healthy() bool {
	return !g.draining.Load() && g.failure.Load() == nil && (g.probe == nil || g.probe() == nil)
}

// setServing tells gRPC's health service for the whole server and each service.
func (s *Server) setServing(serving bool) {
	status := healthpb.HealthCheckResponse_NOT_SERVING
	if serving {
		status = healthpb.HealthCheckResponse_SERVING
	}
	s.health.SetServingStatus("", status)
	for _, server := range s.rpcs {
		for name := range server.GetServiceInfo() {
			s.health.SetServingStatus(name, status)
		}
	}
}
