package compare

import (
	"context"
	"maps"
	"slices"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/engine/eval"
	"github.com/ostiary/ostiary/internal/tool/turns"
	"github.com/ostiary/ostiary/rel"
)

// page is the page of changes that a comparison fills, and its limits.
type page struct {
	limit      int // the most changes
	checksLeft int // how many checks and lists the page may still take
	checks     int // how many it took

	start, end position // it covers the positions after start, up to and including end
	progressed bool     // end is set
	more       bool     // the page is full, and positions follow end

	changes []authz.PermissionChange
	unknown int // see DifferenceResult.UnknownCount
}

// count records one check or list.
func (p *page) count() {
	p.checksLeft--
	p.checks++
}

// reach records that everything up to and including a position is compared.
func (p *page) reach(object, subject string) {
	p.end, p.progressed = position{object, subject, true}, true
}

// full reports whether the page ends here, and records it in more. A page covers
// at least one position, so that a sequence of pages ends.
func (p *page) full() bool {
	p.more = p.progressed && (len(p.changes) >= p.limit || p.checksLeft <= 0)
	return p.more
}

// compare compares the affected objects in the order of their ids, until the page
// is full.
func (c *comparison) compare(ctx context.Context) error {
	start := c.page.start
	var part turns.Part
	for _, id := range slices.SortedFunc(maps.Keys(c.affected), compareIDs) {
		if start.set {
			if order := compareIDs(id, start.object); order < 0 || order == 0 && start.subject == "" {
				continue
			}
		}
		if c.page.full() {
			return nil
		}
		if err := part.Step(ctx, nil, stepsPerQuestion); err != nil {
			return err
		}
		if err := c.compareObject(ctx, id); err != nil || c.page.more {
			return err
		}
		c.page.reach(id, "")
	}
	return nil
}

// compareObject compares the candidate subjects of one object.
func (c *comparison) compareObject(ctx context.Context, id string) error {
	candidates, anySubject := map[string]struct{}{}, false
	for _, i := range c.affected[id] {
		g := &c.groups[i]
		if err := c.expand(ctx, g); err != nil {
			return err
		}
		anySubject = anySubject || g.anySubject
		maps.Copy(candidates, g.candidates)
	}
	o := rel.Object{Type: c.permission.ObjectType, ID: id}
	var listed *listedSubjects
	switch {
	case c.permission.Subjects != nil:
		maps.DeleteFunc(candidates, func(s string, _ struct{}) bool { return !c.subjects[s] })
		if anySubject {
			for _, s := range c.permission.Subjects {
				candidates[s] = struct{}{}
			}
		}
	case anySubject:
		var err error
		if listed, err = c.listSubjects(ctx, o, candidates); err != nil {
			return err
		}
	}
	return c.comparePairs(ctx, o, slices.SortedFunc(maps.Keys(candidates), compareIDs), listed)
}

// comparePairs compares an object's subjects, in order, until the page is full.
// listed is nil if the subjects were not listed.
func (c *comparison) comparePairs(ctx context.Context, o rel.Object, subjects []string, listed *listedSubjects) error {
	start := c.page.start
	resume := start.set && start.object == o.ID
	if listed != nil && listed.others.Before != listed.others.After && !resume {
		listed.findExceptions(subjects)
		c.page.changes = append(c.page.changes, listed.others)
		c.page.reach(o.ID, otherSubjects)
	}
	var part turns.Part
	for _, id := range subjects {
		if err := part.Step(ctx, nil, stepsPerQuestion); err != nil {
			return err
		}
		if resume && start.subject != otherSubjects && compareIDs(id, start.subject) <= 0 {
			continue
		}
		if c.page.full() {
			return nil
		}
		change, known := listed.change(id)
		if !known {
			var err error
			if change, err = c.comparePair(ctx, o, id); err != nil {
				return err
			}
		}
		c.page.reach(o.ID, id)
		if change.Before != change.After {
			c.page.changes = append(c.page.changes, change)
		} else if change.Before == expr.Unknown {
			c.page.unknown++
		}
	}
	return nil
}

// comparePair asks the evaluator about one object and subject, in both snapshots.
func (c *comparison) comparePair(ctx context.Context, o rel.Object, id string) (p authz.PermissionChange, err error) {
	p = authz.PermissionChange{Object: o, Subject: rel.Subject{Type: c.permission.SubjectType, ID: id, Relation: c.permission.SubjectRelation}}
	q := authz.Question{Object: o, Relation: c.permission.Relation, Subject: p.Subject}
	if p.Before, p.Reasons, err = c.check(ctx, &c.before, q); err != nil {
		return p, err
	}
	var reasons *authz.Reasons
	if p.After, reasons, err = c.check(ctx, &c.after, q); reasons != nil {
		p.Reasons = reasons
	}
	return p, err
}

// listedSubjects holds the decisions about all subjects of one object. The
// evaluator's list of each snapshot gives one decision for every subject that
// tuples name, and a common decision for all others.
type listedSubjects struct {
	// others is the change of all subjects that a snapshot's list does not name.
	others authz.PermissionChange
	// before and after hold the decisions of the subjects that the lists name.
	before, after map[string]expr.Tristate
	// incomplete is true if a list left out subjects with unknown decisions.
	incomplete bool
}

// listSubjects lists the subjects of an object in both snapshots, and adds to
// candidates the subjects that either list names.
func (c *comparison) listSubjects(ctx context.Context, o rel.Object, candidates map[string]struct{}) (*listedSubjects, error) {
	x := &listedSubjects{others: authz.PermissionChange{Object: o, AllOthers: true,
		Subject: rel.Subject{Type: c.permission.SubjectType, ID: rel.Wildcard, Relation: c.permission.SubjectRelation}}}
	var err error
	if x.others.Before, x.before, err = c.listMoment(ctx, &c.before, x, candidates); err != nil {
		return nil, err
	}
	if x.others.After, x.after, err = c.listMoment(ctx, &c.after, x, candidates); err != nil {
		return nil, err
	}
	return x, nil
}

// listMoment lists the subjects of an object in one snapshot. It returns one
// common decision for all subjects that the list does not name, and the
// decision of each subject that it names.
func (c *comparison) listMoment(ctx context.Context, m *moment, x *listedSubjects, candidates map[string]struct{}) (others expr.Tristate, named map[string]expr.Tristate, err error) {
	l, err := c.list(ctx, m, eval.ListSubjectsQuestion{Object: x.others.Object, Relation: c.permission.Relation})
	if err != nil {
		return others, nil, err
	}
	named = map[string]expr.Tristate{}
	for decision, ids := range map[expr.Tristate][]string{expr.True: l.IDs, expr.False: l.Excluded, expr.Unknown: l.Unknown} {
		for _, id := range ids {
			candidates[id] = struct{}{}
			named[id] = decision
		}
	}
	if omitted := l.UnknownCount - len(l.Unknown); omitted > 0 {
		x.incomplete = true
		c.page.unknown += omitted
	}
	if l.Wildcard == expr.Unknown {
		x.others.Reasons = l.Reasons
	}
	return l.Wildcard, named, nil
}

// change returns the change of one subject as the lists give it. ok is false if
// the caller must ask the evaluator: x is nil, the lists are incomplete, or a
// decision is unknown and the lists do not give its reasons.
func (x *listedSubjects) change(id string) (p authz.PermissionChange, ok bool) {
	if x == nil || x.incomplete {
		return p, false
	}
	p = authz.PermissionChange{Object: x.others.Object, Subject: x.others.Subject, Before: x.others.Before, After: x.others.After}
	p.Subject.ID = id
	if decision, ok := x.before[id]; ok {
		p.Before = decision
	}
	if decision, ok := x.after[id]; ok {
		p.After = decision
	}
	return p, p.Before != expr.Unknown && p.After != expr.Unknown
}

// findExceptions fills in Except and ExceptCount of others: the subjects whose
// change is another one.
func (x *listedSubjects) findExceptions(subjects []string) {
	for _, id := range subjects {
		p, _ := x.change(id)
		if p.Before == x.others.Before && p.After == x.others.After {
			continue
		}
		if x.others.ExceptCount++; len(x.others.Except) < exceptMax {
			x.others.Except = append(x.others.Except, id)
		}
	}
}
