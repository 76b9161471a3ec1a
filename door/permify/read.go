package permify

import (
	"context"

	"google.golang.org/protobuf/proto"

	ostiary "github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door/permify/basev1"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// readPage is the page of reads where none is asked for.
const readPage = 50

// readMax is how many rows the engine is asked for at once.
const readMax = 10_000

// reading goes through the parts of a filter, one after the other, at one
// revision.
type reading struct {
	store *ostiary.Store
	at    ostiary.Consistency
	key   []byte
	place place
	limit int
}

// resume prepares a reading for a call.
func (s *service) resume(ctx context.Context, tenant, snap, token string, size uint32, filter proto.Message) (*reading, error) {
	store, err := s.store(ctx, tenant)
	if err != nil {
		return nil, err
	}
	canonical, err := proto.MarshalOptions{Deterministic: true}.Marshal(filter)
	if err != nil {
		return nil, translated(err)
	}
	r := &reading{store: store, at: s.at(snap), key: tokenKey("read", tenant, string(filter.ProtoReflect().Descriptor().Name()), string(canonical)),
		limit: page(size, readPage)}
	if r.place, err = readToken(token, r.key); err != nil {
		return nil, err
	}
	if token != "" {
		r.at = ostiary.AtExactly(ostiary.Token(r.place.revision))
	}
	return r, nil
}

// pages reads up to the limit. one reads a page of a part, and returns how many
// rows it had, the cursor behind it and its revision.
func (r *reading) pages(ctx context.Context, parts int, one func(part, limit int, cursor string) (int, string, storage.Revision, error)) (string, error) {
	for r.place.part < parts && r.limit > 0 {
		n, next, revision, err := one(r.place.part, min(r.limit, readMax), r.place.cursor)
		if err != nil {
			return "", translated(err)
		}
		if r.place.revision == "" {
			token, err := r.store.TokenAt(ctx, revision)
			if err != nil {
				return "", translated(err)
			}
			r.place.revision, r.at = string(token), ostiary.AtExactly(token)
		}
		r.limit -= n
		if r.place.cursor = next; next == "" {
			r.place.part++
		}
	}
	if r.place.part >= parts {
		return "", nil
	}
	return r.place.text(r.key), nil
}

// ReadRelationships is the call of that name.
func (s *service) ReadRelationships(ctx context.Context, r *basev1.RelationshipReadRequest) (*basev1.RelationshipReadResponse, error) {
	if err := checkTenant("RelationshipReadRequest", r.TenantId); err != nil {
		return nil, err
	}
	switch {
	case r.Metadata == nil:
		return nil, required("RelationshipReadRequest.Metadata")
	case r.Filter == nil:
		return nil, required("RelationshipReadRequest.Filter")
	}
	filters, err := tupleFilters(r.Filter)
	if err != nil {
		return nil, err
	}
	reading, err := s.resume(ctx, r.TenantId, r.Metadata.SnapToken, r.ContinuousToken, r.PageSize, r.Filter)
	if err != nil {
		return nil, err
	}
	out := &basev1.RelationshipReadResponse{}
	out.ContinuousToken, err = reading.pages(ctx, len(filters), func(part, limit int, cursor string) (int, string, storage.Revision, error) {
		p, err := reading.store.Read(ctx, ostiary.ReadRequest{Filter: filters[part], Limit: limit, Cursor: cursor, Consistency: reading.at})
		for i := range p.Tuples {
			out.Tuples = append(out.Tuples, tupleMessage(p.Tuples[i].Key()))
		}
		return len(p.Tuples), p.Next, p.Revision, err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// ReadAttributes is the call of that name.
func (s *service) ReadAttributes(ctx context.Context, r *basev1.AttributeReadRequest) (*basev1.AttributeReadResponse, error) {
	if err := checkTenant("AttributeReadRequest", r.TenantId); err != nil {
		return nil, err
	}
	switch {
	case r.Metadata == nil:
		return nil, required("AttributeReadRequest.Metadata")
	case r.Filter == nil:
		return nil, required("AttributeReadRequest.Filter")
	}
	filters, err := attributeFilters(r.Filter)
	if err != nil {
		return nil, err
	}
	reading, err := s.resume(ctx, r.TenantId, r.Metadata.SnapToken, r.ContinuousToken, r.PageSize, r.Filter)
	if err != nil {
		return nil, err
	}
	var rows []rel.Attribute
	out := &basev1.AttributeReadResponse{}
	out.ContinuousToken, err = reading.pages(ctx, len(filters), func(part, limit int, cursor string) (int, string, storage.Revision, error) {
		f := &filters[part]
		p, err := reading.store.ReadAttributes(ctx, ostiary.ReadAttributesRequest{ObjectType: f.ObjectType, ObjectID: f.ObjectID,
			Name: f.Name, Limit: limit, Cursor: cursor, Consistency: reading.at})
		rows = append(rows, p.Attributes...)
		return len(p.Attributes), p.Next, p.Revision, err
	})
	if err != nil {
		return nil, err
	}
	if out.Attributes, err = attributeMessages(ctx, reading.store, rows); err != nil {
		return nil, err
	}
	return out, nil
}

// attributeMessages gives stored attributes the types of the current schema.
func attributeMessages(ctx context.Context, store *ostiary.Store, rows []rel.Attribute) ([]*basev1.Attribute, error) {
	_, compiled, err := store.Compiled(ctx, "")
	if err != nil {
		compiled = nil // there is data, and no schema any more
	}
	out := make([]*basev1.Attribute, 0, len(rows))
	for _, a := range rows {
		v, err := value(a.Value, compiled, a.Object.Type, a.Name)
		if err != nil {
			return nil, err
		}
		out = append(out, &basev1.Attribute{Entity: entityMessage(a.Object), Attribute: a.Name, Value: v})
	}
	return out, nil
}
