package eval

import (
	"slices"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/rel"
)

// subjectPage cuts a page from the candidates of a walk, and decides the
// uncertain ones.
type subjectPage struct {
	// w is the walk.
	w *subjectWalk
	// lq is the question.
	lq *ListSubjectsQuestion
	// list is the result.
	list SubjectList
	// found are the candidates.
	found listEntries
	// cut cuts the page.
	cut pageCutter
	// confirmer decides uncertain candidates; nil if there is none. It is made
	// when the first of them is met.
	confirmer *confirmer
	// confirmerMade is true once confirmer is set.
	confirmerMade bool
}

// page decides what is uncertain and returns the page.
func (w *subjectWalk) page(lq *ListSubjectsQuestion) (SubjectList, error) {
	p := subjectPage{w: w, lq: lq, list: SubjectList{Bound: w.bound}, cut: pageCutter{page: lq.Page}}
	w.decideStrangers(&p.list, lq)
	p.found = w.found()
	entries := p.found.entries
	if lq.UnknownPerPage {
		entries = p.found.after(lq.After)
	}
	var err error
	if lq.Named && p.list.Wildcard == expr.True {
		err = p.addNamed(entries)
	} else {
		p.candidates(entries)
	}
	p.list.More, p.list.Next = p.cut.more, p.cut.last
	if p.list.Bound == "" && w.q.exhausted() {
		p.list.Bound = w.q.boundReached()
	}
	p.list.Stats = w.q.stats
	if err != nil {
		return p.list, err
	}
	return p.list, w.q.failed()
}

// full reports whether the rest of the list does not matter, or cannot be
// decided because the question has failed or is exhausted.
func (p *subjectPage) full() bool {
	return p.lq.UnknownPerPage && p.cut.more || p.w.q.err != nil || p.w.q.exhausted()
}

// candidates takes the candidates alone.
func (p *subjectPage) candidates(entries []orderedID) {
	for ; len(entries) > 0 && !p.full(); entries = entries[1:] {
		p.take(entries[0])
	}
}

// take decides a candidate and puts it on the page.
func (p *subjectPage) take(e orderedID) {
	id, truth := p.found.ids[e.index], expr.True
	if int(e.index) >= p.found.certain {
		truth = p.truth(int(e.index)-p.found.certain, id)
	}
	switch {
	case truth == expr.True && p.cut.take(e.hash, id):
		p.list.IDs = append(p.list.IDs, id)
	case truth == expr.False && p.list.Wildcard != expr.False && !p.lq.Named && p.cut.take(e.hash, id):
		p.list.Excluded = append(p.list.Excluded, id)
	}
}

// truth decides the i-th uncertain candidate.
func (p *subjectPage) truth(i int, id string) expr.Tristate {
	if !p.confirmerMade {
		uncertain := len(p.w.uncertain)
		if p.lq.UnknownPerPage && p.lq.Limit > 0 {
			uncertain = min(uncertain, p.lq.Limit)
		}
		p.confirmer, p.confirmerMade = p.w.confirmer(uncertain), true
	}
	if p.confirmer != nil {
		if truth := p.confirmer.truth(&p.confirmer.root, p.w.uncertain[i]); truth != expr.Unknown {
			return truth
		}
	}
	a := p.w.check(rel.Subject{Type: p.lq.SubjectType, ID: id, Relation: p.lq.SubjectRelation})
	if a.Decision == expr.Unknown {
		p.list.unknown(id, a.Reasons)
	}
	return a.Decision
}

// addNamed takes every named subject of the kind, with the candidates at their
// places among them.
func (p *subjectPage) addNamed(entries []orderedID) error {
	v := p.w.q.baseView()
	if v == nil {
		return ErrEnumerate
	}
	c := namedSubjects{view: v, objects: v.Ordered(p.lq.SubjectType, OrderHash), relation: p.lq.SubjectRelation,
		starIsOrdinary: p.w.q.b.s.Options.StarIsOrdinary, page: p}
	if p.lq.UnknownPerPage && p.lq.After != (Position{}) {
		c.objects.Skip(p.lq.After.Hash)
	}
	c.addContextual()
	for at, ok := c.next(); ok && !p.full(); at, ok = c.next() {
		for len(entries) > 0 && p.position(entries[0]).Compare(at) < 0 {
			p.take(entries[0])
			entries = entries[1:]
		}
		switch {
		case len(entries) > 0 && p.position(entries[0]) == at:
			p.take(entries[0])
			entries = entries[1:]
		case p.cut.take(at.Hash, at.ID):
			p.list.IDs = append(p.list.IDs, at.ID)
		}
	}
	p.candidates(entries)
	p.list.Bound = p.w.bound
	return nil
}

// position returns the position of an entry.
func (p *subjectPage) position(e orderedID) Position { return Position{e.hash, p.found.ids[e.index]} }

// namedSubjects iterates, in the list's order, over all subjects of a kind
// that are in any tuple, stored or contextual.
type namedSubjects struct {
	// page is the page to fill.
	page *subjectPage
	// view holds the stored data.
	view *graph.View
	// objects iterates over the stored objects in the list's order.
	objects graph.Ordered
	// relation is the usersets' relation; "" for plain subjects.
	relation string
	// starIsOrdinary is schema.Options.StarIsOrdinary.
	starIsOrdinary bool
	// contextual are the positions of subjects in contextual tuples that are
	// still to come.
	contextual []Position
	// stored is the position of the next stored subject, if hasStored.
	stored Position
	// hasStored is false at the end of the stored subjects.
	hasStored bool
}

// addContextual collects the subjects of contextual tuples, and reads the
// first stored one.
func (c *namedSubjects) addContextual() {
	for i := range c.page.w.q.env.Tuples {
		s := &c.page.w.q.env.Tuples[i].Subject
		if s.Type == c.page.lq.SubjectType && s.Relation == c.relation && (c.starIsOrdinary || !s.IsWildcard()) {
			c.contextual = append(c.contextual, PositionOf(s.ID))
		}
	}
	slices.SortFunc(c.contextual, Position.Compare)
	c.contextual = slices.Compact(c.contextual)
	c.readStored()
}

// readStored goes to the next stored subject.
func (c *namedSubjects) readStored() {
	c.hasStored = false
	for n := c.objects.Next(); n != 0 && c.page.w.visit(1); n = c.objects.Next() {
		if c.view.IsSubject(n, c.relation, c.starIsOrdinary) {
			c.stored, c.hasStored = PositionOf(c.view.ID(n)), true
			return
		}
	}
}

// next returns the next subject's position; false at the end.
func (c *namedSubjects) next() (Position, bool) {
	at := c.stored
	switch {
	case len(c.contextual) > 0 && (!c.hasStored || c.contextual[0].Compare(at) <= 0):
		at = c.contextual[0]
		c.contextual = c.contextual[1:]
		if c.hasStored && at == c.stored {
			c.readStored()
		}
	case c.hasStored:
		c.readStored()
	default:
		return Position{}, false
	}
	return at, true
}
