package graph

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/ostiary/ostiary/rel"
)

// NameOrder reads a view in order of names, from any place on. Between two pages of a
// list, nothing has to be kept but the last name.
//
// Where the order follows a list of neighbors of one node, and where it follows all
// nodes of a kind, a page costs about the same at every place: it begins with a search
// and reads little more than it yields. The exceptions are the first page of a kind,
// which sorts the kind's nodes and keeps 4 to 5 bytes for each as long as the lineage
// exists; a place at which many nodes of a kind have lost all their tuples; a list of
// neighbors that is spread thinly over the nodes of its kind, which may be read whole;
// and a filter that selects few of what it has to read.
type NameOrder struct {
	View *View
	// Page is how many results the caller probably reads. It must be positive.
	Page int
	// Visit is called for each node, edge and attribute that is read. If it returns
	// false, the iteration ends.
	Visit func() bool

	stopped bool
}

// visit calls Visit, and returns false from its first false on.
func (o *NameOrder) visit() bool {
	if !o.stopped {
		o.stopped = !o.Visit()
	}
	return !o.stopped
}

// nodeSet is a set of edges to nodes of one kind.
type nodeSet struct {
	kind Kind
	// size is the number of edges, or more.
	size int
	// find returns the edge to a node, and false if the set lacks it.
	find func(Node) (Edge, bool)
	// each yields all edges, in any order.
	each func(yield func(Edge) bool)
}

func setOfList(l List, k Kind) nodeSet {
	return nodeSet{k, l.Len(), l.Find, func(yield func(Edge) bool) {
		for i := range l.Chunks() {
			for _, e := range l.Chunk(i) {
				if !yield(e) {
					return
				}
			}
		}
	}}
}

// setOfKind is all nodes of a kind that are part of a tuple.
func (v *View) setOfKind(k Kind) nodeSet {
	return nodeSet{k, v.nodeCount, func(n Node) (Edge, bool) { return EdgeTo(n, false), v.hasLists(n) },
		func(yield func(Edge) bool) {
			for n := range v.NodesOf(k) {
				if !yield(EdgeTo(n, false)) {
					return
				}
			}
		}}
}

// setCursor iterates over a nodeSet in order of the ids. It has two ways: to look up all
// nodes of the kind, which are sorted, in the set; and to select the first ones by
// reading the whole set. It begins with the way that is probably cheaper, and goes over
// to the second one when the first one has cost more.
type setCursor struct {
	order   *NameOrder
	set     nodeSet
	from    string // selected edges have this id or a greater one
	after   bool   // selected edges do not have the id from itself
	walk    idWalk
	walking bool
	misses  int    // nodes that the walk visited in vain
	batch   []Edge // the next selected edges, in order
	more    bool   // the set may have edges after batch
}

// cursor returns an iterator over the edges of a set whose ids are not less than from.
func (o *NameOrder) cursor(set nodeSet, from string) *setCursor {
	c := &setCursor{order: o, set: set, from: from, more: true}
	// If the set is spread evenly, the walk visits nodes/size nodes for each edge.
	if size := float64(set.size); size > float64(4*o.Page) && float64(o.Page)*float64(o.View.nodeCount) <= size*size {
		c.walking, c.walk = true, o.View.byID(set.kind).from(from)
	}
	return c
}

// next returns the next edge, and false at the end.
func (c *setCursor) next() (Edge, bool) {
	for c.walking {
		n := c.walk.next()
		if n == 0 || !c.order.visit() {
			return 0, false
		}
		if e, ok := c.set.find(n); ok {
			return e, true
		}
		if c.misses++; c.misses > c.set.size {
			c.walking, c.from, c.after = false, c.walk.order.id(n), true // the view may lack n
		}
	}
	if len(c.batch) == 0 && c.more {
		c.selectBatch()
	}
	if len(c.batch) == 0 || c.order.stopped {
		return 0, false
	}
	e := c.batch[0]
	c.batch = c.batch[1:]
	return e, true
}

// selectBatch reads the whole set, and selects the edges with the least ids.
func (c *setCursor) selectBatch() {
	v, n := c.order.View, 4*c.order.Page
	compare := func(a, b Edge) int { return v.compareIDs(a.Node(), b.Node()) }
	var kept []Edge
	full, last := false, "" // kept[:n] is sorted, and ends with last
	c.set.each(func(e Edge) bool {
		if !c.order.visit() {
			return false
		}
		id := v.id(e.Node())
		if id < c.from || c.after && id == c.from || full && id >= last {
			return true
		}
		if kept = append(kept, e); len(kept) >= 2*n {
			slices.SortFunc(kept, compare)
			kept = kept[:n]
			full, last = true, v.id(kept[n-1].Node())
		}
		return true
	})
	slices.SortFunc(kept, compare)
	if c.more = full || len(kept) > n; c.more {
		kept = kept[:n]
		c.from, c.after = v.id(kept[n-1].Node()), true
	}
	c.batch = kept
}

// merged iterates over several cursors as one, in order of the ids and then of the
// cursors.
type merged struct {
	view    *View
	cursors []*setCursor
	heads   []Edge // the next edge of each cursor; 0 at its end
}

func newMerged(v *View, cursors []*setCursor) *merged {
	m := &merged{v, cursors, make([]Edge, len(cursors))}
	for i := range cursors {
		m.advance(i)
	}
	return m
}

func (m *merged) advance(i int) {
	m.heads[i] = 0
	if e, ok := m.cursors[i].next(); ok {
		m.heads[i] = e
	}
}

// next returns the next edge, or 0 at the end.
func (m *merged) next() Edge {
	least := -1
	for i, e := range m.heads {
		if e != 0 && (least < 0 || m.view.id(e.Node()) < m.view.id(m.heads[least].Node())) {
			least = i
		}
	}
	if least < 0 {
		return 0
	}
	e := m.heads[least]
	m.advance(least)
	return e
}

// Tuples yields the tuples that f selects, expired ones included, ordered by object
// type, relation, object id, and the type, id and relation of the subject, each by its
// bytes. If after is not nil it begins with the first tuple that follows it.
func (o *NameOrder) Tuples(f rel.Filter, after *rel.Key) iter.Seq[rel.Tuple] {
	return func(yield func(rel.Tuple) bool) {
		if f.SubjectPlain && f.SubjectRelation != "" {
			return
		}
		w := orderedTuples{NameOrder: o, filter: f, yield: yield}
		if f.SubjectID != "" {
			w.subjectNodes = w.nodesOfSubject()
		}
		for _, k := range o.View.Relations(f) {
			w.after = nil
			if after != nil {
				name := o.View.KindName(k)
				switch c := cmp.Or(strings.Compare(name.Type, after.Object.Type), strings.Compare(name.Relation, after.Relation)); {
				case c < 0:
					continue
				case c == 0:
					w.after = after
				}
			}
			if !w.objects(k) {
				return
			}
		}
	}
}

// orderedTuples is one iteration of [NameOrder.Tuples].
type orderedTuples struct {
	*NameOrder
	filter rel.Filter
	yield  func(rel.Tuple) bool
	// subjectNodes are the nodes of the subject that the filter names, in order.
	subjectNodes []Node
	// after is the tuple to begin after, if the current kind is that of its object.
	after *rel.Key
}

// Relations returns the relations of the lineage whose tuples f can select, ordered by
// type and name.
func (v *View) Relations(f rel.Filter) []Kind {
	return v.kindsInOrder(func(k KindName) bool { return k.Relation != "" && selectsObject(&f, k) })
}

// kindsInOrder returns the kinds that are selected, ordered by type and relation.
func (v *View) kindsInOrder(selected func(KindName) bool) (kinds []Kind) {
	for k := 1; k < len(v.kinds); k++ {
		if selected(v.kinds[k].name) {
			kinds = append(kinds, Kind(k))
		}
	}
	slices.SortFunc(kinds, func(a, b Kind) int { return compareKinds(v.KindName(a), v.KindName(b)) })
	return kinds
}

func compareKinds(a, b KindName) int {
	return cmp.Or(strings.Compare(a.Type, b.Type), strings.Compare(a.Relation, b.Relation))
}

// nodesOfSubject returns the nodes of the subjects that the filter names, ordered by
// type and relation.
func (w *orderedTuples) nodesOfSubject() (nodes []Node) {
	for _, k := range w.View.kindsInOrder(func(k KindName) bool { return selectsSubject(&w.filter, k) }) {
		if n, ok := w.View.Node(k, w.filter.SubjectID); ok {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// objects yields the tuples of the objects of a kind. It returns false if the iteration
// has ended.
func (w *orderedTuples) objects(k Kind) bool {
	from := ""
	if w.after != nil {
		from = w.after.Object.ID
	}
	if id := w.filter.ObjectID; id != "" {
		if n, ok := w.View.Node(k, id); ok && id >= from {
			return w.tuplesOf(n)
		}
		return !w.stopped
	}
	var cursors []*setCursor
	if w.filter.SubjectID == "" {
		cursors = append(cursors, w.cursor(w.View.setOfKind(k), from))
	}
	for _, s := range w.subjectNodes {
		cursors = append(cursors, w.cursor(setOfList(w.View.Reverse(s, k), k), from))
	}
	objects, last := newMerged(w.View, cursors), Node(0)
	for e := objects.next(); e != 0; e = objects.next() {
		// Several subjects may have the same object.
		if n := e.Node(); n != last && !w.tuplesOf(n) {
			return false
		}
		last = e.Node()
	}
	return !w.stopped
}

// tuplesOf yields the tuples of the object's node n. It returns false if the iteration
// has ended.
func (w *orderedTuples) tuplesOf(n Node) bool {
	t := rel.Tuple{Object: w.View.Object(n), Relation: w.View.KindName(w.View.kindOf(n)).Relation}
	var after *rel.Subject
	if w.after != nil && w.after.Object.ID == t.Object.ID {
		after = &w.after.Subject
	}
	if w.filter.SubjectID != "" {
		for _, s := range w.subjectNodes {
			if !w.visit() {
				return false
			}
			if e, ok := w.View.Probe(n, s); ok && !w.tuple(&t, n, e, after) {
				return false
			}
		}
		return true
	}
	lists := w.subjectLists(n)
	for i := 0; i < len(lists); {
		typ, from := w.View.KindName(lists[i].kind).Type, ""
		if after != nil && typ == after.Type {
			from = after.ID
		}
		var cursors []*setCursor
		for ; i < len(lists) && w.View.KindName(lists[i].kind).Type == typ; i++ {
			if after == nil || typ >= after.Type {
				cursors = append(cursors, w.cursor(lists[i], from))
			}
		}
		subjects := newMerged(w.View, cursors)
		for e := subjects.next(); e != 0; e = subjects.next() {
			if !w.tuple(&t, n, e, after) {
				return false
			}
		}
	}
	return !w.stopped
}

// subjectLists returns the lists of the subjects of node n that the filter can select,
// ordered by type and relation.
func (w *orderedTuples) subjectLists(n Node) (lists []nodeSet) {
	seg := w.View.segment(n)
	if seg == nil {
		return nil
	}
	gs := seg.groups(uint32(n) & (blockSize - 1))
	for s, l, ok := gs.next(); ok; s, l, ok = gs.next() {
		if !s.reverse() && selectsSubject(&w.filter, w.View.KindName(s.kind())) {
			lists = append(lists, setOfList(l, s.kind()))
		}
	}
	slices.SortFunc(lists, func(a, b nodeSet) int { return compareKinds(w.View.KindName(a.kind), w.View.KindName(b.kind)) })
	return lists
}

// tuple yields the tuple of node n with the subject that e leads to, unless it does not
// follow after. It returns false if the iteration has ended. t has the tuple's object and
// relation.
func (w *orderedTuples) tuple(t *rel.Tuple, n Node, e Edge, after *rel.Subject) bool {
	subject := w.View.Subject(e.Node())
	if after != nil && compareSubjects(&subject, after) <= 0 {
		return true
	}
	out := rel.Tuple{Object: t.Object, Relation: t.Relation, Subject: subject}
	if e.Detailed() {
		w.View.Detail(n, e.Node()).fill(&out)
	}
	return w.yield(out)
}

func compareSubjects(a, b *rel.Subject) int {
	return cmp.Or(strings.Compare(a.Type, b.Type), strings.Compare(a.ID, b.ID), strings.Compare(a.Relation, b.Relation))
}

// Attributes yields the attributes with an object type, an object id and a name, each ""
// for any, ordered by type, id and name. If after is not nil it begins with the first
// attribute that follows it.
func (o *NameOrder) Attributes(objectType, objectID, name string, after *rel.Attribute) iter.Seq[rel.Attribute] {
	return func(yield func(rel.Attribute) bool) {
		v := o.View
		if v.values.Len() == 0 {
			return
		}
		for _, k := range v.kindsInOrder(func(k KindName) bool {
			return k.Relation == "" && !k.Wildcard && (objectType == "" || objectType == k.Type)
		}) {
			typ := v.KindName(k).Type
			if after != nil && typ < after.Object.Type {
				continue
			}
			var from *rel.Attribute
			if after != nil && typ == after.Object.Type {
				from = after
			}
			if objectID != "" {
				if n, ok := v.Node(k, objectID); ok && !o.attributesOf(n, name, from, yield) {
					return
				}
				continue
			}
			id := ""
			if from != nil {
				id = from.Object.ID
			}
			objects := o.cursor(v.setWithAttributes(k), id)
			for e, ok := objects.next(); ok; e, ok = objects.next() {
				if !o.attributesOf(e.Node(), name, from, yield) {
					return
				}
			}
			if o.stopped {
				return
			}
		}
	}
}

// setWithAttributes is the nodes of a kind that have attributes.
func (v *View) setWithAttributes(k Kind) nodeSet {
	return nodeSet{k, v.values.Len(), func(n Node) (Edge, bool) { return EdgeTo(n, false), v.hasValues(n) },
		func(yield func(Edge) bool) {
			last := Node(0)
			v.values.Ascend(0, func(key uint64, _ string) bool {
				n := Node(key >> 32)
				if n == last || v.kindOf(n) != k {
					return true
				}
				last = n
				return yield(EdgeTo(n, false))
			})
		}}
}

// attributesOf yields the attributes of a node that follow after, in order of their
// names. It returns false if the iteration has ended.
func (o *NameOrder) attributesOf(n Node, name string, after *rel.Attribute, yield func(rel.Attribute) bool) bool {
	v := o.View
	object := v.Object(n)
	var found []rel.Attribute
	v.values.Ascend(pair(uint32(n), 0), func(key uint64, value string) bool {
		if key > pair(uint32(n), math.MaxUint32) || !o.visit() {
			return false
		}
		a := rel.Attribute{Object: object, Name: v.attributes[uint32(key)], Value: value}
		if (name == "" || a.Name == name) && (after == nil || cmp.Or(strings.Compare(object.ID, after.Object.ID), strings.Compare(a.Name, after.Name)) > 0) {
			found = append(found, a)
		}
		return true
	})
	slices.SortFunc(found, func(a, b rel.Attribute) int { return strings.Compare(a.Name, b.Name) })
	for _, a := range found {
		if !yield(a) {
			return false
		}
	}
	return !o.stopped
}
