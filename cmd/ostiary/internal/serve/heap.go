package serve

import (
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// heapMin is the heap size in bytes below which Go does not collect garbage.
	// Above it, the garbage may grow to half of the live data, up to heapGrowthMax.
	//
	// By default, Go collects when the garbage is as large as the live data. A small
	// store then spends much time in collections, which slows its writers. A store of
	// gigabytes needs twice its size, although its flat memory is cheap to scan. With
	// this rule, a server with a million tuples (36 MiB live) needs less than 200 MB.
	//
	// GOGC is large while little data is live. It must be adjusted soon after much
	// more is: many questions at once can make 500 MB of garbage in a second.
	heapMin        = 60 << 20
	heapGrowthMax  = 128 << 20
	heapPercentMin = 25
	heapPercentMax = 400
	heapLookEvery  = 100 * time.Millisecond
	heapLiveFigure = "/gc/heap/live:bytes"
	// envHeap is Go's own variable. If it is set, governHeap does nothing.
	envHeap = "GOGC"
)

// heapPercentFor returns the value of GOGC for live bytes of data.
func heapPercentFor(live uint64) int {
	growth := min(live/2, heapGrowthMax)
	if live+growth < heapMin {
		growth = heapMin - live
	}
	return int(min(max(growth*100/max(live, 1), heapPercentMin), heapPercentMax))
}

// governHeap adjusts GOGC to heapPercentFor every heapLookEvery until the caller
// calls stop. It does nothing if the environment sets GOGC.
func (a *app) governHeap() (stop func()) {
	if value, _ := a.Lookup(envHeap); value != "" {
		return func() {}
	}
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(heapLookEvery)
		defer tick.Stop()
		figure := []metrics.Sample{{Name: heapLiveFigure}}
		var idle heapReturn
		for set := 0; ; {
			idle.look()
			metrics.Read(figure)
			if figure[0].Value.Kind() != metrics.KindUint64 {
				return // this version of Go does not have the metric
			}
			// Setting GOGC stops the world for a moment, so small changes are skipped.
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
