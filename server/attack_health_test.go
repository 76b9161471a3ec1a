package server_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// endedWatches opens 40,000 watches of gRPC's health, each of another name of 16 KB,
// without a key, and ends each at once.
func (v *victim) endedWatches(t *testing.T) string {
	const watches, workers = 40_000, 20
	var next, begun, refused atomic.Int64
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			conn, err := grpc.NewClient(v.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			client, name := healthpb.NewHealthClient(conn), strings.Repeat("x", 16_000)
			for i := next.Add(1); i <= watches && t.Context().Err() == nil; i = next.Add(1) {
				ctx, cancel := context.WithCancel(t.Context())
				stream, err := client.Watch(ctx, &healthpb.HealthCheckRequest{Service: fmt.Sprint(name, i)})
				if err == nil {
					_, err = stream.Recv()
				}
				if begun.Add(1); err != nil {
					refused.Add(1)
				}
				cancel()
			}
		})
	}
	all.Wait()
	return fmt.Sprintf("%d watches, %d refused", begun.Load(), refused.Load())
}
