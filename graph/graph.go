// Package graph holds a store's relations in memory: interned names, and for
// every node its neighbours both ways, as immutable views. Its main type is
// View: a value that answers at one revision for as long as somebody holds
// it. It knows tuples and attributes; it never knows a schema, a rewrite or a
// rule.
//
// A Graph is a lineage of views that share one append-only table of names and
// nodes. A view is a tree of immutable segments, 64 nodes of one kind each,
// with the lists of those nodes in both directions; a write copies what it
// touches and publishes a new root. So a view costs only what changed since
// its neighbour in time, and the collector frees what no view refers to. Names
// and nodes are reclaimed by Compact, which starts a new lineage.
//
// What always holds, and is checked by the tests' walker:
//
//	G1  Forward and reverse mirror each other: s is in Forward(o, kind of s)
//	    exactly if o is in Reverse(s, kind of o), with the same detailed bit.
//	G2  A list is sorted by node, has no duplicates, and holds nodes of one
//	    kind only.
//	G3  No chunk is empty or above chunkMax edges; a list within inlineMax edges
//	    stands in its segment, a longer one outside.
//	G4  Every node that a view refers to is known to the view: its name, kind
//	    and siblings are found, and its name leads back to it.
//	G5  A tuple has an entry among the details exactly if its edges are detailed.
//	G6  The counts of tuples, live nodes, live names and bytes are those that a
//	    walk finds.
//	G7  Names, nodes and kinds once given keep their numbers within a lineage;
//	    all nodes of a segment are of one kind.
//	G8  Nothing that a view shows is ever written again, but for the link to an
//	    object's next node, which only leads to younger nodes. Behind the end of
//	    a list's last chunk another view's list may go on.
package graph

import (
	"sync/atomic"

	"github.com/ostiary/ostiary/rel"
)

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
	first   []Edge       // the only chunk, or the first
	chunked *chunkedList // of a list of several chunks; apart, since most lists have one
}

type chunkedList struct {
	rest   [][]Edge // the chunks between the first and the last; none empty
	last   []Edge   // not empty
	length int      // edges of the whole list
	// used is how much is written of the memory behind last, by whatever list
	// begins with this one; nil where there is none to write to.
	written *atomic.Int32
}

// ListOf returns a list of edges, which must be sorted by node, without
// duplicates, and stay unchanged.
func ListOf(edges []Edge) List { return List{first: edges} }

// ListOfChunks is ListOf for a long list; no chunk may be empty.
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

// Chunk returns the i-th chunk, to be read only.
func (l List) Chunk(i int) []Edge {
	if i == 0 {
		return l.first
	}
	if i > len(l.chunked.rest) {
		return l.chunked.last
	}
	return l.chunked.rest[i-1]
}

// Find returns the edge to n.
func (l List) Find(n Node) (Edge, bool) {
	if l.chunked == nil {
		return find(l.first, n)
	}
	return find(l.Chunk(l.chunkOf(n, 0)), n)
}

// FindFrom is Find for who looks for several nodes in their order: it begins
// in the chunk that it returned for the last one, 0 for the first.
func (l List) FindFrom(chunk int, n Node) (e Edge, ok bool, in int) {
	if l.chunked == nil {
		e, ok = find(l.first, n)
		return e, ok, 0
	}
	in = l.chunkOf(n, chunk)
	e, ok = find(l.Chunk(in), n)
	return e, ok, in
}

// chunkOf returns the chunk of a chunked list that holds n if any does: the
// first from from on whose last edge is not before n, or else the last chunk.
func (l List) chunkOf(n Node, from int) int {
	if l.chunked == nil || from == 0 && !endsBefore(l.first, n) {
		return 0
	}
	rest := l.chunked.rest
	lo, hi := max(from-1, 0), len(rest) // the answer is in rest[lo:hi], or the last
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

// lastBefore says whether every edge of c is before n.
func endsBefore(c []Edge, n Node) bool {
	return c[len(c)-1].Node() < n
}

// find is a binary search for the last edge not after n. How many steps it
// takes hangs on the list's length alone, which a processor can guess.
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
