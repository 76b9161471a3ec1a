package graph

import (
	"fmt"
	"strings"

	"github.com/ostiary/ostiary/internal/tool/btree"
	"github.com/ostiary/ostiary/rel"
)

// Loader fills an empty lineage with many tuples at once: it collects pairs of
// nodes and builds each segment once, at the end. It belongs to one goroutine,
// and nothing else may write to the lineage meanwhile. A second goroutine looks
// names up. It ends by itself soon after the last [Loader.Add], so an abandoned
// Loader needs no closing.
type Loader struct {
	g     *Graph
	start *View // the empty view that Finish replaces

	// Used by the caller's goroutine.
	buffered    []loadTuple // tuples whose names are not being looked up yet
	kinds       kindCache
	detailCache detailCache
	values      []btree.Entry[uint64, string] // attributes
	extraBytes  int64                         // for View.extraBytes

	// Used by the second goroutine until done is closed.
	done       chan struct{}                  // nil if nothing is being looked up
	resolving  []loadTuple                    // tuples whose names are being looked up
	pairs      [][]loadPair                   // in order of Add, in chunks
	tuples     int                            // number of pairs
	details    []btree.Entry[uint64, *Detail] // by pair(object's node, subject's node)
	err        error                          // the first error; it stays
	prefetched uint32                         // sum of what prefetch read; without a use, the compiler would remove the reads
}

// loadPair is a tuple as two nodes.
type loadPair struct {
	object  Node
	subject Edge
}

// loadTuple is a tuple whose nodes are to be looked up.
type loadTuple struct {
	object, subject nodeKey
	detail          *Detail
}

const (
	pairsChunkMax = 1 << 15 // pairs in a chunk
	resolveCount  = 1024    // tuples handed to the second goroutine at once
	prefetchCount = 64      // tuples: enough for their reads to overlap, few enough to stay in the processor's cache
)

// Load returns a [Loader] for a lineage whose newest view is empty.
func (g *Graph) Load() *Loader {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.nameCount == 0 {
		g.loading = new(loadedNames)
	}
	return &Loader{g: g, start: g.View()}
}

// Add adds a tuple. Each key may come only once, or [Loader.Finish] fails. Add
// fails like [Batch.Add], but [ErrFull] may come some tuples late. After
// ErrFull the Loader cannot be used any more.
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

// startResolving starts to look up the names of the buffered tuples, once the
// tuples before them are done.
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

// wait waits until nothing is being looked up, and returns the first error.
func (l *Loader) wait() error {
	if l.done != nil {
		<-l.done
		l.done = nil
	}
	return l.err
}

// resolve looks up the names of the tuples in l.resolving.
func (l *Loader) resolve() {
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	for from := 0; from < len(l.resolving) && l.err == nil; from += prefetchCount {
		part := l.resolving[from:min(from+prefetchCount, len(l.resolving))]
		l.prefetched = l.g.prefetch(part)
		l.err = l.resolvePart(part)
	}
	clear(l.resolving) // or it would keep the callers' strings alive
}

// prefetch reads the memory that the lookups for part will read: first all
// slots of the index, then all name records. These reads do not depend on each
// other, so the processor waits for many of them at a time. The result is
// meaningless; using it keeps the compiler from removing the reads. The caller
// holds g.mu.
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

// addPair adds a tuple by its nodes.
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

// SetAttribute sets an attribute. Each may be set only once, or [Loader.Finish]
// fails. SetAttribute fails like [Batch.SetAttribute].
func (l *Loader) SetAttribute(a rel.Attribute) error {
	if err := l.wait(); err != nil {
		return err
	}
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	n, name, err := l.g.attributeKey(a)
	if err != nil {
		return err
	}
	l.addValue(n, name, strings.Clone(a.Value))
	return nil
}

// addValue adds an attribute by its numbers.
func (l *Loader) addValue(n Node, name uint32, value string) {
	l.values = append(l.values, btree.Entry[uint64, string]{Key: pair(uint32(n), name), Value: value})
	l.extraBytes += attributeBytes + int64(len(value))
}

// Finish builds the view, publishes it and returns it. It fails with
// [ErrDuplicate] or [ErrFull], and with [ErrStale] if the lineage was not empty
// or something else wrote to it. The Loader cannot be used afterwards.
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
		return nil, ErrDuplicate
	}
	v.details, _ = btree.Build(l.details) // buildSegments reports duplicate tuples
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

// countLive counts the live names, and adds the nodes that have only attributes
// to the live nodes.
func (v *View) countLive() {
	last := Node(0)
	v.values.Ascend(0, func(k uint64, _ string) bool {
		n := Node(k >> 32)
		if n != last && !v.hasLists(n) {
			v.liveNodes++
		}
		last = n
		return true
	})
	if v.liveNodes == v.nodeCount {
		v.liveNames = v.nameCount // the common case: every name has a node
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
