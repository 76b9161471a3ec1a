package ostiary

import (
	"context"

	"github.com/ostiary/ostiary/eval"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// ListObjectsRequest asks for the objects of Type that Subject has Relation
// on.
type ListObjectsRequest struct {
	Type     string
	Relation string
	Subject  rel.Subject
	// Limit is the most ids wanted; 0 is Bounds.ListItems.
	Limit int
	// UnknownPerPage ends the search where the page ends: Unknown, UnknownCount and
	// Reasons then tell of this page's part of the list only (eval.Page.UnknownPerPage).
	UnknownPerPage bool
	// Cursor continues where an earlier page's Next says; it takes At's place.
	Cursor string
	QueryOptions
}

// ObjectList is a page of the objects that check is true for, in an order
// that is the same on every node and after a restart (eval.OrderHash).
type ObjectList struct {
	IDs []string
	// Next is the cursor of the next page; "" ends the list.
	Next string
	// Unknown are the first objects that could not be decided, of UnknownCount in
	// all; Reasons say why.
	Unknown      []string
	UnknownCount int
	Reasons      *eval.Reasons
	// Bound names the bound that cut the search short; "" says that the list is
	// complete.
	Bound    string
	Revision storage.Revision
	Stats    eval.Stats
}

// ListSubjectsRequest asks who has Relation on Object: plain subjects of
// SubjectType, or its usersets SubjectType#SubjectRelation.
type ListSubjectsRequest struct {
	Object          rel.Object
	Relation        string
	SubjectType     string
	SubjectRelation string
	// Named asks for everybody by name, where a stranger has the relation
	// (eval.ListSubjectsQuestion.Named).
	Named bool
	// Limit is the most ids wanted, of both kinds; 0 is Bounds.ListItems.
	Limit int
	// UnknownPerPage is as in ListObjectsRequest.
	UnknownPerPage bool
	Cursor         string
	QueryOptions
}

// SubjectList is a page of the subjects that check is true for, in the order
// of ObjectList.
type SubjectList struct {
	IDs []string
	// Wildcard is what check is for a subject that nothing is known of; Excluded
	// are then those for whom it is false.
	Wildcard expr.Tristate
	Excluded []string
	// Next, Unknown, UnknownCount, Reasons, Bound, Revision and Stats are as in
	// ObjectList.
	Next         string
	Unknown      []string
	UnknownCount int
	Reasons      *eval.Reasons
	Bound        string
	Revision     storage.Revision
	Stats        eval.Stats
}

func (r *ListObjectsRequest) digest() digest {
	var d digester
	d.text("objects", r.Type, r.Relation)
	d.subject(r.Subject)
	d.ask(&r.QueryOptions)
	return d.sum()
}

func (r *ListSubjectsRequest) digest() digest {
	var d digester
	d.text("subjects")
	d.object(r.Object)
	d.text(r.Relation, r.SubjectType, r.SubjectRelation)
	d.flag(r.Named)
	d.ask(&r.QueryOptions)
	return d.sum()
}

// ListObjects lists { x : Check(x) is true }. A page that was cut by Limit has
// a cursor; a search that a bound cut says which.
func (s *Store) ListObjects(ctx context.Context, r ListObjectsRequest) (ObjectList, error) {
	const op = "list objects"
	page := pageRequest{ask: &r.QueryOptions, typ: r.Type, limit: r.Limit, short: r.UnknownPerPage, cursor: r.Cursor}
	if r.Cursor != "" {
		page.digest = r.digest()
	}
	p, err := s.page(ctx, page)
	if err != nil {
		return ObjectList{}, failed(op, s.id, err)
	}
	if err := r.Subject.Validate(); err != nil {
		return ObjectList{}, failed(op, s.id, err)
	}
	l, err := p.ready.binding.ListObjects(ctx, p.view.graph, eval.ListObjectsQuestion{
		Type: r.Type, Relation: r.Relation, Subject: r.Subject, Page: p.page}, &p.env)
	if err != nil {
		return ObjectList{}, failed(op, s.id, err)
	}
	next := ""
	if l.More {
		next = s.cursorText(p.view, r.digest(), []byte(l.Next.ID))
	}
	return ObjectList{IDs: l.IDs, Next: next, Unknown: l.Unknown, UnknownCount: l.UnknownCount,
		Reasons: l.Reasons, Bound: l.Bound, Revision: p.view.head.Revision, Stats: l.Stats}, nil
}

// ListSubjects lists { x : Check(x) is true }, as ListObjects does.
func (s *Store) ListSubjects(ctx context.Context, r ListSubjectsRequest) (SubjectList, error) {
	const op = "list subjects"
	page := pageRequest{ask: &r.QueryOptions, typ: r.Object.Type, limit: r.Limit, short: r.UnknownPerPage, cursor: r.Cursor}
	if r.Cursor != "" {
		page.digest = r.digest()
	}
	p, err := s.page(ctx, page)
	if err != nil {
		return SubjectList{}, failed(op, s.id, err)
	}
	if err := r.Object.Validate(); err != nil {
		return SubjectList{}, failed(op, s.id, err)
	}
	l, err := p.ready.binding.ListSubjects(ctx, p.view.graph, eval.ListSubjectsQuestion{
		Object: r.Object, Relation: r.Relation, SubjectType: r.SubjectType, SubjectRelation: r.SubjectRelation,
		Named: r.Named, Page: p.page}, &p.env)
	if err != nil {
		return SubjectList{}, failed(op, s.id, err)
	}
	next := ""
	if l.More {
		next = s.cursorText(p.view, r.digest(), []byte(l.Next.ID))
	}
	return SubjectList{IDs: l.IDs, Wildcard: l.Wildcard, Excluded: l.Excluded, Next: next,
		Unknown: l.Unknown, UnknownCount: l.UnknownCount, Reasons: l.Reasons, Bound: l.Bound,
		Revision: p.view.head.Revision, Stats: l.Stats}, nil
}

// pageRequest is what both lists have in common.
type pageRequest struct {
	ask    *QueryOptions
	typ    string
	limit  int
	short  bool
	cursor string
	digest digest // of the question, where there is a cursor
}

// listPage is a list question, ready to be asked.
type listPage struct {
	view  *view
	ready *readySchema
	env   eval.Env
	page  eval.Page
}

func (s *Store) page(ctx context.Context, r pageRequest) (p listPage, err error) {
	most := s.engine.opts.Bounds.ListItems
	if err := over("ListItems", r.limit, most); err != nil {
		return p, err
	}
	p.page.UnknownPerPage = r.short
	if p.page.Limit = r.limit; r.limit <= 0 {
		p.page.Limit = most
	}
	var position []byte
	if p.view, position, err = s.pinned(ctx, r.ask.Consistency, r.cursor, func() digest { return r.digest }); err != nil {
		return p, err
	}
	if len(position) > 0 {
		p.page.After = eval.PositionOf(string(position))
	}
	if p.ready, err = s.ready(ctx, p.view, r.typ, r.ask.SchemaID); err != nil {
		return p, err
	}
	if err := s.engine.validContext(p.ready, r.ask.Context, r.ask.Tuples, r.ask.Attributes); err != nil {
		return p, err
	}
	p.env = eval.Env{Now: s.nowOf(p.view), Context: r.ask.Context, Tuples: r.ask.Tuples,
		Attributes: r.ask.Attributes, Bounds: s.engine.within(r.ask.Bounds)}
	return p, nil
}

// pinned returns the view of a first page by its At, or of a later one by its
// cursor, and the position to go on from.
func (s *Store) pinned(ctx context.Context, a Consistency, cursor string, d func() digest) (*view, []byte, error) {
	if cursor == "" {
		v, err := s.at(ctx, a)
		return v, nil, err
	}
	c, err := readCursor(cursor, d())
	if err != nil {
		return nil, nil, err
	}
	v, err := s.atToken(ctx, c.tokenParts, true)
	if err != nil {
		return nil, nil, err
	}
	p := *v
	p.past = c.past
	return &p, c.position, nil
}
