package eval

import (
	"slices"

	"github.com/ostiary/ostiary/internal/engine/graph"
)

// listWalk is the part that both directions of a list share: a breadth-first
// walk over relations of objects, one hop per level. [objectWalk] starts at the
// subject and follows tuples backwards; [subjectWalk] starts at the object and
// follows them forward.
//
// A step is certain if it was reached only through tuples that count and whose
// conditions hold, through unions alone, and within the depth bound. Any other
// step is uncertain: its object or subject is a candidate that must be checked.
// Neither walk misses a candidate, because it follows every branch that could
// make a check true or unknown.
type listWalk struct {
	q query
	*listScratch
	// hops is the number of hops that led to the steps of level.
	hops int
	// bound names the bound that ended the walk early; "" if none did.
	bound string
}

// step is one relation of one object that a walk has reached. For an
// objectWalk the subject is a member of it; for a subjectWalk its members are
// members of the target.
type step struct {
	// relation is an index in the plan for an objectWalk, and a
	// schema.RelationID for a subjectWalk.
	relation int32
	// uncertain is true unless every way that leads here is certain.
	uncertain bool
	// node is a node of the object. It is 0 for the subject's (objectWalk) or the
	// question's (subjectWalk) own object where no tuple names it.
	node graph.Node
}

// levels calls expand for each step, level by level, until no new step is
// found, a bound is reached or the question fails. expand appends steps without
// a hop to w.level and steps one hop further to w.next.
func (w *listWalk) levels(expand func(step)) {
	for w.bound == "" && w.q.err == nil && (len(w.level) > 0 || len(w.next) > 0) {
		for i := 0; i < len(w.level); i++ { // expand may append to w.level
			expand(w.level[i])
		}
		w.level, w.next = w.next, w.level[:0]
		w.hops++
	}
}

// visit counts n nodes. It returns false where the walk must end.
func (w *listWalk) visit(n int) bool {
	if w.bound == "" && w.q.visit(n) {
		return true
	}
	if w.q.err == nil && w.bound == "" {
		w.bound = w.q.boundReached()
	}
	return false
}

// firstTime reports whether a step is new. A step that was first reached as
// uncertain is new again when it is reached as certain.
func (w *listWalk) firstTime(s step) bool {
	key := uint64(s.relation)<<32 | uint64(s.node)<<1
	if s.uncertain {
		if w.seen.has(key) {
			return false
		}
		key |= 1
	}
	isNew := w.seen.add(key)
	if isNew {
		w.q.hold(1, bytesPerStep)
	}
	return isNew
}

// addNames appends the ids of nodes to w.ids. Node 0 has the id own.
func (w *listWalk) addNames(nodes []graph.Node, own string) {
	w.q.hold(len(nodes), bytesPerEntry)
	w.ids = slices.Grow(w.ids, len(nodes)+1)
	for _, n := range nodes {
		id := own
		if n != 0 {
			id = w.q.r.ID(n)
		}
		w.ids = append(w.ids, id)
	}
}

// entries returns w.ids in the list's order, each id once. The first certain
// ids need no check. Of equal ids the one that comes first in w.ids stays. It
// returns none if the question has failed or has no memory left, for which it looks
// before and after sorting.
func (w *listWalk) entries(certain int) listEntries {
	s := w.listScratch
	n := len(s.ids)
	if !w.tick(n) {
		return listEntries{}
	}
	s.entryRoom = slices.Grow(s.entryRoom[:0], 2*n)[:2*n]
	for i, id := range s.ids {
		s.entryRoom[i] = orderedID{OrderHash(id), uint32(i)}
	}
	var out []orderedID
	out, s.counts = orderUnique(s.entryRoom[:n], s.entryRoom[n:], s.counts, s.ids)
	if !w.tick(n) {
		return listEntries{}
	}
	return listEntries{s.ids, out, certain}
}

// tick counts n steps, like [query.tick]. It returns false if the question has
// failed or has no memory left.
func (w *listWalk) tick(n int) bool { return w.q.tick(n) && w.q.memory.bound == "" }

// stopped names the bound at which the question stopped; "" if it has failed.
func (w *listWalk) stopped() string {
	if w.q.err != nil {
		return ""
	}
	return w.q.boundReached()
}
