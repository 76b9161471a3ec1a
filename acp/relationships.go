package acp

import (
	"context"
	"fmt"
	"iter"

	"github.com/ostiary/ostiary/rel"
)

// Relate gives a target, a DID or [AllActors], a relation on an object. existed is
// true if the target already had it. The requester must own the object or be in a
// relation that manages this one, else it fails with [ErrUnauthorized].
func (e *Engine) Relate(ctx context.Context, requester string, o Object, relation, target string) (existed bool, err error) {
	return e.SetRelationship(ctx, requester, Relationship{o, relation, ActorSubject(target)})
}

// Unrelate removes a relation that [Engine.Relate] gave. found is false if the
// target did not have it.
func (e *Engine) Unrelate(ctx context.Context, requester string, o Object, relation, target string) (found bool, err error) {
	return e.DeleteRelationship(ctx, requester, Relationship{o, relation, ActorSubject(target)})
}

// SetRelationship is like [Engine.Relate] for any kind of subject.
func (e *Engine) SetRelationship(ctx context.Context, requester string, x Relationship) (existed bool, err error) {
	const op = "set relationship"
	if err := x.validate(e, requester); err != nil {
		return false, failed(op, err)
	}
	err = e.change(ctx, false, relate(requester, x, &existed))
	return existed, failed(op, err)
}

// DeleteRelationship is like [Engine.Unrelate] for any kind of subject.
func (e *Engine) DeleteRelationship(ctx context.Context, requester string, x Relationship) (found bool, err error) {
	const op = "delete relationship"
	if err := x.validate(e, requester); err != nil {
		return false, failed(op, err)
	}
	err = e.change(ctx, true, unrelate(requester, x, &found))
	return found, failed(op, err)
}

// validate checks the parts of a relationship that do not depend on stored data.
func (x *Relationship) validate(e *Engine, requester string) error {
	if err := e.authenticate(requester); err != nil {
		return err
	}
	if x.Relation == "" || x.Subject == (Subject{}) {
		return fmt.Errorf("%w: expected a relation and a subject in the relationship", ErrInput)
	}
	return nil
}

// RelationshipFilter selects relationships of a policy. An empty field selects
// everything. A filter with a resource or relation that the policy lacks, or with
// an id or a subject that no relationship can have, is an [ErrInput].
type RelationshipFilter struct {
	// Resource, ID and Relation select the object and the relation.
	Resource, ID, Relation string
	// Subject selects the subject; the zero Subject selects every subject.
	Subject Subject
}

// FilterRelationships yields the relationships that a filter selects, including
// those of owners. They are in the policy's order of resources, then in order of
// relation, object and subject. A filter without an object's id and without a
// subject reads the whole resource.
func (e *Engine) FilterRelationships(ctx context.Context, policy string, f RelationshipFilter) iter.Seq2[Relationship, error] {
	return func(yield func(Relationship, error) bool) {
		if err := e.filter(ctx, policy, f, func(x Relationship) bool { return yield(x, nil) }); err != nil {
			yield(Relationship{}, failed("filter relationships", err))
		}
	}
}

func (e *Engine) filter(ctx context.Context, policy string, f RelationshipFilter, yield func(Relationship) bool) error {
	r, err := e.current(ctx)
	if err != nil {
		return err
	}
	t, err := r.table(ctx, policy)
	if err != nil {
		return err
	}
	base, err := e.storedFilter(t, f)
	if err != nil {
		return err
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
				continue // a relation of the engine, not of the policy
			}
			x := Relationship{Object{policy, res.def.Name, ParseStoredID(tuple.Object.ID)}, tuple.Relation, t.outside(tuple.Subject)}
			if !yield(x) {
				return nil
			}
		}
	}
	return nil
}

// storedFilter translates a filter into the store's form, without the object's
// type.
func (e *Engine) storedFilter(t *table, f RelationshipFilter) (out rel.Filter, err error) {
	if f.Resource != "" && t.resources[f.Resource] == nil {
		return out, unknownName(ErrResourceNotFound, f.Resource)
	}
	if f.Relation != "" && !t.hasRelation(f.Resource, f.Relation) {
		return out, unknownName(ErrRelationNotFound, f.Relation)
	}
	out.Relation = f.Relation
	if f.ID != "" {
		if out.ObjectID, err = StoredID(f.ID); err != nil {
			return out, err
		}
	}
	return out, e.filterSubject(t, &out, f.Subject)
}

// hasRelation reports whether a resource has a relation. An empty resource means any
// resource of the policy.
func (t *table) hasRelation(resource, relation string) bool {
	for name, res := range t.resources {
		if _, ok := res.manage[relation]; ok && (resource == "" || resource == name) {
			return true
		}
	}
	return false
}

// filterSubject adds a subject to a filter. The zero Subject selects every subject.
func (e *Engine) filterSubject(t *table, f *rel.Filter, s Subject) error {
	if s == (Subject{}) {
		return nil
	}
	if s.Actor == "" {
		object, err := t.subjectObject(s)
		f.SubjectType, f.SubjectID, f.SubjectRelation, f.SubjectPlain = object.Type, object.ID, s.Relation, s.Relation == ""
		return err
	}
	f.SubjectType, f.SubjectID, f.SubjectPlain = t.actor, s.Actor, true
	return e.validActor(s)
}
