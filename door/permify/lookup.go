package permify

import (
	"context"
	"slices"

	ostiary "github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door/permify/basev1"
	"github.com/ostiary/ostiary/eval"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// lookupPage is the page of lookups where none is asked for.
const lookupPage = 1000

// listPage is how many ids the engine is asked for at once.
const listPage = 10_000

// lookup is what both kinds of lookups have in common.
type lookup struct {
	store  *ostiary.Store
	ask    ostiary.QueryOptions
	schema *schema.Schema
	// relation is what a lookup of subjects asks for.
	relation string
}

// begin validates and prepares what lookups have in common.
func (s *service) begin(ctx context.Context, message, tenant string, m lookupMetadata, c *basev1.Context) (lookup, error) {
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
	info, compiled, err := store.Compiled(ctx, m.GetSchemaVersion())
	if err != nil {
		return lookup{}, translated(err)
	}
	// The version is named from here on, so that a page's cursor is of the same
	// question after another schema was written.
	l := lookup{store: store, schema: compiled,
		ask: ostiary.QueryOptions{Consistency: s.at(m.GetSnapToken()), SchemaID: info.ID, Bounds: boundDepth(m.GetDepth())}}
	if err := s.bring(ctx, store, &l.ask, c); err != nil {
		return lookup{}, err
	}
	if l.ask.Context == nil && len(compiled.Conditions) > 0 {
		l.ask.Context = nothing()
	}
	return l, nil
}

type lookupMetadata interface {
	GetSchemaVersion() string
	GetSnapToken() string
	GetDepth() int32
}

func validLookupEntity(r *basev1.PermissionLookupEntityRequest) error {
	switch {
	case r.Metadata == nil:
		return required("PermissionLookupEntityRequest.Metadata")
	case !validName(r.EntityType):
		return mismatch("PermissionLookupEntityRequest.EntityType", namePattern)
	case !validName(r.Permission) && (r.Permission != "" || len(r.Permissions) == 0):
		return mismatch("PermissionLookupEntityRequest.Permission", namePattern)
	case len(r.Permissions) > PermissionsMax:
		return itemCount("PermissionLookupEntityRequest.Permissions", 0, PermissionsMax)
	}
	for _, p := range r.Permissions {
		if !validName(p) {
			return mismatch("PermissionLookupEntityRequest.Permissions", namePattern)
		}
	}
	for typ, ids := range r.Scope {
		if typ != r.EntityType {
			return &failure{code: codeOf(basev1.ErrorCode_ERROR_CODE_NOT_IMPLEMENTED),
				message: "a scope of another type than entity_type is not supported"}
		}
		if err := checkFilterIDs("PermissionLookupEntityRequest.Scope", ids.GetData()); err != nil {
			return err
		}
	}
	return checkSubject("PermissionLookupEntityRequest.Subject", r.Subject)
}

// LookupEntity is the call of that name. A page's ids are sorted; which ids
// stand on which page follows the engine's order.
func (s *service) LookupEntity(ctx context.Context, r *basev1.PermissionLookupEntityRequest) (*basev1.PermissionLookupEntityResponse, error) {
	if err := validLookupEntity(r); err != nil {
		return nil, err
	}
	l, err := s.begin(ctx, "PermissionLookupEntityRequest", r.TenantId, r.Metadata, r.Context)
	if err != nil {
		return nil, err
	}
	if len(r.Permissions) > 0 {
		return l.several(ctx, r)
	}
	ids, next, err := l.entities(ctx, r, r.Permission, page(r.PageSize, lookupPage), r.ContinuousToken)
	if err != nil {
		return nil, err
	}
	slices.Sort(ids)
	return &basev1.PermissionLookupEntityResponse{EntityIds: ids, ContinuousToken: next}, nil
}

// several answers a lookup of more than one permission: each is its own list,
// and the token goes on in all of them.
func (l *lookup) several(ctx context.Context, r *basev1.PermissionLookupEntityRequest) (*basev1.PermissionLookupEntityResponse, error) {
	names := r.Permissions
	if r.Permission != "" && !slices.Contains(names, r.Permission) {
		names = append([]string{r.Permission}, names...)
	}
	tokens, err := splitToken(r.ContinuousToken, len(names))
	if err != nil {
		return nil, err
	}
	out := &basev1.PermissionLookupEntityResponse{Permissions: map[string]*basev1.StringArrayValue{}}
	more := false
	for i, name := range names {
		if tokens[i] == listDone {
			out.Permissions[name] = &basev1.StringArrayValue{}
			continue
		}
		ids, next, err := l.entities(ctx, r, name, page(r.PageSize, lookupPage), tokens[i])
		if err != nil {
			return nil, err
		}
		slices.Sort(ids)
		out.Permissions[name] = &basev1.StringArrayValue{Data: ids}
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

// entities returns a page of ids, in the engine's order, and the token of the
// next one.
func (l *lookup) entities(ctx context.Context, r *basev1.PermissionLookupEntityRequest, permission string, limit int, token string) ([]string, string, error) {
	permission, err := asked(l.schema, r.EntityType, permission, nil)
	if err != nil {
		return nil, "", err
	}
	if scope, ok := r.Scope[r.EntityType]; ok {
		return l.scoped(ctx, r, permission, scope.GetData(), limit, token)
	}
	var ids []string
	for {
		list, err := l.store.ListObjects(ctx, ostiary.ListObjectsRequest{Type: r.EntityType, Relation: permission,
			Subject: subject(r.Subject), Limit: min(limit-len(ids), listPage), Cursor: token, UnknownPerPage: true, QueryOptions: l.ask})
		if err != nil {
			return nil, "", translated(err)
		}
		if err := complete(list.Bound, list.UnknownCount, list.Reasons); err != nil {
			return nil, "", err
		}
		if ids == nil {
			ids = list.IDs
		} else {
			ids = append(ids, list.IDs...)
		}
		if token = list.Next; token == "" || len(ids) >= limit {
			return ids, token, nil
		}
	}
}

// complete is the error of a list that is not all there is.
func complete(bound string, unknown int, why *eval.Reasons) error {
	if bound != "" {
		return open(&eval.Reasons{Bound: bound})
	}
	if unknown > 0 {
		return open(why)
	}
	return nil
}

// scoped looks only at the entities that the request names: each is checked,
// in order of id.
func (l *lookup) scoped(ctx context.Context, r *basev1.PermissionLookupEntityRequest, permission string, scope []string, limit int, token string) ([]string, string, error) {
	key := tokenKey("scope", r.TenantId, r.EntityType, permission, subject(r.Subject).String(), l.ask.SchemaID)
	at, err := readToken(token, key)
	if err != nil {
		return nil, "", err
	}
	if token != "" {
		l.ask.Consistency = ostiary.AtExactly(ostiary.Token(at.revision))
	}
	rest := slices.Compact(slices.Sorted(slices.Values(scope)))
	if i, found := slices.BinarySearch(rest, at.last); found {
		rest = rest[i+1:]
	} else {
		rest = rest[i:]
	}
	var ids []string
	for len(rest) > 0 {
		n := min(len(rest), listPage)
		found, revision, err := l.checkEach(ctx, r, permission, rest[:n])
		if err != nil {
			return nil, "", err
		}
		rest = rest[n:]
		ids = append(ids, found...)
		if len(ids) > limit || len(ids) == limit && len(rest) > 0 {
			ids = ids[:limit]
			return ids, (&place{revision, ids[limit-1], 0, ""}).text(key), nil
		}
		l.ask.Consistency = ostiary.AtExactly(ostiary.Token(revision))
	}
	return ids, "", nil
}

// checkEach returns those of some entities that the subject has the permission
// on, and the token of the revision that was asked.
func (l *lookup) checkEach(ctx context.Context, r *basev1.PermissionLookupEntityRequest, permission string, ids []string) ([]string, string, error) {
	questions := make([]eval.Question, len(ids))
	for i, id := range ids {
		questions[i] = eval.Question{Object: rel.Object{Type: r.EntityType, ID: id}, Relation: permission, Subject: subject(r.Subject)}
	}
	answers, err := l.store.Batch(ctx, questions, l.ask)
	if err != nil {
		return nil, "", translated(err)
	}
	var found []string
	for i := range answers {
		if answers[i].Err != nil {
			return nil, "", translated(answers[i].Err)
		}
		d, err := decided(answers[i])
		if err != nil {
			return nil, "", err
		}
		if d.allowed {
			found = append(found, ids[i])
		}
	}
	revision, err := l.store.TokenAt(ctx, answers[0].Revision)
	return found, string(revision), translated(err)
}

// LookupEntityStream is the call of that name: what LookupEntity finds, page
// by page, in the engine's order. With a page_size it ends after so many. The
// last entity of a page carries the token of what follows. It stops when send
// fails or the caller leaves.
func (s *service) LookupEntityStream(ctx context.Context, r *basev1.PermissionLookupEntityRequest, send func(*basev1.PermissionLookupEntityStreamResponse) error) error {
	if err := validLookupEntity(r); err != nil {
		return err
	}
	if len(r.Permissions) > 0 {
		return invalid("invalid PermissionLookupEntityRequest.Permissions: a stream has one permission")
	}
	l, err := s.begin(ctx, "PermissionLookupEntityRequest", r.TenantId, r.Metadata, r.Context)
	if err != nil {
		return err
	}
	left, token := page(r.PageSize, 0), r.ContinuousToken
	for {
		limit := lookupPage
		if r.PageSize > 0 {
			limit = min(limit, left)
		}
		ids, next, err := l.entities(ctx, r, r.Permission, limit, token)
		if err != nil {
			return err
		}
		for i, id := range ids {
			m := &basev1.PermissionLookupEntityStreamResponse{EntityId: id}
			if i == len(ids)-1 {
				m.ContinuousToken = next
			}
			if err := send(m); err != nil {
				return err
			}
		}
		left -= len(ids)
		if token = next; next == "" || r.PageSize > 0 && left <= 0 {
			return nil
		}
	}
}

// LookupSubject is the call of that name. Where everybody has the permission,
// the subjects are all that stand in tuples, as in the original.
func (s *service) LookupSubject(ctx context.Context, r *basev1.PermissionLookupSubjectRequest) (*basev1.PermissionLookupSubjectResponse, error) {
	if r.Metadata == nil {
		return nil, required("PermissionLookupSubjectRequest.Metadata")
	}
	if err := checkEntity("PermissionLookupSubjectRequest.Entity", r.Entity); err != nil {
		return nil, err
	}
	if !validName(r.Permission) {
		return nil, mismatch("PermissionLookupSubjectRequest.Permission", namePattern)
	}
	ref := r.SubjectReference
	switch {
	case ref == nil:
		return nil, required("PermissionLookupSubjectRequest.SubjectReference")
	case !validName(ref.Type):
		return nil, mismatch("RelationReference.Type", namePattern)
	case ref.Relation != "" && ref.Relation != noRelation && !validName(ref.Relation):
		return nil, mismatch("RelationReference.Relation", namePattern)
	}
	l, err := s.begin(ctx, "PermissionLookupSubjectRequest", r.TenantId, r.Metadata, r.Context)
	if err != nil {
		return nil, err
	}
	if l.relation, err = asked(l.schema, r.Entity.Type, r.Permission, r.Arguments); err != nil {
		return nil, err
	}
	ids, next, err := l.subjects(ctx, r, page(r.PageSize, lookupPage))
	if err != nil {
		return nil, err
	}
	slices.Sort(ids)
	return &basev1.PermissionLookupSubjectResponse{SubjectIds: ids, ContinuousToken: next}, nil
}

// subjects returns a page of ids, in the engine's order, and the token of the
// next one.
func (l *lookup) subjects(ctx context.Context, r *basev1.PermissionLookupSubjectRequest, limit int) ([]string, string, error) {
	var ids []string
	token := r.ContinuousToken
	for {
		list, err := l.subjectPage(ctx, r, min(limit-len(ids), listPage), token)
		if err != nil {
			return nil, "", err
		}
		if ids == nil {
			ids = list.IDs
		} else {
			ids = append(ids, list.IDs...)
		}
		if token = list.Next; token == "" || len(ids) >= limit {
			return ids, token, nil
		}
	}
}

// subjectPage asks the engine for one page.
func (l *lookup) subjectPage(ctx context.Context, r *basev1.PermissionLookupSubjectRequest, limit int, token string) (ostiary.SubjectList, error) {
	list, err := l.store.ListSubjects(ctx, ostiary.ListSubjectsRequest{Object: object(r.Entity), Relation: l.relation,
		SubjectType: r.SubjectReference.Type, SubjectRelation: plain(r.SubjectReference.Relation), Named: true, Limit: limit, Cursor: token, UnknownPerPage: true, QueryOptions: l.ask})
	if err != nil {
		return list, translated(err)
	}
	unknown := list.UnknownCount
	if list.Wildcard == expr.Unknown {
		unknown++
	}
	return list, complete(list.Bound, unknown, list.Reasons)
}
