package ostiary

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/ostiary/ostiary/eval"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// QueryOptions is what every question may say besides itself. The zero QueryOptions asks the
// newest view here, under the current schema, with nothing from the request.
type QueryOptions struct {
	// Consistency chooses the revision.
	Consistency Consistency
	// SchemaID names the schema; "" is the current one of the type's namespace.
	SchemaID string
	// Context holds the conditions' request parameters; it is not changed.
	Context expr.Values
	// Tuples and Attributes are contextual: valid for this question, admitted by
	// the schema as stored ones are, never stored.
	Tuples     []rel.Tuple
	Attributes []rel.Attribute
	// Bounds may ask for less than the engine's Bounds; more is cut to these.
	Bounds eval.Bounds
}

// CheckRequest asks whether Subject has Relation on Object.
type CheckRequest struct {
	Object   rel.Object
	Relation string
	Subject  rel.Subject
	QueryOptions
}

// CheckResult is a decision of three values.
type CheckResult struct {
	Decision expr.Tristate
	// Reasons say why Truth is Unknown; nil otherwise.
	Reasons *eval.Reasons
	// Revision is that of the view that was asked.
	Revision storage.Revision
	Stats    eval.Stats
	// Err is a question's own error within a Batch; nil elsewhere.
	Err error
}

// Allowed says whether the decision is a clear yes. Whatever else it is, is
// not.
func (r CheckResult) Allowed() bool { return r.Decision == expr.True }

// Check answers one question. A decision is never an error; an answer that
// hangs on what is missing or beyond a bound is Unknown, with its reasons.
func (s *Store) Check(ctx context.Context, r CheckRequest) (CheckResult, error) {
	var v *view
	if r.Consistency.mode == atNewest {
		v = s.newest.Load()
	}
	if v == nil || !s.used.Load() {
		var err error
		if v, err = s.at(ctx, r.Consistency); err != nil {
			return CheckResult{}, failed("check", s.id, err)
		}
	}
	if err := validQuestion(&r.Object, &r.Subject); err != nil {
		return CheckResult{}, failed("check", s.id, err)
	}
	var ready *readySchema
	if b := v.schemas.find(r.Object.Type); b != nil && r.SchemaID == "" {
		ready = b.ready.Load()
	}
	if ready == nil {
		var err error
		if ready, err = s.ready(ctx, v, r.Object.Type, r.SchemaID); err != nil {
			return CheckResult{}, failed("check", s.id, err)
		}
	}
	if r.Context != nil || len(r.Tuples)|len(r.Attributes) != 0 {
		if err := s.engine.validContext(ready, r.Context, r.Tuples, r.Attributes); err != nil {
			return CheckResult{}, failed("check", s.id, err)
		}
	}
	env := &s.engine.plain
	timed := r.Context != nil || len(r.Tuples)|len(r.Attributes) != 0 || ready.timed || s.expiring.Load()
	if timed || r.Bounds.Depth|r.Bounds.Nodes != 0 {
		env = s.engine.envs.Get().(*eval.Env)
		*env = eval.Env{Context: r.Context, Tuples: r.Tuples, Attributes: r.Attributes, Bounds: s.engine.within(r.Bounds)}
		if timed { // the clock is a good part of a check
			env.Now = s.nowOf(v)
		}
	}
	a, err := ready.binding.Check(ctx, v.graph, eval.Question{Object: r.Object, Relation: r.Relation, Subject: r.Subject}, env)
	if env != &s.engine.plain {
		s.engine.putEnv(env)
	}
	if err != nil {
		return CheckResult{}, failed("check", s.id, err)
	}
	if s.engine.recorder != nil {
		s.record(&r, a.Decision, v.head.Revision)
	}
	return CheckResult{Decision: a.Decision, Reasons: a.Reasons, Revision: v.head.Revision, Stats: a.Stats}, nil
}

// Batch answers questions at one revision and one time, each as Check would.
// A question's own error (a type or relation that the schema lacks) is in its
// result; an error of the whole is returned.
func (s *Store) Batch(ctx context.Context, questions []eval.Question, a QueryOptions) ([]CheckResult, error) {
	const op = "batch"
	if err := over("BatchItems", len(questions), s.engine.opts.Bounds.BatchItems); err != nil {
		return nil, failed(op, s.id, err)
	}
	v, err := s.at(ctx, a.Consistency)
	if err != nil {
		return nil, failed(op, s.id, err)
	}
	env := eval.Env{Now: s.nowOf(v), Context: a.Context, Tuples: a.Tuples, Attributes: a.Attributes, Bounds: s.engine.within(a.Bounds)}
	results := make([]CheckResult, len(questions))
	var last *readySchema
	for i := range questions {
		q, r := &questions[i], &results[i]
		r.Revision = v.head.Revision
		ready, err := s.question(ctx, v, q, a.SchemaID)
		if err == nil && ready != last {
			err = s.engine.validContext(ready, a.Context, a.Tuples, a.Attributes)
			last = ready
		}
		if err == nil {
			var answer eval.Answer
			answer, err = ready.binding.Check(ctx, v.graph, *q, &env)
			r.Decision, r.Reasons, r.Stats = answer.Decision, answer.Reasons, answer.Stats
		}
		if err != nil {
			if ctx.Err() != nil {
				return nil, failed(op, s.id, ctx.Err())
			}
			r.Decision, r.Err = expr.False, failed("check", s.id, err)
			last = nil
		}
	}
	if s.engine.recorder != nil {
		s.recordBatch(questions, &a, results)
	}
	return results, nil
}

// question checks a question's form and finds its schema.
func (s *Store) question(ctx context.Context, v *view, q *eval.Question, schemaID string) (*readySchema, error) {
	if err := validQuestion(&q.Object, &q.Subject); err != nil {
		return nil, err
	}
	return s.ready(ctx, v, q.Object.Type, schemaID)
}

// nowOf is the time that questions on v are asked at: the request's arrival,
// or the commit time of a revision that was asked for by name.
func (s *Store) nowOf(v *view) rel.Time {
	if v.past {
		return v.head.Time
	}
	return s.engine.now()
}

// putEnv gives an Env back, without what its question brought.
func (e *Engine) putEnv(env *eval.Env) {
	*env = eval.Env{}
	e.envs.Put(env)
}

// within cuts a question's bounds to the engine's.
func (e *Engine) within(b eval.Bounds) eval.Bounds {
	most := &e.opts.Bounds
	if b.Depth <= 0 {
		b.Depth = most.Depth
	}
	b.Depth = min(b.Depth, most.DepthMax)
	if b.Nodes <= 0 || b.Nodes > most.Nodes {
		b.Nodes = most.Nodes
	}
	return b
}

// validQuestion refuses names that nothing stored can have. What stands in no
// tuple needs no closer look: it is found nowhere.
func validQuestion(o *rel.Object, sub *rel.Subject) error {
	if o.ID == "" || sub.ID == "" || len(o.ID) > rel.IDBytesMax || len(sub.ID) > rel.IDBytesMax {
		if err := o.Validate(); err != nil {
			return err
		}
		return sub.Validate()
	}
	return nil
}

// validContext checks what a request brings along, but for what the evaluator
// itself admits.
func (e *Engine) validContext(ready *readySchema, context expr.Values, tuples []rel.Tuple, attributes []rel.Attribute) error {
	b := &e.opts.Bounds
	if err := over("ContextTuples", len(tuples), b.ContextTuples); err != nil {
		return err
	}
	if err := over("ContextAttributes", len(attributes), b.ContextAttributes); err != nil {
		return err
	}
	for i := range tuples {
		t := &tuples[i]
		if err := t.Validate(); err != nil {
			return err
		}
		if t.Context != "" {
			if err := eval.Admit(ready.schema, t); err != nil {
				return err
			}
			if err := admittedContext(ready.schema, t); err != nil {
				return err
			}
		}
	}
	for i := range attributes {
		if err := validAttributeKey(&attributes[i]); err != nil {
			return err
		}
		if err := over("AttributeValueBytesMax", len(attributes[i].Value), AttributeValueBytesMax); err != nil {
			return err
		}
	}
	if context == nil {
		return nil
	}
	left := b.ContextBytes
	switch {
	case fits(context, &left, contextDepthMax):
		return nil
	case left >= 0:
		return &BoundError{"ContextDepth", contextDepthMax, contextDepthMax + 1}
	}
	return &BoundError{"ContextBytes", int64(b.ContextBytes), int64(b.ContextBytes) + 1}
}

// contextDepthMax bounds how deep a context's values lie in each other.
const contextDepthMax = 64

// fits counts a value's names and texts against what is left.
func fits(v any, left *int, depth int) bool {
	if depth == 0 {
		return false
	}
	switch x := v.(type) {
	case string:
		*left -= len(x)
	case json.Number:
		*left -= len(x)
	case []any:
		for _, e := range x {
			if !fits(e, left, depth-1) {
				return false
			}
		}
	case map[string]any:
		for k, e := range x {
			*left -= len(k)
			if !fits(e, left, depth-1) {
				return false
			}
		}
	default:
		*left -= 8
	}
	return *left >= 0
}

// String shows a decision in a line.
func (r CheckResult) String() string {
	if r.Reasons == nil {
		return r.Decision.String()
	}
	return fmt.Sprintf("%s (%s)", r.Decision, r.Reasons)
}
