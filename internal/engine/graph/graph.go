package graph

import (
	"sync/atomic"

	"github.com/ostiary/ostiary/rel"
)

// Kind is a small number for what a [Node] is: a plain object of a type
// ("user"), every object of a type ("user:*"), or a relation of a type
// ("group#member"). 0 is no kind. A lineage only adds kinds and never changes
// their numbers.
type Kind uint32

// KindName is a [Kind] in words.
type KindName struct {
	// Type is the object's type.
	Type string
	// Relation is the relation, or "" for plain objects and for the wildcard.
	Relation string
	// Wildcard is true for the kind of "type:*".
	Wildcard bool
}

// Node is a small number for one object together with a kind: the object itself
// ("user:anne"), one of its relations ("doc:1#viewer", "group:eng#member"), or
// the wildcard of a type ("user:*"). 0 is no node. A node keeps its number as
// long as its lineage exists.
type Node uint32

// NodeMax is the largest node number. An [Edge] needs the remaining bit.
const NodeMax = 1<<31 - 1

// Edge is one entry of a [List]: the neighboring node, and a bit that is set if
// the tuple has a condition or an expiry. [View.Detail] returns these.
type Edge uint32

// Node returns the neighboring node.
func (e Edge) Node() Node { return Node(e >> 1) }

// Detailed reports whether the tuple has a condition or an expiry.
func (e Edge) Detailed() bool { return e&1 != 0 }

// EdgeTo returns the edge to n.
func EdgeTo(n Node, detailed bool) Edge {
	if detailed {
		return Edge(n)<<1 | 1
	}
	return Edge(n) << 1
}

// List holds the neighbors of a node that are of one kind. It is immutable,
// sorted by node, and has no duplicates. A long list consists of several
// chunks; every edge of a chunk precedes every edge of the next one. The zero
// List is empty.
type List struct {
	first   []Edge       // the only chunk, or the first one
	chunked *chunkedList // nil unless there are several chunks; most lists have one
}

// chunkedList is what a [List] of several chunks has in addition to its first
// chunk.
type chunkedList struct {
	rest   [][]Edge // the chunks between the first and the last; none is empty
	last   []Edge   // the last chunk; never empty
	length int      // edges in the whole list
	// written is the number of edges written to the memory of last. It exceeds
	// len(last) if a newer list has added edges there; see appendEdits. It is
	// nil if the memory cannot take more edges.
	written *atomic.Int32
}

// ListOf returns a list of edges, which must be sorted by node and free of
// duplicates. The list keeps the slice, so the caller must not change it
// afterwards.
func ListOf(edges []Edge) List { return List{first: edges} }

// ListOfChunks is like [ListOf] for a long list of n edges that is already cut
// into chunks. No chunk may be empty.
func ListOfChunks(n int, first []Edge, rest [][]Edge) List {
	k := len(rest) - 1
	if k < 0 {
		return List{first: first}
	}
	last := rest[k]
	return List{first, &chunkedList{rest: rest[:k:k], last: last[:len(last):len(last)], length: n}}
}

// Len returns the number of edges.
func (l List) Len() int {
	if l.chunked != nil {
		return l.chunked.length
	}
	return len(l.first)
}

// Chunks returns the number of chunks.
func (l List) Chunks() int {
	if l.chunked != nil {
		return 2 + len(l.chunked.rest)
	}
	return min(len(l.first), 1)
}

// Chunk returns the i-th chunk. The caller must not change it.
func (l List) Chunk(i int) []Edge {
	if i == 0 {
		return l.first
	}
	if i > len(l.chunked.rest) {
		return l.chunked.last
	}
	return l.chunked.rest[i-1]
}

// Find returns the edge to n, and false if there is none.
func (l List) Find(n Node) (Edge, bool) {
	if l.chunked == nil {
		return find(l.first, n)
	}
	return find(l.Chunk(l.chunkOf(n, 0)), n)
}

// FindFrom is like [List.Find] but starts at chunk; use it to look up ascending
// nodes. chunk is 0 for the first node and the returned value in for each later
// one.
func (l List) FindFrom(chunk int, n Node) (e Edge, ok bool, in int) {
	if l.chunked == nil {
		e, ok = find(l.first, n)
		return e, ok, 0
	}
	in = l.chunkOf(n, chunk)
	e, ok = find(l.Chunk(in), n)
	return e, ok, in
}

// chunkOf returns the index of the only chunk that can hold n: the first chunk,
// at or after the chunk from, whose last edge is not before n. If there is no
// such chunk, it returns the last chunk.
func (l List) chunkOf(n Node, from int) int {
	if l.chunked == nil || from == 0 && !endsBefore(l.first, n) {
		return 0
	}
	rest := l.chunked.rest
	lo, hi := max(from-1, 0), len(rest) // the result is in rest[lo:hi], or is the last chunk
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if endsBefore(rest[mid], n) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo + 1
}

// endsBefore reports whether every edge of c comes before n.
func endsBefore(c []Edge, n Node) bool {
	return c[len(c)-1].Node() < n
}

// find is a binary search for the last edge that does not come after n. Its
// number of steps depends only on the length of c, so that the processor can
// predict the loop.
func find(c []Edge, n Node) (Edge, bool) {
	if len(c) == 0 {
		return 0, false
	}
	limit, at := EdgeTo(n, true), 0
	for size := len(c); size > 1; {
		half := size >> 1
		if next := at + half; c[next] <= limit {
			at = next
		}
		size -= half
	}
	if e := c[at]; e.Node() == n {
		return e, true
	}
	return 0, false
}

// Detail is what a tuple has in addition to its object, relation and subject.
// The zero Detail belongs to an unconditional tuple that never expires.
type Detail struct {
	// Condition is the name of the condition, or "" for none.
	Condition string
	// Context is the stored context as canonical JSON, or "" for none.
	Context string
	// Values is Context decoded. All evaluations share it, so nothing may
	// change it.
	Values map[string]any
	// Expires is the moment at which the tuple stops counting; 0 is never.
	Expires rel.Time
}
