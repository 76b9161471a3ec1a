package permify

import (
	"context"
	"errors"

	ostiary "github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/eval"
	"github.com/ostiary/ostiary/internal/permifypb"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
)

// writeRequest is a decoded write of data, from REST or gRPC.
type writeRequest struct {
	// tenant is the tenant's id.
	tenant string
	// version is the schema version that must admit the data; "" is the current
	// one.
	version string
	// tuples and attributes are the data to write.
	tuples     []rel.Tuple
	attributes []*permifypb.Attribute
}

// validate reports the first field that breaks a rule of the protocol.
func (c *writeRequest) validate() error {
	if err := checkTenant("DataWriteRequest", c.tenant); err != nil {
		return err
	}
	if len(c.tuples)+len(c.attributes) > writeMax {
		return codeError(permifypb.ErrorCode_ERROR_CODE_MAX_DATA_PER_WRITE_EXCEEDED)
	}
	for i := range c.tuples {
		if err := validTuple(&c.tuples[i]); err != nil {
			return itemError(err, "DataWriteRequest.Tuples", i)
		}
	}
	for i, a := range c.attributes {
		if err := checkAttribute(a); err != nil {
			return itemError(err, "DataWriteRequest.Attributes", i)
		}
	}
	for i := range c.tuples {
		t := &c.tuples[i]
		if t.Object.Type == t.Subject.Type && t.Object.ID == t.Subject.ID && t.Relation == t.Subject.Relation {
			return codeError(permifypb.ErrorCode_ERROR_CODE_ENTITY_AND_SUBJECT_CANNOT_BE_EQUAL)
		}
	}
	return nil
}

// validTuple reports the first part of a tuple that breaks a rule of the
// protocol.
func validTuple(t *rel.Tuple) error {
	switch {
	case !validName(t.Object.Type):
		return patternError("Entity.Type", namePattern)
	case !validID(t.Object.ID):
		return patternError("Entity.Id", idPattern)
	case !validName(t.Relation):
		return patternError("Tuple.Relation", namePattern)
	}
	return checkSubjectParts(t.Subject.Type, t.Subject.ID, t.Subject.Relation)
}

// write applies a write and returns its snap token.
func (s *service) write(ctx context.Context, c *writeRequest) (string, error) {
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
	w := authz.WriteRequest{Add: dedupe(c.tuples), OnDuplicate: authz.Ignore, SchemaID: c.version}
	if len(c.attributes) > 0 {
		info, compiled, err := store.Compiled(ctx, c.version)
		if err != nil {
			return "", translateError(err)
		}
		// The write must use the same schema version as the checks here.
		w.SchemaID = info.ID
		if w.SetAttributes, err = attributesOf(c.attributes, compiled); err != nil {
			return "", err
		}
	}
	token, err := store.Write(ctx, w)
	if errors.Is(err, authz.ErrInvalidTuple) || errors.Is(err, authz.ErrNoType) || errors.Is(err, authz.ErrNoRelation) {
		return "", s.explainRefusal(ctx, store, c, err)
	}
	return string(token), translateError(err)
}

// dedupe removes tuples with a key that occurred before, in place.
func dedupe(tuples []rel.Tuple) []rel.Tuple {
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

// attributesOf translates attributes. If an attribute occurs more than once,
// the first one counts.
func attributesOf(in []*permifypb.Attribute, s *schema.Schema) ([]rel.Attribute, error) {
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

// explainRefusal translates err, the engine's error for a write that the schema
// does not admit. It returns the error code for the first tuple at fault, or
// else the translation of err.
func (s *service) explainRefusal(ctx context.Context, store *ostiary.Store, c *writeRequest, err error) error {
	_, compiled, compileErr := store.Compiled(ctx, c.version)
	if compileErr != nil {
		return translateError(compileErr)
	}
	for i := range c.tuples {
		if code := refusalCode(compiled, &c.tuples[i]); code != 0 {
			return codeError(code)
		}
	}
	return translateError(err)
}

// refusalCode returns why a schema does not admit a tuple; 0 if it does.
func refusalCode(s *schema.Schema, t *rel.Tuple) permifypb.ErrorCode {
	if eval.Admit(s, t) == nil {
		return 0
	}
	if _, ok := s.Type(t.Object.Type); !ok {
		return permifypb.ErrorCode_ERROR_CODE_ENTITY_DEFINITION_NOT_FOUND
	}
	if r, ok := s.Relation(t.Object.Type, t.Relation); !ok || r.Restrictions == nil {
		return permifypb.ErrorCode_ERROR_CODE_RELATION_DEFINITION_NOT_FOUND
	}
	return permifypb.ErrorCode_ERROR_CODE_SUBJECT_TYPE_NOT_FOUND
}

// tuplesOf translates tuples. field names the list in validation errors.
func tuplesOf(in []*permifypb.Tuple, field string) ([]rel.Tuple, error) {
	out := make([]rel.Tuple, len(in))
	for i, t := range in {
		switch {
		case t.GetEntity() == nil:
			return nil, itemError(requiredError("Tuple.Entity"), field, i)
		case t.Subject == nil:
			return nil, itemError(requiredError("Tuple.Subject"), field, i)
		}
		out[i] = tuple(t)
	}
	return out, nil
}

// Write implements Data.Write.
func (s *service) Write(ctx context.Context, r *permifypb.DataWriteRequest) (*permifypb.DataWriteResponse, error) {
	c, err := newWriteRequest(r)
	if err != nil {
		return nil, err
	}
	token, err := s.write(ctx, &c)
	if err != nil {
		return nil, err
	}
	return &permifypb.DataWriteResponse{SnapToken: token}, nil
}

// newWriteRequest translates a message. It fails if a required message field is
// missing; [writeRequest.validate] checks the rest.
func newWriteRequest(r *permifypb.DataWriteRequest) (writeRequest, error) {
	if r.Metadata == nil {
		return writeRequest{}, requiredError("DataWriteRequest.Metadata")
	}
	list, err := tuplesOf(r.Tuples, "DataWriteRequest.Tuples")
	return writeRequest{r.TenantId, r.Metadata.SchemaVersion, list, r.Attributes}, err
}

// WriteRelationships implements Data.WriteRelationships.
func (s *service) WriteRelationships(ctx context.Context, r *permifypb.RelationshipWriteRequest) (*permifypb.RelationshipWriteResponse, error) {
	switch {
	case r.Metadata == nil:
		return nil, requiredError("RelationshipWriteRequest.Metadata")
	case len(r.Tuples) < 1:
		return nil, invalidArgument("invalid RelationshipWriteRequest.Tuples: value must contain at least 1 item(s)")
	}
	list, err := tuplesOf(r.Tuples, "RelationshipWriteRequest.Tuples")
	if err != nil {
		return nil, err
	}
	token, err := s.write(ctx, &writeRequest{tenant: r.TenantId, version: r.Metadata.SchemaVersion, tuples: list})
	if err != nil {
		return nil, err
	}
	return &permifypb.RelationshipWriteResponse{SnapToken: token}, nil
}

// tupleFilters translates a filter into one filter of the engine for each pair
// of an entity id and a subject id.
func tupleFilters(f *permifypb.TupleFilter) ([]rel.Filter, error) {
	entities, subjects := f.GetEntity().GetIds(), f.GetSubject().GetIds()
	if err := checkFilterIDs("EntityFilter.Ids", entities); err != nil {
		return nil, err
	}
	if err := checkFilterIDs("SubjectFilter.Ids", subjects); err != nil {
		return nil, err
	}
	n := max(len(entities), 1) * max(len(subjects), 1)
	if n > storage.FiltersMax {
		return nil, invalidArgument("invalid TupleFilter: %d combinations of ids, the bound FiltersMax is %d", n, storage.FiltersMax)
	}
	base := rel.Filter{ObjectType: f.GetEntity().GetType(), Relation: f.GetRelation(), SubjectType: f.GetSubject().GetType()}
	if r := f.GetSubject().GetRelation(); r == noRelation {
		base.SubjectPlain = true
	} else {
		base.SubjectRelation = r
	}
	out := make([]rel.Filter, 0, n)
	for _, e := range idsOrAny(entities) {
		for _, s := range idsOrAny(subjects) {
			one := base
			one.ObjectID, one.SubjectID = e, s
			out = append(out, one)
		}
	}
	return out, nil
}

// idsOrAny returns ids. If ids is empty, it returns one empty id, which matches every id.
func idsOrAny(ids []string) []string {
	if len(ids) == 0 {
		return []string{""}
	}
	return ids
}

// attributeFilters translates a filter into one filter of the engine for each
// pair of an entity id and an attribute.
func attributeFilters(f *permifypb.AttributeFilter) ([]storage.Filter, error) {
	ids, names := f.GetEntity().GetIds(), f.GetAttributes()
	if err := checkFilterIDs("EntityFilter.Ids", ids); err != nil {
		return nil, err
	}
	n := max(len(ids), 1) * max(len(names), 1)
	if n > storage.FiltersMax {
		return nil, invalidArgument("invalid AttributeFilter: %d combinations of ids and attributes, the bound FiltersMax is %d", n, storage.FiltersMax)
	}
	out := make([]storage.Filter, 0, n)
	for _, id := range idsOrAny(ids) {
		for _, name := range idsOrAny(names) {
			out = append(out, storage.Filter{Target: storage.FilterAttributes, ObjectType: f.GetEntity().GetType(), ObjectID: id, Name: name})
		}
	}
	return out, nil
}

// remove deletes what the filters select, in one write, and returns its snap
// token. An empty filter selects nothing. Two empty filters are an error,
// because the request has no effect.
func (s *service) remove(ctx context.Context, message, tenant string, t *permifypb.TupleFilter, a *permifypb.AttributeFilter) (string, error) {
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
	var w authz.WriteRequest
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
		return "", codeError(permifypb.ErrorCode_ERROR_CODE_VALIDATION)
	}
	store, err := s.store(ctx, tenant)
	if err != nil {
		return "", err
	}
	token, err := store.Write(ctx, w)
	return string(token), translateError(err)
}

// Delete implements Data.Delete.
func (s *service) Delete(ctx context.Context, r *permifypb.DataDeleteRequest) (*permifypb.DataDeleteResponse, error) {
	switch {
	case r.TupleFilter == nil:
		return nil, requiredError("DataDeleteRequest.TupleFilter")
	case r.AttributeFilter == nil:
		return nil, requiredError("DataDeleteRequest.AttributeFilter")
	}
	token, err := s.remove(ctx, "DataDeleteRequest", r.TenantId, r.TupleFilter, r.AttributeFilter)
	if err != nil {
		return nil, err
	}
	return &permifypb.DataDeleteResponse{SnapToken: token}, nil
}

// DeleteRelationships implements Data.DeleteRelationships.
func (s *service) DeleteRelationships(ctx context.Context, r *permifypb.RelationshipDeleteRequest) (*permifypb.RelationshipDeleteResponse, error) {
	if r.Filter == nil {
		return nil, requiredError("RelationshipDeleteRequest.Filter")
	}
	token, err := s.remove(ctx, "RelationshipDeleteRequest", r.TenantId, r.Filter, nil)
	if err != nil {
		return nil, err
	}
	return &permifypb.RelationshipDeleteResponse{SnapToken: token}, nil
}
