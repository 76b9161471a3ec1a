// Package rel defines the vocabulary of relationship-based access control:
// objects, subjects and the tuples that relate them. Its main types are
// [Tuple], [Object], [Subject] and [Filter]. The package parses, prints and
// compares them. It never stores or evaluates a tuple, and it does not know the
// schema.
//
// Names are compared byte by byte, without case folding or Unicode
// normalization.
package rel

import (
	"math"
	"time"
)

// Wildcard is the id of a subject that means every object of its type:
// "user:*". It has this meaning only in a subject without a relation.
const Wildcard = "*"

// Object names a thing that access is about. Its text is "type:id".
type Object struct {
	// Type is the name of a type: 1 to TypeBytesMax bytes.
	Type string
	// ID is the name of the object within its type: 1 to IDBytesMax bytes. It may
	// contain colons.
	ID string
}

// Subject names what has access: an object ("user:anne"), every object of a
// type ("user:*"), or all members of a relation ("group:eng#member"), which is
// called a userset.
type Subject struct {
	// Type is the name of a type: 1 to TypeBytesMax bytes.
	Type string
	// ID is the name of an object within its type, or [Wildcard].
	ID string
	// Relation is the relation of a userset; "" if the subject is an object or a
	// wildcard.
	Relation string
}

// Tuple states that Subject has Relation on Object. Two tuples with the same
// [Key] are versions of one tuple, even if their conditions differ. Tuples are
// comparable with ==.
type Tuple struct {
	// Object is the object that the tuple gives access to.
	Object Object
	// Relation is the name of the relation: 1 to RelationBytesMax bytes.
	Relation string
	// Subject gets the relation.
	Subject Subject

	// Condition is the name of a condition in the schema. The tuple counts only
	// where the condition holds. "" means no condition.
	Condition string
	// Context holds stored parameters of the condition: a JSON object in the form
	// that [Canonical] returns, at most ContextBytesMax bytes. "" means none.
	Context string
	// Expires is the time from which the tuple no longer counts; 0 means never.
	Expires Time
}

// Key is the identity of a tuple. A store has at most one tuple per key.
type Key struct {
	Object   Object  // see [Tuple.Object]
	Relation string  // see [Tuple.Relation]
	Subject  Subject // see [Tuple.Subject]
}

// Attribute is a typed value of an object. The schema declares its type.
type Attribute struct {
	// Object is the object that has the attribute.
	Object Object
	// Name is the name of the attribute, which is unique per object.
	Name string
	// Value is a scalar or a list of scalars as JSON, in the form that
	// [Canonical] returns.
	Value string
}

// Time is a point in time in nanoseconds since the Unix epoch; 0 means not set.
type Time int64

// The earliest and the latest Time. They lie in the years 1677 and 2262.
const (
	timeMin Time = math.MinInt64 + 1 // so that timeMin-1 does not overflow
	timeMax Time = math.MaxInt64
)

// TimeOf converts t. The zero [time.Time] becomes 0. A time outside the range of
// Time becomes the earliest or the latest Time, so a time in the past stays in
// the past.
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

// Time converts t to UTC; 0 becomes the zero [time.Time].
func (t Time) Time() time.Time {
	if t == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(t)).UTC()
}

// Key returns the identity of t.
func (t Tuple) Key() Key { return Key{t.Object, t.Relation, t.Subject} }

// Expired reports whether t no longer counts at now.
func (t Tuple) Expired(now Time) bool { return t.Expires != 0 && t.Expires <= now }

// IsWildcard reports whether s means every object of its type.
func (s Subject) IsWildcard() bool { return s.ID == Wildcard && s.Relation == "" }

// Object returns the object of s, without the relation.
func (s Subject) Object() Object { return Object{s.Type, s.ID} }

// AsSubject returns o as a subject without a relation.
func (o Object) AsSubject() Subject { return Subject{Type: o.Type, ID: o.ID} }

// String returns "type:id". [ParseObject] reads it back.
func (o Object) String() string { return o.Type + ":" + o.ID }

// String returns "type:id" or "type:id#relation". [ParseSubject] reads it back.
func (s Subject) String() string {
	if s.Relation == "" {
		return s.Type + ":" + s.ID
	}
	return s.Type + ":" + s.ID + "#" + s.Relation
}

// String returns "object#relation@subject".
func (k Key) String() string {
	return k.Object.String() + "#" + k.Relation + "@" + k.Subject.String()
}

// String returns "object#relation@subject". If they are set, " with condition
// {context}" and " until time" follow. [Parse] reads it back.
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

// Filter selects the tuples that match all of its fields. An empty field matches
// any value, so the zero Filter selects every tuple.
type Filter struct {
	ObjectType string // type of the object
	ObjectID   string // id of the object
	Relation   string // relation of the tuple

	SubjectType     string // type of the subject
	SubjectID       string // id of the subject; "*" matches the wildcard alone
	SubjectRelation string // relation of a userset
	// SubjectPlain selects only subjects without a relation. It must be false if
	// SubjectRelation is set.
	SubjectPlain bool
}

// Match reports whether f selects k.
func (f Filter) Match(k Key) bool {
	return (f.ObjectType == "" || f.ObjectType == k.Object.Type) &&
		(f.ObjectID == "" || f.ObjectID == k.Object.ID) &&
		(f.Relation == "" || f.Relation == k.Relation) &&
		(f.SubjectType == "" || f.SubjectType == k.Subject.Type) &&
		(f.SubjectID == "" || f.SubjectID == k.Subject.ID) &&
		(f.SubjectRelation == "" || f.SubjectRelation == k.Subject.Relation) &&
		(!f.SubjectPlain || k.Subject.Relation == "")
}
