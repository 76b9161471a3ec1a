package compare

import (
	"context"
	"errors"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/engine/errs"
	"github.com/ostiary/ostiary/internal/engine/eval"
	"github.com/ostiary/ostiary/internal/engine/query"
	"github.com/ostiary/ostiary/internal/engine/snapshot"
	"github.com/ostiary/ostiary/schema"
)

// comparison compares one permission in two snapshots of one lineage. It finds
// the pairs of object and subject whose decision can differ, and asks the
// evaluator about each pair in both snapshots.
//
// A decision can differ only because of a changed tuple: a tuple that exists, or
// that counts, in only one of the two snapshots. Two things must then hold. The
// tuple's userset (its object and relation) leads to the object of the pair, over
// tuples of either snapshot. And the subject of the pair is a member of the
// tuple's subject, in a snapshot that contains the tuple. So the comparison walks
// from each changed tuple to the affected objects, lists the members of the
// tuple's subject, and asks about these pairs.
type comparison struct {
	timeline      *snapshot.Timeline
	permission    authz.PermissionSelector
	before, after moment
	relation      *schema.Relation // of the permission, in the later schema
	objects       map[string]bool  // permission.Objects; nil selects all
	subjects      map[string]bool  // permission.Subjects; nil selects all
	// schemaChanged is true if the two snapshots have different schemas, so that
	// every object and subject may have changed.
	schemaChanged bool

	// affected holds the ids of the objects that the changes reach, each with the
	// indexes in groups of the changes that reach it.
	affected map[string][]int
	groups   []changeGroup

	page page
}

// moment is one of the two snapshots, with what the evaluator needs.
type moment struct {
	view *snapshot.View
	// schema is nil if the store had no schema yet. No subject has any relation
	// then.
	schema *snapshot.BoundSchema
	env    eval.Env
}

// newComparison prepares the comparison of a permission in two views of one
// lineage. It uses the SchemaID, Context and Bounds of o for both views; without
// SchemaID each view is compared under its own current schema. It fails if the
// later schema lacks a type or a relation of p, or if the context passes a bound.
func newComparison(ctx context.Context, t *snapshot.Timeline, p *authz.PermissionSelector, before, after *snapshot.View, o *authz.QueryOptions) (*comparison, error) {
	c := &comparison{timeline: t, permission: *p, affected: map[string][]int{}}
	later, err := t.Schema(ctx, after, p.ObjectType, o.SchemaID)
	if err != nil {
		return nil, err
	}
	earlier := later
	if o.SchemaID == "" {
		earlier, err = t.Schema(ctx, before, p.ObjectType, "")
		if errors.Is(err, authz.ErrNoSchema) {
			earlier, err = nil, nil
		}
		if err != nil {
			return nil, err
		}
	}
	bounds := errs.QuestionBounds(&t.Runtime.Bounds, o.Bounds)
	c.before = moment{before, earlier, eval.Env{Now: before.AsOf(), Context: o.Context, Bounds: bounds, Memory: t.Runtime.QuestionsMemory, Turns: t.Runtime.Turns}}
	c.after = moment{after, later, eval.Env{Now: after.AsOf(), Context: o.Context, Bounds: bounds, Memory: t.Runtime.QuestionsMemory, Turns: t.Runtime.Turns}}
	if err := query.ValidInput(&t.Runtime.Bounds, later, o); err != nil {
		return nil, err
	}
	c.objects, c.subjects = setOf(p.Objects), setOf(p.Subjects)
	c.schemaChanged = earlier == nil || earlier.Info.ID != later.Info.ID
	return c, c.resolve()
}

// setOf returns ids as a set. The set of nil is nil.
func setOf(ids []string) map[string]bool {
	if ids == nil {
		return nil
	}
	out := make(map[string]bool, len(ids))
	for _, id := range ids {
		out[id] = true
	}
	return out
}

// resolve looks up the names of the permission in the later schema.
func (c *comparison) resolve() error {
	s, p := c.after.schema.Schema, &c.permission
	if _, ok := s.Type(p.ObjectType); !ok {
		return &eval.NameError{Err: eval.ErrNoType, Type: p.ObjectType, Schema: s}
	}
	relation, ok := s.Relation(p.ObjectType, p.Relation)
	if !ok {
		return &eval.NameError{Err: eval.ErrNoRelation, Type: p.ObjectType, Relation: p.Relation, Schema: s}
	}
	c.relation = relation
	if _, ok := s.Type(p.SubjectType); !ok {
		return &eval.NameError{Err: eval.ErrNoType, Type: p.SubjectType, Schema: s}
	}
	if p.SubjectRelation == "" {
		return nil
	}
	if _, ok := s.Relation(p.SubjectType, p.SubjectRelation); !ok {
		return &eval.NameError{Err: eval.ErrNoRelation, Type: p.SubjectType, Relation: p.SubjectRelation, Schema: s}
	}
	return nil
}

// check asks the evaluator one question about one snapshot. The decision is False
// if the snapshot's schema does not have the type or relation yet.
func (c *comparison) check(ctx context.Context, m *moment, q authz.Question) (expr.Tristate, *authz.Reasons, error) {
	if m.schema == nil {
		return expr.False, nil, nil
	}
	c.page.count()
	answer, err := m.schema.Binding.Check(ctx, m.view.Graph, q, &m.env)
	if isUnknownName(err) {
		return expr.False, nil, nil
	}
	return answer.Decision, answer.Reasons, err
}

// list asks the evaluator for all subjects of the permission's kind that have a
// relation on an object, in one snapshot. The list is empty if the snapshot's
// schema does not have the type or relation yet. A list that a bound cut short is
// an [authz.BoundError].
func (c *comparison) list(ctx context.Context, m *moment, q eval.ListSubjectsQuestion) (eval.SubjectList, error) {
	if m.schema == nil {
		return eval.SubjectList{}, nil
	}
	q.SubjectType, q.SubjectRelation = c.permission.SubjectType, c.permission.SubjectRelation
	c.page.count()
	l, err := m.schema.Binding.ListSubjects(ctx, m.view.Graph, q, &m.env)
	if isUnknownName(err) {
		return eval.SubjectList{}, nil
	}
	if err == nil && l.Bound != "" {
		nodes := int64(m.env.Bounds.Nodes)
		err = &authz.BoundError{Name: l.Bound, Max: nodes, Got: nodes + 1}
	}
	return l, err
}

func isUnknownName(err error) bool {
	return errors.Is(err, eval.ErrNoType) || errors.Is(err, eval.ErrNoRelation)
}
