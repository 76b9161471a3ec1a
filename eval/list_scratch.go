package eval

import (
	"sync"

	"github.com/ostiary/ostiary/graph"
)

// listScratch is what a list needs while it is made. It is used again by later
// lists, so that a list allocates little more than its answer.
type listScratch struct {
	level, next []step // reached with the current number of hops, and with one more
	seen        stepSet
	sure, open  []graph.Node // of the target's objects, perhaps several of one
	ids         []string
	entries     []ranked
	counts      []uint32
}

var listScratches = sync.Pool{New: func() any { return &listScratch{} }}

// listScratchMax is the entries beyond which a scratch is not kept.
const listScratchMax = 1 << 17

func borrowList() *listScratch { return listScratches.Get().(*listScratch) }

// release hands the scratch back, without names: they would keep old views
// alive.
func (s *listScratch) release() {
	clear(s.ids)
	if max(cap(s.ids), cap(s.sure), cap(s.open), cap(s.level), cap(s.next), len(s.seen.slots)) > listScratchMax {
		return
	}
	s.level, s.next, s.sure, s.open, s.ids = s.level[:0], s.next[:0], s.sure[:0], s.open[:0], s.ids[:0]
	s.seen.clear()
	listScratches.Put(s)
}

// stepSet is a set of numbers: open addressing, at most half full. 0 marks a
// free slot, so numbers are kept plus one.
type stepSet struct {
	slots []uint64
	n     int
}

func (s *stepSet) slot(key uint64) int {
	mask := len(s.slots) - 1
	i := int((key*orderLast)>>32) & mask
	for s.slots[i] != 0 && s.slots[i] != key+1 {
		i = (i + 1) & mask
	}
	return i
}

func (s *stepSet) has(key uint64) bool { return s.n > 0 && s.slots[s.slot(key)] != 0 }

// add says whether key was not in the set.
func (s *stepSet) add(key uint64) bool {
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

func (s *stepSet) clear() {
	if s.n > 0 {
		clear(s.slots)
		s.n = 0
	}
}
