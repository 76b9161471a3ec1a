package eval

import (
	"slices"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// objectWalk walks from a subject to everything on which it may have the
// target relation. See [listWalk] for certain and uncertain steps.
//
// It misses no object. A member, or a possible member, is one by some branch
// of each union, some operand of each intersection, and the base of each
// exclusion, and the walk follows all of these backwards.
//
// The owner of a walk releases its scratch.
type objectWalk struct {
	listWalk
	// target is the relation to list.
	target schema.RelationID
	// plan is the plan to follow. run looks it up if it is nil.
	plan *listPlan
	// anyRelation asks for all memberships on the way to the target instead of
	// the target's objects; allOperands also for those that the target only
	// depends on. See [planKey].
	anyRelation, allOperands bool

	// scope has the ids of the objects whose tuples and attributes count, for
	// each type that is restricted; nil without restriction. See
	// [ListObjectsQuestion.Scope].
	scope map[schema.TypeID]map[string]bool

	// ownObject is true if the subject's own object is found and has no node;
	// ownObjectUncertain is true if it must be checked.
	ownObject bool
	// ownObjectUncertain belongs to ownObject.
	ownObjectUncertain bool

	// certainCompactAt and uncertainCompactAt are the lengths of the node
	// lists at which repetitions are removed next.
	certainCompactAt, uncertainCompactAt int
}

// compactMin is the least length of a node list from which repetitions are
// removed during a walk.
const compactMin = 1 << 14

// restrict sets the scope. It counts the memory of the ids, and returns false if
// the question must stop.
func (w *objectWalk) restrict(scope map[string][]string) bool {
	w.scope = map[schema.TypeID]map[string]bool{}
	for name, ids := range scope {
		if t, ok := w.q.b.s.Type(name); ok {
			if w.q.hold(len(ids), bytesPerScopeID); w.q.exhausted() {
				return false
			}
			set := make(map[string]bool, len(ids))
			for _, id := range ids {
				if !w.q.tick(1) {
					return false
				}
				set[id] = true
			}
			w.scope[t.ID] = set
		}
	}
	return true
}

// inScope reports whether the tuples and attributes of an object count.
func (w *objectWalk) inScope(t schema.TypeID, id string) bool {
	ids, restricted := w.scope[t]
	return !restricted || ids[id]
}

// run walks until nothing new is found. Where it ends early, w.bound or the
// error is set.
func (w *objectWalk) run() error {
	w.listScratch = borrowList()
	if w.plan == nil {
		w.plan = w.q.b.listPlan(planKey{target: w.target, kind: w.q.kind, anyRelation: w.anyRelation, allOperands: w.allOperands})
	}
	w.certainCompactAt, w.uncertainCompactAt = compactMin, compactMin
	if err := w.start(); err != nil {
		return err
	}
	w.levels(w.expand)
	return w.q.failed()
}

// start takes all steps without a hop.
func (w *objectWalk) start() error {
	q := &w.q
	if id, ok := w.selfRelation(); ok {
		w.reach(step{relation: id, node: q.anchor(q.subject.Object())})
	}
	for _, s := range w.plan.starts {
		if p, ok := q.ownProbe(s.by); ok {
			if p.node == 0 {
				continue
			}
			w.followTuples(p.node, w.plan.relations[s.to].kind, s.by, step{relation: s.to, uncertain: s.uncertain})
		}
	}
	w.level, w.next = w.next, w.level
	return w.startAtValues()
}

// selfRelation returns the relation of which the subject is the userset, as an
// index in the plan.
func (w *objectWalk) selfRelation() (int32, bool) {
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

// startAtValues starts at every object of each type on which a rule or an
// attribute is evaluated. The subject's own object is one of them, even if no
// tuple names it.
func (w *objectWalk) startAtValues() error {
	if w.anyRelation && len(w.plan.values) > 0 {
		w.bound = authz.BoundNodes // a value holds for all objects, so there is no list of memberships
		return nil
	}
	for i := range w.plan.values {
		e := &w.plan.values[i]
		t := &w.q.b.s.Types[w.q.b.s.Relations[w.plan.relations[e.to].id].Type]
		nodes, ok := objects(w.q.b, w.q.r, t)
		if !ok {
			return ErrEnumerate
		}
		for n := range nodes {
			if !w.visit(1) {
				break
			}
			if w.scope == nil || w.inScope(t.ID, w.q.r.ID(n)) {
				w.startAtValue(e, t, n)
			}
		}
		if w.q.kind != schema.None && w.q.subject.Type == t.Name && w.inScope(t.ID, w.q.subject.ID) {
			w.startAtValue(e, t, w.q.anchor(w.q.subject.Object()))
		}
	}
	return w.q.failed()
}

// startAtValue starts at one object, unless its attribute is false.
func (w *objectWalk) startAtValue(e *planValue, t *schema.Type, n graph.Node) {
	s := step{relation: e.to, uncertain: true, node: n}
	if e.expr.Op == schema.OpAttribute && n != 0 {
		truth, _ := w.q.attribute(t, n, "", e.expr.Attribute)
		if truth == expr.False {
			return
		}
		s.uncertain = e.uncertain || truth == expr.Unknown
	}
	w.reach(s)
}

// expand follows all steps from a membership.
func (w *objectWalk) expand(s step) {
	if w.bound != "" || w.q.err != nil {
		return
	}
	for _, u := range w.plan.relations[s.relation].steps {
		to := step{relation: u.to, uncertain: s.uncertain || u.uncertain, node: s.node}
		if u.op == schema.OpComputed {
			w.reach(to)
			continue
		}
		for _, k := range u.from {
			if n := w.subject(s.node, k); n != 0 {
				to.uncertain = s.uncertain || u.uncertain || w.hops >= w.q.depthMax
				w.followTuples(n, u.reads, u.by, to)
			}
		}
	}
}

// subject returns the node of kind k by which an object is a subject of
// tuples.
func (w *objectWalk) subject(anchor graph.Node, k graph.Kind) graph.Node {
	if anchor != 0 || k == 0 {
		return w.q.relationNode(anchor, k)
	}
	n, _ := w.q.r.Node(k, w.q.subject.ID)
	return n
}

// followTuples follows all tuples that name n, on nodes of kind k, one hop
// further.
func (w *objectWalk) followTuples(n graph.Node, k graph.Kind, by *schema.Restriction, to step) {
	goal := &w.plan.relations[to.relation]
	last := len(goal.steps) == 0
	if k == 0 || last && (w.anyRelation || goal.target == notTarget) {
		return
	}
	l := w.q.r.Reverse(n, k)
	ids, restricted := map[string]bool(nil), false
	if w.scope != nil {
		ids, restricted = w.scope[w.q.b.typeOf(k)]
	}
	for c := range l.Chunks() {
		edges := l.Chunk(c)
		if !w.visit(len(edges)) {
			return
		}
		for _, e := range edges {
			s := to
			s.node = e.Node()
			if restricted && !ids[w.q.r.ID(s.node)] {
				continue
			}
			if e.Detailed() || !by.Bare {
				switch w.q.edge(by, s.node, graph.EdgeTo(n, e.Detailed())) {
				case expr.False:
					continue
				case expr.Unknown:
					s.uncertain = true
				}
			}
			if last {
				w.record(s)
			} else if w.isNew(s) {
				w.next = append(w.next, s)
			}
		}
	}
}

// reach adds a membership that costs no hop.
func (w *objectWalk) reach(s step) {
	if len(w.plan.relations[s.relation].steps) == 0 {
		w.record(s)
	} else if w.isNew(s) {
		w.level = append(w.level, s)
	}
}

// isNew reports whether a membership is new, and records it.
func (w *objectWalk) isNew(s step) bool {
	if !w.firstTime(s) {
		return false
	}
	w.record(s)
	return true
}

// record adds a membership to the candidates if it is one in the target.
func (w *objectWalk) record(s step) {
	target := w.plan.relations[s.relation].target
	s.uncertain = s.uncertain || target == uncertainTarget
	switch {
	case target == notTarget || w.anyRelation:
	case s.node == 0:
		w.ownObject, w.ownObjectUncertain = true, s.uncertain && (!w.ownObject || w.ownObjectUncertain)
	case s.uncertain:
		w.q.hold(1, bytesPerCandidate)
		w.uncertain = append(w.uncertain, s.node)
		if len(w.uncertain) >= w.uncertainCompactAt {
			w.uncertain, w.uncertainCompactAt = uniqueNodes(w.uncertain)
		}
	default:
		w.q.hold(1, bytesPerCandidate)
		w.certain = append(w.certain, s.node)
		if len(w.certain) >= w.certainCompactAt {
			w.certain, w.certainCompactAt = uniqueNodes(w.certain)
		}
	}
}

// uniqueNodes removes repetitions, and returns the length at which to do so
// again.
func uniqueNodes(nodes []graph.Node) ([]graph.Node, int) {
	slices.Sort(nodes)
	nodes = slices.Compact(nodes)
	return nodes, max(2*len(nodes), compactMin)
}

// found returns the candidates.
func (w *objectWalk) found() listEntries {
	if w.ownObject && !w.ownObjectUncertain {
		w.ids = append(w.ids, w.q.subject.ID)
	}
	w.addNames(w.certain, "")
	certain := len(w.ids)
	w.addNames(w.uncertain, "")
	if w.ownObject && w.ownObjectUncertain {
		w.ids = append(w.ids, w.q.subject.ID)
	}
	return w.entries(certain)
}

// eachMembership calls yield for every membership that leads somewhere.
func (w *objectWalk) eachMembership(yield func(id schema.RelationID, n graph.Node)) {
	for _, key := range w.seen.slots {
		if key != 0 {
			key--
			yield(w.plan.relations[key>>32].id, graph.Node(key>>1&graph.NodeMax))
		}
	}
}

// check decides the i-th uncertain entry.
func (w *objectWalk) check(i int, id string) authz.Answer {
	var n graph.Node
	if i < len(w.uncertain) {
		n = w.uncertain[i]
	}
	t := w.q.b.s.Types[w.q.b.s.Relations[w.target].Type].Name
	return w.q.member(w.target, n, rel.Object{Type: t, ID: id})
}
