package serve

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// heapQuiet is how long no garbage must have been collected before the process
	// returns memory to the system. The process returns memory again after twice that
	// time, and so on until heapQuietMax: connections that stay open keep memory at
	// first, and closing them collects nothing.
	heapQuiet        = 15 * time.Second
	heapQuietMax     = 4 * time.Minute
	heapCyclesFigure = "/gc/cycles/total:gc-cycles"
)

// heapReturn finds the moments at which a process should return memory to the
// system: a few times after each time of load. Without it, a server that is idle after
// a peak keeps the memory of the peak, because Go collects garbage only when
// more is allocated.
type heapReturn struct {
	cycles uint64    // the collections so far
	since  time.Time // when cycles last changed, or memory was last returned
	// wait is how long after since the next return is due; 0 means never.
	wait time.Duration
}

// due reports whether the process should return memory now. cycles is the
// number of garbage collections so far.
func (h *heapReturn) due(cycles uint64, now time.Time) bool {
	if cycles != h.cycles {
		h.cycles, h.since, h.wait = cycles, now, heapQuiet
		return false
	}
	return h.wait > 0 && now.Sub(h.since) >= h.wait
}

// returned notes that memory was returned, which took a collection.
func (h *heapReturn) returned(cycles uint64, now time.Time) {
	h.cycles, h.since = cycles, now
	if h.wait *= 2; h.wait > heapQuietMax {
		h.wait = 0
	}
}

// look returns memory to the system if that is due.
func (h *heapReturn) look() {
	if h.due(heapCycles(), time.Now()) {
		runtime.GC() // the first collection moves pooled buffers aside, the next frees them
		debug.FreeOSMemory()
		h.returned(heapCycles(), time.Now())
	}
}

func heapCycles() uint64 {
	figure := []metrics.Sample{{Name: heapCyclesFigure}}
	metrics.Read(figure)
	if figure[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return figure[0].Value.Uint64()
}
