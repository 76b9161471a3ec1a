package eval

// smallMap maps keys to values and keeps the order in which they were added.
// Most have few entries, so the entries are searched one by one. An index is made
// only beyond smallMapLinearMax entries. It is safe for concurrent readers.
type smallMap[K comparable, V any] struct {
	entries []smallEntry[K, V]
	index   map[K]int32 // places in entries; nil for few
}

type smallEntry[K comparable, V any] struct {
	key   K
	value V
}

// smallMapLinearMax is the number of entries up to which a smallMap is searched
// without an index.
const smallMapLinearMax = 16

// find returns the place of a key's entry, or -1.
func (m *smallMap[K, V]) find(k K) int {
	if m.index != nil {
		if i, ok := m.index[k]; ok {
			return int(i)
		}
		return -1
	}
	for i := range m.entries {
		if m.entries[i].key == k {
			return i
		}
	}
	return -1
}

// add adds an entry for a key that has none, and returns its value. The value is
// not zero if the memory of entries is used again: it is then that of an earlier
// entry at this place.
func (m *smallMap[K, V]) add(k K) *V {
	n := len(m.entries)
	if n == smallMapLinearMax {
		m.index = make(map[K]int32, 2*smallMapLinearMax)
		for i := range m.entries {
			m.index[m.entries[i].key] = int32(i)
		}
	}
	if m.index != nil {
		m.index[k] = int32(n)
	}
	if n < cap(m.entries) {
		m.entries = m.entries[:n+1]
	} else {
		m.entries = append(m.entries, smallEntry[K, V]{})
	}
	m.entries[n].key = k
	return &m.entries[n].value
}
