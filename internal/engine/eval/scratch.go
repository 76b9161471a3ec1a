package eval

import (
	"sync"

	"github.com/ostiary/ostiary/internal/engine/graph"
)

// scratch is the memory of a search beyond the stack. Questions reuse it
// through a pool, so that they allocate nothing.
type scratch struct {
	// seen are the visited states of all searches.
	seen visitedSet
	// pending are the lists that searches have yet to follow.
	pending []pendingList
	// possible are the states behind tuples with unknown conditions.
	possible []possibleState
	// opaques are the opaque parts that are yet to be decided.
	opaques []pendingOpaque
	// memo holds the outcomes of operands.
	memo map[memoKey]outcome
	// closures are the closures of the question. members holds their nodes.
	closures []closure
	// members holds the nodes of the closures, one after the other.
	members []graph.Node
	// queue holds the states that a closureWalk has yet to follow.
	queue []reached
}

// pendingList is a list that a search has yet to follow.
type pendingList struct {
	// by is the link to follow.
	by *link
	// from is the node whose list it is.
	from graph.Node
	// hops is the number of hops to the list's nodes.
	hops int32
	// single is the edge of a list with one edge; 0 for longer lists.
	single graph.Edge
}

// possibleState is a state behind a tuple with an unknown condition. It is
// visited at the end of a search.
type possibleState struct {
	by   *link
	node graph.Node
	hops int32
}

// reached is a state of a closureWalk and the number of hops to it.
type reached struct {
	unit int32
	node graph.Node
	hops int32
}

// pendingOpaque is an opaque part on a node, reached by hops.
type pendingOpaque struct {
	part *opaque
	node graph.Node
	hops int32
}

// memoKey is a unit on a node.
type memoKey struct {
	unit int32
	node graph.Node
}

var scratches = sync.Pool{New: func() any { return &scratch{} }}

// scratchSlotsMax is the size of the visited set beyond which a scratch is not
// reused.
const scratchSlotsMax = 1 << 16

// borrowScratch returns the query's scratch.
func (q *query) borrowScratch() *scratch {
	if q.scratch == nil {
		q.scratch = scratches.Get().(*scratch)
		q.scratch.seen.clear()
	}
	return q.scratch
}

// releaseScratch returns the scratch to the pool.
func (q *query) releaseScratch() {
	s := q.scratch
	if s == nil {
		return
	}
	q.scratch = nil
	s.pending, s.possible, s.opaques = s.pending[:0], s.possible[:0], s.opaques[:0]
	if len(s.memo) > 0 {
		clear(s.memo)
	}
	s.closures, s.members, s.queue = s.closures[:0], s.members[:0], s.queue[:0]
	if len(s.seen.slots) <= scratchSlotsMax {
		scratches.Put(s)
	}
}

// visitedSet is a set of states by search: a hash table with open addressing,
// at most half full. An epoch in each slot makes clearing free.
type visitedSet struct {
	// slots are a power of two in number.
	slots []visitedSlot
	// n is the number of states.
	n int
	// epoch marks the slots that are in use.
	epoch uint32
}

// visitedSlot is a state in the visited set. It is free unless its epoch is
// the set's.
type visitedSlot struct {
	epoch  uint32
	search uint32
	unit   int32
	node   graph.Node
	hops   int32
}

// clear removes all states in constant time.
func (v *visitedSet) clear() {
	v.n = 0
	if v.epoch++; v.epoch == 0 { // the epoch wrapped around: old slots would look used
		clear(v.slots)
		v.epoch = 1
	}
}

// add adds a state and reports whether it is new.
func (v *visitedSet) add(search uint32, unit int32, n graph.Node) bool {
	return v.addAt(search, unit, n, 0)
}

// addAt is add with the number of hops to the state.
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

// find returns the slot of a state, or the free slot where it belongs.
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
