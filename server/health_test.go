package server_test

import (
	"context"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/ostiary/ostiary/server"
)

// TestHealthKeepsNothing watches the health of services that do not exist, without
// a key. Each watch is refused, and the memory of the names is free afterwards.
func TestHealthKeepsNothing(t *testing.T) {
	r := start(t, server.Options{Keys: keys(t, server.Key{Secret: "k"})})
	h := healthpb.NewHealthClient(r.dial(t))
	long := strings.Repeat("x", 16_000)
	watch := func(from, to int) {
		for i := from; i < to; i++ {
			stream, err := h.Watch(t.Context(), &healthpb.HealthCheckRequest{Service: long + strconv.Itoa(i)})
			if err == nil {
				_, err = stream.Recv()
			}
			if status.Code(err) != codes.NotFound {
				t.Fatalf("watch %d of an unknown service: %v, expected NotFound", i, err)
			}
		}
	}
	live := func() int {
		var stats runtime.MemStats
		runtime.GC()
		runtime.GC() // the first one moves what pools hold to their second generation
		runtime.ReadMemStats(&stats)
		return int(stats.HeapAlloc)
	}
	const watches = 2000
	watch(0, 100)
	before := live()
	watch(100, 100+watches)
	if grown := live() - before; grown > watches*len(long)/4 {
		t.Errorf("%d watches of names of %d bytes have left %d bytes", watches, len(long), grown)
	}
}

// TestHealthWatch checks that a watch of health without a key gets each change of the
// status, for the server and for each of its services.
func TestHealthWatch(t *testing.T) {
	t.Parallel()
	loaded := make(chan struct{})
	r := start(t, server.Options{Keys: keys(t, server.Key{Secret: "k"}), Preload: waitFor(loaded)})
	var watches []healthpb.Health_WatchClient
	for _, service := range []string{"", "test.Echo", "grpc.health.v1.Health"} {
		watch, err := healthpb.NewHealthClient(r.dial(t)).Watch(t.Context(), &healthpb.HealthCheckRequest{Service: service})
		if err != nil {
			t.Fatal(err)
		}
		watches = append(watches, watch)
	}
	expect := func(want healthpb.HealthCheckResponse_ServingStatus) {
		t.Helper()
		for i, watch := range watches {
			if got, err := watch.Recv(); err != nil || got.Status != want {
				t.Fatalf("watch %d: %v, %v, expected %v", i, got, err, want)
			}
		}
	}
	expect(healthpb.HealthCheckResponse_NOT_SERVING)
	close(loaded)
	expect(healthpb.HealthCheckResponse_SERVING)
	stopped := make(chan error, 1)
	go func() { stopped <- r.stop() }()
	expect(healthpb.HealthCheckResponse_NOT_SERVING)
	list, err := healthpb.NewHealthClient(r.dial(t)).List(t.Context(), &healthpb.HealthListRequest{})
	if err == nil && len(list.Statuses) != 5 {
		t.Errorf("%d services are listed, expected 5", len(list.Statuses))
	}
	for i, watch := range watches {
		if got, err := watch.Recv(); err == nil {
			t.Errorf("watch %d gets %v after the stop", i, got)
		}
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// waitFor returns a function for Options.Preload that ends when done is closed.
func waitFor(done <-chan struct{}) func(context.Context) {
	return func(ctx context.Context) {
		select {
		case <-done:
		case <-ctx.Done():
		}
	}
}
