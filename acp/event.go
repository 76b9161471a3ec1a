package acp

import (
	"time"

	"github.com/ostiary/ostiary"
)

// EventKind says what happened.
type EventKind string

const (
	PolicyCreated       EventKind = "policy created"
	PolicyEdited        EventKind = "policy edited"
	PolicyDeleted       EventKind = "policy deleted"
	ObjectRegistered    EventKind = "object registered"
	ObjectArchived      EventKind = "object archived"
	ObjectUnarchived    EventKind = "object unarchived"
	ObjectTransferred   EventKind = "object transferred"
	RegistrationAmended EventKind = "registration amended"
	RelationshipSet     EventKind = "relationship set"
	RelationshipDeleted EventKind = "relationship deleted"
)

// Event tells of a change after it was made.
type Event struct {
	Kind EventKind
	// Actor is who made it; "" is the root.
	Actor  string
	Policy string
	// Object, Relation and Subject are set as far as they apply. Of a transfer and
	// an amendment, Subject is the new owner.
	Object   Object
	Relation string
	Subject  Subject
	Time     time.Time
	// Token is the revision that the change made; a batch's events share it.
	Token ostiary.Token
}
