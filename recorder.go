package ostiary

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ostiary/ostiary/eval"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// RecordingOptions says which decisions the engine remembers, to ask them again under
// a proposal. The zero value remembers none.
type RecordingOptions struct {
	// Decisions is how many of the newest decisions are remembered, of all stores
	// together. Default 0: none, and then no check pays for it.
	Decisions int
	// Bytes bounds the memory that they may take, by estimate. Default 64 MiB.
	Bytes int64
	// Age is how long a decision is remembered. Default one hour.
	Age time.Duration
}

// RecordedDecision is a decision that was made.
type RecordedDecision struct {
	Time time.Time
	// Question is what was asked; its At is the zero one.
	Question CheckRequest
	Decision expr.Tristate
	Revision storage.Revision
}

// recorder remembers decisions in a ring. It is safe for concurrent use.
type recorder struct {
	most  int
	bytes int64
	age   time.Duration

	mu   sync.Mutex
	ring []recorded
	from int // the oldest
	n    int
	held int64
}

type recorded struct {
	RecordedDecision
	store       storage.StoreID
	incarnation storage.Incarnation
	size        int64
}

func newRecorder(o RecordingOptions) *recorder {
	if o.Decisions <= 0 {
		return nil
	}
	set(&o.Age, time.Hour)
	if o.Bytes <= 0 {
		o.Bytes = 64 << 20
	}
	return &recorder{most: o.Decisions, bytes: o.Bytes, age: o.Age}
}

// record remembers a decision: a copy, since what a request brings is its
// caller's.
func (s *Store) record(r *CheckRequest, truth expr.Tristate, revision storage.Revision) {
	c := recorded{RecordedDecision: RecordedDecision{Time: s.engine.opts.Clock(), Question: copyQuestion(r), Decision: truth, Revision: revision},
		store: s.id, incarnation: s.incarnation}
	c.size = questionBytes(&c.Question)
	s.engine.recorder.put(c)
}

func (rc *recorder) put(c recorded) {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	if c.size > rc.bytes {
		return
	}
	for rc.n > 0 && (rc.n == rc.most || rc.held+c.size > rc.bytes) {
		rc.drop()
	}
	if rc.n == len(rc.ring) {
		grown := make([]recorded, min(rc.most, max(64, 2*rc.n)))
		for i := range rc.n {
			grown[i] = rc.ring[(rc.from+i)%len(rc.ring)]
		}
		rc.ring, rc.from = grown, 0
	}
	rc.ring[(rc.from+rc.n)%len(rc.ring)] = c
	rc.n++
	rc.held += c.size
}

func (rc *recorder) drop() {
	rc.held -= rc.ring[rc.from].size
	rc.ring[rc.from] = recorded{}
	rc.from = (rc.from + 1) % len(rc.ring)
	rc.n--
}

// RecordedDecisions returns the decisions of this store that are remembered and not
// older than within (0: all), oldest first, at most limit of the newest (0:
// all); nil where Options.Record remembers none. The questions are to be read
// only.
func (s *Store) RecordedDecisions(_ context.Context, within time.Duration, limit int) []RecordedDecision {
	rc := s.engine.recorder
	if rc == nil {
		return nil
	}
	now := s.engine.opts.Clock()
	if within <= 0 || within > rc.age {
		within = rc.age
	}
	since := now.Add(-within)
	rc.mu.Lock()
	defer rc.mu.Unlock()
	for rc.n > 0 && rc.ring[rc.from].Time.Before(now.Add(-rc.age)) {
		rc.drop()
	}
	out := []RecordedDecision{}
	for i := rc.n - 1; i >= 0; i-- {
		c := &rc.ring[(rc.from+i)%len(rc.ring)]
		if c.store == s.id && c.incarnation == s.incarnation && !c.Time.Before(since) {
			if out = append(out, c.RecordedDecision); len(out) == limit {
				break
			}
		}
	}
	slices.Reverse(out)
	return out
}

func copyQuestion(r *CheckRequest) CheckRequest {
	c := CheckRequest{Object: copyObject(r.Object), Relation: strings.Clone(r.Relation), Subject: copySubject(r.Subject)}
	c.SchemaID, c.Bounds = strings.Clone(r.SchemaID), r.Bounds
	if r.Context != nil {
		c.Context = copyValue(r.Context).(map[string]any)
	}
	for _, t := range r.Tuples {
		c.Tuples = append(c.Tuples, rel.Tuple{Object: copyObject(t.Object), Relation: strings.Clone(t.Relation), Subject: copySubject(t.Subject),
			Condition: strings.Clone(t.Condition), Context: strings.Clone(t.Context), Expires: t.Expires})
	}
	for _, a := range r.Attributes {
		c.Attributes = append(c.Attributes, rel.Attribute{Object: copyObject(a.Object), Name: strings.Clone(a.Name), Value: strings.Clone(a.Value)})
	}
	return c
}

func copyObject(o rel.Object) rel.Object {
	return rel.Object{Type: strings.Clone(o.Type), ID: strings.Clone(o.ID)}
}

func copySubject(s rel.Subject) rel.Subject {
	return rel.Subject{Type: strings.Clone(s.Type), ID: strings.Clone(s.ID), Relation: strings.Clone(s.Relation)}
}

func copyValue(v any) any {
	switch x := v.(type) {
	case string:
		return strings.Clone(x)
	case json.Number:
		return json.Number(strings.Clone(string(x)))
	case []any:
		out := make([]any, len(x))
		for i := range x {
			out[i] = copyValue(x[i])
		}
		return out
	case map[string]any:
		out := maps.Clone(x)
		for k := range x {
			delete(out, k)
			out[strings.Clone(k)] = copyValue(x[k])
		}
		return out
	}
	return v
}

// questionBytes estimates what a remembered question holds.
func questionBytes(r *CheckRequest) int64 {
	const each = 128
	n := int64(3*each + len(r.Object.Type) + len(r.Object.ID) + len(r.Relation) + len(r.Subject.Type) + len(r.Subject.ID) + len(r.Subject.Relation) + len(r.SchemaID))
	for i := range r.Tuples {
		t := &r.Tuples[i]
		n += int64(each + len(t.Object.ID) + len(t.Object.Type) + len(t.Relation) + len(t.Subject.ID) + len(t.Subject.Type) + len(t.Subject.Relation) + len(t.Condition) + len(t.Context))
	}
	for i := range r.Attributes {
		a := &r.Attributes[i]
		n += int64(each + len(a.Object.ID) + len(a.Object.Type) + len(a.Name) + len(a.Value))
	}
	return n + valueBytes(r.Context)
}

func valueBytes(v any) int64 {
	n := int64(16)
	switch x := v.(type) {
	case string:
		n += int64(len(x))
	case json.Number:
		n += int64(len(x))
	case []any:
		for _, e := range x {
			n += valueBytes(e)
		}
	case map[string]any:
		for k, e := range x {
			n += 32 + int64(len(k)) + valueBytes(e)
		}
	}
	return n
}

// recordBatch remembers the decisions of a batch.
func (s *Store) recordBatch(questions []eval.Question, a *QueryOptions, results []CheckResult) {
	for i := range results {
		if r := &results[i]; r.Err == nil {
			q := CheckRequest{Object: questions[i].Object, Relation: questions[i].Relation, Subject: questions[i].Subject, QueryOptions: *a}
			s.record(&q, r.Decision, r.Revision)
		}
	}
}
