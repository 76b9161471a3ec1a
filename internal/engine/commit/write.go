package commit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/admit"
	"github.com/ostiary/ostiary/internal/engine/errs"
	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/internal/engine/journal"
	"github.com/ostiary/ostiary/internal/engine/snapshot"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
)

// Write makes a change durable and returns the token of its revision. A write
// that changes nothing makes no log entry; its token is that of the newest
// revision. It copies the request, which the caller may change afterwards.
func (q *Queue) Write(ctx context.Context, r *authz.WriteRequest) (authz.Token, error) {
	id := q.timeline.ID
	in, err := q.inputs(ctx, r)
	if err != nil {
		return "", errs.Wrap("write", id, err)
	}
	x := q.shared.writes.Get().(*write)
	x.ctx, x.request, x.inputs = ctx, *r, in
	head, err := storage.Head{}, x.writer.setOrigin(ctx, &r.Origin, storage.CallerLibrary)
	made := false
	if err == nil {
		head, made, err = q.madeByRequest(ctx, &x.writer)
	}
	if err == nil && !made {
		head, err = q.submit(ctx, &x.writer, len(r.Add)+len(r.Remove))
		if errors.Is(err, authz.ErrUncertain) {
			q.noteUncertain(r, &x.writer.origin, head)
		} else if err != nil {
			if made, ok := q.madeBefore(ctx, r, &x.writer.origin, err); ok {
				head, err = made, q.showDurable(ctx)
				journal.Wrote(ctx, id, made.Revision)
			}
		}
	}
	x.reset()
	q.shared.writes.Put(x)
	if err != nil {
		return "", errs.Wrap("write", id, err)
	}
	return q.timeline.Token(head), nil
}

// WriteSchema stores a schema, which becomes the current one of its namespace.
func (q *Queue) WriteSchema(ctx context.Context, src *authz.SchemaSource) (authz.SchemaInfo, authz.Token, error) {
	const op = "write schema"
	p, err := q.shared.runtime.PrepareSchema(ctx, src)
	if err != nil {
		return authz.SchemaInfo{}, "", errs.Wrap(op, q.timeline.ID, err)
	}
	head, made, err := q.submitOwn(ctx, &writer{build: func(g *group) ([]storage.Change, error) {
		return g.putSchemas(nil, []snapshot.PreparedSchema{p})
	}}, 1)
	if err == nil && made {
		p.ID, err = q.schemaOf(ctx, head.Revision)
	}
	if err != nil {
		return authz.SchemaInfo{}, "", errs.Wrap(op, q.timeline.ID, err)
	}
	info := authz.SchemaInfo{ID: p.ID, Namespace: p.Namespace, Created: head.Time.Time(), Revision: head.Revision}
	return info, q.timeline.Token(head), nil
}

// schemaOf returns the id of the schema that the entry of a revision stores.
func (q *Queue) schemaOf(ctx context.Context, r storage.Revision) (string, error) {
	for e, err := range q.shared.runtime.Driver.Entries(ctx, q.timeline.ID, r) {
		if err != nil {
			return "", err
		}
		for i := range e.Changes {
			if c := &e.Changes[i]; c.Kind == storage.DocumentPut && c.Document.Kind == snapshot.SchemaKind {
				return c.Document.Key, nil
			}
		}
		break
	}
	return "", fmt.Errorf("%w: revision %d has no schema", authz.ErrUncertain, r)
}

// submitOwn is submit for a writer whose origin is that of the author of ctx. made is
// true if a forwarded request has made the write before.
func (q *Queue) submitOwn(ctx context.Context, w *writer, weight int) (head storage.Head, made bool, err error) {
	if err := w.setOrigin(ctx, &storage.Origin{}, storage.CallerLibrary); err != nil {
		return storage.Head{}, false, err
	}
	if head, made, err = q.madeByRequest(ctx, w); made || err != nil {
		return head, made, err
	}
	head, err = q.submit(ctx, w, weight)
	return head, false, err
}

// RemoveSchema removes a schema by its id.
func (q *Queue) RemoveSchema(ctx context.Context, id string) (authz.Token, error) {
	head, _, err := q.submitOwn(ctx, &writer{build: func(g *group) ([]storage.Change, error) {
		return g.removeSchemas(nil, []string{id})
	}}, 1)
	if err != nil {
		return "", errs.Wrap("remove schema", q.timeline.ID, err)
	}
	return q.timeline.Token(head), nil
}

// write is a Write in progress. It is reused: when its writer is done, no other
// goroutine refers to it.
type write struct {
	writer  writer
	ctx     context.Context
	request authz.WriteRequest
	inputs
}

func newWrite() *write {
	x := &write{}
	x.writer.ready, x.writer.transient = make(chan struct{}, 1), true
	x.writer.build = func(g *group) ([]storage.Change, error) { return g.changes(x.ctx, &x.request, x.inputs) }
	return x
}

func (x *write) reset() {
	x.ctx, x.request, x.inputs = nil, authz.WriteRequest{}, inputs{}
	w := &x.writer
	w.leads, w.immediate, w.head, w.err, w.entries, w.wrote, w.decided = false, false, storage.Head{}, nil, 0, false, false
	w.origin, w.request, w.numbered = storage.Origin{}, storage.RequestID{}, false
	w.writers, w.appended = 0, time.Time{}
	w.done.Store(false)
}

// inputs is what is made of a request once, before the writes ahead of it are known.
type inputs struct {
	schemas []snapshot.PreparedSchema
	secrets []storage.Document // encrypted
}

// inputs validates a request, compiles its schemas and encrypts its secrets.
func (q *Queue) inputs(ctx context.Context, r *authz.WriteRequest) (in inputs, err error) {
	if in.schemas, err = Validate(ctx, q.shared.runtime, r); err != nil {
		return inputs{}, err
	}
	in.secrets, err = q.shared.sealer.Seal(q.timeline.Incarnation, r.Secrets)
	return in, err
}

// changes validates a write on the draft and returns its changes.
func (g *group) changes(ctx context.Context, r *authz.WriteRequest, in inputs) ([]storage.Change, error) {
	if err := g.checkPreconditions(r.After, r.Preconditions); err != nil {
		return nil, err
	}
	out := g.space(len(r.Add) + len(r.Remove) + len(r.RemoveMatching) +
		len(r.SetAttributes) + len(r.RemoveAttributes) + len(r.Documents) + len(r.RemoveDocuments) + len(in.secrets) + len(r.RemoveSecrets))
	for i := range r.RemoveMatching {
		out = append(out, storage.Change{Kind: storage.RemoveByFilter, Filter: r.RemoveMatching[i]})
	}
	out, err := g.removals(r, out)
	if err != nil {
		return nil, err
	}
	if out, err = g.additions(ctx, r, out); err != nil {
		return nil, err
	}
	for _, a := range r.RemoveAttributes {
		a.Value = ""
		out = append(out, storage.Change{Kind: storage.AttributeRemove, Attribute: a})
	}
	for i := range r.SetAttributes {
		a, err := g.attribute(ctx, &r.SetAttributes[i], r.SchemaID)
		if err != nil {
			return nil, err
		}
		out = append(out, storage.Change{Kind: storage.AttributeSet, Attribute: a})
	}
	if out, err = g.removeSchemas(out, r.RemoveSchemas); err != nil {
		return nil, err
	}
	if out, err = g.putSchemas(out, in.schemas); err != nil {
		return nil, err
	}
	return documentChanges(r, out, in.secrets), nil
}

// removal is the change that removes a key.
func removal(k rel.Key) storage.Change {
	return storage.Change{Kind: storage.TupleRemove, Tuple: rel.Tuple{Object: k.Object, Relation: k.Relation, Subject: k.Subject}}
}

func (g *group) removals(r *authz.WriteRequest, out []storage.Change) ([]storage.Change, error) {
	for _, k := range r.Remove {
		t, ok := g.draft.Batch.Get(k)
		if !ok || t.Expired(g.now) {
			if r.OnMissing == authz.Fail {
				return nil, &authz.TupleError{Kind: authz.ErrTupleMissing, Key: k}
			}
			continue
		}
		out = append(out, removal(k))
	}
	return out, nil
}

func (g *group) additions(ctx context.Context, r *authz.WriteRequest, out []storage.Change) (_ []storage.Change, err error) {
	last := tupleShape{}
	for i := range r.Add {
		t := &r.Add[i]
		if !last.admits(t) {
			if err = g.admit(ctx, t, r.SchemaID); err != nil {
				return nil, err
			}
			last = shapeOf(t)
		}
		if out, err = g.addition(r, t, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// addition appends the changes that add an admitted tuple.
func (g *group) addition(r *authz.WriteRequest, t *rel.Tuple, out []storage.Change) ([]storage.Change, error) {
	old, live := g.draft.Batch.Get(t.Key())
	if live && removesMatching(r, t.Key()) {
		live = false
	}
	switch {
	case !live:
	case old.Expired(g.now):
		// The removal of the expired tuple becomes a part of the history.
		out = append(out, removal(t.Key()))
		live = false
	case r.OnDuplicate == authz.Fail || r.OnDuplicate == authz.Ignore && old != *t:
		return nil, &authz.TupleError{Kind: authz.ErrTupleExists, Key: t.Key()}
	case old == *t:
		return out, nil
	}
	return append(out, storage.Change{Kind: storage.TupleAdd, Tuple: *t, Fresh: !live}), nil
}

// removesMatching reports whether a filter of the write removes a key.
func removesMatching(r *authz.WriteRequest, k rel.Key) bool {
	for i := range r.RemoveMatching {
		if f := &r.RemoveMatching[i]; f.Target == storage.FilterTuples && f.Tuple.Match(k) {
			return true
		}
	}
	return false
}

// admit reports why the schema does not admit a tuple.
func (g *group) admit(ctx context.Context, t *rel.Tuple, schemaID string) error {
	b, err := g.draft.Schema(ctx, t.Object.Type, schemaID)
	if err != nil {
		return err
	}
	return admit.Tuple(b.Schema, t)
}

// attribute returns an attribute with its canonical value, or why the schema
// does not admit it.
func (g *group) attribute(ctx context.Context, a *rel.Attribute, schemaID string) (rel.Attribute, error) {
	b, err := g.draft.Schema(ctx, a.Object.Type, schemaID)
	if err != nil {
		return rel.Attribute{}, err
	}
	def, ok := b.Schema.Type(a.Object.Type)
	if !ok {
		return rel.Attribute{}, fmt.Errorf("%w: the schema has no type %q", authz.ErrInvalidTuple, a.Object.Type)
	}
	value, err := admit.AttributeValue(def, a)
	if err != nil {
		return rel.Attribute{}, err
	}
	return rel.Attribute{Object: a.Object, Name: a.Name, Value: value}, nil
}

// checkPreconditions returns ErrPrecondition if one does not hold on the draft,
// or if the next entry does not follow the revision of after.
func (g *group) checkPreconditions(after authz.Token, ps []authz.Precondition) error {
	if after != "" {
		if head := g.head(); g.queue.timeline.Token(head) != after {
			return fmt.Errorf("%w: the store changed: its newest revision is %d, which is not the one of the token %q", authz.ErrPrecondition, head.Revision, after)
		}
	}
	for i := range ps {
		p := &ps[i]
		if g.selects(p.Filter) == p.Absent {
			found := "no tuple matches its filter"
			if p.Absent {
				found = "a tuple matches its filter"
			}
			return fmt.Errorf("%w: number %d: %s", authz.ErrPrecondition, i, found)
		}
	}
	return nil
}

// selects reports whether a filter selects a live tuple of the draft. If the
// group has few changes so far, it looks through them, because making a view
// costs more.
func (g *group) selects(f rel.Filter) bool {
	const scanMax = 1024 // changes that are looked through
	if !g.draft.Batch.MayMatch(f) {
		return false
	}
	changes := 0
	for i := range g.entries {
		changes += len(g.entries[i].Changes)
	}
	if changes == 0 || changes > scanMax {
		for _, t := range g.draft.Batch.View().Tuples(f, graph.Position{}) {
			if !t.Expired(g.now) {
				return true
			}
		}
		return false
	}
	for _, t := range g.draft.Base().Graph.Tuples(f, graph.Position{}) {
		if g.isLive(t.Key()) {
			return true
		}
	}
	for i := range g.entries {
		for j := range g.entries[i].Changes {
			c := &g.entries[i].Changes[j]
			if c.Kind == storage.TupleAdd && f.Match(c.Tuple.Key()) && g.isLive(c.Tuple.Key()) {
				return true
			}
		}
	}
	return false
}

// isLive reports whether the draft has the tuple and it is not expired.
func (g *group) isLive(k rel.Key) bool {
	t, ok := g.draft.Batch.Get(k)
	return ok && !t.Expired(g.now)
}

// putSchemas appends the changes that store schemas. It fails if an id exists:
// schemas are immutable.
func (g *group) putSchemas(out []storage.Change, schemas []snapshot.PreparedSchema) ([]storage.Change, error) {
	for _, p := range schemas {
		if g.draft.HasSchema(p.ID) {
			return nil, fmt.Errorf("%w: a schema with the id %q already exists", authz.ErrInvalidRequest, p.ID)
		}
		if g.compiled == nil {
			g.compiled = map[string]*schema.Schema{}
		}
		g.compiled[p.ID] = p.Compiled
		out = append(out, storage.Change{Kind: storage.DocumentPut, Document: storage.Document{
			Kind: snapshot.SchemaKind, Key: p.ID, Secondary: []string{p.Namespace}, Body: p.Body}})
	}
	return out, nil
}

// removeSchemas appends the changes that remove schemas.
func (g *group) removeSchemas(out []storage.Change, ids []string) ([]storage.Change, error) {
	for _, id := range ids {
		if !g.draft.HasSchema(id) {
			return nil, fmt.Errorf("%w: %q", authz.ErrNoSchema, id)
		}
		out = append(out, storage.Change{Kind: storage.DocumentRemove,
			Document: storage.Document{Kind: snapshot.SchemaKind, Key: id}})
	}
	return out, nil
}

// documentChanges appends the changes to documents and secrets.
func documentChanges(r *authz.WriteRequest, out []storage.Change, secrets []storage.Document) []storage.Change {
	for _, k := range r.RemoveDocuments {
		out = append(out, storage.Change{Kind: storage.DocumentRemove, Document: storage.Document{Kind: k.Kind, Key: k.Key}})
	}
	for _, d := range r.Documents {
		out = append(out, storage.Change{Kind: storage.DocumentPut,
			Document: storage.Document{Kind: d.Kind, Key: d.Key, Secondary: d.Secondary, Body: bytes.Clone(d.Body)}})
	}
	for _, k := range r.RemoveSecrets {
		out = append(out, storage.Change{Kind: storage.SecretRemove, Document: storage.Document{Kind: k.Kind, Key: k.Key}})
	}
	for _, d := range secrets {
		out = append(out, storage.Change{Kind: storage.SecretPut, Document: d})
	}
	return out
}

// tupleShape is what the admission of a plain tuple depends on. Most tuples of a
// large write have the shape of the one before. The zero tupleShape admits no
// tuple.
type tupleShape struct{ objectType, relation, subjectType, subjectRelation string }

// shapeOf returns the shape of an admitted tuple. It is zero for a tuple with a
// condition or a wildcard, whose admission depends on more.
func shapeOf(t *rel.Tuple) tupleShape {
	if t.Condition != "" || t.Subject.ID == rel.Wildcard {
		return tupleShape{}
	}
	return tupleShape{t.Object.Type, t.Relation, t.Subject.Type, t.Subject.Relation}
}

// admits reports whether t is admitted because a tuple of this shape was.
func (k *tupleShape) admits(t *rel.Tuple) bool {
	return k.relation == t.Relation && k.objectType == t.Object.Type && k.subjectType == t.Subject.Type &&
		k.subjectRelation == t.Subject.Relation && t.Condition == "" && t.Subject.ID != rel.Wildcard &&
		t.Object.ID != rel.Wildcard && t.Subject.ID != t.Object.ID
}
