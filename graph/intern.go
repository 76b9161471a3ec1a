package graph

import (
	"fmt"
	"hash/maphash"
	"sync/atomic"
	"unsafe"

	"github.com/ostiary/ostiary/rel"
)

// A name record is the node that was first given to the object, a word of
// length and type, and the bytes of the id. A node record is the offset of its
// name, and the object's next node (0 at the end), the youngest last. A name
// has a node from the moment it can be found.
//
// Nodes are given in blocks of 64 of one kind, so that a node's kind needs no
// memory of its own, and the lists of a segment are alike.
const (
	blockBits = 6
	blockSize = 1 << blockBits

	idBits  = 11 // rel.IDBytesMax needs them
	idMask  = 1<<idBits - 1
	typeMax = 1<<(32-idBits) - 1

	oddA = 0x9e3779b97f4a7c15 // odd numbers of random bits, to mix hashes with
	oddB = 0xd6e8feb86659fd93
)

// nameHash spreads over shards (its top byte) and tags (its low half).
func (g *Graph) nameHash(typ uint32, id string) uint64 {
	h := (maphash.String(g.seed, id) ^ uint64(typ)*oddA) * oddB
	return h ^ h>>29
}

// lookup finds the record of a name among those that s knows.
func (s *spine) lookup(g *Graph, typ uint32, id string) uint32 {
	h := g.nameHash(typ, id)
	p := g.nameIndex[h>>56].find(uint32(h))
	for off := p.next(); off != 0; off = p.next() {
		if rec := word(s.names, off); rec != nil && rec[1] == uint32(len(id))|typ<<idBits && recordID(rec) == id {
			return off
		}
	}
	return 0
}

// word returns the words from off on to the end of their chunk, or nil where
// the directory does not reach so far.
func word(chunks [][]uint32, off uint32) []uint32 {
	if c := off >> arenaBits; int(c) < len(chunks) {
		if chunk, i := chunks[c], off&arenaMask; int(i)+1 < len(chunk) {
			return chunk[i:]
		}
	}
	return nil
}

// recordID is the id in a name record, without a copy: records never change.
func recordID(rec []uint32) string {
	n := int(rec[1] & idMask)
	if body := rec[2:]; n <= len(body)*4 && n > 0 {
		return unsafe.String((*byte)(unsafe.Pointer(&body[0])), n)
	}
	return ""
}

// nodeName returns the offset of a node's name, 0 if s does not know the node.
func (s *spine) nodeName(n Node) uint32 {
	if rec := s.record(n); rec != nil {
		return rec[0]
	}
	return 0
}

func (s *spine) record(n Node) []uint32 {
	if n > NodeMax {
		return nil
	}
	return word(s.nodes, uint32(n)<<1)
}

// next returns the object's next node after n, 0 if there is none.
func (s *spine) next(n Node) Node {
	if rec := s.record(n); rec != nil {
		return Node(atomic.LoadUint32(&rec[1]))
	}
	return 0
}

// kindOf returns a node's kind, 0 if s does not know it.
func (s *spine) kindOf(n Node) Kind {
	if b := n >> blockBits; int(b) < len(s.blocks) {
		return s.blocks[b]
	}
	return 0
}

// first returns the first node of the name at off.
func (s *spine) first(off uint32) Node {
	if rec := word(s.names, off); rec != nil {
		return Node(rec[0])
	}
	return 0
}

// nodeOf finds the node of a kind among those of a name.
func (s *spine) nodeOf(off uint32, k Kind) (Node, bool) {
	// Nodes that s does not know stand at the end of the chain: there it ends.
	for n := s.first(off); n != 0; n = s.next(n) {
		switch s.kindOf(n) {
		case k:
			return n, true
		case 0:
			return 0, false
		}
	}
	return 0, false
}

// node returns the node of a kind and an id, a new one if the lineage has none;
// g.mu is held.
func (g *Graph) node(k Kind, id string) (Node, error) {
	if len(id) == 0 || len(id) > rel.IDBytesMax {
		return 0, fmt.Errorf("%w: id of %d bytes", rel.ErrName, len(id))
	}
	s := g.capture()
	typ := s.kinds[k].typ
	h := g.nameHash(typ, id)
	p := g.nameIndex[h>>56].find(uint32(h))
	for off := p.next(); off != 0; off = p.next() {
		rec := word(s.names, off)
		if rec[1] != uint32(len(id))|typ<<idBits || recordID(rec) != id {
			continue
		}
		for n := Node(rec[0]); ; {
			if s.blocks[n>>blockBits] == k {
				return n, nil
			}
			link := &s.record(n)[1]
			if *link == 0 {
				return g.giveNode(k, off, link)
			}
			n = Node(*link)
		}
	}
	return g.giveName(k, typ, id, h)
}

// giveName adds a name whose first node is of kind k.
func (g *Graph) giveName(k Kind, typ uint32, id string, h uint64) (Node, error) {
	if typ > typeMax {
		return 0, fmt.Errorf("%w: it has %d types", ErrFull, typeMax)
	}
	off, rec, ok := g.names.alloc(2 + (len(id)+3)/4)
	if !ok {
		return 0, fmt.Errorf("%w: its names have 16 GiB", ErrFull)
	}
	n, err := g.giveNode(k, off, nil)
	if err != nil {
		return 0, err // the record is lost, and nothing refers to it
	}
	rec[0], rec[1] = uint32(n), uint32(len(id))|typ<<idBits
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&rec[2])), len(id)), id)
	g.nameIndex[h>>56].add(uint32(h), off)
	g.count++
	return n, nil
}

// giveNode adds a node of kind k to the name at off, behind the link of the
// name's youngest node (nil for a new name).
func (g *Graph) giveNode(k Kind, off uint32, link *uint32) (Node, error) {
	f := &g.fill[k]
	if f.block == 0 || f.used == blockSize {
		if (len(g.spine.blocks)+1)*blockSize > g.opts.NodesMax {
			return 0, fmt.Errorf("%w: it has %d nodes", ErrFull, g.given)
		}
		before := len(g.nodes.chunks[0])
		g.nodes.alloc(2 * blockSize)
		if link != nil && len(g.nodes.chunks[0]) != before {
			// The first chunk moved to grow, and the link with it.
			link = g.moved(off)
		}
		*f = fill{block: uint32(len(g.spine.blocks))}
		g.spine.blocks = append(g.spine.blocks, k)
	}
	n := Node(f.block<<blockBits | f.used)
	f.used++
	g.given++
	word(g.nodes.chunks, uint32(n)<<1)[0] = off
	if link != nil {
		atomic.StoreUint32(link, uint32(n))
	}
	return n, nil
}

// moved finds the last link of the name at off anew.
func (g *Graph) moved(off uint32) *uint32 {
	s := g.capture()
	n := s.first(off)
	for s.next(n) != 0 {
		n = s.next(n)
	}
	return &s.record(n)[1]
}
