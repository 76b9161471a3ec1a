package memory

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// shape checks the tree's own rules and returns its height.
func shape(t *testing.T, n *node, stamp uint64) int {
	t.Helper()
	if n.stamp > stamp || len(n.keys) == 0 || len(n.keys) > nodeMax {
		t.Fatalf("a node of stamp %d has %d keys in a tree of stamp %d", n.stamp, len(n.keys), stamp)
	}
	if n.leaf() {
		if !slices.IsSorted(n.keys) || len(n.keys) != len(n.values) {
			t.Fatalf("a leaf of %d keys and %d values", len(n.keys), len(n.values))
		}
		return 1
	}
	height := 0
	for i, kid := range n.kids {
		h := shape(t, kid, stamp)
		if i > 0 && (h != height || kid.first() < n.keys[i]) {
			t.Fatalf("child %d has height %d and first key %q below %q", i, h, kid.first(), n.keys[i])
		}
		if i+1 < len(n.kids) && kid.last() >= n.keys[i+1] {
			t.Fatalf("child %d ends in %q, the next begins at %q", i, kid.last(), n.keys[i+1])
		}
		height = h
	}
	return height + 1
}

func (n *node) last() string {
	for !n.leaf() {
		n = n.kids[len(n.kids)-1]
	}
	return n.keys[len(n.keys)-1]
}

// Batches of random changes leave what a map holds after them, older versions
// stay as they were, and cursors walk the range in order.
func TestTreeAgainstMap(t *testing.T) {
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
		// Most rounds take no version, so that the next changes nodes in place.
		v := &version{store.tree.root, store.tree.stamp}
		if v.root != nil {
			shape(t, v.root, v.stamp)
		}
		if round%10 == 0 {
			pasts = append(pasts, past{store.take(), maps.Clone(want)})
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
			t.Fatalf("at place %d of [%q, %q) stands %q", n, lower, upper, it.Key())
		}
		n++
	}
	if n != len(keys) || it.Next() {
		t.Fatalf("[%q, %q) has %d keys, want %d", lower, upper, n, len(keys))
	}
	for i := 0; i < len(keys); i += 1 + len(keys)/20 {
		if value, ok, _ := v.Get([]byte(keys[i]), nil); !ok || string(value) != want[keys[i]] {
			t.Fatalf("%q is %q", keys[i], value)
		}
	}
	seek, _ := v.Scan([]byte(lower), []byte(upper))
	for i := 0; i < len(keys); i += 1 + len(keys)/20 {
		if !seek.Seek([]byte(keys[i])) || string(seek.Key()) != keys[i] {
			t.Fatalf("Seek(%q) did not find it", keys[i])
		}
	}
	if seek.Seek([]byte(upper)) {
		t.Fatalf("Seek found %q behind the range", seek.Key())
	}
}

// Ascending keys fill nodes, and removed ones give their memory back.
func TestTreeIsCompact(t *testing.T) {
	t.Parallel()
	tr := tree{stamp: 1}
	for i := range 10_000 {
		tr.set(fmt.Sprintf("%06d", i), "")
	}
	if n := leaves(tr.root); n > 10_000/(nodeMax-8) {
		t.Errorf("%d leaves for 10,000 ascending keys", n)
	}
	for i := range 10_000 {
		if i%100 != 0 {
			tr.delete(fmt.Sprintf("%06d", i))
		}
	}
	if n := leaves(tr.root); n > 16 {
		t.Errorf("%d leaves for 100 keys", n)
	}
	tr.deleteRange("", "z")
	if tr.root != nil {
		t.Error("an empty tree has a root")
	}
}

func leaves(n *node) int {
	if n.leaf() {
		return 1
	}
	sum := 0
	for _, kid := range n.kids {
		sum += leaves(kid)
	}
	return sum
}
