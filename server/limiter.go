package server

import (
	"sync/atomic"

	"github.com/ostiary/ostiary/door"
)

// limiter bounds how many requests of one kind are in flight at once, over all
// ports. It may be used concurrently.
type limiter struct {
	name     string // the bound's name in refusals, for example "RequestsMax"
	max      int64
	inFlight atomic.Int64
}

// acquire takes one place. If all places are taken it takes none and returns
// the refusal; otherwise the caller must call release.
func (l *limiter) acquire() *door.Refusal {
	if l.inFlight.Add(1) > l.max {
		l.inFlight.Add(-1)
		return &door.Refusal{Reason: door.TooMany, Bound: l.name, Limit: l.max}
	}
	return nil
}

// release gives one place back.
func (l *limiter) release() { l.inFlight.Add(-1) }
