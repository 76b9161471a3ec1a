package eval

import (
	"slices"
	"strings"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/graph"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// prover reads an explanation from a solved system.
type prover struct {
	q    *query
	s    *system
	r    *narrowReader
	most int // FrontierMax
	left int // steps that may still be taken
	over int // steps that were cut
	// ranks order the true gates so that each follows from gates of lower rank: a
	// proof that goes down in rank has no circle, and no more hops than needed.
	ranks []int32
	// open are the states that are being explained or have been.
	open []bool
	// short leaves out what lists hold: the subject's memberships say it better.
	short bool
	cut   bool   // short left something out
	steps []Step // room for more
}

// step makes a step, or nil where no more may be taken.
func (p *prover) step(k StepKind, t expr.Tristate, state int32) *Step {
	if p.left == 0 {
		p.over++
		return nil
	}
	p.left--
	if len(p.steps) == cap(p.steps) {
		p.steps = make([]Step, 0, min(8, 4+cap(p.steps))) // few steps come alone
	}
	p.steps = append(p.steps, Step{Kind: k, Decision: t})
	s := &p.steps[len(p.steps)-1]
	if state >= 0 {
		st := &p.s.states[state]
		s.Object, s.Relation = p.object(st), p.q.b.relationText(st.relation)
	}
	return s
}

func (p *prover) object(st *state) rel.Object {
	id := p.s.object
	if st.node != 0 {
		id = p.q.r.ID(st.node)
	}
	return rel.Object{Type: p.q.b.s.Types[p.q.b.s.Relations[st.relation].Type].Name, ID: id}
}

// gate explains why a gate has the value t.
func (p *prover) gate(i int32, t expr.Tristate) *Step {
	g := &p.s.gates[i]
	if g.expr == nil && g.op == gateAny {
		return p.state(i, t)
	}
	s := p.step(stepOf(g.expr), t, g.state)
	if s == nil {
		return nil
	}
	s.Rewrite = p.q.b.text(g.expr)
	switch {
	case g.op == gateConst:
		s.Reasons = g.reasons
	case g.op == gateBut:
		p.exclusion(s, g)
	case g.op == gateAll:
		p.intersection(s, g)
	case g.expr.Op == schema.OpUnion:
		p.union(s, g)
	default:
		p.tuples(s, g)
	}
	return s
}

func stepOf(e *schema.Expr) StepKind {
	switch e.Op {
	case schema.OpUnion:
		return StepUnion
	case schema.OpIntersection:
		return StepIntersection
	case schema.OpExclusion:
		return StepExclusion
	case schema.OpAttribute:
		return StepAttribute
	case schema.OpRule:
		return StepRule
	case schema.OpArrow:
		return StepArrow
	}
	return StepTuples
}

// state explains membership in a relation of an object.
func (p *prover) state(i int32, t expr.Tristate) *Step {
	g := &p.s.gates[i]
	kind := StepRelation
	if p.open[g.state] {
		kind = StepSeen
	}
	s := p.step(kind, t, g.state)
	if s == nil || kind == StepSeen {
		return s
	}
	p.open[g.state] = true
	if g.count == 0 {
		s.Kind = StepUnreachable
		return s
	}
	if to := p.s.arcs[g.first].to; to == gateTrue {
		s.add(p.step(StepItself, expr.True, g.state))
	} else {
		s.add(p.gate(to, t))
	}
	return s
}

func (s *Step) add(child *Step) {
	if child != nil {
		s.Steps = append(s.Steps, child)
	}
}

// union takes the best of the true operands; or all that are not false, or
// all.
func (p *prover) union(s *Step, g *gate) {
	arcs := p.s.arcs[g.first : g.first+g.count]
	if s.Decision == expr.True {
		if best := p.best(arcs); best != nil {
			s.add(p.gate(best.to, expr.True))
		}
		return
	}
	for i := range arcs {
		if p.s.truth(arcs[i].to) == s.Decision {
			s.add(p.gate(arcs[i].to, s.Decision))
		}
	}
}

// intersection takes all operands of a true one, the first false one, or all
// unknown ones.
func (p *prover) intersection(s *Step, g *gate) {
	for _, a := range p.s.arcs[g.first : g.first+g.count] {
		if p.s.truth(a.to) != s.Decision {
			continue
		}
		s.add(p.gate(a.to, s.Decision))
		if s.Decision == expr.False {
			return
		}
	}
}

// exclusion takes what decided: the base, the subtracted side, or both.
func (p *prover) exclusion(s *Step, g *gate) {
	base, but := p.s.arcs[g.first].to, p.s.arcs[g.first+1].to
	b, n := p.s.truth(base), p.s.truth(but)
	switch {
	case s.Decision == expr.True, s.Decision == expr.Unknown && b == expr.Unknown && n == expr.Unknown:
		s.add(p.gate(base, b))
		p.briefly(s, but, n)
	case s.Decision == expr.False && b == expr.False, s.Decision == expr.Unknown && b == expr.Unknown:
		s.add(p.gate(base, b))
	default:
		if n == expr.True && p.ranks == nil {
			p.rank()
		}
		s.add(p.gate(but, n))
	}
}

// briefly explains why a subtracted side does not hold, without its own
// details: they were searched in vain.
func (p *prover) briefly(s *Step, g int32, t expr.Tristate) {
	short := p.short
	p.short = true
	s.add(p.gate(g, t))
	p.short = short
}

// best is the true arc of the least rank.
func (p *prover) best(arcs []arc) *arc {
	var best *arc
	for i := range arcs {
		a := &arcs[i]
		if a.cond == expr.True && p.s.lo[a.to] && (best == nil || p.ranks[a.to] < p.ranks[best.to]) {
			best = a
		}
	}
	return best
}

// tuples explains what a relation's own tuples, or an arrow's, say.
func (p *prover) tuples(s *Step, g *gate) {
	arcs := p.s.arcs[g.first : g.first+g.count]
	switch s.Decision {
	case expr.True:
		if best := p.best(arcs); best != nil {
			s.add(p.tuple(best, expr.True))
		}
		return
	case expr.Unknown:
		for i := range arcs {
			if p.s.doubtful(&arcs[i]) || p.s.truth(arcs[i].to) == expr.True {
				s.add(p.tuple(&arcs[i], expr.Unknown))
			}
		}
		return
	}
	p.searched(s, g)
	for i := range arcs {
		if p.short && !p.refuted(&arcs[i]) {
			p.cut = true
			continue
		}
		s.add(p.tuple(&arcs[i], expr.False))
	}
}

// refuted says whether an arc's failure is worth telling besides the subject's
// memberships: where it leads to more than lists, an exclusion say.
func (p *prover) refuted(a *arc) bool {
	g := &p.s.gates[a.to]
	return g.state >= 0 && !p.q.b.s.Relations[p.s.states[g.state].relation].Monotone
}

// tuple explains an arc through a tuple.
func (p *prover) tuple(a *arc, t expr.Tristate) *Step {
	s := p.tupleStep(a.from, a.edge, a.restriction, t)
	if s == nil || a.to == gateTrue {
		return s
	}
	switch to := p.s.truth(a.to); {
	case t == to:
		s.add(p.gate(a.to, to))
	case t == expr.Unknown && a.cond == expr.True: // true, but one hop too far
		s.Reasons = &Reasons{Bound: BoundDepth}
	}
	return s
}

func (p *prover) tupleStep(from graph.Node, e graph.Edge, x *schema.Restriction, t expr.Tristate) *Step {
	s := p.step(StepTuple, t, -1)
	if s == nil {
		return nil
	}
	key := p.q.key(from, e)
	v := p.q.tuple(x, from, e)
	s.Object, s.Relation = key.Object, key.Relation
	s.Tuple = &rel.Tuple{Object: key.Object, Relation: key.Relation, Subject: key.Subject,
		Condition: v.detail.Condition, Context: v.detail.Context, Expires: v.detail.Expires}
	s.Expired = p.q.expired(v.detail.Expires)
	s.Refused = !v.counts && !s.Expired
	if c := p.q.b.s.Conditions[v.detail.Condition]; c != nil && v.counts {
		s.Condition = &ConditionStep{Name: v.detail.Condition, Decision: v.truth, Values: expr.Values{},
			Missing: v.result.Missing, Err: v.result.Err}
		for _, param := range c.Definition.Params {
			if val, ok := v.detail.Values[param.Name]; ok {
				s.Condition.Values[param.Name] = val
			} else if val, ok := p.q.env.Context[param.Name]; ok {
				s.Condition.Values[param.Name] = val
			}
		}
	}
	return s
}

// searched counts what the lists of a false gate hold, and names the tuples
// that would have decided, did they count or did their condition hold.
func (p *prover) searched(s *Step, g *gate) {
	e, b := g.expr, p.q.b
	from := p.q.at(p.s.states[g.state].node, b.kind(b.s.Relations[e.Relation].Kind))
	if from == 0 {
		return
	}
	list := func(x *schema.Restriction) {
		for _, k := range b.plainKinds(x.Kind) {
			if l := p.r.Reader.Forward(from, k); l.Len() > 0 {
				s.Searched = append(s.Searched, Searched{b.kindText(x.Kind), l.Len()})
				p.failing(s, from, k, l, x)
			}
		}
	}
	for i := range e.Direct {
		x := &e.Direct[i]
		list(x)
		if pr, ok := p.q.ownProbe(x); ok && pr.node != 0 {
			if edge, ok := p.q.probe(from, pr.node, pr.kind); ok {
				s.add(p.tupleStep(from, edge, x, expr.False))
			}
		}
	}
	for i := range e.Via {
		list(&e.Via[i].Restriction)
	}
}

// failing names those tuples to usersets and related objects on the subject's
// way that do not count or whose condition is false.
func (p *prover) failing(s *Step, from graph.Node, k graph.Kind, l graph.List, x *schema.Restriction) {
	if p.q.b.s.Kinds[x.Kind].Relation == "" && s.Kind != StepArrow {
		return // others' own tuples say nothing of the subject
	}
	if l.Len() <= narrowMax && !p.fails(from, l, x) {
		return // the common case, and no walk from the subject
	}
	l = p.r.relevant(l, k)
	for c := range l.Chunks() {
		for _, e := range l.Chunk(c) {
			if (e.Detailed() || !x.Bare) && p.q.edge(x, from, e) == expr.False {
				s.add(p.tupleStep(from, e, x, expr.False))
			}
		}
	}
}

// fails says whether any tuple of a list does not count or has a false
// condition.
func (p *prover) fails(from graph.Node, l graph.List, x *schema.Restriction) bool {
	for c := range l.Chunks() {
		for _, e := range l.Chunk(c) {
			if (e.Detailed() || !x.Bare) && p.q.edge(x, from, e) == expr.False {
				return true
			}
		}
	}
	return false
}

// rank numbers the gates that are true in an order in which each can be proved
// from those before it, of the lowest height first.
func (p *prover) rank() {
	s := p.s
	p.ranks = make([]int32, len(s.gates))
	order := make([]int32, 0, len(s.gates))
	for i := range s.gates {
		p.ranks[i] = int32(len(s.gates))
		if s.lo[i] {
			order = append(order, int32(i))
		}
	}
	slices.SortStableFunc(order, func(a, b int32) int { return int(s.height[a] - s.height[b]) })
	next := int32(0)
	for len(order) > 0 {
		end := 1
		for end < len(order) && s.height[order[end]] == s.height[order[0]] {
			end++
		}
		next = p.rankLevel(order[:end], next)
		order = order[end:]
	}
}

// rankLevel ranks gates of one height. None needs one that is higher.
func (p *prover) rankLevel(gates []int32, next int32) int32 {
	for len(gates) > 0 {
		waiting := gates[:0]
		for _, i := range gates {
			if p.follows(i) {
				p.ranks[i] = next
				next++
			} else {
				waiting = append(waiting, i)
			}
		}
		if len(waiting) == len(gates) {
			return next
		}
		gates = waiting
	}
	return next
}

// follows says whether a true gate follows from ranked ones.
func (p *prover) follows(i int32) bool {
	g := &p.s.gates[i]
	ranked := func(a *arc) bool {
		return a.cond == expr.True && p.s.lo[a.to] && p.ranks[a.to] < int32(len(p.s.gates)) &&
			p.s.height[a.to]+a.hop <= p.s.height[i]
	}
	arcs := p.s.arcs[g.first : g.first+g.count]
	switch g.op {
	case gateConst:
		return true
	case gateAny:
		return slices.ContainsFunc(arcs, func(a arc) bool { return ranked(&a) })
	case gateAll:
		return !slices.ContainsFunc(arcs, func(a arc) bool { return !ranked(&a) })
	}
	return ranked(&arcs[0])
}

// memberships lists what the subject is a member of, where that is less than
// what the object's side holds: nil otherwise.
func (p *prover) memberships(id schema.RelationID) *Memberships {
	if !p.q.r.Reversible() || p.q.kind == schema.None {
		return nil
	}
	env := *p.q.env
	env.Bounds.Nodes = max(1, p.r.skipped+len(p.s.arcs)-len(p.s.states)) // tuples, about
	w := walk{target: id, way: true}
	w.q.start(p.q.ctx, p.q.b, p.r.Reader, p.q.subject, &env)
	err := w.run()
	defer w.release()
	if err != nil || w.bound != "" {
		return nil
	}
	m := &Memberships{}
	w.each(func(id schema.RelationID, n graph.Node) {
		sub := rel.Subject{Type: p.q.b.s.Types[p.q.b.s.Relations[id].Type].Name, ID: p.q.subject.ID, Relation: p.q.b.relationText(id)}
		if n != 0 {
			sub.ID = p.q.r.ID(n)
		}
		if sub != p.q.subject {
			m.In = append(m.In, sub)
		}
	})
	slices.SortFunc(m.In, func(a, b rel.Subject) int { return strings.Compare(a.String(), b.String()) })
	m.In = slices.Compact(m.In)
	if len(m.In) > p.most {
		m.LeftOut = len(m.In) - p.most
		m.In = m.In[:p.most]
	}
	return m
}
