package permify

import (
	"context"
	"errors"
	"slices"

	ostiary "github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/permifypb"
)

// bulkCheckRequest is a decoded bulk check, from REST or gRPC.
type bulkCheckRequest struct {
	checkOptions
	// items are the checks, in the order of the request.
	items []authz.Question
	// requests are the checks with their options. The memory is reused.
	requests []authz.CheckRequest
}

// bulkResult is the result of one item. An item that fails is denied, and the
// response carries the error's text.
type bulkResult struct {
	decision
	// err is nil if the item was decided.
	err error
}

func (r *bulkResult) message() *permifypb.PermissionCheckResponse {
	m := r.decision.message()
	if r.err != nil {
		text := r.err.Error()
		m.Metadata.Error = &text
	}
	return m
}

// item returns one item as a check of its own.
func (b *bulkCheckRequest) item(i int) checkRequest {
	return checkRequest{checkOptions: b.checkOptions,
		entity: b.items[i].Object, permission: b.items[i].Relation, subject: b.items[i].Subject}
}

// validate reports the first field that breaks a rule of the protocol.
func (b *bulkCheckRequest) validate() error {
	if err := checkTenant("PermissionBulkCheckRequest", b.tenant); err != nil {
		return err
	}
	if err := checkDepth("PermissionCheckRequestMetadata", b.depth); err != nil {
		return err
	}
	if n := len(b.items); n < 1 || n > bulkItemsMax {
		return itemCountError("PermissionBulkCheckRequest.Items", 1, bulkItemsMax)
	}
	for i := range b.items {
		q := b.item(i)
		q.context = nil // the metadata is validated once, below
		if err := q.validate(); err != nil {
			return itemError(err, "PermissionBulkCheckRequest.Items", i)
		}
	}
	return checkContext(b.context)
}

// bulkCheck evaluates all items at one revision. It appends their results to
// out and returns the extended slice, also with an error, so that the caller
// can reuse its memory.
func (s *service) bulkCheck(ctx context.Context, b *bulkCheckRequest, out []bulkResult) ([]bulkResult, error) {
	if err := b.validate(); err != nil {
		return out, err
	}
	store, err := s.store(ctx, b.tenant)
	if err != nil {
		return out, err
	}
	options, err := s.queryOptions(ctx, store, &b.checkOptions)
	if err != nil {
		return out, err
	}
	b.requests = appendRequests(b.requests[:0], b.items, options)
	results, err := store.CheckBatch(ctx, b.requests, options.Consistency)
	if err != nil {
		return out, translateError(err)
	}
	out = slices.Grow(out, len(results))
	for i := range results {
		var item bulkResult
		if r := &results[i]; r.Err == nil && !(missingContext(r.Reasons) && options.Context == nil) {
			item.decision, item.err = decisionOf(*r)
		} else {
			q := b.item(i)
			item.decision, item.err = s.checkAgain(ctx, store, options, &q, results[i])
		}
		out = append(out, item)
	}
	return out, nil
}

// appendRequests appends a check with the options for each question.
func appendRequests(out []authz.CheckRequest, questions []authz.Question, options authz.QueryOptions) []authz.CheckRequest {
	options.Consistency = authz.Consistency{} // a batch has one for all
	out = slices.Grow(out, len(questions))
	for i := range questions {
		q := &questions[i]
		out = append(out, authz.CheckRequest{Object: q.Object, Relation: q.Relation, Subject: q.Subject, QueryOptions: options})
	}
	return out
}

// checkAgain repeats one item of a bulk check alone, at the revision of the
// first attempt. This is needed if the permission names a rule, or if a rule
// needs the context. Both are rare.
func (s *service) checkAgain(ctx context.Context, store *ostiary.Store, options authz.QueryOptions, q *checkRequest, first authz.CheckResult) (decision, error) {
	r := authz.CheckRequest{Object: q.entity, Relation: q.permission, Subject: q.subject, QueryOptions: options}
	r.Consistency = authz.AtRevision(first.Revision)
	if first.Err != nil {
		if !errors.Is(first.Err, authz.ErrNoRelation) {
			return decision{}, translateError(first.Err)
		}
		var err error
		if r.Relation, err = s.resolveRule(ctx, store, q, first.Err); err != nil {
			return decision{}, translateError(err)
		}
	}
	if r.Context == nil {
		r.Context = emptyContext()
	}
	result, err := store.Check(ctx, r)
	if err != nil {
		return decision{}, translateError(err)
	}
	return decisionOf(result)
}

// BulkCheck implements Permission.BulkCheck.
func (s *service) BulkCheck(ctx context.Context, r *permifypb.PermissionBulkCheckRequest) (*permifypb.PermissionBulkCheckResponse, error) {
	b, err := newBulkCheckRequest(r)
	if err != nil {
		return nil, err
	}
	results, err := s.bulkCheck(ctx, &b, nil)
	if err != nil {
		return nil, err
	}
	out := &permifypb.PermissionBulkCheckResponse{Results: make([]*permifypb.PermissionCheckResponse, len(results))}
	for i := range results {
		out.Results[i] = results[i].message()
	}
	return out, nil
}

// newBulkCheckRequest translates a message. It fails if there are too many
// items or if a required message field is missing; [bulkCheckRequest.validate]
// checks the rest.
func newBulkCheckRequest(r *permifypb.PermissionBulkCheckRequest) (bulkCheckRequest, error) {
	if r.Metadata == nil {
		return bulkCheckRequest{}, requiredError("PermissionBulkCheckRequest.Metadata")
	}
	if len(r.Items) > bulkItemsMax {
		return bulkCheckRequest{}, itemCountError("PermissionBulkCheckRequest.Items", 1, bulkItemsMax)
	}
	b := bulkCheckRequest{
		checkOptions: checkOptions{r.TenantId, r.Metadata.SchemaVersion, r.Metadata.SnapToken, r.Metadata.Depth, r.Context, r.Arguments},
		items:        make([]authz.Question, len(r.Items))}
	for i, item := range r.Items {
		switch {
		case item.GetEntity() == nil:
			return b, itemError(requiredError("PermissionBulkCheckRequestItem.Entity"), "PermissionBulkCheckRequest.Items", i)
		case item.Subject == nil:
			return b, itemError(requiredError("PermissionBulkCheckRequestItem.Subject"), "PermissionBulkCheckRequest.Items", i)
		}
		b.items[i] = authz.Question{Object: object(item.Entity), Relation: item.Permission, Subject: subject(item.Subject)}
	}
	return b, nil
}
