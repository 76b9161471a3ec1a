// Package derived remembers values that were derived from a state that never changes,
// until there is another state. A [Cache] holds the values of one state only, so a value
// of an earlier state is never found. It computes nothing and has no clock: what
// depends on the time must not be put into it.
package derived

import "sync"

// Cache remembers values by their keys, for one state. Its methods may be called
// concurrently.
type Cache[State, Key comparable, Value any] struct {
	max    int
	mu     sync.RWMutex
	state  State
	values map[Key]Value
}

// New returns a cache of at most max values. A full cache is emptied.
func New[State, Key comparable, Value any](max int) *Cache[State, Key, Value] {
	return &Cache[State, Key, Value]{max: max, values: map[Key]Value{}}
}

// Get returns the value of a key in a state, and whether the cache has it.
func (c *Cache[State, Key, Value]) Get(state State, key Key) (v Value, ok bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.state == state {
		v, ok = c.values[key]
	}
	return v, ok
}

// Add remembers a value that was derived from a state, and forgets the values of all
// other states.
func (c *Cache[State, Key, Value]) Add(state State, key Key, v Value) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != state || len(c.values) >= c.max {
		clear(c.values)
		c.state = state
	}
	c.values[key] = v
}
