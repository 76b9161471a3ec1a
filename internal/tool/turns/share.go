package turns

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Limits are how much a caller or a store may use, on one node. They are the JSON of limits, on
// disk and in the API. A nil rate is no limit.
type Limits struct {
	// Requests are counted, and ProcessorMillis are milliseconds of processor time.
	Requests        *Rate `json:"requests,omitempty"`
	ProcessorMillis *Rate `json:"processor_ms,omitempty"`
}

// Rate is how much may be used in a second, and at once.
type Rate struct {
	// PerSecond is the rate; 0 allows nothing.
	PerSecond int64 `json:"per_second"`
	// Burst is how much may be used at once. 0 means as much as in a second; of processor
	// time at least 1000 milliseconds.
	Burst int64 `json:"burst,omitempty"`
}

// The largest values of a [Rate].
const (
	PerSecondMax = 1_000_000
	BurstMax     = 10_000_000
)

// None reports whether nothing is limited.
func (l *Limits) None() bool { return *l == Limits{} }

// Check returns an error that names a value that is not valid, or nil.
func (l *Limits) Check() error {
	for name, r := range map[string]*Rate{"requests": l.Requests, "processor_ms": l.ProcessorMillis} {
		switch {
		case r == nil:
		case r.PerSecond < 0 || r.PerSecond > PerSecondMax:
			return fmt.Errorf("invalid limit of %s, %d in a second: expected 0 to %d", name, r.PerSecond, PerSecondMax)
		case r.Burst < 0 || r.Burst > BurstMax:
			return fmt.Errorf("invalid limit of %s, a burst of %d: expected 1 to %d", name, r.Burst, BurstMax)
		}
	}
	return nil
}

// String returns the limits as flags of commands have them, for example "requests 100:200,
// processor 250", or "none", also for nil.
func (l *Limits) String() string {
	if l == nil {
		l = &Limits{}
	}
	var parts []string
	add := func(name string, r *Rate) {
		if r == nil {
			return
		}
		text := name + strconv.FormatInt(r.PerSecond, 10)
		if r.Burst != 0 {
			text += ":" + strconv.FormatInt(r.Burst, 10)
		}
		parts = append(parts, text)
	}
	add("requests ", l.Requests)
	add("processor ", l.ProcessorMillis)
	return cmp.Or(strings.Join(parts, ", "), "none")
}

// Shares returns the shares of requests and of processor time, in nanoseconds; nil without a
// limit.
func (l *Limits) Shares() (requests, processor *Share) {
	if r := l.Requests; r != nil {
		requests = newShare(r.PerSecond, cmp.Or(r.Burst, r.PerSecond), int64(time.Second))
		if r.PerSecond > 0 {
			requests.full = requests.burst * requests.time(1)
		}
	}
	if r := l.ProcessorMillis; r != nil {
		burst := cmp.Or(r.Burst, max(r.PerSecond, 1000))
		processor = newShare(r.PerSecond, burst*int64(time.Millisecond), int64(time.Second/time.Millisecond))
		if r.PerSecond > 0 {
			processor.full = processor.time(processor.burst)
		}
	}
	return requests, processor
}

// Share is what may be used of something in a second, with a burst. It is safe for concurrent
// use, allocates nothing, and takes no lock: its state is one time, at which everything that
// was used is made up for (the generic cell rate algorithm). Times are nanoseconds of a clock
// that all calls share.
type Share struct {
	// rate and burst are the limit, in units.
	rate, burst int64
	// per is how many nanoseconds make up for rate units. full is the time that makes up for
	// a burst.
	per, full int64
	even      atomic.Int64
}

// newShare returns a share of rate units in per nanoseconds.
func newShare(rate, burst, per int64) *Share {
	s := &Share{rate: rate, burst: burst, per: per}
	s.even.Store(math.MinInt64)
	return s
}

// Limit returns the rate and the burst, in units of the share: the rate of processor time is in
// milliseconds.
func (s *Share) Limit() (rate, burst int64) { return s.rate, s.burst }

// time returns how long it takes to make up for n units, rounded up.
func (s *Share) time(n int64) int64 { return (n*s.per + s.rate - 1) / s.rate }

// late is how much earlier than others a call may have read the clock. If the clock differs more,
// it has jumped back.
const late = int64(time.Minute)

// from returns the time from which the next use counts. After a clock has jumped back, it is not
// later than what debt bursts need.
func (s *Share) from(now, debt int64) (even, from int64) {
	for {
		even = s.even.Load()
		latest := now + debt*s.full
		if even <= latest+late {
			return even, max(even, now)
		}
		s.even.CompareAndSwap(even, latest)
	}
}

// Take uses one unit. It returns false, and uses nothing, if the burst is used up; after is the
// time until there is one again, or 0 if there never is.
func (s *Share) Take(now int64) (after time.Duration, ok bool) {
	if s.rate == 0 {
		return 0, false
	}
	one := s.time(1)
	for {
		even, from := s.from(now, 1)
		next := from + one
		if early := next - now - s.full; early > 0 {
			return time.Duration(early), false
		}
		if s.even.CompareAndSwap(even, next) {
			return 0, true
		}
	}
}

// Return gives back one unit that [Share.Take] has used.
func (s *Share) Return() { s.even.Add(-s.time(1)) }

// Left reports whether a part of the burst is left, without a use of it. Otherwise after is the
// time until there is again, or 0 if there never is.
func (s *Share) Left(now int64) (after time.Duration, ok bool) {
	if s.rate == 0 {
		return 0, false
	}
	_, from := s.from(now, debtMax)
	if early := from - now - s.full; early >= 0 {
		return time.Duration(early + 1), false
	}
	return 0, true
}

// debtMax is how many bursts can be used before they are made up for: one that is left when work
// begins, and one that the work owes at its end.
const debtMax = 2

// Charge uses n units that work has used already. It returns false if more than a burst is owed
// now. What exceeds that is not remembered, so that nothing is blocked for longer than it takes
// to make up for a burst.
func (s *Share) Charge(now, n int64) bool {
	if s.rate == 0 || n <= 0 {
		return s.rate != 0
	}
	n = min(n, (debtMax+1)*s.burst)
	for {
		even, from := s.from(now, debtMax)
		next := from + s.time(n)
		owed := next > now+debtMax*s.full
		if s.even.CompareAndSwap(even, min(next, now+debtMax*s.full)) {
			return !owed
		}
	}
}

// Used returns how many units are used and not made up for, rounded up.
func (s *Share) Used(now int64) int64 {
	if s.rate == 0 {
		return 0
	}
	_, from := s.from(now, debtMax)
	return int64(math.Ceil(float64(from-now)/float64(s.full)*float64(s.burst) - 1e-6))
}
