package btree

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// Random edits of a Map and of a Go map have the same result, and versions that
// were frozen on the way keep their entries. Some versions are edited twice.
func TestMapAgainstGoMap(t *testing.T) {
	t.Parallel()
	t.Run("string", func(t *testing.T) {
		t.Parallel()
		compareRandomly(t, func(i int) string { return fmt.Sprintf("%05d", i) })
	})
	t.Run("uint64", func(t *testing.T) {
		t.Parallel()
		compareRandomly(t, func(i int) uint64 { return uint64(i) << 20 })
	})
}

// version is a Map and the entries that it must have.
type version[K cmp.Ordered] struct {
	m    Map[K, uint32]
	want map[K]uint32
}

func compareRandomly[K cmp.Ordered](t *testing.T, key func(int) K) {
	const seed, keys = 3, 20_000
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	var frozen []version[K]
	now := version[K]{want: map[K]uint32{}}
	for round := range 200 {
		if round%3 > 0 {
			now.m = now.m.Edit()
		}
		for range rng.IntN(2000) {
			now.change(t, rng, key, keys)
		}
		checkShape(t, now.m)
		now.checkRange(t, key(rng.IntN(keys)), key(rng.IntN(keys)))
		if round%10 == 0 {
			frozen = append(frozen, version[K]{now.m, maps.Clone(now.want)})
			now.m = now.m.Edit()
		}
		if round%50 == 49 { // go on from an older version that has a successor already
			old := frozen[rng.IntN(len(frozen))]
			now = version[K]{old.m.Edit(), maps.Clone(old.want)}
		}
	}
	for _, v := range frozen {
		checkShape(t, v.m)
		v.checkRange(t, key(0), key(keys))
	}
}

// change makes one random change in both maps.
func (v *version[K]) change(t *testing.T, rng *rand.Rand, key func(int) K, keys int) {
	t.Helper()
	k := key(rng.IntN(keys))
	old, exists := v.want[k]
	switch choice := rng.IntN(160); {
	case choice == 0:
		upper := key(rng.IntN(keys))
		v.m.DeleteRange(k, upper)
		maps.DeleteFunc(v.want, func(have K, _ uint32) bool { return k <= have && have < upper })
	case choice < 60:
		if value, ok := v.m.Delete(k); ok != exists || value != old {
			t.Fatalf("Delete(%v) = %d, %t; want %d, %t", k, value, ok, old, exists)
		}
		delete(v.want, k)
	default:
		v.want[k] = rng.Uint32()
		v.m.Set(k, v.want[k])
	}
}

// checkRange reads the keys from lower up to upper in every way that there is.
func (v *version[K]) checkRange(t *testing.T, lower, upper K) {
	t.Helper()
	if v.m.Len() != len(v.want) {
		t.Fatalf("Len() = %d, want %d", v.m.Len(), len(v.want))
	}
	var keys []K
	for _, k := range slices.Sorted(maps.Keys(v.want)) {
		if lower <= k && k < upper {
			keys = append(keys, k)
		}
	}
	var ascended []K
	v.m.Ascend(lower, func(k K, value uint32) bool {
		if k >= upper {
			return false
		}
		if value != v.want[k] {
			t.Fatalf("Ascend: key %v has value %d, want %d", k, value, v.want[k])
		}
		ascended = append(ascended, k)
		return true
	})
	if !slices.Equal(ascended, keys) {
		t.Fatalf("Ascend: %d keys from %v to %v, want %d", len(ascended), lower, upper, len(keys))
	}
	walk := v.m.Cursor()
	for i, ok := 0, walk.Seek(lower); i < len(keys); i, ok = i+1, walk.Next() {
		if !ok || walk.Key() != keys[i] || walk.Value() != v.want[keys[i]] {
			t.Fatalf("Cursor: entry %d from %v is not key %v", i, lower, keys[i])
		}
	}
	seek := v.m.Cursor()
	for i := 0; i < len(keys); i += 1 + len(keys)/20 {
		if !seek.Seek(keys[i]) || seek.Key() != keys[i] {
			t.Fatalf("Seek(%v) does not find the key", keys[i])
		}
		if value, ok := v.m.Get(keys[i]); !ok || value != v.want[keys[i]] {
			t.Fatalf("Get(%v) = %d, %t; want %d", keys[i], value, ok, v.want[keys[i]])
		}
	}
}

// checkShape checks the rules that are stated at the type node.
func checkShape[K cmp.Ordered](t *testing.T, m Map[K, uint32]) {
	t.Helper()
	if m.root != nil {
		checkNode(t, m.root, m.stamp)
	}
}

// checkNode returns the height of n.
func checkNode[K cmp.Ordered](t *testing.T, n *node[K, uint32], stamp uint64) (height int) {
	t.Helper()
	if n.stamp > stamp || len(n.keys) == 0 || len(n.keys) > nodeMax {
		t.Fatalf("version %d has a node of version %d with %d keys", stamp, n.stamp, len(n.keys))
	}
	if n.kids == nil {
		if !slices.IsSorted(n.keys) || len(n.keys) != len(n.values) {
			t.Fatalf("a leaf has %d keys, which must be sorted, and %d values", len(n.keys), len(n.values))
		}
		return 1
	}
	if len(n.kids) != len(n.keys) {
		t.Fatalf("an inner node has %d keys and %d kids", len(n.keys), len(n.kids))
	}
	for i, kid := range n.kids {
		h := checkNode(t, kid, stamp)
		if i > 0 && (h != height || kid.first() < n.keys[i]) {
			t.Fatalf("kid %d has height %d and first key %v; its neighbor has height %d, its bound is %v",
				i, h, kid.first(), height, n.keys[i])
		}
		if i+1 < len(n.kids) && kid.last() >= n.keys[i+1] {
			t.Fatalf("kid %d ends with key %v, but its neighbor begins at %v", i, kid.last(), n.keys[i+1])
		}
		height = h
	}
	return height + 1
}

func (n *node[K, V]) last() K {
	for n.kids != nil {
		n = n.kids[len(n.kids)-1]
	}
	return n.keys[len(n.keys)-1]
}

// Build gives the same map as Set, for sizes around a node's, and refuses
// duplicates. The built map can be edited.
func TestBuild(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, buildFill, buildFill + 1, nodeMax, nodeMax + 1, 10_000} {
		want := map[uint64]uint32{}
		var entries []Entry[uint64, uint32]
		for i := range size {
			key := uint64(size - i)
			entries = append(entries, Entry[uint64, uint32]{key, uint32(i)})
			want[key] = uint32(i)
		}
		m, ok := Build(entries)
		if !ok {
			t.Fatalf("%d different keys are reported as duplicates", size)
		}
		built := version[uint64]{m, want}
		checkShape(t, m)
		built.checkRange(t, 0, uint64(size)+1)
		edited := m.Edit()
		for key := range want {
			edited.Delete(key)
			edited.Set(key+100_000, 1)
		}
		checkShape(t, edited)
		built.checkRange(t, 0, uint64(size)+1)
		if _, ok = Build(append(entries, entries...)); ok != (size == 0) {
			t.Fatalf("%d duplicates are not reported", size)
		}
	}
}

// Ascending insertions fill nodes, and deletions free them.
func TestCompactness(t *testing.T) {
	t.Parallel()
	const size = 10_000
	var m Map[string, string]
	for i := range size {
		m.Set(fmt.Sprintf("%06d", i), "")
	}
	if n := countLeaves(m.root); n > size/(nodeMax-8) {
		t.Errorf("%d leaves for %d ascending keys", n, size)
	}
	for i := range size {
		if i%100 != 0 {
			m.Delete(fmt.Sprintf("%06d", i))
		}
	}
	if n := countLeaves(m.root); n > 16 {
		t.Errorf("%d leaves for 100 keys", n)
	}
	m.DeleteRange("", "z")
	if m.root != nil || m.Len() != 0 {
		t.Error("an empty map still has a root")
	}
}

func countLeaves[K cmp.Ordered, V any](n *node[K, V]) int {
	if n.kids == nil {
		return 1
	}
	sum := 0
	for _, kid := range n.kids {
		sum += countLeaves(kid)
	}
	return sum
}
