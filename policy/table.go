package policy

// table numbers keys in the order of their first use. It is a hash table whose
// hashes the caller computes, so that a table over keys that are hashed already
// costs little. It must not be changed concurrently.
type table[K comparable] struct {
	cells []tableCell // a power of two, at most half of it used
	keys  []K
}

// tableCell is a place of a table.
type tableCell struct {
	hash  uint32 // upper half of the hash
	entry int32  // number of the key plus 1; 0 if the cell is free
}

// newTable returns a table for at most count keys.
func newTable[K comparable](count int) *table[K] {
	size := 4
	for size < 2*count {
		size *= 2
	}
	return &table[K]{cells: make([]tableCell, size), keys: make([]K, 0, count)}
}

// find returns the number of a key, or -1 if the table does not have it.
func (t *table[K]) find(hash uint64, k *K) int {
	n, _ := t.search(hash, k)
	return n
}

// search returns the number of a key or -1, and its cell or the free cell for it.
func (t *table[K]) search(hash uint64, k *K) (number, cell int) {
	mask := len(t.cells) - 1
	for i := int(hash) & mask; ; i = (i + 1) & mask {
		c := t.cells[i]
		if c.entry == 0 {
			return -1, i
		}
		if c.hash == uint32(hash>>32) && t.keys[c.entry-1] == *k {
			return int(c.entry) - 1, i
		}
	}
}

// add returns the number of a key, and numbers it if it is new.
func (t *table[K]) add(hash uint64, k K) (number int, isNew bool) {
	n, cell := t.search(hash, &k)
	if n >= 0 {
		return n, false
	}
	t.keys = append(t.keys, k)
	t.cells[cell] = tableCell{uint32(hash >> 32), int32(len(t.keys))}
	return len(t.keys) - 1, true
}
