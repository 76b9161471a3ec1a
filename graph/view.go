package graph

import (
	"github.com/ostiary/ostiary/internal/btree"
	"github.com/ostiary/ostiary/rel"
)

// View is what a lineage held at one moment. It never changes; all methods are
// safe for concurrent use and none takes a lock. Strings and lists that it
// returns are views of its memory: they stay good, and keep that memory, as
// long as somebody holds them.
//
// Kinds and nodes are those of its lineage; a number that the view does not
// know is a node without lists, a name or a kind. No method allocates, unless
// it says so.
type View struct {
	g *Graph
	symbols
	top []*directory // by node>>directoryAt; entries may be nil

	tupleCount   int
	liveNodes    int
	liveNames    int
	segmentBytes int64 // bytes of segments, their pages and directories
	extraBytes   int64 // bytes of details and attributes

	nameCount, nodeCount int // of the lineage, when the view was made

	details btree.Map[uint64, *Detail] // by pair of object's and subject's node
	values  btree.Map[uint64, string]  // attributes by pair of object's plain node and name's number
}

// page and directory are the inner levels of a view's tree. They are small,
// because a write copies one or two of each: at half a kilobyte both cost about
// what the top costs at 10 million nodes.
type (
	page      [1 << pageBits]segment
	directory [1 << directoryBits]*page
)

const (
	pageBits      = 4
	directoryBits = 6

	// the lowest bit of a node that tells its place in each level
	segmentAt   = blockBits
	pageAt      = segmentAt + pageBits
	directoryAt = pageAt + directoryBits

	pageMask      = 1<<pageBits - 1
	directoryMask = 1<<directoryBits - 1

	pageBytes      = 32 << pageBits
	directoryBytes = 8 << directoryBits
)

// pair is the key of what stands between two numbers.
func pair(a, b uint32) uint64 { return uint64(a)<<32 | uint64(b) }

// segment returns the segment of n, or nil.
func (v *View) segment(n Node) *segment {
	if t := n >> directoryAt; int(t) < len(v.top) {
		if d := v.top[t]; d != nil {
			if p := d[n>>pageAt&directoryMask]; p != nil {
				return &p[n>>segmentAt&pageMask]
			}
		}
	}
	return nil
}

func (v *View) list(n Node, s side) List {
	if seg := v.segment(n); seg != nil {
		return seg.list(uint32(n)&(blockSize-1), s)
	}
	return List{}
}

// Lineage returns the graph that the view is of. Numbers of one lineage mean
// nothing in another.
func (v *View) Lineage() *Graph { return v.g }

// Kind returns the number of a kind, or false where no node has it.
func (v *View) Kind(k KindName) (Kind, bool) {
	return v.symbols.findKind(&v.g.kindIndex, v.g.kindTag(k), k)
}

// KindName returns a kind in words, the zero KindName if the view does not
// know it.
func (v *View) KindName(k Kind) KindName {
	if int(k) < len(v.kinds) {
		return v.kinds[k].name
	}
	return KindName{}
}

// Node finds a node by its kind and its object's id (rel.Wildcard for the
// wildcard kind).
func (v *View) Node(k Kind, id string) (Node, bool) {
	if !v.HasKind(k) {
		return 0, false
	}
	return v.nodeOf(v.lookup(v.g, v.kinds[k].typ, id), k)
}

// Sibling finds the node of another kind of n's object: from "doc:1#viewer" to
// "doc:1#editor", or to "doc:1" itself. A kind of another type has none.
func (v *View) Sibling(n Node, k Kind) (Node, bool) {
	if k == 0 {
		return 0, false
	}
	return v.nodeOf(v.symbols.nameRecord(n), k)
}

// Name is an object by its name: the way to its nodes of all kinds. It belongs
// to the view that gave it. The zero Name is of no object and has no nodes.
type Name struct{ record []uint32 }

// Knows says whether the view knows a kind.
func (v *View) HasKind(k Kind) bool { return k != 0 && int(k) < len(v.kinds) }

// Names finds two objects by the ids and by any kind that the view knows of
// the type of each, in less time than one after the other. An object that the
// view does not know has the zero Name.
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

// Name finds an object by its id and by any kind of its type that the view
// knows.
func (v *View) Name(k Kind, id string) Name {
	if !v.HasKind(k) {
		return Name{}
	}
	return Name{v.lookup(v.g, v.kinds[k].typ, id)}
}

// NameOf returns the name of n's object.
func (v *View) NameOf(n Node) Name { return Name{v.symbols.nameRecord(n)} }

// NodeOf finds the node of a kind of an object, as Sibling does.
func (v *View) NodeOf(name Name, k Kind) (Node, bool) {
	if k == 0 {
		return 0, false
	}
	return v.nodeOf(name.record, k)
}

// Lists are all the lists of one node, for who asks for several of them.
type Lists struct {
	segment *segment // nil has none
	i       uint32
}

// Lists finds the lists of n.
func (v *View) Lists(n Node) Lists { return Lists{v.segment(n), uint32(n) & (blockSize - 1)} }

// Forward is View.Forward of the node.
func (l Lists) Forward(k Kind) List {
	if l.segment == nil {
		return List{}
	}
	return l.segment.list(l.i, forward(k))
}

// Find returns the edge to x, a node of kind k, in the node's list of that
// kind. Where the list is long and another may be quicker to search, short is
// false, and nothing was looked for.
func (l Lists) Find(k Kind, x Node) (e Edge, found, short bool) {
	if l.segment == nil {
		return 0, false, true
	}
	return l.segment.find(l.i, forward(k), x)
}

// Touch reads where the lists begin, so that they are there when they are
// wanted. What it returns means nothing.
func (l Lists) Prefetch() uint32 {
	if l.segment == nil || len(l.segment.words) == 0 {
		return 0
	}
	return uint32(l.segment.words[min(int(l.i)+2, len(l.segment.words)-1)])
}

// KindOf returns a node's kind, 0 if the view does not know it.
func (v *View) KindOf(n Node) Kind { return v.kindOf(n) }

// ID returns the id of a node's object, "" if the view does not know it.
func (v *View) ID(n Node) string {
	if rec := v.symbols.nameRecord(n); rec != nil {
		return recordID(rec)
	}
	return ""
}

// Object returns the object that n belongs to.
func (v *View) Object(n Node) rel.Object {
	return rel.Object{Type: v.KindName(v.kindOf(n)).Type, ID: v.ID(n)}
}

// Subject returns what n stands for as a subject.
func (v *View) Subject(n Node) rel.Subject {
	k := v.KindName(v.kindOf(n))
	return rel.Subject{Type: k.Type, ID: v.ID(n), Relation: k.Relation}
}

// Forward lists the subjects of kind k that stand in tuples of n, a node of a
// relation.
func (v *View) Forward(n Node, k Kind) List { return v.list(n, forward(k)) }

// Reverse lists the nodes of kind k (relations of objects) in whose tuples n
// stands as the subject.
func (v *View) Reverse(n Node, k Kind) List { return v.list(n, reverse(k)) }

// Reversible says that Reverse answers.
func (v *View) Reversible() bool { return true }

// Err returns nil: a graph's reads do not fail.
func (v *View) Err() error { return nil }

// Probe returns the edge of the tuple object#relation@subject, given by its two
// nodes, as it stands in object's list. It searches the shorter of the two
// lists that would hold it.
func (v *View) Probe(object, subject Node) (Edge, bool) {
	return v.probe(object, v.kindOf(object), subject, v.kindOf(subject))
}

const shortList = 16 // searching it costs less than finding another

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

// Detail tells of the tuple object#relation@subject behind a detailed edge, the
// zero Detail behind any other.
func (v *View) Detail(object, subject Node) Detail {
	if d, ok := v.details.Get(pair(uint32(object), uint32(subject))); ok {
		return *d
	}
	return Detail{}
}

// Attribute returns the value, as canonical JSON, of an attribute of n's
// object.
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

// Get returns the tuple with a key.
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

// ends finds the two nodes of a key.
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

// live says whether n stands in a tuple or has an attribute.
func (v *View) isLive(n Node) bool {
	if seg := v.segment(n); seg != nil && !seg.empty(uint32(n)&(blockSize-1)) {
		return true
	}
	return v.hasValues(n)
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

// liveName says whether any node of the name at off is live in v, by the nodes
// that s knows.
func (v *View) isNameLive(s *symbols, off uint32) bool {
	walk := s.walkNodes(wordsAt(s.names, off))
	for n := walk.next(); n != 0; n = walk.next() {
		if v.isLive(n) {
			return true
		}
	}
	return false
}
