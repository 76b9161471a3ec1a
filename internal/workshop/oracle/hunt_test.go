package oracle

import "testing"

// TestHunt tries every law on random worlds until one fails. Package faults
// runs it on an engine with a seeded fault, and expects it to fail there.
// OSTIARY_HUNT is the number of worlds to try; without it the test is skipped.
// OSTIARY_SEED is the first world's seed.
func TestHunt(t *testing.T) {
	worldsMax := setting(t, "OSTIARY_HUNT", 0)
	if worldsMax == 0 {
		t.Skip("OSTIARY_HUNT is not set")
	}
	laws := append(Laws(), StoreLaws()...)
	worlds := uint64(0)
	for seed := setting(t, "OSTIARY_SEED", seedDefault); worlds < worldsMax; seed++ {
		b, err := NewBench(seed, Random(seed), nil, nil)
		if err != nil {
			continue // the model does not compile
		}
		worlds++
		for i, law := range laws {
			if !law.due(seed, i, 1) {
				continue
			}
			if f := law.try(b); f != nil {
				t.Fatalf("caught: seed %d, worlds %d, law %q\n%v", seed, worlds, law.Name, f)
			}
		}
	}
}
