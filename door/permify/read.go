package permify

import (
	"context"
	"errors"

	"google.golang.org/protobuf/proto"

	ostiary "github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/permifypb"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// readPage is the page size of reads if the request sets none.
const readPage = 50

// readMax bounds the rows that one call of the engine returns.
const readMax = 10_000

// pageReader reads one page of a list with several parts: one part for each of
// the engine's filters, in their order, all at one revision.
type pageReader struct {
	store *ostiary.Store
	// consistency is what to read: from the second step on, exactly the
	// revision of the first one.
	consistency authz.Consistency
	// key binds the continuous token to the request.
	key []byte
	// position is where the next step begins.
	position position
	// limit is the number of rows that still fit the page.
	limit int
}

// newPageReader validates a continuous token and prepares the page after it.
// The token is bound to the tenant and the filter.
func (s *service) newPageReader(ctx context.Context, tenant, snap, token string, size uint32, filter proto.Message) (*pageReader, error) {
	store, err := s.store(ctx, tenant)
	if err != nil {
		return nil, err
	}
	canonical, err := proto.MarshalOptions{Deterministic: true}.Marshal(filter)
	if err != nil {
		return nil, translateError(err)
	}
	r := &pageReader{store: store, consistency: s.consistency(snap), key: tokenKey("read", tenant, string(filter.ProtoReflect().Descriptor().Name()), string(canonical)),
		limit: pageSize(size, readPage)}
	if r.position, err = parsePosition(token, r.key); err != nil {
		return nil, err
	}
	if token != "" {
		r.consistency = authz.AtExactly(authz.Token(r.position.revision))
	}
	return r, nil
}

// read reads rows until the page is full or all parts are read. It calls
// readPart for each step, with a part's index, the most rows to read and the
// cursor to start from. readPart returns the number of rows, the next cursor
// and the revision. read returns the continuous token of the next page; ""
// after the last one.
func (r *pageReader) read(ctx context.Context, parts int, readPart func(part, limit int, cursor string) (int, string, storage.Revision, error)) (string, error) {
	for r.position.part < parts && r.limit > 0 {
		n, next, revision, err := readPart(r.position.part, min(r.limit, readMax), r.position.cursor)
		if err != nil {
			return "", translateError(err)
		}
		if r.position.revision == "" {
			token, err := r.store.TokenAt(ctx, revision)
			if err != nil {
				return "", translateError(err)
			}
			r.position.revision, r.consistency = string(token), authz.AtExactly(token)
		}
		r.limit -= n
		if r.position.cursor = next; next == "" {
			r.position.part++
		}
	}
	if r.position.part >= parts {
		return "", nil
	}
	return r.position.token(r.key), nil
}

// ReadRelationships implements Data.ReadRelationships.
func (s *service) ReadRelationships(ctx context.Context, r *permifypb.RelationshipReadRequest) (*permifypb.RelationshipReadResponse, error) {
	if err := checkTenant("RelationshipReadRequest", r.TenantId); err != nil {
		return nil, err
	}
	switch {
	case r.Metadata == nil:
		return nil, requiredError("RelationshipReadRequest.Metadata")
	case r.Filter == nil:
		return nil, requiredError("RelationshipReadRequest.Filter")
	}
	filters, err := tupleFilters(r.Filter)
	if err != nil {
		return nil, err
	}
	reader, err := s.newPageReader(ctx, r.TenantId, r.Metadata.SnapToken, r.ContinuousToken, r.PageSize, r.Filter)
	if err != nil {
		return nil, err
	}
	out := &permifypb.RelationshipReadResponse{}
	out.ContinuousToken, err = reader.read(ctx, len(filters), func(part, limit int, cursor string) (int, string, storage.Revision, error) {
		p, err := reader.store.Read(ctx, authz.ReadRequest{Filter: filters[part], Limit: limit, Cursor: cursor, Consistency: reader.consistency})
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

// ReadAttributes implements Data.ReadAttributes.
func (s *service) ReadAttributes(ctx context.Context, r *permifypb.AttributeReadRequest) (*permifypb.AttributeReadResponse, error) {
	if err := checkTenant("AttributeReadRequest", r.TenantId); err != nil {
		return nil, err
	}
	switch {
	case r.Metadata == nil:
		return nil, requiredError("AttributeReadRequest.Metadata")
	case r.Filter == nil:
		return nil, requiredError("AttributeReadRequest.Filter")
	}
	filters, err := attributeFilters(r.Filter)
	if err != nil {
		return nil, err
	}
	reader, err := s.newPageReader(ctx, r.TenantId, r.Metadata.SnapToken, r.ContinuousToken, r.PageSize, r.Filter)
	if err != nil {
		return nil, err
	}
	var rows []rel.Attribute
	out := &permifypb.AttributeReadResponse{}
	out.ContinuousToken, err = reader.read(ctx, len(filters), func(part, limit int, cursor string) (int, string, storage.Revision, error) {
		f := &filters[part]
		p, err := reader.store.ReadAttributes(ctx, authz.ReadAttributesRequest{ObjectType: f.ObjectType, ObjectID: f.ObjectID,
			Name: f.Name, Limit: limit, Cursor: cursor, Consistency: reader.consistency})
		rows = append(rows, p.Attributes...)
		return len(p.Attributes), p.Next, p.Revision, err
	})
	if err != nil {
		return nil, err
	}
	if out.Attributes, err = attributeMessages(ctx, reader.store, rows); err != nil {
		return nil, err
	}
	return out, nil
}

// attributeMessages translates stored attributes. Their types come from the
// current schema.
func attributeMessages(ctx context.Context, store *ostiary.Store, rows []rel.Attribute) ([]*permifypb.Attribute, error) {
	_, compiled, err := store.Compiled(ctx, "")
	if errors.Is(err, authz.ErrNoSchema) {
		compiled = nil // without a schema, types are guessed
	} else if err != nil {
		return nil, translateError(err)
	}
	out := make([]*permifypb.Attribute, 0, len(rows))
	for _, a := range rows {
		v, err := storedValue(a.Value, compiled, a.Object.Type, a.Name)
		if err != nil {
			return nil, err
		}
		out = append(out, &permifypb.Attribute{Entity: entityMessage(a.Object), Attribute: a.Name, Value: v})
	}
	return out, nil
}
