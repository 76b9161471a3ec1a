package permify

import (
	"context"
	"strings"

	ostiary "github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/permifypb"
	"github.com/ostiary/ostiary/schema"
)

// SubjectPermission implements Permission.SubjectPermission.
func (s *service) SubjectPermission(ctx context.Context, r *permifypb.PermissionSubjectPermissionRequest) (*permifypb.PermissionSubjectPermissionResponse, error) {
	if err := checkTenant("PermissionSubjectPermissionRequest", r.TenantId); err != nil {
		return nil, err
	}
	if r.Metadata == nil {
		return nil, requiredError("PermissionSubjectPermissionRequest.Metadata")
	}
	if err := checkDepth("PermissionSubjectPermissionRequestMetadata", r.Metadata.Depth); err != nil {
		return nil, err
	}
	if err := checkEntity("PermissionSubjectPermissionRequest.Entity", r.Entity); err != nil {
		return nil, err
	}
	if err := checkSubject("PermissionSubjectPermissionRequest.Subject", r.Subject); err != nil {
		return nil, err
	}
	if err := checkContext(r.Context); err != nil {
		return nil, err
	}
	store, err := s.store(ctx, r.TenantId)
	if err != nil {
		return nil, err
	}
	return s.subjectPermission(ctx, store, r)
}

// subjectPermission evaluates a valid request.
func (s *service) subjectPermission(ctx context.Context, store *ostiary.Store, r *permifypb.PermissionSubjectPermissionRequest) (*permifypb.PermissionSubjectPermissionResponse, error) {
	compiled, options, err := s.pinnedOptions(ctx, store, r.Metadata.SchemaVersion, r.Metadata.SnapToken, boundDepth(r.Metadata.Depth))
	if err != nil {
		return nil, err
	}
	names, err := permissionsOf(compiled, r.Entity.Type, r.Metadata.OnlyPermission)
	if err != nil {
		return nil, err
	}
	if err := s.addFullContext(ctx, store, compiled, &options, r.Context); err != nil {
		return nil, err
	}
	questions := make([]authz.Question, len(names))
	for i, name := range names {
		questions[i] = authz.Question{Object: object(r.Entity), Relation: name, Subject: subject(r.Subject)}
	}
	results, err := store.CheckBatch(ctx, appendRequests(nil, questions, options), options.Consistency)
	if err != nil {
		return nil, translateError(err)
	}
	out := &permifypb.PermissionSubjectPermissionResponse{Results: make(map[string]permifypb.CheckResult, len(names))}
	for i := range results {
		d, err := itemDecision(&results[i])
		if err != nil {
			return nil, err
		}
		out.Results[names[i]] = d.result()
	}
	return out, nil
}

// itemDecision translates the result of one item of a batch.
func itemDecision(r *authz.CheckResult) (decision, error) {
	if r.Err != nil {
		return decision{}, translateError(r.Err)
	}
	return decisionOf(*r)
}

// pinnedOptions returns a schema version, the current one if version is "", and query
// options that name it, so that all steps of a call use the same version.
func (s *service) pinnedOptions(ctx context.Context, store *ostiary.Store, version, snapToken string, bounds authz.QuestionBounds) (*schema.Schema, authz.QueryOptions, error) {
	info, compiled, err := store.Compiled(ctx, version)
	if err != nil {
		return nil, authz.QueryOptions{}, translateError(err)
	}
	return compiled, authz.QueryOptions{Consistency: s.consistency(snapToken), SchemaID: info.ID, SchemaImplied: version == "", Bounds: bounds}, nil
}

// addFullContext is like addContext, and adds an empty context if the request
// has none and the schema has rules, which may read it.
func (s *service) addFullContext(ctx context.Context, store *ostiary.Store, compiled *schema.Schema, q *authz.QueryOptions, c *permifypb.Context) error {
	if err := s.addContext(ctx, store, q, c); err != nil {
		return err
	}
	if q.Context == nil && len(compiled.Conditions) > 0 {
		q.Context = emptyContext()
	}
	return nil
}

// permissionsOf returns the names of an entity's permissions. Unless
// onlyPermissions is true it returns the relations as well.
func permissionsOf(s *schema.Schema, entity string, onlyPermissions bool) ([]string, error) {
	t, ok := s.Type(entity)
	if !ok {
		return nil, codeError(permifypb.ErrorCode_ERROR_CODE_ENTITY_TYPE_NOT_FOUND)
	}
	var names []string
	for _, id := range s.RelationsOf(t) {
		r := &s.Relations[id]
		_, isAttribute := t.Attributes[r.Name]
		isRelation := r.Expr.Op == schema.OpDirect
		isRule := strings.HasSuffix(r.Name, ")") // see language.RuleRelation
		if isAttribute || isRule || onlyPermissions && isRelation {
			continue
		}
		names = append(names, r.Name)
	}
	return names, nil
}
