package graph

import (
	"slices"
	"sync/atomic"
)

// lastChunkMin is the least capacity, in edges, of a new last chunk.
const lastChunkMin = 64

// appendEdits returns a long list with edits if all of them add edges behind
// the list's end; otherwise it returns false. New objects have the highest node
// numbers, so the lists of what owns or contains them grow this way.
//
// It usually copies nothing. A list shows only a part of the memory of its last
// chunk, so the memory behind that part can be written for the next list, but
// only once. Batches that start from the same list compete for it: the first
// one moves the counter written forward from where the list ends. A later one,
// for example because the first was dropped, finds the counter moved and copies
// the chunk.
func appendEdits(l List, edits []edit) (List, bool) {
	c := l.Chunk(l.Chunks() - 1)
	if edits[0].edge.Node() <= c[len(c)-1].Node() || slices.ContainsFunc(edits, func(e edit) bool { return e.remove }) {
		return List{}, false
	}
	m := &chunkedList{length: l.Len() + len(edits)}
	if l.chunked != nil {
		m.rest, m.last, m.written = l.chunked.rest, l.chunked.last, l.chunked.written
	}
	for len(edits) > 0 {
		n := min(len(edits), cap(m.last)-len(m.last))
		if n == 0 || m.written == nil || !m.written.CompareAndSwap(int32(len(m.last)), int32(len(m.last)+n)) {
			m.grow(len(edits))
			continue
		}
		for _, e := range edits[:n] {
			m.last = append(m.last, e.edge)
		}
		edits = edits[n:]
	}
	return List{l.first, m}, true
}

// grow copies the last chunk into memory that only m uses. The copy has room
// for n more edges, or for as many as fit in a chunk. If the last chunk is
// full, grow adds an empty chunk after it.
func (m *chunkedList) grow(n int) {
	if len(m.last) >= chunkMax {
		rest := make([][]Edge, len(m.rest)+1)
		copy(rest, m.rest)
		rest[len(m.rest)] = m.last
		m.rest, m.last = rest, nil
	}
	grown := make([]Edge, len(m.last), min(chunkMax, max(len(m.last)+n, 2*len(m.last), lastChunkMin)))
	copy(grown, m.last)
	m.last, m.written = grown, new(atomic.Int32)
	m.written.Store(int32(len(grown)))
}
