package graph

import (
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
)

// arrivals is what a load knows of the names that it brings. A store's tuples
// mostly come in order of their objects. As long as the objects of a type do,
// and no subject is of that type, an id that differs from the one before is a
// new name: nobody looks for it, and it is not put into the index until the
// load ends. Looking for a name is waiting for memory, and so is putting it
// where its hash says; many at once, sorted by place, cost a tenth of that.
type loadedNames []typeNames // by type

// arrival is a type's part of a load.
type typeNames struct {
	state namesState
	last  uint32 // the record of its youngest name
	names int
}

type namesState uint8

const (
	namesNone    namesState = iota // no name yet
	namesOrdered                   // names in order, none of them in the index
	namesIndexed                   // names like all others
)

// of returns a type's part.
func (a *loadedNames) ofType(typ uint32) *typeNames {
	for int(typ) >= len(*a) {
		*a = append(*a, typeNames{})
	}
	return &(*a)[typ]
}

// arrive finds or gives the node of a tuple's object; g.mu is held.
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

// inOrder says whether the next object of a type is likely not to be looked for.
func (g *Graph) inOrder(typ uint32) bool {
	return g.loading != nil && g.loading.ofType(typ).state != namesIndexed
}

// settle puts a type's names into the index, where they have to be before any
// is looked for; g.mu is held.
func (g *Graph) indexType(typ uint32) {
	a := g.loading.ofType(typ)
	names := a.names
	ordered := a.state == namesOrdered
	*a = typeNames{state: namesIndexed}
	if ordered && names > 0 {
		g.indexNames(names, func(t uint32) bool { return t == typ })
	}
}

// settleAll ends a load's ways with names; g.mu is held.
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

// indexAtOnce is the number of names from which on they are sorted by shard, so
// that goroutines can share the work.
const indexAtOnce = 10_000

// index puts the names of some types, none of which is in the index, there.
func (g *Graph) indexNames(names int, of func(typ uint32) bool) {
	if names < indexAtOnce {
		g.eachName(of, 0, len(g.symbols.blocks), func(h uint64, off uint32) {
			g.nameIndex[h>>(64-shardBits)].add(uint32(h), off)
		})
		return
	}
	const blocks = 1 << 10 // a piece of work
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

// namesOf calls do with the names of some types whose first nodes stand in
// blocks [from, to). Every name has a first node, and only one.
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

// together has workers do pieces of work, each once.
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
