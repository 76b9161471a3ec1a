package ostiary

import (
	"context"
	"fmt"

	"github.com/ostiary/ostiary/eval"
	"github.com/ostiary/ostiary/expr"
)

// CheckMany answers requests of which each brings its own schema, context,
// contextual tuples and attributes, and bounds: all of them at one revision,
// the one that at chooses, and at one time. Where the items share what they
// bring, Batch says it once.
//
// Results stand in the order of the requests. A request's own error (a type or
// relation that its schema lacks, contextual tuples beyond the bound) is in its
// result's Err, whose Truth is False; it fails no other request. An error of
// the whole is returned: more requests than Bounds.BatchItems, a revision that
// cannot be had, the context's end. A request says nothing of the revision
// itself: one whose own At is not the zero At has ErrInvalidRequest as its Err.
func (s *Store) CheckMany(ctx context.Context, requests []CheckRequest, at Consistency) ([]CheckResult, error) {
	const op = "check many"
	if err := over("BatchItems", len(requests), s.engine.opts.Bounds.BatchItems); err != nil {
		return nil, failed(op, s.id, err)
	}
	v, err := s.at(ctx, at)
	if err != nil {
		return nil, failed(op, s.id, err)
	}
	now := s.nowOf(v)
	env := s.engine.envs.Get().(*eval.Env)
	defer s.engine.putEnv(env)
	results := make([]CheckResult, len(requests))
	for i := range requests {
		r := &requests[i]
		*env = eval.Env{Now: now, Context: r.Context, Tuples: r.Tuples, Attributes: r.Attributes, Bounds: s.engine.within(r.Bounds)}
		if err := s.checkOne(ctx, v, r, env, &results[i]); err != nil {
			if ctx.Err() != nil {
				return nil, failed(op, s.id, ctx.Err())
			}
			results[i] = CheckResult{Decision: expr.False, Err: failed("check", s.id, err)}
		}
		results[i].Revision = v.head.Revision
	}
	if s.engine.recorder != nil {
		for i := range results {
			if r := &results[i]; r.Err == nil {
				s.record(&requests[i], r.Decision, r.Revision)
			}
		}
	}
	return results, nil
}

// checkOne answers one of many requests on the view that all of them share.
func (s *Store) checkOne(ctx context.Context, v *view, r *CheckRequest, env *eval.Env, result *CheckResult) error {
	if r.Consistency != (Consistency{}) {
		return fmt.Errorf("%w: a request among many chooses no revision", ErrInvalidRequest)
	}
	q := eval.Question{Object: r.Object, Relation: r.Relation, Subject: r.Subject}
	ready, err := s.question(ctx, v, &q, r.SchemaID)
	if err != nil {
		return err
	}
	if err := s.engine.validContext(ready, r.Context, r.Tuples, r.Attributes); err != nil {
		return err
	}
	answer, err := ready.binding.Check(ctx, v.graph, q, env)
	result.Decision, result.Reasons, result.Stats = answer.Decision, answer.Reasons, answer.Stats
	return err
}
