package acp

import (
	"fmt"

	"github.com/ostiary/ostiary/rel"
)

// Object is a protected thing, such as a document.
type Object struct {
	// Policy is the id of the policy that governs the object.
	Policy string
	// Resource is the object's resource in that policy.
	Resource string
	// ID is the object's id, unique in its resource. It may have any bytes; see
	// [StoredID] for its length.
	ID string
}

// String returns "resource:id". An id that is not plain is in quotes; see
// [StoredID].
func (o Object) String() string { return o.Resource + ":" + shownID(o.ID) }

// AllActors is the target of a relationship with all actors, including those
// without an identity.
const AllActors = "*"

// Subject is the subject of a relationship: an actor, all actors, an object, or
// a subject set, which contains every subject that has a relation on an object.
type Subject struct {
	// Actor is the DID of an actor, or AllActors. It is "" for objects and subject
	// sets.
	Actor string
	// Resource and ID name the object of an object or subject set.
	Resource, ID string
	// Relation is the relation of a subject set, else "".
	Relation string
}

// String returns the actor, "resource:id", or "resource:id#relation".
func (s Subject) String() string {
	switch {
	case s.Actor != "":
		return s.Actor
	case s.Relation != "":
		return s.Resource + ":" + shownID(s.ID) + "#" + s.Relation
	}
	return s.Resource + ":" + shownID(s.ID)
}

// ActorSubject returns the subject for a DID or [AllActors].
func ActorSubject(target string) Subject { return Subject{Actor: target} }

// Relationship states that Subject has Relation on Object.
type Relationship struct {
	// Object is the object that is shared.
	Object Object
	// Relation is a relation of the object's resource.
	Relation string
	// Subject gets the relation.
	Subject Subject
}

// String returns "resource:id#relation@subject".
func (r Relationship) String() string {
	return r.Object.String() + "#" + r.Relation + "@" + r.Subject.String()
}

// anonymousID is the id, in a check, of an actor without identity. It is not a
// DID, so only relationships with all actors apply to it.
const anonymousID = "~"

// actorID returns the id of an actor in a check. A text that is not a DID occurs
// in no relationship, so it has only what all actors have.
func actorID(actor string) string {
	if actor == "" || actor == AllActors {
		return anonymousID
	}
	return actor
}

// object returns the object with this id in the store's form. It fails as
// [StoredID] does.
func (r *resourceTable) object(id string) (rel.Object, error) {
	stored, err := StoredID(id)
	return rel.Object{Type: r.typ, ID: stored}, err
}

// subject translates a subject into the store's form. It fails with
// [ErrRestriction] if the relation's types do not admit the subject.
func (e *Engine) subject(t *table, r *resourceTable, relation string, s Subject) (rel.Subject, error) {
	out, want := rel.Subject{}, SubjectType{s.Resource, s.Relation}
	if s.Actor != "" {
		if err := e.validActor(s); err != nil {
			return out, err
		}
		out, want = rel.Subject{Type: t.actor, ID: s.Actor}, SubjectType{t.record.Actor.Name, ""}
	} else {
		object, err := t.subjectObject(s)
		if err != nil {
			return out, err
		}
		out = rel.Subject{Type: object.Type, ID: object.ID, Relation: s.Relation}
	}
	for _, admitted := range r.admits[relation] {
		if admitted == want {
			return out, nil
		}
	}
	return out, fmt.Errorf("%w: %s does not accept %s", ErrRestriction, relation, want)
}

// validActor checks a subject that is an actor, or all actors. It fails with
// [ErrInput] if the subject has an object too, and with [ErrInvalidDID].
func (e *Engine) validActor(s Subject) error {
	if s.Resource != "" || s.ID != "" || s.Relation != "" {
		return fmt.Errorf("%w: subject has both an actor and an object: expected one of them", ErrInput)
	}
	if s.Actor == AllActors {
		return nil
	}
	return e.dids.validate(s.Actor)
}

// subjectObject returns the object of a subject that is an object or a subject set,
// in the store's form. It fails with [ErrInput] if the subject's id, resource or
// relation is not one of the policy.
func (t *table) subjectObject(s Subject) (rel.Object, error) {
	if s.Resource == t.record.Actor.Name {
		return rel.Object{}, fmt.Errorf("%w: subject %s: expected the DID of an actor", ErrInput, s)
	}
	to := t.resources[s.Resource]
	if to == nil {
		return rel.Object{}, unknownName(ErrResourceNotFound, s.Resource)
	}
	if s.Relation != "" && to.ask[s.Relation] != s.Relation {
		return rel.Object{}, unknownName(ErrRelationNotFound, s.Relation)
	}
	return to.object(s.ID)
}

// unknownName returns the error of a relationship that names a resource or relation
// which the policy lacks: bad input, and also not found.
func unknownName(kind error, name string) error {
	return fmt.Errorf("%w: %w: %q", ErrInput, kind, name)
}

// outside translates a stored subject back.
func (t *table) outside(s rel.Subject) Subject {
	if s.Type == t.actor {
		return Subject{Actor: s.ID}
	}
	return Subject{Resource: t.resourceName(s.Type), ID: ParseStoredID(s.ID), Relation: s.Relation}
}
