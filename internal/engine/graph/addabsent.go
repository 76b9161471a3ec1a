package graph

import (
	"fmt"

	"github.com/ostiary/ostiary/rel"
)

// nodeKey describes a node to be looked up: its kind, the kind's type, and the
// object's id.
type nodeKey struct {
	kind Kind
	typ  uint32
	id   string
	hash uint64 // of type and id; 0 until it is computed
}

// kindCache caches kinds by a hash of their names.
type kindCache [64]cachedKind

type cachedKind struct {
	name KindName
	kind Kind
	typ  uint32
}

// key returns the key of a node. locked is true if the caller holds g.mu;
// otherwise key locks it to add a kind. It fails with [rel.ErrName] or
// [ErrFull].
func (c *kindCache) key(g *Graph, k KindName, id string, locked bool) (nodeKey, error) {
	if err := checkID(id); err != nil {
		return nodeKey{}, err
	}
	known := &c[kindHash(&k)%len(c)]
	if known.kind == 0 || known.name != k {
		if !locked {
			g.mu.Lock()
			defer g.mu.Unlock()
		}
		n, err := g.intern(k)
		if err != nil {
			return nodeKey{}, err
		}
		*known = cachedKind{g.symbols.kinds[n].name, n, g.symbols.kinds[n].typ}
	}
	return nodeKey{kind: known.kind, typ: known.typ, id: id}, nil
}

// AddAbsent adds tuples in order. It stops at the first tuple with a key that
// already exists in the view or in the batch, and leaves the existing tuple
// unchanged. It also stops at the first tuple for which [Batch.Add] would fail.
// It returns the number of tuples that it added. It is faster than calling
// [Batch.Get] and [Batch.Add] for each tuple, since it looks up many names at a
// time.
func (b *Batch) AddAbsent(tuples []rel.Tuple) (n int, err error) {
	for n < len(tuples) {
		part := tuples[n:min(n+prefetchCount, len(tuples))]
		added, err := b.addAbsent(part)
		if n += added; err != nil || added < len(part) {
			return n, err
		}
	}
	return n, nil
}

// addAbsent is AddAbsent for up to prefetchCount tuples.
func (b *Batch) addAbsent(part []rel.Tuple) (int, error) {
	var all [prefetchCount]loadTuple
	b.ensurePending()
	b.g.mu.Lock()
	defer b.g.mu.Unlock()
	n, err := b.prepare(part, all[:])
	b.prefetched = b.g.prefetch(all[:n])
	for i := range all[:n] {
		c, full := b.g.resolve(&all[i])
		if full != nil {
			return i, full
		}
		at := b.changeOf(c)
		if at.present {
			return i, nil
		}
		at.present, at.detail = true, all[i].detail
	}
	return n, err
}

// prepare fills to with what is to be looked up for tuples. After an error, n
// is the number of tuples prepared before it. The caller holds g.mu.
func (b *Batch) prepare(tuples []rel.Tuple, to []loadTuple) (n int, err error) {
	for i := range tuples {
		t := &tuples[i]
		if t.Relation == "" {
			return i, fmt.Errorf("%w: %s has no relation", rel.ErrName, t.Key())
		}
		if to[i].object, err = b.pending.kinds.key(b.g, ObjectKind(t.Object, t.Relation), t.Object.ID, true); err != nil {
			return i, err
		}
		if to[i].subject, err = b.pending.kinds.key(b.g, SubjectKind(t.Subject), t.Subject.ID, true); err != nil {
			return i, err
		}
		if to[i].detail, err = b.g.details.detail(t); err != nil {
			return i, err
		}
	}
	return len(tuples), nil
}

// resolve returns the nodes of a tuple, new ones if necessary. The caller holds
// g.mu.
func (g *Graph) resolve(t *loadTuple) (c change, err error) {
	c.objectKind, c.subjectKind = t.object.kind, t.subject.kind
	if c.object, err = g.objectNode(&t.object); err != nil {
		return c, err
	}
	c.subject, err = g.findOrAddNode(&t.subject)
	return c, err
}
