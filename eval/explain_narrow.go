package eval

import (
	"slices"

	"github.com/ostiary/ostiary/graph"
	"github.com/ostiary/ostiary/schema"
)

// narrowReader is a Reader for one question: it leaves out of long lists what
// cannot hold the question's subject. To know that, it walks once from the
// subject, the first time that a long list is asked for, and at most as far as
// narrowMax nodes: then nothing is left out.
type narrowReader struct {
	Reader
	q       query // as it was when the reader was made
	target  schema.RelationID
	from    int // lists up to this length are read as they are
	walked  bool
	useless bool
	in      map[schema.TypeID][]graph.Node // nodes of objects on the subject's way
	only    map[graph.Kind][]graph.Node    // their nodes of a kind, sorted
	skipped int                            // edges left out
}

const (
	narrowFrom = 64      // a length from which a list is worth a walk
	narrowMax  = 100_000 // nodes that the walk from the subject may visit
)

// narrow makes a narrowReader of a question's own Reader.
func narrow(q *query, target schema.RelationID) *narrowReader {
	r := &narrowReader{Reader: q.r, q: *q, target: target, from: narrowFrom}
	if q.b.mode == ModeBackward {
		r.from = 0
	}
	r.useless = !q.r.Reversible() || q.b.fails || q.kind == schema.None || q.b.mode == ModeForward
	return r
}

// Forward is Reader.Forward without the edges that lead nowhere.
func (r *narrowReader) Forward(n graph.Node, k graph.Kind) graph.List {
	l := r.Reader.Forward(n, k)
	if l.Len() <= r.from {
		return l
	}
	few := r.relevant(l, k)
	r.skipped += l.Len() - few.Len()
	return few
}

// relevant leaves out of a list of kind k what cannot hold the subject.
func (r *narrowReader) relevant(l graph.List, k graph.Kind) graph.List {
	if !r.walked {
		r.walk()
	}
	if r.useless {
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
func (r *narrowReader) walk() {
	if r.walked = true; r.useless {
		return
	}
	env := *r.q.env
	env.Bounds.Nodes = narrowMax
	w := walk{target: r.target, way: true, whole: true}
	w.q.start(r.q.ctx, r.q.b, r.Reader, r.q.subject, &env)
	err := w.run()
	defer w.release()
	if err != nil || w.bound != "" {
		r.useless = true
		return
	}
	r.in, r.only = map[schema.TypeID][]graph.Node{}, map[graph.Kind][]graph.Node{}
	w.each(func(id schema.RelationID, n graph.Node) {
		if n != 0 { // no tuple names the subject's own object otherwise
			t := r.q.b.s.Relations[id].Type
			r.in[t] = append(r.in[t], n)
		}
	})
}

// nodes are those of a kind that may lead to the subject, itself among them.
func (r *narrowReader) nodes(k graph.Kind) []graph.Node {
	if nodes, ok := r.only[k]; ok {
		return nodes
	}
	var nodes []graph.Node
	for _, n := range r.in[r.q.b.typeOf(k)] {
		if m := r.q.at(n, k); m != 0 {
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
	r.only[k] = nodes
	return nodes
}
