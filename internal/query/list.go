package query

import (
	"context"
	"maps"
	"slices"

	"github.com/ostiary/ostiary/internal/errs"
	"github.com/ostiary/ostiary/internal/eval"
	"github.com/ostiary/ostiary/internal/limits"
	"github.com/ostiary/ostiary/internal/snapshot"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// ListObjectsRequest asks for the objects of Type that Subject has Relation on.
type ListObjectsRequest struct {
	// Type is the type of the objects.
	Type string
	// Relation is a relation of the type.
	Relation string
	// Subject is a plain subject, a userset or a wildcard.
	Subject rel.Subject
	// Scope restricts the search to tuples and attributes of some objects, by
	// their types; see eval.ListObjectsQuestion. It has at most ScopeIDsMax ids.
	// Nil means no restriction.
	Scope map[string][]string
	// Limit is the largest number of ids; 0 means Bounds.ListItems.
	Limit int
	// UnknownPerPage ends the search at the end of the page. The Unknown,
	// UnknownCount and Reasons of the result then cover this page only; see
	// eval.Page.
	UnknownPerPage bool
	// Cursor is the Next of the page before; "" asks for the first page. A cursor
	// replaces Consistency.
	Cursor string
	QueryOptions
}

// ObjectList is a page of the objects whose check is true. The order is the same
// in every process and after a restart (eval.OrderHash).
type ObjectList struct {
	// ObjectList is the evaluator's page. Next replaces its position.
	eval.ObjectList
	// Next is the cursor of the next page; "" on the last one.
	Next string
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
	// Named returns the ids of all known subjects if a wildcard includes everyone;
	// see eval.ListSubjectsQuestion.
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
	// SubjectList is the evaluator's page. Next replaces its position.
	eval.SubjectList
	// Next is as in [ObjectList].
	Next string
	// Revision is as in [ObjectList].
	Revision storage.Revision
}

func (r *ListObjectsRequest) digest() snapshot.Digest {
	var d snapshot.Digester
	d.Text("objects", r.Type, r.Relation)
	d.Subject(r.Subject)
	d.Flag(r.Scope != nil)
	d.Number(len(r.Scope))
	for _, typ := range slices.Sorted(maps.Keys(r.Scope)) {
		ids := slices.Compact(slices.Sorted(slices.Values(r.Scope[typ])))
		d.Text(typ)
		d.Number(len(ids))
		d.Text(ids...)
	}
	r.QueryOptions.digest(&d)
	return d.Sum()
}

func (r *ListSubjectsRequest) digest() snapshot.Digest {
	var d snapshot.Digester
	d.Text("subjects")
	d.Object(r.Object)
	d.Text(r.Relation, r.SubjectType, r.SubjectRelation)
	d.Flag(r.Named)
	r.QueryOptions.digest(&d)
	return d.Sum()
}

// ListObjects returns a page of the objects whose check is true.
func (a *Answerer) ListObjects(ctx context.Context, r *ListObjectsRequest) (ObjectList, error) {
	const op = "list objects"
	id := a.timeline.ID
	ids := 0
	for _, list := range r.Scope {
		ids += len(list)
	}
	if err := errs.CheckBound("ScopeIDsMax", ids, limits.ScopeIDsMax); err != nil {
		return ObjectList{}, errs.Wrap(op, id, err)
	}
	p, err := a.page(ctx, pageRequest{options: &r.QueryOptions, typ: r.Type, limit: r.Limit, unknownPerPage: r.UnknownPerPage, cursor: r.Cursor}, r.digest)
	if err != nil {
		return ObjectList{}, errs.Wrap(op, id, err)
	}
	if err := r.Subject.Validate(); err != nil {
		return ObjectList{}, errs.Wrap(op, id, err)
	}
	l, err := p.schema.Binding.ListObjects(ctx, p.view.Graph, eval.ListObjectsQuestion{
		Type: r.Type, Relation: r.Relation, Subject: r.Subject, Scope: r.Scope, Page: p.page}, &p.env)
	if err != nil {
		return ObjectList{}, errs.Wrap(op, id, err)
	}
	out := ObjectList{ObjectList: l, Revision: p.view.Head.Revision}
	if l.More {
		out.Next = a.timeline.Cursor(p.view, r.digest(), []byte(l.Next.ID))
	}
	return out, nil
}

// ListSubjects returns a page of the subjects whose check is true.
func (a *Answerer) ListSubjects(ctx context.Context, r *ListSubjectsRequest) (SubjectList, error) {
	const op = "list subjects"
	id := a.timeline.ID
	p, err := a.page(ctx, pageRequest{options: &r.QueryOptions, typ: r.Object.Type, limit: r.Limit, unknownPerPage: r.UnknownPerPage, cursor: r.Cursor}, r.digest)
	if err != nil {
		return SubjectList{}, errs.Wrap(op, id, err)
	}
	if err := r.Object.Validate(); err != nil {
		return SubjectList{}, errs.Wrap(op, id, err)
	}
	l, err := p.schema.Binding.ListSubjects(ctx, p.view.Graph, eval.ListSubjectsQuestion{
		Object: r.Object, Relation: r.Relation, SubjectType: r.SubjectType, SubjectRelation: r.SubjectRelation,
		Named: r.Named, Page: p.page}, &p.env)
	if err != nil {
		return SubjectList{}, errs.Wrap(op, id, err)
	}
	out := SubjectList{SubjectList: l, Revision: p.view.Head.Revision}
	if l.More {
		out.Next = a.timeline.Cursor(p.view, r.digest(), []byte(l.Next.ID))
	}
	return out, nil
}

// pageRequest is what both kinds of lists have in common.
type pageRequest struct {
	options        *QueryOptions
	typ            string
	limit          int
	unknownPerPage bool
	cursor         string
}

// listPage is a page of a list before its evaluation.
type listPage struct {
	view   *snapshot.View
	schema *snapshot.BoundSchema
	env    eval.Env
	page   eval.Page
}

// page chooses the view of a list, finds the schema and checks the input.
// digest is called only if there is a cursor.
func (a *Answerer) page(ctx context.Context, r pageRequest, digest func() snapshot.Digest) (p listPage, err error) {
	bounds := &a.shared.runtime.Bounds
	if err := errs.CheckBound("ListItems", r.limit, bounds.ListItems); err != nil {
		return p, err
	}
	p.page.UnknownPerPage = r.unknownPerPage
	if p.page.Limit = r.limit; r.limit <= 0 {
		p.page.Limit = bounds.ListItems
	}
	var position []byte
	if p.view, position, err = a.timeline.Pinned(ctx, r.options.Consistency, r.cursor, digest); err != nil {
		return p, err
	}
	if len(position) > 0 {
		p.page.After = eval.PositionOf(string(position))
	}
	if p.schema, err = a.timeline.Schema(ctx, p.view, r.typ, r.options.SchemaID); err != nil {
		return p, err
	}
	if err := ValidInput(bounds, p.schema, r.options); err != nil {
		return p, err
	}
	p.env = Env(a.timeline, p.view, r.options)
	return p, nil
}
