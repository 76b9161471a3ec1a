package graph

import (
	"github.com/ostiary/ostiary/internal/tool/btree"
	"github.com/ostiary/ostiary/rel"
)

// View is the content of a lineage at one revision. It never changes. All its
// methods are safe for concurrent use, take no lock and, unless documented
// otherwise, allocate nothing. Returned strings and lists point into the view's
// memory and keep it alive.
//
// Kinds and nodes are those of the view's lineage. If a node number is not in
// the view, the methods treat it as a node without lists, name or kind.
type View struct {
	g *Graph
	symbols
	top []*branch // by node>>branchAt; entries may be nil

	tupleCount   int
	liveNodes    int
	liveNames    int
	segmentBytes int64 // of segments, leaves and branches
	extraBytes   int64 // of details and attributes

	nameCount, nodeCount int // of the lineage when the view was made, live or not

	details btree.Map[uint64, *Detail] // by pair(object's node, subject's node)
	values  btree.Map[uint64, string]  // attributes, by pair(object's plain node, number of the attribute's name)
}

// leaf and branch are the inner levels of a view's tree. A write copies one
// or two of each, so they are small: at half a kilobyte each, they cost about
// as much as copying the top level of a view with 10 million nodes.
type (
	leaf   [1 << leafBits]segment
	branch [1 << branchBits]*leaf
)

const (
	leafBits   = 4
	branchBits = 6

	// the lowest bit of a node number that selects an entry of each level
	segmentAt = blockBits
	leafAt    = segmentAt + leafBits
	branchAt  = leafAt + branchBits

	leafMask   = 1<<leafBits - 1
	branchMask = 1<<branchBits - 1

	leafBytes   = 32 << leafBits
	branchBytes = 8 << branchBits
)

// pair joins two numbers into one key, ordered by a and then by b.
func pair(a, b uint32) uint64 { return uint64(a)<<32 | uint64(b) }

// segment returns the segment of n, or nil.
func (v *View) segment(n Node) *segment {
	if t := n >> branchAt; int(t) < len(v.top) {
		if d := v.top[t]; d != nil {
			if p := d[n>>leafAt&branchMask]; p != nil {
				return &p[n>>segmentAt&leafMask]
			}
		}
	}
	return nil
}

// list returns the list of n for one kind and direction.
func (v *View) list(n Node, s side) List {
	if seg := v.segment(n); seg != nil {
		return seg.list(uint32(n)&(blockSize-1), s)
	}
	return List{}
}

// Lineage returns the view's graph. Node and kind numbers are valid only within
// one lineage.
func (v *View) Lineage() *Graph { return v.g }

// Kind returns the number of a kind, and false if the view does not have it.
func (v *View) Kind(k KindName) (Kind, bool) {
	return v.symbols.findKind(&v.g.kindIndex, v.g.kindTag(k), k)
}

// KindName returns a kind in words, or the zero [KindName] if the view does not
// have it.
func (v *View) KindName(k Kind) KindName {
	if int(k) < len(v.kinds) {
		return v.kinds[k].name
	}
	return KindName{}
}

// Node returns the node of a kind and an object id, and false if the view has
// none. The id of a wildcard kind is [rel.Wildcard].
func (v *View) Node(k Kind, id string) (Node, bool) {
	if !v.HasKind(k) {
		return 0, false
	}
	return v.nodeOf(v.lookup(v.g, v.kinds[k].typ, id), k)
}

// Sibling returns the node of kind k that belongs to the same object as n. For
// "doc:1#viewer", this can be "doc:1#editor" or the object "doc:1". It returns
// false if the object has no such node, or if k is a kind of another type.
func (v *View) Sibling(n Node, k Kind) (Node, bool) {
	if k == 0 {
		return 0, false
	}
	return v.nodeOf(v.symbols.nameRecord(n), k)
}

// Name identifies an object in the view that returned it. It gives access to
// the object's nodes of all kinds without another search. The zero Name has no
// nodes.
type Name struct{ record []uint32 }

// HasKind reports whether the view has a kind.
func (v *View) HasKind(k Kind) bool { return k != 0 && int(k) < len(v.kinds) }

// Names is like calling [View.Name] for two objects, but both searches wait for
// memory at the same time.
func (v *View) Names(a Kind, idA string, b Kind, idB string) (Name, Name) {
	if !v.HasKind(a) {
		return Name{}, v.Name(b, idB)
	}
	if !v.HasKind(b) {
		return v.Name(a, idA), Name{}
	}
	recordA, recordB := v.lookupTwo(v.g, v.kinds[a].typ, idA, v.kinds[b].typ, idB)
	return Name{recordA}, Name{recordB}
}

// Name finds an object by its id. k may be any kind of the object's type. The
// result is the zero [Name] if the view has no such object or no such kind.
func (v *View) Name(k Kind, id string) Name {
	if !v.HasKind(k) {
		return Name{}
	}
	return Name{v.lookup(v.g, v.kinds[k].typ, id)}
}

// NameOf returns the name of n's object.
func (v *View) NameOf(n Node) Name { return Name{v.symbols.nameRecord(n)} }

// NodeOf returns the node of kind k of an object, and false if there is none.
func (v *View) NodeOf(name Name, k Kind) (Node, bool) {
	if k == 0 {
		return 0, false
	}
	return v.nodeOf(name.record, k)
}

// Lists gives access to all lists of one node. Reading several of them this way
// is quicker than [View.Forward], which finds the node's segment each time.
type Lists struct {
	segment *segment // nil if the node has no list
	i       uint32   // the node's place in the segment
}

// Lists returns the lists of n.
func (v *View) Lists(n Node) Lists { return Lists{v.segment(n), uint32(n) & (blockSize - 1)} }

// Forward is [View.Forward] for the node.
func (l Lists) Forward(k Kind) List {
	if l.segment == nil {
		return List{}
	}
	return l.segment.list(l.i, forward(k))
}

// Find returns the edge to x, which must be of kind k. If the node's list of
// that kind is long, the search may be cheaper elsewhere: then Find does not
// search and short is false.
func (l Lists) Find(k Kind, x Node) (e Edge, found, short bool) {
	if l.segment == nil {
		return 0, false, true
	}
	return l.segment.find(l.i, forward(k), x)
}

// Prefetch reads the memory at which the lists begin, so that a later use does
// not wait for it. The result is meaningless; using it keeps the compiler from
// removing the read.
func (l Lists) Prefetch() uint32 {
	if l.segment == nil || len(l.segment.words) == 0 {
		return 0
	}
	return uint32(l.segment.words[min(int(l.i)+2, len(l.segment.words)-1)])
}

// KindOf returns a node's kind, or 0 if the view does not have the node.
func (v *View) KindOf(n Node) Kind { return v.kindOf(n) }

// ID returns the id of a node's object, or "" if the view does not have the
// node.
func (v *View) ID(n Node) string {
	if rec := v.symbols.nameRecord(n); rec != nil {
		return recordID(rec)
	}
	return ""
}

// Object returns the object of n.
func (v *View) Object(n Node) rel.Object {
	return rel.Object{Type: v.KindName(v.kindOf(n)).Type, ID: v.ID(n)}
}

// Subject returns n as the subject of a tuple.
func (v *View) Subject(n Node) rel.Subject {
	k := v.KindName(v.kindOf(n))
	return rel.Subject{Type: k.Type, ID: v.ID(n), Relation: k.Relation}
}

// Forward returns the subjects of kind k in the tuples of n, a node of a
// relation.
func (v *View) Forward(n Node, k Kind) List { return v.list(n, forward(k)) }

// Reverse returns the nodes of kind k, each a relation of an object, that have
// a tuple with n as its subject.
func (v *View) Reverse(n Node, k Kind) List { return v.list(n, reverse(k)) }

// Reversible returns true: [View.Reverse] works for every node.
func (v *View) Reversible() bool { return true }

// Err returns nil: reading a view cannot fail.
func (v *View) Err() error { return nil }

// Probe returns the edge of the tuple object#relation@subject, as it is in the
// object's list. The relation is part of object. Probe searches the shorter of
// the two lists that would hold the edge.
func (v *View) Probe(object, subject Node) (Edge, bool) {
	return v.probe(object, v.kindOf(object), subject, v.kindOf(subject))
}

const shortList = 16 // searching this list costs less than finding another one

func (v *View) probe(o Node, ko Kind, s Node, ks Kind) (Edge, bool) {
	f := v.Forward(o, ks)
	if f.Len() <= shortList {
		return f.Find(s)
	}
	r := v.Reverse(s, ko)
	if f.Len() <= r.Len() {
		return f.Find(s)
	}
	e, ok := r.Find(o)
	return EdgeTo(s, e.Detailed()), ok
}

// Detail returns the condition, context and expiry of the tuple
// object#relation@subject, or the zero [Detail] if it has none.
func (v *View) Detail(object, subject Node) Detail {
	if d, ok := v.details.Get(pair(uint32(object), uint32(subject))); ok {
		return *d
	}
	return Detail{}
}

// Attribute returns the value of an attribute of n's object as canonical JSON,
// and false if the object does not have it.
func (v *View) Attribute(n Node, name string) (string, bool) {
	if v.values.Len() == 0 {
		return "", false
	}
	k := v.kindOf(n)
	a, ok := v.findAttribute(v.g, name)
	if k == 0 || !ok {
		return "", false
	}
	plain, ok := v.Sibling(n, v.kinds[k].plain)
	if !ok {
		return "", false
	}
	return v.values.Get(pair(uint32(plain), a))
}

// Get returns the tuple with a key, and false if there is none.
func (v *View) Get(k rel.Key) (rel.Tuple, bool) {
	o, s, ok := v.keyNodes(k)
	if !ok {
		return rel.Tuple{}, false
	}
	e, ok := v.Probe(o, s)
	if !ok {
		return rel.Tuple{}, false
	}
	t := rel.Tuple{Object: k.Object, Relation: k.Relation, Subject: k.Subject}
	if e.Detailed() {
		v.Detail(o, s).fill(&t)
	}
	return t, true
}

// keyNodes returns the object's and the subject's node of a key.
func (v *View) keyNodes(k rel.Key) (o, s Node, ok bool) {
	ko, ok := v.Kind(ObjectKind(k.Object, k.Relation))
	if !ok || k.Relation == "" {
		return 0, 0, false
	}
	ks, ok := v.Kind(SubjectKind(k.Subject))
	if !ok {
		return 0, 0, false
	}
	if o, ok = v.Node(ko, k.Object.ID); !ok {
		return 0, 0, false
	}
	s, ok = v.Node(ks, k.Subject.ID)
	return o, s, ok
}

// isLive reports whether n is part of a tuple or has an attribute.
func (v *View) isLive(n Node) bool {
	return v.hasLists(n) || v.hasValues(n)
}

// hasLists reports whether n is part of a tuple.
func (v *View) hasLists(n Node) bool {
	seg := v.segment(n)
	return seg != nil && !seg.empty(uint32(n)&(blockSize-1))
}

func (v *View) hasValues(n Node) (has bool) {
	if v.values.Len() == 0 {
		return false
	}
	v.values.Ascend(pair(uint32(n), 0), func(k uint64, _ string) bool {
		has = k>>32 == uint64(n)
		return false
	})
	return has
}

// isNameLive reports whether a node of the name at offset off is live in v. It
// looks at the nodes that s has.
func (v *View) isNameLive(s *symbols, off uint32) bool {
	walk := s.walkNodes(wordsAt(s.names, off))
	for n := walk.next(); n != 0; n = walk.next() {
		if v.isLive(n) {
			return true
		}
	}
	return false
}
