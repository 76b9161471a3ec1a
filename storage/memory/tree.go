package memory

import (
	"slices"
	"sort"
)

// A node is immutable once somebody took the version that made it: a tree copies
// nodes of another stamp before it changes them. Leaves hold the pairs; an
// inner node holds its children and, for each, the least key that may lie in
// it (the first child's is not looked at). Leaves all have the same depth.
type node struct {
	stamp  uint64
	keys   []string
	values []string // of a leaf
	kids   []*node  // of an inner node
}

const (
	// nodeMax is the most pairs or children a node holds.
	nodeMax = 64
	// nodeMin is the number at or below which a node joins a neighbour that has
	// room. Nodes may be smaller where none has.
	nodeMin = nodeMax / 4
)

func (n *node) leaf() bool { return n.kids == nil }

// child returns the index of the child in which key lies.
func (n *node) child(key string) int {
	return sort.Search(len(n.keys)-1, func(i int) bool { return n.keys[i+1] > key })
}

func (n *node) get(key string) (string, bool) {
	if n == nil {
		return "", false
	}
	for !n.leaf() {
		n = n.kids[n.child(key)]
	}
	i, ok := slices.BinarySearch(n.keys, key)
	if !ok {
		return "", false
	}
	return n.values[i], true
}

// tree is a version that nobody took yet; it may change nodes of its own stamp.
type tree struct {
	root  *node
	stamp uint64
}

// own returns n if it is this tree's, else a copy that is.
func (t *tree) own(n *node) *node {
	if n.stamp == t.stamp {
		return n
	}
	c := &node{stamp: t.stamp, keys: grown(n.keys)}
	if n.leaf() {
		c.values = grown(n.values)
	} else {
		c.kids = grown(n.kids)
	}
	return c
}

// grown copies s with room for a few more, so that a run of changes to one node
// does not copy it each time.
func grown[E any](s []E) []E { return append(make([]E, 0, len(s)+2), s...) }

// inserted inserts into a node's slice, whose memory never grows beyond what a
// node can hold.
func inserted[E any](s []E, i int, e E) []E {
	if len(s) == cap(s) {
		s = append(make([]E, 0, min(2*len(s)+2, nodeMax+1)), s...)
	}
	return slices.Insert(s, i, e)
}

func (t *tree) set(key, value string) {
	if t.root == nil {
		t.root = &node{stamp: t.stamp, keys: []string{key}, values: []string{value}}
		return
	}
	t.root = t.own(t.root)
	if right := t.insert(t.root, key, value); right != nil {
		t.root = &node{stamp: t.stamp, keys: []string{"", right.keys[0]}, kids: []*node{t.root, right}}
		t.root.keys[1] = t.root.kids[1].first()
	}
}

// first returns the least key below n.
func (n *node) first() string {
	for !n.leaf() {
		n = n.kids[0]
	}
	return n.keys[0]
}

// insert puts the pair below n, which is this tree's own, and returns the new
// right half if n had to be split.
func (t *tree) insert(n *node, key, value string) *node {
	if n.leaf() {
		i, found := slices.BinarySearch(n.keys, key)
		if found {
			n.keys[i], n.values[i] = key, value // the old key's memory may be the old value's
			return nil
		}
		n.keys = inserted(n.keys, i, key)
		n.values = inserted(n.values, i, value)
		return t.split(n, i == len(n.keys)-1)
	}
	i := n.child(key)
	kid := t.own(n.kids[i])
	n.kids[i] = kid
	right := t.insert(kid, key, value)
	if right == nil {
		return nil
	}
	n.keys = inserted(n.keys, i+1, right.first())
	n.kids = inserted(n.kids, i+1, right)
	return t.split(n, i+1 == len(n.kids)-1)
}

// split halves a node that is too full. Where it grows at its end the left part
// stays nearly full, so that ascending keys fill nodes rather than halve them.
func (t *tree) split(n *node, atEnd bool) *node {
	if len(n.keys) <= nodeMax {
		return nil
	}
	at := len(n.keys) / 2
	if atEnd {
		at = len(n.keys) - 2
	}
	right := &node{stamp: t.stamp, keys: slices.Clone(n.keys[at:])}
	if n.leaf() {
		right.values = slices.Clone(n.values[at:])
		clear(n.values[at:])
		n.values = n.values[:at]
	} else {
		right.kids = slices.Clone(n.kids[at:])
		clear(n.kids[at:])
		n.kids = n.kids[:at]
	}
	clear(n.keys[at:])
	n.keys = n.keys[:at]
	return right
}

func (t *tree) delete(key string) {
	if _, found := t.root.get(key); !found {
		return // nothing is copied for a key that is not there
	}
	t.root = t.own(t.root)
	t.remove(t.root, key)
	t.shrink()
}

// remove takes key, which is there, out from below n, which is own.
func (t *tree) remove(n *node, key string) {
	if n.leaf() {
		i, _ := slices.BinarySearch(n.keys, key)
		n.keys = slices.Delete(n.keys, i, i+1)
		n.values = slices.Delete(n.values, i, i+1)
		return
	}
	i := n.child(key)
	kid := t.own(n.kids[i])
	n.kids[i] = kid
	t.remove(kid, key)
	t.tidy(n, i)
}

// tidy drops n's child i if it is empty, and joins it with a neighbour if it is
// small and both fit into one node.
func (t *tree) tidy(n *node, i int) {
	kid := n.kids[i]
	switch {
	case len(kid.keys) == 0:
		n.keys = slices.Delete(n.keys, i, i+1)
		n.kids = slices.Delete(n.kids, i, i+1)
	case len(kid.keys) > nodeMin:
	case i+1 < len(n.kids) && len(kid.keys)+len(n.kids[i+1].keys) <= nodeMax:
		t.join(n, i)
	case i > 0 && len(kid.keys)+len(n.kids[i-1].keys) <= nodeMax:
		t.join(n, i-1)
	}
}

// join moves child i+1's content behind child i's.
func (t *tree) join(n *node, i int) {
	left, right := t.own(n.kids[i]), n.kids[i+1]
	from := len(left.keys)
	left.keys = append(left.keys, right.keys...)
	if left.leaf() {
		left.values = append(left.values, right.values...)
	} else {
		left.kids = append(left.kids, right.kids...)
		left.keys[from] = n.keys[i+1]
	}
	n.kids[i] = left
	n.keys = slices.Delete(n.keys, i+1, i+2)
	n.kids = slices.Delete(n.kids, i+1, i+2)
}

// shrink takes levels off that hold one child.
func (t *tree) shrink() {
	for t.root != nil && !t.root.leaf() && len(t.root.kids) == 1 {
		t.root = t.root.kids[0]
	}
	if t.root != nil && len(t.root.keys) == 0 {
		t.root = nil
	}
}

// deleteRange deletes lower <= key < upper; whole nodes go at once.
func (t *tree) deleteRange(lower, upper string) {
	if t.root == nil || lower >= upper {
		return
	}
	t.root = t.own(t.root)
	t.cut(t.root, lower, upper)
	t.shrink()
}

// cut takes the range out from below n, which is own and may end up empty.
func (t *tree) cut(n *node, lower, upper string) {
	if n.leaf() {
		i, _ := slices.BinarySearch(n.keys, lower)
		j, _ := slices.BinarySearch(n.keys, upper)
		n.keys = slices.Delete(n.keys, i, j)
		n.values = slices.Delete(n.values, i, j)
		return
	}
	i, j := n.child(lower), n.child(upper)
	for _, k := range []int{i, j} {
		n.kids[k] = t.own(n.kids[k])
		t.cut(n.kids[k], lower, upper)
	}
	if j > i+1 {
		n.keys = slices.Delete(n.keys, i+1, j)
		n.kids = slices.Delete(n.kids, i+1, j)
		j = i + 1
	}
	if j != i {
		t.tidy(n, j)
	}
	if i < len(n.kids) {
		t.tidy(n, i)
	}
}

// cursor walks a version upwards. It is a kv.Iterator.
type cursor struct {
	lower, upper string
	begun        bool
	path         []place // from the root to the leaf; empty: at the end
	root         *node
	key, value   []byte
}

type place struct {
	n *node
	i int
}

func newCursor(root *node, lower, upper string) *cursor {
	return &cursor{lower: lower, upper: upper, root: root}
}

func (c *cursor) Next() bool {
	if !c.begun {
		return c.seek(c.lower)
	}
	if len(c.path) == 0 {
		return false
	}
	c.path[len(c.path)-1].i++
	return c.settle()
}

func (c *cursor) Seek(key []byte) bool {
	if string(key) < c.lower {
		return c.seek(c.lower)
	}
	return c.seek(string(key))
}

func (c *cursor) seek(key string) bool {
	c.begun, c.path = true, c.path[:0]
	n := c.root
	if n == nil {
		return false
	}
	for !n.leaf() {
		i := n.child(key)
		c.path = append(c.path, place{n, i})
		n = n.kids[i]
	}
	i, _ := slices.BinarySearch(n.keys, key)
	c.path = append(c.path, place{n, i})
	return c.settle()
}

// settle moves on from behind a node's last pair to the next node's first one.
func (c *cursor) settle() bool {
	for len(c.path) > 0 {
		p := &c.path[len(c.path)-1]
		if p.n.leaf() {
			if p.i < len(p.n.keys) {
				if p.n.keys[p.i] >= c.upper {
					c.path = c.path[:0]
					return false
				}
				return true
			}
		} else if p.i < len(p.n.kids) {
			c.path = append(c.path, place{p.n.kids[p.i], 0})
			continue
		}
		c.path = c.path[:len(c.path)-1]
		if len(c.path) > 0 {
			c.path[len(c.path)-1].i++
		}
	}
	return false
}

// Key copies, since the map's strings cannot be changed and a caller's bytes can.
func (c *cursor) Key() []byte {
	p := c.path[len(c.path)-1]
	c.key = append(c.key[:0], p.n.keys[p.i]...)
	return c.key
}

func (c *cursor) Value() []byte {
	p := c.path[len(c.path)-1]
	c.value = append(c.value[:0], p.n.values[p.i]...)
	return c.value
}

func (c *cursor) Err() error { return nil }

func (c *cursor) Close() error { return nil }
