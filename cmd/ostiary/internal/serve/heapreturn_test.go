package serve

import (
	"testing"
	"time"
)

// TestHeapReturn checks that memory is returned after each time of load, each time
// later, and not while garbage is collected.
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
		{3, 4*heapQuiet - 1, false}, // 3 is the collection of the return itself
		{3, 4 * heapQuiet, true}, {4, 8*heapQuiet - 1, false}, {4, 8 * heapQuiet, true},
		{6, 10 * heapQuiet, false}, {6, 11 * heapQuiet, true},
		{7, 13 * heapQuiet, true}, {8, 17 * heapQuiet, true}, {9, 25 * heapQuiet, true}, {10, 41 * heapQuiet, true},
		{11, 999 * heapQuiet, false}, // no longer
	} {
		got := h.due(c.cycles, start.Add(c.after))
		if got != c.want {
			t.Errorf("step %d: %v, want %v", i, got, c.want)
		}
		if got {
			h.returned(c.cycles+1, start.Add(c.after))
		}
	}
}
