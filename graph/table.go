package graph

import "sync/atomic"

// table maps 32-bit tags to references, several references to one tag if need
// be: open addressing over words of (tag, reference). One writer, any number
// of readers without a lock. A reference of 0 is none.
type table struct {
	slots atomic.Pointer[[]atomic.Uint64]
	used  int // writer only
}

// probe walks the references under one tag, in no order.
type probe struct {
	slots []atomic.Uint64
	tag   uint32
	at    int
}

// find begins a walk.
func (t *table) find(tag uint32) probe {
	p := t.slots.Load()
	if p == nil {
		return probe{}
	}
	s := *p
	// A tag's home is its share of the table. So entries stand in order of tag,
	// and a table may have any length.
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

// near returns the first reference under a tag that stands at the tag's home or
// in one of the three slots after it, or else 0, which says nothing. Where a
// reference stands is chance: without branches to guess wrong, what is asked
// next is under way before this one has come from memory.
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

// add puts a reference under a tag. What ref refers to must be written before.
func (t *table) add(tag, ref uint32) {
	var s []atomic.Uint64
	if p := t.slots.Load(); p != nil {
		s = *p
	}
	// Above 4/5 probes for absent names get long. Growing by a third keeps the
	// mean load at 0.7; the copying it costs is a walk in order.
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

// reserve makes room for n more references, so that adding them moves nothing.
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

func insert(s []atomic.Uint64, v uint64) {
	at := int((v >> 32) * uint64(len(s)) >> 32)
	for s[at].Load() != 0 {
		if at++; at == len(s) {
			at = 0
		}
	}
	s[at].Store(v)
}

// bytes is the memory the table holds.
func (t *table) bytes() int64 {
	if p := t.slots.Load(); p != nil {
		return int64(len(*p)) * 8
	}
	return 0
}

const (
	arenaBits  = 16 // words in a chunk: 256 KiB
	arenaChunk = 1 << arenaBits
	arenaMask  = arenaChunk - 1
)

// arena is append-only storage of words, in chunks that never move once they
// have their full size. A reader captures chunks; what was written before
// stays readable there.
type arena struct {
	chunks [][]uint32
	used   uint64
}

// alloc returns the offset of n consecutive words and the words, or false
// where offsets would pass 32 bits. n is at most arenaChunk.
func (a *arena) alloc(n int) (uint32, []uint32, bool) {
	last := len(a.chunks) - 1
	off := int(a.used & arenaMask)
	full := last < 0 || off == 0 && a.used > 0 || off+n > arenaChunk
	if !full && off+n > len(a.chunks[last]) { // only ever the first chunk
		grown := make([]uint32, min(arenaChunk, max(2*len(a.chunks[last]), off+n)))
		copy(grown, a.chunks[last])
		// Readers hold the old directory: it must not change under them.
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
