package authz

import (
	"time"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
)

// PermissionSelector selects the memberships to compare or to watch: Relation on
// objects of ObjectType.
type PermissionSelector struct {
	// ObjectType and Relation name the permission.
	ObjectType, Relation string
	// SubjectType is the type of the subjects. If SubjectRelation is not "", the
	// subjects are the usersets SubjectType#SubjectRelation.
	SubjectType, SubjectRelation string
	// Objects and Subjects are ids. If not nil, only these objects or subjects are
	// selected.
	Objects, Subjects []string
}

// DifferenceRequest asks who gained and who lost a permission between two
// revisions. Each revision is evaluated as of its commit time, or the time that
// [AtTime] chose; the later one, if it is the newest, at the current time.
type DifferenceRequest struct {
	PermissionSelector
	// From is the earlier revision, To the later one.
	From, To Consistency
	// SchemaID names the schema for both revisions; "" selects the schema that was
	// current at each.
	SchemaID string
	// Context holds the conditions' request parameters, for both revisions.
	Context expr.Values
	// Bounds limit each check; see [QuestionBounds].
	Bounds QuestionBounds
	// Limit is the most changes of a page; 0 selects 100. A page may have fewer
	// changes, or none, and a Next all the same: it also ends after
	// Bounds.DifferenceChecks checks.
	Limit int
	// Cursor is the Next of an earlier page, to continue after it. From and To are
	// ignored then.
	Cursor string
}

// DifferenceResult is a page of changes, in the order of lists: by object, then by
// subject. The change of all other subjects comes first for each object.
type DifferenceResult struct {
	// Changes are the pairs of object and subject with two different decisions.
	Changes []PermissionChange
	// Next is the cursor of the next page; "" on the last page.
	Next string
	// UnknownCount counts the pairs of this page whose decision is unknown at both
	// revisions, although something changed that may affect it.
	UnknownCount int
	// From and To are the tokens of the two revisions.
	From, To Token
	// Checked is how many checks and lists the page took.
	Checked int
}

// PermissionChange is a pair of object and subject whose decision changed.
type PermissionChange struct {
	// Object is the object of the permission.
	Object rel.Object
	// Subject is a subject of the selected kind; see AllOthers.
	Subject rel.Subject
	// Before and After are the decisions at the two revisions.
	Before, After expr.Tristate
	// Reasons explain why Before or After is unknown; nil if neither is.
	Reasons *Reasons
	// AllOthers is true if the change applies to every subject but those of Except.
	// Subject is the wildcard then.
	AllOthers bool
	// Except names, if AllOthers is true, subjects with another change, which has
	// an entry of its own, or with no change. At most 100 are named.
	Except []string
	// ExceptCount counts all subjects to which the change does not apply.
	ExceptCount int
}

// Gained reports whether the decision became true. A change from unknown to false
// is neither gained nor lost.
func (c *PermissionChange) Gained() bool { return c.After == expr.True }

// Lost reports whether the decision was true before.
func (c *PermissionChange) Lost() bool { return c.Before == expr.True }

// EntitlementsRequest asks which relations one subject has on some objects, in one
// call, at one revision and one time.
type EntitlementsRequest struct {
	// Subject is the subject of all questions.
	Subject rel.Subject
	// Objects are the objects to ask about; they may have different types.
	Objects []rel.Object
	// Relations are asked about for every object. Nil selects all relations of the
	// object's type, or its permissions if Permissions is true.
	Relations []string
	// Permissions selects, if Relations is nil, the relations that no tuple may
	// name: those that are computed only. For a type without such relations it
	// selects all.
	Permissions bool
	QueryOptions
}

// EntitlementsResult holds what a subject may do.
type EntitlementsResult struct {
	// Objects has one entry for each object of the request, in the same order.
	Objects []ObjectEntitlements
	// Revision is the revision of the answers, Token its token.
	Revision storage.Revision
	Token    Token
	// Stats sums up the work of all questions.
	Stats Stats
}

// ObjectEntitlements holds a subject's relations on one object.
type ObjectEntitlements struct {
	// Object is the object that was asked about.
	Object rel.Object
	// Relations are the relations that the subject has. They are in the order of
	// the request, or in the schema's order if the request names no relations.
	Relations []string
	// Unknown are the relations with an unknown decision, in the same order.
	Unknown []UnknownRelation
	// Err is the reason why the object could not be asked about: the schema lacks
	// its type, or a relation that the request names.
	Err error
}

// UnknownRelation is a relation for which a check is unknown.
type UnknownRelation struct {
	// Relation is the name of the relation.
	Relation string
	// Reasons explain why the check is unknown.
	Reasons *Reasons
}

// WatchNamesMax bounds how many objects and subjects, together, a
// [WatchPermissionRequest] may name.
const WatchNamesMax = 1000

// WatchPermissionRequest asks for the changes of a computed permission as they
// happen. It must name objects or subjects, at most [WatchNamesMax].
type WatchPermissionRequest struct {
	PermissionSelector
	// After is a token: changes after its revision are reported. "" selects the
	// newest revision.
	After Token
	// Context holds the conditions' request parameters.
	Context expr.Values
	// Bounds limit each check; see [QuestionBounds].
	Bounds QuestionBounds
}

// PermissionUpdate lists who gained and who lost a permission since the
// previous update, or since After for the first update.
type PermissionUpdate struct {
	// Revision is the revision that the update leads to, Time its commit time, or the
	// time at which tuples were found expired.
	Revision storage.Revision
	Time     time.Time
	// Token is the token of Revision. A watch with After set to it continues here. It
	// reports again what expired after the commit of Revision.
	Token Token
	// Changes are as in [DifferenceResult].
	Changes []PermissionChange
	// UnknownCount is as in [DifferenceResult].
	UnknownCount int
}

// WhatIfRequest asks questions twice: as the store is, and as it would be after a
// proposed change of the schema, of tuples and attributes, or of both. Nothing is
// stored.
type WhatIfRequest struct {
	// Questions are asked twice each, both times with their own context, contextual
	// tuples and attributes. A question with a SchemaID is asked under that schema
	// before the change; a proposed schema of the same namespace replaces it after the
	// change. Their Consistency must be the zero value.
	Questions []CheckRequest
	// Consistency selects the revision, the same before and after.
	Consistency Consistency
	// Model is the proposed schema. It replaces the current schema of its
	// namespace, and those that questions name. SchemaID names a stored schema instead. Set at most one of them;
	// without one, the schema stays as it is.
	Model    *schema.Model
	SchemaID string
	// Changes are the proposed changes, in the order of a write. Only Add, Remove,
	// RemoveMatching, SetAttributes and RemoveAttributes may be set. The proposed
	// schema must admit what is added. An Add of a live key replaces its tuple, and
	// a Remove of a key that is not live does nothing.
	Changes WriteRequest
}

// WhatIfResult is what a proposal would change, for each question.
type WhatIfResult struct {
	// Items are in the order of the questions. If Partial is not "", the items of
	// the last questions are missing.
	Items []WhatIfItem
	// Gained, Lost and Other count the items without an error that change: to true,
	// from true, and between unknown and false. Failed counts the items with an error
	// before or after the proposed change.
	Gained, Lost, Other, Failed int
	// Partial names the bound that was reached before all questions were asked:
	// "WhatIfNodes" or [BoundTime]. It is "" if all were asked.
	Partial string
	// Revision is the revision of the answers, Token its token.
	Revision storage.Revision
	Token    Token
}

// WhatIfItem holds the two answers to one question: as the store is, and after the
// proposed change.
type WhatIfItem struct{ Before, After CheckResult }

// Changed reports whether the two answers differ: in their decisions, or because
// only one of them is an error.
func (i *WhatIfItem) Changed() bool {
	return i.Before.Decision != i.After.Decision || (i.Before.Err == nil) != (i.After.Err == nil)
}
