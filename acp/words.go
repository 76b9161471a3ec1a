package acp

import (
	"fmt"
	"strings"

	"github.com/ostiary/ostiary/rel"
)

// Object is something that access is controlled to, such as a document.
type Object struct {
	// Policy is the id of the policy that governs the object.
	Policy string
	// Resource is the object's resource in that policy.
	Resource string
	// ID is the object's id, unique in its resource.
	ID string
}

// String returns "resource:id".

func (o Object) String() string { return o.Resource + ":" + o.ID }

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
		return s.Resource + ":" + s.ID + "#" + s.Relation
	}
	return s.Resource + ":" + s.ID
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

// validID fails with [ErrInvalidID] unless id can be an object's id.
func validID(id string) error {
	switch {
	case id == "" || id == rel.Wildcard:
		return fmt.Errorf("%w: %q: expected a non-empty id other than *", ErrInvalidID, id)
	case len(id) > rel.IDBytesMax:
		return fmt.Errorf("%w: %d bytes, expected at most %d", ErrInvalidID, len(id), rel.IDBytesMax)
	case strings.ContainsFunc(id, func(c rune) bool { return c <= ' ' || c == '#' || c == 0x7f || c == 0xfffd }):
		return fmt.Errorf("%w: %q contains a blank, a control character, a # or invalid UTF-8", ErrInvalidID, id)
	}
	return nil
}

// object returns the object with this id in the store's form.
func (r *resourceTable) object(id string) rel.Object { return rel.Object{Type: r.typ, ID: id} }

// subject translates a subject into the store's form. It fails with
// [ErrRestriction] if the relation's types do not admit the subject.
func (e *Engine) subject(t *table, r *resourceTable, relation string, s Subject) (rel.Subject, error) {
	out, want := rel.Subject{}, SubjectType{s.Resource, s.Relation}
	if s.Actor != "" {
		if s.Resource != "" || s.ID != "" || s.Relation != "" {
			return out, fmt.Errorf("%w: subject has both an actor and an object: expected one of them", ErrInput)
		}
		if s.Actor != AllActors {
			if err := e.dids.validate(s.Actor); err != nil {
				return out, err
			}
		}
		out, want = rel.Subject{Type: t.actor, ID: s.Actor}, SubjectType{t.record.Actor.Name, ""}
	} else {
		if err := validID(s.ID); err != nil {
			return out, err
		}
		if s.Resource == t.record.Actor.Name {
			return out, fmt.Errorf("%w: actors are given by their DID", ErrInput)
		}
		to := t.resources[s.Resource]
		if to == nil {
			return out, fmt.Errorf("%w: %q", ErrResourceNotFound, s.Resource)
		}
		if s.Relation != "" && to.ask[s.Relation] != s.Relation {
			return out, fmt.Errorf("%w: %q", ErrRelationNotFound, s.Relation)
		}
		out = rel.Subject{Type: to.typ, ID: s.ID, Relation: s.Relation}
	}
	for _, admitted := range r.admits[relation] {
		if admitted == want {
			return out, nil
		}
	}
	return out, fmt.Errorf("%w: %s does not accept %s", ErrRestriction, relation, want)
}

// outside translates a stored subject back.
func (t *table) outside(s rel.Subject) Subject {
	if s.Type == t.actor {
		return Subject{Actor: s.ID}
	}
	return Subject{Resource: t.resourceName(s.Type), ID: s.ID, Relation: s.Relation}
}
