package serve

import (
	"runtime/metrics"
	"testing"

	"github.com/ostiary/ostiary/internal/workshop/bench"
)

func TestHeapPercentFor(t *testing.T) {
	t.Parallel()
	for live, want := range map[uint64]int{0: 400, 1 << 20: 400, 12 << 20: 400, 20 << 20: 200, 36 << 20: 66, 40 << 20: 50, 80 << 20: 50, 256 << 20: 50, 512 << 20: 25, 1 << 30: 25, 1 << 60: 25} {
		if got := heapPercentFor(live); got != want {
			t.Errorf("%d live bytes: %d, want %d", live, got, want)
		}
	}
	if got := heapPercentFor(bench.HeldHeapBytes); got != bench.HeldGCPercent {
		t.Errorf("bench.HeldGCPercent is %d, serve uses %d for the same heap", bench.HeldGCPercent, got)
	}
	figure := []metrics.Sample{{Name: heapLiveFigure}}
	if metrics.Read(figure); figure[0].Value.Kind() != metrics.KindUint64 {
		t.Error("Go no longer has the metric of the live heap")
	}
}
