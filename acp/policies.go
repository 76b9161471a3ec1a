package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// PolicySource is a policy to create, or a new text for one.
type PolicySource struct {
	Text    string
	Dialect Dialect
	// Specification, if not empty, must be the policy's own: "none" or "defra".
	Specification string
	// Metadata is kept with the policy, beside what its text says.
	Metadata map[string]string
}

// AddPolicy creates a policy from its text, in either dialect, and returns its
// id. Without a creator or a text nothing is begun, and no counter used up.
func (e *Engine) AddPolicy(ctx context.Context, creator, text string) (string, error) {
	if creator == "" {
		return "", failed("add policy", ErrUnauthenticated)
	}
	if text == "" {
		return "", failed("add policy", &PolicyError{Kind: ErrSyntax, Text: "no text"})
	}
	rec, err := e.CreatePolicy(ctx, creator, PolicySource{Text: text})
	if err != nil {
		return "", err
	}
	return rec.ID, nil
}

// CreatePolicy creates a policy. The same text twice is two policies, isolated
// from each other. A creation that fails has used up a counter, which the next
// policy's id depends on, and leaves nothing else; also one without an identity,
// but not one whose creator is no DID.
func (e *Engine) CreatePolicy(ctx context.Context, creator string, src PolicySource) (*PolicyRecord, error) {
	const op = "create policy"
	r := e.run.Load()
	if r == nil {
		return nil, failed(op, ErrClosed)
	}
	if creator != "" {
		if err := e.authenticated(creator); err != nil {
			return nil, failed(op, err)
		}
	}
	rec, token, err := e.createPolicy(ctx, r, creator, src)
	if err != nil {
		return nil, failed(op, err)
	}
	e.tell(token, []Event{{Kind: PolicyCreated, Actor: creator, Policy: rec.ID}})
	return rec, nil
}

// createPolicy uses up the next counter, in the entry that creates the policy
// or in one of its own.
func (e *Engine) createPolicy(ctx context.Context, r *running, creator string, src PolicySource) (*PolicyRecord, ostiary.Token, error) {
	e.creation.Lock()
	defer e.creation.Unlock()
	counter, err := r.counter(ctx)
	if err != nil {
		return nil, "", err
	}
	counter++
	rec, w, err := e.newPolicy(creator, src, counter)
	if err == nil {
		var token ostiary.Token
		if token, err = r.store.Write(ctx, w); err == nil {
			return rec, token, nil
		}
	}
	_, lost := r.store.Write(ctx, ostiary.WriteRequest{Documents: []ostiary.Document{stateDocument(counter)}})
	return nil, "", errors.Join(err, lost)
}

// newPolicy is the write that creates a policy.
func (e *Engine) newPolicy(creator string, src PolicySource, counter uint64) (*PolicyRecord, ostiary.WriteRequest, error) {
	if creator == "" {
		return nil, ostiary.WriteRequest{}, ErrUnauthenticated
	}
	p, err := ParsePolicy(src.Text, src.Dialect)
	if err != nil {
		return nil, ostiary.WriteRequest{}, err
	}
	if err := src.specified(p); err != nil {
		return nil, ostiary.WriteRequest{}, err
	}
	now := e.opts.Clock().UTC()
	rec := &PolicyRecord{ID: p.ID(counter), Policy: *p, Source: src.Text, Creator: creator,
		Metadata: maps.Clone(src.Metadata), Created: now, Modified: now}
	doc, err := rec.document()
	if err != nil {
		return nil, ostiary.WriteRequest{}, err
	}
	return rec, ostiary.WriteRequest{Schemas: []ostiary.SchemaSource{rec.schema()},
		Documents: []ostiary.Document{doc, stateDocument(counter)}}, nil
}

func (p *PolicyRecord) schema() ostiary.SchemaSource {
	return ostiary.SchemaSource{Model: p.model(p.ID), Dialect: "acp-" + p.Dialect.String(), Source: []byte(p.Source)}
}

func (src *PolicySource) specified(p *Policy) error {
	if src.Specification != "" && src.Specification != p.Specification {
		return fmt.Errorf("%w: wanted %q, the policy has %q", ErrSpecification, src.Specification, p.Specification)
	}
	return nil
}

// collection is the document of what the collection counts.
type collection struct {
	Counter uint64 `json:"counter"`
}

func stateDocument(counter uint64) ostiary.Document {
	body, _ := json.Marshal(collection{counter}) // a number always marshals
	return ostiary.Document{Kind: stateKind, Key: stateKey, Body: body}
}

// counter returns how many creations there were.
func (r *running) counter(ctx context.Context) (uint64, error) {
	doc, err := r.store.Document(ctx, ostiary.DocumentKey{Kind: stateKind, Key: stateKey})
	if errors.Is(err, ostiary.ErrNoDocument) {
		return 0, nil
	}
	var c collection
	if err == nil {
		err = json.Unmarshal(doc.Body, &c)
	}
	return c.Counter, err
}

// Policy returns a policy. It belongs to the caller but for what it points to,
// which is to be read only.
func (e *Engine) Policy(ctx context.Context, id string) (*PolicyRecord, error) {
	r := e.run.Load()
	if r == nil {
		return nil, failed("get policy", ErrClosed)
	}
	t, err := r.table(ctx, id)
	if err != nil {
		return nil, failed("get policy", err)
	}
	rec := *t.record
	return &rec, nil
}

// Policies yields all policies in the order they were created in.
func (e *Engine) Policies(ctx context.Context) iter.Seq2[*PolicyRecord, error] {
	return func(yield func(*PolicyRecord, error) bool) {
		r := e.run.Load()
		if r == nil {
			yield(nil, failed("list policies", ErrClosed))
			return
		}
		infos, err := r.store.Schemas(ctx)
		if err != nil {
			yield(nil, failed("list policies", err))
			return
		}
		seen := map[string]bool{}
		for _, info := range slices.Backward(infos) {
			if seen[info.Namespace] {
				continue // an edit
			}
			seen[info.Namespace] = true
			t, err := r.table(ctx, info.Namespace)
			if errors.Is(err, ErrPolicyNotFound) {
				continue // another door's schema, or deleted meanwhile
			}
			if err != nil {
				yield(nil, failed("list policies", err))
				return
			}
			rec := *t.record
			if !yield(&rec, nil) {
				return
			}
		}
	}
}

// ValidatePolicy says what would keep a text from becoming a policy; the
// policy's Warnings tell what is accepted but hardly meant.
func ValidatePolicy(src PolicySource) (*Policy, error) {
	p, err := ParsePolicy(src.Text, src.Dialect)
	if err == nil {
		err = src.specified(p)
	}
	return p, failed("validate policy", err)
}

// EditPolicy gives a policy a new text; its id stays. Resources and relations
// may be added; the relationships of removed relations go with them, and their
// number is returned. To remove a resource, or to change the specification, the
// dialect or the actor's name, is ErrEdit. Only the creator may edit.
func (e *Engine) EditPolicy(ctx context.Context, actor, id string, src PolicySource) (removed int, err error) {
	const op = "edit policy"
	err = e.changePolicy(ctx, actor, id, PolicyEdited, func(r *running, t *table) (ostiary.WriteRequest, error) {
		dialect := src.Dialect
		if dialect == DialectAuto {
			dialect = t.record.Dialect
		}
		p, err := ParsePolicy(src.Text, dialect)
		if err == nil {
			err = src.specified(p)
		}
		if err == nil {
			err = editable(&t.record.Policy, p)
		}
		if err != nil {
			return ostiary.WriteRequest{}, err
		}
		rec := *t.record
		rec.Policy, rec.Source, rec.Modified = *p, src.Text, e.opts.Clock().UTC()
		if src.Metadata != nil {
			rec.Metadata = maps.Clone(src.Metadata)
		}
		doc, err := rec.document()
		if err != nil {
			return ostiary.WriteRequest{}, err
		}
		w := ostiary.WriteRequest{Schemas: []ostiary.SchemaSource{rec.schema()}, Documents: []ostiary.Document{doc}}
		w.RemoveMatching, removed, err = r.goneRelations(ctx, t, p)
		return w, err
	})
	if err != nil {
		removed = 0
	}
	return removed, failed(op, err)
}

// editable says whether a policy may become another one.
func editable(old, edited *Policy) error {
	switch {
	case old.Specification != edited.Specification:
		return fmt.Errorf("%w: the specification is %q and stays", ErrEdit, old.Specification)
	case old.Dialect != edited.Dialect:
		return fmt.Errorf("%w: the dialect is %q and stays", ErrEdit, old.Dialect)
	case old.Actor.Name != edited.Actor.Name:
		return fmt.Errorf("%w: actors are called %q and stay so", ErrEdit, old.Actor.Name)
	}
	for i := range old.Resources {
		if name := old.Resources[i].Name; edited.resource(name) == nil {
			return fmt.Errorf("%w: resource %q is removed", ErrEdit, name)
		}
	}
	return nil
}

// goneRelations selects the relationships of relations that an edit removes,
// and those whose subjects are sets of such relations, and counts them.
func (r *running) goneRelations(ctx context.Context, t *table, p *Policy) (filters []storage.Filter, n int, err error) {
	for _, res := range t.resources {
		edited := p.resource(res.def.Name)
		for i := range res.def.Relations {
			name := res.def.Relations[i].Name
			if edited.relation(name) != nil {
				continue
			}
			for _, f := range []rel.Filter{{ObjectType: res.typ, Relation: name}, {SubjectType: res.typ, SubjectRelation: name}} {
				filters = append(filters, storage.Filter{Target: storage.FilterTuples, Tuple: f})
			}
		}
	}
	counted := map[rel.Key]struct{}{}
	for i := range filters {
		for tuple, err := range r.tuples(ctx, filters[i].Tuple) {
			if err != nil {
				return nil, 0, err
			}
			counted[tuple.Key()] = struct{}{}
		}
	}
	return filters, len(counted), nil
}

// EditPolicyMetadata replaces what was supplied with the policy. Only the
// creator may.
func (e *Engine) EditPolicyMetadata(ctx context.Context, actor, id string, metadata map[string]string) error {
	return failed("edit policy metadata", e.changePolicy(ctx, actor, id, PolicyEdited, func(_ *running, t *table) (ostiary.WriteRequest, error) {
		rec := *t.record
		rec.Metadata, rec.Modified = maps.Clone(metadata), e.opts.Clock().UTC()
		doc, err := rec.document()
		return ostiary.WriteRequest{Documents: []ostiary.Document{doc}}, err
	}))
}

// DeletePolicy removes a policy with its registrations and relationships. Only
// the creator may. From the first entry on the policy is unknown; one with more
// than deletedAtOnce resources takes further entries for what is left of it.
func (e *Engine) DeletePolicy(ctx context.Context, actor, id string) error {
	const op = "delete policy"
	var left []storage.Filter
	var from *running
	err := e.changePolicy(ctx, actor, id, PolicyDeleted, func(r *running, t *table) (ostiary.WriteRequest, error) {
		w := ostiary.WriteRequest{RemoveDocuments: []ostiary.DocumentKey{{Kind: policyKind, Key: id}},
			RemoveMatching: []storage.Filter{{Target: storage.FilterDocuments, DocumentKind: registrationKind, DocumentKeyPrefix: id}}}
		from, left = r, nil
		for _, res := range t.resources {
			left = append(left, storage.Filter{Target: storage.FilterTuples, Tuple: rel.Filter{ObjectType: res.typ}})
		}
		now := min(len(left), deletedAtOnce)
		w.RemoveMatching, left = append(w.RemoveMatching, left[:now]...), left[now:]
		infos, err := r.store.Schemas(ctx)
		for _, info := range infos {
			if info.Namespace == id {
				w.RemoveSchemas = append(w.RemoveSchemas, info.ID)
			}
		}
		return w, err
	})
	for err == nil && len(left) > 0 {
		now := min(len(left), deletedAtOnce)
		_, err = from.store.Write(ctx, ostiary.WriteRequest{RemoveMatching: left[:now]})
		left = left[now:]
	}
	return failed(op, err)
}

// deletedAtOnce is how many resources one entry of a deletion empties.
const deletedAtOnce = storage.FiltersMax - 1

// changePolicy writes what its creator changes of a policy. Nobody uses an
// authority meanwhile, since the change may take it away.
func (e *Engine) changePolicy(ctx context.Context, actor, id string, kind EventKind, change func(*running, *table) (ostiary.WriteRequest, error)) error {
	r := e.run.Load()
	if r == nil {
		return ErrClosed
	}
	if err := e.authenticated(actor); err != nil {
		return err
	}
	token, err := func() (ostiary.Token, error) {
		e.authority.Lock()
		defer e.authority.Unlock()
		t, err := r.table(ctx, id)
		if err != nil {
			return "", err
		}
		if t.record.Creator != actor {
			return "", fmt.Errorf("%w: %s did not create the policy", ErrUnauthorized, actor)
		}
		w, err := change(r, t)
		if err != nil {
			return "", err
		}
		defer r.forget(id) // also where the outcome is not known
		return r.store.Write(ctx, w)
	}()
	if err == nil {
		e.tell(token, []Event{{Kind: kind, Actor: actor, Policy: id}})
	}
	return err
}

// tuples yields what a filter selects of the newest view.
func (r *running) tuples(ctx context.Context, f rel.Filter) iter.Seq2[ostiary.StoredTuple, error] {
	return func(yield func(ostiary.StoredTuple, error) bool) {
		for cursor := ""; ; {
			page, err := r.store.Read(ctx, ostiary.ReadRequest{Filter: f, Cursor: cursor, Limit: 1000})
			if err != nil {
				yield(ostiary.StoredTuple{}, err)
				return
			}
			for _, t := range page.Tuples {
				if !yield(t, nil) {
					return
				}
			}
			if cursor = page.Next; cursor == "" {
				return
			}
		}
	}
}

// tell calls the event hook.
func (e *Engine) tell(token ostiary.Token, events []Event) {
	if e.opts.Event == nil {
		return
	}
	now := e.opts.Clock()
	for i := range events {
		events[i].Time, events[i].Token = now, token
		e.opts.Event(events[i])
	}
}
