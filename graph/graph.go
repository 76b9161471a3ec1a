// Package graph holds a store's relations in memory: interned names, and for
// every node its neighbours both ways, as immutable views. Its main type is
// View: a value that answers at one revision for as long as somebody holds
// it. It knows tuples and attributes; it never knows a schema, a rewrite or a
// rule.
package graph

import "github.com/ostiary/ostiary/rel"

// Kind is a dense, store-wide number for what a node is: a plain object of a
// type ("user"), every object of a type ("user:*"), or a relation of a type
// ("group#member"). 0 is no kind. Kinds are only ever added in a lineage.
type Kind uint32

// KindName is a kind in words. Relation is "" for plain objects and for the
// wildcard.
type KindName struct {
	Type     string
	Relation string
	Wildcard bool
}

// Node is a dense number for (object, kind): the object itself ("user:anne"),
// its relation ("doc:1#viewer", "group:eng#member") or a type's wildcard
// ("user:*"). 0 is no node. A node's number never changes within a lineage.
type Node uint32

// NodeMax bounds the nodes of a lineage: an Edge keeps one bit for itself.
const NodeMax = 1<<31 - 1

// Edge is one neighbour in a List: a node, and whether the tuple between has
// a condition or an expiry (then View.Detail tells).
type Edge uint32

// Node returns the neighbour.
func (e Edge) Node() Node { return Node(e >> 1) }

// Detailed says whether the tuple has a condition or an expiry.
func (e Edge) Detailed() bool { return e&1 != 0 }

// EdgeTo makes an edge.
func EdgeTo(n Node, detailed bool) Edge {
	if detailed {
		return Edge(n)<<1 | 1
	}
	return Edge(n) << 1
}

// List is a node's neighbours of one kind, sorted by node, without
// duplicates, immutable. Long lists come in several chunks, each sorted, one
// after the other. The zero List is empty.
type List struct {
	first []Edge   // the only chunk, or the first
	rest  [][]Edge // further chunks of a long list, none empty
	n     int
}

// ListOf returns a list of edges, which must be sorted by node, without
// duplicates, and stay unchanged.
func ListOf(edges []Edge) List { return List{first: edges, n: len(edges)} }

// ListOfChunks is ListOf for a long list; no chunk may be empty.
func ListOfChunks(n int, first []Edge, rest [][]Edge) List { return List{first, rest, n} }

// Len returns the number of edges.
func (l List) Len() int { return l.n }

// Chunks returns the number of chunks.
func (l List) Chunks() int {
	if l.n == 0 {
		return 0
	}
	return 1 + len(l.rest)
}

// Chunk returns the i-th chunk, to be read only.
func (l List) Chunk(i int) []Edge {
	if i == 0 {
		return l.first
	}
	return l.rest[i-1]
}

// Find returns the edge to n.
func (l List) Find(n Node) (Edge, bool) {
	c := l.first
	for i := 0; i < len(l.rest) && c[len(c)-1].Node() < n; i++ {
		c = l.rest[i] // a linear walk: chunks are long, so there are few
	}
	return find(c, n)
}

// find is a binary search for the lower bound of n.
func find(c []Edge, n Node) (Edge, bool) {
	want := Edge(n) << 1
	lo, hi := 0, len(c)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if c[mid] < want {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo < len(c) && c[lo].Node() == n {
		return c[lo], true
	}
	return 0, false
}

// Detail is what a tuple has besides its two ends. Its zero value means an
// unconditional tuple that never expires.
type Detail struct {
	// Condition names the condition; "" is none.
	Condition string
	// Context is the stored context as canonical JSON, and Values the same,
	// decoded once for all evaluations: to be read only.
	Context string
	Values  map[string]any
	Expires rel.Time
}
