package eval

import (
	"sync"

	"github.com/ostiary/ostiary/internal/engine/graph"
)

// listScratch is the memory of a list. Lists reuse it through a pool, so that
// a list allocates little more than its result.
type listScratch struct {
	// level holds the steps at the current number of hops, next those with one
	// more.
	level, next []step
	// seen holds the steps that were reached.
	seen numberSet
	// certain and uncertain are nodes of the candidates, possibly several of
	// one object.
	certain, uncertain []graph.Node
	// ids are the candidates' ids.
	ids []string
	// entryRoom and counts are memory for sorting.
	entryRoom []orderedID
	counts    []uint32
}

// listScratches is the pool.
var listScratches = sync.Pool{New: func() any { return &listScratch{} }}

// listScratchMax is the number of entries beyond which a scratch is not
// reused.
const listScratchMax = 1 << 17

func borrowList() *listScratch { return listScratches.Get().(*listScratch) }

// releaseScratch returns the scratch to the pool, without names: these would
// keep old views in memory.
func (s *listScratch) releaseScratch() {
	clear(s.ids)
	if max(cap(s.ids), cap(s.certain), cap(s.uncertain), cap(s.level), cap(s.next), len(s.seen.slots)) > listScratchMax {
		return
	}
	s.level, s.next, s.certain, s.uncertain, s.ids = s.level[:0], s.next[:0], s.certain[:0], s.uncertain[:0], s.ids[:0]
	s.seen.clear()
	listScratches.Put(s)
}

// numberSet is a set of numbers: a hash table with open addressing, at most
// half full. 0 marks a free slot, so numbers are stored plus one.
type numberSet struct {
	slots []uint64
	n     int
}

// slot returns the index of a number, or of the free slot where it belongs.
func (s *numberSet) slot(key uint64) int {
	mask := len(s.slots) - 1
	i := int((key*orderLast)>>32) & mask
	for s.slots[i] != 0 && s.slots[i] != key+1 {
		i = (i + 1) & mask
	}
	return i
}

func (s *numberSet) has(key uint64) bool { return s.n > 0 && s.slots[s.slot(key)] != 0 }

// add adds a number and reports whether it is new.
func (s *numberSet) add(key uint64) bool {
	if 2*s.n >= len(s.slots) {
		old := s.slots
		s.slots = make([]uint64, max(64, 2*len(old)))
		for _, k := range old {
			if k != 0 {
				s.slots[s.slot(k-1)] = k
			}
		}
	}
	i := s.slot(key)
	if s.slots[i] != 0 {
		return false
	}
	s.slots[i] = key + 1
	s.n++
	return true
}

func (s *numberSet) clear() {
	if s.n > 0 {
		clear(s.slots)
		s.n = 0
	}
}
