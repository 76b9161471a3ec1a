package server

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// healthService is gRPC's health service of all ports. All services have one status.
// It keeps nothing for a call: callers without a key reach it. The health server of
// grpc-go keeps each name that a watch has named, also after the watch has ended.
//
// Its methods may be called concurrently, but names must not change while a port is
// served.
type healthService struct {
	healthpb.UnimplementedHealthServer
	names map[string]struct{} // of the services; "" is the whole server

	mu      sync.Mutex
	status  healthpb.HealthCheckResponse_ServingStatus
	ended   bool          // the status changes no more
	changed chan struct{} // closed and replaced when the status changes
}

func newHealthService() *healthService {
	return &healthService{names: map[string]struct{}{"": {}}, status: healthpb.HealthCheckResponse_NOT_SERVING, changed: make(chan struct{})}
}

// register adds the services of a port.
func (h *healthService) register(services map[string]grpc.ServiceInfo) {
	for name := range services {
		h.names[name] = struct{}{}
	}
}

// set sets the status, unless end was called.
func (h *healthService) set(serving bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return
	}
	h.status = healthpb.HealthCheckResponse_NOT_SERVING
	if serving {
		h.status = healthpb.HealthCheckResponse_SERVING
	}
	close(h.changed)
	h.changed = make(chan struct{})
}

// end sets the status to NOT_SERVING until the process ends.
func (h *healthService) end() {
	h.set(false)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = true
}

// current returns the status, and a channel that is closed when it changes.
func (h *healthService) current() (healthpb.HealthCheckResponse_ServingStatus, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.status, h.changed
}

// known returns an error with the code NotFound for a name without a service.
func (h *healthService) known(name string) error {
	if _, known := h.names[name]; !known {
		return status.Error(codes.NotFound, "unknown service")
	}
	return nil
}

// Check returns the status of a service. It returns NotFound for an unknown one.
func (h *healthService) Check(_ context.Context, in *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	if err := h.known(in.Service); err != nil {
		return nil, err
	}
	now, _ := h.current()
	return &healthpb.HealthCheckResponse{Status: now}, nil
}

// List returns the status of each service.
func (h *healthService) List(context.Context, *healthpb.HealthListRequest) (*healthpb.HealthListResponse, error) {
	now, _ := h.current()
	out := &healthpb.HealthListResponse{Statuses: make(map[string]*healthpb.HealthCheckResponse, len(h.names))}
	for name := range h.names {
		out.Statuses[name] = &healthpb.HealthCheckResponse{Status: now}
	}
	return out, nil
}

// Watch sends the status of a service, and each further status, until the stream ends.
// It returns NotFound for an unknown service: none is added later.
func (h *healthService) Watch(in *healthpb.HealthCheckRequest, stream healthpb.Health_WatchServer) error {
	if err := h.known(in.Service); err != nil {
		return err
	}
	for sent := healthpb.HealthCheckResponse_UNKNOWN; ; {
		now, changed := h.current()
		if now != sent {
			if err := stream.Send(&healthpb.HealthCheckResponse{Status: now}); err != nil {
				return err
			}
			sent = now
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return status.Error(codes.Canceled, "Stream has ended.")
		}
	}
}
