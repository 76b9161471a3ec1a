// Package btree holds sorted maps in memory that can be copied in constant
// time. Its main types are [Map] and [Cursor]. The graph keeps conditions and
// attributes in such maps, storage/memory keeps whole stores. The package
// starts no goroutine and takes no lock.
package btree

import (
	"cmp"
	"slices"
)

// Map is a sorted map: a B+ tree whose nodes are shared between versions and
// copied when they change. The zero Map is empty and ready for use.
//
// A Map is either edited or frozen. [Map.Edit] freezes it and returns the next
// version. A frozen Map may be copied, kept and read by any number of
// goroutines; Set, Delete and DeleteRange must not be called on it or on a copy
// of it. While a Map is edited it belongs to one goroutine.
//
// Floating point keys must not be NaN.
type Map[K cmp.Ordered, V any] struct {
	root   *node[K, V] // nil: empty
	stamp  uint64      // number of this version; see node.stamp
	length int         // entries
}

// node is a leaf, which has values, or an inner node, which has kids. All
// leaves have the same depth. A node in a finished tree is not empty.
type node[K cmp.Ordered, V any] struct {
	// stamp is the version that made the node. A version changes nodes of its own
	// stamp in place and copies all others first. Versions that were made from the
	// same frozen Map have equal stamps, but share only older nodes.
	stamp uint64
	// keys are a leaf's keys in ascending order. In an inner node keys[i] is at
	// most the least key below kids[i] and above all keys below kids[i-1];
	// keys[0] has no meaning.
	keys   []K
	values []V           // of a leaf: values[i] belongs to keys[i]
	kids   []*node[K, V] // of an inner node; nil in a leaf
}

const (
	nodeMax = 64          // most entries or kids of a node
	nodeMin = nodeMax / 4 // a node of this size or less joins a neighbor that has room
)

// Edit freezes m and returns a version with the same entries that can be
// changed without an effect on m. It takes constant time.
func (m Map[K, V]) Edit() Map[K, V] {
	m.stamp++
	return m
}

// Len returns the number of entries.
func (m Map[K, V]) Len() int { return m.length }

// Get returns the value of key. ok is false if m does not have the key.
func (m Map[K, V]) Get(key K) (value V, ok bool) {
	n := m.root
	if n == nil {
		return value, false
	}
	for n.kids != nil {
		n = n.kids[n.child(key)]
	}
	i := n.search(key)
	if i == len(n.keys) || n.keys[i] != key {
		return value, false
	}
	return n.values[i], true
}

// child returns the index of the kid below which key belongs.
func (n *node[K, V]) child(key K) int {
	low, high := 1, len(n.keys)
	for low < high {
		middle := int(uint(low+high) >> 1)
		if n.keys[middle] <= key {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low - 1
}

// search returns the index of a leaf's first key that is not below key.
func (n *node[K, V]) search(key K) int {
	low, high := 0, len(n.keys)
	for low < high {
		middle := int(uint(low+high) >> 1)
		if n.keys[middle] < key {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

// first returns the least key below n.
func (n *node[K, V]) first() K {
	for n.kids != nil {
		n = n.kids[0]
	}
	return n.keys[0]
}

// own returns n if this version made it, else a copy that this version may
// change.
func (m *Map[K, V]) own(n *node[K, V]) *node[K, V] {
	if n.stamp == m.stamp {
		return n
	}
	c := &node[K, V]{stamp: m.stamp, keys: roomy(n.keys)}
	if n.kids == nil {
		c.values = roomy(n.values)
	} else {
		c.kids = roomy(n.kids)
	}
	return c
}

// roomy copies s with room for two more elements, so that the first insertions
// into a copied node do not copy it again.
func roomy[E any](s []E) []E { return append(make([]E, 0, len(s)+2), s...) }

// inserted returns s with e at index i. It may change s in place. The capacity
// never exceeds what a node can hold.
func inserted[E any](s []E, i int, e E) []E {
	if len(s) == cap(s) {
		s = append(make([]E, 0, min(2*len(s)+2, nodeMax+1)), s...)
	}
	return slices.Insert(s, i, e)
}

// Set sets the value of key. It replaces the stored key as well, because a
// string key may share its memory with the value that it came with.
func (m *Map[K, V]) Set(key K, value V) {
	if m.root == nil {
		m.root = &node[K, V]{stamp: m.stamp, keys: []K{key}, values: []V{value}}
		m.length = 1
		return
	}
	m.root = m.own(m.root)
	if right := m.insert(m.root, key, value); right != nil {
		m.root = &node[K, V]{stamp: m.stamp, keys: make([]K, 2), kids: []*node[K, V]{m.root, right}}
		m.root.keys[1] = right.first()
	}
}

// insert sets key below n, which this version owns. If n must be split, insert
// returns the new right half.
func (m *Map[K, V]) insert(n *node[K, V], key K, value V) (right *node[K, V]) {
	if n.kids == nil {
		i := n.search(key)
		if i < len(n.keys) && n.keys[i] == key {
			n.keys[i], n.values[i] = key, value
			return nil
		}
		m.length++
		n.keys = inserted(n.keys, i, key)
		n.values = inserted(n.values, i, value)
		return m.split(n, i == len(n.keys)-1)
	}
	i := n.child(key)
	kid := m.own(n.kids[i])
	n.kids[i] = kid
	if right = m.insert(kid, key, value); right == nil {
		return nil
	}
	n.keys = inserted(n.keys, i+1, right.first())
	n.kids = inserted(n.kids, i+1, right)
	return m.split(n, i+1 == len(n.kids)-1)
}

// split halves n if it has more than nodeMax entries and returns the right
// half. If n grew at its end, the left part stays nearly full, so that
// ascending insertions fill nodes instead of halving them.
func (m *Map[K, V]) split(n *node[K, V], atEnd bool) (right *node[K, V]) {
	if len(n.keys) <= nodeMax {
		return nil
	}
	at := len(n.keys) / 2
	if atEnd {
		at = len(n.keys) - 2
	}
	right = &node[K, V]{stamp: m.stamp, keys: slices.Clone(n.keys[at:])}
	if n.kids == nil {
		right.values = slices.Clone(n.values[at:])
		n.values = slices.Delete(n.values, at, len(n.values))
	} else {
		right.kids = slices.Clone(n.kids[at:])
		n.kids = slices.Delete(n.kids, at, len(n.kids))
	}
	n.keys = slices.Delete(n.keys, at, len(n.keys))
	return right
}

// Delete removes key and returns the value that it had. ok is false if m does
// not have the key; then nothing is copied.
func (m *Map[K, V]) Delete(key K) (value V, ok bool) {
	if value, ok = m.Get(key); !ok {
		return value, false
	}
	m.root = m.own(m.root)
	m.remove(m.root, key)
	m.length--
	m.shrink()
	return value, true
}

// remove removes key, which exists, below n, which this version owns.
func (m *Map[K, V]) remove(n *node[K, V], key K) {
	if n.kids == nil {
		i := n.search(key)
		n.keys = slices.Delete(n.keys, i, i+1)
		n.values = slices.Delete(n.values, i, i+1)
		return
	}
	i := n.child(key)
	kid := m.own(n.kids[i])
	n.kids[i] = kid
	m.remove(kid, key)
	m.tidy(n, i)
}

// tidy removes n's kid i if it is empty. If the kid is small, tidy joins it
// with a neighbor, provided that both fit into one node.
func (m *Map[K, V]) tidy(n *node[K, V], i int) {
	kid := n.kids[i]
	switch {
	case len(kid.keys) == 0:
		n.dropKids(i, i+1)
	case len(kid.keys) > nodeMin:
	case i+1 < len(n.kids) && len(kid.keys)+len(n.kids[i+1].keys) <= nodeMax:
		m.join(n, i)
	case i > 0 && len(kid.keys)+len(n.kids[i-1].keys) <= nodeMax:
		m.join(n, i-1)
	}
}

// dropKids removes n's kids from index i up to j.
func (n *node[K, V]) dropKids(i, j int) {
	n.keys = slices.Delete(n.keys, i, j)
	n.kids = slices.Delete(n.kids, i, j)
}

// join appends the content of n's kid i+1 to its kid i and removes kid i+1.
func (m *Map[K, V]) join(n *node[K, V], i int) {
	left, right := m.own(n.kids[i]), n.kids[i+1]
	n.kids[i] = left
	size := len(left.keys)
	left.keys = append(left.keys, right.keys...)
	if left.kids == nil {
		left.values = append(left.values, right.values...)
	} else {
		left.kids = append(left.kids, right.kids...)
		left.keys[size] = n.keys[i+1]
	}
	n.dropKids(i+1, i+2)
}

// shrink replaces a root that has one kid by that kid, and an empty root by
// nil.
func (m *Map[K, V]) shrink() {
	for m.root.kids != nil && len(m.root.kids) == 1 {
		m.root = m.root.kids[0]
	}
	if len(m.root.keys) == 0 {
		m.root = nil
	}
}

// DeleteRange removes the keys from lower up to, but not including, upper.
// Nodes that lie inside the range are dropped whole.
func (m *Map[K, V]) DeleteRange(lower, upper K) {
	if m.root == nil || lower >= upper {
		return
	}
	m.root = m.own(m.root)
	m.cut(m.root, lower, upper)
	m.shrink()
}

// cut removes the range below n, which this version owns. It may leave n empty.
func (m *Map[K, V]) cut(n *node[K, V], lower, upper K) {
	if n.kids == nil {
		i, j := n.search(lower), n.search(upper)
		n.keys = slices.Delete(n.keys, i, j)
		n.values = slices.Delete(n.values, i, j)
		m.length -= j - i
		return
	}
	i, j := n.child(lower), n.child(upper)
	for _, k := range []int{i, j} {
		n.kids[k] = m.own(n.kids[k])
		m.cut(n.kids[k], lower, upper)
	}
	if j > i+1 {
		for _, kid := range n.kids[i+1 : j] {
			m.length -= kid.entries()
		}
		n.dropKids(i+1, j)
		j = i + 1
	}
	if j != i {
		m.tidy(n, j)
	}
	if i < len(n.kids) {
		m.tidy(n, i)
	}
}

// entries returns the number of entries below n.
func (n *node[K, V]) entries() int {
	if n.kids == nil {
		return len(n.keys)
	}
	sum := 0
	for _, kid := range n.kids {
		sum += kid.entries()
	}
	return sum
}
