package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// heapQuiet is how long no garbage must have been collected before the process
	// returns memory to the system.
	heapQuiet        = 15 * time.Second
	heapCyclesFigure = "/gc/cycles/total:gc-cycles"
)

// heapReturn finds the moments at which a process should return memory to the
// system: once after each time of load. Without it, a server that is idle after
// a peak keeps the memory of the peak, because Go collects garbage only when
// more is allocated.
type heapReturn struct {
	cycles uint64    // the collections so far
	since  time.Time // when cycles last changed
	busy   bool      // a collection has run since the last return of memory
}

// due reports whether the process should return memory now. cycles is the
// number of garbage collections so far.
func (h *heapReturn) due(cycles uint64, now time.Time) bool {
	if cycles != h.cycles {
		h.cycles, h.since, h.busy = cycles, now, true
		return false
	}
	return h.busy && now.Sub(h.since) >= heapQuiet
}

// returned notes that memory was returned, which took a collection.
func (h *heapReturn) returned(cycles uint64) { h.cycles, h.busy = cycles, false }

// look returns memory to the system if that is due.
func (h *heapReturn) look() {
	if h.due(heapCycles(), time.Now()) {
		runtime.GC() // the first collection moves pooled buffers aside, the next frees them
		debug.FreeOSMemory()
		h.returned(heapCycles())
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
