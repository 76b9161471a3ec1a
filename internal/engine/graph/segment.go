package graph

import "slices"

// segment holds the lists of a block of 64 nodes. It is immutable.
//
// words begins with a count m: nodes at m and beyond have no lists. m+1 offsets
// follow. The lists of node i are in words[off[i]:off[i+1]]. They form groups,
// one for each kind and direction, sorted by header. A group is a header, which
// consists of a side and the number of edges, followed by these edges in order.
// A list of more than inlineMax edges is instead a header with the number
// longCount and the list's index in long.
//
// If the bit uniform is set in the first word, the format is different: every
// node has at most one group, all groups have the same side, and each has one
// edge. The second word is the common header. The edges follow, one for each
// node; 0 is none. Relations such as parent or owner look like this, and they
// hold most tuples of many stores.
type segment struct {
	words []Edge // lists, and also offsets and headers, so that each list is a subslice of words
	long  *[]List
}

const (
	uniform   Edge = 1 << 31
	countBits      = 10
	countMask      = 1<<countBits - 1
	longCount      = countMask

	inlineMax = 64  // most edges of a list in a segment: what one write may copy
	chunkMax  = 512 // most edges of a chunk of a longer list
)

// side is the kind of a list's nodes and the list's direction.
type side uint32

func forward(k Kind) side { return side(k) << 1 }
func reverse(k Kind) side { return side(k)<<1 | 1 }

func (s side) kind() Kind    { return Kind(s >> 1) }
func (s side) reverse() bool { return s&1 != 0 }

// header returns the header of a group of n edges.
func (s side) header(n int) Edge { return Edge(s)<<countBits | Edge(n) }

// list returns one list of node i.
func (s *segment) list(i uint32, want side) List {
	w := s.words
	if len(w) == 0 {
		return List{}
	}
	m := uint32(w[0])
	if m&uint32(uniform) != 0 {
		if i < m&^uint32(uniform) && side(w[1]>>countBits) == want && w[2+i] != 0 {
			return List{first: w[2+i : 3+i : 3+i]}
		}
		return List{}
	}
	if i >= m {
		return List{}
	}
	for at, end := uint32(w[1+i]), uint32(w[2+i]); at < end; {
		h := w[at]
		n := uint32(h & countMask)
		if side(h>>countBits) == want {
			if n == longCount {
				return (*s.long)[w[at+1]]
			}
			return List{first: w[at+1 : at+1+n : at+1+n]}
		}
		if n == longCount {
			n = 1
		}
		at += 1 + n
	}
	return List{}
}

// find returns the edge to x in one list of node i. It does not search a list
// of several chunks: short is false then.
func (s *segment) find(i uint32, want side, x Node) (e Edge, found, short bool) {
	w := s.words
	if len(w) == 0 {
		return 0, false, true
	}
	m := uint32(w[0])
	if m&uint32(uniform) != 0 {
		if i < m&^uint32(uniform) && side(w[1]>>countBits) == want {
			e = w[2+i]
		}
		return e, e.Node() == x, true
	}
	if i >= m {
		return 0, false, true
	}
	for at, end := uint32(w[1+i]), uint32(w[2+i]); at < end; {
		h := w[at]
		n := uint32(h & countMask)
		if side(h>>countBits) == want {
			if n == longCount {
				return 0, false, false
			}
			e, found = find(w[at+1:at+1+n], x)
			return e, found, true
		}
		if n == longCount {
			n = 1
		}
		at += 1 + n
	}
	return 0, false, true
}

// empty reports whether node i has no lists.
func (s *segment) empty(i uint32) bool {
	w := s.words
	if len(w) == 0 {
		return true
	}
	if m := w[0] &^ uniform; i >= uint32(m) {
		return true
	}
	if w[0]&uniform != 0 {
		return w[2+i] == 0
	}
	return w[1+i] == w[2+i]
}

// nodes returns a number m: nodes at m and beyond have no lists.
func (s *segment) nodes() uint32 {
	if len(s.words) == 0 {
		return 0
	}
	return uint32(s.words[0] &^ uniform)
}

// groups iterates over the lists of one node, in order of side.
type groups struct {
	s       *segment
	at, end uint32
	single  bool // the segment is uniform, and at is the place of the node's edge
}

// groups returns an iterator over the lists of node i.
func (s *segment) groups(i uint32) groups {
	if s.empty(i) {
		return groups{}
	}
	if s.words[0]&uniform != 0 {
		return groups{s, 2 + i, 3 + i, true}
	}
	return groups{s, uint32(s.words[1+i]), uint32(s.words[2+i]), false}
}

// next returns the next list, and false at the end.
func (g *groups) next() (side, List, bool) {
	if g.at >= g.end {
		return 0, List{}, false
	}
	w, at := g.s.words, g.at
	if g.single {
		g.at++
		return side(w[1] >> countBits), List{first: w[at : at+1 : at+1]}, true
	}
	h := w[at]
	if n := uint32(h & countMask); n != longCount {
		g.at += 1 + n
		return side(h >> countBits), List{first: w[at+1 : at+1+n : at+1+n]}, true
	}
	g.at += 2
	return side(h >> countBits), (*g.s.long)[w[at+1]], true
}

// Sizes in memory, for [View.Bytes], about as the allocator rounds them.
const (
	listBytes  = 32 // a List
	moreBytes  = 64 // a chunkedList
	chunkBytes = 24 // a slice header in chunkedList.rest
)

// bytes returns the size of the memory that s refers to, without s itself.
func (s *segment) bytes() int64 {
	n := int64(cap(s.words)) * 4
	if s.long != nil {
		for _, l := range *s.long {
			n += listBytes + int64(l.Len())*4
			if l.chunked != nil {
				m := l.chunked
				n += moreBytes + int64(len(m.rest))*chunkBytes + int64(cap(m.last)-len(m.last))*4
			}
		}
	}
	return n
}

// encoder builds a segment from the groups of its nodes, which the caller adds
// in order. Its buffers are reused for the next segment.
type encoder struct {
	ends  [blockSize]Edge // by node: the end of its groups in data
	data  []Edge          // the groups of all nodes so far
	long  []List          // the lists that are too long for data
	count int             // nodes up to and including the last one that has groups

	// sharedHeader is the header of every group so far while the segment can
	// still be uniform; 0 before the first group.
	sharedHeader Edge
	mixed        bool // the segment cannot be uniform
	current      int  // the node that groups are added to
}

func (e *encoder) reset() {
	e.data, e.long = e.data[:0], e.long[:0]
	e.count, e.sharedHeader, e.mixed, e.current = 0, 0, false, -1
}

// beginNode makes i the current node. Nodes that were skipped have no groups.
func (e *encoder) beginNode(i int) {
	for ; e.current < i; e.current++ {
		if e.current >= 0 {
			e.ends[e.current] = Edge(len(e.data))
		}
	}
}

// copySpan adds all groups of the nodes from up to, but not including, to. s
// must not be uniform.
func (e *encoder) copySpan(s *segment, from, to uint32) {
	to = min(to, s.nodes())
	if from >= to {
		return
	}
	begin, end := s.words[1+from], s.words[1+to]
	if begin == end {
		return
	}
	e.beginNode(int(from))
	shift := Edge(len(e.data)) - begin
	for i := from; i < to; i++ {
		if s.words[2+i] > s.words[1+i] {
			e.count = int(i) + 1
		}
		e.ends[i] = s.words[2+i] + shift
	}
	e.current = int(to) - 1
	e.mixed = true
	e.data = append(e.data, s.words[begin:end]...)
	if s.long != nil {
		e.moveLong(*s.long, e.data[begin+shift:])
	}
}

// moveLong adds the long lists of some groups, which were copied from another
// segment, and renumbers them. The long lists of a segment are numbered in the
// order of its groups.
func (e *encoder) moveLong(long []List, groups []Edge) {
	for at := 0; at < len(groups); {
		n := int(groups[at] & countMask)
		if n == longCount {
			i := groups[at+1]
			groups[at+1] = Edge(len(e.long))
			e.long = append(e.long, long[i])
			n = 1
		}
		at += 1 + n
	}
}

// addList adds a group to the current node, unless l is empty.
func (e *encoder) addList(s side, l List) {
	switch n := l.Len(); {
	case n == 0:
	case n <= inlineMax:
		e.beginGroup(s, n)
		for i := range l.Chunks() {
			e.data = append(e.data, l.Chunk(i)...)
		}
	default:
		e.mixed = true
		e.count = e.current + 1
		e.data = append(e.data, s.header(longCount), Edge(len(e.long)))
		e.long = append(e.long, l)
	}
}

// beginGroup adds the header of a group of n edges to the current node. The
// caller appends the edges to e.data.
func (e *encoder) beginGroup(s side, n int) {
	h := s.header(n)
	// The two groups of a node always have different headers, so a second group
	// makes the segment mixed, too.
	if n != 1 || e.sharedHeader != 0 && e.sharedHeader != h {
		e.mixed = true
	}
	e.sharedHeader = h
	e.count = e.current + 1
	e.data = append(e.data, h)
}

// finish returns the segment.
func (e *encoder) finish() segment {
	if e.count == 0 {
		return segment{}
	}
	e.beginNode(blockSize)
	if !e.mixed {
		return e.finishUniform()
	}
	w := make([]Edge, 2+e.count+len(e.data))
	base := Edge(2 + e.count)
	w[0], w[1] = Edge(e.count), base
	for i, end := range e.ends[:e.count] {
		w[2+i] = base + end
	}
	copy(w[base:], e.data)
	s := segment{words: w}
	if len(e.long) > 0 {
		s.long = copiedLists(e.long)
		clear(e.long) // or this buffer would keep the chunks alive
	}
	return s
}

// copiedLists returns a pointer to a copy of lists. A single list, which is what most
// segments with long lists have, shares the memory of its slice.
func copiedLists(lists []List) *[]List {
	if len(lists) != 1 {
		own := slices.Clone(lists)
		return &own
	}
	one := &struct {
		lists []List
		list  [1]List
	}{list: [1]List{lists[0]}}
	one.lists = one.list[:]
	return &one.lists
}

func (e *encoder) finishUniform() segment {
	w := make([]Edge, 2+e.count)
	w[0], w[1] = uniform|Edge(e.count), e.sharedHeader
	at := Edge(0)
	for i, end := range e.ends[:e.count] {
		if end > at { // a header and an edge
			w[2+i] = e.data[end-1]
		}
		at = end
	}
	return segment{words: w}
}
