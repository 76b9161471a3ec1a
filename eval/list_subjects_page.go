package eval

import (
	"slices"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/graph"
	"github.com/ostiary/ostiary/rel"
)

// subjectPage cuts a page from what a walk found, deciding what is open.
type subjectPage struct {
	w   *subjectWalk
	lq  *ListSubjectsQuestion
	l   SubjectList
	f   found
	cut pager
	// settler decides in bulk; made when the first open entry is met.
	settler *subjectSettler
	settled bool
}

// list decides what is open and cuts the page.
func (w *subjectWalk) list(lq *ListSubjectsQuestion) (SubjectList, error) {
	p := subjectPage{w: w, lq: lq, l: SubjectList{Bound: w.bound}, cut: pager{page: lq.Page}}
	w.wildcard(&p.l, lq)
	p.f = w.found()
	entries := p.f.entries
	if lq.UnknownPerPage {
		after, _ := slices.BinarySearchFunc(entries, lq.After, func(e ranked, after Position) int {
			if (Position{e.hash, p.f.ids[e.at]}).Compare(after) > 0 {
				return 1
			}
			return -1
		})
		entries = entries[after:]
	}
	var err error
	if lq.Named && p.l.Wildcard == expr.True {
		err = p.named(entries)
	} else {
		p.candidates(entries)
	}
	p.l.More, p.l.Next = p.cut.more, p.cut.last
	p.l.Stats = w.q.stats
	if err != nil {
		return p.l, err
	}
	return p.l, w.q.failed()
}

// full says that nothing more need be looked at.
func (p *subjectPage) full() bool { return p.lq.UnknownPerPage && p.cut.more }

// candidates takes the walk's candidates alone.
func (p *subjectPage) candidates(entries []ranked) {
	for ; len(entries) > 0 && !p.full(); entries = entries[1:] {
		p.take(entries[0])
	}
}

// take decides a candidate.
func (p *subjectPage) take(e ranked) {
	id, truth := p.f.ids[e.at], expr.True
	if int(e.at) >= p.f.sure {
		truth = p.truth(int(e.at)-p.f.sure, id)
	}
	switch {
	case truth == expr.True && p.cut.take(e.hash, id):
		p.l.IDs = append(p.l.IDs, id)
	case truth == expr.False && p.l.Wildcard != expr.False && !p.lq.Named && p.cut.take(e.hash, id):
		p.l.Excluded = append(p.l.Excluded, id)
	}
}

// truth decides the i-th open candidate.
func (p *subjectPage) truth(i int, id string) expr.Tristate {
	if !p.settled {
		open := len(p.w.open)
		if p.lq.UnknownPerPage && p.lq.Limit > 0 {
			open = min(open, p.lq.Limit)
		}
		p.settler, p.settled = p.w.settler(open), true
	}
	if p.settler != nil {
		if truth := p.settler.truth(&p.settler.root, p.w.open[i]); truth != expr.Unknown {
			return truth
		}
	}
	a := p.w.check(rel.Subject{Type: p.lq.SubjectType, ID: id, Relation: p.lq.SubjectRelation})
	if a.Decision == expr.Unknown {
		p.l.unknown(id, a.Reasons)
	}
	return a.Decision
}

// named takes all who stand in tuples, in the list's order, and the candidates
// in their places among them.
func (p *subjectPage) named(entries []ranked) error {
	v := p.w.q.under()
	if v == nil {
		return ErrEnumerate
	}
	c := crowd{view: v, objects: v.Ordered(p.lq.SubjectType, OrderHash), relation: p.lq.SubjectRelation,
		star: p.w.q.b.s.Options.StarIsOrdinary, page: p}
	if p.lq.UnknownPerPage && p.lq.After != (Position{}) {
		c.objects.Skip(p.lq.After.Hash)
	}
	c.bring()
	for at, ok := c.next(); ok && !p.full(); at, ok = c.next() {
		for len(entries) > 0 && p.at(entries[0]).Compare(at) < 0 {
			p.take(entries[0])
			entries = entries[1:]
		}
		switch {
		case len(entries) > 0 && p.at(entries[0]) == at:
			p.take(entries[0])
			entries = entries[1:]
		case p.cut.take(at.Hash, at.ID):
			p.l.IDs = append(p.l.IDs, at.ID)
		}
	}
	p.candidates(entries)
	p.l.Bound = p.w.bound
	return nil
}

func (p *subjectPage) at(e ranked) Position { return Position{e.hash, p.f.ids[e.at]} }

// crowd is everybody who stands in a tuple as the wanted subject, stored or
// brought along, in the list's order.
type crowd struct {
	page     *subjectPage
	view     *graph.View
	objects  graph.Ordered
	relation string
	star     bool
	brought  []Position
	stored   Position // the next one of the view, if there
	there    bool
}

// bring begins with the subjects of contextual tuples.
func (c *crowd) bring() {
	for i := range c.page.w.q.env.Tuples {
		s := &c.page.w.q.env.Tuples[i].Subject
		if s.Type == c.page.lq.SubjectType && s.Relation == c.relation && (c.star || !s.IsWildcard()) {
			c.brought = append(c.brought, PositionOf(s.ID))
		}
	}
	slices.SortFunc(c.brought, Position.Compare)
	c.brought = slices.Compact(c.brought)
	c.read()
}

// read goes on to the view's next one.
func (c *crowd) read() {
	c.there = false
	for n := c.objects.Next(); n != 0 && c.page.w.visit(1); n = c.objects.Next() {
		if c.view.IsSubject(n, c.relation, c.star) {
			c.stored, c.there = PositionOf(c.view.ID(n)), true
			return
		}
	}
}

// next returns the next one, false at the end.
func (c *crowd) next() (Position, bool) {
	at := c.stored
	switch {
	case len(c.brought) > 0 && (!c.there || c.brought[0].Compare(at) <= 0):
		at = c.brought[0]
		c.brought = c.brought[1:]
		if c.there && at == c.stored {
			c.read()
		}
	case c.there:
		c.read()
	default:
		return Position{}, false
	}
	return at, true
}
