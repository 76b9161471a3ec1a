package btree

import "cmp"

// Ascend calls yield for each entry whose key is at least from, in ascending
// order of the keys, until yield returns false.
func (m Map[K, V]) Ascend(from K, yield func(K, V) bool) {
	if m.root != nil {
		m.root.ascend(from, yield)
	}
}

func (n *node[K, V]) ascend(from K, yield func(K, V) bool) bool {
	if n.kids == nil {
		for i := n.search(from); i < len(n.keys); i++ {
			if !yield(n.keys[i], n.values[i]) {
				return false
			}
		}
		return true
	}
	for _, kid := range n.kids[n.child(from):] {
		if !kid.ascend(from, yield) {
			return false
		}
	}
	return true
}

// Cursor walks a frozen [Map] in ascending order of the keys. It belongs to one
// goroutine. Before the first Seek it is at the end.
type Cursor[K cmp.Ordered, V any] struct {
	root *node[K, V]
	path []step[K, V] // from the root to the leaf; empty at the end
}

// step is one level of a cursor's path: a node and an index into its keys.
type step[K cmp.Ordered, V any] struct {
	n *node[K, V]
	i int
}

// Cursor returns a cursor over m.
func (m Map[K, V]) Cursor() Cursor[K, V] { return Cursor[K, V]{root: m.root} }

// Seek moves to the first entry whose key is at least key. It returns false if
// there is none.
func (c *Cursor[K, V]) Seek(key K) bool {
	c.path = c.path[:0]
	n := c.root
	if n == nil {
		return false
	}
	for n.kids != nil {
		i := n.child(key)
		c.path = append(c.path, step[K, V]{n, i})
		n = n.kids[i]
	}
	c.path = append(c.path, step[K, V]{n, n.search(key)})
	return c.onEntry()
}

// Next moves to the next entry. It returns false at the end, and on every later
// call until Seek.
func (c *Cursor[K, V]) Next() bool {
	if len(c.path) == 0 {
		return false
	}
	c.path[len(c.path)-1].i++
	return c.onEntry()
}

// onEntry returns true if the cursor is on an entry. If it is behind the last
// entry of a node, onEntry first moves it to the next leaf.
func (c *Cursor[K, V]) onEntry() bool {
	for len(c.path) > 0 {
		last := &c.path[len(c.path)-1]
		if last.i < len(last.n.keys) {
			if last.n.kids == nil {
				return true
			}
			c.path = append(c.path, step[K, V]{last.n.kids[last.i], 0})
			continue
		}
		c.path = c.path[:len(c.path)-1]
		if len(c.path) > 0 {
			c.path[len(c.path)-1].i++
		}
	}
	return false
}

// Key returns the key of the current entry. It panics at the end.
func (c *Cursor[K, V]) Key() K {
	last := &c.path[len(c.path)-1]
	return last.n.keys[last.i]
}

// Value returns the value of the current entry. It panics at the end.
func (c *Cursor[K, V]) Value() V {
	last := &c.path[len(c.path)-1]
	return last.n.values[last.i]
}
