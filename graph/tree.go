package graph

import (
	"cmp"
	"slices"
)

// tree is a persistent ordered map with keys of 64 bits: a value, whose put
// and remove return another that shares all but the path they touched. The
// zero tree is empty. It holds what few tuples and objects have: details and
// attributes.
type tree[V any] struct {
	root *branch[V]
	n    int
}

// branch is a leaf (vals) or an inner node (kids; keys[i] is not above the
// least key under kids[i], and above all under kids[i-1]).
type branch[V any] struct {
	keys []uint64
	vals []V
	kids []*branch[V]
}

const branchMax = 64 // entries of a branch

// at returns the place of the entry whose key is k or that leads to it.
func (b *branch[V]) at(k uint64) int {
	lo, hi := 0, len(b.keys) // the last key that is not above k
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if b.keys[mid] <= k {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo - 1
}

// get finds the value of k.
func (t tree[V]) get(k uint64) (v V, ok bool) {
	b := t.root
	if b == nil {
		return v, false
	}
	for b.kids != nil {
		b = b.kids[max(0, b.at(k))]
	}
	if i := b.at(k); i >= 0 && b.keys[i] == k {
		return b.vals[i], true
	}
	return v, false
}

// put returns t with k set to v.
func (t tree[V]) put(k uint64, v V) tree[V] {
	if t.root == nil {
		return tree[V]{&branch[V]{keys: []uint64{k}, vals: []V{v}}, 1}
	}
	left, right, added := t.root.put(k, v)
	if added {
		t.n++
	}
	if right != nil {
		left = &branch[V]{keys: []uint64{left.keys[0], right.keys[0]}, kids: []*branch[V]{left, right}}
	}
	return tree[V]{left, t.n}
}

// put returns b with k set, as one branch or two.
func (b *branch[V]) put(k uint64, v V) (left, right *branch[V], added bool) {
	i := b.at(k)
	if b.kids != nil {
		i = max(0, i)
		l, r, added := b.kids[i].put(k, v)
		c := &branch[V]{keys: spliced(b.keys, i, 1, l.keys[0]), kids: spliced(b.kids, i, 1, l)}
		if r != nil {
			c = &branch[V]{keys: spliced(c.keys, i+1, 0, r.keys[0]), kids: spliced(c.kids, i+1, 0, r)}
		}
		left, right = c.split()
		return left, right, added
	}
	if i >= 0 && b.keys[i] == k {
		return &branch[V]{keys: b.keys, vals: spliced(b.vals, i, 1, v)}, nil, false
	}
	c := &branch[V]{keys: spliced(b.keys, i+1, 0, k), vals: spliced(b.vals, i+1, 0, v)}
	left, right = c.split()
	return left, right, true
}

// split cuts a branch that is above its maximum into two.
func (b *branch[V]) split() (left, right *branch[V]) {
	if len(b.keys) <= branchMax {
		return b, nil
	}
	h := len(b.keys) / 2
	if b.kids != nil {
		return &branch[V]{keys: b.keys[:h:h], kids: b.kids[:h:h]}, &branch[V]{keys: b.keys[h:], kids: b.kids[h:]}
	}
	return &branch[V]{keys: b.keys[:h:h], vals: b.vals[:h:h]}, &branch[V]{keys: b.keys[h:], vals: b.vals[h:]}
}

// spliced is a copy of s in which v stands for n elements from i on.
func spliced[T any](s []T, i, n int, v T) []T {
	c := make([]T, 0, len(s)+1-n)
	c = append(append(c, s[:i]...), v)
	return append(c, s[i+n:]...)
}

// remove returns t without k.
func (t tree[V]) remove(k uint64) tree[V] {
	if _, ok := t.get(k); !ok {
		return t
	}
	root := t.root.remove(k)
	for root != nil && len(root.kids) == 1 {
		root = root.kids[0]
	}
	return tree[V]{root, t.n - 1}
}

// remove returns b without k, which it has; nil if nothing is left.
func (b *branch[V]) remove(k uint64) *branch[V] {
	i := max(0, b.at(k))
	if b.kids == nil {
		if len(b.keys) == 1 {
			return nil
		}
		return &branch[V]{keys: without(b.keys, i), vals: without(b.vals, i)}
	}
	kid := b.kids[i].remove(k)
	if kid == nil {
		if len(b.kids) == 1 {
			return nil
		}
		return &branch[V]{keys: without(b.keys, i), kids: without(b.kids, i)}
	}
	c := &branch[V]{keys: spliced(b.keys, i, 1, kid.keys[0]), kids: spliced(b.kids, i, 1, kid)}
	return c.joined(i)
}

// joined returns b with its i-th kid joined to a neighbour where both are
// small, so that removals do not leave crumbs. b is not shared yet.
func (b *branch[V]) joined(i int) *branch[V] {
	if i > 0 && len(b.kids[i-1].keys)+len(b.kids[i].keys) <= branchMax/2 {
		i--
	} else if i+1 == len(b.kids) || len(b.kids[i].keys)+len(b.kids[i+1].keys) > branchMax/2 {
		return b
	}
	l, r := b.kids[i], b.kids[i+1]
	b.kids[i] = &branch[V]{
		keys: append(append([]uint64(nil), l.keys...), r.keys...),
		vals: append(append([]V(nil), l.vals...), r.vals...),
		kids: append(append([]*branch[V](nil), l.kids...), r.kids...),
	}
	b.keys, b.kids = without(b.keys, i+1), without(b.kids, i+1)
	return b
}

func without[T any](s []T, i int) []T {
	c := make([]T, 0, len(s)-1)
	return append(append(c, s[:i]...), s[i+1:]...)
}

// ascend calls yield for the entries from key from on, in order, until it
// returns false.
func (t tree[V]) ascend(from uint64, yield func(uint64, V) bool) {
	if t.root != nil {
		t.root.ascend(from, yield)
	}
}

func (b *branch[V]) ascend(from uint64, yield func(uint64, V) bool) bool {
	i := max(0, b.at(from))
	for ; i < len(b.keys); i++ {
		if b.kids != nil {
			if !b.kids[i].ascend(from, yield) {
				return false
			}
		} else if b.keys[i] >= from && !yield(b.keys[i], b.vals[i]) {
			return false
		}
	}
	return true
}

// treeEntry is one entry for treeOf.
type treeEntry[V any] struct {
	key uint64
	val V
}

// treeOf builds a tree of entries, which it sorts, and says whether a key came
// twice (then the tree is of no use).
func treeOf[V any](entries []treeEntry[V]) (t tree[V], twice bool) {
	slices.SortFunc(entries, func(a, b treeEntry[V]) int { return cmp.Compare(a.key, b.key) })
	for i := range entries {
		twice = twice || i > 0 && entries[i].key == entries[i-1].key
	}
	if len(entries) == 0 || twice {
		return tree[V]{}, twice
	}
	const fill = branchMax * 3 / 4 // room for the first writes
	var level []*branch[V]
	for from := 0; from < len(entries); from += fill {
		part := entries[from:min(from+fill, len(entries))]
		b := &branch[V]{keys: make([]uint64, len(part)), vals: make([]V, len(part))}
		for i, e := range part {
			b.keys[i], b.vals[i] = e.key, e.val
		}
		level = append(level, b)
	}
	for len(level) > 1 {
		var up []*branch[V]
		for from := 0; from < len(level); from += fill {
			part := level[from:min(from+fill, len(level))]
			b := &branch[V]{keys: make([]uint64, len(part)), kids: make([]*branch[V], len(part))}
			for i, kid := range part {
				b.keys[i], b.kids[i] = kid.keys[0], kid
			}
			up = append(up, b)
		}
		level = up
	}
	return tree[V]{level[0], len(entries)}, false
}
