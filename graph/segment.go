package graph

// segment holds the lists of a block's nodes. It is immutable.
//
// words begins with a count m of nodes; nodes from m on have no list. Then
// either m+1 offsets follow, and node i's groups stand in words[off[i]:off[i+1]].
// A group is a header (kind and direction, number of edges) and its edges,
// sorted; of a long list, a header with the number longCount and the list's
// index in long. Groups are sorted by header.
//
// Or, with the bit uniform in the first word, one header follows, and then one
// edge for each node (0 for none): every node has at most that one group of one
// edge. Relations that name one parent or owner look like that, and they are
// most of many stores.
type segment struct {
	words []Edge // also offsets and headers, so that a list is a slice of it
	long  *[]List
}

const (
	uniform   Edge = 1 << 31
	countBits      = 10
	countMask      = 1<<countBits - 1
	longCount      = countMask

	inlineMax = 64  // edges of a list in a segment: what a write may copy
	chunkMax  = 512 // edges of a chunk of a longer list
)

// side is a group's kind and direction: whose neighbours, and which way.
type side uint32

func forward(k Kind) side { return side(k) << 1 }
func reverse(k Kind) side { return side(k)<<1 | 1 }

func (s side) kind() Kind    { return Kind(s >> 1) }
func (s side) reverse() bool { return s&1 != 0 }

// header of a group of n edges.
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

// find returns the edge to x in one list of node i. A long list it does not
// search: then short is false.
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

// empty says whether node i has no list.
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

// nodes returns the number of nodes that may have lists.
func (s *segment) nodes() uint32 {
	if len(s.words) == 0 {
		return 0
	}
	return uint32(s.words[0] &^ uniform)
}

// groups walks the lists of one node in order of side.
type groups struct {
	s       *segment
	at, end uint32
	single  bool // at is the edge of a uniform segment
}

// groups begins a walk over node i's lists.
func (s *segment) groups(i uint32) groups {
	if s.empty(i) {
		return groups{}
	}
	if s.words[0]&uniform != 0 {
		return groups{s, 2 + i, 3 + i, true}
	}
	return groups{s, uint32(s.words[1+i]), uint32(s.words[2+i]), false}
}

// next returns the next group, or false at the end.
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

// sizes in memory, for View.Bytes: as the allocator rounds, about.
const (
	listBytes  = 32 // a List
	moreBytes  = 64 // what a List of several chunks has besides
	chunkBytes = 24 // a slice header in a directory
)

// bytes is the memory that s refers to, besides its place in a page.
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

// encoder makes a segment from the groups of its nodes, given in order. It is
// used again for the next.
type encoder struct {
	ends  [blockSize]Edge // where each node's data ends
	data  []Edge
	long  []List
	count int // nodes up to the last with data

	// same is the header that every group had so far, of one edge; 0 if there
	// was none yet, or the segment is not uniform.
	sharedHeader Edge
	mixed        bool
	current      int // the node being written
}

func (e *encoder) reset() {
	e.data, e.long = e.data[:0], e.long[:0]
	e.count, e.sharedHeader, e.mixed, e.current = 0, 0, false, -1
}

// node begins node i; those between it and the last stay empty.
func (e *encoder) beginNode(i int) {
	for ; e.current < i; e.current++ {
		if e.current >= 0 {
			e.ends[e.current] = Edge(len(e.data))
		}
	}
}

// span adds all groups of the nodes from from to before to, of a segment that
// is not uniform, as they are.
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

// moveLong takes over the long lists of groups, from another segment. A
// segment's long lists are numbered in the order of its groups.
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

// list adds a group of the current node. An empty list is none.
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

// open begins a group of n edges, which the caller appends to e.data.
func (e *encoder) beginGroup(s side, n int) {
	h := s.header(n)
	// A node's second group has another header than its first: then the segment
	// is mixed anyway.
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
		long := make([]List, len(e.long))
		copy(long, e.long)
		clear(e.long) // or the buffer would keep chunks alive
		s.long = &long
	}
	return s
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
