package eval

import (
	"slices"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/graph"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// walk goes from a subject to everything that it may have the target relation
// on, hop by hop. What it reaches only through tuples that hold, unions alone
// and no more hops than the bound is sure; everything else is open.
//
// It misses nothing: who is a member, or possibly one, is so by some branch of
// each union, some operand of each intersection and the base of each
// exclusion, and the walk follows all of these backwards.
//
// Who runs a walk hands its scratch back.
type walk struct {
	q      query
	target schema.RelationID
	plan   *plan
	// way asks for what leads to the target, not for the target's objects; whole
	// also for what leads to anything that it depends on.
	way, whole bool

	*listScratch
	hops    int
	own     bool // the subject's own object, that has no node, is found
	ownOpen bool
	bound   string

	// The lengths of sure and open at which repetitions are removed next.
	sureFull, openFull int
}

// step is a membership: of the subject, in a relation of the plan, on the
// object of a node (0 is the subject's own object, where no tuple names it).
type step struct {
	relation int32
	open     bool
	node     graph.Node
}

const compactMin = 1 << 14

// run walks until nothing new is found. What stops it early is in w.bound or
// the error.
func (w *walk) run() error {
	w.listScratch = borrowList()
	if w.plan == nil {
		w.plan = w.q.b.planned(planKey{target: w.target, kind: w.q.kind, way: w.way, whole: w.whole})
	}
	w.sureFull, w.openFull = compactMin, compactMin
	if err := w.begin(); err != nil {
		return err
	}
	for w.bound == "" && w.q.err == nil && (len(w.level) > 0 || len(w.next) > 0) {
		for i := 0; i < len(w.level); i++ { // grows while it is read
			w.expand(w.level[i])
		}
		w.level, w.next = w.next, w.level[:0]
		w.hops++
	}
	return w.q.failed()
}

// begin reaches what needs no hop.
func (w *walk) begin() error {
	q := &w.q
	if id, ok := w.itself(); ok {
		w.reach(step{relation: id, node: q.anchor(q.subject.Object())})
	}
	for _, s := range w.plan.starts {
		if p, ok := q.ownProbe(s.by); ok {
			if p.node == 0 {
				continue
			}
			w.follow(p.node, w.plan.relations[s.to].kind, s.by, step{relation: s.to, open: s.open})
		}
	}
	w.level, w.next = w.next, w.level
	return w.all()
}

// itself finds the relation of which the subject is the userset.
func (w *walk) itself() (int32, bool) {
	q := &w.q
	if q.kind == schema.None || q.subject.Relation == "" {
		return 0, false
	}
	id, err := q.b.relation(q.subject.Type, q.subject.Relation)
	if err != nil {
		return 0, false
	}
	i, ok := w.plan.index[id]
	return i, ok
}

// all begins at every object of the types that a rule or an attribute is read
// on. The subject's own object is one of them though no tuple may tell of it.
func (w *walk) all() error {
	if w.way && len(w.plan.everything) > 0 {
		w.bound = BoundNodes // all objects of a type are no way from the subject
		return nil
	}
	for i := range w.plan.everything {
		e := &w.plan.everything[i]
		t := &w.q.b.s.Types[w.q.b.s.Relations[w.plan.relations[e.to].id].Type]
		nodes, ok := objects(w.q.b, w.q.r, t)
		if !ok {
			return ErrEnumerate
		}
		for n := range nodes {
			if !w.visit(1) {
				break
			}
			w.everybody(e, t, n)
		}
		if w.q.kind != schema.None && w.q.subject.Type == t.Name {
			w.everybody(e, t, w.q.anchor(w.q.subject.Object()))
		}
	}
	return w.q.failed()
}

// everybody begins at an object that an attribute or a rule lets everybody in
// on.
func (w *walk) everybody(e *everybody, t *schema.Type, n graph.Node) {
	s := step{relation: e.to, open: true, node: n}
	if e.expr.Op == schema.OpAttribute && n != 0 {
		truth, _ := w.q.attribute(t, n, "", e.expr.Attribute)
		if truth == expr.False {
			return
		}
		s.open = e.open || truth == expr.Unknown
	}
	w.reach(s)
}

// visit counts nodes, and stops the walk at their bound.
func (w *walk) visit(n int) bool {
	if w.q.visit(n) {
		return true
	}
	if w.q.err == nil {
		w.bound = BoundNodes
	}
	return false
}

// expand takes every use of a membership.
func (w *walk) expand(s step) {
	if w.bound != "" || w.q.err != nil {
		return
	}
	for _, u := range w.plan.relations[s.relation].uses {
		to := step{relation: u.to, open: s.open || u.open, node: s.node}
		if u.op == schema.OpComputed {
			w.reach(to)
			continue
		}
		for _, k := range u.from {
			if n := w.subject(s.node, k); n != 0 {
				to.open = s.open || u.open || w.hops >= w.q.depthMax
				w.follow(n, u.reads, u.by, to)
			}
		}
	}
}

// subject finds the node of a kind under which an object stands in tuples.
func (w *walk) subject(anchor graph.Node, k graph.Kind) graph.Node {
	if anchor != 0 || k == 0 {
		return w.q.at(anchor, k)
	}
	n, _ := w.q.r.Node(k, w.q.subject.ID)
	return n
}

// follow takes every tuple that n stands in as the subject, on nodes of kind
// k, one hop further on.
func (w *walk) follow(n graph.Node, k graph.Kind, by *schema.Restriction, to step) {
	goal := &w.plan.relations[to.relation]
	last := len(goal.uses) == 0
	if k == 0 || last && (w.way || goal.ends == endsNowhere) {
		return
	}
	l := w.q.r.Reverse(n, k)
	for c := range l.Chunks() {
		edges := l.Chunk(c)
		if !w.visit(len(edges)) {
			return
		}
		for _, e := range edges {
			s := to
			s.node = e.Node()
			if e.Detailed() || !by.Bare {
				switch w.q.edge(by, s.node, graph.EdgeTo(n, e.Detailed())) {
				case expr.False:
					continue
				case expr.Unknown:
					s.open = true
				}
			}
			if last {
				w.hit(s)
			} else if w.fresh(s) {
				w.next = append(w.next, s)
			}
		}
	}
}

// reach takes a membership that costs no hop.
func (w *walk) reach(s step) {
	if len(w.plan.relations[s.relation].uses) == 0 {
		w.hit(s)
	} else if w.fresh(s) {
		w.level = append(w.level, s)
	}
}

// fresh says whether a membership is new, and records it as found.
func (w *walk) fresh(s step) bool {
	key := uint64(s.relation)<<32 | uint64(s.node)<<1
	if s.open && (w.seen.has(key) || !w.seen.add(key|1)) || !s.open && !w.seen.add(key) {
		return false
	}
	w.hit(s)
	return true
}

// hit records a membership in the target.
func (w *walk) hit(s step) {
	ends := w.plan.relations[s.relation].ends
	s.open = s.open || ends == endsOpen
	switch {
	case ends == endsNowhere || w.way:
	case s.node == 0:
		w.own, w.ownOpen = true, s.open && (!w.own || w.ownOpen)
	case s.open:
		w.open = append(w.open, s.node)
		if len(w.open) >= w.openFull {
			w.open, w.openFull = unique(w.open)
		}
	default:
		w.sure = append(w.sure, s.node)
		if len(w.sure) >= w.sureFull {
			w.sure, w.sureFull = unique(w.sure)
		}
	}
}

// unique removes repetitions, and says at which length to do it again.
func unique(nodes []graph.Node) ([]graph.Node, int) {
	slices.Sort(nodes)
	nodes = slices.Compact(nodes)
	return nodes, max(2*len(nodes), compactMin)
}

// found names and orders what the walk found.
func (w *walk) found() found {
	s := w.listScratch
	if w.own && !w.ownOpen {
		s.ids = append(s.ids, w.q.subject.ID)
	}
	s.name(w.q.r, w.sure)
	sure := len(s.ids)
	s.name(w.q.r, w.open)
	if w.own && w.ownOpen {
		s.ids = append(s.ids, w.q.subject.ID)
	}
	return found{s.ids, s.sorted(), sure}
}

// name adds the ids of nodes.
func (s *listScratch) name(r Reader, nodes []graph.Node) {
	s.ids = slices.Grow(s.ids, len(nodes)+1)
	for _, n := range nodes {
		s.ids = append(s.ids, r.ID(n))
	}
}

// sorted puts the ids in order; of equal ones the first stays.
func (s *listScratch) sorted() []ranked {
	n := len(s.ids)
	s.entries = slices.Grow(s.entries[:0], 2*n)[:2*n]
	for i, id := range s.ids {
		s.entries[i] = ranked{OrderHash(id), uint32(i)}
	}
	var out []ranked
	out, s.counts = order(s.entries[:n], s.entries[n:], s.counts, s.ids)
	return out
}

// each calls yield for every membership that leads somewhere.
func (w *walk) each(yield func(id schema.RelationID, n graph.Node)) {
	for _, key := range w.seen.slots {
		if key != 0 {
			key--
			yield(w.plan.relations[key>>32].id, graph.Node(key>>1&graph.NodeMax))
		}
	}
}

// check decides the i-th open entry.
func (w *walk) check(i int, id string) Answer {
	var n graph.Node
	if i < len(w.open) {
		n = w.open[i]
	}
	t := w.q.b.s.Types[w.q.b.s.Relations[w.target].Type].Name
	return w.q.member(w.target, n, rel.Object{Type: t, ID: id})
}
