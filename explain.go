package ostiary

import (
	"context"
	"time"

	"github.com/ostiary/ostiary/eval"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// ExplainRequest is a check whose answer comes with its reason.
type ExplainRequest struct {
	CheckRequest
	// Options bound the explanation.
	Options eval.ExplainOptions
}

// Explanation is a decision, why it is so, and of what: the same question at
// the same revision, schema and time has the same explanation.
type Explanation struct {
	eval.Explanation
	Revision storage.Revision
	// Token is the revision's, to ask again with Exactly.
	Token  Token
	Schema SchemaInfo
	// Asked is the time the question was asked at.
	Asked time.Time
}

// Explain answers a question with the path that allowed it, or with what was
// tried in vain.
func (s *Store) Explain(ctx context.Context, r ExplainRequest) (Explanation, error) {
	const op = "explain"
	v, ready, env, err := s.asked(ctx, &r.QueryOptions, &r.Object)
	if err == nil {
		err = r.Subject.Validate()
	}
	if err != nil {
		return Explanation{}, failed(op, s.id, err)
	}
	q := eval.Question{Object: r.Object, Relation: r.Relation, Subject: r.Subject}
	x, err := ready.binding.Explain(ctx, v.graph, q, &env, r.Options)
	if err != nil {
		return Explanation{}, failed(op, s.id, err)
	}
	return Explanation{Explanation: x, Revision: v.head.Revision, Token: s.tokenAt(v.head),
		Schema: ready.info.info(), Asked: env.Now.Time()}, nil
}

// ExpandRequest asks who has a relation on an object, as rewrites and tuples
// say it.
type ExpandRequest struct {
	Object   rel.Object
	Relation string
	// Levels is how deep to expand; 0 is 1.
	Levels int
	QueryOptions
}

// Expansion is a tree of who has a relation on an object.
type Expansion struct {
	*eval.Tree
	Revision storage.Revision
}

// Expand shows who has a relation on an object.
func (s *Store) Expand(ctx context.Context, r ExpandRequest) (Expansion, error) {
	const op = "expand"
	v, ready, env, err := s.asked(ctx, &r.QueryOptions, &r.Object)
	if err != nil {
		return Expansion{}, failed(op, s.id, err)
	}
	tree, err := ready.binding.Expand(ctx, v.graph, r.Object, r.Relation, r.Levels, &env)
	if err != nil {
		return Expansion{}, failed(op, s.id, err)
	}
	return Expansion{tree, v.head.Revision}, nil
}

// asked is what a question on an object is evaluated with.
func (s *Store) asked(ctx context.Context, a *QueryOptions, o *rel.Object) (*view, *readySchema, eval.Env, error) {
	v, err := s.at(ctx, a.Consistency)
	if err != nil {
		return nil, nil, eval.Env{}, err
	}
	if err := o.Validate(); err != nil {
		return nil, nil, eval.Env{}, err
	}
	ready, err := s.ready(ctx, v, o.Type, a.SchemaID)
	if err == nil {
		err = s.engine.validContext(ready, a.Context, a.Tuples, a.Attributes)
	}
	return v, ready, eval.Env{Now: s.nowOf(v), Context: a.Context, Tuples: a.Tuples, Attributes: a.Attributes,
		Bounds: s.engine.within(a.Bounds)}, err
}
