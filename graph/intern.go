package graph

import (
	"fmt"
	"hash/maphash"
	"sync/atomic"
	"unsafe"

	"github.com/ostiary/ostiary/rel"
)

// A name record is a word of length and type, the object's first nodes, and the
// bytes of the id. A node record is the offset of its name, and the object's
// next node; the last one in the name record leads to the first that stands
// only in such a chain. The nodes of a name are in order of age, 0 ends them,
// and a name has one from the moment it can be found.
//
// Most objects have nodes of one or two kinds. Keeping those in the name record
// saves a walk to other memory, above all for the kinds that an object has not.
//
// Nodes are given in blocks of 64 of one kind, so that a node's kind needs no
// memory of its own, and the lists of a segment are alike.
const (
	blockBits = 6
	blockSize = 1 << blockBits

	recordNodes = 2               // nodes in a name record
	recordHead  = 1 + recordNodes // words before the id

	idBits  = 11 // rel.IDBytesMax needs them
	idMask  = 1<<idBits - 1
	typeMax = 1<<(32-idBits) - 1

	oddA = 0x9e3779b97f4a7c15 // odd numbers of random bits, to mix hashes with
	oddB = 0xd6e8feb86659fd93
)

// nameHash spreads over shards (its top bits) and tags (its low half).
func (g *Graph) nameHash(typ uint32, id string) uint64 {
	h := (maphash.String(g.seed, id) ^ uint64(typ)*oddA) * oddB
	return h ^ h>>29
}

// lookup finds the record of a name among those that s knows, nil if there is
// none.
func (s *symbols) lookup(g *Graph, typ uint32, id string) []uint32 {
	return s.lookupHashed(g, g.nameHash(typ, id), typ, id)
}

// lookupTwo is lookup for two names at once: each step is begun for both before
// the next, so that they wait for memory together.
func (s *symbols) lookupTwo(g *Graph, typA uint32, a string, typB uint32, b string) (recA, recB []uint32) {
	hashA, hashB := g.nameHash(typA, a), g.nameHash(typB, b)
	offA := g.nameIndex[hashA>>(64-shardBits)].findNear(uint32(hashA))
	offB := g.nameIndex[hashB>>(64-shardBits)].findNear(uint32(hashB))
	recA, recB = wordsAt(s.names, offA), wordsAt(s.names, offB)
	headA, headB := firstWord(recA), firstWord(recB)
	if offA == 0 || headA != uint32(len(a))|typA<<idBits || recordID(recA) != a {
		recA = s.lookupHashed(g, hashA, typA, a)
	}
	if offB == 0 || headB != uint32(len(b))|typB<<idBits || recordID(recB) != b {
		recB = s.lookupHashed(g, hashB, typB, b)
	}
	return recA, recB
}

func firstWord(rec []uint32) uint32 {
	if len(rec) == 0 {
		return 0
	}
	return rec[0]
}

func (s *symbols) lookupHashed(g *Graph, h uint64, typ uint32, id string) []uint32 {
	p := g.nameIndex[h>>(64-shardBits)].find(uint32(h))
	for off := p.next(); off != 0; off = p.next() {
		if rec := wordsAt(s.names, off); rec != nil && rec[0] == uint32(len(id))|typ<<idBits && recordID(rec) == id {
			return rec
		}
	}
	return nil
}

// word returns the words from off on to the end of their chunk, or nil where
// the directory does not reach so far.
func wordsAt(chunks [][]uint32, off uint32) []uint32 {
	if c := off >> arenaBits; int(c) < len(chunks) {
		// The shortest record has two words.
		if chunk, i := chunks[c], off&arenaMask; int(i)+1 < len(chunk) {
			return chunk[i:]
		}
	}
	return nil
}

// recordID is the id in a name record, without a copy: records never change.
func recordID(rec []uint32) string {
	n := int(rec[0] & idMask)
	if body := rec[recordHead:]; n <= len(body)*4 && n > 0 {
		return unsafe.String((*byte)(unsafe.Pointer(&body[0])), n)
	}
	return ""
}

// nodeName returns the offset of a node's name, 0 if s does not know the node.
func (s *symbols) nameOffset(n Node) uint32 {
	if rec := s.nodeRecord(n); rec != nil {
		return rec[0]
	}
	return 0
}

func (s *symbols) nodeRecord(n Node) []uint32 {
	if n > NodeMax {
		return nil
	}
	return wordsAt(s.nodes, uint32(n)<<1)
}

// walk walks the nodes of a name.
type nodeWalk struct {
	s         *symbols
	link      []uint32 // where the next link is, nil at the end
	linksLeft int      // links left in the name record
}

// walk begins a walk over the nodes in a name record, which may be nil.
func (s *symbols) walkNodes(rec []uint32) nodeWalk {
	if rec == nil {
		return nodeWalk{}
	}
	return nodeWalk{s, rec[1:], recordNodes}
}

// name returns the name record of a node, nil if s does not know the node.
func (s *symbols) nameRecord(n Node) []uint32 {
	if off := s.nameOffset(n); off != 0 {
		return wordsAt(s.names, off)
	}
	return nil
}

// next returns the next node, or 0 at the end. Nodes that s does not know are
// younger than those it knows: there it ends, too.
func (k *nodeWalk) next() Node {
	if len(k.link) == 0 {
		return 0
	}
	n := Node(atomic.LoadUint32(&k.link[0]))
	rec := k.s.nodeRecord(n)
	if k.s.kindOf(n) == 0 || !k.s.hasRecord(n) {
		return 0
	}
	if k.linksLeft--; k.linksLeft > 0 {
		k.link = k.link[1:]
	} else {
		k.link = rec[1:]
	}
	return n
}

// kindOf returns a node's kind, 0 if s does not know it.
func (s *symbols) kindOf(n Node) Kind {
	if b := n >> blockBits; int(b) < len(s.blocks) {
		return s.blocks[b]
	}
	return 0
}

// knows says whether s has the record of a node whose block it has. A block is
// known before its youngest nodes are given: they are in place once the first
// chunk has its whole size, but before that it moves as it grows, and an older
// view keeps the smaller one.
func (s *symbols) hasRecord(n Node) bool {
	if len(s.nodes[0]) == arenaChunk {
		return true
	}
	rec := s.nodeRecord(n)
	return rec != nil && rec[0] != 0
}

// nodeOf finds the node of a kind among those in a name record, which may be
// nil.
func (s *symbols) nodeOf(rec []uint32, k Kind) (Node, bool) {
	if len(rec) < recordHead {
		return 0, false
	}
	// Most walks end here; a name's first node never changes.
	if n := Node(rec[1]); s.kindOf(n) == k {
		return n, s.hasRecord(n)
	}
	n := Node(atomic.LoadUint32(&rec[2]))
	if n == 0 {
		return 0, false
	}
	if s.kindOf(n) == k {
		return n, s.hasRecord(n)
	}
	walk := s.walkNodes(rec)
	for n := walk.next(); n != 0; n = walk.next() {
		if s.kindOf(n) == k {
			return n, true
		}
	}
	return 0, false
}

// node returns the node of a kind and an id, a new one if the lineage has none;
// g.mu is held.
func (g *Graph) node(k Kind, id string) (Node, error) {
	if err := checkID(id); err != nil {
		return 0, err
	}
	return g.findOrAddNode(&nodeKey{kind: k, typ: g.symbols.kinds[k].typ, id: id})
}

func checkID(id string) error {
	if len(id) == 0 || len(id) > rel.IDBytesMax {
		return fmt.Errorf("%w: id of %d bytes", rel.ErrName, len(id))
	}
	return nil
}

// touchSlot reads where the search for a name begins, and returns the offset of
// a name if one is there.
func (g *Graph) prefetchName(n *nodeKey) uint32 {
	n.hash = g.nameHash(n.typ, n.id)
	if p := g.nameIndex[n.hash>>(64-shardBits)].find(uint32(n.hash)); len(p.slots) > 0 {
		return uint32(p.slots[p.at].Load())
	}
	return 0
}

// hashed is node for an id in bounds.
func (g *Graph) findOrAddNode(n *nodeKey) (Node, error) {
	if g.loading != nil && g.loading.ofType(n.typ).state != namesIndexed {
		g.indexType(n.typ)
	}
	h := n.hash
	if h == 0 {
		h = g.nameHash(n.typ, n.id)
	}
	p := g.nameIndex[h>>(64-shardBits)].find(uint32(h))
	for off := p.next(); off != 0; off = p.next() {
		if rec := wordsAt(g.symbols.names, off); rec[0] == uint32(len(n.id))|n.typ<<idBits && recordID(rec) == n.id {
			return g.nodeOfName(n.kind, off, rec)
		}
	}
	node, off, err := g.addName(n.kind, n.typ, n.id)
	if err == nil {
		g.nameIndex[h>>(64-shardBits)].add(uint32(h), off)
	}
	return node, err
}

// among finds or gives the node of a kind among those of a name.
func (g *Graph) nodeOfName(k Kind, off uint32, rec []uint32) (Node, error) {
	if n, ok := g.symbols.nodeOf(rec, k); ok {
		return n, nil
	}
	end := g.symbols.walkNodes(rec)
	for end.next() != 0 {
	}
	return g.addNode(k, off, end)
}

// giveName adds a name whose first node is of kind k, and returns its offset. It
// can be found when that is in the index.
func (g *Graph) addName(k Kind, typ uint32, id string) (Node, uint32, error) {
	if typ > typeMax {
		return 0, 0, fmt.Errorf("%w: it has %d types", ErrFull, typeMax)
	}
	off, rec, ok := g.names.alloc(recordHead + (len(id)+3)/4)
	if !ok {
		return 0, 0, fmt.Errorf("%w: its names have 16 GiB", ErrFull)
	}
	g.symbols.names = g.names.chunks
	n, err := g.addNode(k, off, nodeWalk{})
	if err != nil {
		return 0, 0, err // the record is lost, and nothing refers to it
	}
	rec[0], rec[1] = uint32(len(id))|typ<<idBits, uint32(n)
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&rec[recordHead])), len(id)), id)
	g.nameCount++
	return n, off, nil
}

// giveNode adds a node of kind k to the name at off; end is the end of a walk
// over the name's nodes (the zero walk for a new name).
func (g *Graph) addNode(k Kind, off uint32, end nodeWalk) (Node, error) {
	f := &g.open[k]
	if f.block == 0 || f.used == blockSize {
		if (len(g.symbols.blocks)+1)*blockSize > g.opts.NodesMax {
			return 0, fmt.Errorf("%w: it has %d nodes", ErrFull, g.nodeCount)
		}
		small := len(g.nodes.chunks) == 1
		g.nodes.alloc(2 * blockSize)
		g.symbols.nodes = g.nodes.chunks
		*f = openBlock{block: uint32(len(g.symbols.blocks))}
		g.symbols.blocks = append(g.symbols.blocks, k)
		if small && end.s != nil {
			// The first chunk may have moved to grow, and the link with it.
			end = g.symbols.walkNodes(wordsAt(g.symbols.names, off))
			for end.next() != 0 {
			}
		}
	}
	n := Node(f.block<<blockBits | f.used)
	f.used++
	g.nodeCount++
	wordsAt(g.nodes.chunks, uint32(n)<<1)[0] = off
	if end.s != nil {
		atomic.StoreUint32(&end.link[0], uint32(n)) // the link that the walk ended at
	}
	return n, nil
}
