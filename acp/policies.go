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

// PolicySource is a policy to create, or a new text for an existing policy.
type PolicySource struct {
	// Text is the policy in YAML or JSON, at most PolicyBytesMax bytes.
	Text string
	// Dialect is the language of Text. The default finds it from the text.
	Dialect Dialect
	// Specification, if not empty, must equal the policy's own: "none" or "defra".
	Specification string
	// Metadata is stored with the policy, in addition to the metadata in its text.
	Metadata map[string]string
}

// AddPolicy creates a policy from a text in either dialect, and returns its id. It
// is like [Engine.CreatePolicy], but an empty creator or text is refused before
// the policy counter is advanced.
func (e *Engine) AddPolicy(ctx context.Context, creator, text string) (string, error) {
	if creator == "" {
		return "", failed("add policy", ErrUnauthenticated)
	}
	if text == "" {
		return "", failed("add policy", &PolicyError{Kind: ErrSyntax, Text: "the policy is empty"})
	}
	rec, err := e.CreatePolicy(ctx, creator, PolicySource{Text: text})
	if err != nil {
		return "", err
	}
	return rec.ID, nil
}

// CreatePolicy creates a policy. Creating the same text twice makes two policies,
// isolated from each other.
//
// Each call advances the policy counter, on which the policy's id depends, even if
// the policy is refused or creator is empty; acp_core does the same. Only a
// creator that is not a DID is refused before that.
func (e *Engine) CreatePolicy(ctx context.Context, creator string, src PolicySource) (*PolicyRecord, error) {
	const op = "create policy"
	r := e.run.Load()
	if r == nil {
		return nil, failed(op, ErrClosed)
	}
	if creator != "" {
		if err := e.authenticate(creator); err != nil {
			return nil, failed(op, err)
		}
	}
	rec, token, err := e.createPolicy(ctx, r, creator, src)
	if err != nil {
		return nil, failed(op, err)
	}
	e.notify(token, []Event{{Kind: PolicyCreated, Actor: creator, Policy: rec.ID}})
	return rec, nil
}

// createPolicy advances the policy counter, in the entry that creates the policy,
// or in an entry of its own if the policy is refused.
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
	_, counterErr := r.store.Write(ctx, ostiary.WriteRequest{Documents: []ostiary.Document{stateDocument(counter)}})
	return nil, "", errors.Join(err, counterErr)
}

// newPolicy returns the write that creates a policy.
func (e *Engine) newPolicy(creator string, src PolicySource, counter uint64) (*PolicyRecord, ostiary.WriteRequest, error) {
	if creator == "" {
		return nil, ostiary.WriteRequest{}, ErrUnauthenticated
	}
	p, err := ParsePolicy(src.Text, src.Dialect)
	if err != nil {
		return nil, ostiary.WriteRequest{}, err
	}
	if err := src.checkSpecification(p); err != nil {
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

// schema returns the schema that the policy is compiled into.
func (p *PolicyRecord) schema() ostiary.SchemaSource {
	return ostiary.SchemaSource{Model: p.model(p.ID), Dialect: "acp-" + p.Dialect.String(), Source: []byte(p.Source)}
}

// checkSpecification fails with [ErrSpecification] if the source demands another
// specification than the policy has.
func (src *PolicySource) checkSpecification(p *Policy) error {
	if src.Specification != "" && src.Specification != p.Specification {
		return fmt.Errorf("%w: the policy has %q, expected %q", ErrSpecification, p.Specification, src.Specification)
	}
	return nil
}

// collection is the document that stores the policy counter.
type collection struct {
	Counter uint64 `json:"counter"`
}

func stateDocument(counter uint64) ostiary.Document {
	body, _ := json.Marshal(collection{counter}) // a number always marshals
	return ostiary.Document{Kind: stateKind, Key: stateKey, Body: body}
}

// counter returns how many policies were created, refused ones included.
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

// Policy returns a policy, or [ErrPolicyNotFound]. Its slices and maps are shared
// and must not be modified.
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

// Policies yields all policies in the order of their creation.
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
				continue // an older text of a policy that was edited
			}
			seen[info.Namespace] = true
			t, err := r.table(ctx, info.Namespace)
			if errors.Is(err, ErrPolicyNotFound) {
				continue // another door's schema, or a policy that was just deleted
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

// ValidatePolicy parses a policy without creating it. Its errors are those of
// [Engine.CreatePolicy]; Policy.Warnings lists what is accepted but probably a
// mistake.
func ValidatePolicy(src PolicySource) (*Policy, error) {
	p, err := ParsePolicy(src.Text, src.Dialect)
	if err == nil {
		err = src.checkSpecification(p)
	}
	return p, failed("validate policy", err)
}

// EditPolicy replaces the text of a policy and keeps its id. Only the creator can
// edit it. Removing a relation removes its relationships; removed is their
// number. The new text cannot remove a resource or change the specification, the
// dialect or the actor's name ([ErrEdit]).
func (e *Engine) EditPolicy(ctx context.Context, actor, id string, src PolicySource) (removed int, err error) {
	const op = "edit policy"
	err = e.changePolicy(ctx, actor, id, PolicyEdited, func(r *running, t *table) (ostiary.WriteRequest, error) {
		dialect := src.Dialect
		if dialect == DialectAuto {
			dialect = t.record.Dialect
		}
		p, err := ParsePolicy(src.Text, dialect)
		if err == nil {
			err = src.checkSpecification(p)
		}
		if err == nil {
			err = checkEdit(&t.record.Policy, p)
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
		w.RemoveMatching, removed, err = r.removedRelations(ctx, t, p)
		return w, err
	})
	if err != nil {
		removed = 0
	}
	return removed, failed(op, err)
}

// checkEdit fails with [ErrEdit] if old cannot be replaced by edited.
func checkEdit(old, edited *Policy) error {
	switch {
	case old.Specification != edited.Specification:
		return fmt.Errorf("%w: the specification %q cannot be changed", ErrEdit, old.Specification)
	case old.Dialect != edited.Dialect:
		return fmt.Errorf("%w: the dialect %q cannot be changed", ErrEdit, old.Dialect)
	case old.Actor.Name != edited.Actor.Name:
		return fmt.Errorf("%w: the actor's name %q cannot be changed", ErrEdit, old.Actor.Name)
	}
	for i := range old.Resources {
		if name := old.Resources[i].Name; edited.resource(name) == nil {
			return fmt.Errorf("%w: resource %q cannot be removed", ErrEdit, name)
		}
	}
	return nil
}

// removedRelations returns filters for the relationships of relations that an edit
// removes, and for those whose subject set uses such a relation. n is the number
// of relationships that they select.
func (r *running) removedRelations(ctx context.Context, t *table, p *Policy) (filters []storage.Filter, n int, err error) {
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

// EditPolicyMetadata replaces PolicyRecord.Metadata. Only the creator can do that.
func (e *Engine) EditPolicyMetadata(ctx context.Context, actor, id string, metadata map[string]string) error {
	return failed("edit policy metadata", e.changePolicy(ctx, actor, id, PolicyEdited, func(_ *running, t *table) (ostiary.WriteRequest, error) {
		rec := *t.record
		rec.Metadata, rec.Modified = maps.Clone(metadata), e.opts.Clock().UTC()
		doc, err := rec.document()
		return ostiary.WriteRequest{Documents: []ostiary.Document{doc}}, err
	}))
}

// DeletePolicy removes a policy with its registrations and relationships. Only the
// creator can do that. The first log entry removes the policy itself. A policy
// with more than deletedAtOnce resources needs more entries to remove the rest.
func (e *Engine) DeletePolicy(ctx context.Context, actor, id string) error {
	const op = "delete policy"
	var rest []storage.Filter
	var from *running
	err := e.changePolicy(ctx, actor, id, PolicyDeleted, func(r *running, t *table) (ostiary.WriteRequest, error) {
		w := ostiary.WriteRequest{RemoveDocuments: []ostiary.DocumentKey{{Kind: policyKind, Key: id}},
			RemoveMatching: []storage.Filter{{Target: storage.FilterDocuments, DocumentKind: registrationKind, DocumentKeyPrefix: id}}}
		from, rest = r, nil
		for _, res := range t.resources {
			rest = append(rest, storage.Filter{Target: storage.FilterTuples, Tuple: rel.Filter{ObjectType: res.typ}})
		}
		n := min(len(rest), deletedAtOnce)
		w.RemoveMatching, rest = append(w.RemoveMatching, rest[:n]...), rest[n:]
		infos, err := r.store.Schemas(ctx)
		for _, info := range infos {
			if info.Namespace == id {
				w.RemoveSchemas = append(w.RemoveSchemas, info.ID)
			}
		}
		return w, err
	})
	for err == nil && len(rest) > 0 {
		n := min(len(rest), deletedAtOnce)
		_, err = from.store.Write(ctx, ostiary.WriteRequest{RemoveMatching: rest[:n]})
		rest = rest[n:]
	}
	return failed(op, err)
}

// deletedAtOnce is the number of resources whose relationships one log entry of a
// deletion removes.
const deletedAtOnce = storage.FiltersMax - 1

// changePolicy writes a change that only the policy's creator can make. It holds
// the authority lock, since the change may revoke authority.
func (e *Engine) changePolicy(ctx context.Context, actor, id string, kind EventKind, change func(*running, *table) (ostiary.WriteRequest, error)) error {
	r := e.run.Load()
	if r == nil {
		return ErrClosed
	}
	if err := e.authenticate(actor); err != nil {
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
		defer r.forget(id) // even if the outcome of the write is unknown
		return r.store.Write(ctx, w)
	}()
	if err == nil {
		e.notify(token, []Event{{Kind: kind, Actor: actor, Policy: id}})
	}
	return err
}

// tuples yields the stored tuples that a filter selects.
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

// notify calls Options.Event for each event.
func (e *Engine) notify(token ostiary.Token, events []Event) {
	if e.opts.Event == nil {
		return
	}
	now := e.opts.Clock()
	for i := range events {
		events[i].Time, events[i].Token = now, token
		e.opts.Event(events[i])
	}
}
