package graph

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ostiary/ostiary/internal/btree"
	"github.com/ostiary/ostiary/rel"
)

// Batch collects changes to a view and makes a new one of them. Changes show
// in the batch's own reads (Has, Get) at once. It is used by one goroutine; to
// discard it, drop it. Batches on different views may be used at the same
// time.
type Batch struct {
	g        *Graph
	start    *View // what Publish replaces
	base     *View // start with the changes that View has applied
	detached bool

	pending    *pending                  // nil while there is none
	values     btree.Map[uint64, string] // an edited version of base.values
	extraBytes int64                     // change of View.beside
	owners     []Node                    // whose attributes changed
	prefetched uint32                    // what touch read, so that the compiler keeps the reads
}

// change is what a batch does to one tuple.
type change struct {
	object, subject         Node
	objectKind, subjectKind Kind

	had     bool // in base, as the edge before
	before  Edge
	present bool
	detail  *Detail
}

// Begin starts a batch on the newest view, to be published.
func (g *Graph) Begin() *Batch { return g.begin(g.View(), false) }

// BeginOn starts a batch on a view that is the newest, or will be once it is
// published. The batch can be published then, and not before.
func (g *Graph) BeginOn(v *View) *Batch { return g.begin(v, false) }

// From starts a batch on any view of the lineage, that yields views of a past
// (by undoing what came later) and publishes none.
func (g *Graph) From(v *View) *Batch { return g.begin(v, true) }

func (g *Graph) begin(v *View, detached bool) *Batch {
	return &Batch{g: g, start: v, base: v, detached: detached, values: v.values.Edit()}
}

// Add adds a tuple, or replaces the one with its key. It checks the form of
// what it could not hold, not more: names are the caller's to validate. The
// errors are of kind rel.ErrName, ErrContext and ErrFull; after one the batch
// is as before.
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

// ends gives t's nodes and detail.
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

// Remove removes the tuple with a key and says whether there was one.
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

// Has says whether the tuple with a key is there after the batch's changes.
func (b *Batch) Has(k rel.Key) bool {
	_, ok := b.Get(k)
	return ok
}

// Get returns the tuple with a key as it is after the batch's changes.
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

// known finds the nodes of a key among all that the lineage has by now.
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

// find finds a node among all that the lineage has by now; g.mu is held.
func (g *Graph) findNode(kind KindName, id string) (n Node, k Kind, ok bool) {
	if k, ok = g.findKind(kind); ok {
		n, ok = g.symbols.nodeOf(g.symbols.lookup(g, g.symbols.kinds[k].typ, id), k)
	}
	return n, k, ok
}

// May says whether a tuple that f selects may be there, before or after the
// batch's changes: false is sure, and costs little for an object of which
// nothing was ever said.
func (b *Batch) MayMatch(f rel.Filter) bool {
	if f.ObjectType == "" || f.ObjectID == "" || f.Relation == "" {
		return true
	}
	b.g.mu.Lock()
	defer b.g.mu.Unlock()
	_, _, ok := b.g.findNode(KindName{Type: f.ObjectType, Relation: f.Relation}, f.ObjectID)
	return ok
}

// work returns the batch's pending changes, with memory to add to.
func (b *Batch) ensurePending() *pending {
	if b.pending == nil {
		if b.pending, _ = b.g.pendingPool.Get().(*pending); b.pending == nil {
			b.pending = new(pending)
		}
	}
	return b.pending
}

// change returns the place of what the batch does to c's tuple, until the next.
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

// SetAttribute sets or replaces an attribute. The errors are of kind
// rel.ErrName and ErrFull.
func (b *Batch) SetAttribute(a rel.Attribute) error {
	b.g.mu.Lock()
	defer b.g.mu.Unlock()
	k, err := b.g.intern(KindName{Type: a.Object.Type})
	if err != nil {
		return err
	}
	n, err := b.g.node(k, a.Object.ID)
	if err != nil {
		return err
	}
	name, err := b.g.internAttribute(a.Name)
	if err != nil {
		return err
	}
	b.deleteValue(n, name)
	b.values.Set(pair(uint32(n), name), strings.Clone(a.Value))
	b.extraBytes += attributeBytes + int64(len(a.Value))
	b.owners = append(b.owners, n)
	return nil
}

// RemoveAttribute removes an attribute and says whether there was one.
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

// RemoveAttributes removes the attributes of objects of a type, of an id, of a
// name ("" is any) and returns their number.
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

// View returns the view that the changes so far lead to, without publishing
// it. It costs what publishing costs; the batch can go on.
func (b *Batch) View() *View {
	if b.pending == nil && len(b.owners) == 0 {
		return b.base
	}
	b.base = b.flush(b.ensurePending())
	b.pending.reset()
	b.g.pendingPool.Put(b.pending)
	b.pending, b.owners, b.extraBytes = nil, b.owners[:0], 0
	return b.base
}

// Publish makes the batch's view the newest and returns it. It fails with
// ErrStale if the newest view is no longer the one that the batch began on, and
// for a batch made by From. The batch may go on from there.
func (b *Batch) Publish() (*View, error) {
	v := b.View()
	if b.detached || !b.g.newest.CompareAndSwap(b.start, v) {
		return nil, ErrStale
	}
	b.start = v
	return v, nil
}

// flush makes base's successor.
func (b *Batch) flush(p *pending) *View {
	v := *b.base
	b.g.mu.Lock()
	v.symbols, v.nameCount, v.nodeCount = b.g.symbols, b.g.nameCount, b.g.nodeCount
	b.g.mu.Unlock()
	v.values, b.values = b.values, b.values.Edit()
	v.details = v.details.Edit()
	v.extraBytes += b.extraBytes

	edits := slices.Grow(p.edits[:0], 2*len(p.changes))
	for i := range p.changes {
		edits = p.changes[i].apply(&v, edits)
	}
	edits = p.sortEdits(edits)
	p.edits = edits
	v.rewrite(edits)
	b.recount(&v, edits)
	return &v
}

// apply changes v's details and counts, and adds what must change in lists.
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

// rewrite replaces the segments that edits, in order, touch, and what leads to
// them.
func (v *View) rewrite(edits []edit) {
	v.top = slices.Clone(v.top)
	ed, _ := v.g.editorPool.Get().(*editor)
	if ed == nil {
		ed = new(editor)
	}
	defer v.g.editorPool.Put(ed)
	var (
		dir *directory
		p   *page
	)
	for lastDir, lastPage := -1, -1; len(edits) > 0; {
		n := edits[0].node
		if t := int(n >> directoryAt); t != lastDir {
			dir, lastDir = v.copyDirectory(t), t
		}
		if q := int(n >> pageAt); q != lastPage {
			p, lastPage = v.copyPage(dir, q&directoryMask), q
		}
		count := 0
		for count < len(edits) && edits[count].node>>blockBits == n>>blockBits {
			count++
		}
		seg := &p[n>>segmentAt&pageMask]
		v.segmentBytes -= seg.bytes()
		*seg = ed.apply(seg, edits[:count])
		v.segmentBytes += seg.bytes()
		edits = edits[count:]
	}
}

// ownDirectory puts a copy of the t-th directory in v, whose top is its own.
func (v *View) copyDirectory(t int) *directory {
	for len(v.top) <= t {
		v.top = append(v.top, nil)
	}
	d := new(directory)
	if v.top[t] != nil {
		*d = *v.top[t]
	} else {
		v.segmentBytes += directoryBytes
	}
	v.top[t] = d
	return d
}

// ownPage puts a copy of a page in d, which is v's own.
func (v *View) copyPage(d *directory, at int) *page {
	p := new(page)
	if d[at] != nil {
		*p = *d[at]
	} else {
		v.segmentBytes += pageBytes
	}
	d[at] = p
	return p
}

// recount brings v's counts of live nodes and names up to date with its lists
// and attributes, which differ from base's at the nodes of edits and owners.
func (b *Batch) recount(v *View, edits []edit) {
	nodes := append(make([]Node, 0, len(b.owners)+len(edits)), b.owners...)
	for _, e := range edits {
		if k := len(nodes); k == 0 || nodes[k-1] != e.node {
			nodes = append(nodes, e.node)
		}
	}
	if len(b.owners) > 0 { // or they are in order, as the edits are
		slices.Sort(nodes)
		nodes = slices.Compact(nodes)
	}
	var names []uint32 // that had a node come to life or die
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
