package query

import (
	"context"
	"maps"
	"slices"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/errs"
	"github.com/ostiary/ostiary/internal/engine/eval"
	"github.com/ostiary/ostiary/internal/engine/snapshot"
)

func objectsDigest(r *authz.ListObjectsRequest) snapshot.Digest {
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
	addOptions(&r.QueryOptions, &d)
	return d.Sum()
}

func subjectsDigest(r *authz.ListSubjectsRequest) snapshot.Digest {
	var d snapshot.Digester
	d.Text("subjects")
	d.Object(r.Object)
	d.Text(r.Relation, r.SubjectType, r.SubjectRelation)
	d.Flag(r.Named)
	addOptions(&r.QueryOptions, &d)
	return d.Sum()
}

// ListObjects returns a page of the objects whose check is true.
func (a *Answerer) ListObjects(ctx context.Context, r *authz.ListObjectsRequest) (out authz.ObjectList, err error) {
	const op = "list objects"
	ctx, end := a.shared.runtime.Begin(ctx, op)
	if end != nil {
		defer func() { end(err, append(figures(&out.Stats), "items", len(out.IDs))...) }()
	}
	id := a.timeline.ID
	ids := 0
	for _, list := range r.Scope {
		ids += len(list)
	}
	if err := errs.CheckBound("ScopeIDsMax", ids, authz.ScopeIDsMax); err != nil {
		return authz.ObjectList{}, errs.Wrap(op, id, err)
	}
	p, err := a.page(ctx, pageRequest{options: &r.QueryOptions, typ: r.Type, limit: r.Limit, unknownPerPage: r.UnknownPerPage, cursor: r.Cursor}, func() snapshot.Digest { return objectsDigest(r) })
	if err != nil {
		return authz.ObjectList{}, errs.Wrap(op, id, err)
	}
	if err := r.Subject.Validate(); err != nil {
		return authz.ObjectList{}, errs.Wrap(op, id, err)
	}
	l, err := p.schema.Binding.ListObjects(ctx, p.view.Graph, eval.ListObjectsQuestion{
		Type: r.Type, Relation: r.Relation, Subject: r.Subject, Scope: r.Scope, Page: p.page}, &p.env)
	if err != nil {
		return authz.ObjectList{}, errs.Wrap(op, id, err)
	}
	out = authz.ObjectList{IDs: l.IDs, More: l.More, Unknown: l.Unknown, UnknownCount: l.UnknownCount, Reasons: l.Reasons,
		Bound: l.Bound, Stats: l.Stats, Revision: p.view.Head.Revision}
	if l.More {
		out.Next = a.timeline.Cursor(p.view, objectsDigest(r), []byte(l.Next.ID))
	}
	return out, nil
}

// ListSubjects returns a page of the subjects whose check is true.
func (a *Answerer) ListSubjects(ctx context.Context, r *authz.ListSubjectsRequest) (out authz.SubjectList, err error) {
	const op = "list subjects"
	ctx, end := a.shared.runtime.Begin(ctx, op)
	if end != nil {
		defer func() { end(err, append(figures(&out.Stats), "items", len(out.IDs))...) }()
	}
	id := a.timeline.ID
	p, err := a.page(ctx, pageRequest{options: &r.QueryOptions, typ: r.Object.Type, limit: r.Limit, unknownPerPage: r.UnknownPerPage, cursor: r.Cursor}, func() snapshot.Digest { return subjectsDigest(r) })
	if err != nil {
		return authz.SubjectList{}, errs.Wrap(op, id, err)
	}
	if err := r.Object.Validate(); err != nil {
		return authz.SubjectList{}, errs.Wrap(op, id, err)
	}
	l, err := p.schema.Binding.ListSubjects(ctx, p.view.Graph, eval.ListSubjectsQuestion{
		Object: r.Object, Relation: r.Relation, SubjectType: r.SubjectType, SubjectRelation: r.SubjectRelation,
		Named: r.Named, Page: p.page}, &p.env)
	if err != nil {
		return authz.SubjectList{}, errs.Wrap(op, id, err)
	}
	out = authz.SubjectList{IDs: l.IDs, Wildcard: l.Wildcard, Excluded: l.Excluded, More: l.More, Unknown: l.Unknown, UnknownCount: l.UnknownCount,
		Reasons: l.Reasons, Bound: l.Bound, Stats: l.Stats, Revision: p.view.Head.Revision}
	if l.More {
		out.Next = a.timeline.Cursor(p.view, subjectsDigest(r), []byte(l.Next.ID))
	}
	return out, nil
}

// pageRequest is what both kinds of lists have in common.
type pageRequest struct {
	options        *authz.QueryOptions
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
