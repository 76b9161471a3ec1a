package main

import (
	"runtime/metrics"
	"testing"
)

func TestHeapPercentFor(t *testing.T) {
	t.Parallel()
	for live, want := range map[uint64]int{0: 100, 1 << 20: 100, 256 << 20: 100, 256<<20 + 1: 99, 512 << 20: 50, 1 << 30: 25, 10 << 30: 10, 1 << 40: 10} {
		if got := heapPercentFor(live); got != want {
			t.Errorf("%d live bytes: %d, want %d", live, got, want)
		}
	}
	figure := []metrics.Sample{{Name: heapLiveFigure}}
	if metrics.Read(figure); figure[0].Value.Kind() != metrics.KindUint64 {
		t.Error("Go does not tell the live heap any more")
	}
}
