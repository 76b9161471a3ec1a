package eval

import (
	"slices"

	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/schema"
)

// relevantReader is a [Reader] for the explanation of one question. It leaves
// out of long lists what cannot lead to the question's subject. To find that,
// it walks once from the subject, when a long list is first read. If that walk
// visits more than relevantNodesMax nodes, nothing is left out.
type relevantReader struct {
	Reader
	// q is the question.
	q *query
	// target is the question's relation.
	target schema.RelationID
	// listMin is the length up to which lists are not changed.
	listMin int
	// walked is true once the walk was made.
	walked bool
	// readAll is true if nothing is left out.
	readAll bool
	// reached are, by type, nodes of the objects on the subject's way.
	reached map[schema.TypeID][]graph.Node
	// nodesByKind are the nodes of a kind of those objects, sorted.
	nodesByKind map[graph.Kind][]graph.Node
	// skipped counts the edges that were left out.
	skipped int
}

const (
	// relevantListMin is the length above which a list justifies a walk.
	relevantListMin = 64
	// relevantNodesMax bounds the nodes that the walk may visit.
	relevantNodesMax = 100_000
)

// newRelevantReader makes a relevantReader in front of the question's own
// Reader.
func newRelevantReader(q *query, target schema.RelationID) *relevantReader {
	r := &relevantReader{Reader: q.r, q: q, target: target, listMin: relevantListMin}
	if q.b.mode == ModeBackward {
		r.listMin = 0
	}
	r.readAll = !q.r.Reversible() || q.b.missingFails || q.kind == schema.None || q.b.mode == ModeForward
	return r
}

// Forward is Reader.Forward without the edges that cannot lead to the subject.
func (r *relevantReader) Forward(n graph.Node, k graph.Kind) graph.List {
	l := r.Reader.Forward(n, k)
	if l.Len() <= r.listMin {
		return l
	}
	few := r.relevant(l, k)
	r.skipped += l.Len() - few.Len()
	return few
}

// relevant leaves out of a list of kind k what cannot lead to the subject.
func (r *relevantReader) relevant(l graph.List, k graph.Kind) graph.List {
	if !r.walked {
		r.walk()
	}
	if r.readAll {
		return l
	}
	var edges []graph.Edge
	for _, m := range r.nodes(k) {
		if e, ok := l.Find(m); ok {
			edges = append(edges, e)
		}
	}
	return graph.ListOf(edges)
}

// walk finds everything that the subject may be a member of and that the
// target depends on.
func (r *relevantReader) walk() {
	if r.walked = true; r.readAll {
		return
	}
	env := *r.q.env
	env.Bounds.Nodes = relevantNodesMax
	w := objectWalk{target: r.target, anyRelation: true, allOperands: true}
	w.q.start(r.q.ctx, r.q.b, r.Reader, r.q.subject, &env)
	defer w.q.finish()
	r.q.lendTurn(&w.q)
	defer w.q.lendTurn(r.q)
	err := w.run()
	defer w.releaseScratch()
	if err != nil || w.bound != "" {
		r.readAll = true
		return
	}
	r.reached, r.nodesByKind = map[schema.TypeID][]graph.Node{}, map[graph.Kind][]graph.Node{}
	w.eachMembership(func(id schema.RelationID, n graph.Node) {
		if n != 0 { // 0 is the subject's own object, which no tuple names
			t := r.q.b.s.Relations[id].Type
			r.reached[t] = append(r.reached[t], n)
		}
	})
}

// nodes returns the nodes of a kind that may lead to the subject, including
// the subject itself.
func (r *relevantReader) nodes(k graph.Kind) []graph.Node {
	if nodes, ok := r.nodesByKind[k]; ok {
		return nodes
	}
	var nodes []graph.Node
	for _, n := range r.reached[r.q.b.typeOf(k)] {
		if m := r.q.relationNode(n, k); m != 0 {
			nodes = append(nodes, m)
		}
	}
	for _, n := range []graph.Node{r.q.node, r.q.starNode()} {
		if n != 0 && r.KindOf(n) == k {
			nodes = append(nodes, n)
		}
	}
	slices.Sort(nodes)
	nodes = slices.Compact(nodes)
	r.nodesByKind[k] = nodes
	return nodes
}
