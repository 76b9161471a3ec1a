package conn

import (
	"sync/atomic"

	"github.com/ostiary/ostiary/door"
)

// Limiter bounds how many requests of one kind are in flight at once, over all
// ports. It may be used concurrently.
type Limiter struct {
	Name     string // the bound's name in refusals, for example "RequestsMax"
	Max      int64
	InFlight atomic.Int64
}

// Acquire takes one place. If all places are taken it takes none and returns
// the refusal; otherwise the caller must call release.
func (l *Limiter) Acquire() *door.Refusal {
	if l.InFlight.Add(1) > l.Max {
		l.InFlight.Add(-1)
		return &door.Refusal{Reason: door.TooMany, Bound: l.Name, Limit: l.Max}
	}
	return nil
}

// Release gives one place back.
func (l *Limiter) Release() { l.InFlight.Add(-1) }
