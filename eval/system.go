package eval

import (
	"sync"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/graph"
	"github.com/ostiary/ostiary/schema"
)

// system is a question as equations: everything that the walk from the object
// can meet, each thing once. It is the slow way that is always right; the fast
// ways must agree with it. Once solved it is also what an explanation is read
// from.
//
// A state is "the subject is a member of object#relation". Each state is a
// gate; a state's rewrite adds further gates below it. An arc leads from a
// gate to one that it depends on.
type system struct {
	q      *query
	object string // the id of the question's object, for the node 0
	states []state
	gates  []gate
	arcs   []arc // each gate's together
	index  map[stateKey]int32
	canon  map[graph.Node]graph.Node
	todo   []int32 // states whose gates are still to be built
	// full is false where the bound of nodes or an error stopped the building.
	full bool
	// walks says that what a walk can decide is not built, but walked.
	walks bool

	solution
	room room // for solving
}

// stateKey names a state: a relation of an object. node is any node of the
// object, always the same one; 0 is the question's object if it has none.
type stateKey struct {
	relation schema.RelationID
	node     graph.Node
}

type state struct {
	stateKey
	gate int32
}

type gateOp uint8

const (
	gateAny   gateOp = iota // a union, and every list of tuples
	gateAll                 // an intersection
	gateBut                 // an exclusion: arcs[0] but not arcs[1]
	gateConst               // a value: a rule, an attribute, "itself", a found tuple
)

// gate is one node of the equations. Its value is lo and hi (in solution):
// true is lo, false is not hi, unknown is hi without lo.
type gate struct {
	op     gateOp
	expr   *schema.Expr // what it stands for; nil for a state's own and for found tuples
	state  int32        // the state it belongs to
	first  int32        // of its arcs
	count  int32
	value  expr.Tristate // of gateConst
	height int32         // of gateConst
	// reasons say why a gateConst is unknown.
	reasons *Reasons
}

// arc is one dependency. Where it goes through a tuple, from is the tuple's
// object node, edge its subject and restriction what it was read under.
type arc struct {
	to          int32
	hop         int32         // 1 through a userset or an arrow
	cond        expr.Tristate // the tuple's condition; True where there is none
	from        graph.Node
	edge        graph.Edge
	restriction *schema.Restriction
}

// Gates that every system has.
const (
	gateTrue  = 0
	gateFalse = 1
)

// newSystem begins the equations of object#rel; build completes them.
func (q *query) newSystem(rel schema.RelationID, n graph.Node, objectID string) *system {
	q.object = objectID
	s := systems.Get().(*system)
	s.q, s.object, s.full, s.walks = q, objectID, true, false
	s.gates = append(s.gates,
		gate{op: gateConst, value: expr.True, state: schema.None},
		gate{op: gateConst, value: expr.False, state: schema.None})
	s.at(rel, n)
	return s
}

// systems are used again, so that small ones cost little to make.
var systems = sync.Pool{New: func() any {
	return &system{index: map[stateKey]int32{}, canon: map[graph.Node]graph.Node{}}
}}

// systemGatesMax is the size beyond which a system is not kept.
const systemGatesMax = 1 << 12

// release gives the system back. Nothing of it may be used after that.
func (s *system) release() {
	if len(s.gates) > systemGatesMax {
		return
	}
	clear(s.gates) // they refer to reasons
	clear(s.index)
	clear(s.canon)
	s.states, s.gates, s.arcs, s.todo = s.states[:0], s.gates[:0], s.arcs[:0], s.todo[:0]
	s.q, s.solution = nil, solution{}
	systems.Put(s)
}

// root is the gate of the question itself.
func (s *system) root() int32 { return s.states[0].gate }

// at returns the index of a state, new or known.
func (s *system) at(rel schema.RelationID, n graph.Node) int32 {
	c, ok := s.canon[n]
	if !ok {
		c = s.q.canonical(n)
		s.canon[n] = c
	}
	k := stateKey{rel, c}
	if i, ok := s.index[k]; ok {
		return i
	}
	i := int32(len(s.states))
	s.index[k] = i
	s.states = append(s.states, state{k, int32(len(s.gates))})
	s.gates = append(s.gates, gate{op: gateAny, state: i})
	s.todo = append(s.todo, i)
	return i
}

// build makes every gate that the question depends on. It returns false at
// the bound of nodes or when the context ended.
func (s *system) build() bool {
	for len(s.todo) > 0 {
		i := s.todo[len(s.todo)-1]
		s.todo = s.todo[:len(s.todo)-1]
		if !s.q.visit(1) {
			s.full = false
			return false
		}
		st := s.states[i]
		r := &s.q.b.s.Relations[st.relation]
		switch {
		case s.q.is(st.relation, st.node, s.object):
			s.close(st.gate, []arc{{to: gateTrue, cond: expr.True}})
		case s.q.b.reaches(st.relation, s.q.kind):
			s.close(st.gate, []arc{{to: s.expr(i, r.Expr), cond: expr.True}})
		}
		if !s.full {
			return false
		}
	}
	return true
}

func (s *system) close(g int32, arcs []arc) {
	s.gates[g].first, s.gates[g].count = int32(len(s.arcs)), int32(len(arcs))
	s.arcs = append(s.arcs, arcs...)
}

func (s *system) open(op gateOp, st int32, e *schema.Expr) int32 {
	s.gates = append(s.gates, gate{op: op, state: st, expr: e})
	return int32(len(s.gates) - 1)
}

func (s *system) constant(st int32, e *schema.Expr, t expr.Tristate, why *Reasons) int32 {
	g := s.open(gateConst, st, e)
	s.gates[g].value, s.gates[g].reasons = t, why
	return g
}

// expr builds the gate of an expression of a state; it goes no deeper on the
// stack than a rewrite nests.
func (s *system) expr(st int32, e *schema.Expr) int32 {
	n := s.states[st].node
	rel := s.states[st].relation
	t := &s.q.b.s.Types[s.q.b.s.Relations[rel].Type]
	if s.walks {
		if out := s.walked(e, n); out.truth != expr.Unknown {
			g := s.constant(st, e, out.truth, nil)
			s.gates[g].height = out.height
			return g
		}
	}
	switch e.Op {
	case schema.OpComputed:
		return s.states[s.at(e.Relation, n)].gate
	case schema.OpAttribute:
		truth, why := s.q.attribute(t, n, s.object, e.Attribute)
		return s.constant(st, e, truth, why)
	case schema.OpRule:
		truth, why := s.q.rule(e.Rule, t, n, s.object)
		return s.constant(st, e, truth, why)
	case schema.OpDirect:
		g := s.open(gateAny, st, e)
		s.close(g, s.direct(e, n))
		return g
	case schema.OpArrow:
		g := s.open(gateAny, st, e)
		s.close(g, s.arrow(e, n))
		return g
	}
	return s.operator(st, e)
}

// walked decides an expression that stands outside of its relation's cycle;
// unknown where it does not, or the walk cannot tell.
func (s *system) walked(e *schema.Expr, n graph.Node) outcome {
	unit, ok := s.q.b.unitOf[e]
	if !ok || !s.q.b.units[unit].outside {
		return outcome{truth: expr.Unknown}
	}
	out := s.q.operand(unit, n)
	s.full = s.full && !s.q.over
	return out
}

func (s *system) operator(st int32, e *schema.Expr) int32 {
	op := gateAny
	switch e.Op {
	case schema.OpIntersection:
		op = gateAll
	case schema.OpExclusion:
		op = gateBut
	}
	g := s.open(op, st, e)
	arcs := make([]arc, 0, len(e.Children))
	for _, ch := range e.Children {
		arcs = append(arcs, arc{to: s.expr(st, ch), cond: expr.True})
	}
	s.close(g, arcs)
	return g
}

// direct reads a relation's own tuples: those that name the subject or its
// wildcard, and the usersets that could hold it.
func (s *system) direct(e *schema.Expr, n graph.Node) []arc {
	q := s.q
	from := q.at(n, q.b.kinds[q.b.s.Relations[e.Relation].Kind])
	if from == 0 {
		return nil
	}
	var arcs []arc
	for i := range e.Direct {
		x := &e.Direct[i]
		probe, ok := q.ownProbe(x)
		if ok && probe.node != 0 {
			edge, ok := q.probe(from, probe.node, probe.kind)
			if t := q.edgeIf(ok, x, from, edge); t != expr.False {
				arcs = append(arcs, arc{gateTrue, 0, t, from, edge, x})
			}
		}
		if x.Relation == schema.None || !q.b.follows(x, q.kind) {
			continue
		}
		s.each(x, from, q.b.kinds[x.Kind], func(edge graph.Edge, t expr.Tristate) {
			arcs = append(arcs, arc{s.states[s.at(x.Relation, edge.Node())].gate, 1, t, from, edge, x})
		})
	}
	return arcs
}

// arrow follows a relation's tuples to the objects they name.
func (s *system) arrow(e *schema.Expr, n graph.Node) []arc {
	q := s.q
	from := q.at(n, q.b.kinds[q.b.s.Relations[e.Relation].Kind])
	if from == 0 {
		return nil
	}
	var arcs []arc
	for i := range e.Via {
		v := &e.Via[i]
		if !q.b.crosses(v, q.kind) {
			continue
		}
		for _, k := range q.b.plainKinds(v.Kind) {
			s.each(&v.Restriction, from, k, func(edge graph.Edge, t expr.Tristate) {
				arcs = append(arcs, arc{s.states[s.at(v.Target, edge.Node())].gate, 1, t, from, edge, &v.Restriction})
			})
		}
	}
	if q.b.fails {
		arcs = append(arcs, s.dead(e, from)...)
	}
	return arcs
}

// dead reads the tuples of an arrow that lead nowhere: those whose condition
// is unknown still count with MissingContextFails.
func (s *system) dead(e *schema.Expr, from graph.Node) []arc {
	var arcs []arc
	for _, x := range deadEnds(s.q.b.s, e) {
		for _, k := range s.q.b.plainKinds(x.Kind) {
			s.each(x, from, k, func(edge graph.Edge, t expr.Tristate) {
				if t == expr.Unknown {
					arcs = append(arcs, arc{gateFalse, 1, t, from, edge, x})
				}
			})
		}
	}
	return arcs
}

// each calls yield for the tuples of one kind that count and whose condition
// is not false.
func (s *system) each(x *schema.Restriction, from graph.Node, k graph.Kind, yield func(graph.Edge, expr.Tristate)) {
	if k == 0 {
		return
	}
	l := s.q.r.Forward(from, k)
	for c := range l.Chunks() {
		for _, e := range l.Chunk(c) {
			if !s.q.visit(1) {
				s.full = false
				return
			}
			if t := s.q.edge(x, from, e); t != expr.False {
				yield(e, t)
			}
		}
	}
}

func (q *query) edgeIf(ok bool, x *schema.Restriction, n graph.Node, e graph.Edge) expr.Tristate {
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

// ownProbe is the node that, found under a restriction, makes the subject a
// member at once, if there is one.
func (q *query) ownProbe(x *schema.Restriction) (probe, bool) {
	k := &q.b.s.Kinds[x.Kind]
	switch {
	case q.kind == schema.None:
	case k.Wildcard && q.b.s.Options.StarIsOrdinary:
		if q.subject.ID == "*" && q.subject.Relation == "" && q.subject.Type == k.Type {
			return probe{q.node, q.b.kinds[x.Kind]}, true
		}
	case x.Kind == q.kind:
		if q.node != 0 { // under StarIsOrdinary its kind is the wildcard's
			return probe{q.node, q.r.KindOf(q.node)}, true
		}
	case k.Wildcard && k.Type == q.subject.Type:
		return probe{q.starNode(), q.b.kinds[x.Kind]}, true
	}
	return probe{}, false
}

// plainKinds are the kinds of list that hold the objects of a kind: where "*"
// is an ordinary id, "user:*" stands apart from the other users.
func (b *Binding) plainKinds(k schema.KindID) []graph.Kind {
	kind := b.s.Kinds[k]
	if !b.s.Options.StarIsOrdinary || kind.Relation != "" || kind.Wildcard {
		return b.kinds[k : k+1]
	}
	return []graph.Kind{b.kinds[k], b.types[b.typeNamed(kind.Type)].star}
}
