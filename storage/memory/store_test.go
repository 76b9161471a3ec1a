package memory

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/storage"
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

// TestBatch commits and closes batches twice, with values around jointMax. What a
// reader gets may be changed.
func TestBatch(t *testing.T) {
	t.Parallel()
	s := NewStore()
	for _, n := range []int{0, 1, jointMax - 1, jointMax, jointMax + 1} {
		key, value := []byte(fmt.Sprint("key", n)), bytes.Repeat([]byte("v"), n)
		b := s.Batch()
		if err := b.Set(key, value); err != nil {
			t.Fatal(err)
		}
		clear(key) // the batch has a copy
		clear(value)
		if err := b.Commit(); err != nil {
			t.Fatal(err)
		}
		if err := b.Commit(); !errors.Is(err, storage.ErrTransaction) {
			t.Errorf("a second commit: %v", err)
		}
		for range 2 { // the second time, after the first result was changed
			got, found, err := s.Get([]byte(fmt.Sprint("key", n)), []byte("before"))
			if want := "before" + strings.Repeat("v", n); string(got) != want || !found || err != nil {
				t.Errorf("value of %d bytes: %d bytes, %v, %v", n, len(got), found, err)
			}
			clear(got)
		}
	}
	dropped := s.Batch()
	if err := dropped.Set([]byte("dropped"), nil); err != nil {
		t.Fatal(err)
	}
	if err := dropped.Close(); err != nil {
		t.Fatal(err)
	}
	if err := dropped.Commit(); !errors.Is(err, storage.ErrTransaction) {
		t.Errorf("a commit after Close: %v", err)
	}
	if got, found, _ := s.Get([]byte("dropped"), []byte("x")); found || string(got) != "x" {
		t.Errorf("the dropped batch was committed: %q, %v", got, found)
	}
	it, err := s.Scan([]byte("key1"), []byte("key1024"))
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for it.Next() {
		keys = append(keys, string(it.Key()))
		clear(it.Key())
		clear(it.Value())
		if string(it.Key()) != keys[len(keys)-1] || len(it.Value()) > 0 && it.Value()[0] != 'v' {
			t.Error("a change of what the iterator returned changed the store")
		}
	}
	if want := []string{"key1", "key1023"}; !slices.Equal(keys, want) || it.Next() || it.Err() != nil || it.Close() != nil {
		t.Errorf("keys %q, want %q", keys, want)
	}
	if again, err := s.Scan([]byte("key1"), []byte("key1024")); err != nil || !again.Seek([]byte("a")) || string(again.Key()) != "key1" || again.Seek([]byte("key1024")) {
		t.Errorf("a seek below the range does not find its first key, or one above finds a key: %v", err)
	}
}

// TestVersions reads versions of a Store while small and large batches change it.
func TestVersions(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, inPlaceMax, inPlaceMax + 1} {
		s := NewStore()
		write := func(value string) {
			t.Helper()
			b := s.Batch()
			for i := range n {
				if err := b.Set([]byte(fmt.Sprint(i)), []byte(value)); err != nil {
					t.Fatal(err)
				}
			}
			if err := b.Commit(); err != nil {
				t.Fatal(err)
			}
		}
		write("0")
		for round := range 5 {
			snap, err := s.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			it, err := s.Scan(nil, []byte("x"))
			if err != nil {
				t.Fatal(err)
			}
			write(fmt.Sprint(round + 1))
			write(fmt.Sprint(round + 1)) // no version was returned in between
			for i := range n {
				key := []byte(fmt.Sprint(i))
				now, _, _ := s.Get(key, nil)
				before, _, _ := snap.Get(key, nil)
				if string(now) != fmt.Sprint(round+1) || string(before) != fmt.Sprint(round) {
					t.Fatalf("%d changes, round %d: %q now, %q before", n, round, now, before)
				}
			}
			seen := 0
			for ; it.Next(); seen++ {
				if string(it.Value()) != fmt.Sprint(round) {
					t.Fatalf("%d changes, round %d: the iterator returns %q", n, round, it.Value())
				}
			}
			if seen != n {
				t.Fatalf("%d keys, want %d", seen, n)
			}
		}
	}
}

// Clones of a Store, and the Store itself, change independently.
func TestClone(t *testing.T) {
	t.Parallel()
	put := func(s *Store, key, value string) {
		b := s.Batch()
		b.Set([]byte(key), []byte(value))
		if err := b.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	one := NewStore()
	for i := range 100 {
		put(one, fmt.Sprint(i), "one")
	}
	two := one.Clone()
	three := two.Clone()
	put(one, "5", "changed in one")
	put(two, "5", "changed in two")
	put(two, "7", "again")
	for s, want := range map[*Store][2]string{one: {"changed in one", "one"}, two: {"changed in two", "again"}, three: {"one", "one"}} {
		for i, key := range []string{"5", "7"} {
			if got, _, err := s.Get([]byte(key), nil); err != nil || string(got) != want[i] {
				t.Errorf("key %s is %q, error %v; want %q", key, got, err, want[i])
			}
		}
	}
}
