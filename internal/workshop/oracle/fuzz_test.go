package oracle

import (
	"errors"
	"testing"
)

// FuzzWorlds lets a fuzzer choose a seed and some tuples to remove from its
// world, and tries every law on the rest.
func FuzzWorlds(f *testing.F) {
	f.Add(uint64(1), uint64(0))
	f.Add(uint64(250), uint64(5))
	f.Fuzz(func(t *testing.T, seed, without uint64) {
		w := Random(seed)
		for i := range w.Stored {
			if without&(1<<(i%64)) != 0 {
				w.Stored[i].Expires = w.Now // as if it was removed
			}
		}
		b, err := NewBench(seed, w, nil, nil)
		if errors.Is(err, ErrInvalid) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, law := range Laws() {
			if fail := law.try(b); fail != nil {
				t.Fatal(shrinkFailure(law, b, fail))
			}
		}
	})
}
