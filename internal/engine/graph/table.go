package graph

import "sync/atomic"

// table maps 32-bit tags to references; a tag may have several references. It
// is a hash table with linear probing over words of (tag, reference). It has
// one writer and any number of readers, which take no lock. A reference is
// never 0.
type table struct {
	slots atomic.Pointer[[]atomic.Uint64]
	used  int // entries; for the writer only
}

// probe iterates over the references of one tag, in no particular order.
type probe struct {
	slots []atomic.Uint64
	tag   uint32
	at    int
}

// find returns an iterator over the references of a tag.
func (t *table) find(tag uint32) probe {
	p := t.slots.Load()
	if p == nil {
		return probe{}
	}
	s := *p
	// The slot at which a search begins is proportional to the tag. So entries
	// are nearly sorted by tag, and the table may have any length.
	return probe{s, tag, int(uint64(tag) * uint64(len(s)) >> 32)}
}

// next returns the next reference, or 0 at the end.
func (p *probe) next() uint32 {
	for len(p.slots) > 0 {
		v := p.slots[p.at].Load()
		if v == 0 {
			return 0
		}
		if p.at++; p.at == len(p.slots) {
			p.at = 0
		}
		if uint32(v>>32) == p.tag {
			return uint32(v)
		}
	}
	return 0
}

// findNear returns the first reference of a tag within the first four slots of
// its search. 0 means that the caller must continue the search after these
// slots, not that no reference exists. It has no branches that depend on the
// table's content, so the processor can start the following reads before this
// one has arrived from memory.
func (t *table) findNear(tag uint32) uint32 {
	p := t.slots.Load()
	if p == nil {
		return 0
	}
	s := *p
	home := int(uint64(tag) * uint64(len(s)) >> 32)
	if home+4 > len(s) {
		return 0
	}
	s = s[home : home+4 : home+4]
	a, b, c, d := s[0].Load(), s[1].Load(), s[2].Load(), s[3].Load()
	ref := uint32(0)
	if uint32(d>>32) == tag {
		ref = uint32(d)
	}
	if uint32(c>>32) == tag {
		ref = uint32(c)
	}
	if uint32(b>>32) == tag {
		ref = uint32(b)
	}
	if uint32(a>>32) == tag {
		ref = uint32(a)
	}
	return ref
}

// add adds a reference to a tag. What ref refers to must have been written
// before.
func (t *table) add(tag, ref uint32) {
	var s []atomic.Uint64
	if p := t.slots.Load(); p != nil {
		s = *p
	}
	// If more than 4/5 of the slots are used, searches for absent names get
	// long. Growing by a third keeps 0.7 of them used on average. It copies the
	// entries nearly in order, which is quick.
	if (t.used+1)*5 > len(s)*4 {
		grown := make([]atomic.Uint64, len(s)+len(s)/3+4)
		for i := range s {
			if v := s[i].Load(); v != 0 {
				insert(grown, v)
			}
		}
		insert(grown, uint64(tag)<<32|uint64(ref))
		t.slots.Store(&grown)
	} else {
		insert(s, uint64(tag)<<32|uint64(ref))
	}
	t.used++
}

// reserve makes room for n more references, so that adding them copies nothing.
func (t *table) reserve(n int) {
	var old []atomic.Uint64
	if p := t.slots.Load(); p != nil {
		old = *p
	}
	want := (t.used+n)*10/7 + 4
	if want <= len(old) {
		return
	}
	grown := make([]atomic.Uint64, want)
	for i := range old {
		if v := old[i].Load(); v != 0 {
			insert(grown, v)
		}
	}
	t.slots.Store(&grown)
}

// insert puts an entry into the first free slot of its search.
func insert(s []atomic.Uint64, v uint64) {
	at := int((v >> 32) * uint64(len(s)) >> 32)
	for s[at].Load() != 0 {
		if at++; at == len(s) {
			at = 0
		}
	}
	s[at].Store(v)
}

// bytes returns the size of the table's memory.
func (t *table) bytes() int64 {
	if p := t.slots.Load(); p != nil {
		return int64(len(*p)) * 8
	}
	return 0
}

const (
	arenaBits  = 16 // 64 Ki words, so 256 KiB, in a chunk
	arenaChunk = 1 << arenaBits
	arenaMask  = arenaChunk - 1
)

// arena is append-only storage of words. It consists of chunks that are never
// copied once they have their full size. A reader keeps the slice of chunks:
// what was written before stays readable there.
type arena struct {
	chunks [][]uint32
	used   uint64 // words, including those lost at the ends of chunks
}

// alloc reserves n consecutive words and returns their offset and the words. It
// returns false if an offset would need more than 32 bits. n is at most
// arenaChunk.
func (a *arena) alloc(n int) (uint32, []uint32, bool) {
	last := len(a.chunks) - 1
	off := int(a.used & arenaMask)
	full := last < 0 || off == 0 && a.used > 0 || off+n > arenaChunk
	if !full && off+n > len(a.chunks[last]) { // only the first chunk is ever smaller
		grown := make([]uint32, min(arenaChunk, max(2*len(a.chunks[last]), off+n)))
		copy(grown, a.chunks[last])
		// Readers use the old slice of chunks, which must not change.
		a.chunks = append(append([][]uint32(nil), a.chunks[:last]...), grown)
	}
	if full {
		a.used = uint64(last+1) << arenaBits
		if a.used > 1<<32-arenaChunk {
			return 0, nil, false
		}
		if last < 0 {
			a.chunks = append(a.chunks, make([]uint32, max(n, 32))) // a small store stays small
		} else {
			a.chunks = append(a.chunks, make([]uint32, arenaChunk))
		}
		last, off = last+1, 0
	}
	at := uint32(a.used)
	a.used += uint64(n)
	return at, a.chunks[last][off : off+n], true
}
