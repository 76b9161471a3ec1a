package query

import (
	"context"
	"time"

	"github.com/ostiary/ostiary/eval"
	"github.com/ostiary/ostiary/internal/errs"
	"github.com/ostiary/ostiary/internal/snapshot"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// ExplainRequest is a check whose answer is explained.
type ExplainRequest struct {
	CheckRequest
	// Options bound the explanation.
	Options eval.ExplainOptions
}

// Explanation is a decision and its reasons. The same question at the same
// revision, schema and time has the same explanation.
type Explanation struct {
	eval.Explanation
	// Revision is that of the view that was read.
	Revision storage.Revision
	// Token names the revision, to ask again with AtExactly.
	Token snapshot.Token
	// Schema is the schema that was used.
	Schema snapshot.SchemaInfo
	// Asked is the time that the question was asked at.
	Asked time.Time
}

// Explain answers a question with the path that leads to the subject, or with
// what was tried without success.
func (a *Answerer) Explain(ctx context.Context, r *ExplainRequest) (Explanation, error) {
	const op = "explain"
	id := a.timeline.ID
	v, b, env, err := a.prepare(ctx, &r.QueryOptions, &r.Object)
	if err == nil {
		err = r.Subject.Validate()
	}
	if err != nil {
		return Explanation{}, errs.Wrap(op, id, err)
	}
	x, err := b.Binding.Explain(ctx, v.Graph, r.Question(), &env, r.Options)
	if err != nil {
		return Explanation{}, errs.Wrap(op, id, err)
	}
	return Explanation{Explanation: x, Revision: v.Head.Revision, Token: a.timeline.Token(v.Head),
		Schema: b.Info, Asked: env.Now.Time()}, nil
}

// ExpandRequest asks for the usersets and subjects that have a relation on an
// object.
type ExpandRequest struct {
	// Object is what the question is about.
	Object rel.Object
	// Relation is a relation of the object's type.
	Relation string
	// Levels is how many levels of usersets are expanded; 0 means 1.
	Levels int
	QueryOptions
}

// Expansion is a tree of the usersets and subjects that have a relation on an
// object.
type Expansion struct {
	*eval.Tree
	// Revision is that of the view that was read.
	Revision storage.Revision
}

// Expand returns who has a relation on an object, as the rewrites of the schema
// and the tuples define it.
func (a *Answerer) Expand(ctx context.Context, r *ExpandRequest) (Expansion, error) {
	const op = "expand"
	v, b, env, err := a.prepare(ctx, &r.QueryOptions, &r.Object)
	if err != nil {
		return Expansion{}, errs.Wrap(op, a.timeline.ID, err)
	}
	tree, err := b.Binding.Expand(ctx, v.Graph, r.Object, r.Relation, r.Levels, &env)
	if err != nil {
		return Expansion{}, errs.Wrap(op, a.timeline.ID, err)
	}
	return Expansion{tree, v.Head.Revision}, nil
}
