package identity

import (
	"sync"
	"time"

	"github.com/ostiary/ostiary/internal/identity/oauth1"
)

// noncesMax is the largest number of nonces that are remembered in one
// generation.
const noncesMax = 100_000

// nonces remembers which signed requests were accepted, so that none is accepted
// twice. It may be used concurrently.
//
// It keeps two generations. A generation lasts as long as a request can be valid,
// so a nonce is forgotten when its request is too old. Nonces are not stored:
// requests that were signed before the service started are refused.
type nonces struct {
	started time.Time
	max     int

	mu       sync.Mutex
	current  map[nonce]bool
	previous map[nonce]bool
	until    time.Time // end of the current generation
}

// nonce names a signed request. No two requests may have the same one.
type nonce struct {
	consumer, token, text string
	signed                int64 // time at which it was signed, in Unix seconds
}

func newNonces(now time.Time) *nonces {
	return &nonces{started: now.Truncate(time.Second), max: noncesMax, current: map[nonce]bool{}}
}

// use fails with Unauthorized if the request with the nonce was accepted before,
// and with Unavailable if the bound noncesMax is reached.
func (n *nonces) use(key nonce, now time.Time) error {
	if key.signed < n.started.Unix() {
		return unauthorized("the request was signed before the service started")
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if now.After(n.until) {
		n.previous, n.current, n.until = n.current, map[nonce]bool{}, now.Add(2*oauth1.Window)
	}
	switch {
	case n.current[key], n.previous[key]:
		return unauthorized("the request was sent before")
	case len(n.current) >= n.max:
		return failf(Unavailable, "There are too many signed requests: the bound OAuth1Nonces (%d) is reached.", n.max)
	}
	n.current[key] = true
	return nil
}
