package eval

import (
	"context"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// ExpandPosition is a place in an expansion that comes in pages. The zero
// position is the beginning.
type ExpandPosition struct {
	// Relations is the number of relations that are complete before it.
	Relations int
	// Slot and After are the place in the next relation: the type restriction,
	// counted in the relation's rewrite, and the id of the last tuple's subject;
	// "" if none of the restriction's tuples comes before.
	Slot int
	// After is described at Slot.
	After string
}

// ExpandPage is a part of an expansion. The expansion consists of the relations
// of all pages, each of which is expanded once.
type ExpandPage struct {
	// Parts are relations in breadth-first order, each of [authz.TreeRelation] with its
	// rewrite and tuples. A relation below has no child: it is another part of this
	// page or of another one, unless it has Cut. If the tuples of a relation do not
	// fit the page, the next page begins with the same relation and rewrite and
	// with further tuples.
	Parts []*authz.Tree
	// Next is where the next page begins, if More is true.
	Next ExpandPosition
	// More is true if there is a next page.
	More bool
	// Bound names the bound that ended the expansion early; "" if none did.
	Bound string
}

// ExpandPage returns the part of an expansion that begins at a position. A page
// has at most Bounds.ExpandEntries nodes and tuples and Bounds.ExpandBytes bytes
// of names, but at least one relation or tuple. All pages together are the tree
// of [Binding.Expand] without a bound on its size, if all have the same data,
// schema and environment. Each page finds the relations before it again, which
// costs as many nodes as they have usersets. The errors are those of Expand.
func (b *Binding) ExpandPage(ctx context.Context, r Reader, object rel.Object, relation string, levels int, at ExpandPosition, env *Env) (ExpandPage, error) {
	p := pageState{at: at}
	x := expander{object: object, levels: max(1, levels), page: &p}
	if _, err := x.start(ctx, b, r, relation, env); err != nil {
		return ExpandPage{}, err
	}
	defer x.q.finish()
	x.entries, x.bytes = 0, 0 // the root is counted as a part
	for level := 0; level < x.levels && len(x.pending) > 0; level++ {
		todo := x.pending
		x.pending = nil
		p.last = level == x.levels-1
		for i := 0; i < len(todo) && x.goesOn(); i++ {
			x.pageRelation(todo[i])
		}
	}
	if x.q.err == nil {
		x.q.look()
	}
	p.out.Bound = x.bound
	return p.out, x.q.failed()
}

// pageState is the state of an expander that makes a page.
type pageState struct {
	// at is where the page begins, and out is the page.
	at  ExpandPosition
	out ExpandPage
	// number is the number of relations that came before the current one.
	number int
	// last is true on the last level, whose relations below are cut.
	last bool
	// progress is true once the page has a tuple or a whole relation, so that the
	// page may end.
	progress bool
}

// replaying reports whether the current relation belongs to earlier pages.
func (x *expander) replaying() bool { return x.page != nil && x.page.number < x.page.at.Relations }

// goesOn reports whether the page may get more entries.
func (x *expander) goesOn() bool { return x.bound == "" && x.q.err == nil && !x.page.out.More }

// end ends the page before the given place of the current relation. A bound on
// the work of a page ends the expansion only if the page would be empty.
func (x *expander) end(slot int, after string) {
	x.bound = ""
	x.page.out.More, x.page.out.Next = true, ExpandPosition{x.page.number, slot, after}
}

// fits reports whether the page has room for entries with that many bytes, or
// has nothing yet.
func (x *expander) fits(entries, bytes int) bool {
	return !x.page.progress || x.entries+entries <= x.entriesMax && x.bytes+bytes <= x.bytesMax
}

// pageRelation adds a relation to the page, or finds the relations below it if
// it belongs to an earlier page.
func (x *expander) pageRelation(u unexpanded) {
	p := x.page
	key := stateKey{u.tree.RelationID, u.node}
	if x.seen[key] {
		return
	}
	x.seen[key] = true
	if !x.visit() {
		x.endAtBound(0, "")
		return
	}
	part := &authz.Tree{Kind: authz.TreeRelation, Object: u.tree.Object, Relation: u.tree.Relation, RelationID: u.tree.RelationID}
	entries, bytes := x.entries, x.bytes
	x.add(nameSize(part))
	part.Children = []*authz.Tree{x.rewrite(part, x.q.b.s.Relations[part.RelationID].Expr, u.node)}
	if x.q.exhausted() {
		x.bound = x.q.boundReached()
		x.endAtBound(0, "")
		return
	}
	if x.replaying() {
		x.entries, x.bytes = entries, bytes
	} else {
		if !x.fits(0, 0) {
			x.end(0, "")
			return
		}
		p.out.Parts = append(p.out.Parts, part)
	}
	for i := 0; i < len(x.slots) && x.goesOn(); i++ {
		x.pageSlot(i)
	}
	x.slots = x.slots[:0]
	if x.goesOn() {
		p.progress = p.progress || !x.replaying()
		p.number++
	}
}

// endAtBound ends the page because of a bound on its work.
func (x *expander) endAtBound(slot int, after string) {
	if x.page.progress && x.q.err == nil {
		x.end(slot, after)
	}
}

// pageSlot adds the tuples of the slot with that number to the page.
func (x *expander) pageSlot(number int) {
	p, s := x.page, &x.slots[number]
	before := x.replaying() || p.number == p.at.Relations && number < p.at.Slot
	var after *Position
	if p.number == p.at.Relations && number == p.at.Slot && p.at.After != "" {
		at := PositionOf(p.at.After)
		after = &at
	}
	if s.to == schema.None {
		if !before {
			x.pageLeaves(number, x.edges(s, after, x.entriesMax))
		}
		return
	}
	found := x.edges(s, nil, allEdges) // the relations below are needed in their order
	n := 0
	for n < len(found) && (before || after != nil && x.position(found[n]).Compare(*after) <= 0) {
		x.refer(x.reference(s.to, found[n].edge.Node()))
		n++
	}
	x.pageLeaves(number, found[n:])
	x.q.hold(-n, bytesPerEntry)
}

// position returns the place of a tuple in the order of lists.
func (x *expander) position(e placedEdge) Position {
	return Position{e.hash, x.q.r.ID(e.edge.Node())}
}

// pageLeaves adds tuples of a slot to the page until it is full.
func (x *expander) pageLeaves(number int, found []placedEdge) {
	defer x.q.hold(-len(found), bytesPerEntry)
	p, s := x.page, &x.slots[number]
	last := ""
	if p.number == p.at.Relations && number == p.at.Slot {
		last = p.at.After
	}
	if x.bound != "" {
		x.endAtBound(number, last)
		return
	}
	for i := range found {
		l, ok := x.leafOf(s, found[i].edge)
		if !ok {
			x.endAtBound(number, last)
			return
		}
		entries, size := 1, sizeOf(&l.Tuple)
		var below graph.Node
		if s.to != schema.None {
			l.Tree, below = x.reference(s.to, found[i].edge.Node())
			entries, size = 2, size+nameSize(l.Tree)
		}
		if !x.fits(entries, size) {
			x.end(number, last)
			return
		}
		if l.Tree != nil {
			x.refer(l.Tree, below)
		}
		s.tree.Leaves = append(s.tree.Leaves, l)
		x.entries, x.bytes = x.entries+entries, x.bytes+size
		p.progress, last = true, x.q.r.ID(found[i].edge.Node())
	}
}
