package graph

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ostiary/ostiary/rel"
)

// Loader fills an empty lineage with many tuples at once: it gathers pairs of
// nodes, and builds each segment once at the end. It is used by one goroutine,
// while nobody else writes to the lineage.
type Loader struct {
	g       *Graph
	start   *View
	waiting []loadTuple  // whose names are not looked up yet
	kinds   [64]loadKind // those seen last, by a hash of their names
	pairs   [][]loadPair // in order of arrival, in chunks
	tuples  int
	details []treeEntry[*Detail]
	values  []treeEntry[string]
	beside  int64
	err     error  // of a lookup
	touched uint32 // what resolve read ahead, so that it is not left out
}

// loadPair is one tuple by its ends.
type loadPair struct {
	object  Node
	subject Edge
}

// loadTuple is one tuple by kinds and ids.
type loadTuple struct {
	object, subject loadName
	detail          *Detail
}

type loadName struct {
	kind Kind
	id   string
	hash uint64
}

type loadKind struct {
	name KindName
	kind Kind
	typ  uint32
}

const (
	loadChunk   = 1 << 15 // pairs
	loadWaiting = 64      // tuples: enough that lookups overlap, few enough that they stay cached
)

// Load starts a Loader on a lineage whose newest view is empty.
func (g *Graph) Load() *Loader { return &Loader{g: g, start: g.View()} }

// Add adds a tuple. A key must come once only: Finish fails if it does not. The
// errors are Batch.Add's; ErrFull may come some tuples late, and after it the
// Loader is of no use.
func (l *Loader) Add(t rel.Tuple) error {
	if l.err != nil {
		return l.err
	}
	if t.Relation == "" {
		return fmt.Errorf("%w: %s has no relation", rel.ErrName, t.Key())
	}
	o, err := l.name(ObjectKind(t.Object, t.Relation), t.Object.ID)
	if err != nil {
		return err
	}
	s, err := l.name(SubjectKind(t.Subject), t.Subject.ID)
	if err != nil {
		return err
	}
	var d *Detail
	if t.Condition != "" || t.Context != "" || t.Expires != 0 {
		if d, err = l.detail(t); err != nil {
			return err
		}
	}
	l.waiting = append(l.waiting, loadTuple{o, s, d})
	if len(l.waiting) >= loadWaiting {
		l.err = l.resolve()
	}
	return l.err
}

func (l *Loader) detail(t rel.Tuple) (*Detail, error) {
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	return l.g.details.detail(t)
}

// name prepares the lookup of a node.
func (l *Loader) name(k KindName, id string) (loadName, error) {
	if err := checkID(id); err != nil {
		return loadName{}, err
	}
	at := (len(k.Type) + len(k.Relation)<<2) & 63
	if k.Relation != "" {
		at ^= int(k.Relation[0]) << 1 & 63
	}
	c := &l.kinds[at]
	if c.kind == 0 || c.name != k {
		l.g.mu.Lock()
		n, err := l.g.intern(k)
		if err == nil {
			*c = loadKind{l.g.spine.kinds[n].name, n, l.g.spine.kinds[n].typ}
		}
		l.g.mu.Unlock()
		if err != nil {
			return loadName{}, err
		}
	}
	return loadName{c.kind, id, l.g.nameHash(c.typ, id)}, nil
}

// resolve looks up the names of the waiting tuples. It first only touches what
// the lookups will read, one kind of memory after the other: such loads do not
// depend on each other, so the processor waits for many at a time.
func (l *Loader) resolve() error {
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	var offs [2 * loadWaiting]uint32
	for i := range l.waiting {
		offs[2*i] = l.g.touchSlot(l.waiting[i].object.hash)
		offs[2*i+1] = l.g.touchSlot(l.waiting[i].subject.hash)
	}
	seen := uint32(0)
	for _, off := range offs[:2*len(l.waiting)] {
		if rec := word(l.g.spine.names, off); rec != nil {
			seen ^= rec[0]
		}
	}
	l.touched = seen
	for i := range l.waiting {
		t := &l.waiting[i]
		o, err := l.g.hashed(t.object.kind, t.object.id, t.object.hash)
		if err != nil {
			return err
		}
		s, err := l.g.hashed(t.subject.kind, t.subject.id, t.subject.hash)
		if err != nil {
			return err
		}
		l.add(o, s, t.detail)
	}
	clear(l.waiting)
	l.waiting = l.waiting[:0]
	return nil
}

func (l *Loader) add(o, s Node, d *Detail) {
	last := len(l.pairs) - 1
	if last < 0 || len(l.pairs[last]) == cap(l.pairs[last]) {
		size := loadChunk
		if last < 0 {
			size = 64 // a small store stays small
		} else if last < 9 {
			size = 64 << last
		}
		l.pairs = append(l.pairs, make([]loadPair, 0, size))
		last++
	}
	l.pairs[last] = append(l.pairs[last], loadPair{o, EdgeTo(s, d != nil)})
	l.tuples++
	if d != nil {
		l.details = append(l.details, treeEntry[*Detail]{pair(uint32(o), uint32(s)), d})
		l.beside += d.bytes()
	}
}

// SetAttribute sets an attribute, which must come once only. The errors are
// Batch.SetAttribute's.
func (l *Loader) SetAttribute(a rel.Attribute) error {
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	k, err := l.g.intern(KindName{Type: a.Object.Type})
	if err != nil {
		return err
	}
	n, err := l.g.node(k, a.Object.ID)
	if err != nil {
		return err
	}
	name, err := l.g.attr(a.Name)
	if err != nil {
		return err
	}
	l.value(n, name, strings.Clone(a.Value))
	return nil
}

func (l *Loader) value(n Node, name uint32, value string) {
	l.values = append(l.values, treeEntry[string]{pair(uint32(n), name), value})
	l.beside += attributeBytes + int64(len(value))
}

// Finish builds the view, publishes it and returns it. It fails with
// ErrDuplicate or ErrFull, and with ErrStale if the lineage was not empty or
// somebody else wrote to it. The Loader is of no use afterwards.
func (l *Loader) Finish() (*View, error) {
	if l.start.tuples > 0 || l.start.values.n > 0 {
		return nil, ErrStale
	}
	if l.err == nil {
		l.err = l.resolve()
	}
	if l.err != nil {
		return nil, l.err
	}
	v := &View{g: l.g, tuples: l.tuples, beside: l.beside}
	l.g.mu.Lock()
	v.spine, v.names, v.nodes = l.g.spine, l.g.count, l.g.given
	l.g.mu.Unlock()
	v.details, v.values = treeOf(l.details), treeOf(l.values)
	l.details, l.values = nil, nil

	there, back := l.adjacency(len(v.blocks) << blockBits)
	l.pairs = nil
	if err := v.build(there, back); err != nil {
		return nil, err
	}
	v.countLive()
	if !l.g.newest.CompareAndSwap(l.start, v) {
		return nil, ErrStale
	}
	return v, nil
}

// adjacency is every node's neighbours one way, unsorted: those of n stand in
// edges[ends[n-1]:ends[n]].
type adjacency struct {
	ends  []uint32
	edges []Edge
}

func (a *adjacency) of(n Node) []Edge { return a.edges[a.ends[n-1]:a.ends[n]] }

// adjacency sorts the pairs by either end, by counting.
func (l *Loader) adjacency(nodes int) (there, back adjacency) {
	there = adjacency{make([]uint32, nodes+1), make([]Edge, l.tuples)}
	back = adjacency{make([]uint32, nodes+1), make([]Edge, l.tuples)}
	for _, chunk := range l.pairs {
		for _, p := range chunk {
			there.ends[p.object+1]++
			back.ends[p.subject.Node()+1]++
		}
	}
	for n := range nodes { // now ends[n] is where n begins
		there.ends[n+1] += there.ends[n]
		back.ends[n+1] += back.ends[n]
	}
	for _, chunk := range l.pairs {
		for _, p := range chunk {
			s := p.subject.Node()
			there.edges[there.ends[p.object]] = p.subject
			there.ends[p.object]++
			back.edges[back.ends[s]] = EdgeTo(p.object, p.subject.Detailed())
			back.ends[s]++ // and in the end, where it ends
		}
	}
	return there, back
}

// build makes all segments of v.
func (v *View) build(there, back adjacency) error {
	var b builder
	var dir *directory
	for block := range v.blocks {
		first := Node(block) << blockBits
		if first&(1<<directoryAt-1) == 0 {
			dir = v.ownDirectory(int(first >> directoryAt))
		}
		q := int(first >> pageAt & directoryMask)
		if block&pageMask == 0 {
			v.ownPage(dir, q)
		}
		seg, err := b.segment(v, first, there, back)
		if err != nil {
			return err
		}
		dir[q][block&pageMask] = seg
		v.segments += seg.bytes()
		for i := range seg.nodes() {
			if !seg.empty(i) {
				v.liveNodes++
			}
		}
	}
	return nil
}

// builder makes segments of adjacencies. Its buffers are used again.
type builder struct {
	enc  encoder
	keys []uint64 // side and edge
	list []Edge
}

func (b *builder) segment(v *View, first Node, there, back adjacency) (segment, error) {
	b.enc.reset()
	for i := range Node(blockSize) {
		n := first | i
		if n == 0 || v.blocks[n>>blockBits] == 0 {
			continue
		}
		b.keys = b.keys[:0]
		for _, e := range there.of(n) {
			b.keys = append(b.keys, uint64(forward(v.kindOf(e.Node())))<<32|uint64(e))
		}
		for _, e := range back.of(n) {
			b.keys = append(b.keys, uint64(reverse(v.kindOf(e.Node())))<<32|uint64(e))
		}
		if len(b.keys) == 0 {
			continue
		}
		b.enc.node(int(i))
		if err := b.node(v, n); err != nil {
			return segment{}, err
		}
	}
	return b.enc.finish(), nil
}

// node writes the groups of n, whose edges are in b.keys.
func (b *builder) node(v *View, n Node) error {
	slices.Sort(b.keys)
	for from := 0; from < len(b.keys); {
		s := side(b.keys[from] >> 32)
		b.list = b.list[:0]
		for ; from < len(b.keys) && side(b.keys[from]>>32) == s; from++ {
			e := Edge(b.keys[from])
			if k := len(b.list); k > 0 && b.list[k-1].Node() == e.Node() {
				return b.duplicate(v, n, e.Node(), s)
			}
			b.list = append(b.list, e)
		}
		if len(b.list) <= inlineMax {
			b.enc.list(s, ListOf(b.list))
		} else {
			b.enc.list(s, copiedList(b.list))
		}
	}
	return nil
}

func (b *builder) duplicate(v *View, n, m Node, s side) error {
	if s.reverse() {
		n, m = m, n
	}
	k := rel.Key{Object: v.Object(n), Relation: v.KindName(v.kindOf(n)).Relation, Subject: v.Subject(m)}
	return fmt.Errorf("%w: %s", ErrDuplicate, k)
}

// countLive counts live names, and the live nodes that have attributes only.
func (v *View) countLive() {
	last := Node(0)
	v.values.ascend(0, func(k uint64, _ string) bool {
		n := Node(k >> 32)
		seg := v.segment(n)
		if n != last && (seg == nil || seg.empty(uint32(n)&(blockSize-1))) {
			v.liveNodes++
		}
		last = n
		return true
	})
	if v.liveNodes == v.nodes {
		v.liveNames = v.names // the common case: a name has a node
		return
	}
	v.liveNames = 0
	for b := range v.blocks {
		for i := range Node(blockSize) {
			n := Node(b)<<blockBits | i
			off := v.nodeName(n)
			if kin := v.kin(v.spine.name(n)); off != 0 && kin.next() == n && v.liveName(&v.spine, off) {
				v.liveNames++
			}
		}
	}
}
