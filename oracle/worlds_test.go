package oracle

import (
	"os"
	"strconv"
	"sync"
	"testing"
)

// setting reads one of the environment.
func setting(t testing.TB, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

const (
	worldsDefault = 5000
	seedDefault   = 1
	workersMax    = 2
)

// TestWorlds holds every law on random worlds. OSTIARY_WORLDS says how many
// (a long run takes 1000000), OSTIARY_SEED where to begin.
func TestWorlds(t *testing.T) {
	t.Parallel()
	count, first := setting(t, "OSTIARY_WORLDS", worldsDefault), setting(t, "OSTIARY_SEED", seedDefault)
	workers := uint64(1)
	if count > worldsDefault {
		workers = workersMax
	}
	parts, failures := make([]Coverage, workers), make([]error, workers)
	var wait sync.WaitGroup
	for i := range workers {
		wait.Go(func() {
			from, to := first+count*i/workers, first+count*(i+1)/workers
			failures[i] = Run(from, to-from, append(Laws(), StoreLaws()...), &parts[i])
		})
	}
	wait.Wait()
	var c Coverage
	for i := range parts {
		c.Add(&parts[i])
		if failures[i] != nil {
			t.Error(failures[i])
		}
	}
	t.Logf("\n%s", c.String())
}
