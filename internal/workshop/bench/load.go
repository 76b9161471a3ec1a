package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Load describes how requests arrive. The zero Load is one client that sends its
// next request when it has the last response, for two seconds.
type Load struct {
	// Rate, if positive, makes an open loop: this many requests are due per
	// second, independent of the responses. The latency of a request is measured
	// from the time when it is due, so a stall of the server counts for all
	// requests that become due during the stall (no coordinated omission).
	Rate float64
	// RateEnd, if positive, changes the rate linearly from Rate to RateEnd.
	RateEnd float64
	// Clients bounds the requests in flight. Default 1, in an open loop 256.
	Clients int
	// Duration bounds the run. Default 2 s. Negative: only Requests bounds it.
	Duration time.Duration
	// Requests, if positive, bounds the number of requests.
	Requests int
	// WarmUp is the time for which the same load runs before the measurement.
	// Default none.
	WarmUp time.Duration
	// Timeout bounds each request. Default 30 s. Negative: no timeout, because a
	// timer costs more than a call within this process.
	Timeout time.Duration
	// Progress, if not nil, gets the number of finished requests after each of
	// them. It is called concurrently.
	Progress func(done int)
}

// String describes the load as Record.Load does.
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

// due returns when the i-th request is due, counted from the start.
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

// Send sends the i-th request of a run and returns nil if the answer is correct.
// An error that is a [*Failure] is counted by its name, any other one as
// "timeout" or "error". client, from 0, is the number of the client that sends;
// a client has only one request in flight.
type Send func(ctx context.Context, client, i int) error

// Failure is a wrong or missing answer.
type Failure struct {
	// What is the short name by which failures are counted: "status 400", "wrong
	// answer", "connection refused".
	What string
	// Err is the cause. It may be nil.
	Err error
}

// Error returns the name and the cause.
func (f *Failure) Error() string {
	if f.Err == nil {
		return f.What
	}
	return f.What + ": " + f.Err.Error()
}

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }

// Result is the result of a run.
type Result struct {
	latencies *hdrhistogram.Histogram // nanoseconds
	few       []float64               // all times, as long as there are at most fewMax
	sum, sum2 float64                 // of the latencies and of their squares
	min, max  float64                 // nanoseconds
	// N is the number of successful requests.
	N int
	// Failures counts the failed requests by name.
	Failures map[string]int
	// FirstFailure is one of the failures, or nil.
	FirstFailure error
	// Elapsed is the duration of the run without the warm-up.
	Elapsed time.Duration
}

// The bounds of the histogram: one nanosecond to five minutes, with a precision
// of three digits.
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
	if len(r.few) <= fewMax {
		r.few = append(r.few, x)
	}
	// A latency beyond the histogram's end counts as its end. Min, max, mean and
	// deviation are exact.
	_ = r.latencies.RecordValue(min(max(int64(d), latencyMin), latencyMax))
}

// fewMax is the number of requests up to which the median is exact. A histogram
// gives the lower of the two times in the middle.
const fewMax = 1000

// median returns the exact median, or that of the histogram above fewMax.
func (r *Result) median() float64 {
	if r.N > fewMax || len(r.few) != r.N {
		return float64(r.latencies.ValueAtQuantile(50))
	}
	slices.Sort(r.few)
	return (r.few[(r.N-1)/2] + r.few[r.N/2]) / 2
}

// nameOf returns the name by which err is counted.
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
	if len(r.few) <= fewMax {
		r.few = append(r.few, o.few...)
	}
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

// fractions are the quantiles in a record's distribution.
var fractions = [...]float64{0, .01, .05, .1, .25, .5, .75, .9, .95, .99, .995, .999, .9999, 1}

// Fill sets the figures of record.
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
		case .5:
			return min(r.max, r.median())
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

// Run applies the load to send and returns the result. If ctx ends first, it
// returns the result so far and the error of ctx. When Run returns, all its
// goroutines have ended.
func (l Load) Run(ctx context.Context, send Send) (*Result, error) {
	if err := l.warm(ctx, send); err != nil {
		return nil, err
	}
	l = l.withDefaults()
	return l.run(ctx, send)
}

// InTurns sends requests of several kinds one after another, in turns, so that what else
// the machine does changes the times of all kinds alike. It returns the result of each
// kind, whose Elapsed is the sum of its times. Of l it uses Duration, Requests (of all
// kinds together) and Timeout. If ctx ends first, it returns the results so far and the
// error of ctx.
func (l Load) InTurns(ctx context.Context, kinds ...Send) ([]*Result, error) {
	l.Clients, l.Rate = 1, 0
	l = l.withDefaults()
	all := make([]*Result, len(kinds))
	for k := range all {
		all[k] = newResult()
	}
	start := time.Now()
	for i := 0; ctx.Err() == nil && (l.Requests <= 0 || i < l.Requests) && (l.Duration <= 0 || time.Since(start) < l.Duration); i++ {
		k := i % len(kinds)
		begin := time.Now()
		err := l.send(ctx, kinds[k], 0, i/len(kinds))
		if err != nil && ctx.Err() != nil {
			break
		}
		took := time.Since(begin)
		all[k].add(took, err)
		all[k].Elapsed += took
	}
	return all, ctx.Err()
}

// warm runs the load for WarmUp without measuring it.
func (l Load) warm(ctx context.Context, send Send) error {
	if l.WarmUp <= 0 {
		return nil
	}
	l.WarmUp, l.Duration, l.Requests, l.Progress = 0, l.WarmUp, 0, nil
	l = l.withDefaults()
	_, err := l.run(ctx, send)
	return err
}

func (l *Load) run(ctx context.Context, send Send) (*Result, error) {
	var next, done atomic.Int64
	results := make([]*Result, l.Clients)
	start := time.Now()
	var wait sync.WaitGroup
	for c := range l.Clients {
		results[c] = newResult()
		wait.Go(func() { l.client(ctx, start, c, &next, &done, send, results[c]) })
	}
	wait.Wait()
	total := newResult()
	total.Elapsed = time.Since(start)
	for _, r := range results {
		total.merge(r)
	}
	return total, ctx.Err()
}

// client sends requests until the end of the load.
func (l *Load) client(ctx context.Context, start time.Time, c int, next, done *atomic.Int64, send Send, r *Result) {
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
		err := l.send(ctx, send, c, i)
		if err != nil && ctx.Err() != nil {
			return
		}
		r.add(time.Since(begin), err)
		if l.Progress != nil {
			l.Progress(int(done.Add(1)))
		}
	}
}

// send sends one request within the timeout.
func (l *Load) send(ctx context.Context, send Send, client, i int) error {
	if l.Timeout < 0 {
		return send(ctx, client, i)
	}
	ctx, cancel := context.WithTimeout(ctx, l.Timeout)
	defer cancel()
	return send(ctx, client, i)
}

// sleepUntil waits until t. It returns false if ctx ends first.
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
