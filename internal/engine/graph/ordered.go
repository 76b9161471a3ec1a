package graph

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// Ordered iterates over the objects of a type, ordered by a rank of their ids
// and then by the ids. It returns every object for which the lineage had a name
// when the iteration began; [View.InUse] reports whether the view uses it. It
// belongs to one goroutine.
type Ordered struct {
	v           *View
	rank        func(id string) uint64
	main, tail  []uint64 // see nameOrder
	prefetched  int      // number of entries of main that were read ahead
	prefetchSum uint32   // sum of the memory read ahead; without a use, the compiler would remove the reads
}

// prefetchMax is the number of names that are read ahead together.
const prefetchMax = 32

// nameOrder holds the objects of a type in order. It is immutable. Each entry
// is the upper half of an object's rank and, below it, the object's first node.
// Objects that were added after main was sorted are in tail, so that a few new
// names do not move many old ones.
type nameOrder struct {
	names      int           // names of the lineage that main and tail cover
	main, tail []uint64      // sorted
	next       map[Kind]Node // by kind: the first node that main and tail do not cover
}

// orders holds a *typeOrder for each number of a type.
type orders struct{ of sync.Map }

// typeOrder holds the newest nameOrder of one type.
type typeOrder struct {
	mu      sync.Mutex // held to make the next order
	current atomic.Pointer[nameOrder]
}

// tail is merged into main when it has more than len(main)/tailDivisor+tailMin
// entries.
const (
	tailDivisor = 8
	tailMin     = 1 << 10
)

// Ordered starts an iteration over the objects of a type, its wildcard
// included. All calls on a lineage must pass the same rank. The first call for
// a type sorts its names and keeps 8 bytes for each; later calls add new names,
// and hold the lineage's lock for a moment to do so. A type that the view does
// not have has no objects.
func (v *View) Ordered(typ string, rank func(id string) uint64) Ordered {
	k, ok := v.Kind(KindName{Type: typ})
	if !ok {
		return Ordered{}
	}
	number := v.kinds[k].typ
	slot, ok := v.g.orders.of.Load(number)
	if !ok {
		slot, _ = v.g.orders.of.LoadOrStore(number, &typeOrder{})
	}
	o := slot.(*typeOrder).covering(v, number, rank)
	return Ordered{v: v, rank: rank, main: o.main, tail: o.tail}
}

// covering returns an order that has every name of v.
func (s *typeOrder) covering(v *View, typ uint32, rank func(string) uint64) *nameOrder {
	if o := s.current.Load(); o != nil && o.names >= v.nameCount {
		return o
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.current.Load()
	if old == nil {
		old = &nameOrder{}
	} else if old.names >= v.nameCount {
		return old
	}
	o := old.extended(v.g, typ, rank)
	s.current.Store(o)
	return o
}

// extended returns o with the names that were added since.
func (o *nameOrder) extended(g *Graph, typ uint32, rank func(string) uint64) *nameOrder {
	next := maps.Clone(o.next)
	if next == nil {
		next = map[Kind]Node{}
	}
	g.mu.Lock()
	s, names := g.symbols, g.nameCount
	for k := range s.kinds {
		if f := g.open[k]; k != 0 && s.kinds[k].typ == typ && f.block != 0 {
			next[Kind(k)] = Node(f.block<<blockBits + f.used)
		}
	}
	g.mu.Unlock()
	var fresh []uint64
	for k, end := range next {
		for n := s.firstOfKind(k, max(o.next[k], blockSize), end); n < end; n = s.firstOfKind(k, n+1, end) {
			if rec := s.nameRecord(n); rec != nil && Node(rec[1]) == n {
				fresh = append(fresh, rank(recordID(rec))>>32<<32|uint64(n))
			}
		}
	}
	out := &nameOrder{names, o.main, o.tail, next}
	if len(fresh) == 0 {
		return out
	}
	by := Ordered{v: &View{g: g, symbols: s}, rank: rank}
	by.sort(fresh)
	out.tail = by.merge(o.tail, fresh)
	if len(out.tail) > len(o.main)/tailDivisor+tailMin {
		out.main, out.tail = by.merge(o.main, out.tail), nil
	}
	return out
}

// firstOfKind returns the first node at or after n that belongs to a block of
// kind k, or a node at or after end if no node before end does.
func (s *symbols) firstOfKind(k Kind, n, end Node) Node {
	for n < end && s.blocks[n>>blockBits] != k {
		n = (n>>blockBits + 1) << blockBits
	}
	return n
}

// sort sorts entries by their numbers, and then those with equal upper halves
// of their ranks by the whole rank and the id.
func (o *Ordered) sort(entries []uint64) {
	slices.Sort(entries)
	for i := 0; i < len(entries); {
		j := i + 1
		for j < len(entries) && entries[j]>>32 == entries[i]>>32 {
			j++
		}
		if j > i+1 {
			slices.SortFunc(entries[i:j], o.compare)
		}
		i = j
	}
}

// compare compares two entries by rank, then by id.
func (o *Ordered) compare(a, b uint64) int {
	if a>>32 != b>>32 {
		return cmp.Compare(a, b)
	}
	x, y := o.v.ID(Node(a&NodeMax)), o.v.ID(Node(b&NodeMax))
	if c := cmp.Compare(o.rank(x), o.rank(y)); c != 0 {
		return c
	}
	return cmp.Compare(x, y)
}

// merge merges two sorted slices.
func (o *Ordered) merge(a, b []uint64) []uint64 {
	if len(a) == 0 {
		return b
	}
	out := make([]uint64, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if o.compare(a[0], b[0]) < 0 {
			out, a = append(out, a[0]), a[1:]
		} else {
			out, b = append(out, b[0]), b[1:]
		}
	}
	return append(append(out, a...), b...)
}

// Len returns the number of objects left; the view may lack some of them.
func (o *Ordered) Len() int { return len(o.main) + len(o.tail) }

// Skip skips the objects with a lower rank, except those whose rank has the
// same upper half.
func (o *Ordered) Skip(rank uint64) {
	i, _ := slices.BinarySearch(o.main, rank>>32<<32)
	j, _ := slices.BinarySearch(o.tail, rank>>32<<32)
	o.main, o.tail = o.main[i:], o.tail[j:]
}

// Next returns the first node of the next object, or 0 at the end.
func (o *Ordered) Next() Node {
	if o.prefetched--; o.prefetched < 0 {
		o.prefetch()
	}
	// A newer view may have made the order, with names that this view does not
	// have.
	o.main, o.tail = o.skipUnknown(o.main), o.skipUnknown(o.tail)
	from := &o.main
	if len(o.main) == 0 || len(o.tail) > 0 && o.compare(o.tail[0], o.main[0]) < 0 {
		from = &o.tail
	}
	if len(*from) == 0 {
		return 0
	}
	n := Node((*from)[0] & NodeMax)
	*from = (*from)[1:]
	return n
}

// prefetch reads the node and name records of the next entries. Such reads do
// not depend on each other, so the processor waits for all at once. Without it,
// each entry would wait twice, since the order of the ids is not that of
// memory.
func (o *Ordered) prefetch() {
	var offs [prefetchMax]uint32
	entries := o.main[:min(len(o.main), prefetchMax)]
	for i, e := range entries {
		offs[i] = o.v.symbols.nameOffset(Node(e & NodeMax))
	}
	for _, off := range offs[:len(entries)] {
		o.prefetchSum += firstWord(wordsAt(o.v.symbols.names, off))
	}
	o.prefetched = len(entries)
}

// skipUnknown skips entries that the view does not have.
func (o *Ordered) skipUnknown(entries []uint64) []uint64 {
	for len(entries) > 0 {
		if n := Node(entries[0] & NodeMax); o.v.FirstNode(n) == n {
			break
		}
		entries = entries[1:]
	}
	return entries
}

// FirstNode returns the first node that n's object ever got, or 0 if the view
// does not have n. Two nodes belong to the same object exactly if their first
// nodes are equal.
func (v *View) FirstNode(n Node) Node {
	if rec := v.symbols.nameRecord(n); rec != nil {
		return Node(rec[1])
	}
	return 0
}

// InUse reports whether n's object is the object or subject of a tuple, or has
// an attribute if attributes is true. The wildcard's tuples count only if star
// is true.
func (v *View) InUse(n Node, attributes, star bool) bool {
	walk := v.walkNodes(v.symbols.nameRecord(n))
	for m := walk.next(); m != 0; m = walk.next() {
		if v.kinds[v.kindOf(m)].name.Wildcard && !star {
			continue
		}
		if v.hasLists(m) {
			return true
		}
	}
	if !attributes {
		return false
	}
	walk = v.walkNodes(v.symbols.nameRecord(n))
	for m := walk.next(); m != 0; m = walk.next() {
		if v.hasValues(m) {
			return true
		}
	}
	return false
}

// IsSubject reports whether n's object is the subject of a tuple: as a userset
// with the given relation or, if relation is "", as itself. The wildcard's
// tuples count only if star is true.
func (v *View) IsSubject(n Node, relation string, star bool) bool {
	walk := v.walkNodes(v.symbols.nameRecord(n))
	for m := walk.next(); m != 0; m = walk.next() {
		name := v.kinds[v.kindOf(m)].name
		if name.Relation != relation || name.Wildcard && !star {
			continue
		}
		seg := v.segment(m)
		if seg == nil {
			continue
		}
		gs := seg.groups(uint32(m) & (blockSize - 1))
		for s, _, ok := gs.next(); ok; s, _, ok = gs.next() {
			if s.reverse() {
				return true
			}
		}
	}
	return false
}
