package ostiary

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"math/bits"
	"slices"

	"github.com/ostiary/ostiary/graph"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
)

// WriteRequest is one atomic change of a store: all of it happens, at one revision,
// or nothing. RemoveMatching and RemoveAttributesMatching act first, then the
// removals, then what is added or set; all of it is checked against the state
// before the write. Expired tuples count as absent.
type WriteRequest struct {
	Add    []rel.Tuple
	Remove []rel.Key
	// RemoveMatching removes the tuples, attributes or documents that a filter
	// selects, however many, in one entry of bounded size.
	RemoveMatching []storage.Filter

	SetAttributes    []rel.Attribute
	RemoveAttributes []rel.Attribute // by object and name

	Documents       []Document
	RemoveDocuments []DocumentKey
	Secrets         []Document
	RemoveSecrets   []DocumentKey

	// Schemas become the current ones of their namespaces, as WriteSchema makes
	// them; what the same write adds is admitted by the schemas before it.
	// RemoveSchemas go by their ids, as RemoveSchema removes them.
	Schemas       []SchemaSource
	RemoveSchemas []string

	// OnDuplicate says what an Add of a live key does, OnMissing what a Remove
	// of a key that is not live does.
	OnDuplicate, OnMissing ConflictAction
	// Preconditions must all hold on the state before the write.
	Preconditions []Precondition
	// SchemaID names the schema that admits what is added; "" is the current one
	// of each type's namespace.
	SchemaID string

	puts []schemaPut // Schemas, checked
}

// ConflictAction says what a write does where its expectation of a key is wrong.
type ConflictAction uint8

const (
	// Fail refuses the write, with ErrTupleExists or ErrTupleMissing.
	Fail ConflictAction = iota
	// Ignore leaves the key as it is. A duplicate that differs in its condition,
	// context or expiry is refused all the same.
	Ignore
	// Replace takes the new condition, context and expiry. It is OnDuplicate's
	// only; as OnMissing it is Ignore.
	Replace
)

// Precondition demands that some tuple is live that Filter selects, or with
// Absent that none is. A filter that names an object or a subject is cheap;
// any other may read the whole store.
type Precondition struct {
	Filter rel.Filter
	Absent bool
}

// Write makes the change and returns the token of its revision, durable. A
// write that changes nothing (all of it ignored) is no entry; its token is the
// newest revision's.
func (s *Store) Write(ctx context.Context, w WriteRequest) (Token, error) {
	if err := s.engine.validWrite(&w); err != nil {
		return "", failed("write", s.id, err)
	}
	secrets, err := s.sealSecrets(w.Secrets)
	if err != nil {
		return "", failed("write", s.id, err)
	}
	x := s.engine.writings.Get().(*writing)
	x.ctx, x.w, x.secrets = ctx, w, secrets
	head, err := s.submit(ctx, &x.sub, len(w.Add)+len(w.Remove))
	x.reset()
	s.engine.writings.Put(x)
	if err != nil {
		return "", failed("write", s.id, err)
	}
	return s.tokenAt(head), nil
}

// writing is one Write under way, in memory that the next one uses again: once
// a submission has its outcome nobody else looks at it.
type writing struct {
	sub     submission
	ctx     context.Context
	w       WriteRequest
	secrets []storage.Document
}

func newWriting() *writing {
	x := &writing{}
	x.sub.ready, x.sub.forgets = make(chan struct{}, 1), true
	x.sub.build = func(g *group) ([]storage.Change, error) { return g.changes(x.ctx, &x.w, x.secrets) }
	return x
}

func (x *writing) reset() {
	x.ctx, x.w, x.secrets = nil, WriteRequest{}, nil
	sub := &x.sub
	sub.leads, sub.first, sub.head, sub.err, sub.at = false, false, storage.Head{}, nil, 0
	sub.settled.Store(false)
}

// validWrite checks what needs no state: bounds, names, contradictions.
func (e *Engine) validWrite(w *WriteRequest) error {
	b := &e.opts.Bounds
	for _, x := range [...]struct {
		name      string
		got, most int
	}{
		{"WriteTuples", len(w.Add) + len(w.Remove), b.WriteTuples},
		{"WriteFilters", len(w.RemoveMatching), b.WriteFilters},
		{"WriteAttributes", len(w.SetAttributes) + len(w.RemoveAttributes), b.WriteAttributes},
		{"WriteDocuments", len(w.Documents) + len(w.RemoveDocuments) + len(w.Secrets) + len(w.RemoveSecrets) +
			len(w.Schemas) + len(w.RemoveSchemas), b.WriteDocuments},
		{"Preconditions", len(w.Preconditions), b.Preconditions},
	} {
		if err := over(x.name, x.got, x.most); err != nil {
			return err
		}
	}
	if w.OnDuplicate > Replace || w.OnMissing > Replace {
		return fmt.Errorf("%w: unknown policy", ErrInvalidRequest)
	}
	for i := range w.Add {
		if err := w.Add[i].Validate(); err != nil {
			return err
		}
	}
	for i := range w.Remove {
		if err := w.Remove[i].Validate(); err != nil {
			return err
		}
	}
	for i := range w.RemoveMatching {
		if err := validFilter(&w.RemoveMatching[i]); err != nil {
			return err
		}
	}
	if err := w.validDocuments(b.DocumentBytes); err != nil {
		return err
	}
	if err := w.validAttributes(); err != nil {
		return err
	}
	if err := e.validSchemas(w); err != nil {
		return err
	}
	return w.once()
}

// validSchemas compiles a write's schemas.
func (e *Engine) validSchemas(w *WriteRequest) error {
	w.puts = nil
	for i := range w.Schemas {
		put, err := e.schemaPut(&w.Schemas[i])
		if err != nil {
			return err
		}
		w.puts = append(w.puts, put)
	}
	for i, id := range w.RemoveSchemas {
		if slices.Contains(w.RemoveSchemas[:i], id) {
			return fmt.Errorf("%w: schema %s is removed twice", ErrInvalidRequest, id)
		}
	}
	return nil
}

func validFilter(f *storage.Filter) error {
	switch f.Target {
	case storage.FilterTuples:
		if f.Tuple == (rel.Filter{}) {
			return fmt.Errorf("%w: a filter that selects every tuple", ErrInvalidRequest)
		}
	case storage.FilterAttributes:
		if f.ObjectType == "" && f.ObjectID == "" && f.Name == "" {
			return fmt.Errorf("%w: a filter that selects every attribute", ErrInvalidRequest)
		}
	case storage.FilterDocuments:
		if err := validDocumentKey(f.DocumentKind, "key"); err != nil {
			return err
		}
	default:
		return fmt.Errorf("%w: filter without target", ErrInvalidRequest)
	}
	return nil
}

// once refuses a key, an attribute or a document that comes twice.
func (w *WriteRequest) once() error {
	if k, twice := w.keyTwice(); twice {
		return fmt.Errorf("%w: %s comes twice", ErrInvalidRequest, k)
	}
	if len(w.SetAttributes)+len(w.RemoveAttributes) > 1 {
		seen := make(map[rel.Attribute]struct{}, len(w.SetAttributes))
		for _, list := range [...][]rel.Attribute{w.SetAttributes, w.RemoveAttributes} {
			for _, a := range list {
				a.Value = ""
				if _, ok := seen[a]; ok {
					return fmt.Errorf("%w: attribute %s of %s comes twice", ErrInvalidRequest, a.Name, a.Object)
				}
				seen[a] = struct{}{}
			}
		}
	}
	return w.documentsOnce()
}

// keyTwice finds a key of Add and Remove that comes twice. It is a table of
// places by the keys' hashes: a map of keys would copy each of them.
func (w *WriteRequest) keyTwice() (twice rel.Key, ok bool) {
	n := len(w.Add) + len(w.Remove)
	if n < 2 {
		return twice, false
	}
	key := func(i int) rel.Key {
		if i < len(w.Add) {
			return w.Add[i].Key()
		}
		return w.Remove[i-len(w.Add)]
	}
	seed := maphash.MakeSeed()
	places := make([]uint32, 1<<bits.Len(uint(2*n))) // plus one
	for i := range n {
		k := key(i)
		at := keyHash(seed, &k)
		for ; ; at++ {
			place := &places[at&uint64(len(places)-1)]
			if *place == 0 {
				*place = uint32(i) + 1
				break
			}
			if key(int(*place)-1) == k {
				return k, true
			}
		}
	}
	return twice, false
}

func keyHash(seed maphash.Seed, k *rel.Key) uint64 {
	const odd = 0x9e3779b97f4a7c15 // of random bits, to mix hashes with
	h := uint64(0)
	for _, s := range [...]string{k.Object.ID, k.Subject.ID, k.Object.Type, k.Relation, k.Subject.Type, k.Subject.Relation} {
		h = bits.RotateLeft64(h, 23) * odd
		if s != "" {
			h ^= maphash.String(seed, s)
		}
	}
	return h ^ h>>32
}

func (w *WriteRequest) validAttributes() error {
	for i := range w.SetAttributes {
		a := &w.SetAttributes[i]
		if err := validAttributeKey(a); err != nil {
			return err
		}
		if err := over("AttributeValueBytesMax", len(a.Value), AttributeValueBytesMax); err != nil {
			return err
		}
	}
	for i := range w.RemoveAttributes {
		if err := validAttributeKey(&w.RemoveAttributes[i]); err != nil {
			return err
		}
	}
	return nil
}

func validAttributeKey(a *rel.Attribute) error {
	if err := a.Object.Validate(); err != nil {
		return err
	}
	// An attribute's name has the form of a relation's.
	return rel.Key{Object: a.Object, Relation: a.Name, Subject: a.Object.AsSubject()}.Validate()
}

// changes validates a write on the group's state and says what it does. It
// changes nothing.
func (g *group) changes(ctx context.Context, w *WriteRequest, secrets []storage.Document) ([]storage.Change, error) {
	if err := g.preconditions(w.Preconditions); err != nil {
		return nil, err
	}
	out := g.space(len(w.Add) + len(w.Remove) + len(w.RemoveMatching) +
		len(w.SetAttributes) + len(w.RemoveAttributes) + len(w.Documents) + len(w.RemoveDocuments) + len(secrets) + len(w.RemoveSecrets))
	for i := range w.RemoveMatching {
		out = append(out, storage.Change{Kind: storage.RemoveByFilter, Filter: w.RemoveMatching[i]})
	}
	out, err := g.removals(w, out)
	if err != nil {
		return nil, err
	}
	last := admittedKind{}
	for i := range w.Add {
		if t := &w.Add[i]; !last.covers(t) {
			if err = g.admit(ctx, t, w.SchemaID); err != nil {
				return nil, err
			}
			last = admittedKindOf(t)
		}
		if out, err = g.addition(w, &w.Add[i], out); err != nil {
			return nil, err
		}
	}
	for _, a := range w.RemoveAttributes {
		a.Value = ""
		out = append(out, storage.Change{Kind: storage.AttributeRemove, Attribute: a})
	}
	for i := range w.SetAttributes {
		a, err := g.attribute(ctx, &w.SetAttributes[i], w.SchemaID)
		if err != nil {
			return nil, err
		}
		out = append(out, storage.Change{Kind: storage.AttributeSet, Attribute: a})
	}
	if out, err = g.removeSchemas(out, w.RemoveSchemas); err != nil {
		return nil, err
	}
	return w.documentChanges(g.putSchemas(out, w.puts), secrets), nil
}

func (g *group) removals(w *WriteRequest, out []storage.Change) ([]storage.Change, error) {
	for _, k := range w.Remove {
		t, ok := g.batch.Get(k)
		if !ok || t.Expired(g.now) {
			if w.OnMissing == Fail {
				return nil, &TupleError{ErrTupleMissing, k}
			}
			continue
		}
		out = append(out, storage.Change{Kind: storage.TupleRemove,
			Tuple: rel.Tuple{Object: k.Object, Relation: k.Relation, Subject: k.Subject}})
	}
	return out, nil
}

// addition says what adding an admitted tuple changes.
func (g *group) addition(w *WriteRequest, t *rel.Tuple, out []storage.Change) ([]storage.Change, error) {
	old, live := g.batch.Get(t.Key())
	if live && w.matches(t.Key()) {
		live = false // the write's own filter removes it before
	}
	switch {
	case !live:
	case old.Expired(g.now):
		// The expired row is removed for all to see before the new one comes.
		old = rel.Tuple{Object: t.Object, Relation: t.Relation, Subject: t.Subject}
		out = append(out, storage.Change{Kind: storage.TupleRemove, Tuple: old})
		live = false
	case w.OnDuplicate == Fail || w.OnDuplicate == Ignore && old != *t:
		return nil, &TupleError{ErrTupleExists, t.Key()}
	case old == *t:
		return out, nil
	}
	return append(out, storage.Change{Kind: storage.TupleAdd, Tuple: *t, Fresh: !live}), nil
}

func (w *WriteRequest) matches(k rel.Key) bool {
	for i := range w.RemoveMatching {
		if f := &w.RemoveMatching[i]; f.Target == storage.FilterTuples && f.Tuple.Match(k) {
			return true
		}
	}
	return false
}

// preconditions holds them against the group's state.
func (g *group) preconditions(ps []Precondition) error {
	for i := range ps {
		p := &ps[i]
		if g.selects(p.Filter) == p.Absent {
			want := "no tuple matches"
			if p.Absent {
				want = "a tuple matches"
			}
			return fmt.Errorf("%w: %d: %s", ErrPrecondition, i, want)
		}
	}
	return nil
}

// selectsScan is how many changes of a group are looked through for a tuple; a
// view is made of more.
const selectsScan = 1024

// selects says whether a filter selects a tuple that is live after the group's
// entries so far. A view of them costs more than it tells of a few.
func (g *group) selects(f rel.Filter) bool {
	if !g.batch.MayMatch(f) {
		return false
	}
	changes := 0
	for i := range g.entries {
		changes += len(g.entries[i].Changes)
	}
	if changes == 0 || changes > selectsScan {
		for _, t := range g.batch.View().Tuples(f, graph.Position{}) {
			if !t.Expired(g.now) {
				return true
			}
		}
		return false
	}
	live := func(k rel.Key) bool {
		t, ok := g.batch.Get(k)
		return ok && !t.Expired(g.now)
	}
	for _, t := range g.base.graph.Tuples(f, graph.Position{}) {
		if live(t.Key()) {
			return true
		}
	}
	for i := range g.entries {
		for j := range g.entries[i].Changes {
			c := &g.entries[i].Changes[j]
			if c.Kind == storage.TupleAdd && f.Match(c.Tuple.Key()) && live(c.Tuple.Key()) {
				return true
			}
		}
	}
	return false
}

// canonicalValue checks an attribute's value against its type and returns its
// canonical text.
func canonicalValue(def *schema.Type, a *rel.Attribute) (string, error) {
	typ, ok := def.Attributes[a.Name]
	if !ok {
		return "", fmt.Errorf("%w: type %s has no attribute %q", ErrInvalidTuple, def.Name, a.Name)
	}
	dec := json.NewDecoder(bytes.NewReader([]byte(a.Value)))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil || dec.More() {
		return "", fmt.Errorf("%w: attribute %s of %s is no JSON value", ErrInvalidTuple, a.Name, a.Object)
	}
	if !conforms(v, typ) {
		return "", fmt.Errorf("%w: attribute %s of %s is no %s", ErrInvalidTuple, a.Name, a.Object, typ)
	}
	return rel.CanonicalValue(v)
}
