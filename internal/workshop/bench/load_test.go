package bench_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ostiary/ostiary/internal/workshop/bench"
)

// TestLoadShowsAKnownDistribution measures requests with known times: of a
// hundred, ninety take 2 ms, nine 20 ms and one 100 ms. In virtual time nothing else takes
// any, so each percentile must have its step.
func TestLoadShowsAKnownDistribution(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		took := func(i int) time.Duration {
			switch i % 100 {
			case 37:
				return 100 * time.Millisecond
			case 1, 11, 21, 31, 41, 51, 61, 71, 81:
				return 20 * time.Millisecond
			}
			return 2 * time.Millisecond
		}
		for _, load := range []bench.Load{{Clients: 16, Requests: 2000, Duration: -1}, {Rate: 1000, Clients: 200, Requests: 2000, Duration: -1}} {
			result, err := load.Run(context.Background(), func(ctx context.Context, _, i int) error {
				time.Sleep(took(i))
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			var r bench.Record
			result.Fill(&r)
			near := func(nanos, want float64) bool { return nanos > want*.998 && nanos < want*1.002 }
			if r.N != 2000 || r.Min != 2e6 || !near(r.Median, 2e6) || !near(r.P90, 2e6) || !near(quantile(r, .95), 20e6) || !near(r.P999, 100e6) || r.Max != 100e6 {
				t.Errorf("%s: %+v", load, r)
			}
			if !near(r.Mean, (90*2+9*20+100)/100.*1e6) {
				t.Errorf("%s: mean %v", load, r.Mean)
			}
		}
	})
}

func quantile(r bench.Record, at float64) float64 {
	for _, q := range r.Distribution {
		if q.At == at {
			return q.Nanos
		}
	}
	return math.NaN()
}

// TestOpenLoopCountsAStall checks that a stall of half a second counts for all
// requests that are due in the meantime, although only one response is slow.
func TestOpenLoopCountsAStall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stall := func(ctx context.Context, _, i int) error {
			if i == 100 {
				time.Sleep(500 * time.Millisecond)
			}
			return nil
		}
		run := func(l bench.Load) bench.Record {
			result, err := l.Run(context.Background(), stall)
			if err != nil {
				t.Fatal(err)
			}
			var r bench.Record
			result.Fill(&r)
			return r
		}
		open := run(bench.Load{Rate: 1000, Clients: 1, Requests: 1000, Duration: -1})
		closed := run(bench.Load{Clients: 1, Requests: 1000, Duration: -1})
		if quantile(open, .75) < 50e6 {
			t.Errorf("open loop: the 75th percentile is %v", time.Duration(quantile(open, .75)))
		}
		if open.Median <= closed.Median {
			t.Errorf("open %v, closed %v", open.Median, closed.Median)
		}
	})
}

func TestLoadCountsFailuresSeparately(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		result, err := bench.Load{Requests: 90, Duration: -1, Clients: 3, Timeout: 20 * time.Millisecond}.Run(context.Background(), func(ctx context.Context, _, i int) error {
			switch i % 3 {
			case 0:
				return &bench.Failure{What: "wrong answer"}
			case 1:
				if i < 10 {
					<-ctx.Done()
					return ctx.Err()
				}
				return errors.New("another error")
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		var r bench.Record
		result.Fill(&r)
		if r.N != 30 || r.Failures["wrong answer"] != 30 || r.Failures["timeout"] != 3 || r.Failures["error"] != 27 || r.Failed() != 60 {
			t.Errorf("%+v", r)
		}
	})
}

// TestRamp checks that a growing rate sends the mean of both rates.
func TestRamp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		result, err := bench.Load{Rate: 100, RateEnd: 300, Duration: time.Second}.Run(context.Background(), func(context.Context, int, int) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		if result.N < 199 || result.N > 201 {
			t.Errorf("%d requests in a second from 100 to 300/s", result.N)
		}
	})
}

func TestLoadEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	_, err := bench.Load{Rate: 10, Duration: time.Hour}.Run(ctx, func(context.Context, int, int) error {
		cancel()
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// The median of an even number of requests is between the two in the middle.
func TestMedianOfFewRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for n, want := range map[int]float64{1: 1, 2: 20.5, 3: 40, 4: 60} { // in ms
			took := []time.Duration{1, 40, 80, 120}
			load := bench.Load{Requests: n, Duration: -1}
			result, err := load.Run(context.Background(), func(_ context.Context, _, i int) error {
				time.Sleep(took[i] * time.Millisecond)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			var r bench.Record
			result.Fill(&r)
			if r.Median < want*1e6 || r.Median <= r.Min && n > 1 || r.Median >= r.Max && n > 1 {
				t.Errorf("%d requests: median %.1f ms, min %.1f ms, max %.1f ms; want at least %.1f ms", n, r.Median/1e6, r.Min/1e6, r.Max/1e6, want)
			}
		}
	})
}
