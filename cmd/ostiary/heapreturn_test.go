package main

import (
	"testing"
	"time"
)

// TestHeapReturn checks that memory is returned once after each time of load, and
// not while garbage is collected.
func TestHeapReturn(t *testing.T) {
	t.Parallel()
	var h heapReturn
	start := time.Now()
	for i, c := range []struct {
		cycles uint64
		after  time.Duration
		want   bool
	}{
		{1, 0, false}, {1, heapQuiet - 1, false}, {2, heapQuiet, false}, {2, 2*heapQuiet - 1, false}, {2, 2 * heapQuiet, true},
		{3, 3 * heapQuiet, false}, // the collection of the return itself
		{3, 9 * heapQuiet, false},
		{4, 10 * heapQuiet, false}, {4, 11 * heapQuiet, true},
	} {
		got := h.due(c.cycles, start.Add(c.after))
		if got != c.want {
			t.Errorf("step %d: %v, want %v", i, got, c.want)
		}
		if got {
			h.returned(c.cycles + 1)
		}
	}
}
