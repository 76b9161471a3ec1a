package serve

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/ostiary/ostiary/internal/trail/traces"
	"github.com/ostiary/ostiary/server"
)

// processorTime returns the time that this process has used.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkTraces compares a check without traces to one with 1 % and with all of them, over HTTP
// and gRPC: the processor time of client and server together, in turns. The goal is at most 1 µs
// more at 1 %.
func BenchmarkTraces(b *testing.B) {
	for _, rpc := range []string{"http", "grpc"} {
		b.Run(rpc, func(b *testing.B) {
			quiet := startTracing(b, false, false, "TRACES_SAMPLER=parentbased_traceidratio", "TRACES_SAMPLER_ARG=0.01")
			all := startTracing(b, false, false, "TRACES_SAMPLER=always_on", "BSP_MAX_QUEUE_SIZE=100000")
			var asks []func()
			for _, x := range []*tracing{nil, quiet, all} {
				off := x == nil
				if off {
					x = quiet
				}
				asks = append(asks, costOf(b, startTraced(b, x, func(o *server.Options) {
					if off {
						o.Tracer = nil
					}
				}), rpc == "grpc"))
			}
			const part = 300
			took := make([][]float64, len(asks)) // of each part, in microseconds for each request
			measure := func(keep bool) {
				for i, ask := range asks {
					before := processorTime(b)
					for range part {
						ask()
					}
					if keep {
						took[i] = append(took[i], float64((processorTime(b)-before).Nanoseconds())/1000/part)
					}
				}
			}
			measure(false)
			for b.Loop() {
				measure(true)
			}
			more := func(i int) float64 {
				differences := make([]float64, len(took[i]))
				for n := range differences {
					differences[n] = took[i][n] - took[0][n]
				}
				return median(differences)
			}
			b.ReportMetric(median(took[0]), "µs-off")
			b.ReportMetric(more(1), "µs-more-at-1%")
			b.ReportMetric(more(2), "µs-more-at-100%")
			b.ReportMetric(0, "ns/op")
			b.Logf("%s: %.1f µs off, %+.2f at 1 %%, %+.2f at 100 %%; ratios %.3f and %.3f", rpc, median(took[0]), more(1), more(2), (median(took[0])+more(1))/median(took[0]), (median(took[0])+more(2))/median(took[0]))
		})
	}
}

func median(all []float64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}

// costOf returns a function that asks a question.
func costOf(b *testing.B, s *tracedServer, rpc bool) func() {
	if !rpc {
		client := &http.Client{Transport: &http.Transport{}}
		return func() {
			r, err := http.NewRequest("POST", s.http+"/stores/"+s.store+"/check", strings.NewReader(tracedCheck))
			if err != nil {
				b.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+walkerKey)
			r.Header.Set("Content-Type", "application/json")
			response, err := client.Do(r)
			if err != nil {
				b.Fatal(err)
			}
			io.Copy(io.Discard, response.Body)
			response.Body.Close()
		}
	}
	conn, err := grpc.NewClient(s.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	client, ctx := openfgav1.NewOpenFGAServiceClient(conn), metadata.AppendToOutgoingContext(context.Background(), "authorization", "Bearer "+walkerKey)
	in := &openfgav1.CheckRequest{StoreId: s.store, TupleKey: &openfgav1.CheckRequestTupleKey{User: "user:anne", Relation: "viewer", Object: "doc:plan"}}
	return func() {
		if _, err := client.Check(ctx, in); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkTraceBegin decides that a request is not traced.
func BenchmarkTraceBegin(b *testing.B) {
	for _, parent := range []string{"", parentNot} {
		b.Run("parent="+parent, func(b *testing.B) {
			x := startTracing(b, false, false, "TRACES_SAMPLER=parentbased_traceidratio", "TRACES_SAMPLER_ARG=0")
			header := http.Header{}
			if parent != "" {
				header.Set("Traceparent", parent)
			}
			b.ReportAllocs()
			before := processorTime(b)
			for b.Loop() {
				if x.Begin(&traces.Request{Method: "POST", Route: "/stores/{store_id}/check", Door: "openfga", Operation: "Check", Known: true, Header: header}) != nil {
					b.Fatal("traced")
				}
			}
			b.ReportMetric(float64((processorTime(b)-before).Nanoseconds())/float64(b.N), "ns-processor/op")
		})
	}
}
