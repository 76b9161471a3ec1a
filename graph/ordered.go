package graph

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// Ordered is a walk over the objects of a type in the order of a rank of their
// ids, then of the ids. It comes by every object that the lineage had a name
// for when the walk began: whether the view tells anything of one is Tells' to
// say. It belongs to one goroutine.
type Ordered struct {
	v           *View
	rank        func(id string) uint64
	main, tail  []uint64
	prefetched  int    // entries of main that were read ahead
	prefetchSum uint32 // what that read, so that the compiler keeps it
}

// orderAhead is how many names are read ahead together.
const prefetchMax = 32

// order is what a lineage knows of a type's objects in the order of their rank:
// the upper half of each one's rank, and its first node below it. What came
// after main was made stands in tail, so that a few new names do not move many
// old ones. It never changes.
type nameOrder struct {
	names      int // of the lineage, all of which have been looked at
	main, tail []uint64
	next       map[Kind]Node // the first node of each kind that has not been
}

// orders keeps a lineage's orders by the number of the type.
type orders struct{ of sync.Map }

type typeOrder struct {
	mu      sync.Mutex // of who makes the next one
	current atomic.Pointer[nameOrder]
}

// orderTail is how small a part of main tail is, at most, and orderTailMin a
// length that it may have in any case.
const (
	tailShareMax = 8
	tailMin      = 1 << 10
)

// Ordered begins a walk over the objects of a type, and the wildcard's. All
// calls on a lineage must give the same rank. The first one sorts the names, 8
// bytes for each, which the lineage keeps; later ones add what is new, under
// the lineage's lock for a moment. A type that the view does not know has no
// objects.
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

// upTo returns an order that holds every name that v knows.
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

// grown is o with the names that were given since.
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
	if len(out.tail) > len(o.main)/tailShareMax+tailMin {
		out.main, out.tail = by.merge(o.main, out.tail), nil
	}
	return out
}

// given returns the first node from n on, and before end, that stands in a
// block of a kind.
func (s *symbols) firstOfKind(k Kind, n, end Node) Node {
	for n < end && s.blocks[n>>blockBits] != k {
		n = (n>>blockBits + 1) << blockBits
	}
	return n
}

// sort sorts entries as numbers, and then what has equal upper halves of ranks.
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

// join makes one sorted slice of two.
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

// Len returns how many objects the walk still comes by, at most.
func (o *Ordered) Len() int { return len(o.main) + len(o.tail) }

// Skip goes on to objects of a rank, but for those whose rank has the same
// upper half.
func (o *Ordered) Skip(rank uint64) {
	i, _ := slices.BinarySearch(o.main, rank>>32<<32)
	j, _ := slices.BinarySearch(o.tail, rank>>32<<32)
	o.main, o.tail = o.main[i:], o.tail[j:]
}

// Next returns the next object's first node, 0 at the end.
func (o *Ordered) Next() Node {
	if o.prefetched--; o.prefetched < 0 {
		o.prefetch()
	}
	// A younger view may have made the order, with names that this one lacks.
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

// ahead reads the names of the next entries, one kind of memory after the
// other: such reads wait together, where names met one by one, in an order that
// is not memory's, each wait twice.
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

func (o *Ordered) skipUnknown(entries []uint64) []uint64 {
	for len(entries) > 0 {
		if n := Node(entries[0] & NodeMax); o.v.FirstNode(n) == n {
			break
		}
		entries = entries[1:]
	}
	return entries
}

// First returns the first node that n's object was ever given, by which
// objects can be told apart; 0 if the view does not know n.
func (v *View) FirstNode(n Node) Node {
	if rec := v.symbols.nameRecord(n); rec != nil {
		return Node(rec[1])
	}
	return 0
}

// InUse says whether a tuple of the view tells of n's object, as object or
// subject, or an attribute where attributes count. The wildcard is an object
// only if star says so.
func (v *View) InUse(n Node, attributes, star bool) bool {
	walk := v.walkNodes(v.symbols.nameRecord(n))
	for m := walk.next(); m != 0; m = walk.next() {
		if v.kinds[v.kindOf(m)].name.Wildcard && !star {
			continue
		}
		if seg := v.segment(m); seg != nil && !seg.empty(uint32(m)&(blockSize-1)) {
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

// IsSubject says whether n's object stands in a tuple of the view as the subject,
// with a relation or, with "", as itself. The wildcard does only if star says
// so.
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
