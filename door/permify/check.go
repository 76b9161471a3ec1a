package permify

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"google.golang.org/grpc/codes"

	ostiary "github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door/permify/basev1"
	"github.com/ostiary/ostiary/door/permify/language"
	"github.com/ostiary/ostiary/eval"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// question is a check as both ways in read it.
type question struct {
	tenant, version, snap string
	depth                 int32
	entity                rel.Object
	permission            string
	subject               rel.Subject
	context               *basev1.Context
	arguments             []*basev1.Argument
}

// decision is an answer: whether it is allowed, and how many nodes it took.
type decision struct {
	allowed bool
	count   int32
}

func (d decision) result() basev1.CheckResult {
	if d.allowed {
		return basev1.CheckResult_CHECK_RESULT_ALLOWED
	}
	return basev1.CheckResult_CHECK_RESULT_DENIED
}

func (d decision) message() *basev1.PermissionCheckResponse {
	return &basev1.PermissionCheckResponse{Can: d.result(),
		Metadata: &basev1.PermissionCheckResponseMetadata{CheckCount: d.count}}
}

// validate holds a question against the protocol's rules.
func (q *question) validate() error {
	if err := checkTenant("PermissionCheckRequest", q.tenant); err != nil {
		return err
	}
	if err := checkDepth("PermissionCheckRequestMetadata", q.depth); err != nil {
		return err
	}
	switch {
	case !validName(q.entity.Type):
		return mismatch("Entity.Type", namePattern)
	case !validID(q.entity.ID):
		return mismatch("Entity.Id", idPattern)
	case !validName(q.permission):
		return mismatch("PermissionCheckRequest.Permission", namePattern)
	}
	if err := checkSubjectParts(q.subject.Type, q.subject.ID, q.subject.Relation); err != nil {
		return err
	}
	return checkContext(q.context)
}

// check answers a question.
func (s *service) check(ctx context.Context, q *question) (decision, error) {
	if err := q.validate(); err != nil {
		return decision{}, err
	}
	store, err := s.store(ctx, q.tenant)
	if err != nil {
		return decision{}, err
	}
	r := ostiary.CheckRequest{Object: q.entity, Relation: q.permission, Subject: q.subject,
		QueryOptions: ostiary.QueryOptions{Consistency: s.at(q.snap), SchemaID: q.version, Bounds: boundDepth(q.depth)}}
	if q.context != nil {
		if err := s.bring(ctx, store, &r.QueryOptions, q.context); err != nil {
			return decision{}, err
		}
	}
	answer, err := store.Check(ctx, r)
	if err != nil && errors.Is(err, ostiary.ErrNoRelation) {
		if r.Relation, err = s.ruleAsked(ctx, store, q, err); err != nil {
			return decision{}, translated(err)
		}
		answer, err = store.Check(ctx, r)
	}
	if err == nil && missesContext(answer.Reasons) && r.Context == nil {
		r.Context = nothing()
		answer, err = store.Check(ctx, r)
	}
	if err != nil {
		return decision{}, translated(err)
	}
	return decided(answer)
}

// ruleAsked returns the relation that stands for a rule which a question names
// as its permission; otherwise is the error where there is none.
func (s *service) ruleAsked(ctx context.Context, store *ostiary.Store, q *question, otherwise error) (string, error) {
	_, compiled, err := store.Compiled(ctx, q.version)
	if err != nil {
		return "", err
	}
	if _, ok := compiled.Conditions[q.permission]; !ok {
		return "", otherwise
	}
	return asked(compiled, q.entity.Type, q.permission, q.arguments)
}

// asked returns the relation that a permission's name means: its own, or the
// one that stands for a rule of that name. Arguments may be left out; those
// that are given are the rule's parameters.
func asked(compiled *schema.Schema, entity, permission string, arguments []*basev1.Argument) (string, error) {
	if _, ok := compiled.Relation(entity, permission); ok {
		return permission, nil
	}
	rule, ok := compiled.Conditions[permission]
	if _, known := compiled.Type(entity); !ok || !known {
		return permission, nil // the engine says what is not there
	}
	name := language.RuleRelation(permission)
	if _, ok := compiled.Relation(entity, name); !ok {
		return "", coded(basev1.ErrorCode_ERROR_CODE_ATTRIBUTE_DEFINITION_NOT_FOUND)
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
			return "", coded(basev1.ErrorCode_ERROR_CODE_MISSING_ARGUMENT)
		}
	}
	if len(arguments) != len(rule.Definition.Params)-1 { // the context is one of them
		return "", coded(basev1.ErrorCode_ERROR_CODE_INVALID_ARGUMENT)
	}
	return name, nil
}

// bring adds to an ask what a question brings along.
func (s *service) bring(ctx context.Context, store *ostiary.Store, a *ostiary.QueryOptions, c *basev1.Context) error {
	if len(c.GetTuples()) > 0 {
		a.Tuples = make([]rel.Tuple, len(c.Tuples))
		for i, t := range c.Tuples {
			a.Tuples[i] = tuple(t)
		}
	}
	if len(c.GetAttributes()) > 0 {
		_, compiled, err := store.Compiled(ctx, a.SchemaID)
		if err != nil {
			return translated(err)
		}
		a.Attributes = make([]rel.Attribute, len(c.Attributes))
		for i, x := range c.Attributes {
			if a.Attributes[i], err = attribute(x, compiled); err != nil {
				return err
			}
		}
	}
	if len(c.GetData().GetFields()) > 0 {
		a.Context = expr.Values{language.ContextParam: map[string]any{"data": c.Data.AsMap()}}
	}
	return nil
}

// nothing is the context of a question that brings no data: rules see
// context.data without any member.
func nothing() expr.Values {
	return expr.Values{language.ContextParam: map[string]any{"data": map[string]any{}}}
}

// missesContext says that a rule looked for the context of a question that has
// none. Most schemas have no such rule, so it is given only then.
func missesContext(r *eval.Reasons) bool { return r != nil && len(r.Missing) > 0 }

// decided tells an answer of three values as the protocol does: what hangs on
// its own negation is denied; what a rule or a bound left open is an error.
func decided(a ostiary.CheckResult) (decision, error) {
	d := decision{allowed: a.Decision == expr.True, count: int32(min(a.Stats.Nodes, math.MaxInt32))}
	if a.Decision == expr.Unknown {
		if err := open(a.Reasons); err != nil {
			return decision{}, err
		}
	}
	return d, nil
}

// open is the error for what could not be decided; nil where that is denied.
func open(r *eval.Reasons) error {
	switch {
	case r == nil:
		return nil
	case len(r.Errors) > 0:
		e := &r.Errors[0]
		return &failure{codes.InvalidArgument, fmt.Sprintf("rule %s on %s: %v", e.Condition, e.Tuple.Object, e.Err), e}
	case r.Bound == eval.BoundDepth:
		return coded(basev1.ErrorCode_ERROR_CODE_DEPTH_NOT_ENOUGH)
	case r.Bound != "":
		return &failure{code: codes.ResourceExhausted, message: "the bound " + r.Bound + " is reached"}
	case len(r.Missing) > 0:
		return invalid("%s", r)
	}
	return nil
}

// Check is the call of that name.
func (s *service) Check(ctx context.Context, r *basev1.PermissionCheckRequest) (*basev1.PermissionCheckResponse, error) {
	q, err := checkQuestion(r)
	if err != nil {
		return nil, err
	}
	d, err := s.check(ctx, &q)
	if err != nil {
		return nil, err
	}
	return d.message(), nil
}

func checkQuestion(r *basev1.PermissionCheckRequest) (question, error) {
	switch {
	case r.Metadata == nil:
		return question{}, required("PermissionCheckRequest.Metadata")
	case r.Entity == nil:
		return question{}, required("PermissionCheckRequest.Entity")
	case r.Subject == nil:
		return question{}, required("PermissionCheckRequest.Subject")
	}
	return question{r.TenantId, r.Metadata.SchemaVersion, r.Metadata.SnapToken, r.Metadata.Depth,
		object(r.Entity), r.Permission, subject(r.Subject), r.Context, r.Arguments}, nil
}

// bulk is a bulk check as both ways in read it.
type bulk struct {
	tenant, version, snap string
	depth                 int32
	items                 []eval.Question
	context               *basev1.Context
	arguments             []*basev1.Argument
}

// verdict is a bulk check's answer to one item: a decision, or why there is
// none. What could not be decided is denied, and says so.
type verdict struct {
	decision
	why error
}

func (v *verdict) message() *basev1.PermissionCheckResponse {
	m := v.decision.message()
	if v.why != nil {
		text := v.why.Error()
		m.Metadata.Error = &text
	}
	return m
}

func (b *bulk) validate() error {
	if err := checkTenant("PermissionBulkCheckRequest", b.tenant); err != nil {
		return err
	}
	if err := checkDepth("PermissionCheckRequestMetadata", b.depth); err != nil {
		return err
	}
	if n := len(b.items); n < 1 || n > BulkItemsMax {
		return itemCount("PermissionBulkCheckRequest.Items", 1, BulkItemsMax)
	}
	for i := range b.items {
		q := question{tenant: b.tenant, depth: b.depth, entity: b.items[i].Object, permission: b.items[i].Relation, subject: b.items[i].Subject}
		if err := q.validate(); err != nil {
			return within(err, "PermissionBulkCheckRequest.Items", i)
		}
	}
	return checkContext(b.context)
}

// bulkCheck answers items at one revision, behind those in out, which it returns
// in any case.
func (s *service) bulkCheck(ctx context.Context, b *bulk, out []verdict) ([]verdict, error) {
	if err := b.validate(); err != nil {
		return out, err
	}
	store, err := s.store(ctx, b.tenant)
	if err != nil {
		return out, err
	}
	a := ostiary.QueryOptions{Consistency: s.at(b.snap), SchemaID: b.version, Bounds: boundDepth(b.depth)}
	if b.context != nil {
		if err := s.bring(ctx, store, &a, b.context); err != nil {
			return out, err
		}
	}
	answers, err := store.Batch(ctx, b.items, a)
	if err != nil {
		return out, translated(err)
	}
	out = slices.Grow(out, len(answers))
	for i := range answers {
		var v verdict
		if r := &answers[i]; r.Err == nil && !(missesContext(r.Reasons) && a.Context == nil) {
			v.decision, v.why = decided(*r)
			out = append(out, v)
			continue
		}
		// A rule that is asked by its name, or looks for the context, is rare
		// enough to be asked alone: at the same revision.
		q := question{tenant: b.tenant, version: b.version, depth: b.depth, entity: b.items[i].Object,
			permission: b.items[i].Relation, subject: b.items[i].Subject, context: b.context, arguments: b.arguments}
		v.decision, v.why = s.again(ctx, store, a, &q, answers[i])
		out = append(out, v)
	}
	return out, nil
}

// again asks one item of a bulk check once more, where its first answer hung
// on what is given only on demand.
func (s *service) again(ctx context.Context, store *ostiary.Store, a ostiary.QueryOptions, q *question, first ostiary.CheckResult) (decision, error) {
	r := ostiary.CheckRequest{Object: q.entity, Relation: q.permission, Subject: q.subject, QueryOptions: a}
	r.Consistency = ostiary.AtRevision(first.Revision)
	if first.Err != nil {
		if !errors.Is(first.Err, ostiary.ErrNoRelation) {
			return decision{}, translated(first.Err)
		}
		var err error
		if r.Relation, err = s.ruleAsked(ctx, store, q, first.Err); err != nil {
			return decision{}, translated(err)
		}
	}
	if r.Context == nil {
		r.Context = nothing()
	}
	answer, err := store.Check(ctx, r)
	if err != nil {
		return decision{}, translated(err)
	}
	return decided(answer)
}

// BulkCheck is the call of that name.
func (s *service) BulkCheck(ctx context.Context, r *basev1.PermissionBulkCheckRequest) (*basev1.PermissionBulkCheckResponse, error) {
	b, err := bulkQuestions(r)
	if err != nil {
		return nil, err
	}
	verdicts, err := s.bulkCheck(ctx, &b, nil)
	if err != nil {
		return nil, err
	}
	out := &basev1.PermissionBulkCheckResponse{Results: make([]*basev1.PermissionCheckResponse, len(verdicts))}
	for i := range verdicts {
		out.Results[i] = verdicts[i].message()
	}
	return out, nil
}

func bulkQuestions(r *basev1.PermissionBulkCheckRequest) (bulk, error) {
	if r.Metadata == nil {
		return bulk{}, required("PermissionBulkCheckRequest.Metadata")
	}
	if len(r.Items) > BulkItemsMax {
		return bulk{}, itemCount("PermissionBulkCheckRequest.Items", 1, BulkItemsMax)
	}
	b := bulk{r.TenantId, r.Metadata.SchemaVersion, r.Metadata.SnapToken, r.Metadata.Depth,
		make([]eval.Question, len(r.Items)), r.Context, r.Arguments}
	for i, item := range r.Items {
		switch {
		case item.GetEntity() == nil:
			return b, within(required("PermissionBulkCheckRequestItem.Entity"), "PermissionBulkCheckRequest.Items", i)
		case item.Subject == nil:
			return b, within(required("PermissionBulkCheckRequestItem.Subject"), "PermissionBulkCheckRequest.Items", i)
		}
		b.items[i] = eval.Question{Object: object(item.Entity), Relation: item.Permission, Subject: subject(item.Subject)}
	}
	return b, nil
}

// SubjectPermission is the call of that name.
func (s *service) SubjectPermission(ctx context.Context, r *basev1.PermissionSubjectPermissionRequest) (*basev1.PermissionSubjectPermissionResponse, error) {
	if err := checkTenant("PermissionSubjectPermissionRequest", r.TenantId); err != nil {
		return nil, err
	}
	if r.Metadata == nil {
		return nil, required("PermissionSubjectPermissionRequest.Metadata")
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

func (s *service) subjectPermission(ctx context.Context, store *ostiary.Store, r *basev1.PermissionSubjectPermissionRequest) (*basev1.PermissionSubjectPermissionResponse, error) {
	info, compiled, err := store.Compiled(ctx, r.Metadata.SchemaVersion)
	if err != nil {
		return nil, translated(err)
	}
	names, err := permissionsOf(compiled, r.Entity.Type, r.Metadata.OnlyPermission)
	if err != nil {
		return nil, err
	}
	a := ostiary.QueryOptions{Consistency: s.at(r.Metadata.SnapToken), SchemaID: info.ID, Bounds: boundDepth(r.Metadata.Depth)}
	if err := s.bring(ctx, store, &a, r.Context); err != nil {
		return nil, err
	}
	if a.Context == nil && len(compiled.Conditions) > 0 {
		a.Context = nothing()
	}
	questions := make([]eval.Question, len(names))
	for i, name := range names {
		questions[i] = eval.Question{Object: object(r.Entity), Relation: name, Subject: subject(r.Subject)}
	}
	answers, err := store.Batch(ctx, questions, a)
	if err != nil {
		return nil, translated(err)
	}
	out := &basev1.PermissionSubjectPermissionResponse{Results: make(map[string]basev1.CheckResult, len(names))}
	for i := range answers {
		if answers[i].Err != nil {
			return nil, translated(answers[i].Err)
		}
		d, err := decided(answers[i])
		if err != nil {
			return nil, err
		}
		out.Results[names[i]] = d.result()
	}
	return out, nil
}

// permissionsOf names an entity's permissions, and its relations unless only
// the former are wanted.
func permissionsOf(s *schema.Schema, entity string, only bool) ([]string, error) {
	t, ok := s.Type(entity)
	if !ok {
		return nil, coded(basev1.ErrorCode_ERROR_CODE_ENTITY_TYPE_NOT_FOUND)
	}
	var names []string
	for _, id := range s.RelationsOf(t) {
		r := &s.Relations[id]
		_, isAttribute := t.Attributes[r.Name]
		isRelation := r.Expr.Op == schema.OpDirect
		if isAttribute || !validStatement(r.Name) || only && isRelation {
			continue
		}
		names = append(names, r.Name)
	}
	return names, nil
}

// validStatement says whether a relation has a name that a statement can have;
// those that stand for rules do not.
func validStatement(name string) bool {
	return len(name) > 0 && name[len(name)-1] != ')'
}
