package eval

import (
	"maps"
	"slices"
	"sync/atomic"

	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/schema"
)

// listPlan is the schema read backwards, for lists of one relation's objects
// and subjects of one kind: from the tuples that name the subject, step by
// step, to the target relation. It depends on the schema alone.
type listPlan struct {
	// relations are the relations that the subject may become a member of on
	// the way. The first is the target. Other parts of the plan refer to them
	// by index.
	relations []planRelation
	// index finds a relation in relations.
	index map[schema.RelationID]int32
	// starts are the restrictions whose tuples name the subject or its
	// wildcard.
	starts []planStart
	// values are the rules and attributes. Each may hold for every subject on
	// any object of its type.
	values []planValue
	// targetHasValue is true if one of values is about the target's own
	// objects.
	targetHasValue bool
}

// planRelation is a relation in a plan, with the steps that a membership in it
// leads to. A relation without steps that is not the target leads nowhere.
type planRelation struct {
	// id is the relation; schema.None for a part of a rewrite.
	id schema.RelationID
	// kind is the kind of the relation's nodes; 0 for a hidden relation.
	kind graph.Kind
	// target is whether a membership in the relation is one in the target.
	target targetKind
	// steps are the steps of the walk from here.
	steps []planStep
}

// planStart is a type restriction that admits the subject itself or its
// wildcard.
type planStart struct {
	// to is the index of the restriction's relation.
	to int32
	// by is the restriction.
	by *schema.Restriction
	// uncertain is true below an intersection or an exclusion.
	uncertain bool
}

// planValue is a rule or an attribute in the rewrite of a relation.
type planValue struct {
	// to is the index of the relation.
	to int32
	// expr is the rule or attribute.
	expr *schema.Expr
	// uncertain is true below an intersection or an exclusion.
	uncertain bool
}

// planStep leads from a membership in one relation to a membership in another,
// one step closer to the target.
type planStep struct {
	// op is OpComputed, OpDirect (the membership's userset is in a tuple) or
	// OpArrow (its object is in a tuple).
	op schema.Op
	// to is the index of the relation that it leads to.
	to int32
	// reads is the kind of the nodes whose tuples are read: the nodes of to
	// for OpDirect, and those of the arrow's first relation for OpArrow.
	reads graph.Kind
	// from are the kinds of the subjects in those tuples.
	from []graph.Kind
	// by is the type restriction that those tuples must satisfy.
	by *schema.Restriction
	// uncertain is true if the step is below an intersection or an exclusion.
	// What it reaches is then only a candidate.
	uncertain bool
}

// planner builds a [listPlan].
type planner struct {
	// b is the binding.
	b *Binding
	// kind is the subject's kind.
	kind schema.KindID
	// wildcard is the kind of the wildcard of the subject's type, or
	// schema.None.
	wildcard schema.KindID
	// allOperands is true if all operands are followed, including the
	// subtracted ones and every operand of an intersection.
	allOperands bool
	// unreachable is true if relations that cannot hold the subject are followed
	// as well.
	unreachable bool
	// plan is the result.
	plan *listPlan
}

// planFor reads the schema backwards from target. With allOperands it includes
// everything that membership in target depends on, also where that cannot make
// a member; with unreachable, relations that cannot hold the subject as well.
func (b *Binding) planFor(target schema.RelationID, kind schema.KindID, allOperands, unreachable bool) *listPlan {
	p := b.planner(kind)
	p.allOperands, p.unreachable = allOperands, unreachable
	if _, ok := p.number(target); ok {
		p.plan.relations[0].target = certainTarget
	}
	return p.finish(0)
}

// planOf is planFor for one part of a rewrite, without operators. The target
// of the plan is then no relation of the schema.
func (b *Binding) planOf(e *schema.Expr, kind schema.KindID) *listPlan {
	p := b.planner(kind)
	target := planRelation{id: schema.None, target: certainTarget}
	if e.Op == schema.OpDirect {
		target.kind = b.kind(b.s.Relations[e.Relation].Kind)
	}
	p.plan.relations = append(p.plan.relations, target)
	p.read(0, e, false)
	return p.finish(1)
}

// planner makes a planner for subjects of a kind.
func (b *Binding) planner(kind schema.KindID) *planner {
	p := &planner{b: b, kind: kind, wildcard: schema.None, plan: &listPlan{index: map[schema.RelationID]int32{}}}
	if kind != schema.None && b.s.Kinds[kind].Relation == "" {
		p.wildcard = b.types[b.typeNamed(b.s.Kinds[kind].Type)].wild
	}
	return p
}

// finish reads the relations of the plan from the i-th on. Reading one may add
// others.
func (p *planner) finish(i int) *listPlan {
	b := p.b
	for ; i < len(p.plan.relations); i++ { // read may append to relations
		p.read(int32(i), b.s.Relations[p.plan.relations[i].id].Expr, false)
	}
	for _, e := range p.plan.values {
		p.plan.targetHasValue = p.plan.targetHasValue || p.plan.leadsToTarget(e.to, make([]bool, len(p.plan.relations)))
	}
	return p.plan
}

// leadsToTarget reports whether relation i leads to the target on the same
// object.
func (p *listPlan) leadsToTarget(i int32, seen []bool) bool {
	if i == 0 || seen[i] {
		return i == 0
	}
	seen[i] = true
	return slices.ContainsFunc(p.relations[i].steps, func(u planStep) bool { return u.op == schema.OpComputed && p.leadsToTarget(u.to, seen) })
}

// reaches reports whether a relation can hold the subject.
func (p *planner) reaches(id schema.RelationID) bool { return p.b.s.Relations[id].Reaches(p.kind) }

// number returns a relation's index in the plan. It returns false if the
// relation cannot hold the subject.
func (p *planner) number(id schema.RelationID) (int32, bool) {
	i, ok := p.plan.index[id]
	if ok || !p.unreachable && !p.reaches(id) {
		return i, ok
	}
	i = int32(len(p.plan.relations))
	p.plan.index[id] = i
	p.plan.relations = append(p.plan.relations, planRelation{id: id, kind: p.b.kind(p.b.s.Relations[id].Kind)})
	return i, true
}

// addStep adds a step from a relation.
func (p *planner) addStep(from schema.RelationID, u planStep) {
	if i, ok := p.number(from); ok {
		r := &p.plan.relations[i]
		r.steps = append(r.steps, u)
	}
}

// read collects what leads into relation to through the expression e. For an
// intersection it follows only the narrowest operand: a member of all is a
// member of any one. For an exclusion it follows only the base.
func (p *planner) read(to int32, e *schema.Expr, uncertain bool) {
	switch e.Op {
	case schema.OpDirect, schema.OpComputed, schema.OpArrow:
		for s := range e.Steps() {
			p.step(to, s, uncertain)
		}
	case schema.OpUnion:
		p.readAll(to, e.Children, uncertain)
	case schema.OpIntersection, schema.OpExclusion:
		// The list checks each of these candidates.
		uncertain = true
		switch {
		case p.allOperands:
			p.readAll(to, e.Children, uncertain)
		case e.Op == schema.OpIntersection:
			// A member of all is a member of any one of them.
			p.read(to, p.narrowest(e.Children), uncertain)
		default:
			p.read(to, e.Children[0], uncertain)
		}
	case schema.OpAttribute, schema.OpRule:
		p.plan.values = append(p.plan.values, planValue{to, e, uncertain})
	}
}

// readAll reads several expressions.
func (p *planner) readAll(to int32, children []*schema.Expr, uncertain bool) {
	for _, ch := range children {
		p.read(to, ch, uncertain)
	}
}

// step adds one step into relation to: a start if the step's tuples may name
// the subject itself, and a planStep if the step reads another relation.
func (p *planner) step(to int32, s schema.Step, uncertain bool) {
	x := s.Restriction
	if s.Op == schema.OpDirect && (x.Kind == p.kind || x.Kind == p.wildcard) {
		p.plan.starts = append(p.plan.starts, planStart{to, x, uncertain})
	}
	if s.From == schema.None {
		return
	}
	u := planStep{op: s.Op, to: to, by: x, uncertain: uncertain}
	if x != nil {
		u.reads, u.from = p.b.kind(p.b.s.Relations[s.Tupleset].Kind), p.b.plainKinds(x.Kind)
	}
	p.addStep(s.From, u)
}

// narrowest returns the operand of an intersection that probably has the
// fewest members: one that cannot hold the subject, or else the one that is
// decided by the fewest tuples.
func (p *planner) narrowest(children []*schema.Expr) *schema.Expr {
	best, least := children[0], p.width(children[0])
	for _, ch := range children[1:] {
		if w := p.width(ch); w < least {
			best, least = ch, w
		}
	}
	return best
}

const (
	// widthStep, widthMany and widthAll are estimates of an expression's
	// width: the number of objects that it can hold. They are used for one step
	// to a tuple, a recursive relation, and a rule or an attribute.
	widthStep = 4
	widthMany = 64
	widthAll  = 1 << 20
)

// width estimates how many objects an expression can hold, by the schema
// alone.
func (p *planner) width(e *schema.Expr) int {
	switch e.Op {
	case schema.OpDirect:
		w := 0
		for i := range e.Direct {
			x := &e.Direct[i]
			switch {
			case x.Relation != schema.None && p.reaches(x.Relation):
				w += widthStep + p.relationWidth(x.Relation)
			case x.Kind == p.kind:
				w++
			case x.Kind == p.wildcard:
				w += widthStep // a wildcard often grants many objects
			}
		}
		return min(w, widthAll)
	case schema.OpComputed:
		return p.relationWidth(e.Relation)
	case schema.OpArrow:
		w := 0
		for i := range e.Via {
			w += widthStep + p.relationWidth(e.Via[i].Target)
		}
		return min(w, widthAll)
	case schema.OpUnion:
		w := 0
		for _, ch := range e.Children {
			w += p.width(ch)
		}
		return min(w, widthAll)
	case schema.OpIntersection:
		w := widthAll
		for _, ch := range e.Children {
			w = min(w, p.width(ch))
		}
		return w
	case schema.OpExclusion:
		return p.width(e.Children[0])
	}
	return widthAll
}

// relationWidth is width for a relation. It looks at no other relation, so
// that planning costs no more than the schema's size.
func (p *planner) relationWidth(id schema.RelationID) int {
	r := &p.b.s.Relations[id]
	switch {
	case !r.Reaches(p.kind):
		return 0
	case r.ReachAny:
		return widthAll
	case r.Probe:
		return 1
	case r.Recursive:
		return widthMany
	}
	return widthStep
}

// planCache caches a binding's plans. The map is immutable; adding a plan
// replaces it.
type planCache struct {
	known atomic.Pointer[map[planKey]*listPlan]
}

// plansMax bounds the plans that a binding caches. Further ones are planned
// for each question.
const plansMax = 1024

// planKey is everything that a plan depends on besides the binding.
type planKey struct {
	// target is the plan's target.
	target schema.RelationID
	// part is the part of a rewrite that is planned; nil for a relation.
	part *schema.Expr
	// kind is the subject's kind.
	kind schema.KindID
	// anyRelation is true if all memberships on the way are needed, and not
	// only the target's objects. Such a plan is not reduced.
	anyRelation bool
	// allOperands is as in planner.
	allOperands bool
	// scoped is true for a list with [ListObjectsQuestion.Scope]. Its plan does
	// not depend on which operand is the cheapest.
	scoped bool
}

// listPlan returns the plan of a relation, or of a part of its rewrite.
func (b *Binding) listPlan(key planKey) *listPlan {
	known := b.plans.known.Load()
	if known != nil {
		if p, ok := (*known)[key]; ok {
			return p
		}
	}
	var p *listPlan
	if key.part != nil {
		p = b.planOf(key.part, key.kind)
	} else {
		p = b.planFor(key.target, key.kind, key.allOperands || key.scoped, key.scoped)
	}
	if !key.anyRelation {
		p = p.reduced()
	}
	for known == nil || len(*known) < plansMax {
		more := map[planKey]*listPlan{key: p}
		if known != nil {
			maps.Copy(more, *known)
		}
		if b.plans.known.CompareAndSwap(known, &more) {
			break
		}
		known = b.plans.known.Load()
	}
	return p
}
