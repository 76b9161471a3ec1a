package graph

import (
	"slices"
	"sync/atomic"
)

// tailMin is how many edges the memory of a new last chunk has room for.
const lastChunkMin = 64

// appended returns a long list with edits, where all of them add behind its
// end; else it returns false. New objects have the highest nodes, so that the
// lists of what owns or contains them grow like that.
//
// Nothing is copied mostly. A list shows a part of its last chunk's memory and
// does not look behind it, so what is behind may be written for the list that
// follows. It is written once: by who moves the count on from where his own
// list ends. Who comes from the same list a second time, say because the first
// batch was dropped, finds the count moved, and copies the chunk.
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

// makeRoom gives m memory of its own behind the last chunk, which may be empty
// then, for n edges if a chunk can have so many more.
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
