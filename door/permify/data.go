package permify

import (
	"context"
	"errors"

	ostiary "github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door/permify/basev1"
	"github.com/ostiary/ostiary/eval"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
)

// change is a write of data as both ways in read it.
type change struct {
	tenant, version string
	tuples          []rel.Tuple
	attributes      []*basev1.Attribute
}

func (c *change) validate() error {
	if err := checkTenant("DataWriteRequest", c.tenant); err != nil {
		return err
	}
	if len(c.tuples)+len(c.attributes) > WriteMax {
		return coded(basev1.ErrorCode_ERROR_CODE_MAX_DATA_PER_WRITE_EXCEEDED)
	}
	for i := range c.tuples {
		if err := validTuple(&c.tuples[i]); err != nil {
			return within(err, "DataWriteRequest.Tuples", i)
		}
	}
	for i, a := range c.attributes {
		if err := checkAttribute(a); err != nil {
			return within(err, "DataWriteRequest.Attributes", i)
		}
	}
	for i := range c.tuples {
		t := &c.tuples[i]
		if t.Object.Type == t.Subject.Type && t.Object.ID == t.Subject.ID && t.Relation == t.Subject.Relation {
			return coded(basev1.ErrorCode_ERROR_CODE_ENTITY_AND_SUBJECT_CANNOT_BE_EQUAL)
		}
	}
	return nil
}

func validTuple(t *rel.Tuple) error {
	switch {
	case !validName(t.Object.Type):
		return mismatch("Entity.Type", namePattern)
	case !validID(t.Object.ID):
		return mismatch("Entity.Id", idPattern)
	case !validName(t.Relation):
		return mismatch("Tuple.Relation", namePattern)
	}
	return checkSubjectParts(t.Subject.Type, t.Subject.ID, t.Subject.Relation)
}

// write makes a change and returns its snap token.
func (s *service) write(ctx context.Context, c *change) (string, error) {
	if err := c.validate(); err != nil {
		return "", err
	}
	store, err := s.store(ctx, c.tenant)
	if err != nil {
		return "", err
	}
	if len(c.tuples) == 0 && len(c.attributes) == 0 {
		return noopToken, nil
	}
	w := ostiary.WriteRequest{Add: once(c.tuples), OnDuplicate: ostiary.Ignore, SchemaID: c.version}
	if len(c.attributes) > 0 {
		info, compiled, err := store.Compiled(ctx, c.version)
		if err != nil {
			return "", translated(err)
		}
		// What was checked here is what the write is admitted by.
		w.SchemaID = info.ID
		if w.SetAttributes, err = attributes(c.attributes, compiled); err != nil {
			return "", err
		}
	}
	token, err := store.Write(ctx, w)
	if errors.Is(err, ostiary.ErrInvalidTuple) || errors.Is(err, ostiary.ErrNoType) || errors.Is(err, ostiary.ErrNoRelation) {
		return "", s.refused(ctx, store, c, err)
	}
	return string(token), translated(err)
}

// once leaves out tuples that come again; the first counts.
func once(tuples []rel.Tuple) []rel.Tuple {
	if len(tuples) < 2 {
		return tuples
	}
	seen := make(map[rel.Key]struct{}, len(tuples))
	out := tuples[:0]
	for _, t := range tuples {
		k := t.Key()
		if _, again := seen[k]; !again {
			seen[k] = struct{}{}
			out = append(out, t)
		}
	}
	return out
}

// attributes translates attributes; of those that come again the first counts.
func attributes(in []*basev1.Attribute, s *schema.Schema) ([]rel.Attribute, error) {
	out := make([]rel.Attribute, 0, len(in))
	seen := make(map[rel.Attribute]struct{}, len(in))
	for _, m := range in {
		a, err := attribute(m, s)
		if err != nil {
			return nil, err
		}
		key := rel.Attribute{Object: a.Object, Name: a.Name}
		if _, again := seen[key]; !again {
			seen[key] = struct{}{}
			out = append(out, a)
		}
	}
	return out, nil
}

// refused says, in the protocol's words, why the schema does not admit a write.
func (s *service) refused(ctx context.Context, store *ostiary.Store, c *change, otherwise error) error {
	_, compiled, err := store.Compiled(ctx, c.version)
	if err != nil {
		return translated(err)
	}
	for i := range c.tuples {
		if code := refusedTuple(compiled, &c.tuples[i]); code != 0 {
			return coded(code)
		}
	}
	return translated(otherwise)
}

// refusedTuple returns why a schema does not admit a tuple, 0 where it does.
func refusedTuple(s *schema.Schema, t *rel.Tuple) basev1.ErrorCode {
	if eval.Admit(s, t) == nil {
		return 0
	}
	if _, ok := s.Type(t.Object.Type); !ok {
		return basev1.ErrorCode_ERROR_CODE_ENTITY_DEFINITION_NOT_FOUND
	}
	if r, ok := s.Relation(t.Object.Type, t.Relation); !ok || r.Restrictions == nil {
		return basev1.ErrorCode_ERROR_CODE_RELATION_DEFINITION_NOT_FOUND
	}
	return basev1.ErrorCode_ERROR_CODE_SUBJECT_TYPE_NOT_FOUND
}

func tuples(in []*basev1.Tuple, field string) ([]rel.Tuple, error) {
	out := make([]rel.Tuple, len(in))
	for i, t := range in {
		switch {
		case t.GetEntity() == nil:
			return nil, within(required("Tuple.Entity"), field, i)
		case t.Subject == nil:
			return nil, within(required("Tuple.Subject"), field, i)
		}
		out[i] = tuple(t)
	}
	return out, nil
}

// Write is the call of that name.
func (s *service) Write(ctx context.Context, r *basev1.DataWriteRequest) (*basev1.DataWriteResponse, error) {
	c, err := dataChange(r)
	if err != nil {
		return nil, err
	}
	token, err := s.write(ctx, &c)
	if err != nil {
		return nil, err
	}
	return &basev1.DataWriteResponse{SnapToken: token}, nil
}

func dataChange(r *basev1.DataWriteRequest) (change, error) {
	if r.Metadata == nil {
		return change{}, required("DataWriteRequest.Metadata")
	}
	list, err := tuples(r.Tuples, "DataWriteRequest.Tuples")
	return change{r.TenantId, r.Metadata.SchemaVersion, list, r.Attributes}, err
}

// WriteRelationships is the call of that name.
func (s *service) WriteRelationships(ctx context.Context, r *basev1.RelationshipWriteRequest) (*basev1.RelationshipWriteResponse, error) {
	switch {
	case r.Metadata == nil:
		return nil, required("RelationshipWriteRequest.Metadata")
	case len(r.Tuples) < 1:
		return nil, invalid("invalid RelationshipWriteRequest.Tuples: value must contain at least 1 item(s)")
	}
	list, err := tuples(r.Tuples, "RelationshipWriteRequest.Tuples")
	if err != nil {
		return nil, err
	}
	token, err := s.write(ctx, &change{tenant: r.TenantId, version: r.Metadata.SchemaVersion, tuples: list})
	if err != nil {
		return nil, err
	}
	return &basev1.RelationshipWriteResponse{SnapToken: token}, nil
}

// tupleFilters translates a filter: one of the engine's for each pair of ids.
func tupleFilters(f *basev1.TupleFilter) ([]rel.Filter, error) {
	entities, subjects := f.GetEntity().GetIds(), f.GetSubject().GetIds()
	if err := checkFilterIDs("EntityFilter.Ids", entities); err != nil {
		return nil, err
	}
	if err := checkFilterIDs("SubjectFilter.Ids", subjects); err != nil {
		return nil, err
	}
	n := max(len(entities), 1) * max(len(subjects), 1)
	if n > storage.FiltersMax {
		return nil, invalid("invalid TupleFilter: %d combinations of ids, the bound FiltersMax is %d", n, storage.FiltersMax)
	}
	base := rel.Filter{ObjectType: f.GetEntity().GetType(), Relation: f.GetRelation(), SubjectType: f.GetSubject().GetType()}
	if r := f.GetSubject().GetRelation(); r == noRelation {
		base.SubjectPlain = true
	} else {
		base.SubjectRelation = r
	}
	out := make([]rel.Filter, 0, n)
	for _, e := range anyOf(entities) {
		for _, s := range anyOf(subjects) {
			one := base
			one.ObjectID, one.SubjectID = e, s
			out = append(out, one)
		}
	}
	return out, nil
}

// anyOf makes of no ids the one that means any.
func anyOf(ids []string) []string {
	if len(ids) == 0 {
		return []string{""}
	}
	return ids
}

// attributeFilters translates a filter: one of the engine's for each id and name.
func attributeFilters(f *basev1.AttributeFilter) ([]storage.Filter, error) {
	ids, names := f.GetEntity().GetIds(), f.GetAttributes()
	if err := checkFilterIDs("EntityFilter.Ids", ids); err != nil {
		return nil, err
	}
	n := max(len(ids), 1) * max(len(names), 1)
	if n > storage.FiltersMax {
		return nil, invalid("invalid AttributeFilter: %d combinations of ids and attributes, the bound FiltersMax is %d", n, storage.FiltersMax)
	}
	out := make([]storage.Filter, 0, n)
	for _, id := range anyOf(ids) {
		for _, name := range anyOf(names) {
			out = append(out, storage.Filter{Target: storage.FilterAttributes, ObjectType: f.GetEntity().GetType(), ObjectID: id, Name: name})
		}
	}
	return out, nil
}

// remove deletes what filters select, in one write. Filters that say nothing
// select nothing; if both say nothing, that is a mistake.
func (s *service) remove(ctx context.Context, message, tenant string, t *basev1.TupleFilter, a *basev1.AttributeFilter) (string, error) {
	if err := checkTenant(message, tenant); err != nil {
		return "", err
	}
	tupleFilter, err := tupleFilters(t)
	if err != nil {
		return "", err
	}
	attributeFilter, err := attributeFilters(a)
	if err != nil {
		return "", err
	}
	var w ostiary.WriteRequest
	for _, f := range tupleFilter {
		if f != (rel.Filter{}) {
			w.RemoveMatching = append(w.RemoveMatching, storage.Filter{Target: storage.FilterTuples, Tuple: f})
		}
	}
	for _, f := range attributeFilter {
		if f != (storage.Filter{Target: storage.FilterAttributes}) {
			w.RemoveMatching = append(w.RemoveMatching, f)
		}
	}
	if len(w.RemoveMatching) == 0 {
		return "", coded(basev1.ErrorCode_ERROR_CODE_VALIDATION)
	}
	store, err := s.store(ctx, tenant)
	if err != nil {
		return "", err
	}
	token, err := store.Write(ctx, w)
	return string(token), translated(err)
}

// Delete is the call of that name.
func (s *service) Delete(ctx context.Context, r *basev1.DataDeleteRequest) (*basev1.DataDeleteResponse, error) {
	switch {
	case r.TupleFilter == nil:
		return nil, required("DataDeleteRequest.TupleFilter")
	case r.AttributeFilter == nil:
		return nil, required("DataDeleteRequest.AttributeFilter")
	}
	token, err := s.remove(ctx, "DataDeleteRequest", r.TenantId, r.TupleFilter, r.AttributeFilter)
	if err != nil {
		return nil, err
	}
	return &basev1.DataDeleteResponse{SnapToken: token}, nil
}

// DeleteRelationships is the call of that name.
func (s *service) DeleteRelationships(ctx context.Context, r *basev1.RelationshipDeleteRequest) (*basev1.RelationshipDeleteResponse, error) {
	if r.Filter == nil {
		return nil, required("RelationshipDeleteRequest.Filter")
	}
	token, err := s.remove(ctx, "RelationshipDeleteRequest", r.TenantId, r.Filter, nil)
	if err != nil {
		return nil, err
	}
	return &basev1.RelationshipDeleteResponse{SnapToken: token}, nil
}
