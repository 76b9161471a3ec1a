package query

import (
	"context"
	"fmt"
	"reflect"
	"time"
	"unsafe"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/engine/errs"
	"github.com/ostiary/ostiary/internal/engine/eval"
	"github.com/ostiary/ostiary/internal/engine/snapshot"
	"github.com/ostiary/ostiary/internal/tool/turns"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// Question returns the question of a request, without its options.
func Question(r *authz.CheckRequest) authz.Question {
	return authz.Question{Object: r.Object, Relation: r.Relation, Subject: r.Subject}
}

// hasInput reports whether the request has a context or contextual data.
func hasInput(o *authz.QueryOptions) bool {
	return o.Context != nil || len(o.Tuples)|len(o.Attributes) != 0
}

// ValidQuestion rejects ids that no stored tuple can have. Other malformed names
// are allowed: no tuple has them.
func ValidQuestion(o *rel.Object, sub *rel.Subject) error {
	if o.ID == "" || sub.ID == "" || len(o.ID) > rel.IDBytesMax || len(sub.ID) > rel.IDBytesMax {
		if err := o.Validate(); err != nil {
			return err
		}
		return sub.Validate()
	}
	return nil
}

// Check answers one question. A denial is never an error. An answer that
// depends on missing input, or that exceeds a bound, is unknown and has reasons.
func (a *Answerer) Check(ctx context.Context, r *authz.CheckRequest) (authz.CheckResult, error) {
	var end func(err error, figures ...any)
	if begin := a.shared.runtime.Step; begin != nil {
		ctx, end = begin(ctx, "check")
	}
	result, err := a.check(ctx, r)
	if a.shared.counted != nil {
		a.shared.counted(ctx, result.Decision, err)
	}
	if end != nil {
		end(err, append(figures(&result.Stats), "depth", result.Stats.Depth, "result", result.Decision.String())...)
	}
	return result, err
}

// figures are what a question has counted, for the end of its step.
func figures(s *authz.Stats) []any {
	return []any{"nodes", s.Nodes, "probes", s.Probes, "conditions", s.Conditions}
}

// check is Check without counting.
func (a *Answerer) check(ctx context.Context, r *authz.CheckRequest) (authz.CheckResult, error) {
	t := a.timeline
	began := a.began()
	v, err := t.At(ctx, r.Consistency)
	if err != nil {
		return authz.CheckResult{}, errs.Wrap("check", t.ID, err)
	}
	if err := ValidQuestion(&r.Object, &r.Subject); err != nil {
		return authz.CheckResult{}, errs.Wrap("check", t.ID, err)
	}
	b, err := t.Schema(ctx, v, r.Object.Type, r.SchemaID)
	if err != nil {
		return authz.CheckResult{}, errs.Wrap("check", t.ID, err)
	}
	input := hasInput(&r.QueryOptions)
	if input {
		if err := ValidInput(&a.shared.runtime.Bounds, b, &r.QueryOptions); err != nil {
			return authz.CheckResult{}, errs.Wrap("check", t.ID, err)
		}
	}
	env := &a.shared.plain
	timed := input || b.Timed || t.HasExpiring()
	if timed || r.Bounds != (authz.QuestionBounds{}) {
		env = a.shared.envs.Get().(*eval.Env)
		*env = environment(&r.QueryOptions, a.shared.runtime, 0)
		if timed { // reading the clock takes a large part of a check's time
			env.Now = t.Now(v)
		}
	}
	answer, err := b.Binding.Check(ctx, v.Graph, Question(r), env)
	if env != &a.shared.plain {
		a.shared.release(env)
	}
	if err != nil {
		return authz.CheckResult{}, errs.Wrap("check", t.ID, err)
	}
	if a.shared.recorder != nil {
		a.record(r, answer.Decision, v.Head.Revision)
	}
	if a.shared.decided != nil {
		a.decided(ctx, *r, answer, v.Head.Revision, time.Since(began))
	}
	return authz.CheckResult{Answer: answer, Revision: v.Head.Revision}, nil
}

// began returns the current time if somebody wants to know how long a decision takes.
func (a *Answerer) began() (now time.Time) {
	if a.shared.decided != nil {
		now = time.Now()
	}
	return now
}

// decided reports a decision. It copies the question and the answer, because a caller's
// would be allocated even if no decisions are reported.
func (a *Answerer) decided(ctx context.Context, r authz.CheckRequest, answer authz.Answer, revision storage.Revision, took time.Duration) {
	a.shared.decided(ctx, &authz.Decided{Store: a.timeline.ID, Question: &r, Answer: &answer, Revision: revision, Took: took})
}

// CheckBatch answers many requests at one revision, which c chooses, and at one
// time. Each request may have its own schema, input and bounds. Successive
// requests that share the same maps and slices are checked faster.
//
// The results are in the order of the requests. An error of a single request,
// for example a type that the schema lacks, is in the Err of its result, whose
// Decision is False. The other requests are answered nevertheless. CheckBatch
// fails as a whole if there are more requests than Bounds.BatchItems, if the
// revision cannot be read, or if ctx ends. A request whose own Consistency is
// not zero has ErrInvalidRequest as its Err.
func (a *Answerer) CheckBatch(ctx context.Context, requests []authz.CheckRequest, c authz.Consistency) (results []authz.CheckResult, err error) {
	const op = "check batch"
	t := a.timeline
	ctx, end := a.shared.runtime.Begin(ctx, op)
	if end != nil {
		defer func() { end(err, batchFigures(results)...) }()
	}
	began := a.began()
	if err := errs.CheckBound("BatchItems", len(requests), a.shared.runtime.Bounds.BatchItems); err != nil {
		return nil, errs.Wrap(op, t.ID, err)
	}
	v, err := t.At(ctx, c)
	if err != nil {
		return nil, errs.Wrap(op, t.ID, err)
	}
	if len(requests) > batchShort {
		var work *turns.Work
		ctx, work = turns.With(ctx, a.shared.runtime.Turns)
		defer work.End()
	}
	var part turns.Part
	batch := batch{answerer: a, view: v, env: a.shared.envs.Get().(*eval.Env)}
	defer a.shared.release(batch.env)
	batch.env.Now = t.Now(v)
	results = make([]authz.CheckResult, len(requests))
	for i := range requests {
		r := &results[i]
		r.Revision = v.Head.Revision
		r.Answer, err = batch.check(ctx, &requests[i])
		if failed := part.Step(ctx, nil, stepsPerCheck+r.Stats.Nodes); failed != nil {
			return nil, errs.Wrap(op, t.ID, failed)
		}
		if err == nil {
			continue
		}
		if ctx.Err() != nil {
			return nil, errs.Wrap(op, t.ID, ctx.Err())
		}
		r.Answer, r.Err = authz.Answer{Decision: expr.False}, errs.Wrap("check", t.ID, err)
	}
	if a.shared.recorder != nil {
		for i := range results {
			if r := &results[i]; r.Err == nil {
				a.record(&requests[i], r.Decision, r.Revision)
			}
		}
	}
	if a.shared.counted != nil {
		for i := range results {
			a.shared.counted(ctx, results[i].Decision, results[i].Err)
		}
	}
	if a.shared.decided != nil && len(results) > 0 {
		took := time.Since(began) / time.Duration(len(results))
		for i := range results {
			if r := &results[i]; r.Err == nil {
				a.decided(ctx, requests[i], r.Answer, r.Revision, took)
			}
		}
	}
	return results, nil
}

// batchFigures are what the checks of a batch have counted.
func batchFigures(results []authz.CheckResult) []any {
	var all authz.Stats
	for i := range results {
		s := &results[i].Stats
		all.Nodes, all.Probes, all.Conditions = all.Nodes+s.Nodes, all.Probes+s.Probes, all.Conditions+s.Conditions
	}
	return append(figures(&all), "questions", len(results))
}

const (
	// stepsPerCheck is the number of steps of turns.Part that a check of a batch
	// takes apart from its nodes.
	stepsPerCheck = 32
	// batchShort is the number of checks up to which a batch needs no turn of its
	// own, unless a check takes long.
	batchShort = 128
)

// batch is a CheckBatch in progress.
type batch struct {
	answerer *Answerer
	view     *snapshot.View
	env      *eval.Env
	// last is the last request whose options were put into env, and checked under
	// schema; nil if there is none.
	last   *authz.CheckRequest
	schema *snapshot.BoundSchema
}

func (b *batch) check(ctx context.Context, r *authz.CheckRequest) (authz.Answer, error) {
	if r.Consistency != (authz.Consistency{}) {
		return authz.Answer{}, fmt.Errorf("%w: a request of a batch sets Consistency, expected it only for the whole batch", authz.ErrInvalidRequest)
	}
	if err := ValidQuestion(&r.Object, &r.Subject); err != nil {
		return authz.Answer{}, err
	}
	t := b.answerer.timeline
	schema, err := t.Schema(ctx, b.view, r.Object.Type, r.SchemaID)
	if err != nil {
		return authz.Answer{}, err
	}
	if b.last == nil || b.schema != schema || !sharesInput(&b.last.QueryOptions, &r.QueryOptions) {
		b.last = nil
		bounds := &b.answerer.shared.runtime.Bounds
		if err := ValidInput(bounds, schema, &r.QueryOptions); err != nil {
			return authz.Answer{}, err
		}
		*b.env = environment(&r.QueryOptions, b.answerer.shared.runtime, b.env.Now)
		b.last, b.schema = r, schema
	}
	return schema.Binding.Check(ctx, b.view.Graph, Question(r), b.env)
}

// sharesInput reports whether two requests have the same bounds, and the very
// same map and slices as input.
func sharesInput(a, b *authz.QueryOptions) bool {
	return a.Bounds == b.Bounds &&
		len(a.Tuples) == len(b.Tuples) && unsafe.SliceData(a.Tuples) == unsafe.SliceData(b.Tuples) &&
		len(a.Attributes) == len(b.Attributes) && unsafe.SliceData(a.Attributes) == unsafe.SliceData(b.Attributes) &&
		(a.Context == nil && b.Context == nil || reflect.ValueOf(a.Context).Pointer() == reflect.ValueOf(b.Context).Pointer())
}
