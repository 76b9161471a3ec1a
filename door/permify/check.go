package permify

import (
	"context"
	"errors"
	"fmt"
	"math"

	"google.golang.org/grpc/codes"

	ostiary "github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door/permify/language"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/permifypb"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// checkOptions are the fields that a check and a bulk check share.
type checkOptions struct {
	// tenant is the tenant's id.
	tenant string
	// version is the schema version; "" is the current one.
	version string
	// snapToken sets how fresh the data must be; "" sets no limit.
	snapToken string
	// depth bounds the hops of the evaluation.
	depth int32
	// context holds contextual tuples, attributes and data; it may be nil.
	context *permifypb.Context
	// arguments are the attributes that a rule reads if the permission names a
	// rule.
	arguments []*permifypb.Argument
}

// queryOptions translates the options. It fails if the context does not match
// the schema.
func (s *service) queryOptions(ctx context.Context, store *ostiary.Store, o *checkOptions) (authz.QueryOptions, error) {
	q := authz.QueryOptions{Consistency: s.consistency(o.snapToken), SchemaID: o.version, Bounds: boundDepth(o.depth)}
	if o.context == nil {
		return q, nil
	}
	err := s.addContext(ctx, store, &q, o.context)
	return q, err
}

// checkRequest is a decoded check, from REST or gRPC.
type checkRequest struct {
	checkOptions
	// entity is the object of the check.
	entity rel.Object
	// permission is a permission, relation, boolean attribute or rule.
	permission string
	// subject is the user or userset of the check.
	subject rel.Subject
}

// decision is the result of a check.
type decision struct {
	// allowed is true if the subject has the permission.
	allowed bool
	// count is the number of nodes that the evaluation visited.
	count int32
}

func (d decision) result() permifypb.CheckResult {
	if d.allowed {
		return permifypb.CheckResult_CHECK_RESULT_ALLOWED
	}
	return permifypb.CheckResult_CHECK_RESULT_DENIED
}

func (d decision) message() *permifypb.PermissionCheckResponse {
	return &permifypb.PermissionCheckResponse{Can: d.result(),
		Metadata: &permifypb.PermissionCheckResponseMetadata{CheckCount: d.count}}
}

// validate reports the first field that breaks a rule of the protocol.
func (q *checkRequest) validate() error {
	if err := checkTenant("PermissionCheckRequest", q.tenant); err != nil {
		return err
	}
	if err := checkDepth("PermissionCheckRequestMetadata", q.depth); err != nil {
		return err
	}
	switch {
	case !validName(q.entity.Type):
		return patternError("Entity.Type", namePattern)
	case !validID(q.entity.ID):
		return patternError("Entity.Id", idPattern)
	case !validName(q.permission):
		return patternError("PermissionCheckRequest.Permission", namePattern)
	}
	if err := checkSubjectParts(q.subject.Type, q.subject.ID, q.subject.Relation); err != nil {
		return err
	}
	return checkContext(q.context)
}

// check validates and evaluates a check. Most permissions are relations of the
// schema and most schemas have no rule that reads the context. So the first
// attempt assumes both, and check repeats it only if the engine reports
// otherwise.
func (s *service) check(ctx context.Context, q *checkRequest) (decision, error) {
	if err := q.validate(); err != nil {
		return decision{}, err
	}
	store, err := s.store(ctx, q.tenant)
	if err != nil {
		return decision{}, err
	}
	r := authz.CheckRequest{Object: q.entity, Relation: q.permission, Subject: q.subject}
	if r.QueryOptions, err = s.queryOptions(ctx, store, &q.checkOptions); err != nil {
		return decision{}, err
	}
	result, err := store.Check(ctx, r)
	if err != nil && errors.Is(err, authz.ErrNoRelation) {
		if r.Relation, err = s.resolveRule(ctx, store, q, err); err != nil {
			return decision{}, translateError(err)
		}
		result, err = store.Check(ctx, r)
	}
	if err == nil && missingContext(result.Reasons) && r.Context == nil {
		r.Context = emptyContext()
		result, err = store.Check(ctx, r)
	}
	if err != nil {
		return decision{}, translateError(err)
	}
	return decisionOf(result)
}

// resolveRule returns the relation that evaluates the rule named by the
// check's permission. If there is no such rule it returns noRelation.
func (s *service) resolveRule(ctx context.Context, store *ostiary.Store, q *checkRequest, noRelation error) (string, error) {
	_, compiled, err := store.Compiled(ctx, q.version)
	if err != nil {
		return "", err
	}
	if _, ok := compiled.Conditions[q.permission]; !ok {
		return "", noRelation
	}
	return resolvePermission(compiled, q.entity.Type, q.permission, q.arguments)
}

// resolvePermission returns the relation to evaluate for a permission: the
// relation of that name or, if permission is a rule, the relation that
// evaluates the rule ([language.RuleRelation]). A name that is neither is
// returned unchanged, so that the engine reports it.
//
// For a rule, arguments may be empty; otherwise they must name exactly the
// rule's parameters.
func resolvePermission(compiled *schema.Schema, entity, permission string, arguments []*permifypb.Argument) (string, error) {
	if _, ok := compiled.Relation(entity, permission); ok {
		return permission, nil
	}
	rule, ok := compiled.Conditions[permission]
	if _, known := compiled.Type(entity); !ok || !known {
		return permission, nil
	}
	name := language.RuleRelation(permission)
	if _, ok := compiled.Relation(entity, name); !ok {
		return "", codeError(permifypb.ErrorCode_ERROR_CODE_ATTRIBUTE_DEFINITION_NOT_FOUND)
	}
	if len(arguments) == 0 {
		return name, nil
	}
	given := map[string]bool{}
	for _, a := range arguments {
		given[a.GetComputedAttribute().GetName()] = true
	}
	for _, p := range rule.Definition.Params {
		if p.Name != language.ContextParam && !given[p.Name] {
			return "", codeError(permifypb.ErrorCode_ERROR_CODE_MISSING_ARGUMENT)
		}
	}
	if len(arguments) != len(rule.Definition.Params)-1 { // the context is one of the parameters
		return "", codeError(permifypb.ErrorCode_ERROR_CODE_INVALID_ARGUMENT)
	}
	return name, nil
}

// addContext adds the tuples, attributes and data of a request's context to
// the query's options.
func (s *service) addContext(ctx context.Context, store *ostiary.Store, q *authz.QueryOptions, c *permifypb.Context) error {
	if len(c.GetTuples()) > 0 {
		q.Tuples = make([]rel.Tuple, len(c.Tuples))
		for i, t := range c.Tuples {
			q.Tuples[i] = tuple(t)
		}
	}
	if len(c.GetAttributes()) > 0 {
		_, compiled, err := store.Compiled(ctx, q.SchemaID)
		if err != nil {
			return translateError(err)
		}
		q.Attributes = make([]rel.Attribute, len(c.Attributes))
		for i, m := range c.Attributes {
			if q.Attributes[i], err = attribute(m, compiled); err != nil {
				return err
			}
		}
	}
	if len(c.GetData().GetFields()) > 0 {
		q.Context = expr.Values{language.ContextParam: map[string]any{"data": c.Data.AsMap()}}
	}
	return nil
}

// emptyContext is the context of a request without data: rules see an empty
// context.data.
func emptyContext() expr.Values {
	return expr.Values{language.ContextParam: map[string]any{"data": map[string]any{}}}
}

// missingContext reports whether a rule needed the context of a request that
// has none.
func missingContext(r *authz.Reasons) bool { return r != nil && len(r.Missing) > 0 }

// decisionOf translates the engine's three-valued result. It returns an error
// if a rule or a bound left the result unknown. Any other unknown result, such
// as a relation that depends on its own negation, is denied.
func decisionOf(r authz.CheckResult) (decision, error) {
	d := decision{allowed: r.Decision == expr.True, count: int32(min(r.Stats.Nodes, math.MaxInt32))}
	if r.Decision == expr.Unknown {
		if err := unknownError(r.Reasons); err != nil {
			return decision{}, err
		}
	}
	return d, nil
}

// unknownError returns the error for a result that is unknown for the given
// reasons, or nil if such a result is denied.
func unknownError(r *authz.Reasons) error {
	switch {
	case r == nil:
		return nil
	case len(r.Errors) > 0:
		e := &r.Errors[0]
		return &failure{codes.InvalidArgument, fmt.Sprintf("rule %s on %s: %v", e.Condition, e.Tuple.Object, e.Err), e}
	case r.Bound == authz.BoundDepth:
		return codeError(permifypb.ErrorCode_ERROR_CODE_DEPTH_NOT_ENOUGH)
	case r.Bound != "":
		return &failure{code: codes.ResourceExhausted, message: "the evaluation reached the bound " + r.Bound}
	case len(r.Missing) > 0:
		return invalidArgument("%s", r)
	}
	return nil
}

// Check implements Permission.Check.
func (s *service) Check(ctx context.Context, r *permifypb.PermissionCheckRequest) (*permifypb.PermissionCheckResponse, error) {
	q, err := newCheckRequest(r)
	if err != nil {
		return nil, err
	}
	d, err := s.check(ctx, &q)
	if err != nil {
		return nil, err
	}
	return d.message(), nil
}

// newCheckRequest translates a message. It fails if a required message field
// is missing; [checkRequest.validate] checks the rest.
func newCheckRequest(r *permifypb.PermissionCheckRequest) (checkRequest, error) {
	switch {
	case r.Metadata == nil:
		return checkRequest{}, requiredError("PermissionCheckRequest.Metadata")
	case r.Entity == nil:
		return checkRequest{}, requiredError("PermissionCheckRequest.Entity")
	case r.Subject == nil:
		return checkRequest{}, requiredError("PermissionCheckRequest.Subject")
	}
	return checkRequest{checkOptions{r.TenantId, r.Metadata.SchemaVersion, r.Metadata.SnapToken, r.Metadata.Depth, r.Context, r.Arguments},
		object(r.Entity), r.Permission, subject(r.Subject)}, nil
}
