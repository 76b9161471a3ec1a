package main

import (
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// heapGrowthMax is how much garbage a large heap may gather before Go collects
	// it, in bytes. Go's own rule is as much as there is live data; of stores of
	// gigabytes, which are flat memory that the collector need not walk, that is
	// memory bought for nothing.
	heapGrowthMax    = 256 << 20
	heapPercent      = 100
	heapPercentMin   = 10
	heapLookEvery    = 2 * time.Second
	heapLiveFigure   = "/gc/heap/live:bytes"
	heapGoverningEnv = "GOGC" // who sets it governs the heap himself
)

// heapPercentFor is GOGC for so much live data.
func heapPercentFor(live uint64) int {
	if live <= heapGrowthMax {
		return heapPercent
	}
	return max(heapPercentMin, int(heapGrowthMax*100/live))
}

// governHeap keeps GOGC at heapPercentFor until the returned function is
// called, unless the environment sets it.
func (a *app) governHeap() (stop func()) {
	if value, _ := a.lookup(heapGoverningEnv); value != "" {
		return func() {}
	}
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(heapLookEvery)
		defer tick.Stop()
		figure := []metrics.Sample{{Name: heapLiveFigure}}
		for set := heapPercent; ; {
			select {
			case <-end:
				return
			case <-tick.C:
			}
			metrics.Read(figure)
			if figure[0].Value.Kind() != metrics.KindUint64 {
				return // this Go does not tell
			}
			if want := heapPercentFor(figure[0].Value.Uint64()); want != set {
				debug.SetGCPercent(want)
				set = want
			}
		}
	}()
	return func() {
		close(end)
		<-done
	}
}
