package query

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/engine/errs"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// recorder remembers decisions in a ring. It is safe for concurrent use.
type recorder struct {
	decisionsMax int
	bytesMax     int64
	age          time.Duration

	mu    sync.Mutex
	ring  []recorded
	first int   // index of the oldest decision
	n     int   // number of decisions
	bytes int64 // their estimated memory
}

type recorded struct {
	authz.RecordedDecision
	store       storage.StoreID
	incarnation storage.Incarnation
	bytes       int64
}

func newRecorder(o authz.RecordingOptions) *recorder {
	if o.Decisions <= 0 {
		return nil
	}
	errs.SetDefault(&o.Age, time.Hour)
	errs.SetDefault(&o.Bytes, 64<<20)
	return &recorder{decisionsMax: o.Decisions, bytesMax: o.Bytes, age: o.Age}
}

// record remembers a decision. It copies the question, which belongs to the
// caller.
func (a *Answerer) record(r *authz.CheckRequest, decision expr.Tristate, revision storage.Revision) {
	t := a.timeline
	d := recorded{RecordedDecision: authz.RecordedDecision{Time: t.Runtime.Clock(), Question: cloneRequest(r), Decision: decision, Revision: revision},
		store: t.ID, incarnation: t.Incarnation}
	d.bytes = requestBytes(&d.Question)
	a.shared.recorder.put(d)
}

func (rc *recorder) put(d recorded) {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	if d.bytes > rc.bytesMax {
		return
	}
	for rc.n > 0 && (rc.n == rc.decisionsMax || rc.bytes+d.bytes > rc.bytesMax) {
		rc.dropOldest()
	}
	if rc.n == len(rc.ring) {
		grown := make([]recorded, min(rc.decisionsMax, max(64, 2*rc.n)))
		for i := range rc.n {
			grown[i] = rc.ring[(rc.first+i)%len(rc.ring)]
		}
		rc.ring, rc.first = grown, 0
	}
	rc.ring[(rc.first+rc.n)%len(rc.ring)] = d
	rc.n++
	rc.bytes += d.bytes
}

func (rc *recorder) dropOldest() {
	rc.bytes -= rc.ring[rc.first].bytes
	rc.ring[rc.first] = recorded{}
	rc.first = (rc.first + 1) % len(rc.ring)
	rc.n--
}

// RecordedDecisions returns the remembered decisions of the store that are not
// older than age (0: all), oldest first, and at most limit of the newest (0:
// all). It returns nil if recording is off. The caller must not change the
// questions.
func (a *Answerer) RecordedDecisions(age time.Duration, limit int) []authz.RecordedDecision {
	rc, t := a.shared.recorder, a.timeline
	if rc == nil {
		return nil
	}
	now := t.Runtime.Clock()
	if age <= 0 || age > rc.age {
		age = rc.age
	}
	since := now.Add(-age)
	rc.mu.Lock()
	defer rc.mu.Unlock()
	for rc.n > 0 && rc.ring[rc.first].Time.Before(now.Add(-rc.age)) {
		rc.dropOldest()
	}
	out := []authz.RecordedDecision{}
	for i := rc.n - 1; i >= 0; i-- {
		d := &rc.ring[(rc.first+i)%len(rc.ring)]
		if d.store == t.ID && d.incarnation == t.Incarnation && !d.Time.Before(since) {
			if out = append(out, d.RecordedDecision); len(out) == limit {
				break
			}
		}
	}
	slices.Reverse(out)
	return out
}

// cloneRequest returns a copy of a request without its consistency, and without a
// schema that the caller did not name. It shares no memory with the request.
func cloneRequest(r *authz.CheckRequest) authz.CheckRequest {
	c := authz.CheckRequest{Object: cloneObject(r.Object), Relation: strings.Clone(r.Relation), Subject: cloneSubject(r.Subject)}
	if c.Bounds = r.Bounds; !r.SchemaImplied {
		c.SchemaID = strings.Clone(r.SchemaID)
	}
	if r.Context != nil {
		c.Context = cloneValue(r.Context).(map[string]any)
	}
	for _, t := range r.Tuples {
		c.Tuples = append(c.Tuples, rel.Tuple{Object: cloneObject(t.Object), Relation: strings.Clone(t.Relation), Subject: cloneSubject(t.Subject),
			Condition: strings.Clone(t.Condition), Context: strings.Clone(t.Context), Expires: t.Expires})
	}
	for _, x := range r.Attributes {
		c.Attributes = append(c.Attributes, rel.Attribute{Object: cloneObject(x.Object), Name: strings.Clone(x.Name), Value: strings.Clone(x.Value)})
	}
	return c
}

func cloneObject(o rel.Object) rel.Object {
	return rel.Object{Type: strings.Clone(o.Type), ID: strings.Clone(o.ID)}
}

func cloneSubject(s rel.Subject) rel.Subject {
	return rel.Subject{Type: strings.Clone(s.Type), ID: strings.Clone(s.ID), Relation: strings.Clone(s.Relation)}
}

func cloneValue(v any) any {
	switch x := v.(type) {
	case string:
		return strings.Clone(x)
	case json.Number:
		return json.Number(strings.Clone(string(x)))
	case []any:
		out := make([]any, len(x))
		for i := range x {
			out[i] = cloneValue(x[i])
		}
		return out
	case map[string]any:
		out := maps.Clone(x)
		for k := range x {
			delete(out, k)
			out[strings.Clone(k)] = cloneValue(x[k])
		}
		return out
	}
	return v
}

// requestBytes estimates the memory of a request.
func requestBytes(r *authz.CheckRequest) int64 {
	const overhead = 128 // of a tuple or an attribute
	n := int64(3*overhead + len(r.Object.Type) + len(r.Object.ID) + len(r.Relation) + len(r.Subject.Type) + len(r.Subject.ID) + len(r.Subject.Relation) + len(r.SchemaID))
	for i := range r.Tuples {
		t := &r.Tuples[i]
		n += int64(overhead + len(t.Object.ID) + len(t.Object.Type) + len(t.Relation) + len(t.Subject.ID) + len(t.Subject.Type) + len(t.Subject.Relation) + len(t.Condition) + len(t.Context))
	}
	for i := range r.Attributes {
		x := &r.Attributes[i]
		n += int64(overhead + len(x.Object.ID) + len(x.Object.Type) + len(x.Name) + len(x.Value))
	}
	return n + valueBytes(r.Context)
}

// valueBytes estimates the memory of a context's value.
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
