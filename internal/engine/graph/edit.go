package graph

// edit is one change to one list.
type edit struct {
	node   Node // the list's owner
	side   side // the list's kind and direction
	edge   Edge // the edge to add or to replace; only its node matters for a removal
	remove bool
}

// order compares edits in the order in which they are applied: by segment,
// node, list and neighbor.
func (a edit) order(b edit) int {
	switch {
	case a.node != b.node:
		return sign(a.node < b.node)
	case a.side != b.side:
		return sign(a.side < b.side)
	case a.edge.Node() != b.edge.Node():
		return sign(a.edge < b.edge)
	}
	return 0
}

func sign(less bool) int {
	if less {
		return -1
	}
	return 1
}

// editor rebuilds segments. Its buffers are reused.
type editor struct {
	enc    encoder
	merged []Edge
}

// apply returns old with edits. The edits are sorted, belong to nodes of the
// segment, and there is at most one for each edge.
func (ed *editor) apply(old *segment, edits []edit) segment {
	if s, ok := editUniform(old, edits); ok {
		return s
	}
	ed.enc.reset()
	mixed := old.nodes() > 0 && old.words[0]&uniform == 0
	for at := uint32(0); ; {
		to := uint32(blockSize)
		if len(edits) > 0 {
			to = uint32(edits[0].node) & (blockSize - 1)
		}
		if mixed {
			ed.enc.copySpan(old, at, to)
		} else {
			ed.copyNodes(old, at, min(to, old.nodes()))
		}
		if len(edits) == 0 {
			return ed.enc.finish()
		}
		n := 1
		for n < len(edits) && edits[n].node == edits[0].node {
			n++
		}
		ed.enc.beginNode(int(to))
		ed.applyNode(old.groups(to), edits[:n])
		edits = edits[n:]
		at = to + 1
	}
}

// copyNodes adds the nodes from up to, but not including, to. old must be
// uniform or empty.
func (ed *editor) copyNodes(old *segment, from, to uint32) {
	for i := from; i < to; i++ {
		ed.enc.beginNode(int(i))
		gs := old.groups(i)
		for s, l, ok := gs.next(); ok; s, l, ok = gs.next() {
			ed.enc.addList(s, l)
		}
	}
}

// editUniform is a quick path for a uniform segment that stays uniform, for
// example if documents get their one parent. It returns false if it does not
// apply.
func editUniform(old *segment, edits []edit) (segment, bool) {
	if len(old.words) == 0 || old.words[0]&uniform == 0 {
		return segment{}, false
	}
	s, m := side(old.words[1]>>countBits), old.nodes()
	w := make([]Edge, 2+max(m, uint32(edits[len(edits)-1].node)&(blockSize-1)+1))
	copy(w, old.words)
	for _, e := range edits {
		at := &w[2+uint32(e.node)&(blockSize-1)]
		switch {
		case e.side != s || *at != 0 && at.Node() != e.edge.Node():
			return segment{}, false
		case e.remove:
			*at = 0
		default:
			*at = e.edge
		}
	}
	if w[len(w)-1] == 0 { // the segment becomes shorter or empty
		return segment{}, false
	}
	w[0] = uniform | Edge(len(w)-2)
	return segment{words: w}, true
}

// applyNode adds the groups of one node, with its edits, to the new segment.
func (ed *editor) applyNode(old groups, edits []edit) {
	s, l, ok := old.next()
	for ok || len(edits) > 0 {
		if len(edits) == 0 || ok && s < edits[0].side {
			ed.enc.addList(s, l)
			s, l, ok = old.next()
			continue
		}
		n, at := 0, edits[0].side
		for n < len(edits) && edits[n].side == at {
			n++
		}
		if ok && s == at {
			ed.applyList(at, l, edits[:n])
			s, l, ok = old.next()
		} else {
			ed.applyList(at, List{}, edits[:n])
		}
		edits = edits[n:]
	}
}

// applyList adds one list, with its edits, to the current node.
func (ed *editor) applyList(at side, l List, edits []edit) {
	if l.Len() > inlineMax {
		if longer, ok := appendEdits(l, edits); ok {
			l = longer
		} else {
			l = editLong(l, edits)
		}
		ed.enc.addList(at, l)
		return
	}
	ed.merged = mergeEdits(ed.merged[:0], l.first, edits)
	if len(ed.merged) <= inlineMax {
		ed.enc.addList(at, ListOf(ed.merged))
		return
	}
	ed.enc.addList(at, copiedList(ed.merged))
}

// mergeEdits appends the edges of c, with edits, to dst.
func mergeEdits(dst, c []Edge, edits []edit) []Edge {
	for _, e := range edits {
		n := 0
		for n < len(c) && c[n].Node() < e.edge.Node() {
			n++
		}
		dst = append(dst, c[:n]...)
		c = c[n:]
		if len(c) > 0 && c[0].Node() == e.edge.Node() {
			c = c[1:]
		}
		if !e.remove {
			dst = append(dst, e.edge)
		}
	}
	return append(dst, c...)
}

// copiedList returns a list with a copy of edges, in chunks of equal size.
func copiedList(edges []Edge) List {
	if len(edges) == 0 {
		return List{}
	}
	pieces := (len(edges) + chunkMax - 1) / chunkMax
	chunks := make([][]Edge, pieces)
	for i := range chunks {
		c := edges[len(edges)*i/pieces : len(edges)*(i+1)/pieces]
		own := make([]Edge, len(c))
		copy(own, c)
		chunks[i] = own
	}
	return ListOfChunks(len(edges), chunks[0], chunks[1:])
}

// editLong returns a long list with edits. It reads and copies only the chunks
// that change, and the slice of chunks.
func editLong(l List, edits []edit) List {
	out := make([][]Edge, 0, l.Chunks()+1)
	n, done := l.Len(), 0
	for len(edits) > 0 {
		i := l.chunkOf(edits[0].edge.Node(), 0)
		c := l.Chunk(i)
		mine := len(edits)
		if i+1 < l.Chunks() { // edits beyond the last chunk belong to it
			mine = 1
			for last := c[len(c)-1].Node(); mine < len(edits) && edits[mine].edge.Node() <= last; {
				mine++
			}
		}
		merged := mergeEdits(make([]Edge, 0, len(c)+mine), c, edits[:mine])
		n += len(merged) - len(c)
		out = appendChunk(appendChunks(out, l, done, i), merged)
		edits, done = edits[mine:], i+1
	}
	out = appendChunks(out, l, done, l.Chunks())
	if n <= inlineMax {
		l = List{}
		for _, c := range out {
			l.first = append(l.first, c...)
		}
		return l
	}
	return ListOfChunks(n, out[0], out[1:len(out):len(out)])
}

// appendChunks appends the chunks of l from up to, but not including, to.
func appendChunks(out [][]Edge, l List, from, to int) [][]Edge {
	if from >= to {
		return out
	}
	// Only the first chunk has a new predecessor, with which it may be joined.
	out = appendChunk(out, l.Chunk(from))
	if l.chunked == nil || to == from+1 {
		return out
	}
	rest := l.chunked.rest
	out = append(out, rest[from:min(to-1, len(rest))]...)
	if to-1 > len(rest) {
		out = append(out, l.chunked.last)
	}
	return out
}

// appendChunk appends a chunk of any size. It cuts a chunk of more than
// chunkMax edges, and joins a small chunk with a small predecessor, so that
// removals do not leave many tiny chunks.
func appendChunk(out [][]Edge, c []Edge) [][]Edge {
	if len(c) == 0 {
		return out
	}
	if k := len(out) - 1; k >= 0 && len(out[k])+len(c) <= chunkMax/2 {
		joined := make([]Edge, 0, len(out[k])+len(c))
		out[k] = append(append(joined, out[k]...), c...)
		return out
	}
	if len(c) <= chunkMax {
		return append(out, c[:len(c):len(c)])
	}
	cut := copiedList(c)
	return append(append(append(out, cut.first), cut.chunked.rest...), cut.chunked.last)
}
