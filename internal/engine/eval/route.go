package eval

import (
	"slices"
	"sync/atomic"

	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/schema"
)

// unit is what one search decides: a relation, or an operand of an operator. A
// relation's unit has the relation's number.
type unit struct {
	// relation is the relation, or the one whose rewrite holds the operand.
	relation schema.RelationID
	// operand is the operand's expression; nil for a relation.
	operand *schema.Expr
	// routes are the unit's known routes.
	routes *routes
	// outsideCycle is true for an operand that depends on nothing in the cycle
	// of its relation, so that a search can decide it.
	outsideCycle bool
}

// routes caches a unit's routes by the subject's kind. The slice is immutable;
// adding a route replaces it.
type routes struct{ known atomic.Pointer[[]routeOf] }

// routeOf is the route for one kind of subject.
type routeOf struct {
	kind  schema.KindID
	route *route
}

// routesMax bounds the routes that a unit caches. Further ones are planned for
// each question.
const routesMax = 64

// route is the plan of a search: how to look for subjects of one kind in one
// unit. It joins everything that unions and computed relations read on one
// object, and leaves out what cannot lead to that kind.
type route struct {
	// sources are the object's relations whose tuples are read.
	sources []source
	// opaque are the parts that a search cannot follow.
	opaque []opaque
	// selfRelation is the relation in the union whose userset has the
	// subject's kind; schema.None if there is none. The subject may be that
	// userset itself.
	selfRelation schema.RelationID
	// probesOnly is true if one source with probes is all that the route
	// reads. Then either the source's own list or the subject's list decides.
	probesOnly bool
	// backward caches the route read from the subject's side. It has no units
	// if that is not possible.
	backward atomic.Pointer[backwardRoute]
	// kinds are the kinds of nodes by which the unit's object can be found,
	// the most likely first.
	kinds []graph.Kind
}

// source is a relation of the object whose tuples are read.
type source struct {
	// kind is the kind of the relation's nodes.
	kind graph.Kind
	// probes look for the subject itself or its wildcard.
	probes []lookup
	// follows are the links to other units.
	follows []link
}

// lookup finds the subject, or the wildcard that covers it, in a source.
type lookup struct {
	// kind is the kind of the node to find.
	kind graph.Kind
	// by is the type restriction that admits it.
	by *schema.Restriction
	// star is true for the wildcard.
	star bool
}

// link leads from a source's subjects of one kind to another unit, on the
// subject's object.
type link struct {
	// kind is the subjects' kind.
	kind graph.Kind
	// by is the type restriction that admits them.
	by *schema.Restriction
	// unit is the next unit; -1 if there is none and only the conditions
	// matter.
	unit int32
	// everyEdge is true if each edge's condition matters, wherever the edge
	// leads (schema.Options.MissingContextFails).
	everyEdge bool
	// arrow is true for an arrow, and false for a userset.
	arrow bool
	// nextRoute caches the route of unit.
	nextRoute *atomic.Pointer[route]
}

// opaque is a part of a union that a search cannot follow: an operator, whose
// operands are searched one by one, a rule or an attribute.
type opaque struct {
	// op is the kind of expr.
	op schema.Op
	// expr is the part.
	expr *schema.Expr
	// typ is the object's type.
	typ schema.TypeID
	// units are the operands' units.
	units []int32
	// cyclic is true if an operand may depend on the part itself. Then only
	// the equations decide.
	cyclic bool
}

// numberUnits makes the units of all relations and operands.
func (b *Binding) numberUnits() {
	b.units = make([]unit, len(b.s.Relations))
	b.unitOf = map[*schema.Expr]int32{}
	for i := range b.s.Relations {
		b.units[i] = unit{relation: schema.RelationID(i), routes: &routes{}}
	}
	for i := range b.s.Relations {
		b.addOperands(schema.RelationID(i), b.s.Relations[i].Expr)
		b.cyclic = b.cyclic || b.s.Relations[i].Cycle != schema.CyclePlain
	}
}

// addOperands makes the units of the operands in a relation's rewrite.
func (b *Binding) addOperands(id schema.RelationID, e *schema.Expr) {
	r := &b.s.Relations[id]
	for _, ch := range e.Children {
		operator := e.Op == schema.OpIntersection || e.Op == schema.OpExclusion
		if operator || e.Op == schema.OpUnion && r.Cycle != schema.CyclePlain {
			b.unitOf[ch] = int32(len(b.units))
			b.units = append(b.units, unit{id, ch, &routes{}, r.Cycle != schema.CyclePlain && b.dependsOnlyBelow(ch, r.Component)})
		}
		if e.Op != schema.OpArrow { // the expression under an arrow is a hidden relation
			b.addOperands(id, ch)
		}
	}
}

// dependsOnlyBelow reports whether everything that an expression depends on is
// in strongly connected components before the given one.
func (b *Binding) dependsOnlyBelow(e *schema.Expr, component int32) bool {
	if e.Op == schema.OpAttribute || e.Op == schema.OpRule {
		return false // evaluated directly, so a search gains nothing
	}
	for s := range e.Steps() {
		if s.From != schema.None && b.s.Relations[s.From].Component >= component {
			return false
		}
	}
	return !slices.ContainsFunc(e.Children, func(ch *schema.Expr) bool { return !b.dependsOnlyBelow(ch, component) })
}

// route returns a unit's route for a subject's kind.
func (b *Binding) route(unit int32, k schema.KindID) *route {
	u := &b.units[unit]
	known := u.routes.known.Load()
	if known != nil {
		for i := range *known {
			if (*known)[i].kind == k {
				return (*known)[i].route
			}
		}
	}
	r := b.planRoute(unit, k)
	for known == nil || len(*known) < routesMax {
		var more []routeOf
		if known != nil {
			more = slices.Clone(*known)
		}
		more = append(more, routeOf{k, r})
		if u.routes.known.CompareAndSwap(known, &more) {
			break
		}
		known = u.routes.known.Load()
	}
	return r
}

// planRoute computes a route.
func (b *Binding) planRoute(unit int32, k schema.KindID) *route {
	u := &b.units[unit]
	p := &routeBuilder{b: b, kind: k, seen: map[schema.RelationID]bool{}, r: &route{selfRelation: schema.None}}
	if u.operand == nil {
		p.relation(u.relation)
	} else {
		p.todo = append(p.todo, routePart{u.relation, u.operand})
	}
	for len(p.todo) > 0 {
		last := len(p.todo) - 1
		next := p.todo[last]
		p.todo = p.todo[:last]
		p.add(next.relation, next.expr)
	}
	r := p.r
	r.probesOnly = len(r.sources) == 1 && len(r.sources[0].follows) == 0 && len(r.opaque) == 0 && r.selfRelation == schema.None
	for i := range r.sources {
		arrow := slices.ContainsFunc(r.sources[i].follows, func(f link) bool { return f.arrow })
		if arrow { // an arrow's tupleset is the likeliest to have tuples
			r.kinds = slices.Insert(r.kinds, 0, r.sources[i].kind)
		} else {
			r.kinds = append(r.kinds, r.sources[i].kind)
		}
	}
	if len(r.opaque) > 0 || r.selfRelation != schema.None {
		for _, kind := range b.objectKinds[b.s.Relations[u.relation].Type] {
			if !slices.Contains(r.kinds, kind) {
				r.kinds = append(r.kinds, kind)
			}
		}
	}
	return r
}

// routePart is a part of a relation's rewrite.
type routePart struct {
	relation schema.RelationID
	expr     *schema.Expr
}

// routeBuilder computes a route.
type routeBuilder struct {
	// b is the binding, and kind the subject's kind.
	b *Binding
	// kind is the subject's kind.
	kind schema.KindID
	// seen are the relations that are part of the route already.
	seen map[schema.RelationID]bool
	// todo are the parts still to add.
	todo []routePart
	// r is the result.
	r *route
}

// relation adds a relation, unless it is there or cannot hold the subject.
func (p *routeBuilder) relation(id schema.RelationID) {
	if p.seen[id] || !p.b.reaches(id, p.kind) {
		return
	}
	p.seen[id] = true
	r := &p.b.s.Relations[id]
	if r.Kind == p.kind && r.Kind != schema.None {
		p.r.selfRelation = id
	}
	p.todo = append(p.todo, routePart{id, r.Expr})
}

// add adds one expression of a relation.
func (p *routeBuilder) add(id schema.RelationID, e *schema.Expr) {
	switch e.Op {
	case schema.OpUnion:
		for _, ch := range e.Children {
			p.todo = append(p.todo, routePart{id, ch})
		}
	case schema.OpComputed:
		p.relation(e.Relation)
	case schema.OpDirect:
		p.direct(e)
	case schema.OpArrow:
		p.arrow(e)
	default:
		r := &p.b.s.Relations[id]
		o := opaque{op: e.Op, expr: e, typ: r.Type, cyclic: r.Cycle != schema.CyclePlain && len(e.Children) > 0}
		for _, ch := range e.Children {
			o.units = append(o.units, p.b.unitOf[ch])
		}
		p.r.opaque = append(p.r.opaque, o)
	}
}

// source finds or adds a source. It returns nil if the data has no node of its
// kind.
func (p *routeBuilder) source(id schema.RelationID) *source {
	kind := p.b.kinds[p.b.s.Relations[id].Kind]
	if kind == 0 {
		return nil
	}
	for i := range p.r.sources {
		if p.r.sources[i].kind == kind {
			return &p.r.sources[i]
		}
	}
	p.r.sources = append(p.r.sources, source{kind: kind})
	return &p.r.sources[len(p.r.sources)-1]
}

// direct adds a relation's own tuples: probes for the subject and links to
// usersets.
func (p *routeBuilder) direct(e *schema.Expr) {
	var probes []lookup
	var follows []link
	for i := range e.Direct {
		x := &e.Direct[i]
		kind := p.b.kinds[x.Kind]
		if kind == 0 {
			continue
		}
		if star, ok := p.b.namesSubject(x, p.kind); ok {
			probes = append(probes, lookup{kind, x, star})
		}
		if x.Relation != schema.None && p.b.needsUsersets(x, p.kind) {
			follows = append(follows, link{kind: kind, by: x, unit: int32(x.Relation), everyEdge: p.b.readsEveryEdge(x),
				nextRoute: new(atomic.Pointer[route])})
		}
	}
	if len(probes)+len(follows) == 0 {
		return
	}
	if s := p.source(e.Relation); s != nil {
		s.probes, s.follows = append(s.probes, probes...), append(s.follows, follows...)
	}
}

// arrow adds the links of an arrow.
func (p *routeBuilder) arrow(e *schema.Expr) {
	var follows []link
	add := func(x *schema.Restriction, unit int32) {
		for _, kind := range p.b.plainKinds(x.Kind) {
			if kind != 0 {
				follows = append(follows, link{kind: kind, by: x, unit: unit, everyEdge: p.b.readsEveryEdge(x), arrow: true,
					nextRoute: new(atomic.Pointer[route])})
			}
		}
	}
	for i := range e.Via {
		if v := &e.Via[i]; p.b.needsArrow(v, p.kind) {
			add(&v.Restriction, int32(v.Target))
		}
	}
	if p.b.missingFails {
		for _, x := range deadEnds(p.b.s, e) {
			add(x, -1)
		}
	}
	if len(follows) == 0 {
		return
	}
	if s := p.source(e.Relation); s != nil {
		s.follows = append(s.follows, follows...)
	}
}

// namesSubject reports whether a tuple under a restriction can name a subject
// of a kind itself or, if star, the wildcard that covers it.
func (b *Binding) namesSubject(x *schema.Restriction, k schema.KindID) (star, ok bool) {
	if x.Kind == k || k == schema.None {
		return false, x.Kind == k
	}
	wild, sub := b.s.Kinds[x.Kind], b.s.Kinds[k]
	if !wild.Wildcard || wild.Type != sub.Type || b.s.Options.StarIsOrdinary {
		return false, false
	}
	return true, sub.Relation == ""
}

// needsUsersets reports whether the usersets under a restriction must be
// followed.
func (b *Binding) needsUsersets(x *schema.Restriction, k schema.KindID) bool {
	return b.reaches(x.Relation, k) || b.readsEveryEdge(x)
}

// needsArrow reports whether one way of an arrow must be followed.
func (b *Binding) needsArrow(v *schema.Via, k schema.KindID) bool {
	return b.reaches(v.Target, k) || b.readsEveryEdge(&v.Restriction)
}

// readsEveryEdge reports whether the conditions under a restriction matter
// wherever the tuples lead.
func (b *Binding) readsEveryEdge(x *schema.Restriction) bool {
	return b.missingFails && len(x.Conditions) > 0
}
