package eval

import "testing"

// TestSmallMap adds entries up to and beyond the number that has no index.
func TestSmallMap(t *testing.T) {
	t.Parallel()
	var m smallMap[int, string]
	for i := range 3 * smallMapLinearMax {
		if at := m.find(-i); at >= 0 {
			t.Fatalf("entry %d is at place %d before it is added", i, at)
		}
		*m.add(-i) = string(rune('a' + i))
		if indexed := m.index != nil; indexed != (i >= smallMapLinearMax) {
			t.Errorf("%d entries, index: %v", i+1, indexed)
		}
		for j := range i + 1 {
			if at := m.find(-j); at != j || m.entries[at].key != -j || m.entries[at].value != string(rune('a'+j)) {
				t.Fatalf("of %d entries, %d is at place %d", i+1, j, at)
			}
		}
	}
	// Entries that are emptied keep their memory.
	few := smallMap[int, []int]{}
	*few.add(1) = make([]int, 0, 100)
	few.entries = few.entries[:0]
	if few.find(1) >= 0 || cap(*few.add(2)) != 100 || few.find(2) != 0 {
		t.Error("the memory of an entry is lost")
	}
}
