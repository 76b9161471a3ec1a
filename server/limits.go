package server

import (
	"context"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/callers"
	"github.com/ostiary/ostiary/internal/tool/turns"
	"github.com/ostiary/ostiary/storage"
)

// The names of limits, in refusals and metrics.
const (
	limitRequests  = "RequestsPerSecond"
	limitProcessor = "ProcessorMillisPerSecond"
)

// limits are those that count for one request: of its caller, and of the stores that it uses.
type limits struct {
	of *passage // the request; nil if none counts
	// measured is true if the processor time of the request counts for one of them.
	measured atomic.Bool
	few      [3]*callers.Limited // the memory of all for most requests

	mu      sync.Mutex
	all     []*callers.Limited
	refusal *door.Refusal // of the request because of one of them; nil if there is none
}

// useLimits makes the limits of the caller count for the request, and those of each store that it
// uses. It returns false if no limit does.
func (p *passage) useLimits() bool {
	if p.keys == nil || p.keys.stored == nil || !p.keys.stored.AnyLimited() {
		return false
	}
	r, key, l := p.keys.stored, p.ctx.key, &p.ctx.limits
	if p.op.unlimited && r.Unlimited(key.access(p.door.Name)) {
		return false
	}
	p.ctx.journal.Gate, l.of, l.all = p, p, l.few[:0]
	switch {
	case !key.known():
	case key.matched != nil:
		for _, name := range key.matched.Through(p.door.Name).(*callers.Matched).Names() {
			l.all = r.LimitsOfCaller(l.all, name)
		}
	default:
		l.all = r.LimitsOfCaller(l.all, key.author)
	}
	for _, n := range l.all {
		p.measure(n)
	}
	return len(l.all) > 0
}

// access returns what the caller may do through a door, or nil for everything.
func (k *hashedKey) access(name string) authz.Access {
	if k == nil || k.grant == nil {
		return nil
	}
	return k.grant.Through(name)
}

// measure measures the processor time of the request if it counts for n.
func (p *passage) measure(n *callers.Limited) {
	if n.ProcessorShare != nil && !p.ctx.limits.measured.Swap(true) {
		p.ctx.work.Measure()
	}
}

// take uses one request of each of some limits at a time, or refuses the request and uses none.
func (p *passage) take(all []*callers.Limited, at time.Time) *door.Refusal {
	now := p.keys.stored.Elapsed(at)
	for _, n := range all {
		if n.ProcessorShare == nil {
			continue
		}
		if after, ok := n.ProcessorShare.Left(now); !ok {
			return p.limited(n, limitProcessor, now, after)
		}
	}
	for i, n := range all {
		if n.RequestShare == nil {
			continue
		}
		if after, ok := n.RequestShare.Take(now); !ok {
			for _, taken := range all[:i] {
				if taken.RequestShare != nil {
					taken.RequestShare.Return()
				}
			}
			return p.limited(n, limitRequests, now, after)
		}
	}
	return nil
}

// limited returns the refusal of a request because of a limit of n, and counts it.
func (p *passage) limited(n *callers.Limited, limit string, now int64, after time.Duration) *door.Refusal {
	kind, name := n.Name()
	p.metrics.limited(limit, kind, name)
	why := &door.Refusal{Reason: door.Limited, Bound: limit, Retry: after}
	share, unit := n.RequestShare, int64(1)
	if limit == limitProcessor {
		share, unit = n.ProcessorShare, int64(time.Millisecond)
	}
	rate, burst := share.Limit()
	why.Limit, why.Got = rate, share.Used(now)/unit
	switch what := "the limit of the " + kind + " " + strconv.Quote(name); {
	case rate == 0:
		why.Detail = what + " allows none"
	default:
		why.Detail = what + ", with a burst of " + strconv.FormatInt(burst/unit, 10) + ", is used up"
	}
	p.ctx.limits.refusal = why
	return why
}

// EnterStore implements the gate of a journal: it uses one request of the limits of a store, once.
func (p *passage) EnterStore(store storage.StoreInfo) error {
	n := p.keys.stored.LimitsOfStore(store)
	if n == nil {
		return nil
	}
	l := &p.ctx.limits
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.Contains(l.all, n) {
		return nil
	}
	if l.refusal != nil {
		return l.refusal
	}
	if why := p.take([]*callers.Limited{n}, time.Now()); why != nil {
		p.metrics.refused(why.Reason)
		return why
	}
	l.all = append(l.all, n)
	p.measure(n)
	return nil
}

// Wait and Resume implement the gate of a journal.
func (p *passage) Wait()   { p.ctx.work.Wait() }
func (p *passage) Resume() { p.ctx.work.Resume() }

// spend charges the processor time of the request since the last call. It returns the refusal of
// a request that must end because of a limit; nil if ends is false, or if it may go on.
func (p *passage) spend(ends bool) *door.Refusal {
	l := &p.ctx.limits
	used, now := int64(p.ctx.work.Used()), p.keys.stored.Elapsed(time.Now())
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.all {
		if n.ProcessorShare == nil || n.ProcessorShare.Charge(now, used) || !ends || l.refusal != nil {
			continue
		}
		after, _ := n.ProcessorShare.Left(now)
		p.metrics.refused(p.limited(n, limitProcessor, now, after).Reason)
	}
	if !ends {
		return nil
	}
	return l.refusal
}

// refusedBy returns the refusal of the request because of a limit, or nil.
func (l *limits) refusedBy() *door.Refusal {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refusal
}

// pace holds the answer to a request that a limit has refused: a refusal costs about as much as a
// small question, so a client that does not wait for Retry-After would take the processor from
// others with refusals. The request has no place meanwhile.
func (p *passage) pace(ctx context.Context) {
	if p.ctx.limits.of != nil && p.ctx.limits.refusedBy() != nil {
		p.conn.Pace(ctx, p.stopping)
	}
}

// retryAfter sets the header Retry-After of a response to a request that a limit has refused.
func (l *limits) retryAfter(h http.Header, responseStatus int) {
	if responseStatus != http.StatusTooManyRequests {
		return
	}
	if why := l.refusedBy(); why != nil && why.Retry > 0 {
		h.Set("Retry-After", strconv.FormatInt(int64(math.Ceil(why.Retry.Seconds())), 10))
	}
}

// retryInfo returns the error of a call with a google.rpc.RetryInfo if a limit has refused it.
func (l *limits) retryInfo(err error) error {
	why := l.refusedBy()
	if why == nil || why.Retry <= 0 || status.Code(err) != codes.ResourceExhausted {
		return err
	}
	s, failed := status.Convert(err).WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(why.Retry)})
	if failed != nil {
		return err
	}
	return s.Err()
}

// runningBody is a body whose reads are no processor time.
type runningBody struct {
	io.ReadCloser
	work *turns.Work
}

func (b *runningBody) Read(p []byte) (int, error) {
	b.work.Wait()
	defer b.work.Resume()
	return b.ReadCloser.Read(p)
}

// limitedMax is how many callers and stores have metrics of their own. The others are counted
// together, as "others".
const limitedMax = 1000

// limitedBy is what requests that a limit has refused are counted by.
type limitedBy struct{ limit, kind, name string }

// limited counts a request that a limit has refused.
func (m *metrics) limited(limit, kind, name string) {
	m.failuresMu.Lock()
	defer m.failuresMu.Unlock()
	if m.limitedBy == nil {
		m.limitedBy = map[limitedBy]uint64{}
	}
	by := limitedBy{limit, kind, name}
	if _, known := m.limitedBy[by]; !known && len(m.limitedBy) >= limitedMax {
		by.name = "others"
	}
	m.limitedBy[by]++
}

// collectLimited sends the metrics of limits.
func (m *metrics) collectLimited(to chan<- prometheus.Metric) {
	m.failuresMu.Lock()
	all := maps.Clone(m.limitedBy)
	m.failuresMu.Unlock()
	for by, n := range all {
		to <- prometheus.MustNewConstMetric(m.limitedTotal, prometheus.CounterValue, float64(n), by.limit, by.kind, by.name)
	}
}
