package eval

import (
	"slices"
	"sync/atomic"

	"github.com/ostiary/ostiary/graph"
	"github.com/ostiary/ostiary/schema"
)

// unit is what one search decides: a relation, or an operand of an
// intersection or exclusion. A relation's unit has the relation's number.
type unit struct {
	relation schema.RelationID // the relation, or the one that holds the operand
	operand  *schema.Expr      // nil for a relation
	routes   *routes
	// outside says that the operand, of a relation in a cycle that a walk cannot
	// decide, depends on nothing in that cycle.
	outside bool
}

// routes are a unit's routes by the subject's kind, as far as they were asked
// for: an immutable slice, replaced to add one.
type routes struct{ known atomic.Pointer[[]routeOf] }

type routeOf struct {
	kind  schema.KindID
	route *route
}

// routesMax bounds the routes that a unit keeps; what is asked beyond it is
// planned for its question alone.
const routesMax = 64

// route is how a unit is searched for subjects of one kind: everything that
// unions join on one object, without what the subject's kind cannot reach.
type route struct {
	sources []source
	opaque  []opaque
	// self is the relation, if one is in the union, whose userset has the
	// subject's own kind: the subject may be a member by itself.
	self schema.RelationID
	// last says that one source with probes alone is all: whether a node of the
	// source's kind holds the subject is for its own list, or the subject's, to
	// say.
	last bool
	// back is the route read from the subject's side, once that was asked for.
	back atomic.Pointer[backward]
	// kinds are those that a node of the unit's object may have.
	kinds []graph.Kind
}

// source is a relation of the object whose tuples are read.
type source struct {
	kind    graph.Kind
	probes  []lookup
	follows []follow
}

// lookup finds the subject, or the wildcard that covers it, in a source.
type lookup struct {
	kind graph.Kind
	by   *schema.Restriction
	star bool
}

// follow leads from a source's subjects of one kind to another unit.
type follow struct {
	kind graph.Kind
	by   *schema.Restriction
	unit int32 // -1 leads nowhere: only conditions matter
	// scan says that each edge's condition matters, wherever the edge leads.
	scan  bool
	arrow bool
	next  *atomic.Pointer[route] // of unit, once it was wanted
}

// opaque is a part of a union that a walk cannot see through: an operator of
// which each operand is searched on its own, a rule or an attribute.
type opaque struct {
	op     schema.Op
	expr   *schema.Expr
	typ    schema.TypeID
	units  []int32
	cyclic bool // an operand may depend on the whole: only the equations decide
}

// unitsOf numbers the units.
func (b *Binding) unitsOf() {
	b.units = make([]unit, len(b.s.Relations))
	b.unitOf = map[*schema.Expr]int32{}
	for i := range b.s.Relations {
		b.units[i] = unit{relation: schema.RelationID(i), routes: &routes{}}
	}
	for i := range b.s.Relations {
		b.operands(schema.RelationID(i), b.s.Relations[i].Expr)
		b.cyclic = b.cyclic || b.s.Relations[i].Cycle != schema.CyclePlain
	}
}

func (b *Binding) operands(id schema.RelationID, e *schema.Expr) {
	r := &b.s.Relations[id]
	for _, ch := range e.Children {
		operator := e.Op == schema.OpIntersection || e.Op == schema.OpExclusion
		if operator || e.Op == schema.OpUnion && r.Cycle != schema.CyclePlain {
			b.unitOf[ch] = int32(len(b.units))
			b.units = append(b.units, unit{id, ch, &routes{}, r.Cycle != schema.CyclePlain && b.below(ch, r.Component)})
		}
		if e.Op != schema.OpArrow { // what stands under an arrow is a relation of its own
			b.operands(id, ch)
		}
	}
}

// below says whether all that an expression depends on stands in components
// before one.
func (b *Binding) below(e *schema.Expr, component int32) bool {
	if e.Op == schema.OpAttribute || e.Op == schema.OpRule {
		return false // nothing to search for
	}
	for s := range e.Steps() {
		if s.From != schema.None && b.s.Relations[s.From].Component >= component {
			return false
		}
	}
	return !slices.ContainsFunc(e.Children, func(ch *schema.Expr) bool { return !b.below(ch, component) })
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
	r := b.plan(unit, k)
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

// plan works out a route.
func (b *Binding) plan(unit int32, k schema.KindID) *route {
	u := &b.units[unit]
	p := &router{b: b, kind: k, seen: map[schema.RelationID]bool{}, r: &route{self: schema.None}}
	if u.operand == nil {
		p.relation(u.relation)
	} else {
		p.todo = append(p.todo, piece{u.relation, u.operand})
	}
	for len(p.todo) > 0 {
		last := len(p.todo) - 1
		next := p.todo[last]
		p.todo = p.todo[:last]
		p.add(next.relation, next.expr)
	}
	r := p.r
	r.last = len(r.sources) == 1 && len(r.sources[0].follows) == 0 && len(r.opaque) == 0 && r.self == schema.None
	for i := range r.sources {
		arrow := slices.ContainsFunc(r.sources[i].follows, func(f follow) bool { return f.arrow })
		if arrow { // more objects have a parent than have a tuple of each kind
			r.kinds = slices.Insert(r.kinds, 0, r.sources[i].kind)
		} else {
			r.kinds = append(r.kinds, r.sources[i].kind)
		}
	}
	if len(r.opaque) > 0 || r.self != schema.None {
		for _, kind := range b.anchors[b.s.Relations[u.relation].Type] {
			if !slices.Contains(r.kinds, kind) {
				r.kinds = append(r.kinds, kind)
			}
		}
	}
	return r
}

type piece struct {
	relation schema.RelationID
	expr     *schema.Expr
}

// router collects a route.
type router struct {
	b    *Binding
	kind schema.KindID
	seen map[schema.RelationID]bool
	todo []piece
	r    *route
}

func (p *router) relation(id schema.RelationID) {
	if p.seen[id] || !p.b.reaches(id, p.kind) {
		return
	}
	p.seen[id] = true
	r := &p.b.s.Relations[id]
	if r.Kind == p.kind && r.Kind != schema.None {
		p.r.self = id
	}
	p.todo = append(p.todo, piece{id, r.Expr})
}

func (p *router) add(id schema.RelationID, e *schema.Expr) {
	switch e.Op {
	case schema.OpUnion:
		for _, ch := range e.Children {
			p.todo = append(p.todo, piece{id, ch})
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

// source finds or adds a source; nil where the data knows no such kind.
func (p *router) source(id schema.RelationID) *source {
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

func (p *router) direct(e *schema.Expr) {
	var probes []lookup
	var follows []follow
	for i := range e.Direct {
		x := &e.Direct[i]
		kind := p.b.kinds[x.Kind]
		if kind == 0 {
			continue
		}
		if star, ok := p.b.finds(x, p.kind); ok {
			probes = append(probes, lookup{kind, x, star})
		}
		if x.Relation != schema.None && p.b.follows(x, p.kind) {
			follows = append(follows, follow{kind: kind, by: x, unit: int32(x.Relation), scan: p.b.scans(x),
				next: new(atomic.Pointer[route])})
		}
	}
	if len(probes)+len(follows) == 0 {
		return
	}
	if s := p.source(e.Relation); s != nil {
		s.probes, s.follows = append(s.probes, probes...), append(s.follows, follows...)
	}
}

func (p *router) arrow(e *schema.Expr) {
	var follows []follow
	add := func(x *schema.Restriction, unit int32) {
		for _, kind := range p.b.plainKinds(x.Kind) {
			if kind != 0 {
				follows = append(follows, follow{kind: kind, by: x, unit: unit, scan: p.b.scans(x), arrow: true,
					next: new(atomic.Pointer[route])})
			}
		}
	}
	for i := range e.Via {
		if v := &e.Via[i]; p.b.crosses(v, p.kind) {
			add(&v.Restriction, int32(v.Target))
		}
	}
	if p.b.fails {
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

// finds says whether a tuple under a restriction can name a subject of a kind
// itself, or (star) the wildcard that covers it.
func (b *Binding) finds(x *schema.Restriction, k schema.KindID) (star, ok bool) {
	if x.Kind == k || k == schema.None {
		return false, x.Kind == k
	}
	wild, sub := b.s.Kinds[x.Kind], b.s.Kinds[k]
	if !wild.Wildcard || wild.Type != sub.Type || b.s.Options.StarIsOrdinary {
		return false, false
	}
	return true, sub.Relation == ""
}

// follows says whether usersets under a restriction need a look.
func (b *Binding) follows(x *schema.Restriction, k schema.KindID) bool {
	return b.reaches(x.Relation, k) || b.scans(x)
}

// crosses says whether an arrow's way needs a look.
func (b *Binding) crosses(v *schema.Via, k schema.KindID) bool {
	return b.reaches(v.Target, k) || b.scans(&v.Restriction)
}

// scans says whether a condition counts wherever its tuple leads.
func (b *Binding) scans(x *schema.Restriction) bool { return b.fails && len(x.Conditions) > 0 }
