package bench

import (
	"os"
	"runtime"
	"runtime/debug"
)

const (
	// HeldHeapBytes is the live heap that [HoldHeap] adds: about what a server
	// with a million tuples in memory has.
	HeldHeapBytes = 36 << 20
	// HeldGCPercent is the garbage collector's setting of [HoldHeap]. "ostiary
	// serve" uses the same one for a live heap of HeldHeapBytes.
	HeldGCPercent = 66
)

// HoldHeap gives this process a live heap and a garbage collector setting like
// those of a server with data, until release is called. Without it, a floor has
// almost no live heap, and its garbage collector runs many times as often as
// that of the compared server. HoldHeap keeps the collector's setting if the
// environment sets GOGC.
func HoldHeap() (release func()) {
	held := make([]byte, HeldHeapBytes)
	if os.Getenv("GOGC") == "" {
		before := debug.SetGCPercent(HeldGCPercent)
		return func() {
			debug.SetGCPercent(before)
			runtime.KeepAlive(held)
		}
	}
	return func() { runtime.KeepAlive(held) }
}
