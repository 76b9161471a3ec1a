package graph

import (
	"iter"
	"slices"

	"github.com/ostiary/ostiary/rel"
)

// Position is a tuple's place in the order of [View.Tuples]. The zero Position
// comes before all tuples. It is valid for every view of the same lineage,
// even if the view does not have the tuple. It is not valid for another
// lineage.
type Position struct{ Object, Subject Node }

// Position returns the place of a key, and false if the lineage never had its
// names.
func (v *View) Position(k rel.Key) (Position, bool) {
	o, s, ok := v.keyNodes(k)
	return Position{o, s}, ok
}

// Tuples returns the tuples that f selects and that come after a position, each
// with its own position. after must be zero or come from a call with the same
// f. Expired tuples are included.
//
// If f names an object, or else a subject, Tuples reads only its lists;
// otherwise it reads the lists of all objects with the filter's type and
// relation. The order is stable within a lineage. Tuples allocates.
func (v *View) Tuples(f rel.Filter, after Position) iter.Seq2[Position, rel.Tuple] {
	return func(yield func(Position, rel.Tuple) bool) {
		r := tupleWalk{v, f, after, yield}
		switch {
		case f.SubjectPlain && f.SubjectRelation != "":
		case f.ObjectType != "" && f.ObjectID != "":
			r.eachNode(f.ObjectType, f.ObjectID, f.Relation, r.forward)
		case f.SubjectType != "" && f.SubjectID != "":
			r.eachNode(f.SubjectType, f.SubjectID, f.SubjectRelation, r.reverse)
		default:
			r.scan()
		}
	}
}

// tupleWalk is one iteration of [View.Tuples].
type tupleWalk struct {
	v     *View
	f     rel.Filter
	after Position
	yield func(Position, rel.Tuple) bool
}

// eachNode calls do for the nodes of an object in order, only for those of one
// relation if relation is not "". It stops when do returns false.
func (r *tupleWalk) eachNode(typ, id, relation string, do func(Node) bool) {
	k, ok := r.v.Kind(KindName{Type: typ})
	if !ok {
		return
	}
	var nodes []Node
	walk := r.v.walkNodes(r.v.lookup(r.v.g, r.v.kinds[k].typ, id))
	for n := walk.next(); n != 0; n = walk.next() {
		if name := r.v.KindName(r.v.kindOf(n)); relation == "" || name.Relation == relation {
			nodes = append(nodes, n)
		}
	}
	slices.Sort(nodes)
	for _, n := range nodes {
		if !do(n) {
			return
		}
	}
}

// forward yields the tuples of the object's node o. It returns false if the
// caller stopped.
func (r *tupleWalk) forward(o Node) bool {
	if o < r.after.Object {
		return true
	}
	object := r.v.Object(o)
	relation := r.v.KindName(r.v.kindOf(o)).Relation
	resume := side(0)
	if o == r.after.Object {
		resume = forward(r.v.kindOf(r.after.Subject))
	}
	return r.eachEdge(o, false, resume, r.after.Subject, func(s Node, e Edge) bool {
		return r.yieldTuple(o, s, e, rel.Tuple{Object: object, Relation: relation, Subject: r.v.Subject(s)})
	})
}

// reverse yields the tuples of the subject's node s. It returns false if the
// caller stopped.
func (r *tupleWalk) reverse(s Node) bool {
	if s < r.after.Subject {
		return true
	}
	subject := r.v.Subject(s)
	resume := side(0)
	if s == r.after.Subject {
		resume = reverse(r.v.kindOf(r.after.Object))
	}
	return r.eachEdge(s, true, resume, r.after.Object, func(o Node, e Edge) bool {
		relation := r.v.KindName(r.v.kindOf(o)).Relation
		return r.yieldTuple(o, s, e, rel.Tuple{Object: r.v.Object(o), Relation: relation, Subject: subject})
	})
}

// eachEdge calls do for the neighbors of n in one direction, in order of kind
// and node. If resume is not 0, it begins after the node from in the list
// resume. It returns false if do did.
func (r *tupleWalk) eachEdge(n Node, back bool, resume side, from Node, do func(Node, Edge) bool) bool {
	seg := r.v.segment(n)
	if seg == nil {
		return true
	}
	gs := seg.groups(uint32(n) & (blockSize - 1))
	for s, l, ok := gs.next(); ok; s, l, ok = gs.next() {
		if s.reverse() != back || s < resume || !r.mayMatch(s) {
			continue
		}
		i := 0
		if s == resume {
			i = l.chunkOf(from, 0)
		}
		for ; i < l.Chunks(); i++ {
			c := l.Chunk(i)
			if s == resume {
				at, ok := slices.BinarySearchFunc(c, from, func(e Edge, n Node) int { return int(e.Node()) - int(n) })
				if ok {
					at++
				}
				c = c[at:]
			}
			for _, e := range c {
				if !do(e.Node(), e) {
					return false
				}
			}
		}
	}
	return true
}

// mayMatch reports whether the filter can select neighbors in lists of side s.
func (r *tupleWalk) mayMatch(s side) bool {
	k := r.v.KindName(s.kind())
	if s.reverse() {
		return selectsObject(&r.f, k)
	}
	return selectsSubject(&r.f, k)
}

// selectsObject reports whether a filter can select tuples with an object and a relation
// of kind k.
func selectsObject(f *rel.Filter, k KindName) bool {
	return (f.ObjectType == "" || f.ObjectType == k.Type) && (f.Relation == "" || f.Relation == k.Relation)
}

// selectsSubject reports whether a filter can select tuples with a subject of kind k.
func selectsSubject(f *rel.Filter, k KindName) bool {
	return (f.SubjectType == "" || f.SubjectType == k.Type) &&
		(f.SubjectRelation == "" || f.SubjectRelation == k.Relation) &&
		(!f.SubjectPlain || k.Relation == "")
}

// yieldTuple completes t and yields it if the filter selects it. It returns
// false if the caller stopped.
func (r *tupleWalk) yieldTuple(o, s Node, e Edge, t rel.Tuple) bool {
	if !r.f.Match(t.Key()) {
		return true
	}
	if e.Detailed() {
		r.v.Detail(o, s).fill(&t)
	}
	return r.yield(Position{o, s}, t)
}

// scan yields the tuples of all objects, in order of their nodes.
func (r *tupleWalk) scan() {
	for b, k := range r.v.blocks {
		name := r.v.KindName(k)
		if name.Relation == "" || !selectsObject(&r.f, name) {
			continue
		}
		for i := range Node(blockSize) {
			if !r.forward(Node(b)<<blockBits | i) {
				return
			}
		}
	}
}

// NodesOf returns the nodes of kind k that are part of a tuple, in order.
func (v *View) NodesOf(k Kind) iter.Seq[Node] {
	return func(yield func(Node) bool) {
		for b, of := range v.blocks {
			if of != k || k == 0 {
				continue
			}
			first := Node(b) << blockBits
			seg := v.segment(first)
			if seg == nil {
				continue
			}
			for i := range seg.nodes() {
				if !seg.empty(i) && !yield(first|Node(i)) {
					return
				}
			}
		}
	}
}

// Objects returns one node of each object of a type that is the object or the
// subject of a tuple, in a stable order. It does not return the type's
// wildcard.
func (v *View) Objects(typ string) iter.Seq[Node] {
	return func(yield func(Node) bool) {
		for k := range v.kinds {
			if name := v.kinds[k].name; k == 0 || name.Type != typ || name.Wildcard {
				continue
			}
			for n := range v.NodesOf(Kind(k)) {
				if v.isFirstMentioned(n) && !yield(n) {
					return
				}
			}
		}
	}
}

// isFirstMentioned reports whether n is the first of its object's nodes, in
// order of kind, that is part of a tuple. Objects returns only this node, so
// that an object comes once.
func (v *View) isFirstMentioned(n Node) bool {
	walk := v.walkNodes(v.symbols.nameRecord(n))
	for m := walk.next(); m != 0; m = walk.next() {
		k := v.kindOf(m)
		if k >= v.kindOf(n) || v.kinds[k].name.Wildcard {
			continue
		}
		if v.hasLists(m) {
			return false
		}
	}
	return true
}

// Attributes returns the attributes that have a given object type, object id
// and name, each "" for any, in a stable order. It allocates.
func (v *View) Attributes(objectType, objectID, name string) iter.Seq[rel.Attribute] {
	return func(yield func(rel.Attribute) bool) {
		from, to := Node(0), Node(NodeMax)
		if objectType != "" && objectID != "" {
			k, ok := v.Kind(KindName{Type: objectType})
			if !ok {
				return
			}
			if from, ok = v.Node(k, objectID); !ok {
				return
			}
			to = from
		}
		v.values.Ascend(pair(uint32(from), 0), func(k uint64, value string) bool {
			n := Node(k >> 32)
			if n > to {
				return false
			}
			a := rel.Attribute{Object: v.Object(n), Name: v.attributes[uint32(k)], Value: value}
			if objectType != "" && a.Object.Type != objectType || objectID != "" && a.Object.ID != objectID ||
				name != "" && a.Name != name {
				return true
			}
			return yield(a)
		})
	}
}

// Stats are counts of a view.
type Stats struct {
	Tuples     int // live tuples, including expired ones
	Detailed   int // tuples with a condition or an expiry
	Attributes int // live attributes
	Kinds      int // kinds of the lineage when the view was made
	// Nodes and Names count what the lineage had when the view was made, live
	// or not. LiveNodes and LiveNames count those that are part of a tuple or
	// have an attribute.
	Nodes, LiveNodes int
	Names, LiveNames int // see Nodes
}

// Stats returns the view's counts.
func (v *View) Stats() Stats {
	return Stats{
		Tuples: v.tupleCount, Detailed: v.details.Len(), Attributes: v.values.Len(), Kinds: len(v.kinds) - 1,
		Nodes: v.nodeCount, LiveNodes: v.liveNodes, Names: v.nameCount, LiveNames: v.liveNames,
	}
}

// Len returns the number of tuples.
func (v *View) Len() int { return v.tupleCount }

// DeadShare returns the share of the lineage's names that the view does not
// use, between 0 and 1. [Compact] reclaims them.
func (v *View) DeadShare() float64 {
	if v.nameCount == 0 {
		return 0
	}
	return 1 - float64(v.liveNames)/float64(v.nameCount)
}

const lineageBytes = 2500 // a Graph and a View

// Bytes estimates the memory of the view and of its lineage's symbols, without
// that of other views.
func (v *View) Bytes() int64 {
	g := v.g
	n := lineageBytes + v.segmentBytes + v.extraBytes + int64(len(v.top))*8 + int64(cap(v.blocks))*4
	n += int64(len(v.symbols.names)+len(v.symbols.nodes)) * arenaChunk * 4
	if len(v.symbols.names) == 1 { // the first chunk may be smaller
		n += int64(len(v.symbols.names[0])-arenaChunk) * 4
	}
	if len(v.symbols.nodes) == 1 {
		n += int64(len(v.symbols.nodes[0])-arenaChunk) * 4
	}
	for i := range g.nameIndex {
		n += g.nameIndex[i].bytes()
	}
	return n + g.ids.bytes.Load() + g.kindIndex.bytes() + g.attributeIndex.bytes() + int64(cap(v.kinds))*64
}
