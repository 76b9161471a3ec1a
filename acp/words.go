package acp

import (
	"fmt"
	"strings"

	"github.com/ostiary/ostiary/rel"
)

// Object is what access is controlled to: a document.
type Object struct {
	// Policy is the policy's id.
	Policy   string
	Resource string
	ID       string
}

func (o Object) String() string { return o.Resource + ":" + o.ID }

// AllActors is the target that stands for everybody, with and without an
// identity.
const AllActors = "*"

// Subject is who a relationship is with: an actor (Actor is a DID), all actors
// (Actor is AllActors), an object (Resource and ID), or those who have a
// relation on an object (Relation besides).
type Subject struct {
	Actor                  string
	Resource, ID, Relation string
}

func (s Subject) String() string {
	switch {
	case s.Actor != "":
		return s.Actor
	case s.Relation != "":
		return s.Resource + ":" + s.ID + "#" + s.Relation
	}
	return s.Resource + ":" + s.ID
}

// ActorSubject is a DID, or AllActors, as a subject.
func ActorSubject(target string) Subject { return Subject{Actor: target} }

// Relationship states that Subject has Relation on Object.
type Relationship struct {
	Object   Object
	Relation string
	Subject  Subject
}

func (r Relationship) String() string {
	return r.Object.String() + "#" + r.Relation + "@" + r.Subject.String()
}

// anonymousID stands, in questions, for who has no identity. It is no DID, so
// that relationships with all actors alone hold for it.
const anonymousID = "~"

// actorID is an actor in a question. What is no DID stands in no relationship,
// and is nobody in particular.
func actorID(actor string) string {
	if actor == "" || actor == AllActors {
		return anonymousID
	}
	return actor
}

// validID checks an object's id.
func validID(id string) error {
	switch {
	case id == "" || id == rel.Wildcard:
		return fmt.Errorf("%w: %q", ErrInvalidID, id)
	case len(id) > rel.IDBytesMax:
		return fmt.Errorf("%w: longer than %d bytes", ErrInvalidID, rel.IDBytesMax)
	case strings.ContainsFunc(id, func(c rune) bool { return c <= ' ' || c == '#' || c == 0x7f || c == 0xfffd }):
		return fmt.Errorf("%w: %q has a blank, a control character or a #", ErrInvalidID, id)
	}
	return nil
}

// object is an Object in the store's words.
func (r *resourceTable) object(id string) rel.Object { return rel.Object{Type: r.typ, ID: id} }

// subject translates a subject and holds it against the relation's types.
func (e *Engine) subject(t *table, r *resourceTable, relation string, s Subject) (rel.Subject, error) {
	out, want := rel.Subject{}, SubjectType{s.Resource, s.Relation}
	if s.Actor != "" {
		if s.Resource != "" || s.ID != "" || s.Relation != "" {
			return out, fmt.Errorf("%w: a subject is an actor or an object", ErrInput)
		}
		if s.Actor != AllActors {
			if err := e.sound.validate(s.Actor); err != nil {
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
