package memory

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// After batches of random changes a Store has the same pairs as a Go map.
// Versions that were taken before keep theirs, and iterators walk a range in
// order.
func TestStoreAgainstMap(t *testing.T) {
	t.Parallel()
	const seed = 3
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	key := func() string { return fmt.Sprintf("%05d", rng.IntN(20_000)) }
	type past struct {
		v    *version
		want map[string]string
	}
	store, want := NewStore(), map[string]string{}
	var pasts []past
	for round := range 120 {
		b := store.Batch()
		for range rng.IntN(2 * inPlaceMax) {
			k, v := key(), fmt.Sprint(rng.Uint32())
			switch rng.IntN(8) {
			case 0, 1, 2:
				b.Delete([]byte(k))
				delete(want, k)
			case 3:
				if rng.IntN(20) > 0 {
					continue
				}
				upper := key()
				b.DeleteRange([]byte(k), []byte(upper))
				maps.DeleteFunc(want, func(have, _ string) bool { return k <= have && have < upper })
			default:
				b.Set([]byte(k), []byte(v))
				want[k] = v
			}
		}
		if err := b.Commit(); err != nil {
			t.Fatal(err)
		}
		// Most rounds take no version, so that the next commit changes nodes in place.
		v := &version{store.pairs}
		if round%10 == 0 {
			pasts = append(pasts, past{store.newest(), maps.Clone(want)})
		}
		lower, upper := key(), key()
		checkRange(t, v, want, lower, upper)
	}
	for _, p := range pasts {
		checkRange(t, p.v, p.want, "", "x")
	}
}

func checkRange(t *testing.T, v *version, want map[string]string, lower, upper string) {
	t.Helper()
	var keys []string
	for _, k := range slices.Sorted(maps.Keys(want)) {
		if lower <= k && k < upper {
			keys = append(keys, k)
		}
	}
	it, err := v.Scan([]byte(lower), []byte(upper))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for it.Next() {
		if n == len(keys) || string(it.Key()) != keys[n] || string(it.Value()) != want[keys[n]] {
			t.Fatalf("entry %d of [%q, %q) is key %q with value %q", n, lower, upper, it.Key(), it.Value())
		}
		n++
	}
	if n != len(keys) || it.Next() {
		t.Fatalf("[%q, %q) has %d keys, want %d", lower, upper, n, len(keys))
	}
	for i := 0; i < len(keys); i += 1 + len(keys)/20 {
		if value, ok, _ := v.Get([]byte(keys[i]), nil); !ok || string(value) != want[keys[i]] {
			t.Fatalf("Get(%q) = %q, %t; want %q", keys[i], value, ok, want[keys[i]])
		}
	}
	seek, _ := v.Scan([]byte(lower), []byte(upper))
	for i := 0; i < len(keys); i += 1 + len(keys)/20 {
		if !seek.Seek([]byte(keys[i])) || string(seek.Key()) != keys[i] {
			t.Fatalf("Seek(%q) does not find the key", keys[i])
		}
	}
	if seek.Seek([]byte(upper)) {
		t.Fatalf("Seek finds key %q, which is after the range", seek.Key())
	}
}
