// Package rows answers questions from a program's own data: without an engine, a store
// or a stored tuple. An [Evaluator] reads the rows of one request through
// [authz.Rows], which the program implements over its tables, and has the meaning of
// every other answer (docs/semantics.md). The package writes nothing.
package rows

import (
	"context"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/engine/errs"
	"github.com/ostiary/ostiary/internal/engine/eval"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
)

// Evaluator answers the questions of one request. It reads each list of rows at most
// once, and keeps it. It is not safe for concurrent use.
type Evaluator struct {
	binding *eval.Binding
	reader  eval.Reader
	env     eval.Env
}

// Options are what all questions of an [Evaluator] have in common.
type Options struct {
	// Now is the time of the questions: a tuple that has expired by then does not
	// count. At the zero time nothing has expired.
	Now time.Time
	// Context has the parameters of conditions.
	Context expr.Values
	// Tuples and Attributes count in addition to the rows. The schema must admit them.
	Tuples []rel.Tuple
	// Attributes are described at Tuples.
	Attributes []rel.Attribute
	// Bounds limit the work of one question.
	Bounds authz.QuestionBounds
}

// New returns an evaluator of a schema over rows. Make one for each request, and a new
// one when the rows may have changed.
func New(s *schema.Schema, rows authz.Rows, o Options) *Evaluator {
	reader := eval.NewReader(rows)
	return &Evaluator{binding: eval.Bind(s, reader), reader: reader, env: eval.Env{Now: rel.TimeOf(o.Now), Context: o.Context,
		Tuples: o.Tuples, Attributes: o.Attributes, Bounds: o.Bounds}}
}

// Check answers a question. A denial is never an error. It fails with an [authz.Error]:
// with the kind [authz.ErrNoType] or [authz.ErrNoRelation] if the schema lacks a name,
// with [authz.ErrInvalidTuple] if it does not admit a tuple of the options, and with
// [authz.ErrStorage] if the rows fail.
func (e *Evaluator) Check(ctx context.Context, q authz.Question) (authz.Answer, error) {
	answer, err := e.binding.Check(ctx, e.reader, q, &e.env)
	return answer, errs.Wrap("check", storage.StoreID{}, err)
}

// ListObjects returns all objects of a type on which a subject has a relation. The list
// has no Next and no Revision. The rows must be an [authz.Reverser]. A relation that an
// attribute or a rule may give to any object cannot be listed. The errors are those of
// Check.
func (e *Evaluator) ListObjects(ctx context.Context, objectType, relation string, subject rel.Subject) (authz.ObjectList, error) {
	l, err := e.binding.ListObjects(ctx, e.reader, eval.ListObjectsQuestion{Type: objectType, Relation: relation, Subject: subject}, &e.env)
	if err != nil {
		return authz.ObjectList{}, errs.Wrap("list objects", storage.StoreID{}, err)
	}
	return authz.ObjectList{IDs: l.IDs, More: l.More, Unknown: l.Unknown, UnknownCount: l.UnknownCount, Reasons: l.Reasons,
		Bound: l.Bound, Stats: l.Stats}, nil
}
