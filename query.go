package ostiary

import (
	"context"
	"iter"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/query"
	"github.com/ostiary/ostiary/rel"
)

// Check answers one question. A denial is never an error. An answer that depends
// on missing input, or that exceeds a bound, is unknown and has reasons.
func (s *Store) Check(ctx context.Context, r authz.CheckRequest) (authz.CheckResult, error) {
	return s.answerer.Check(ctx, &r)
}

// CheckBatch answers many requests at one revision, which c chooses, and at one
// time. Each request may have its own schema, input and bounds; successive
// requests that share the same maps and slices are faster.
//
// The results are in the order of the requests. An error of a single request is
// in the Err of its result, whose Decision is False; the other requests are
// answered nevertheless. CheckBatch fails as a whole if there are more requests
// than Bounds.BatchItems, if the revision cannot be read, or if ctx ends. A
// request whose own Consistency is not zero has [authz.ErrInvalidRequest] as its Err.
func (s *Store) CheckBatch(ctx context.Context, requests []authz.CheckRequest, c authz.Consistency) ([]authz.CheckResult, error) {
	return s.answerer.CheckBatch(ctx, requests, c)
}

// Explain answers a question with the path that leads to the subject, or with
// what was tried without success.
func (s *Store) Explain(ctx context.Context, r authz.ExplainRequest) (authz.Explanation, error) {
	return s.answerer.Explain(ctx, &r)
}

// Expand returns who has a relation on an object, as the rewrites of the schema
// and the tuples define it.
func (s *Store) Expand(ctx context.Context, r authz.ExpandRequest) (authz.Expansion, error) {
	return s.answerer.Expand(ctx, &r)
}

// ExpandPage returns a page of what Expand returns, without a bound on the size
// of the whole. All pages read the revision and the time of the first one.
func (s *Store) ExpandPage(ctx context.Context, r authz.ExpandPageRequest) (authz.ExpansionPage, error) {
	return s.answerer.ExpandPage(ctx, &r)
}

// ListObjects returns a page of the objects whose check is true. A page that
// ends at its Limit has a cursor; a search that a bound ended names the bound.
func (s *Store) ListObjects(ctx context.Context, r authz.ListObjectsRequest) (authz.ObjectList, error) {
	return s.answerer.ListObjects(ctx, &r)
}

// ListSubjects returns a page of the subjects whose check is true, as
// [Store.ListObjects] does for objects.
func (s *Store) ListSubjects(ctx context.Context, r authz.ListSubjectsRequest) (authz.SubjectList, error) {
	return s.answerer.ListSubjects(ctx, &r)
}

// FirstSubject returns the id of one plain subject of a type in the stored tuples
// of object#relation, always the same one at a revision. It returns false if
// there is none, and fails if the current schema lacks a type or the relation. It
// uses no other rule of the schema, and omits expired tuples. It is the fastest
// question for relations that have one subject, for example the owner of a
// document.
func (s *Store) FirstSubject(ctx context.Context, object rel.Object, relation, subjectType string) (string, bool, error) {
	return s.SubjectLookup(object.Type, relation, subjectType).First(ctx, object.ID)
}

// SubjectLookup returns a lookup that answers [Store.FirstSubject] for many
// objects of a type.
func (s *Store) SubjectLookup(objectType, relation, subjectType string) *SubjectLookup {
	return &SubjectLookup{s.answerer.SubjectLookup(objectType, relation, subjectType)}
}

// SubjectLookup answers [Store.FirstSubject] for many objects of one type. It looks up
// the names of the types once. It is safe for concurrent use.
type SubjectLookup struct{ lookup *query.SubjectLookup }

// First returns the id of one subject of the object with an id, as
// [Store.FirstSubject] does.
func (l *SubjectLookup) First(ctx context.Context, id string) (string, bool, error) {
	return l.lookup.First(ctx, id)
}

// Read returns a page of the tuples that a filter selects, without expired ones.
// What a page reads depends on its size, and not on how many tuples there are or
// where the page begins. The exceptions are in docs/decisions/0018-pages.md.
func (s *Store) Read(ctx context.Context, r authz.ReadRequest) (authz.TuplePage, error) {
	return s.answerer.Read(ctx, &r)
}

// ReadAttributes returns a page of attributes.
func (s *Store) ReadAttributes(ctx context.Context, r authz.ReadAttributesRequest) (authz.AttributePage, error) {
	return s.answerer.ReadAttributes(ctx, &r)
}

// Export yields all tuples of one revision, without expired ones. They are ordered
// by object type, object, relation, subject type, subject relation and subject:
// types and relations by their bytes, objects and subjects as in lists. So equal
// tuples give equal exports, also after a restart and on another node. Export does
// not hold the tuples in memory.
func (s *Store) Export(ctx context.Context, c authz.Consistency) iter.Seq2[rel.Tuple, error] {
	return s.answerer.Export(ctx, c)
}

// Tuples yields the tuples of one revision that a filter selects, without expired
// ones, in no defined order. It does not hold them in memory. A filter that names
// an object or a subject reads only its tuples; any other reads all tuples of the
// selected types and relations, once.
func (s *Store) Tuples(ctx context.Context, f rel.Filter, c authz.Consistency) iter.Seq2[rel.Tuple, error] {
	return s.answerer.Tuples(ctx, f, c)
}

// RecordedDecisions returns the remembered decisions of the store that are not
// older than within (0: all), oldest first, and at most limit of the newest (0:
// all). It returns nil if [Options].Record is off. The caller must not change
// the questions.
func (s *Store) RecordedDecisions(_ context.Context, within time.Duration, limit int) []authz.RecordedDecision {
	return s.answerer.RecordedDecisions(within, limit)
}
