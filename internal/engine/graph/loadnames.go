package graph

import (
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
)

// loadedNames records, for one type, the names that a load has added so far.
//
// The tuples of a store mostly come in order of their objects. As long as this
// is true for a type, and the type has no subjects, an id that differs from the
// one before is a new name. So no search is necessary, and the name can be put
// into the index when the load ends. A search waits for memory, and so does an
// insertion at a random place; many insertions at once, sorted by place, take a
// tenth of the time.
type loadedNames []typeNames // by type

// typeNames is the part of a load that concerns one type.
type typeNames struct {
	state namesState
	last  uint32 // offset of its newest name record
	names int    // names that are not in the index
}

type namesState uint8

const (
	namesNone    namesState = iota // no name yet
	namesOrdered                   // the names came in order and are not in the index yet
	namesIndexed                   // all names are in the index, as outside of a load
)

// ofType returns the part of a type.
func (a *loadedNames) ofType(typ uint32) *typeNames {
	for int(typ) >= len(*a) {
		*a = append(*a, typeNames{})
	}
	return &(*a)[typ]
}

// objectNode returns the node of a tuple's object, a new one if necessary. The
// caller holds g.mu.
func (g *Graph) objectNode(o *nodeKey) (Node, error) {
	if g.loading == nil {
		return g.findOrAddNode(o)
	}
	a := g.loading.ofType(o.typ)
	if a.state == namesIndexed {
		return g.findOrAddNode(o)
	}
	a.state = namesOrdered
	rec := wordsAt(g.symbols.names, a.last)
	switch order := strings.Compare(o.id, recordID(rec)); {
	case order == 0:
		return g.nodeOfName(o.kind, a.last, rec)
	case order < 0:
		return g.findOrAddNode(o)
	}
	n, off, err := g.addName(o.kind, o.typ, o.id)
	if err == nil {
		a.last = off
		a.names++
	}
	return n, err
}

// inOrder reports whether the next object of a type is likely to need no
// search.
func (g *Graph) inOrder(typ uint32) bool {
	return g.loading != nil && g.loading.ofType(typ).state != namesIndexed
}

// indexType puts the names of a type into the index. It must run before the
// first search for one of these names. The caller holds g.mu.
func (g *Graph) indexType(typ uint32) {
	a := g.loading.ofType(typ)
	names := a.names
	ordered := a.state == namesOrdered
	*a = typeNames{state: namesIndexed}
	if ordered && names > 0 {
		g.indexNames(names, func(t uint32) bool { return t == typ })
	}
}

// indexAll puts all names of a load into the index and ends the load. The
// caller holds g.mu.
func (g *Graph) indexAll() {
	if g.loading == nil {
		return
	}
	all := *g.loading
	g.loading = nil
	names := 0
	for i := range all {
		if all[i].state == namesOrdered {
			names += all[i].names
		}
	}
	if names > 0 {
		g.indexNames(names, func(t uint32) bool { return int(t) < len(all) && all[t].state == namesOrdered })
	}
}

// indexAtOnce is the number of names from which on several goroutines share the
// work of indexing.
const indexAtOnce = 10_000

// indexNames puts all names of the types that of selects into the index. None
// of them is in the index yet. names is their approximate number.
func (g *Graph) indexNames(names int, of func(typ uint32) bool) {
	if names < indexAtOnce {
		g.eachName(of, 0, len(g.symbols.blocks), func(h uint64, off uint32) {
			g.nameIndex[h>>(64-shardBits)].add(uint32(h), off)
		})
		return
	}
	const blocks = 1 << 10 // in one piece of work
	var (
		workers = runtime.GOMAXPROCS(0)
		sorted  = make([][nameShards][]uint64, workers)
		share   = names/nameShards/workers + names/nameShards/8
	)
	inParallel(workers, (len(g.symbols.blocks)+blocks-1)/blocks, func(worker, piece int) {
		s := &sorted[worker]
		if s[0] == nil {
			for i := range s {
				s[i] = make([]uint64, 0, share)
			}
		}
		g.eachName(of, piece*blocks, min((piece+1)*blocks, len(g.symbols.blocks)), func(h uint64, off uint32) {
			i := h >> (64 - shardBits)
			s[i] = append(s[i], pair(uint32(h), off))
		})
	})
	inParallel(workers, nameShards, func(_, shard int) {
		n := 0
		for i := range sorted {
			n += len(sorted[i][shard])
		}
		g.nameIndex[shard].reserve(n)
		for i := range sorted {
			for _, e := range sorted[i][shard] {
				g.nameIndex[shard].add(uint32(e>>32), uint32(e))
			}
		}
	})
}

// eachName calls do for the names of the types that of selects. It visits only
// names with a first node in the blocks from (inclusive) to to (exclusive).
// Every name has exactly one first node.
func (g *Graph) eachName(of func(typ uint32) bool, from, to int, do func(hash uint64, off uint32)) {
	s := &g.symbols
	for b := max(from, 1); b < to; b++ {
		typ := s.kinds[s.blocks[b]].typ
		if !of(typ) {
			continue
		}
		for i := range Node(blockSize) {
			n := Node(b)<<blockBits | i
			off := s.nameOffset(n)
			if rec := wordsAt(s.names, off); off != 0 && Node(rec[1]) == n {
				do(g.nameHash(typ, recordID(rec)), off)
			}
		}
	}
}

// inParallel calls do once for each piece of work, in several goroutines, and
// waits for them.
func inParallel(workers, pieces int, do func(worker, piece int)) {
	var (
		next  atomic.Int64
		group sync.WaitGroup
	)
	for w := range min(workers, pieces) {
		group.Go(func() {
			for p := next.Add(1) - 1; p < int64(pieces); p = next.Add(1) - 1 {
				do(w, int(p))
			}
		})
	}
	group.Wait()
}
