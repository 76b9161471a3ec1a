package eval

import (
	"sync"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/schema"
)

// system is a question as a system of equations over truth values. It decides
// what a search cannot: cycles through intersections and exclusions, depth
// bounds, and the reasons for unknown answers. An explanation reads its proof
// from a solved system.
//
// A state means "the subject is a member of object#relation". Each state has a
// gate: the value of that statement. Further gates are the operators and lists
// of the state's rewrite. An arc leads from a gate to a gate that its value
// depends on. The system holds every state that the question depends on
// exactly once, so it is finite although tuples may have cycles, and it needs
// no stack. solve then finds the well-founded values (see fixpoint).
type system struct {
	// q is the question.
	q *query
	// object is the id of the question's object, for states with node 0.
	object string
	// states are all states. The first is the question's own.
	states []state
	// gates are all gates. The first two are gateTrue and gateFalse.
	gates []gate
	// arcs are all arcs. Those of one gate are next to each other.
	arcs []arc
	// index finds a state.
	index map[stateKey]int32
	// canon remembers the canonical node of each node.
	canon map[graph.Node]graph.Node
	// todo are the states whose gates are yet to be built.
	todo []int32
	// complete is false if the bound of nodes or an error stopped the
	// building.
	complete bool
	// mixed is true if operands outside of cycles are decided by a search and
	// become constants, instead of gates.
	mixed bool
	// nodesOutside counts the nodes that those searches have visited.
	nodesOutside int

	// solution holds the gates' values after solve.
	solution
	// memory is reused for solving.
	memory solverMemory
}

// stateKey names a state.
type stateKey struct {
	// relation is the state's relation.
	relation schema.RelationID
	// node is the canonical node of the state's object; 0 for the question's
	// object if it has no node.
	node graph.Node
}

// state is one state of a [system].
type state struct {
	stateKey
	// gate is the index of the state's gate.
	gate int32
}

// gateOp is how a gate combines its arcs.
type gateOp uint8

const (
	// gateAny is true if one arc is: a union, a list of tuples, or a state.
	gateAny gateOp = iota
	// gateAll is true if all arcs are: an intersection.
	gateAll
	// gateExclusion is true if the first arc is and the second is not.
	gateExclusion
	// gateConst has a fixed value: a rule, an attribute, or what a search has
	// decided.
	gateConst
)

// gate is one equation. Its value is in solution.
type gate struct {
	// op is how it combines its arcs.
	op gateOp
	// expr is the part of the rewrite that the gate evaluates; nil for a
	// state's own gate and for constants that every system has.
	expr *schema.Expr
	// state is the index of the state that the gate belongs to; schema.None
	// for the constants that every system has.
	state int32
	// first and count are the range of the gate's arcs.
	first int32
	count int32
	// value is the value of a gateConst.
	value expr.Tristate
	// height is the height of the proof of a true gateConst, in hops.
	height int32
	// reasons explain an unknown gateConst.
	reasons *authz.Reasons
}

// arc is one dependency of a gate.
type arc struct {
	// to is the gate that it leads to.
	to int32
	// hop is 1 through a userset or an arrow, and 0 otherwise.
	hop int32
	// cond is the value of the tuple's condition; True if there is none.
	cond expr.Tristate
	// from, edge and restriction are the tuple that the arc goes through: the
	// tuple's object node, its subject, and the type restriction under which
	// it was read. They are zero for an arc without a tuple.
	from        graph.Node
	edge        graph.Edge
	restriction *schema.Restriction
}

// Gates that every system has.
const (
	// gateTrue is always True, gateFalse always False. Every system has both.
	gateTrue  = 0
	gateFalse = 1
)

// newSystem begins the equations of a relation of an object. build completes
// them.
func (q *query) newSystem(rel schema.RelationID, n graph.Node, objectID string) *system {
	q.objectID = objectID
	s := systems.Get().(*system)
	s.q, s.object, s.complete, s.mixed, s.nodesOutside = q, objectID, true, false, 0
	s.gates = append(s.gates,
		gate{op: gateConst, value: expr.True, state: schema.None},
		gate{op: gateConst, value: expr.False, state: schema.None})
	s.stateIndex(rel, n)
	return s
}

// systems is the pool of systems.
var systems = sync.Pool{New: func() any {
	return &system{index: map[stateKey]int32{}, canon: map[graph.Node]graph.Node{}}
}}

// systemGatesMax is the number of gates beyond which a system is not reused.
const systemGatesMax = 1 << 12

// release returns the system to the pool. It must not be used afterwards.
func (s *system) release() {
	if len(s.gates) > systemGatesMax {
		return
	}
	clear(s.gates) // do not keep reasons in memory
	clear(s.index)
	clear(s.canon)
	s.states, s.gates, s.arcs, s.todo = s.states[:0], s.gates[:0], s.arcs[:0], s.todo[:0]
	s.q, s.solution = nil, solution{}
	systems.Put(s)
}

// root is the gate of the question itself.
func (s *system) root() int32 { return s.states[0].gate }

// stateIndex finds or adds a state.
func (s *system) stateIndex(rel schema.RelationID, n graph.Node) int32 {
	c, ok := s.canon[n]
	if !ok {
		c = s.q.canonical(n)
		s.canon[n] = c
	}
	k := stateKey{rel, c}
	if i, ok := s.index[k]; ok {
		return i
	}
	s.q.hold(1, bytesPerRelation)
	i := int32(len(s.states))
	s.index[k] = i
	s.states = append(s.states, state{k, int32(len(s.gates))})
	s.gates = append(s.gates, gate{op: gateAny, state: i})
	s.todo = append(s.todo, i)
	return i
}

// build makes every gate that the question depends on. It returns false at the
// bound of nodes or after an error.
func (s *system) build() bool {
	for len(s.todo) > 0 {
		i := s.todo[len(s.todo)-1]
		s.todo = s.todo[:len(s.todo)-1]
		if !s.q.visit(1) {
			s.complete = false
			return false
		}
		st := s.states[i]
		r := &s.q.b.s.Relations[st.relation]
		switch {
		case s.q.isItself(st.relation, st.node, s.object):
			s.setArcs(st.gate, []arc{{to: gateTrue, cond: expr.True}})
		case s.q.b.reaches(st.relation, s.q.kind):
			s.setArcs(st.gate, []arc{{to: s.expr(i, r.Expr), cond: expr.True}})
		}
		if !s.complete {
			return false
		}
	}
	return true
}

// setArcs sets the arcs of a gate.
func (s *system) setArcs(g int32, arcs []arc) {
	s.q.hold(len(arcs), bytesPerArc)
	s.gates[g].first, s.gates[g].count = int32(len(s.arcs)), int32(len(arcs))
	s.arcs = append(s.arcs, arcs...)
}

// newGate adds a gate without arcs.
func (s *system) newGate(op gateOp, st int32, e *schema.Expr) int32 {
	s.q.hold(1, bytesPerGate)
	s.gates = append(s.gates, gate{op: op, state: st, expr: e})
	return int32(len(s.gates) - 1)
}

// constant adds a gateConst.
func (s *system) constant(st int32, e *schema.Expr, t expr.Tristate, why *authz.Reasons) int32 {
	g := s.newGate(gateConst, st, e)
	s.gates[g].value, s.gates[g].reasons = t, why
	return g
}

// expr builds the gate of an expression of a state. It recurses no deeper than
// a rewrite nests.
func (s *system) expr(st int32, e *schema.Expr) int32 {
	n := s.states[st].node
	rel := s.states[st].relation
	t := &s.q.b.s.Types[s.q.b.s.Relations[rel].Type]
	if s.mixed {
		if out := s.searchOutside(e, n); out.truth != expr.Unknown {
			g := s.constant(st, e, out.truth, nil)
			s.gates[g].height = out.height
			return g
		}
	}
	switch e.Op {
	case schema.OpComputed:
		return s.states[s.stateIndex(e.Relation, n)].gate
	case schema.OpAttribute:
		truth, why := s.q.attribute(t, n, s.object, e.Attribute)
		return s.constant(st, e, truth, why)
	case schema.OpRule:
		truth, why := s.q.rule(e.Rule, t, n, s.object)
		return s.constant(st, e, truth, why)
	case schema.OpDirect:
		g := s.newGate(gateAny, st, e)
		s.setArcs(g, s.direct(e, n))
		return g
	case schema.OpArrow:
		g := s.newGate(gateAny, st, e)
		s.setArcs(g, s.arrow(e, n))
		return g
	}
	return s.operator(st, e)
}

const (
	// nodesOutsideMin and nodesOutsidePerState bound the nodes that searches of
	// operands outside of cycles visit. The searches share nothing, so they may
	// visit the same nodes once for each state, while gates exist once. Beyond
	// the bound, the operands become gates.
	nodesOutsideMin      = 1 << 16
	nodesOutsidePerState = 16
)

// searchOutside searches an operand that is outside of its relation's cycle.
// The outcome is Unknown if it is not outside, or the search cannot decide.
func (s *system) searchOutside(e *schema.Expr, n graph.Node) outcome {
	unit, ok := s.q.b.unitOf[e]
	if !ok || !s.q.b.units[unit].outsideCycle {
		return outcome{truth: expr.Unknown}
	}
	before := s.q.visited
	out := s.q.searchOperand(unit, n)
	s.complete = s.complete && !s.q.stopped
	s.nodesOutside += s.q.visited - before
	s.mixed = s.nodesOutside < nodesOutsideMin+nodesOutsidePerState*len(s.states)
	return out
}

// operator builds the gate of a union, an intersection or an exclusion.
func (s *system) operator(st int32, e *schema.Expr) int32 {
	op := gateAny
	switch e.Op {
	case schema.OpIntersection:
		op = gateAll
	case schema.OpExclusion:
		op = gateExclusion
	}
	g := s.newGate(op, st, e)
	arcs := make([]arc, 0, len(e.Children))
	for _, ch := range e.Children {
		arcs = append(arcs, arc{to: s.expr(st, ch), cond: expr.True})
	}
	s.setArcs(g, arcs)
	return g
}

// direct reads a relation's own tuples: those that name the subject or its
// wildcard, and usersets that could hold the subject.
func (s *system) direct(e *schema.Expr, n graph.Node) []arc {
	q := s.q
	from := q.relationNode(n, q.b.kinds[q.b.s.Relations[e.Relation].Kind])
	if from == 0 {
		return nil
	}
	var arcs []arc
	for i := range e.Direct {
		x := &e.Direct[i]
		probe, ok := q.ownProbe(x)
		if ok && probe.node != 0 {
			edge, ok := q.probe(from, probe.node, probe.kind)
			if t := q.edgeOrFalse(ok, x, from, edge); t != expr.False {
				arcs = append(arcs, arc{gateTrue, 0, t, from, edge, x})
			}
		}
		if x.Relation == schema.None || !q.b.needsUsersets(x, q.kind) {
			continue
		}
		s.eachTuple(x, from, q.b.kinds[x.Kind], func(edge graph.Edge, t expr.Tristate) {
			arcs = append(arcs, arc{s.states[s.stateIndex(x.Relation, edge.Node())].gate, 1, t, from, edge, x})
		})
	}
	return arcs
}

// arrow reads a relation's tuples and leads to the objects that they name.
func (s *system) arrow(e *schema.Expr, n graph.Node) []arc {
	q := s.q
	from := q.relationNode(n, q.b.kinds[q.b.s.Relations[e.Relation].Kind])
	if from == 0 {
		return nil
	}
	var arcs []arc
	for i := range e.Via {
		v := &e.Via[i]
		if !q.b.needsArrow(v, q.kind) {
			continue
		}
		for _, k := range q.b.plainKinds(v.Kind) {
			s.eachTuple(&v.Restriction, from, k, func(edge graph.Edge, t expr.Tristate) {
				arcs = append(arcs, arc{s.states[s.stateIndex(v.Target, edge.Node())].gate, 1, t, from, edge, &v.Restriction})
			})
		}
	}
	if q.b.missingFails {
		arcs = append(arcs, s.deadEndArcs(e, from)...)
	}
	return arcs
}

// deadEndArcs reads the tuples of an arrow that lead nowhere. With
// schema.Options.MissingContextFails those with an unknown condition still
// count.
func (s *system) deadEndArcs(e *schema.Expr, from graph.Node) []arc {
	var arcs []arc
	for _, x := range deadEnds(s.q.b.s, e) {
		for _, k := range s.q.b.plainKinds(x.Kind) {
			s.eachTuple(x, from, k, func(edge graph.Edge, t expr.Tristate) {
				if t == expr.Unknown {
					arcs = append(arcs, arc{gateFalse, 1, t, from, edge, x})
				}
			})
		}
	}
	return arcs
}

// eachTuple calls yield for the tuples of one kind that count and whose
// condition is not False.
func (s *system) eachTuple(x *schema.Restriction, from graph.Node, k graph.Kind, yield func(graph.Edge, expr.Tristate)) {
	if k == 0 {
		return
	}
	l := s.q.r.Forward(from, k)
	for c := range l.Chunks() {
		for _, e := range l.Chunk(c) {
			if !s.q.visit(1) {
				s.complete = false
				return
			}
			if t := s.q.edge(x, from, e); t != expr.False {
				yield(e, t)
			}
		}
	}
}

// edgeOrFalse is edge for an edge that was found, and False otherwise.
func (q *query) edgeOrFalse(ok bool, x *schema.Restriction, n graph.Node, e graph.Edge) expr.Tristate {
	if !ok {
		return expr.False
	}
	return q.edge(x, n, e)
}

// probe is a node to look for in a list of a kind.
type probe struct {
	node graph.Node
	kind graph.Kind
}

// ownProbe returns the node that makes the subject a member if a tuple under x
// names it: the subject's own or its wildcard's. The node is 0 if no tuple
// names it. It returns false if no tuple under x can.
func (q *query) ownProbe(x *schema.Restriction) (probe, bool) {
	k := &q.b.s.Kinds[x.Kind]
	switch {
	case q.kind == schema.None:
	case k.Wildcard && q.b.s.Options.StarIsOrdinary:
		if q.subject.ID == "*" && q.subject.Relation == "" && q.subject.Type == k.Type {
			return probe{q.node, q.b.kinds[x.Kind]}, true
		}
	case x.Kind == q.kind:
		if q.node != 0 { // its kind may be the wildcard's under StarIsOrdinary
			return probe{q.node, q.r.KindOf(q.node)}, true
		}
	case k.Wildcard && k.Type == q.subject.Type:
		return probe{q.starNode(), q.b.kinds[x.Kind]}, true
	}
	return probe{}, false
}

// plainKinds returns the kinds of lists that hold the objects of a kind. Under
// schema.Options.StarIsOrdinary "user:*" is an ordinary object, but the data
// keeps it under a kind of its own.
func (b *Binding) plainKinds(k schema.KindID) []graph.Kind {
	kind := b.s.Kinds[k]
	if !b.s.Options.StarIsOrdinary || kind.Relation != "" || kind.Wildcard {
		return b.kinds[k : k+1]
	}
	return []graph.Kind{b.kinds[k], b.types[b.typeNamed(kind.Type)].star}
}
