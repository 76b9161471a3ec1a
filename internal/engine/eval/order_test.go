package eval

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestOrderHashVectors compares hashes with those of the first release: a
// change would change the order of lists.
func TestOrderHashVectors(t *testing.T) {
	t.Parallel()
	for _, v := range []struct {
		id   string
		hash uint64
	}{
		{"", 0xb9b7c1c47922d194},
		{"a", 0x1f56e4a40eb493b7},
		{"1", 0xaffe59cf2bbd67a3},
		{"anne", 0x005cbb4a27f86fac},
		{"01234567", 0x69c034b5e31b5b0a},
		{"doc-0123456789", 0x61890b369bf10b09},
		{"ä\x00日本", 0x2c036374b99eb655},
		{"6f1c2d3e-4b5a-4978-8a9b-0c1d2e3f4a5b", 0xe9d8b6c8dbb1e17d},
	} {
		if got := OrderHash(v.id); got != v.hash {
			t.Errorf("{%q, %#016x}", v.id, got)
		}
	}
}

func TestOrderHashSpreads(t *testing.T) {
	t.Parallel()
	const n = 1 << 14
	var buckets [n]int
	seen := map[uint64]string{}
	for i := range n {
		id := fmt.Sprintf("d%d", i)
		h := OrderHash(id)
		if other, ok := seen[h]; ok {
			t.Fatalf("%q and %q collide", id, other)
		}
		seen[h] = id
		buckets[h>>50]++
	}
	// Evenly random: 1/e of the buckets stay empty, and none has many.
	empty, most := 0, slices.Max(buckets[:])
	for _, b := range buckets {
		if b == 0 {
			empty++
		}
	}
	if empty < n*34/100 || empty > n*40/100 || most > 12 {
		t.Errorf("%d of %d buckets are empty, the fullest holds %d", empty, n, most)
	}
}

func TestOrderSorts(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 2, orderSmall - 1, orderSmall, orderSmall + 1, 1000, 70_000} {
		for _, mode := range []string{"random", "colliding", "repeated"} {
			rng := rand.New(rand.NewPCG(uint64(n), 1))
			ids := make([]string, n)
			entries := make([]orderedID, n)
			for i := range ids {
				k := rng.IntN(n + 1)
				if mode == "repeated" {
					k = rng.IntN(n/3 + 1)
				}
				ids[i] = fmt.Sprint("x", k)
				entries[i] = orderedID{OrderHash(ids[i]), uint32(i)}
				if mode == "colliding" {
					entries[i].hash = 7
				}
			}
			got, _ := orderUnique(entries, make([]orderedID, n), nil, ids)
			want := slices.Clone(ids)
			slices.SortFunc(want, func(a, b string) int {
				if mode == "colliding" {
					return strings.Compare(a, b)
				}
				return PositionOf(a).Compare(PositionOf(b))
			})
			want = slices.Compact(want)
			if len(got) != len(want) {
				t.Fatalf("%s %d: %d entries, want %d", mode, n, len(got), len(want))
			}
			for i, e := range got {
				if ids[e.index] != want[i] {
					t.Fatalf("%s %d: entry %d is %s, want %s", mode, n, i, ids[e.index], want[i])
				}
				if n > 2000 {
					continue
				}
				if first := slices.Index(ids[:e.index], ids[e.index]); first >= 0 {
					t.Fatalf("%s %d: kept %d, not its first %d", mode, n, e.index, first)
				}
			}
		}
	}
}
