package authz

import (
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// UnknownMax bounds the unknown objects or subjects that a list names.
const UnknownMax = 100

// ListObjectsRequest asks for the objects of Type that Subject has Relation on.
type ListObjectsRequest struct {
	// Type is the type of the objects.
	Type string
	// Relation is a relation of the type.
	Relation string
	// Subject is a plain subject, a userset or a wildcard.
	Subject rel.Subject
	// Scope restricts the search for objects. While the search looks for
	// candidates, a tuple or an attribute of an object counts only if Scope has
	// no entry for the type of the object, or if the entry has the id of the object.
	// Each operand of an intersection or an exclusion can make an object a candidate.
	// The list has the candidates for which check is true, and that check sees
	// everything. Scope has at most [ScopeIDsMax] ids. Nil means no restriction.
	Scope map[string][]string
	// Limit is the largest number of ids; 0 means Bounds.ListItems.
	Limit int
	// UnknownPerPage ends the search at the end of the page. The Unknown,
	// UnknownCount and Reasons of the result then cover this page only: from its first
	// entry to the first one that follows it. All pages together report every unknown
	// entry; the few between two pages may be reported by both. By default each page
	// reports the unknown entries of the whole list, and costs as much as the list.
	UnknownPerPage bool
	// Cursor is the Next of the page before; "" asks for the first page. A cursor
	// replaces Consistency.
	Cursor string
	QueryOptions
}

// ObjectList is a page of the objects whose check is true. The order is the same
// in every process and after a restart.
//
// An object that is in no tuple and has no attribute is in no list, unless it
// is the own object of the subject (group:1#member is a member of itself).
type ObjectList struct {
	// IDs are the ids of the objects.
	IDs []string
	// More is true if the list continues.
	More bool
	// Next is the cursor of the next page; "" on the last one.
	Next string

	// Unknown are the ids of the first [UnknownMax] objects for which check is
	// unknown, in the same order. With schema.Options.MissingContextFails, an
	// edge that does not lead to the subject adds no object to them.
	Unknown []string
	// UnknownCount is the number of objects for which check is unknown, in the
	// whole list or in the range of the page; see [ListObjectsRequest].UnknownPerPage.
	UnknownCount int
	// Reasons are the reasons of all those objects; nil if there are none.
	Reasons *Reasons

	// Bound names the bound that stopped the search; "" means that the list is
	// complete. Every object in IDs is right in both cases.
	Bound string
	// Stats count the work that the list took.
	Stats Stats
	// Revision is that of the view that was read.
	Revision storage.Revision
}

// ListSubjectsRequest asks who has Relation on Object: the plain subjects of
// SubjectType, or its usersets SubjectType#SubjectRelation.
type ListSubjectsRequest struct {
	// Object is what the question is about.
	Object rel.Object
	// Relation is a relation of the object's type.
	Relation string
	// SubjectType is the type of the subjects.
	SubjectType string
	// SubjectRelation is the relation of the usersets; "" means plain subjects.
	SubjectRelation string
	// Named asks for all subjects by name. If strangers have the relation (see
	// [SubjectList]), IDs then also has every stranger that is a subject of
	// any tuple, stored or contextual, and Excluded stays empty.
	Named bool
	// Limit is the largest number of ids in IDs and Excluded; 0 means
	// Bounds.ListItems.
	Limit int
	// UnknownPerPage is as in [ListObjectsRequest].
	UnknownPerPage bool
	// Cursor is as in [ListObjectsRequest].
	Cursor string
	QueryOptions
}

// SubjectList is a page of the subjects whose check is true, in the order of
// [ObjectList].
type SubjectList struct {
	// IDs are the ids of the candidates for which check is true. Their type and
	// relation are those of the request.
	IDs []string
	// Wildcard is the answer of check for every stranger: a subject that no tuple on
	// the way names. It is True if the wildcard SubjectType:* contributes (its own
	// check is then the same), or if a rule or an attribute holds for every subject.
	// Only the latter can hold for usersets that are strangers.
	Wildcard expr.Tristate
	// Excluded are, where Wildcard is not False, the candidates for which
	// check is false, in the same order.
	Excluded []string
	// More is true if the list continues. The Limit of a page counts IDs and
	// Excluded together; Wildcard is on every page.
	More bool
	// Next is as in [ObjectList].
	Next string

	// Unknown, UnknownCount and Reasons report the candidates for which check
	// is unknown, as in [ObjectList]. Reasons also explain an unknown
	// Wildcard. With schema.Options.MissingContextFails, Reasons also have
	// every condition on the way that could not be evaluated.
	Unknown []string
	// UnknownCount is as in [ObjectList].
	UnknownCount int
	// Reasons are nil if there are none.
	Reasons *Reasons

	// Bound names the bound that stopped the search; "" means that the list is
	// complete. Every subject in IDs is right in both cases.
	Bound string
	// Stats count the work that the list took.
	Stats Stats
	// Revision is as in [ObjectList].
	Revision storage.Revision
}
