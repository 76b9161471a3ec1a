package bench_test

import (
	"context"
	"net"
	"testing"

	"github.com/ostiary/ostiary/internal/workshop/bench"
)

// TestFloorGRPC measures a server over gRPC and its floor in the same cells.
func TestFloorGRPC(t *testing.T) {
	t.Parallel()
	target := serveRPC(t, memory(t))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	floor := bench.NewGRPCFloor()
	go floor.Serve(l)
	t.Cleanup(floor.Stop)
	nothing, err := bench.NewFloorGRPC(l.Addr().String(), target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nothing.Close() })
	got := map[string]int{}
	r := &bench.Runner{Sides: []bench.Side{{Peer: "ostiary", Target: target}, {Peer: "floor", Target: nothing}}, Emit: func(r bench.Record) error {
		got[r.Peer]++
		if r.Failed() != 0 || r.N == 0 {
			t.Errorf("%s, %s: %d good, failures %v, %s", r.Peer, r.Cell, r.N, r.Failures, r.Notes)
		}
		return nil
	}}
	if err := r.OpenFGA(context.Background(), bench.OpenFGAOptions{Size: bench.SizeMinOpenFGA, Load: bench.Load{Clients: 1, Requests: 3, Duration: -1}}); err != nil {
		t.Fatal(err)
	}
	if got["ostiary"] < 10 || got["ostiary"] != got["floor"] {
		t.Errorf("%v records, expected as many of both", got)
	}
}
