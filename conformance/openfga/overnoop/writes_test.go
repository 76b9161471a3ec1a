package overnoop

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ostiary/ostiary/conformance/openfga/servers"
	"github.com/ostiary/ostiary/internal/workshop/bench"
	"github.com/ostiary/ostiary/rel"
)

// writers is how many clients write at once, each with one request under way.
const writers = 64

// TestDurableWrites lets 64 clients write to a data folder, fsync on: single
// tuples, and a hundred a request. OSTIARY_PAIRS and OSTIARY_SECONDS are as in
// TestOverNoop.
func TestDurableWrites(t *testing.T) {
	pairs, seconds := int(number(t, "OSTIARY_PAIRS", 1)), number(t, "OSTIARY_SECONDS", 0.2)
	s := servers.Ours(t, "--data", filepath.Join(t.TempDir(), "data"))
	target, err := bench.NewHTTP(s.URL(""), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = target.Close() })
	model, tuples := bench.WorldOpenFGA(4_000)
	if err := target.Setup(t.Context(), model, tuples, func(int) {}); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 100} {
		ask := written(t, target, n)
		var rates []float64
		for range pairs {
			result, err := bench.Load{Clients: writers, Duration: time.Duration(seconds * float64(time.Second))}.Run(t.Context(), ask)
			if err != nil {
				t.Fatal(err)
			}
			if len(result.Failures) > 0 {
				t.Fatalf("%v: %v", result.Failures, result.FirstFailure)
			}
			rates = append(rates, float64(result.N*n)/result.Elapsed.Seconds())
		}
		slices.Sort(rates)
		t.Logf("writes of %d: %.0f [%.0f–%.0f] tuples/s", n, rates[len(rates)/2], rates[0], rates[len(rates)-1])
	}
}

// written adds and removes n tuples of each client in turn.
func written(t *testing.T, target *bench.HTTP, n int) bench.Send {
	t.Helper()
	var turns [writers][2]bench.Prepared
	for client := range turns {
		tuples := make([]rel.Tuple, n)
		for i := range tuples {
			tuples[i] = rel.Tuple{Object: rel.Object{Type: "document", ID: fmt.Sprintf("written-%d-%d-%d", n, client, i)},
				Relation: "owner", Subject: rel.Subject{Type: "user", ID: fmt.Sprint(i)}}
		}
		for i, r := range []bench.Request{{Write: tuples}, {Remove: tuples}} {
			p, err := target.Prepare(r)
			if err != nil {
				t.Fatal(err)
			}
			turns[client][i] = p
		}
	}
	var next [writers]int // each is its client's alone
	return func(ctx context.Context, client, _ int) error {
		p := turns[client][next[client]%2]
		next[client]++
		return p.Send(ctx, client)
	}
}
