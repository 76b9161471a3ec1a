package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Load says how requests arrive. The zero Load is one client that asks as fast
// as it is answered, for two seconds.
type Load struct {
	// Rate, if positive, makes an open loop: so many requests are due each
	// second, whatever the answers do, and each is timed from when it was due. So
	// a server that stalls is charged for all that came meanwhile (no coordinated
	// omission).
	Rate float64
	// RateEnd, if positive, makes the rate grow or fall evenly to it.
	RateEnd float64
	// Clients is how many requests may be under way: the clients of a closed
	// loop, or the most that an open loop has open. Default 1, in an open loop
	// 256.
	Clients int
	// Duration ends the run. Default 2 s; negative: only Requests ends it.
	Duration time.Duration
	// Requests, if positive, ends the run after so many.
	Requests int
	// WarmUp runs the same load before, unmeasured. Default none.
	WarmUp time.Duration
	// Timeout is how long one request may take. Default 30 s; negative: it is not
	// watched, which would cost more than a call in this process.
	Timeout time.Duration
	// Progress is told of each finished request, often and concurrently.
	Progress func(done int)
}

// String says the load as records do.
func (l Load) String() string {
	l = l.withDefaults()
	switch {
	case l.RateEnd > 0:
		return fmt.Sprintf("open, %g to %g/s", l.Rate, l.RateEnd)
	case l.Rate > 0:
		return fmt.Sprintf("open, %g/s", l.Rate)
	case l.Clients == 1:
		return "closed, 1 client"
	default:
		return fmt.Sprintf("closed, %d clients", l.Clients)
	}
}

func (l Load) withDefaults() Load {
	if l.Clients <= 0 {
		l.Clients = 1
		if l.Rate > 0 {
			l.Clients = 256
		}
	}
	if l.Duration == 0 {
		l.Duration = 2 * time.Second
	}
	if l.Duration < 0 && l.Requests <= 0 {
		l.Duration = 2 * time.Second
	}
	if l.Timeout == 0 {
		l.Timeout = 30 * time.Second
	}
	return l
}

// due returns when the i-th request is due after the start.
func (l *Load) due(i int) time.Duration {
	n, a := float64(i), l.Rate
	if l.RateEnd <= 0 || l.Duration < 0 {
		return time.Duration(n / a * float64(time.Second))
	}
	// The rate is a + b·t; the i-th request is due when a·t + b·t²/2 = i.
	b := (l.RateEnd - a) / l.Duration.Seconds()
	if math.Abs(b) < 1e-9 {
		return time.Duration(n / a * float64(time.Second))
	}
	root := a*a + 2*b*n
	if root < 0 {
		return math.MaxInt64
	}
	return time.Duration((math.Sqrt(root) - a) / b * float64(time.Second))
}

// Ask sends the i-th request of a client and returns nil for the right answer.
// A *Failure says what went wrong in a word or two; any other error is counted
// by its kind. Clients are numbered from 0; each has one request under way.
type Ask func(ctx context.Context, client, i int) error

// Failure is an answer that is not the right one.
type Failure struct {
	// What is a short name that failures are counted by: "status 400", "wrong
	// answer", "connection refused".
	What string
	Err  error
}

func (f *Failure) Error() string {
	if f.Err == nil {
		return f.What
	}
	return f.What + ": " + f.Err.Error()
}

func (f *Failure) Unwrap() error { return f.Err }

// Result is what a run measured.
type Result struct {
	latencies *hdrhistogram.Histogram // nanoseconds
	sum, sum2 float64
	min, max  float64
	N         int
	Failures  map[string]int
	// FirstFailure is an example.
	FirstFailure error
	// Elapsed is the time of the measured part.
	Elapsed time.Duration
}

// The histogram reaches from a nanosecond to five minutes with three digits.
const (
	latencyMin    = 1
	latencyMax    = int64(5 * time.Minute)
	latencyDigits = 3
)

func newResult() *Result {
	return &Result{latencies: hdrhistogram.New(latencyMin, latencyMax, latencyDigits), Failures: map[string]int{}, min: math.Inf(1)}
}

func (r *Result) add(d time.Duration, err error) {
	if err != nil {
		r.Failures[nameOf(err)]++
		if r.FirstFailure == nil {
			r.FirstFailure = err
		}
		return
	}
	x := float64(d)
	r.N++
	r.sum += x
	r.sum2 += x * x
	r.min, r.max = min(r.min, x), max(r.max, x)
	// What is beyond the histogram's end is counted at its end; min, max, mean
	// and deviation are exact.
	_ = r.latencies.RecordValue(min(max(int64(d), latencyMin), latencyMax))
}

func nameOf(err error) string {
	var f *Failure
	switch {
	case errors.As(err, &f):
		return f.What
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	}
	return "error"
}

func (r *Result) merge(o *Result) {
	r.latencies.Merge(o.latencies)
	r.N += o.N
	r.sum += o.sum
	r.sum2 += o.sum2
	r.min, r.max = min(r.min, o.min), max(r.max, o.max)
	for what, n := range o.Failures {
		r.Failures[what] += n
	}
	if r.FirstFailure == nil {
		r.FirstFailure = o.FirstFailure
	}
}

// fractions are the points of a record's distribution.
var fractions = [...]float64{0, .01, .05, .1, .25, .5, .75, .9, .95, .99, .995, .999, .9999, 1}

// Fill writes the result into a record.
func (r *Result) Fill(record *Record) {
	record.N, record.Failures = r.N, maps.Clone(r.Failures)
	if len(record.Failures) == 0 {
		record.Failures = nil
	}
	if r.N == 0 {
		return
	}
	n := float64(r.N)
	record.Mean = r.sum / n
	if r.N > 1 {
		record.SD = math.Sqrt(max(0, (r.sum2-r.sum*r.sum/n)/(n-1)))
	}
	at := func(p float64) float64 {
		switch p {
		case 0:
			return r.min
		case 1:
			return r.max
		}
		return min(r.max, float64(r.latencies.ValueAtQuantile(p*100)))
	}
	record.Min, record.Max = r.min, r.max
	record.Median, record.P90, record.P99, record.P999 = at(.5), at(.9), at(.99), at(.999)
	for _, f := range fractions {
		record.Distribution = append(record.Distribution, Quantile{f, at(f)})
	}
	if r.Elapsed > 0 {
		record.Throughput = n / r.Elapsed.Seconds()
	}
}

// Run puts the load on ask and returns what it measured: at the end, when ctx
// ends (with its error), whichever comes first. All goroutines have ended then.
func (l Load) Run(ctx context.Context, ask Ask) (*Result, error) {
	if err := l.warm(ctx, ask); err != nil {
		return nil, err
	}
	l = l.withDefaults()
	return l.run(ctx, ask)
}

// warm runs the load for WarmUp, unmeasured.
func (l Load) warm(ctx context.Context, ask Ask) error {
	if l.WarmUp <= 0 {
		return nil
	}
	l.WarmUp, l.Duration, l.Requests, l.Progress = 0, l.WarmUp, 0, nil
	l = l.withDefaults()
	_, err := l.run(ctx, ask)
	return err
}

func (l *Load) run(ctx context.Context, ask Ask) (*Result, error) {
	var next, done atomic.Int64
	results := make([]*Result, l.Clients)
	start := time.Now()
	var wait sync.WaitGroup
	for c := range l.Clients {
		results[c] = newResult()
		wait.Go(func() { l.client(ctx, start, c, &next, &done, ask, results[c]) })
	}
	wait.Wait()
	total := newResult()
	total.Elapsed = time.Since(start)
	for _, r := range results {
		total.merge(r)
	}
	return total, ctx.Err()
}

// client asks until the load's end.
func (l *Load) client(ctx context.Context, start time.Time, c int, next, done *atomic.Int64, ask Ask, r *Result) {
	for ctx.Err() == nil {
		i := int(next.Add(1)) - 1
		if l.Requests > 0 && i >= l.Requests {
			return
		}
		begin := time.Now()
		if l.Rate > 0 {
			due := l.due(i)
			if l.Duration > 0 && due >= l.Duration {
				return
			}
			begin = start.Add(due)
			if !sleepUntil(ctx, begin) {
				return
			}
		} else if l.Duration > 0 && begin.Sub(start) >= l.Duration {
			return
		}
		err := l.one(ctx, ask, c, i)
		if err != nil && ctx.Err() != nil {
			return
		}
		r.add(time.Since(begin), err)
		if l.Progress != nil {
			l.Progress(int(done.Add(1)))
		}
	}
}

// one asks once.
func (l *Load) one(ctx context.Context, ask Ask, client, i int) error {
	if l.Timeout < 0 {
		return ask(ctx, client, i)
	}
	ctx, cancel := context.WithTimeout(ctx, l.Timeout)
	defer cancel()
	return ask(ctx, client, i)
}

// sleepUntil waits for t; false if ctx ended first.
func sleepUntil(ctx context.Context, t time.Time) bool {
	d := time.Until(t)
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
