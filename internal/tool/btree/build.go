package btree

import (
	"cmp"
	"slices"
)

// Entry is a key and its value.
type Entry[K cmp.Ordered, V any] struct {
	Key   K // unique in its map
	Value V // any value, the zero value included
}

// Build returns a Map of the entries, which it sorts in place. ok is false if a
// key occurs twice; then the Map is empty.
func Build[K cmp.Ordered, V any](entries []Entry[K, V]) (m Map[K, V], ok bool) {
	slices.SortFunc(entries, func(a, b Entry[K, V]) int { return cmp.Compare(a.Key, b.Key) })
	for i := 1; i < len(entries); i++ {
		if entries[i].Key == entries[i-1].Key {
			return m, false
		}
	}
	if len(entries) == 0 {
		return m, true
	}
	level := leaves(entries)
	for len(level) > 1 {
		level = parents(level)
	}
	return Map[K, V]{root: level[0], length: len(entries)}, true
}

// buildFill is the size of a node that Build makes. It leaves room for the
// first changes.
const buildFill = nodeMax * 3 / 4

// leaves returns the leaves of a tree of entries, which are sorted.
func leaves[K cmp.Ordered, V any](entries []Entry[K, V]) (level []*node[K, V]) {
	for part := range slices.Chunk(entries, buildFill) {
		n := &node[K, V]{keys: make([]K, len(part)), values: make([]V, len(part))}
		for i, e := range part {
			n.keys[i], n.values[i] = e.Key, e.Value
		}
		level = append(level, n)
	}
	return level
}

// parents returns the level of nodes above a level.
func parents[K cmp.Ordered, V any](kids []*node[K, V]) (level []*node[K, V]) {
	for part := range slices.Chunk(kids, buildFill) {
		n := &node[K, V]{keys: make([]K, len(part)), kids: slices.Clone(part)}
		for i, kid := range part {
			n.keys[i] = kid.first()
		}
		level = append(level, n)
	}
	return level
}
