package eval

import (
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/graph"
	"github.com/ostiary/ostiary/schema"
)

// backward is a route read from the subject's side: over which tuples a
// subject comes to be a member of the unit. It is there only where the unit,
// and all it leads to, is unions.
type backward struct {
	units  []int32 // the first is the route's own
	starts []origin
	ups    [][]up // by index in units
	selves []int32
}

// origin finds the subject's own tuples in one source of a unit.
type origin struct {
	at   int32
	kind graph.Kind
	by   *lookup
}

// up leads from membership in a unit over one follow to membership in another.
type up struct {
	to   int32
	kind graph.Kind // of the nodes whose tuples are read
	by   *follow
}

// backwardUnitsMax bounds the units of a walk from the subject: beyond, the
// walk from the object is the only one.
const backwardUnitsMax = 256

// backward returns the route of a unit read backwards, or nil where it cannot
// be.
func (b *Binding) backward(unit int32, k schema.KindID) *backward {
	r := b.route(unit, k)
	if known := r.back.Load(); known != nil {
		if known.units == nil {
			return nil
		}
		return known
	}
	back := b.planBackward(unit, k)
	if back == nil {
		r.back.Store(&backward{})
		return nil
	}
	r.back.Store(back)
	return back
}

func (b *Binding) planBackward(unit int32, k schema.KindID) *backward {
	back := &backward{units: []int32{unit}, ups: [][]up{nil}}
	index := map[int32]int32{unit: 0}
	for i := int32(0); int(i) < len(back.units); i++ { // grows while it is read
		r := b.route(back.units[i], k)
		if len(r.opaque) > 0 || len(back.units) > backwardUnitsMax {
			return nil
		}
		if r.self != schema.None {
			back.selves = append(back.selves, i)
		}
		for s := range r.sources {
			src := &r.sources[s]
			for p := range src.probes {
				back.starts = append(back.starts, origin{i, src.kind, &src.probes[p]})
			}
			for j := range src.follows {
				f := &src.follows[j]
				if f.unit < 0 || f.scan {
					return nil
				}
				from, ok := index[f.unit]
				if !ok {
					from = int32(len(back.units))
					index[f.unit] = from
					back.units, back.ups = append(back.units, f.unit), append(back.ups, nil)
				}
				back.ups[from] = append(back.ups[from], up{i, src.kind, f})
			}
		}
	}
	return back
}

// closure is the set of nodes of one kind on whose objects the subject is a
// member of a unit, found from the subject's side. Its nodes stand in the
// scratch: members[first:first+n], and in the visited set with their heights.
type closure struct {
	unit     int32
	kind     graph.Kind
	id       uint32 // of its states in the visited set
	complete bool
	useless  bool // an unknown condition stands in the way
	tried    int  // the budget that did not suffice
	first, n int
}

const (
	// memberUnit marks a closure's members among the visited states.
	memberUnit = -2
	// closureMin is the work that is not worth a look from the other side.
	closureMin = 8
)

// closed decides a list by the subject's side, where that promises to be
// cheaper. It returns false where the list must be followed.
func (w *search) closed(p *pending, l graph.List) bool {
	q := w.q
	f := p.by
	q.spent += l.Len()
	if q.spent < closureMin && q.b.mode != ModeBackward {
		return false
	}
	if q.b.mode == ModeForward || q.b.mode == ModeShuffled || f.unit < 0 || f.scan || !q.r.Reversible() {
		return false
	}
	c := q.closure(f)
	if !c.complete {
		if c.useless || q.spent < 2*c.tried {
			return false
		}
		budget := q.spent
		if q.b.mode == ModeBackward {
			budget = q.nodesMax
		}
		back := q.b.backward(f.unit, q.kind)
		if back == nil {
			c.useless = true
			return false
		}
		if !q.close(c, back, budget) {
			if q.over {
				w.stop()
				return true
			}
			return false
		}
	}
	w.meet(p, l, c)
	return true
}

// closure finds or begins the closure of what a follow leads to.
func (q *query) closure(f *follow) *closure {
	s := q.borrow()
	for i := range s.closures {
		if c := &s.closures[i]; c.unit == f.unit && c.kind == f.kind {
			return c
		}
	}
	s.closures = append(s.closures, closure{unit: f.unit, kind: f.kind})
	return &s.closures[len(s.closures)-1]
}

// meet looks for a common node of a list and a closure, walking the shorter.
func (w *search) meet(p *pending, l graph.List, c *closure) {
	s := w.q.scratch
	if c.n <= l.Len() {
		w.q.stats.Probes += c.n
		for _, n := range s.members[c.first : c.first+c.n] {
			if e, ok := l.Find(n); ok && w.common(p, c, e) {
				return
			}
		}
		return
	}
	for i := range l.Chunks() {
		for _, e := range l.Chunk(i) {
			w.q.stats.Probes++
			if s.seen.has(c.id, memberUnit, e.Node()) && w.common(p, c, e) {
				return
			}
		}
	}
}

func (w *search) common(p *pending, c *closure, e graph.Edge) bool {
	height := w.q.scratch.seen.find(c.id, memberUnit, e.Node()).hops
	return w.met(w.q.edge(p.by.by, p.from, e), p.hops+height)
}

// close completes a closure within a budget of edges, breadth first. It
// returns false where that did not suffice or the closure is useless.
func (q *query) close(c *closure, back *backward, budget int) bool {
	s := q.scratch
	q.searches++
	c.id, c.first, c.n = q.searches, len(s.members), 0
	w := closing{q: q, c: c, back: back, budget: budget, at: len(s.queue)}
	first := w.at
	w.seeds()
	for ; w.at < len(s.queue) && w.good(); w.at++ {
		w.step(s.queue[w.at])
	}
	s.queue = s.queue[:first]
	if c.complete = w.good(); c.complete {
		c.n = len(s.members) - c.first
		return true
	}
	s.members = s.members[:c.first]
	c.tried = budget
	return false
}

// closing is a closure being completed.
type closing struct {
	q      *query
	c      *closure
	back   *backward
	budget int
	at     int
}

func (w *closing) good() bool { return w.budget >= 0 && !w.c.useless && !w.q.over }

// seeds enters what the subject stands in itself.
func (w *closing) seeds() {
	q := w.q
	for i := range w.back.starts {
		s := &w.back.starts[i]
		x := q.node
		if s.by.star {
			x = q.starNode()
		}
		w.read(x, s.kind, s.by.by, s.at, 0)
	}
	for _, at := range w.back.selves {
		if n := q.anchor(q.subject.Object()); n != 0 {
			w.add(at, n, 0)
		}
	}
}

// step goes up from a state, and notes it if it is one of the closure's.
func (w *closing) step(r reached) {
	q := w.q
	if r.unit == 0 {
		if x := q.at(r.node, w.c.kind); x != 0 && q.scratch.seen.addAt(w.c.id, memberUnit, x, r.hops) {
			q.scratch.members = append(q.scratch.members, x)
		}
	}
	for i := range w.back.ups[r.unit] {
		u := &w.back.ups[r.unit][i]
		w.read(q.at(r.node, u.by.kind), u.kind, u.by.by, u.to, r.hops+1)
	}
}

// read enters all nodes of a kind in whose tuples x stands.
func (w *closing) read(x graph.Node, kind graph.Kind, by *schema.Restriction, to, hops int32) {
	q := w.q
	if x == 0 || !w.good() {
		return
	}
	l := q.reverse(x, kind)
	if w.budget -= l.Len(); w.budget < 0 {
		return
	}
	if !q.visit(l.Len()) {
		q.over = true
		return
	}
	for c := range l.Chunks() {
		for _, e := range l.Chunk(c) {
			switch q.edge(by, e.Node(), graph.EdgeTo(x, e.Detailed())) {
			case expr.True:
				w.add(to, e.Node(), hops)
			case expr.Unknown:
				w.c.useless = true
				return
			}
		}
	}
}

func (w *closing) add(unit int32, n graph.Node, hops int32) {
	s := w.q.scratch
	if s.seen.addAt(w.c.id, unit, n, hops) {
		s.queue = append(s.queue, reached{unit, n, hops})
	}
}
