// Package query answers questions about one store: checks, lists, pages of
// stored tuples and attributes, expansions and explanations. [Answerer] is its
// main type: it chooses the view, finds the schema, checks the input and calls
// the evaluator. [authz.QueryOptions] is what all questions have in common. The package
// never writes.
package query

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/engine/admit"
	"github.com/ostiary/ostiary/internal/engine/errs"
	"github.com/ostiary/ostiary/internal/engine/eval"
	"github.com/ostiary/ostiary/internal/engine/snapshot"
	"github.com/ostiary/ostiary/rel"
)

// digest adds everything except the consistency, because a cursor pins the
// revision.
func addOptions(o *authz.QueryOptions, d *snapshot.Digester) {
	d.Text(o.SchemaID)
	d.Values(o.Context)
	d.Tuples(o.Tuples)
	d.Attributes(o.Attributes)
	d.Bounds(o.Bounds)
}

// Shared is what the answerers of one engine share.
type Shared struct {
	runtime *snapshot.Runtime
	// plain is the environment of a question without input whose answer does not
	// depend on the time. It is only read.
	plain eval.Env
	envs  sync.Pool // of *eval.Env, for all other checks
	// recorder records decisions for a later WhatIf; nil if recording is off.
	recorder *recorder
	// decided is called with each decision; nil is not called.
	decided func(ctx context.Context, d *authz.Decided)
	// counted is called with each decision, or with why there is none; nil is not called.
	counted func(ctx context.Context, d expr.Tristate, err error)
}

// NewShared returns the state that all answerers of an engine share.
func NewShared(r *snapshot.Runtime, o authz.RecordingOptions) *Shared {
	s := &Shared{runtime: r, recorder: newRecorder(o), decided: o.Decided, counted: o.Counted}
	s.plain.Bounds, s.plain.Memory, s.plain.Turns = errs.QuestionBounds(&r.Bounds, authz.QuestionBounds{}), r.QuestionsMemory, r.Turns
	s.envs.New = func() any { return new(eval.Env) }
	return s
}

// release returns an environment to the pool, without references to its request.
func (s *Shared) release(env *eval.Env) {
	*env = eval.Env{}
	s.envs.Put(env)
}

// Answerer answers questions about one store. It is safe for concurrent use.
type Answerer struct {
	timeline *snapshot.Timeline
	shared   *Shared
}

// NewAnswerer returns the answerer of a store.
func NewAnswerer(shared *Shared, t *snapshot.Timeline) *Answerer {
	return &Answerer{timeline: t, shared: shared}
}

// env returns the environment of a question at the time now.
func environment(o *authz.QueryOptions, r *snapshot.Runtime, now rel.Time) eval.Env {
	return eval.Env{Now: now, Context: o.Context, Tuples: o.Tuples, Attributes: o.Attributes, Bounds: errs.QuestionBounds(&r.Bounds, o.Bounds), Memory: r.QuestionsMemory, Turns: r.Turns}
}

// Env returns the environment that the evaluator answers a question on v in.
func Env(t *snapshot.Timeline, v *snapshot.View, o *authz.QueryOptions) eval.Env {
	return environment(o, t.Runtime, t.Now(v))
}

// prepare chooses the view of a question about an object, finds the schema and
// checks the input.
func (a *Answerer) prepare(ctx context.Context, o *authz.QueryOptions, object *rel.Object) (v *snapshot.View, b *snapshot.BoundSchema, env eval.Env, err error) {
	if v, err = a.timeline.At(ctx, o.Consistency); err != nil {
		return nil, nil, env, err
	}
	b, env, err = a.prepareOn(ctx, v, o, object)
	return v, b, env, err
}

// prepareOn is prepare on a view.
func (a *Answerer) prepareOn(ctx context.Context, v *snapshot.View, o *authz.QueryOptions, object *rel.Object) (b *snapshot.BoundSchema, env eval.Env, err error) {
	if err := object.Validate(); err != nil {
		return nil, env, err
	}
	if b, err = a.timeline.Schema(ctx, v, object.Type, o.SchemaID); err != nil {
		return nil, env, err
	}
	return b, Env(a.timeline, v, o), ValidInput(&a.shared.runtime.Bounds, b, o)
}

// contextDepthMax bounds how deep the values of a context are nested.
const contextDepthMax = 64

// ValidInput checks the context and the contextual tuples and attributes of a
// question. The evaluator checks that the schema admits the tuples.
func ValidInput(b *authz.Bounds, schema *snapshot.BoundSchema, o *authz.QueryOptions) error {
	if err := errs.CheckBound("ContextTuples", len(o.Tuples), b.ContextTuples); err != nil {
		return err
	}
	if err := errs.CheckBound("ContextAttributes", len(o.Attributes), b.ContextAttributes); err != nil {
		return err
	}
	for i := range o.Tuples {
		t := &o.Tuples[i]
		if err := t.Validate(); err != nil {
			return err
		}
		if t.Context != "" {
			if err := eval.Admit(schema.Schema, t); err != nil {
				return err
			}
			if err := admit.Context(schema.Schema, t); err != nil {
				return err
			}
		}
	}
	for i := range o.Attributes {
		if err := admit.AttributeKey(&o.Attributes[i]); err != nil {
			return err
		}
		if err := errs.CheckBound("AttributeValueBytesMax", len(o.Attributes[i].Value), authz.AttributeValueBytesMax); err != nil {
			return err
		}
	}
	if o.Context == nil {
		return nil
	}
	remaining := b.ContextBytes
	switch {
	case spend(o.Context, &remaining, contextDepthMax):
		return nil
	case remaining >= 0:
		return &authz.BoundError{Name: "ContextDepth", Max: contextDepthMax, Got: contextDepthMax + 1}
	}
	return &authz.BoundError{Name: "ContextBytes", Max: int64(b.ContextBytes), Got: int64(b.ContextBytes) + 1}
}

// spend subtracts the size of a value from remaining. It returns false if
// nothing remains, or if the value is nested deeper than depth.
func spend(v any, remaining *int, depth int) bool {
	if depth == 0 {
		return false
	}
	switch x := v.(type) {
	case string:
		*remaining -= len(x)
	case json.Number:
		*remaining -= len(x)
	case []any:
		for _, e := range x {
			if !spend(e, remaining, depth-1) {
				return false
			}
		}
	case map[string]any:
		for k, e := range x {
			*remaining -= len(k)
			if !spend(e, remaining, depth-1) {
				return false
			}
		}
	default:
		*remaining -= 8
	}
	return *remaining >= 0
}
