package eval

import (
	"slices"
	"strings"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// explainer reads an explanation from a solved system.
type explainer struct {
	// q is the question, s its solved system, and r the data.
	q *query
	// s is the solved system.
	s *system
	// r is the data, without what cannot lead to the subject.
	r *relevantReader
	// frontierMax is ExplainOptions.FrontierMax.
	frontierMax int
	// stepsLeft is the number of steps that may still be made.
	stepsLeft int
	// stepsCut counts the steps that were left out.
	stepsCut int
	// ranks orders the true gates so that each one follows from gates of lower
	// rank. So a proof that goes down in rank has no cycle, and no more hops
	// than needed. It is nil until it is computed.
	ranks []int32
	// explained are, by state, those that have a step.
	explained []bool
	// withoutLists leaves out the tuples of denied lists: the subject's
	// memberships are a better explanation.
	withoutLists bool
	// listsOmitted is true if withoutLists left something out.
	listsOmitted bool
	// steps is memory for further steps.
	steps []authz.Step
}

// newStep makes a step about a state (negative for none); nil if no more may
// be made.
func (p *explainer) newStep(k authz.StepKind, t expr.Tristate, state int32) *authz.Step {
	if p.stepsLeft == 0 {
		p.stepsCut++
		return nil
	}
	p.stepsLeft--
	if len(p.steps) == cap(p.steps) {
		p.steps = make([]authz.Step, 0, min(8, 4+cap(p.steps))) // start small: many explanations have few steps
	}
	p.steps = append(p.steps, authz.Step{Kind: k, Decision: t})
	s := &p.steps[len(p.steps)-1]
	if state >= 0 {
		st := &p.s.states[state]
		s.Object, s.Relation = p.object(st), p.q.b.relationText(st.relation)
	}
	return s
}

// object returns the object of a state.
func (p *explainer) object(st *state) rel.Object {
	id := p.s.object
	if st.node != 0 {
		id = p.q.r.ID(st.node)
	}
	return rel.Object{Type: p.q.b.s.Types[p.q.b.s.Relations[st.relation].Type].Name, ID: id}
}

// explainGate explains why a gate has the value t.
func (p *explainer) explainGate(i int32, t expr.Tristate) *authz.Step {
	g := &p.s.gates[i]
	if g.expr == nil && g.op == gateAny {
		return p.explainState(i, t)
	}
	s := p.newStep(stepOf(g.expr), t, g.state)
	if s == nil {
		return nil
	}
	s.Rewrite = p.q.b.text(g.expr)
	switch {
	case g.op == gateConst:
		s.Reasons = g.reasons
	case g.op == gateExclusion:
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

// stepOf returns the step kind of an expression.
func stepOf(e *schema.Expr) authz.StepKind {
	switch e.Op {
	case schema.OpUnion:
		return authz.StepUnion
	case schema.OpIntersection:
		return authz.StepIntersection
	case schema.OpExclusion:
		return authz.StepExclusion
	case schema.OpAttribute:
		return authz.StepAttribute
	case schema.OpRule:
		return authz.StepRule
	case schema.OpArrow:
		return authz.StepArrow
	}
	return authz.StepTuples
}

// explainState explains membership in a relation of an object.
func (p *explainer) explainState(i int32, t expr.Tristate) *authz.Step {
	g := &p.s.gates[i]
	kind := authz.StepRelation
	if p.explained[g.state] {
		kind = authz.StepSeen
	}
	s := p.newStep(kind, t, g.state)
	if s == nil || kind == authz.StepSeen {
		return s
	}
	p.explained[g.state] = true
	if g.count == 0 {
		s.Kind = authz.StepUnreachable
		return s
	}
	if to := p.s.arcs[g.first].to; to == gateTrue {
		addStep(s, p.newStep(authz.StepItself, expr.True, g.state))
	} else {
		addStep(s, p.explainGate(to, t))
	}
	return s
}

func addStep(s *authz.Step, child *authz.Step) {
	if child != nil {
		s.Steps = append(s.Steps, child)
	}
}

// union takes the best true operand of a true union; otherwise all operands
// with the union's value.
func (p *explainer) union(s *authz.Step, g *gate) {
	arcs := p.s.arcs[g.first : g.first+g.count]
	if s.Decision == expr.True {
		if best := p.best(arcs); best != nil {
			addStep(s, p.explainGate(best.to, expr.True))
		}
		return
	}
	for i := range arcs {
		if p.s.truth(arcs[i].to) == s.Decision {
			addStep(s, p.explainGate(arcs[i].to, s.Decision))
		}
	}
}

// intersection takes all operands of a true intersection, the first false one,
// or all unknown ones.
func (p *explainer) intersection(s *authz.Step, g *gate) {
	for _, a := range p.s.arcs[g.first : g.first+g.count] {
		if p.s.truth(a.to) != s.Decision {
			continue
		}
		addStep(s, p.explainGate(a.to, s.Decision))
		if s.Decision == expr.False {
			return
		}
	}
}

// exclusion takes what decided: the base, the subtracted side, or both.
func (p *explainer) exclusion(s *authz.Step, g *gate) {
	base, but := p.s.arcs[g.first].to, p.s.arcs[g.first+1].to
	b, n := p.s.truth(base), p.s.truth(but)
	switch {
	case s.Decision == expr.True, s.Decision == expr.Unknown && b == expr.Unknown && n == expr.Unknown:
		addStep(s, p.explainGate(base, b))
		p.addSubtracted(s, but, n)
	case s.Decision == expr.False && b == expr.False, s.Decision == expr.Unknown && b == expr.Unknown:
		addStep(s, p.explainGate(base, b))
	default:
		if n == expr.True && p.ranks == nil {
			p.rank()
		}
		addStep(s, p.explainGate(but, n))
	}
}

// addSubtracted explains why a subtracted side does not hold, without the
// tuples that were searched.
func (p *explainer) addSubtracted(s *authz.Step, g int32, t expr.Tristate) {
	short := p.withoutLists
	p.withoutLists = true
	addStep(s, p.explainGate(g, t))
	p.withoutLists = short
}

// best returns the true arc of the lowest rank.
func (p *explainer) best(arcs []arc) *arc {
	var best *arc
	for i := range arcs {
		a := &arcs[i]
		if a.cond == expr.True && p.s.lo[a.to] && (best == nil || p.ranks[a.to] < p.ranks[best.to]) {
			best = a
		}
	}
	return best
}

// tuples explains the value of a relation's own tuples, or of an arrow.
func (p *explainer) tuples(s *authz.Step, g *gate) {
	arcs := p.s.arcs[g.first : g.first+g.count]
	switch s.Decision {
	case expr.True:
		if best := p.best(arcs); best != nil {
			addStep(s, p.tuple(best, expr.True))
		}
		return
	case expr.Unknown:
		for i := range arcs {
			if p.s.isUnknown(&arcs[i]) || p.s.truth(arcs[i].to) == expr.True {
				addStep(s, p.tuple(&arcs[i], expr.Unknown))
			}
		}
		return
	}
	p.addSearched(s, g)
	for i := range arcs {
		if p.withoutLists && !p.leadsToOperator(&arcs[i]) {
			p.listsOmitted = true
			continue
		}
		addStep(s, p.tuple(&arcs[i], expr.False))
	}
}

// leadsToOperator reports whether an arc leads to more than lists, to an
// exclusion for example. Its failure is then explained besides the subject's
// memberships.
func (p *explainer) leadsToOperator(a *arc) bool {
	g := &p.s.gates[a.to]
	return g.state >= 0 && !p.q.b.s.Relations[p.s.states[g.state].relation].Monotone
}

// tuple explains an arc through a tuple.
func (p *explainer) tuple(a *arc, t expr.Tristate) *authz.Step {
	s := p.tupleStep(a.from, a.edge, a.restriction, t)
	if s == nil || a.to == gateTrue {
		return s
	}
	switch to := p.s.truth(a.to); {
	case t == to:
		addStep(s, p.explainGate(a.to, to))
	case t == expr.Unknown && a.cond == expr.True: // true, but beyond the depth bound
		s.Reasons = &authz.Reasons{Bound: authz.BoundDepth}
	}
	return s
}

// tupleStep makes the step of a tuple.
func (p *explainer) tupleStep(from graph.Node, e graph.Edge, x *schema.Restriction, t expr.Tristate) *authz.Step {
	s := p.newStep(authz.StepTuple, t, -1)
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
		s.Condition = &authz.ConditionStep{Name: v.detail.Condition, Decision: v.truth, Values: expr.Values{},
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

// addSearched counts what the lists of a false gate hold, and names the first of
// it. It also names the tuples
// that would have decided if they counted or their condition held.
func (p *explainer) addSearched(s *authz.Step, g *gate) {
	e, b := g.expr, p.q.b
	from := p.q.relationNode(p.s.states[g.state].node, b.kind(b.s.Relations[e.Relation].Kind))
	if from == 0 {
		return
	}
	list := func(x *schema.Restriction) {
		for _, k := range b.plainKinds(x.Kind) {
			if l := p.r.Reader.Forward(from, k); l.Len() > 0 {
				s.Searched = append(s.Searched, authz.Searched{Subjects: kindText(b.s.Kinds[x.Kind], ""), Count: l.Len(), First: p.firstSubjects(l)})
				p.addFailing(s, from, k, l, x)
			}
		}
	}
	for i := range e.Direct {
		x := &e.Direct[i]
		list(x)
		if pr, ok := p.q.ownProbe(x); ok && pr.node != 0 {
			if edge, ok := p.q.probe(from, pr.node, pr.kind); ok {
				addStep(s, p.tupleStep(from, edge, x, expr.False))
			}
		}
	}
	for i := range e.Via {
		list(&e.Via[i].Restriction)
	}
}

// firstSubjects returns the first subjects of a list, at most SearchedNamesMax.
func (p *explainer) firstSubjects(l graph.List) (out []rel.Subject) {
	for c := range l.Chunks() {
		for _, e := range l.Chunk(c) {
			if len(out) == authz.SearchedNamesMax {
				return out
			}
			out = append(out, p.q.subjectOf(e.Node()))
		}
	}
	return out
}

// addFailing names the tuples that lead to usersets and related objects on the
// subject's way and do not count, or have a false condition.
func (p *explainer) addFailing(s *authz.Step, from graph.Node, k graph.Kind, l graph.List, x *schema.Restriction) {
	if p.q.b.s.Kinds[x.Kind].Relation == "" && s.Kind != authz.StepArrow {
		return // tuples that name other plain subjects do not concern this one
	}
	if l.Len() <= relevantNodesMax && !p.hasFailing(from, l, x) {
		return // the common case: no walk from the subject is needed
	}
	l = p.r.relevant(l, k)
	for c := range l.Chunks() {
		for _, e := range l.Chunk(c) {
			if (e.Detailed() || !x.Bare) && p.q.edge(x, from, e) == expr.False {
				addStep(s, p.tupleStep(from, e, x, expr.False))
			}
		}
	}
}

// hasFailing reports whether any tuple of a list does not count or has a false
// condition.
func (p *explainer) hasFailing(from graph.Node, l graph.List, x *schema.Restriction) bool {
	for c := range l.Chunks() {
		for _, e := range l.Chunk(c) {
			if (e.Detailed() || !x.Bare) && p.q.edge(x, from, e) == expr.False {
				return true
			}
		}
	}
	return false
}

// rank orders the true gates so that each can be proved from gates before it,
// the lowest height first.
func (p *explainer) rank() {
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

// rankLevel ranks gates of one height. None of them needs a gate of a greater
// height.
func (p *explainer) rankLevel(gates []int32, next int32) int32 {
	for len(gates) > 0 {
		waiting := gates[:0]
		for _, i := range gates {
			if p.provable(i) {
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

// provable reports whether a true gate follows from ranked ones.
func (p *explainer) provable(i int32) bool {
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

// memberships lists what the subject is a member of, if that is less than what
// the object's side holds; nil otherwise.
func (p *explainer) memberships(id schema.RelationID) *authz.Memberships {
	if !p.q.r.Reversible() || p.q.kind == schema.None {
		return nil
	}
	in, expired, ok := p.memberOf(id, false)
	if !ok {
		return nil
	}
	m := &authz.Memberships{In: in}
	if expired {
		all, _, _ := p.memberOf(id, true)
		m.Expired = slices.DeleteFunc(all, func(sub rel.Subject) bool { return slices.Contains(in, sub) })
		m.Expired = m.Expired[:min(len(m.Expired), p.frontierMax)]
	}
	if len(m.In) > p.frontierMax {
		m.LeftOut = len(m.In) - p.frontierMax
		m.In = m.In[:p.frontierMax]
	}
	return m
}

// memberOf lists what the subject is a member of, sorted by its text, and
// reports whether an expired tuple was met. With withExpired such tuples count.
// It is not ok if a bound stopped the search.
func (p *explainer) memberOf(id schema.RelationID, withExpired bool) (in []rel.Subject, metExpired, ok bool) {
	env := *p.q.env
	env.Bounds.Nodes = max(1, p.r.skipped+len(p.s.arcs)-len(p.s.states)) // about the number of tuples
	w := objectWalk{target: id, anyRelation: true}
	w.q.withExpired = withExpired
	w.q.start(p.q.ctx, p.q.b, p.r.Reader, p.q.subject, &env)
	defer w.q.finish()
	p.q.lendTurn(&w.q)
	defer w.q.lendTurn(p.q)
	err := w.run()
	defer w.releaseScratch()
	if err != nil || w.bound != "" {
		return nil, false, false
	}
	w.eachMembership(func(id schema.RelationID, n graph.Node) {
		sub := rel.Subject{Type: p.q.b.s.Types[p.q.b.s.Relations[id].Type].Name, ID: p.q.subject.ID, Relation: p.q.b.relationText(id)}
		if n != 0 {
			sub.ID = p.q.r.ID(n)
		}
		if sub != p.q.subject {
			in = append(in, sub)
		}
	})
	slices.SortFunc(in, func(a, b rel.Subject) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(in), w.q.metExpired, true
}
