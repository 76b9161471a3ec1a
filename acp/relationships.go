package acp

import (
	"context"
	"fmt"
	"iter"

	"github.com/ostiary/ostiary/rel"
)

// Relate gives a target (a DID, or AllActors) a relation on an object. existed
// says that it had it already. The requester owns the object, or is in a
// relation that manages this one.
func (e *Engine) Relate(ctx context.Context, requester string, o Object, relation, target string) (existed bool, err error) {
	return e.SetRelationship(ctx, requester, Relationship{o, relation, ActorSubject(target)})
}

// Unrelate takes it away; found says whether it was there.
func (e *Engine) Unrelate(ctx context.Context, requester string, o Object, relation, target string) (found bool, err error) {
	return e.DeleteRelationship(ctx, requester, Relationship{o, relation, ActorSubject(target)})
}

// SetRelationship is Relate for any subject.
func (e *Engine) SetRelationship(ctx context.Context, requester string, x Relationship) (existed bool, err error) {
	const op = "set relationship"
	if err := x.complete(e, requester); err != nil {
		return false, failed(op, err)
	}
	err = e.change(ctx, false, relate(requester, x, &existed))
	return existed, failed(op, err)
}

// DeleteRelationship is Unrelate for any subject.
func (e *Engine) DeleteRelationship(ctx context.Context, requester string, x Relationship) (found bool, err error) {
	const op = "delete relationship"
	if err := x.complete(e, requester); err != nil {
		return false, failed(op, err)
	}
	err = e.change(ctx, true, unrelate(requester, x, &found))
	return found, failed(op, err)
}

// complete checks what needs no state.
func (x *Relationship) complete(e *Engine, requester string) error {
	if err := e.authenticated(requester); err != nil {
		return err
	}
	if x.Relation == "" || x.Subject == (Subject{}) {
		return fmt.Errorf("%w: a relationship has a relation and a subject", ErrInput)
	}
	return nil
}

// RelationshipFilter selects relationships of a policy. An empty field selects
// any; the zero Subject selects any subject.
type RelationshipFilter struct {
	Resource, ID, Relation string
	Subject                Subject
}

// FilterRelationships yields the relationships that a filter selects, those of
// owners among them, in order of resource (as the policy has them), relation,
// object and subject. Without an object's id or a subject it walks through all
// of the resource.
func (e *Engine) FilterRelationships(ctx context.Context, policy string, f RelationshipFilter) iter.Seq2[Relationship, error] {
	return func(yield func(Relationship, error) bool) {
		if err := e.filter(ctx, policy, f, func(x Relationship) bool { return yield(x, nil) }); err != nil {
			yield(Relationship{}, failed("filter relationships", err))
		}
	}
}

func (e *Engine) filter(ctx context.Context, policy string, f RelationshipFilter, yield func(Relationship) bool) error {
	r := e.run.Load()
	if r == nil {
		return ErrClosed
	}
	t, err := r.table(ctx, policy)
	if err != nil {
		return err
	}
	base := rel.Filter{ObjectID: f.ID, Relation: f.Relation}
	if err := t.filterSubject(&base, f.Subject); err != nil {
		return err
	}
	if f.Resource != "" && t.resources[f.Resource] == nil {
		return fmt.Errorf("%w: %q", ErrResourceNotFound, f.Resource)
	}
	for i := range t.record.Resources {
		res := t.resources[t.record.Resources[i].Name]
		if f.Resource != "" && f.Resource != res.def.Name {
			continue
		}
		base.ObjectType = res.typ
		for tuple, err := range r.tuples(ctx, base) {
			if err != nil {
				return err
			}
			if tuple.Relation != ownerRelation && res.def.relation(tuple.Relation) == nil {
				continue // the engine's own
			}
			x := Relationship{Object{policy, res.def.Name, tuple.Object.ID}, tuple.Relation, t.outside(tuple.Subject)}
			if !yield(x) {
				return nil
			}
		}
	}
	return nil
}

func (t *table) filterSubject(f *rel.Filter, s Subject) error {
	switch {
	case s == (Subject{}):
	case s.Actor != "":
		f.SubjectType, f.SubjectID, f.SubjectPlain = t.actor, s.Actor, true
	default:
		to := t.resources[s.Resource]
		if to == nil {
			return fmt.Errorf("%w: %q", ErrResourceNotFound, s.Resource)
		}
		f.SubjectType, f.SubjectID, f.SubjectRelation, f.SubjectPlain = to.typ, s.ID, s.Relation, s.Relation == ""
	}
	return nil
}
