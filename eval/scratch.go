package eval

import (
	"sync"

	"github.com/ostiary/ostiary/graph"
)

// scratch is what a search needs beyond the stack. It is used again by later
// questions, so that a question allocates nothing.
type scratch struct {
	seen    visitedSet
	pending []pending // lists to follow, of all searches under way
	later   []laterState
	opaques []openPart
	memo    map[memoKey]outcome
	// of walks from the subject
	closures []closure
	members  []graph.Node
	queue    []reached
}

// pending is a list that a search is still to follow: from's, by one follow.
// A list of one edge is all there: only holds it.
type pending struct {
	by   *follow
	from graph.Node
	hops int32
	only graph.Edge
}

// laterState is a state behind a follow, for the end of a search.
type laterState struct {
	by   *follow
	node graph.Node
	hops int32
}

// reached is a state and the hops it took.
type reached struct {
	unit int32
	node graph.Node
	hops int32
}

type openPart struct {
	part *opaque
	node graph.Node
	hops int32
}

type memoKey struct {
	unit int32
	node graph.Node
}

var scratches = sync.Pool{New: func() any { return &scratch{} }}

// scratchSlotsMax is the size beyond which a scratch's set is not kept.
const scratchSlotsMax = 1 << 16

// borrow returns the query's scratch.
func (q *query) borrow() *scratch {
	if q.scratch == nil {
		q.scratch = scratches.Get().(*scratch)
		q.scratch.seen.clear()
	}
	return q.scratch
}

// release hands the scratch back.
func (q *query) release() {
	s := q.scratch
	if s == nil {
		return
	}
	q.scratch = nil
	s.pending, s.later, s.opaques = s.pending[:0], s.later[:0], s.opaques[:0]
	if len(s.memo) > 0 {
		clear(s.memo)
	}
	s.closures, s.members, s.queue = s.closures[:0], s.members[:0], s.queue[:0]
	if len(s.seen.slots) <= scratchSlotsMax {
		scratches.Put(s)
	}
}

// visitedSet is a set of states by search: open addressing, at most half
// full. Clearing it costs nothing.
type visitedSet struct {
	slots []visitedSlot
	n     int
	epoch uint32
}

type visitedSlot struct {
	epoch  uint32
	search uint32
	unit   int32
	node   graph.Node
	hops   int32
}

func (v *visitedSet) clear() {
	v.n = 0
	if v.epoch++; v.epoch == 0 { // after 2^32 questions: what is old looks new
		clear(v.slots)
		v.epoch = 1
	}
}

// add says whether the state was not in the set.
func (v *visitedSet) add(search uint32, unit int32, n graph.Node) bool {
	return v.addAt(search, unit, n, 0)
}

// addAt is add with the hops that the state took.
func (v *visitedSet) addAt(search uint32, unit int32, n graph.Node, hops int32) bool {
	if 2*v.n >= len(v.slots) {
		v.grow()
	}
	slot := v.find(search, unit, n)
	if slot.epoch == v.epoch {
		return false
	}
	*slot = visitedSlot{v.epoch, search, unit, n, hops}
	v.n++
	return true
}

func (v *visitedSet) has(search uint32, unit int32, n graph.Node) bool {
	return v.n > 0 && v.find(search, unit, n).epoch == v.epoch
}

func (v *visitedSet) find(search uint32, unit int32, n graph.Node) *visitedSlot {
	mask := uint32(len(v.slots) - 1)
	h := (uint64(n)<<32 | uint64(search)<<16 ^ uint64(unit)) * orderWord
	for i := uint32(h>>32) & mask; ; i = (i + 1) & mask {
		s := &v.slots[i]
		if s.epoch != v.epoch || s.node == n && s.unit == unit && s.search == search {
			return s
		}
	}
}

func (v *visitedSet) grow() {
	old := v.slots
	v.slots = make([]visitedSlot, max(64, 2*len(old)))
	for i := range old {
		if o := &old[i]; o.epoch == v.epoch {
			*v.find(o.search, o.unit, o.node) = *o
		}
	}
}
