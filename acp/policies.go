package acp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// PolicySource is a policy to create, or a new text for an existing policy.
type PolicySource struct {
	// Text is the policy in YAML or JSON, at most PolicyBytesMax bytes.
	Text string
	// Dialect is the language of Text. The default finds it from the text.
	Dialect Dialect
	// Specification, if not empty, is the specification that the policy must have.
	// "defra" is applied to a text that has none; "none" refuses a text that has
	// "defra".
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
// The policy's id depends on the policy's number; see [Policy.ID]. A collection
// numbers its policies from 1, and from 2 if the first one is in the map dialect, as
// the engines of both dialects do. A refused text consumes a number, too, even if
// creator is empty. In the map dialect this holds only if the text could be parsed:
// an [ErrSyntax], [ErrField] or [ErrBound] consumes none. A text that is not YAML
// has the dialect of PolicySource, else that of the newest policy, else the list
// dialect. A creator that is not a DID is refused before a number is consumed.
func (e *Engine) CreatePolicy(ctx context.Context, creator string, src PolicySource) (*PolicyRecord, error) {
	const op = "create policy"
	r, err := e.current(ctx)
	if err != nil {
		return nil, failed(op, err)
	}
	if creator != "" {
		if err := e.authenticate(creator); err != nil {
			return nil, failed(op, err)
		}
	}
	return e.createPolicy(ctx, r, creator, creator == "", src)
}

// createPolicy creates a policy and reports the event. creator is "" for the root,
// and for a caller without identity, which is refused.
func (e *Engine) createPolicy(ctx context.Context, r *running, creator string, anonymous bool, src PolicySource) (*PolicyRecord, error) {
	rec, token, err := e.writePolicy(ctx, r, creator, anonymous, src)
	if err != nil {
		return nil, failed("create policy", err)
	}
	e.notify(token, []Event{{Kind: PolicyCreated, Actor: creator, Policy: rec.ID}})
	return rec, nil
}

// CreatePolicy is like [Engine.CreatePolicy] for a policy of the root. Its
// PolicyRecord.Creator is empty, and only the root can edit it.
func (r Root) CreatePolicy(ctx context.Context, src PolicySource) (*PolicyRecord, error) {
	from, err := r.e.current(ctx)
	if err != nil {
		return nil, failed("create policy", err)
	}
	return r.e.createPolicy(ctx, from, "", false, src)
}

// writePolicy advances the policy counter, in the entry that creates the policy, or
// in an entry of its own if the policy is refused.
func (e *Engine) writePolicy(ctx context.Context, r *running, creator string, anonymous bool, src PolicySource) (*PolicyRecord, authz.Token, error) {
	p, refused := parsePolicy(src.Text, src.Dialect, src.Specification)
	parsed := refused
	if anonymous {
		refused = ErrUnauthenticated
	}
	e.authority.Lock() // changes of this engine would make the write begin again
	defer e.authority.Unlock()
	if refused == nil {
		rec, token, err := e.tryPolicy(ctx, r, creator, p, src)
		if err == nil {
			return rec, token, nil
		}
		refused = err
	}
	counted := true
	_, err := r.write(ctx, func() (w authz.WriteRequest, err error) {
		state, err := r.collection(ctx)
		if err != nil {
			return w, err
		}
		if counted = state.advance(p.Dialect, parsed); counted {
			w.Documents = []authz.Document{state.document()}
		}
		return w, nil
	})
	if !counted {
		return nil, "", refused
	}
	return nil, "", errors.Join(withKind(refused), withKind(err))
}

// tryPolicy creates a parsed policy and advances the counter in one entry.
func (e *Engine) tryPolicy(ctx context.Context, r *running, creator string, p *Policy, src PolicySource) (rec *PolicyRecord, token authz.Token, err error) {
	token, err = r.write(ctx, func() (w authz.WriteRequest, err error) {
		state, err := r.collection(ctx)
		if err != nil {
			return w, err
		}
		state.advance(p.Dialect, nil)
		rec, w, err = e.newPolicy(creator, p, src, state)
		return w, err
	})
	return rec, token, err
}

// attemptsMax is the largest number of times that one write is decided.
const attemptsMax = 100

// write makes a change that decide makes of what it reads. It calls decide again if
// the store has changed since, which another engine may have done, and fails with
// [authz.ErrConflict] after attemptsMax times.
func (r *running) write(ctx context.Context, decide func() (authz.WriteRequest, error)) (authz.Token, error) {
	for range attemptsMax {
		head, err := r.store.Head(ctx)
		if err != nil {
			return "", err
		}
		w, err := decide()
		if err != nil {
			return "", err
		}
		w.After = head
		token, err := r.store.Write(ctx, w)
		if !errors.Is(err, authz.ErrPrecondition) {
			return token, err
		}
	}
	return "", fmt.Errorf("%w: other writers changed the collection before each of %d attempts", authz.ErrConflict, attemptsMax)
}

// newPolicy returns the write that creates a parsed policy.
func (e *Engine) newPolicy(creator string, p *Policy, src PolicySource, state collection) (*PolicyRecord, authz.WriteRequest, error) {
	now := e.opts.Clock().UTC()
	rec := &PolicyRecord{ID: p.ID(state.Counter), Policy: *p, Source: src.Text, Creator: creator,
		Metadata: maps.Clone(src.Metadata), Created: now, Modified: now}
	doc, err := rec.document()
	if err != nil {
		return nil, authz.WriteRequest{}, err
	}
	state.Map = p.Dialect == DialectMap
	return rec, authz.WriteRequest{Schemas: []authz.SchemaSource{rec.schema()},
		Documents: []authz.Document{doc, state.document()}}, nil
}

// schema returns the schema that the policy is compiled into.
func (p *PolicyRecord) schema() authz.SchemaSource {
	return authz.SchemaSource{Model: p.model(p.ID), Dialect: "acp-" + p.Dialect.String(), Source: []byte(p.Source)}
}

// collection is the document that stores the policy counter.
type collection struct {
	// Counter is the last number that a policy or a refused text consumed.
	Counter uint64 `json:"counter"`
	// Map is true if the newest policy is in the map dialect.
	Map bool `json:"map,omitempty"`
}

// firstMapNumber is the number of the first policy of a collection, if it is in the
// map dialect.
const firstMapNumber = 2

// advance consumes a number for a text of a dialect, which is DialectAuto if the
// text is not YAML; then the dialect of the newest policy decides. err is the error
// of the parser. advance reports whether the number is consumed even if the policy
// is refused.
func (c *collection) advance(d Dialect, err error) bool {
	mapped := d == DialectMap || d == DialectAuto && c.Map
	if mapped && (errors.Is(err, ErrSyntax) || errors.Is(err, ErrField) || errors.Is(err, ErrBound)) {
		return false
	}
	c.Counter++
	if mapped {
		c.Counter = max(c.Counter, firstMapNumber)
	}
	return true
}

func (c collection) document() authz.Document {
	body, _ := json.Marshal(c) // a number and a bool always marshal
	return authz.Document{Kind: stateKind, Key: stateKey, Body: body}
}

// collection reads the policy counter. A new collection has the zero value.
func (r *running) collection(ctx context.Context) (c collection, err error) {
	doc, err := r.store.Document(ctx, authz.DocumentKey{Kind: stateKind, Key: stateKey})
	if errors.Is(err, authz.ErrNoDocument) {
		return c, nil
	}
	if err == nil {
		err = json.Unmarshal(doc.Body, &c)
	}
	return c, err
}

// Policy returns a policy, or [ErrPolicyNotFound]. Its slices and maps are shared
// and must not be modified.
func (e *Engine) Policy(ctx context.Context, id string) (*PolicyRecord, error) {
	r, err := e.current(ctx)
	if err != nil {
		return nil, failed("get policy", err)
	}
	rec, err := r.policy(ctx, id)
	return rec, failed("get policy", err)
}

// Policies yields all policies in the order of their creation.
func (e *Engine) Policies(ctx context.Context) iter.Seq2[*PolicyRecord, error] {
	return func(yield func(*PolicyRecord, error) bool) {
		r, err := e.current(ctx)
		if err != nil {
			yield(nil, failed("list policies", err))
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
			rec, err := r.policy(ctx, info.Namespace)
			if errors.Is(err, ErrPolicyNotFound) {
				continue // another door's schema, or a policy that was just deleted
			}
			if err != nil {
				yield(nil, failed("list policies", err))
				return
			}
			if !yield(rec, nil) {
				return
			}
		}
	}
}

// ValidatePolicy parses a policy without creating it. Its errors are those of
// [Engine.CreatePolicy]; Policy.Warnings lists what is accepted but probably a
// mistake.
func ValidatePolicy(src PolicySource) (*Policy, error) {
	p, err := parsePolicy(src.Text, src.Dialect, src.Specification)
	if err != nil {
		return nil, failed("validate policy", err)
	}
	return p, nil
}

// EditPolicy replaces the text of a policy and keeps its id. Only the creator can
// edit it. Removing a relation removes its relationships; removed is their
// number. The new text cannot remove a resource or change the specification, the
// dialect or the actor's name ([ErrEdit]).
func (e *Engine) EditPolicy(ctx context.Context, actor, id string, src PolicySource) (removed int, err error) {
	if err := e.authenticate(actor); err != nil {
		return 0, failed("edit policy", err)
	}
	return e.editPolicy(ctx, actor, id, src)
}

// EditPolicy is like [Engine.EditPolicy] for a policy that the root created.
func (r Root) EditPolicy(ctx context.Context, id string, src PolicySource) (removed int, err error) {
	return r.e.editPolicy(ctx, "", id, src)
}

// editPolicy replaces the text of a policy. actor is "" for the root.
func (e *Engine) editPolicy(ctx context.Context, actor, id string, src PolicySource) (removed int, err error) {
	err = e.changePolicy(ctx, actor, id, PolicyEdited, func(r *running, t *table) (authz.WriteRequest, error) {
		dialect := src.Dialect
		if dialect == DialectAuto {
			dialect = t.record.Dialect
		}
		p, err := parsePolicy(src.Text, dialect, src.Specification)
		if err == nil {
			err = checkEdit(&t.record.Policy, p)
		}
		if err != nil {
			return authz.WriteRequest{}, err
		}
		rec := *t.record
		rec.Policy, rec.Source, rec.Modified = *p, src.Text, e.opts.Clock().UTC()
		if src.Metadata != nil {
			rec.Metadata = maps.Clone(src.Metadata)
		}
		doc, err := rec.document()
		if err != nil {
			return authz.WriteRequest{}, err
		}
		w := authz.WriteRequest{Schemas: []authz.SchemaSource{rec.schema()}, Documents: []authz.Document{doc}}
		w.RemoveMatching, removed, err = r.removedRelations(ctx, t, p)
		return w, err
	})
	if err != nil {
		removed = 0
	}
	return removed, failed("edit policy", err)
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

// removedRelations returns filters for the relationships that an edit removes: the
// relationships of a removed relation, and those with a subject set of a removed
// relation. n is the number of relationships that the filters select.
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
	if err := e.authenticate(actor); err != nil {
		return failed("edit policy metadata", err)
	}
	return e.editMetadata(ctx, actor, id, metadata)
}

// EditPolicyMetadata is like [Engine.EditPolicyMetadata] for a policy that the root
// created.
func (r Root) EditPolicyMetadata(ctx context.Context, id string, metadata map[string]string) error {
	return r.e.editMetadata(ctx, "", id, metadata)
}

// editMetadata replaces a policy's metadata. actor is "" for the root.
func (e *Engine) editMetadata(ctx context.Context, actor, id string, metadata map[string]string) error {
	return failed("edit policy metadata", e.changePolicy(ctx, actor, id, PolicyEdited, func(_ *running, t *table) (authz.WriteRequest, error) {
		rec := *t.record
		rec.Metadata, rec.Modified = maps.Clone(metadata), e.opts.Clock().UTC()
		doc, err := rec.document()
		return authz.WriteRequest{Documents: []authz.Document{doc}}, err
	}))
}

// DeletePolicy removes a policy with its registrations and relationships. Only the
// creator can do that. The first log entry removes the policy itself. A policy
// with more than deletedAtOnce resources needs more entries to remove the rest.
func (e *Engine) DeletePolicy(ctx context.Context, actor, id string) error {
	if err := e.authenticate(actor); err != nil {
		return failed("delete policy", err)
	}
	return e.deletePolicy(ctx, actor, id)
}

// DeletePolicy is like [Engine.DeletePolicy] for a policy of any creator.
func (r Root) DeletePolicy(ctx context.Context, id string) error {
	return r.e.deletePolicy(ctx, "", id)
}

// deletePolicy removes a policy. actor is "" for the root.
func (e *Engine) deletePolicy(ctx context.Context, actor, id string) error {
	var rest []storage.Filter
	var from *running
	err := e.changePolicy(ctx, actor, id, PolicyDeleted, func(r *running, t *table) (authz.WriteRequest, error) {
		w := authz.WriteRequest{RemoveDocuments: []authz.DocumentKey{{Kind: policyKind, Key: id}},
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
		_, err = from.store.Write(ctx, authz.WriteRequest{RemoveMatching: rest[:n]})
		rest = rest[n:]
	}
	return failed("delete policy", err)
}

// deletedAtOnce is the number of resources whose relationships one log entry of a
// deletion removes.
const deletedAtOnce = storage.FiltersMax - 1

// changePolicy writes a change that only the policy's creator can make. The root,
// for which actor is "", can also delete the policies of others. changePolicy holds
// the authority lock, since the change may revoke authority.
func (e *Engine) changePolicy(ctx context.Context, actor, id string, kind EventKind, change func(*running, *table) (authz.WriteRequest, error)) error {
	r, err := e.current(ctx)
	if err != nil {
		return err
	}
	token, err := func() (authz.Token, error) {
		e.authority.Lock()
		defer e.authority.Unlock()
		defer r.forget(id) // even if the outcome of the write is unknown
		return r.write(ctx, func() (w authz.WriteRequest, err error) {
			r.forget(id) // the newest record decides
			t, err := r.table(ctx, id)
			if err != nil {
				return w, err
			}
			if t.record.Creator != actor && !(actor == "" && kind == PolicyDeleted) {
				return w, fmt.Errorf("%w: %s did not create the policy", ErrUnauthorized, cmp.Or(actor, "the root"))
			}
			return change(r, t)
		})
	}()
	if err == nil {
		e.notify(token, []Event{{Kind: kind, Actor: actor, Policy: id}})
	}
	return err
}

// tuples yields the stored tuples that a filter selects.
func (r *running) tuples(ctx context.Context, f rel.Filter) iter.Seq2[authz.StoredTuple, error] {
	return func(yield func(authz.StoredTuple, error) bool) {
		for cursor := ""; ; {
			page, err := r.store.Read(ctx, authz.ReadRequest{Filter: f, Cursor: cursor, Limit: 1000})
			if err != nil {
				yield(authz.StoredTuple{}, err)
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
func (e *Engine) notify(token authz.Token, events []Event) {
	if e.opts.Event == nil {
		return
	}
	now := e.opts.Clock()
	for i := range events {
		events[i].Time, events[i].Token = now, token
		e.opts.Event(events[i])
	}
}
