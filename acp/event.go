package acp

import (
	"time"

	"github.com/ostiary/ostiary/authz"
)

// EventKind is the kind of change that an [Event] reports.
type EventKind string

// The kinds of events.
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

// Event reports a change that was made.
type Event struct {
	// Kind is the kind of change.
	Kind EventKind
	// Actor is the DID of the actor that made the change. It is "" for the root,
	// which amends registrations.
	Actor string
	// Policy is the policy's id.
	Policy string
	// Object is the changed object. It is zero for changes of policies.
	Object Object
	// Relation is the relation of a changed relationship, else "".
	Relation string
	// Subject is the subject of a changed relationship, or the new owner after a
	// transfer or an amendment.
	Subject Subject
	// Time is when the change was made, by Options.Clock.
	Time time.Time
	// Token is the revision of the change. All events of a batch share it.
	Token authz.Token
}
