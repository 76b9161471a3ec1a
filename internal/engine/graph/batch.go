package graph

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ostiary/ostiary/internal/tool/btree"
	"github.com/ostiary/ostiary/rel"
)

// Batch collects changes to a view and makes a new view of them. [Batch.Has]
// and [Batch.Get] see the changes at once. A batch belongs to one goroutine;
// batches on different views may be used at the same time. A batch that is not
// needed can simply be dropped.
type Batch struct {
	g        *Graph
	start    *View // the view that Publish replaces
	base     *View // start, or the result of the last View
	detached bool  // made by From, so Publish fails

	pending    *pending                  // changes since base; nil without changes
	values     btree.Map[uint64, string] // attributes, with the changes since base
	extraBytes int64                     // change of View.extraBytes since base
	owners     []Node                    // nodes of plain objects with changed attributes since base
	prefetched uint32                    // sum of what prefetch read; without a use, the compiler would remove the reads
}

// change is what a batch does to one tuple.
type change struct {
	object, subject         Node
	objectKind, subjectKind Kind

	had     bool // base has the tuple, with the edge before
	before  Edge
	present bool    // the tuple exists after the change
	detail  *Detail // after the change; nil if the object has no attributes
}

// Begin starts a batch on the newest view.
func (g *Graph) Begin() *Batch {
	b := g.BeginOn(g.View())
	return &b
}

// BeginOn starts a batch on a view that is the newest or is about to be
// published. [Batch.Publish] fails until v is the newest view. The batch is a value, so
// that it can be a part of what owns it; a used batch must not be copied.
func (g *Graph) BeginOn(v *View) Batch { return g.begin(v, false) }

// From starts a batch on any view of the lineage. The batch makes views of the
// past, by undoing later changes, and cannot publish.
func (g *Graph) From(v *View) *Batch {
	b := g.begin(v, true)
	return &b
}

func (g *Graph) begin(v *View, detached bool) Batch {
	return Batch{g: g, start: v, base: v, detached: detached, values: v.values.Edit()}
}

// Add adds a tuple, or replaces the tuple with the same key. It does not
// validate names, except that the relation and the ids must not be empty or too
// long. It fails with [rel.ErrName], [ErrContext] or [ErrFull], and then
// changes nothing.
func (b *Batch) Add(t rel.Tuple) error {
	if t.Relation == "" {
		return fmt.Errorf("%w: %s has no relation", rel.ErrName, t.Key())
	}
	c, d, err := b.g.tupleNodes(t)
	if err != nil {
		return err
	}
	at := b.changeOf(c)
	at.present, at.detail = true, d
	return nil
}

// tupleNodes returns the nodes of t, new ones if necessary, and its detail.
func (g *Graph) tupleNodes(t rel.Tuple) (c change, d *Detail, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if d, err = g.details.detail(&t); err != nil {
		return c, nil, err
	}
	if c.objectKind, err = g.intern(ObjectKind(t.Object, t.Relation)); err != nil {
		return c, nil, err
	}
	if c.subjectKind, err = g.intern(SubjectKind(t.Subject)); err != nil {
		return c, nil, err
	}
	if c.object, err = g.node(c.objectKind, t.Object.ID); err != nil {
		return c, nil, err
	}
	c.subject, err = g.node(c.subjectKind, t.Subject.ID)
	return c, d, err
}

// Remove removes the tuple with a key and reports whether it existed.
func (b *Batch) Remove(k rel.Key) bool {
	c, ok := b.findNodes(k)
	if !ok {
		return false
	}
	at := b.changeOf(c)
	was := at.present
	at.present, at.detail = false, nil
	return was
}

// RemoveMatching removes the tuples that f selects and returns their number.
func (b *Batch) RemoveMatching(f rel.Filter) int {
	v, n := b.View(), 0
	for p := range v.Tuples(f, Position{}) {
		at := b.changeOf(change{
			object: p.Object, subject: p.Subject,
			objectKind: v.kindOf(p.Object), subjectKind: v.kindOf(p.Subject),
		})
		at.present, at.detail = false, nil
		n++
	}
	return n
}

// Has reports whether the tuple with a key exists after the batch's changes.
func (b *Batch) Has(k rel.Key) bool {
	_, ok := b.Get(k)
	return ok
}

// Get returns the tuple with a key, including the batch's changes. It returns
// false if no such tuple exists.
func (b *Batch) Get(k rel.Key) (rel.Tuple, bool) {
	c, ok := b.findNodes(k)
	if !ok {
		return rel.Tuple{}, false
	}
	t := rel.Tuple{Object: k.Object, Relation: k.Relation, Subject: k.Subject}
	if b.pending != nil {
		if at := b.pending.find(c.object, c.subject); at != nil {
			if at.detail != nil {
				at.detail.fill(&t)
			}
			return t, at.present
		}
	}
	e, ok := b.base.probe(c.object, c.objectKind, c.subject, c.subjectKind)
	if ok && e.Detailed() {
		b.base.Detail(c.object, c.subject).fill(&t)
	}
	return t, ok
}

// findNodes finds the nodes and kinds of a key among all symbols of the
// lineage.
func (b *Batch) findNodes(k rel.Key) (c change, ok bool) {
	b.g.mu.Lock()
	defer b.g.mu.Unlock()
	if k.Relation == "" {
		return c, false
	}
	if c.object, c.objectKind, ok = b.g.findNode(ObjectKind(k.Object, k.Relation), k.Object.ID); ok {
		c.subject, c.subjectKind, ok = b.g.findNode(SubjectKind(k.Subject), k.Subject.ID)
	}
	return c, ok
}

// findNode finds a node among all symbols of the lineage. The caller holds
// g.mu.
func (g *Graph) findNode(kind KindName, id string) (n Node, k Kind, ok bool) {
	if k, ok = g.findKind(kind); ok {
		n, ok = g.symbols.nodeOf(g.symbols.lookup(g, g.symbols.kinds[k].typ, id), k)
	}
	return n, k, ok
}

// MayMatch reports whether a tuple that f selects can exist, before or after
// the batch's changes. It may be wrong only if it returns true. It is quick,
// and it returns false for an object and relation that never had a tuple.
func (b *Batch) MayMatch(f rel.Filter) bool {
	if f.ObjectType == "" || f.ObjectID == "" || f.Relation == "" {
		return true
	}
	b.g.mu.Lock()
	defer b.g.mu.Unlock()
	_, _, ok := b.g.findNode(KindName{Type: f.ObjectType, Relation: f.Relation}, f.ObjectID)
	return ok
}

// ensurePending returns the batch's pending changes, taking reused memory for
// the first one.
func (b *Batch) ensurePending() *pending {
	if b.pending == nil {
		if b.pending, _ = b.g.pendingPool.Get().(*pending); b.pending == nil {
			b.pending = new(pending)
		}
	}
	return b.pending
}

// changeOf returns the batch's change to the tuple with c's nodes. If the tuple
// has no change yet, changeOf records one that changes nothing. The pointer is
// valid until the next call.
func (b *Batch) changeOf(c change) *change {
	p := b.ensurePending()
	if at := p.find(c.object, c.subject); at != nil {
		return at
	}
	c.before, c.had = b.base.probe(c.object, c.objectKind, c.subject, c.subjectKind)
	c.present = c.had
	if c.before.Detailed() {
		c.detail, _ = b.base.details.Get(pair(uint32(c.object), uint32(c.subject)))
	}
	return p.add(c)
}

// SetAttribute sets or replaces an attribute. It fails with [rel.ErrName] or
// [ErrFull].
func (b *Batch) SetAttribute(a rel.Attribute) error {
	b.g.mu.Lock()
	defer b.g.mu.Unlock()
	n, name, err := b.g.attributeKey(a)
	if err != nil {
		return err
	}
	b.deleteValue(n, name)
	b.values.Set(pair(uint32(n), name), strings.Clone(a.Value))
	b.extraBytes += attributeBytes + int64(len(a.Value))
	b.owners = append(b.owners, n)
	return nil
}

// RemoveAttribute removes an attribute and reports whether it existed.
func (b *Batch) RemoveAttribute(o rel.Object, name string) bool {
	b.g.mu.Lock()
	defer b.g.mu.Unlock()
	now := View{g: b.g, symbols: b.g.symbols}
	k, ok := now.Kind(KindName{Type: o.Type})
	if !ok {
		return false
	}
	n, ok := now.Node(k, o.ID)
	if !ok {
		return false
	}
	a, ok := now.findAttribute(b.g, name)
	return ok && b.deleteValue(n, a)
}

// RemoveAttributes removes the attributes that have a given object type, object
// id and name, each "" for any, and returns their number.
func (b *Batch) RemoveAttributes(objectType, objectID, name string) int {
	v, n := b.View(), 0
	for a := range v.Attributes(objectType, objectID, name) {
		if b.RemoveAttribute(a.Object, a.Name) {
			n++
		}
	}
	return n
}

func (b *Batch) deleteValue(n Node, name uint32) bool {
	old, ok := b.values.Delete(pair(uint32(n), name))
	if ok {
		b.extraBytes -= attributeBytes + int64(len(old))
		b.owners = append(b.owners, n)
	}
	return ok
}

// View returns a view with the changes so far, without publishing it. It does
// most of the work of publishing. The batch can be used further.
func (b *Batch) View() *View { return b.ViewIn(nil) }

// ViewIn is View with memory for the view, unless it is nil. It does not use the memory
// if nothing has changed.
func (b *Batch) ViewIn(memory *View) *View {
	if b.pending == nil && len(b.owners) == 0 {
		return b.base
	}
	if memory == nil {
		memory = new(View)
	}
	b.flush(memory, b.ensurePending())
	b.base = memory
	b.pending.reset()
	b.g.pendingPool.Put(b.pending)
	b.pending, b.owners, b.extraBytes = nil, b.owners[:0], 0
	return b.base
}

// Publish makes the batch's view the newest and returns it. It fails with
// [ErrStale] if the batch started on a view that is no longer the newest, or if
// [Graph.From] made the batch. After a success, the batch can be used further,
// on the new view.
func (b *Batch) Publish() (*View, error) {
	v := b.View()
	if b.detached || !b.g.newest.CompareAndSwap(b.start, v) {
		return nil, ErrStale
	}
	b.start = v
	return v, nil
}

// flush makes v the successor of base.
func (b *Batch) flush(v *View, p *pending) {
	*v = *b.base
	b.g.mu.Lock()
	v.symbols, v.nameCount, v.nodeCount = b.g.symbols, b.g.nameCount, b.g.nodeCount
	b.g.mu.Unlock()
	v.values, b.values = b.values, b.values.Edit()
	v.details = v.details.Edit()
	v.extraBytes += b.extraBytes

	edits := slices.Grow(p.edits[:0], 2*len(p.changes))
	for i := range p.changes {
		edits = p.changes[i].apply(v, edits)
	}
	edits = p.sortEdits(edits)
	p.edits = edits
	v.rewrite(edits)
	b.recount(v, edits)
}

// apply changes v's details and tuple count, and appends the edits that the
// change makes in lists.
func (c *change) apply(v *View, edits []edit) []edit {
	key := pair(uint32(c.object), uint32(c.subject))
	if c.before.Detailed() {
		if old, ok := v.details.Get(key); ok && old != c.detail {
			v.extraBytes -= old.bytes()
			v.details.Delete(key)
		}
	}
	if c.detail != nil {
		if old, _ := v.details.Get(key); old != c.detail {
			v.extraBytes += c.detail.bytes()
			v.details.Set(key, c.detail)
		}
	}
	if c.had == c.present && c.before.Detailed() == (c.detail != nil) {
		return edits
	}
	if c.present && !c.had {
		v.tupleCount++
	} else if !c.present {
		v.tupleCount--
	}
	detailed := c.detail != nil
	return append(edits,
		edit{c.object, forward(c.subjectKind), EdgeTo(c.subject, detailed), !c.present},
		edit{c.subject, reverse(c.objectKind), EdgeTo(c.object, detailed), !c.present})
}

// rewrite replaces the segments that edits touch, and copies the levels of the
// tree above them. The edits are sorted.
func (v *View) rewrite(edits []edit) {
	v.top = slices.Clone(v.top)
	ed, _ := v.g.editorPool.Get().(*editor)
	if ed == nil {
		ed = new(editor)
	}
	defer v.g.editorPool.Put(ed)
	var (
		upper *branch
		lower *leaf
	)
	for lastBranch, lastLeaf := -1, -1; len(edits) > 0; {
		n := edits[0].node
		if t := int(n >> branchAt); t != lastBranch {
			upper, lastBranch = v.copyBranch(t), t
		}
		if q := int(n >> leafAt); q != lastLeaf {
			lower, lastLeaf = v.copyLeaf(upper, q&branchMask), q
		}
		count := 0
		for count < len(edits) && edits[count].node>>blockBits == n>>blockBits {
			count++
		}
		seg := &lower[n>>segmentAt&leafMask]
		v.segmentBytes -= seg.bytes()
		*seg = ed.apply(seg, edits[:count])
		v.segmentBytes += seg.bytes()
		edits = edits[count:]
	}
}

// copyBranch puts a copy of the t-th branch into v.top, which v must not
// share.
func (v *View) copyBranch(t int) *branch {
	for len(v.top) <= t {
		v.top = append(v.top, nil)
	}
	copied := new(branch)
	if v.top[t] != nil {
		*copied = *v.top[t]
	} else {
		v.segmentBytes += branchBytes
	}
	v.top[t] = copied
	return copied
}

// copyLeaf puts a copy of a leaf into its branch, which v must not share.
func (v *View) copyLeaf(above *branch, at int) *leaf {
	copied := new(leaf)
	if above[at] != nil {
		*copied = *above[at]
	} else {
		v.segmentBytes += leafBytes
	}
	above[at] = copied
	return copied
}

// recount updates v's counts of live nodes and names. v differs from base at
// the nodes of edits and at owners.
func (b *Batch) recount(v *View, edits []edit) {
	nodes := append(make([]Node, 0, len(b.owners)+len(edits)), b.owners...)
	for _, e := range edits {
		if k := len(nodes); k == 0 || nodes[k-1] != e.node {
			nodes = append(nodes, e.node)
		}
	}
	if len(b.owners) > 0 { // the owners and the nodes of the edits are two lists in order; merge them
		slices.Sort(nodes)
		nodes = slices.Compact(nodes)
	}
	var names []uint32 // offsets of names with a node that came to life or died
	for _, n := range nodes {
		was, is := b.base.isLive(n), v.isLive(n)
		if was == is {
			continue
		}
		names = append(names, v.nameOffset(n))
		if is {
			v.liveNodes++
		} else {
			v.liveNodes--
		}
	}
	slices.Sort(names)
	for _, off := range slices.Compact(names) {
		was, is := b.base.isNameLive(&v.symbols, off), v.isNameLive(&v.symbols, off)
		switch {
		case is && !was:
			v.liveNames++
		case was && !is:
			v.liveNames--
		}
	}
}
