package permify

import (
	"context"
	"slices"

	ostiary "github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/permifypb"
	"github.com/ostiary/ostiary/schema"
)

// lookupPage is the page size of lookups if the request sets none.
const lookupPage = 1000

// listPage bounds the ids that one call of the engine returns.
const listPage = 10_000

// lookup is a validated lookup of entities or subjects.
type lookup struct {
	store   *ostiary.Store
	options authz.QueryOptions
	schema  *schema.Schema
}

// newLookup validates the fields that all lookups share and prepares the
// query. message names the request in validation errors. The options name the
// schema version, so that the cursor of a page stays valid after another
// version is written.
func (s *service) newLookup(ctx context.Context, message, tenant string, m lookupMetadata, c *permifypb.Context) (lookup, error) {
	if err := checkTenant(message, tenant); err != nil {
		return lookup{}, err
	}
	if err := checkDepth(message+"Metadata", m.GetDepth()); err != nil {
		return lookup{}, err
	}
	if err := checkContext(c); err != nil {
		return lookup{}, err
	}
	store, err := s.store(ctx, tenant)
	if err != nil {
		return lookup{}, err
	}
	l := lookup{store: store}
	if l.schema, l.options, err = s.pinnedOptions(ctx, store, m.GetSchemaVersion(), m.GetSnapToken(), boundDepth(m.GetDepth())); err != nil {
		return lookup{}, err
	}
	if err := s.addFullContext(ctx, store, l.schema, &l.options, c); err != nil {
		return lookup{}, err
	}
	return l, nil
}

// lookupMetadata is the metadata of a lookup's request.
type lookupMetadata interface {
	GetSchemaVersion() string
	GetSnapToken() string
	GetDepth() int32
}

// validLookupEntity reports the first field that breaks a rule of the protocol.
func validLookupEntity(r *permifypb.PermissionLookupEntityRequest) error {
	switch {
	case r.Metadata == nil:
		return requiredError("PermissionLookupEntityRequest.Metadata")
	case !validName(r.EntityType):
		return patternError("PermissionLookupEntityRequest.EntityType", namePattern)
	case !validName(r.Permission) && (r.Permission != "" || len(r.Permissions) == 0):
		return patternError("PermissionLookupEntityRequest.Permission", namePattern)
	case len(r.Permissions) > permissionsMax:
		return itemCountError("PermissionLookupEntityRequest.Permissions", 0, permissionsMax)
	}
	for _, p := range r.Permissions {
		if !validName(p) {
			return patternError("PermissionLookupEntityRequest.Permissions", namePattern)
		}
	}
	for _, ids := range r.Scope {
		if err := checkFilterIDs("PermissionLookupEntityRequest.Scope", ids.GetData()); err != nil {
			return err
		}
	}
	return checkSubject("PermissionLookupEntityRequest.Subject", r.Subject)
}

// LookupEntity implements Permission.LookupEntity. The ids of a page are
// sorted. The pages follow the engine's order, which is not alphabetical.
func (s *service) LookupEntity(ctx context.Context, r *permifypb.PermissionLookupEntityRequest) (*permifypb.PermissionLookupEntityResponse, error) {
	if err := validLookupEntity(r); err != nil {
		return nil, err
	}
	l, err := s.newLookup(ctx, "PermissionLookupEntityRequest", r.TenantId, r.Metadata, r.Context)
	if err != nil {
		return nil, err
	}
	if len(r.Permissions) > 0 {
		return l.entitiesOfAll(ctx, r)
	}
	ids, next, err := l.entities(ctx, r, r.Permission, pageSize(r.PageSize, lookupPage), r.ContinuousToken)
	if err != nil {
		return nil, err
	}
	slices.Sort(ids)
	return &permifypb.PermissionLookupEntityResponse{EntityIds: ids, ContinuousToken: next}, nil
}

// entitiesOfAll looks up entities for several permissions. Each permission has
// its own list; the continuous token joins the tokens of all lists.
func (l *lookup) entitiesOfAll(ctx context.Context, r *permifypb.PermissionLookupEntityRequest) (*permifypb.PermissionLookupEntityResponse, error) {
	names := r.Permissions
	if r.Permission != "" && !slices.Contains(names, r.Permission) {
		names = append([]string{r.Permission}, names...)
	}
	tokens, err := splitToken(r.ContinuousToken, len(names))
	if err != nil {
		return nil, err
	}
	out := &permifypb.PermissionLookupEntityResponse{Permissions: map[string]*permifypb.StringArrayValue{}}
	more := false
	for i, name := range names {
		if tokens[i] == listDone {
			out.Permissions[name] = &permifypb.StringArrayValue{}
			continue
		}
		ids, next, err := l.entities(ctx, r, name, pageSize(r.PageSize, lookupPage), tokens[i])
		if err != nil {
			return nil, err
		}
		slices.Sort(ids)
		out.Permissions[name] = &permifypb.StringArrayValue{Data: ids}
		out.EntityIds = append(out.EntityIds, ids...)
		if tokens[i] = next; next == "" {
			tokens[i] = listDone
		} else {
			more = true
		}
	}
	slices.Sort(out.EntityIds)
	out.EntityIds = slices.Compact(out.EntityIds)
	if more {
		out.ContinuousToken = joinToken(tokens)
	}
	return out, nil
}

// entities returns at most limit ids, in the engine's order, and the token of
// the next page; "" after the last one.
func (l *lookup) entities(ctx context.Context, r *permifypb.PermissionLookupEntityRequest, permission string, limit int, token string) ([]string, string, error) {
	relation, err := resolvePermission(l.schema, r.EntityType, permission, nil)
	if err != nil {
		return nil, "", err
	}
	var scope map[string][]string
	if len(r.Scope) > 0 {
		scope = make(map[string][]string, len(r.Scope))
		for typ, ids := range r.Scope {
			scope[typ] = ids.GetData()
		}
	}
	return collectIDs(limit, token, func(limit int, cursor string) ([]string, string, error) {
		list, err := l.store.ListObjects(ctx, authz.ListObjectsRequest{Type: r.EntityType, Relation: relation,
			Subject: subject(r.Subject), Scope: scope, Limit: limit, Cursor: cursor, UnknownPerPage: true, QueryOptions: l.options})
		if err != nil {
			return nil, "", translateError(err)
		}
		return list.IDs, list.Next, incompleteError(list.Bound, list.UnknownCount, list.Reasons)
	})
}

// collectIDs reads pages of at most listPage ids until it has limit ids or the
// list ends. It returns the ids and the cursor of the next page.
func collectIDs(limit int, cursor string, read func(limit int, cursor string) (ids []string, next string, err error)) ([]string, string, error) {
	var ids []string
	for {
		page, next, err := read(min(limit-len(ids), listPage), cursor)
		if err != nil {
			return nil, "", err
		}
		if ids == nil {
			ids = page
		} else {
			ids = append(ids, page...)
		}
		if cursor = next; cursor == "" || len(ids) >= limit {
			return ids, cursor, nil
		}
	}
}

// incompleteError returns an error if a list may lack ids: because it reached
// bound, or because unknown candidates could not be decided for the given
// reasons.
func incompleteError(bound string, unknown int, reasons *authz.Reasons) error {
	if bound != "" {
		return unknownError(&authz.Reasons{Bound: bound})
	}
	if unknown > 0 {
		return unknownError(reasons)
	}
	return nil
}

// LookupEntityStream implements Permission.LookupEntityStream: it sends the
// entities that LookupEntity finds, in the engine's order, and ends after
// page_size entities if the request sets a page_size. The last entity of each
// internal page carries the token to continue after it. The stream ends early
// if send fails or ctx is done.
func (s *service) LookupEntityStream(ctx context.Context, r *permifypb.PermissionLookupEntityRequest, send func(*permifypb.PermissionLookupEntityStreamResponse) error) error {
	if err := validLookupEntity(r); err != nil {
		return err
	}
	if len(r.Permissions) > 0 {
		return invalidArgument("invalid PermissionLookupEntityRequest.Permissions: a stream has one permission")
	}
	l, err := s.newLookup(ctx, "PermissionLookupEntityRequest", r.TenantId, r.Metadata, r.Context)
	if err != nil {
		return err
	}
	remaining, token := pageSize(r.PageSize, 0), r.ContinuousToken
	for {
		limit := lookupPage
		if r.PageSize > 0 {
			limit = min(limit, remaining)
		}
		ids, next, err := l.entities(ctx, r, r.Permission, limit, token)
		if err != nil {
			return err
		}
		for i, id := range ids {
			m := &permifypb.PermissionLookupEntityStreamResponse{EntityId: id}
			if i == len(ids)-1 {
				m.ContinuousToken = next
			}
			if err := send(m); err != nil {
				return err
			}
		}
		remaining -= len(ids)
		if token = next; next == "" || r.PageSize > 0 && remaining <= 0 {
			return nil
		}
	}
}

// LookupSubject implements Permission.LookupSubject. If everyone has the
// permission, the response lists the subjects that occur in tuples, as the
// original does.
func (s *service) LookupSubject(ctx context.Context, r *permifypb.PermissionLookupSubjectRequest) (*permifypb.PermissionLookupSubjectResponse, error) {
	if r.Metadata == nil {
		return nil, requiredError("PermissionLookupSubjectRequest.Metadata")
	}
	if err := checkEntity("PermissionLookupSubjectRequest.Entity", r.Entity); err != nil {
		return nil, err
	}
	if !validName(r.Permission) {
		return nil, patternError("PermissionLookupSubjectRequest.Permission", namePattern)
	}
	ref := r.SubjectReference
	switch {
	case ref == nil:
		return nil, requiredError("PermissionLookupSubjectRequest.SubjectReference")
	case !validName(ref.Type):
		return nil, patternError("RelationReference.Type", namePattern)
	case ref.Relation != "" && ref.Relation != noRelation && !validName(ref.Relation):
		return nil, patternError("RelationReference.Relation", namePattern)
	}
	l, err := s.newLookup(ctx, "PermissionLookupSubjectRequest", r.TenantId, r.Metadata, r.Context)
	if err != nil {
		return nil, err
	}
	relation, err := resolvePermission(l.schema, r.Entity.Type, r.Permission, r.Arguments)
	if err != nil {
		return nil, err
	}
	ids, next, err := l.subjects(ctx, r, relation, pageSize(r.PageSize, lookupPage))
	if err != nil {
		return nil, err
	}
	slices.Sort(ids)
	return &permifypb.PermissionLookupSubjectResponse{SubjectIds: ids, ContinuousToken: next}, nil
}

// subjects returns at most limit ids, in the engine's order, and the token of
// the next page; "" after the last one.
func (l *lookup) subjects(ctx context.Context, r *permifypb.PermissionLookupSubjectRequest, relation string, limit int) ([]string, string, error) {
	return collectIDs(limit, r.ContinuousToken, func(limit int, cursor string) ([]string, string, error) {
		list, err := l.store.ListSubjects(ctx, authz.ListSubjectsRequest{Object: object(r.Entity), Relation: relation,
			SubjectType: r.SubjectReference.Type, SubjectRelation: optionalRelation(r.SubjectReference.Relation), Named: true, Limit: limit, Cursor: cursor, UnknownPerPage: true, QueryOptions: l.options})
		if err != nil {
			return nil, "", translateError(err)
		}
		unknown := list.UnknownCount
		if list.Wildcard == expr.Unknown {
			unknown++
		}
		return list.IDs, list.Next, incompleteError(list.Bound, unknown, list.Reasons)
	})
}
