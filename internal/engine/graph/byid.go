package graph

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// idOrders holds an *idOrder for each kind whose nodes were listed by id. They cost
// 4 to 5 bytes for each node of these kinds, and nothing for other kinds.
type idOrders struct {
	of    sync.Map     // *kindOrder by Kind
	bytes atomic.Int64 // of all
}

// kindOrder holds the newest idOrder of one kind.
type kindOrder struct {
	mu      sync.Mutex // held to make the next order
	current atomic.Pointer[idOrder]
}

// idOrder holds nodes of one kind in order of their ids. It is immutable. Successive
// orders share the chunks in which no node was added.
type idOrder struct {
	symbols          // those of the lineage when the order was made; they have all of its nodes
	nodes   int      // nodes of the lineage, of all kinds, when the order was made
	end     Node     // the first node of the kind that the order does not cover
	count   int      // nodes in chunks
	chunks  [][]Node // none is empty
}

const (
	// idChunkMax is the largest number of nodes in a chunk of an idOrder.
	idChunkMax = 512
	// idMergeDivisor decides how nodes are added: if there are more new nodes than
	// one for this number of old ones, all chunks are made again.
	idMergeDivisor = 16
)

// byID returns an order that has every node of kind k that the view has. It may have
// newer nodes, too. The first call for a kind sorts its nodes. Later calls add what is
// new, and hold the lineage's lock for a moment to do so.
func (v *View) byID(k Kind) *idOrder {
	slot, ok := v.g.ids.of.Load(k)
	if !ok {
		slot, _ = v.g.ids.of.LoadOrStore(k, &kindOrder{})
	}
	s := slot.(*kindOrder)
	if o := s.current.Load(); o != nil && o.nodes >= v.nodeCount {
		return o
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.current.Load()
	if old == nil {
		old = &idOrder{}
	} else if old.nodes >= v.nodeCount {
		return old
	}
	o := old.extended(v.g, k)
	s.current.Store(o)
	v.g.ids.bytes.Add(o.bytes() - old.bytes())
	return o
}

func (o *idOrder) bytes() int64 { return int64(o.count)*4 + int64(len(o.chunks))*chunkBytes }

// extended returns o with the nodes of kind k that were added since.
func (o *idOrder) extended(g *Graph, k Kind) *idOrder {
	g.mu.Lock()
	s, nodes, open := g.symbols, g.nodeCount, g.open[k]
	g.mu.Unlock()
	out := &idOrder{symbols: s, nodes: nodes, end: o.end, count: o.count, chunks: o.chunks}
	if open.block == 0 {
		return out
	}
	out.end = Node(open.block<<blockBits + open.used)
	var fresh []Node
	for n := s.firstOfKind(k, max(o.end, blockSize), out.end); n < out.end; n = s.firstOfKind(k, n+1, out.end) {
		fresh = append(fresh, n)
	}
	if len(fresh) == 0 {
		return out
	}
	s.sortByID(fresh)
	out.count += len(fresh)
	if len(fresh) > o.count/idMergeDivisor {
		out.chunks = cut(nil, s.mergeByID(slices.Concat(o.chunks...), fresh))
		return out
	}
	out.chunks = s.insertByID(o.chunks, fresh)
	return out
}

// cut appends sorted nodes to chunks, in chunks of equal size that have room for more.
func cut(chunks [][]Node, nodes []Node) [][]Node {
	if len(nodes) <= idChunkMax {
		return append(chunks, nodes)
	}
	parts := (len(nodes) + idChunkMax/2 - 1) / (idChunkMax / 2)
	for i := range parts {
		from, to := len(nodes)*i/parts, len(nodes)*(i+1)/parts
		chunks = append(chunks, slices.Clone(nodes[from:to]))
	}
	return chunks
}

// insertByID returns chunks with more nodes. It copies only the chunks that get any. Both
// are sorted, and chunks is not empty.
func (s *symbols) insertByID(chunks [][]Node, fresh []Node) [][]Node {
	out := make([][]Node, 0, len(chunks)+len(fresh)/(idChunkMax/2)+8)
	for len(fresh) > 0 {
		// The last chunk that begins before the first new node takes it, with all new
		// nodes before the next chunk.
		at := max(s.chunkAfter(chunks, s.id(fresh[0]))-1, 0)
		n := len(fresh)
		if at+1 < len(chunks) {
			n, _ = slices.BinarySearchFunc(fresh, chunks[at+1][0], s.compareIDs)
		}
		out = cut(append(out, chunks[:at]...), s.mergeByID(chunks[at], fresh[:n]))
		chunks, fresh = chunks[at+1:], fresh[n:]
	}
	return append(out, chunks...)
}

// chunkAfter returns the index of the first chunk that begins after id.
func (s *symbols) chunkAfter(chunks [][]Node, id string) int {
	at, _ := slices.BinarySearchFunc(chunks, id, func(c []Node, id string) int {
		if s.id(c[0]) <= id {
			return -1
		}
		return 1
	})
	return at
}

// id returns the id of a node's object, or "" if s does not have the node.
func (s *symbols) id(n Node) string {
	if rec := s.nameRecord(n); rec != nil {
		return recordID(rec)
	}
	return ""
}

func (s *symbols) compareIDs(a, b Node) int { return strings.Compare(s.id(a), s.id(b)) }

// mergeByID merges two lists of nodes that are sorted by id.
func (s *symbols) mergeByID(a, b []Node) []Node {
	if len(a) == 0 {
		return b
	}
	out := make([]Node, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if s.compareIDs(a[0], b[0]) < 0 {
			out, a = append(out, a[0]), a[1:]
		} else {
			out, b = append(out, b[0]), b[1:]
		}
	}
	return append(append(out, a...), b...)
}

// fewIDs is the number of nodes up to which comparing whole ids is quick enough.
const fewIDs = 32

// sortByID sorts nodes by their ids.
func (s *symbols) sortByID(nodes []Node) {
	if len(nodes) <= fewIDs {
		slices.SortFunc(nodes, s.compareIDs)
		return
	}
	keyed := make([]keyedNode, len(nodes))
	for i, n := range nodes {
		keyed[i].node = n
	}
	s.sortKeyed(keyed, 0)
	for i := range keyed {
		nodes[i] = keyed[i].node
	}
}

// keyedNode is a node with eight bytes of its id.
type keyedNode struct {
	key  uint64
	node Node
}

// sortKeyed sorts nodes whose ids have their first bytes, up to from, in common. The
// ids of a type usually share a prefix, so it compares the eight bytes after what all
// have in common, which it reads once, and sorts those with equal ones in the same way.
func (s *symbols) sortKeyed(nodes []keyedNode, from int) {
	first := s.id(nodes[0].node)
	common := len(first)
	for _, n := range nodes[1:] {
		id := s.id(n.node)
		common = min(common, len(id))
		for i := from; i < common; i++ {
			if id[i] != first[i] {
				common = i
			}
		}
	}
	var b [8]byte
	for i := range nodes {
		clear(b[:])
		copy(b[:], s.id(nodes[i].node)[common:])
		nodes[i].key = binary.BigEndian.Uint64(b[:])
	}
	slices.SortFunc(nodes, func(a, b keyedNode) int { return cmp.Compare(a.key, b.key) })
	for i := 0; i < len(nodes); {
		j := i + 1
		for j < len(nodes) && nodes[j].key == nodes[i].key {
			j++
		}
		if equal := nodes[i:j]; j-i > fewIDs && nodes[i].key&0xff != 0 {
			s.sortKeyed(equal, common+8) // no id has ended: its last byte would be 0
		} else if j-i > 1 {
			slices.SortFunc(equal, func(a, b keyedNode) int { return s.compareIDs(a.node, b.node) })
		}
		i = j
	}
}

// idWalk iterates over an idOrder.
type idWalk struct {
	order  *idOrder
	chunks [][]Node
	at     int // in chunks[0]
}

// from returns an iterator over the nodes whose ids are not less than id.
func (o *idOrder) from(id string) idWalk {
	chunks := o.chunks[max(o.chunkAfter(o.chunks, id)-1, 0):]
	if len(chunks) == 0 {
		return idWalk{}
	}
	at, _ := slices.BinarySearchFunc(chunks[0], id, func(n Node, id string) int { return strings.Compare(o.id(n), id) })
	return idWalk{o, chunks, at}
}

// next returns the next node, which the view may lack, or 0 at the end.
func (w *idWalk) next() Node {
	for len(w.chunks) > 0 {
		if w.at < len(w.chunks[0]) {
			w.at++
			return w.chunks[0][w.at-1]
		}
		w.chunks, w.at = w.chunks[1:], 0
	}
	return 0
}
