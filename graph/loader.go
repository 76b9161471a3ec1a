package graph

import (
	"fmt"
	"strings"

	"github.com/ostiary/ostiary/internal/btree"
	"github.com/ostiary/ostiary/rel"
)

// Loader fills an empty lineage with many tuples at once: it gathers pairs of
// nodes, and builds each segment once at the end. It is used by one goroutine,
// while nobody else writes to the lineage. Names are looked up by another, which
// ends by itself soon after the last Add: an abandoned Loader needs no closing.
type Loader struct {
	g     *Graph
	start *View

	// The caller's side.
	buffered    []loadTuple // whose names are not looked up yet
	kinds       kindCache
	detailCache detailCache
	values      []btree.Entry[uint64, string]
	extraBytes  int64

	// The other side's, until done yields.
	done       chan struct{} // nil while nothing is looked up
	resolving  []loadTuple   // what is looked up
	pairs      [][]loadPair  // in order of arrival, in chunks
	tuples     int
	details    []btree.Entry[uint64, *Detail]
	err        error
	prefetched uint32 // what touch read, so that the compiler keeps the reads
}

// loadPair is one tuple by its ends.
type loadPair struct {
	object  Node
	subject Edge
}

// loadTuple is one tuple by kinds and ids.
type loadTuple struct {
	object, subject nodeKey
	detail          *Detail
}

const (
	pairsChunkMax = 1 << 15 // pairs
	resolveCount  = 1024    // tuples handed over at once
	prefetchCount = 64      // tuples: enough that lookups overlap, few enough that they stay cached
)

// Load starts a Loader on a lineage whose newest view is empty.
func (g *Graph) Load() *Loader {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.nameCount == 0 {
		g.loading = new(loadedNames)
	}
	return &Loader{g: g, start: g.View()}
}

// Add adds a tuple. A key must come once only: Finish fails if it does not. The
// errors are Batch.Add's; ErrFull may come some tuples late, and after it the
// Loader is of no use.
func (l *Loader) Add(t rel.Tuple) error {
	if t.Relation == "" {
		return fmt.Errorf("%w: %s has no relation", rel.ErrName, t.Key())
	}
	o, err := l.kinds.key(l.g, ObjectKind(t.Object, t.Relation), t.Object.ID, false)
	if err != nil {
		return err
	}
	s, err := l.kinds.key(l.g, SubjectKind(t.Subject), t.Subject.ID, false)
	if err != nil {
		return err
	}
	d, err := l.detailCache.detail(&t)
	if err != nil {
		return err
	}
	if d != nil {
		l.extraBytes += d.bytes()
	}
	l.buffered = append(l.buffered, loadTuple{o, s, d})
	if len(l.buffered) >= resolveCount {
		return l.startResolving()
	}
	return nil
}

// handOver has the waiting tuples looked up, after those before them.
func (l *Loader) startResolving() error {
	if err := l.wait(); err != nil {
		return err
	}
	l.resolving, l.buffered = l.buffered, l.resolving[:0]
	done := make(chan struct{})
	l.done = done
	go func() {
		defer close(done)
		l.resolve()
	}()
	return nil
}

// wait returns when nothing is being looked up.
func (l *Loader) wait() error {
	if l.done != nil {
		<-l.done
		l.done = nil
	}
	return l.err
}

// resolve looks up the names of the tuples handed over.
func (l *Loader) resolve() {
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	for from := 0; from < len(l.resolving) && l.err == nil; from += prefetchCount {
		part := l.resolving[from:min(from+prefetchCount, len(l.resolving))]
		l.prefetched = l.g.prefetch(part)
		l.err = l.resolvePart(part)
	}
	clear(l.resolving) // or it would keep the callers' strings
}

// touch reads what the lookups of part will read, one kind of memory after the
// other. Such reads do not depend on each other, so the processor waits for many
// at a time. What it returns means nothing. g.mu is held.
func (g *Graph) prefetch(part []loadTuple) (seen uint32) {
	var offs [2 * prefetchCount]uint32
	for i := range part {
		if o := &part[i].object; !g.inOrder(o.typ) {
			offs[2*i] = g.prefetchName(o)
		}
		offs[2*i+1] = g.prefetchName(&part[i].subject)
	}
	for _, off := range offs[:2*len(part)] {
		if rec := wordsAt(g.symbols.names, off); rec != nil {
			seen ^= rec[0]
		}
	}
	return seen
}

func (l *Loader) resolvePart(part []loadTuple) error {
	for i := range part {
		c, err := l.g.resolve(&part[i])
		if err != nil {
			return err
		}
		l.addPair(c.object, c.subject, part[i].detail)
	}
	return nil
}

func (l *Loader) addPair(o, s Node, d *Detail) {
	last := len(l.pairs) - 1
	if last < 0 || len(l.pairs[last]) == cap(l.pairs[last]) {
		size := pairsChunkMax
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
		l.details = append(l.details, btree.Entry[uint64, *Detail]{Key: pair(uint32(o), uint32(s)), Value: d})
	}
}

// SetAttribute sets an attribute, which must come once only. The errors are
// Batch.SetAttribute's.
func (l *Loader) SetAttribute(a rel.Attribute) error {
	if err := l.wait(); err != nil {
		return err
	}
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
	name, err := l.g.internAttribute(a.Name)
	if err != nil {
		return err
	}
	l.addValue(n, name, strings.Clone(a.Value))
	return nil
}

func (l *Loader) addValue(n Node, name uint32, value string) {
	l.values = append(l.values, btree.Entry[uint64, string]{Key: pair(uint32(n), name), Value: value})
	l.extraBytes += attributeBytes + int64(len(value))
}

// Finish builds the view, publishes it and returns it. It fails with
// ErrDuplicate or ErrFull, and with ErrStale if the lineage was not empty or
// somebody else wrote to it. The Loader is of no use afterwards.
func (l *Loader) Finish() (*View, error) {
	if l.start.tupleCount > 0 || l.start.values.Len() > 0 {
		return nil, ErrStale
	}
	if err := l.startResolving(); err != nil {
		return nil, err
	}
	if err := l.wait(); err != nil {
		return nil, err
	}
	v := &View{g: l.g, tupleCount: l.tuples, extraBytes: l.extraBytes}
	l.g.mu.Lock()
	l.g.indexAll()
	v.symbols, v.nameCount, v.nodeCount = l.g.symbols, l.g.nameCount, l.g.nodeCount
	l.g.mu.Unlock()
	var ok bool
	if v.values, ok = btree.Build(l.values); !ok {
		return nil, fmt.Errorf("%w: an attribute", ErrDuplicate)
	}
	v.details, _ = btree.Build(l.details) // build finds duplicate tuples in the lists
	l.details, l.values = nil, nil

	byObject, bySubject := sortPairs(l.pairs, l.tuples, len(v.blocks)<<blockBits)
	l.pairs = nil
	if err := v.buildSegments(byObject, bySubject); err != nil {
		return nil, err
	}
	v.countLive()
	if !l.g.newest.CompareAndSwap(l.start, v) {
		return nil, ErrStale
	}
	return v, nil
}

// countLive counts live names, and the live nodes that have attributes only.
func (v *View) countLive() {
	last := Node(0)
	v.values.Ascend(0, func(k uint64, _ string) bool {
		n := Node(k >> 32)
		seg := v.segment(n)
		if n != last && (seg == nil || seg.empty(uint32(n)&(blockSize-1))) {
			v.liveNodes++
		}
		last = n
		return true
	})
	if v.liveNodes == v.nodeCount {
		v.liveNames = v.nameCount // the common case: a name has a node
		return
	}
	v.liveNames = 0
	for b := range v.blocks {
		for i := range Node(blockSize) {
			n := Node(b)<<blockBits | i
			off := v.nameOffset(n)
			if walk := v.walkNodes(v.symbols.nameRecord(n)); off != 0 && walk.next() == n && v.isNameLive(&v.symbols, off) {
				v.liveNames++
			}
		}
	}
}
