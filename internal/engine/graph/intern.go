package graph

import (
	"fmt"
	"hash/maphash"
	"sync/atomic"
	"unsafe"

	"github.com/ostiary/ostiary/rel"
)

// Symbols are stored as records of 32-bit words in two arenas.
//
// A name record belongs to an object: one word with the length of the id and
// the number of the type, then recordNodes words with the object's first nodes,
// then the bytes of the id. A node record has two words: the offset of the
// node's name record, and the object's next node.
//
// The nodes of an object form a list, oldest first, that ends with 0. The name
// record holds the first ones; the link after them is in the node record of the
// last of these, and so on. An object has at least one node as soon as it can
// be found.
//
// Most objects have nodes of one or two kinds. With these in the name record, a
// search for a kind usually reads no node record, above all if the object has
// no node of that kind.
//
// Nodes are numbered in blocks of 64 nodes of one kind. So one entry per block
// is enough to know every node's kind, and the lists of a segment resemble each
// other.
const (
	blockBits = 6
	blockSize = 1 << blockBits

	recordNodes = 2               // nodes in a name record
	recordHead  = 1 + recordNodes // words before the id

	idBits  = 11 // enough for rel.IDBytesMax
	idMask  = 1<<idBits - 1
	typeMax = 1<<(32-idBits) - 1

	oddA = 0x9e3779b97f4a7c15 // odd numbers with random bits, to mix hashes with
	oddB = 0xd6e8feb86659fd93
)

// nameHash returns the hash of a name. Its top bits select the shard, its low
// half is the tag in the shard's table.
func (g *Graph) nameHash(typ uint32, id string) uint64 {
	h := (maphash.String(g.seed, id) ^ uint64(typ)*oddA) * oddB
	return h ^ h>>29
}

// lookup returns the name record of an object, or nil if s does not have it.
func (s *symbols) lookup(g *Graph, typ uint32, id string) []uint32 {
	return s.lookupHashed(g, g.nameHash(typ, id), typ, id)
}

// lookupTwo is like lookup for two objects, but does each step for both
// objects before the next step. So the two reads of a step wait for memory at
// the same time.
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

// firstWord returns the first word of a record, or 0 if there is no record.
func firstWord(rec []uint32) uint32 {
	if len(rec) == 0 {
		return 0
	}
	return rec[0]
}

// lookupHashed is lookup for a name whose hash is h.
func (s *symbols) lookupHashed(g *Graph, h uint64, typ uint32, id string) []uint32 {
	p := g.nameIndex[h>>(64-shardBits)].find(uint32(h))
	for off := p.next(); off != 0; off = p.next() {
		if rec := wordsAt(s.names, off); rec != nil && rec[0] == uint32(len(id))|typ<<idBits && recordID(rec) == id {
			return rec
		}
	}
	return nil
}

// wordsAt returns the words from offset off to the end of its chunk. It returns
// nil if chunks does not reach that far.
func wordsAt(chunks [][]uint32, off uint32) []uint32 {
	if c := off >> arenaBits; int(c) < len(chunks) {
		// The shortest record has two words.
		if chunk, i := chunks[c], off&arenaMask; int(i)+1 < len(chunk) {
			return chunk[i:]
		}
	}
	return nil
}

// recordID returns the id in a name record without copying it. Records never
// change.
func recordID(rec []uint32) string {
	n := int(rec[0] & idMask)
	if body := rec[recordHead:]; n <= len(body)*4 && n > 0 {
		return unsafe.String((*byte)(unsafe.Pointer(&body[0])), n)
	}
	return ""
}

// nameOffset returns the offset of the name record of a node's object, or 0 if
// s does not have the node.
func (s *symbols) nameOffset(n Node) uint32 {
	if rec := s.nodeRecord(n); rec != nil {
		return rec[0]
	}
	return 0
}

// nodeRecord returns the words from a node's record on, or nil if s does not
// have the node.
func (s *symbols) nodeRecord(n Node) []uint32 {
	if n > NodeMax {
		return nil
	}
	return wordsAt(s.nodes, uint32(n)<<1)
}

// nodeWalk iterates over the nodes of an object, oldest first.
type nodeWalk struct {
	s         *symbols
	link      []uint32 // begins with the link to the next node; nil at the end
	linksLeft int      // links left in the name record
}

// walkNodes returns an iterator over the nodes in a name record, which may be
// nil.
func (s *symbols) walkNodes(rec []uint32) nodeWalk {
	if rec == nil {
		return nodeWalk{}
	}
	return nodeWalk{s, rec[1:], recordNodes}
}

// nameRecord returns the name record of a node's object, or nil if s does not
// have the node.
func (s *symbols) nameRecord(n Node) []uint32 {
	if off := s.nameOffset(n); off != 0 {
		return wordsAt(s.names, off)
	}
	return nil
}

// next returns the next node, or 0 at the end. It ends at the first node that s
// does not have, since later ones are newer still.
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

// kindOf returns a node's kind, or 0 if s does not have its block.
func (s *symbols) kindOf(n Node) Kind {
	if b := n >> blockBits; int(b) < len(s.blocks) {
		return s.blocks[b]
	}
	return 0
}

// hasRecord reports whether s has the record of a node whose block it has. A
// view may have a block whose youngest nodes are added later. Their records
// appear in the view as well, unless the first chunk of records was still
// growing: then newer views use a larger copy of the chunk, and the view keeps
// the smaller one.
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
	// Most searches end here. The first node of a name never changes.
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

// node returns the node of a kind and an id. It adds the node if the lineage
// does not have it. The caller holds g.mu.
func (g *Graph) node(k Kind, id string) (Node, error) {
	if err := checkID(id); err != nil {
		return 0, err
	}
	return g.findOrAddNode(&nodeKey{kind: k, typ: g.symbols.kinds[k].typ, id: id})
}

func checkID(id string) error {
	if len(id) == 0 || len(id) > rel.IDBytesMax {
		return fmt.Errorf("%w: id of %d bytes, expected 1 to %d", rel.ErrName, len(id), rel.IDBytesMax)
	}
	return nil
}

// prefetchName reads the memory at which the search for a name begins. It
// returns the offset of the name record there, which may be another one's, or
// 0.
func (g *Graph) prefetchName(n *nodeKey) uint32 {
	n.hash = g.nameHash(n.typ, n.id)
	if p := g.nameIndex[n.hash>>(64-shardBits)].find(uint32(n.hash)); len(p.slots) > 0 {
		return uint32(p.slots[p.at].Load())
	}
	return 0
}

// findOrAddNode is like node for a valid id.
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

// nodeOfName returns the node of kind k of the object with the name record at
// off. It adds the node if it does not exist.
func (g *Graph) nodeOfName(k Kind, off uint32, rec []uint32) (Node, error) {
	if n, ok := g.symbols.nodeOf(rec, k); ok {
		return n, nil
	}
	end := g.symbols.walkNodes(rec)
	for end.next() != 0 {
	}
	return g.addNode(k, off, end)
}

// addName adds a name record and a first node of kind k. It returns the node
// and the record's offset, which the caller puts into the index.
func (g *Graph) addName(k Kind, typ uint32, id string) (Node, uint32, error) {
	if typ > typeMax {
		return 0, 0, fmt.Errorf("%w: at most %d types are possible", ErrFull, typeMax)
	}
	off, rec, ok := g.names.alloc(recordHead + (len(id)+3)/4)
	if !ok {
		return 0, 0, fmt.Errorf("%w: at most 16 GiB of names are possible", ErrFull)
	}
	g.symbols.names = g.names.chunks
	n, err := g.addNode(k, off, nodeWalk{})
	if err != nil {
		return 0, 0, err // the record's memory is lost, and nothing refers to it
	}
	rec[0], rec[1] = uint32(len(id))|typ<<idBits, uint32(n)
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&rec[recordHead])), len(id)), id)
	g.nameCount++
	return n, off, nil
}

// addNode adds a node of kind k to the object whose name record is at off. end
// is a walk over the object's nodes that has reached the end, or the zero
// nodeWalk for a new name.
func (g *Graph) addNode(k Kind, off uint32, end nodeWalk) (Node, error) {
	f := &g.open[k]
	if f.block == 0 || f.used == blockSize {
		if (len(g.symbols.blocks)+1)*blockSize > g.opts.NodesMax {
			return 0, fmt.Errorf("%w: at most %d nodes are allowed", ErrFull, g.opts.NodesMax)
		}
		small := len(g.nodes.chunks) == 1
		g.nodes.alloc(2 * blockSize)
		g.symbols.nodes = g.nodes.chunks
		*f = openBlock{block: uint32(len(g.symbols.blocks))}
		g.symbols.blocks = append(g.symbols.blocks, k)
		if small && end.s != nil {
			// The first chunk may have been copied to grow. Then the link has
			// moved with it.
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
		atomic.StoreUint32(&end.link[0], uint32(n)) // the link at which the walk ended
	}
	return n, nil
}
