// Package rel holds the words of relationship-based access control: objects,
// subjects, relations and the tuples that join them. Its main type is Tuple.
// It parses, prints and compares; it never stores, evaluates or validates
// against a schema.
//
// Names are bytes. Nothing here folds case, accents or blanks.
package rel

import (
	"math"
	"time"
)

// Wildcard is the id that, in a tuple's subject without relation, stands for
// every object of the subject's type ("user:*").
const Wildcard = "*"

// Object names what is acted on, written "type:id".
type Object struct {
	Type string
	ID   string
}

// Subject names who acts: an object ("user:anne"), every object of a type
// ("user:*"), or the members of a relation ("group:eng#member"; Relation is
// not empty then).
type Subject struct {
	Type     string
	ID       string
	Relation string
}

// Tuple states that Subject has Relation on Object, under Condition if there
// is one, until Expires if that is set. Two tuples with the same Key are the
// same tuple, whatever their condition. Tuples are comparable with ==.
type Tuple struct {
	Object   Object
	Relation string
	Subject  Subject

	// Condition names a condition of the schema; "" is none.
	Condition string
	// Context holds the condition's stored parameters as canonical JSON, an
	// object with sorted keys and no white space (see Canonical); "" is none.
	Context string
	// Expires is the time from which the tuple no longer counts; 0 is never.
	Expires Time
}

// Key is a tuple's identity: what may stand in a store once.
type Key struct {
	Object   Object
	Relation string
	Subject  Subject
}

// Attribute is a typed value on an object. The schema declares its type.
type Attribute struct {
	Object Object
	Name   string
	// Value is canonical JSON: a scalar or a list of scalars.
	Value string
}

// Time is nanoseconds since the Unix epoch; 0 is "not set".
type Time int64

// The earliest and the latest Time, in the years 1677 and 2262.
const (
	timeMin Time = math.MinInt64 + 1 // there is something before it
	timeMax Time = math.MaxInt64
)

// TimeOf converts t; the zero time.Time becomes 0. A time beyond what
// nanoseconds can say becomes the earliest or the latest that they can, so that
// what is past stays past.
func TimeOf(t time.Time) Time {
	switch {
	case t.IsZero():
		return 0
	case t.Before(timeMin.Time()):
		return timeMin
	case t.After(timeMax.Time()):
		return timeMax
	}
	return Time(t.UnixNano())
}

// Time converts back, in UTC; 0 becomes the zero time.Time.
func (t Time) Time() time.Time {
	if t == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(t)).UTC()
}

// Key returns the identity of t.
func (t Tuple) Key() Key { return Key{t.Object, t.Relation, t.Subject} }

// Expired says whether t no longer counts at now.
func (t Tuple) Expired(now Time) bool { return t.Expires != 0 && t.Expires <= now }

// IsWildcard says whether s stands for every object of its type.
func (s Subject) IsWildcard() bool { return s.ID == Wildcard && s.Relation == "" }

// Object returns the object that s names, without its relation.
func (s Subject) Object() Object { return Object{s.Type, s.ID} }

// AsSubject returns o as a plain subject.
func (o Object) AsSubject() Subject { return Subject{Type: o.Type, ID: o.ID} }

func (o Object) String() string { return o.Type + ":" + o.ID }

func (s Subject) String() string {
	if s.Relation == "" {
		return s.Type + ":" + s.ID
	}
	return s.Type + ":" + s.ID + "#" + s.Relation
}

func (k Key) String() string {
	return k.Object.String() + "#" + k.Relation + "@" + k.Subject.String()
}

// String prints "object#relation@subject", then " with condition {context}"
// and " until time" where they are set. Parse reads it back.
func (t Tuple) String() string {
	s := t.Key().String()
	if t.Condition != "" {
		s += " with " + t.Condition
		if t.Context != "" {
			s += " " + t.Context
		}
	}
	if t.Expires != 0 {
		s += " until " + t.Expires.Time().Format(time.RFC3339Nano)
	}
	return s
}

// Filter selects tuples. An empty field selects any value, so the zero
// Filter selects all.
type Filter struct {
	ObjectType string
	ObjectID   string
	Relation   string

	SubjectType     string
	SubjectID       string
	SubjectRelation string
	// SubjectPlain selects only subjects without a relation. It is false where
	// SubjectRelation is set.
	SubjectPlain bool
}

// Match says whether f selects k.
func (f Filter) Match(k Key) bool {
	return (f.ObjectType == "" || f.ObjectType == k.Object.Type) &&
		(f.ObjectID == "" || f.ObjectID == k.Object.ID) &&
		(f.Relation == "" || f.Relation == k.Relation) &&
		(f.SubjectType == "" || f.SubjectType == k.Subject.Type) &&
		(f.SubjectID == "" || f.SubjectID == k.Subject.ID) &&
		(f.SubjectRelation == "" || f.SubjectRelation == k.Subject.Relation) &&
		(!f.SubjectPlain || k.Subject.Relation == "")
}
