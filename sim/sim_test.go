package sim

import (
	"flag"
	"testing"
	"testing/synctest"
)

var (
	runs = flag.Uint64("runs", 20, "number of runs")
	seed = flag.Uint64("seed", 1, "first seed")
)

func TestRuns(t *testing.T) {
	for n := range *runs {
		synctest.Test(t, func(t *testing.T) {
			if err := Run(t.Context(), *seed+n); err != nil {
				t.Error(err)
			}
		})
		if t.Failed() {
			return
		}
	}
}
