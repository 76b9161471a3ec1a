package compare

import (
	"context"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/engine/eval"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// expand fills in the candidate subjects of a group of changes, the first time it
// is called for the group.
func (c *comparison) expand(ctx context.Context, g *changeGroup) error {
	if g.expanded || g.anySubject {
		return nil
	}
	g.expanded, g.candidates = true, map[string]struct{}{}
	if c.permission.Subjects != nil {
		// The request names its subjects. Asking about all of them costs less than
		// finding out which of them the tuples concern.
		for _, id := range c.permission.Subjects {
			g.candidates[id] = struct{}{}
		}
		return nil
	}
	for i := range g.tuples {
		t := &g.tuples[i]
		if t.inBefore {
			if err := c.expandTuple(ctx, g, &t.before, &c.before); err != nil {
				return err
			}
		}
		if t.inAfter {
			if err := c.expandTuple(ctx, g, &t.after, &c.after); err != nil {
				return err
			}
		}
		if g.anySubject {
			return nil
		}
	}
	return nil
}

// expandTuple adds the subjects that one tuple of a snapshot concerns: the tuple's
// subject, its members if it is a userset, and the members of what arrows over
// the tuple lead to.
func (c *comparison) expandTuple(ctx context.Context, g *changeGroup, t *rel.Tuple, m *moment) error {
	sub := t.Subject
	switch {
	case sub.IsWildcard():
		g.anySubject = g.anySubject || sub.Type == c.permission.SubjectType
	case sub.Type == c.permission.SubjectType && sub.Relation == c.permission.SubjectRelation:
		g.candidates[sub.ID] = struct{}{}
	}
	if sub.Relation != "" {
		if err := c.expandMembers(ctx, g, sub.Object(), sub.Relation, m); err != nil {
			return err
		}
	}
	s := m.schema.Schema
	tupleset, ok := s.Relation(t.Object.Type, t.Relation)
	if !ok {
		return nil
	}
	targets, kind := map[schema.RelationID]bool{}, kindOf(s, sub)
	for _, arrow := range s.Backward().Arrows[tupleset.ID] {
		if arrow.Restriction.Kind == kind {
			targets[arrow.From] = true
		}
	}
	for id := range targets {
		target := &s.Relations[id]
		if target.Hidden {
			// A hidden relation is a part of a rewrite. The evaluator cannot list its
			// members.
			g.anySubject = true
			return nil
		}
		if err := c.expandMembers(ctx, g, sub.Object(), target.Name, m); err != nil {
			return err
		}
	}
	return nil
}

// expandMembers adds the subjects that have, or may have, a relation on an object
// in a snapshot.
func (c *comparison) expandMembers(ctx context.Context, g *changeGroup, o rel.Object, relation string, m *moment) error {
	l, err := c.list(ctx, m, eval.ListSubjectsQuestion{Object: o, Relation: relation})
	if err != nil {
		return err
	}
	if l.Wildcard != expr.False || l.UnknownCount > len(l.Unknown) {
		g.anySubject = true
		return nil
	}
	for _, ids := range [...][]string{l.IDs, l.Unknown} {
		for _, id := range ids {
			g.candidates[id] = struct{}{}
		}
	}
	return nil
}
