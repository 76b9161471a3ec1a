package logins

import (
	"maps"
	"sync"
	"time"
)

// Counter passes on the first event of each origin, and counts the further ones of a
// [Window]. So however many events there are, what is kept of them grows slowly. It may be
// used concurrently. Its fields are set before the first use.
type Counter[O comparable] struct {
	// Max bounds the origins that are counted apart. Further ones are counted as Rest.
	Max  int
	Rest O
	// OwnerMax bounds the origins of one owner that are counted apart; 0 does not. Owner
	// returns the owner of an origin, and the origin as which its further ones are counted,
	// also those beyond Max, until there are 2 Max origins.
	OwnerMax int
	Owner    func(O) (owner string, rest O)
	// Counted is called at the end of a window in which times further events of an origin
	// came, from the first on. It must not call the counter.
	Counted func(o O, times int, first, last time.Time)

	mu    sync.Mutex
	open  map[O]*window
	owned map[string]int // open windows of each owner
}

// window is the time in which the events of an origin are counted.
type window struct {
	end         *time.Timer
	times       int // events after the first
	first, last time.Time
}

// First reports whether an event is the first of its origin in a window. Otherwise it
// counts the event. The origin that it returns is Rest if there are too many.
func (c *Counter[O]) First(o O) (O, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[o] == nil {
		o = c.bounded(o)
	}
	if w := c.open[o]; w != nil {
		w.last = time.Now()
		if w.times == 0 {
			w.first = w.last
		}
		w.times++
		return o, false
	}
	if c.open == nil {
		c.open = map[O]*window{}
	}
	w := &window{}
	w.end = time.AfterFunc(Window, func() { c.close(o, w) })
	c.open[o] = w
	c.count(o, 1)
	return o, true
}

// bounded returns the origin as which a new one is counted. c.mu is locked.
func (c *Counter[O]) bounded(o O) O {
	if c.Owner == nil {
		if len(c.open) >= c.Max {
			return c.Rest
		}
		return o
	}
	owner, rest := c.Owner(o)
	switch {
	case c.owned[owner] < c.OwnerMax && len(c.open) < c.Max:
		return o
	case c.open[rest] != nil || len(c.open) < 2*c.Max:
		return rest
	}
	return c.Rest
}

// count adds n to the open windows of the owner of an origin. c.mu is locked.
func (c *Counter[O]) count(o O, n int) {
	if c.Owner == nil {
		return
	}
	if c.owned == nil {
		c.owned = map[string]int{}
	}
	owner, _ := c.Owner(o)
	if c.owned[owner] += n; c.owned[owner] == 0 {
		delete(c.owned, owner)
	}
}

// close ends the window of an origin.
func (c *Counter[O]) close(o O, w *window) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[o] != w {
		return // Close was faster
	}
	delete(c.open, o)
	c.count(o, -1)
	if w.times > 0 {
		c.Counted(o, w.times, w.first, w.last)
	}
}

// Close ends all windows.
func (c *Counter[O]) Close() {
	c.mu.Lock()
	open := maps.Clone(c.open)
	c.mu.Unlock()
	for o, w := range open {
		w.end.Stop()
		c.close(o, w)
	}
}
