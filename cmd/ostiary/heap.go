package main

import (
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// heapLeast is the size that a heap may have before Go collects its garbage,
	// in bytes. Beyond, garbage may be half of the live data, up to heapGrowthMax.
	// Go's own rule is as much as there is live data: a small store is then
	// collected all the time, which its writers feel, and one of gigabytes, flat
	// memory that the collector need not walk, costs twice its size for nothing.
	// With this a million tuples, 36 MiB live, stay below 200 MB with all else
	// that a server holds.
	heapLeast      = 60 << 20
	heapGrowthMax  = 128 << 20
	heapPercentMin = 25
	heapPercentMax = 400
	heapLookEvery  = 2 * time.Second
	heapLiveFigure = "/gc/heap/live:bytes"
	// envHeap is Go's own: who sets it governs the heap himself.
	envHeap = "GOGC"
)

// heapPercentFor is GOGC for so much live data.
func heapPercentFor(live uint64) int {
	growth := min(live/2, heapGrowthMax)
	if live+growth < heapLeast {
		growth = heapLeast - live
	}
	return int(min(max(growth*100/max(live, 1), heapPercentMin), heapPercentMax))
}

// governHeap keeps GOGC at heapPercentFor until the returned function is
// called, unless the environment sets it.
func (a *app) governHeap() (stop func()) {
	if value, _ := a.lookup(envHeap); value != "" {
		return func() {}
	}
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(heapLookEvery)
		defer tick.Stop()
		figure := []metrics.Sample{{Name: heapLiveFigure}}
		for set := 0; ; {
			metrics.Read(figure)
			if figure[0].Value.Kind() != metrics.KindUint64 {
				return // this Go does not tell
			}
			// A change stops the world for a moment; a small one is not worth it.
			if want := heapPercentFor(figure[0].Value.Uint64()); max(want, set) > min(want, set)*11/10 {
				debug.SetGCPercent(want)
				set = want
			}
			select {
			case <-end:
				return
			case <-tick.C:
			}
		}
	}()
	return func() {
		close(end)
		<-done
	}
}
