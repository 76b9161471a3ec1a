package acp

import (
	"context"
	"fmt"
	"iter"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
)

// Access is the decision about one object.
type Access uint8

const (
	// Deny means that the object is registered and the actor does not have the
	// permission.
	Deny Access = iota
	// Allow means that the actor has the permission.
	Allow
	// Public means that the object is not registered, so the policy does not apply
	// to it. A database gives everyone access.
	Public
)

// String returns "deny", "allow" or "public".
func (a Access) String() string { return [...]string{"deny", "allow", "public"}[min(a, 2)] }

// Check reports whether an actor has a permission or a relation on an object. An
// empty actor is a caller without identity, which has only what all actors have.
// An unregistered object is denied; [Engine.Access] distinguishes it. An unknown
// policy, resource or permission is an [ErrNotFound]; a bound that is reached
// before there is a decision is an [ErrUndecided].
func (e *Engine) Check(ctx context.Context, actor, permission string, o Object) (bool, error) {
	r, t, res, err := e.resource(ctx, o.Policy, o.Resource)
	if err != nil {
		return false, failed("check", err)
	}
	allowed, err := r.check(ctx, t, res, actor, permission, o.ID)
	return allowed, failed("check", err)
}

func (r *running) check(ctx context.Context, t *table, res *resourceTable, actor, permission, id string) (bool, error) {
	name, ok := res.ask[permission]
	if !ok {
		return false, fmt.Errorf("%w: %q", ErrPermissionNotFound, permission)
	}
	return decided(r.store.Check(ctx, ostiary.CheckRequest{Object: rel.Object{Type: res.typ, ID: id}, Relation: name,
		Subject: rel.Subject{Type: t.actor, ID: actorID(actor)}}))
}

// decided turns a three-valued result into a decision. A cycle through an
// exclusion is a denial, a reached bound is an error.
func decided(a ostiary.CheckResult, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	if a.Decision == expr.Unknown && a.Reasons != nil && a.Reasons.Bound != "" {
		return false, fmt.Errorf("%w: bound %s reached", ErrUndecided, a.Reasons.Bound)
	}
	return a.Allowed(), nil
}

// Access decides for one document as a database needs it: public, allowed or
// denied. It fails as [Engine.Check] does.
func (e *Engine) Access(ctx context.Context, actor, permission string, o Object) (Access, error) {
	r, t, res, err := e.resource(ctx, o.Policy, o.Resource)
	if err != nil {
		return Deny, failed("access", err)
	}
	allowed, err := r.check(ctx, t, res, actor, permission, o.ID)
	if err != nil {
		return Deny, failed("access", err)
	}
	if allowed {
		return Allow, nil
	}
	a, err := res.denied(ctx, o.ID)
	return a, failed("access", err)
}

// denied returns Deny for a registered object, else Public.
func (res *resourceTable) denied(ctx context.Context, id string) (Access, error) {
	_, registered, err := res.owners.First(ctx, id)
	if err != nil || registered {
		return Deny, err
	}
	return Public, nil
}

// CheckMany decides like [Engine.Access] for many objects of one resource, for
// example to filter a listing. The decisions are in the order of ids, and all
// permissions are evaluated at one revision. An object that is not registered
// when the call ends is public.
func (e *Engine) CheckMany(ctx context.Context, actor, permission, policy, resource string, ids []string) ([]Access, error) {
	const op = "check many"
	r, t, res, err := e.resource(ctx, policy, resource)
	if err != nil {
		return nil, failed(op, err)
	}
	name, ok := res.ask[permission]
	if !ok {
		return nil, failed(op, fmt.Errorf("%w: %q", ErrPermissionNotFound, permission))
	}
	if len(ids) > e.opts.BatchMax {
		return nil, failed(op, fmt.Errorf("%w: %d objects, BatchMax is %d", ErrBound, len(ids), e.opts.BatchMax))
	}
	requests := make([]ostiary.CheckRequest, len(ids))
	for i, id := range ids {
		requests[i] = ostiary.CheckRequest{Object: rel.Object{Type: res.typ, ID: id}, Relation: name,
			Subject: rel.Subject{Type: t.actor, ID: actorID(actor)}}
	}
	answers, err := r.store.CheckBatch(ctx, requests, ostiary.MinimizeLatency())
	if err != nil {
		return nil, failed(op, err)
	}
	out := make([]Access, len(ids))
	for i := range answers {
		allowed, err := decided(answers[i], answers[i].Err)
		if allowed {
			out[i] = Allow
		} else if err == nil {
			out[i], err = res.denied(ctx, ids[i])
		}
		if err != nil {
			return nil, failed(op, fmt.Errorf("object %q: %w", ids[i], err))
		}
	}
	return out, nil
}

// Readable yields the ids of the objects of a resource on which an actor has a
// permission, at one revision. The order is the same after a restart. Public
// objects are not included, since the engine does not know them.
func (e *Engine) Readable(ctx context.Context, actor, permission, policy, resource string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if err := e.readable(ctx, actor, permission, policy, resource, yield); err != nil {
			yield("", failed("readable", err))
		}
	}
}

// readablePage is the number of objects in a page of [Engine.Readable].
const readablePage = 1000

func (e *Engine) readable(ctx context.Context, actor, permission, policy, resource string, yield func(string, error) bool) error {
	r, t, res, err := e.resource(ctx, policy, resource)
	if err != nil {
		return err
	}
	name, ok := res.ask[permission]
	if !ok {
		return fmt.Errorf("%w: %q", ErrPermissionNotFound, permission)
	}
	q := ostiary.ListObjectsRequest{Type: res.typ, Relation: name, Limit: readablePage,
		Subject: rel.Subject{Type: t.actor, ID: actorID(actor)}}
	for {
		page, err := r.store.ListObjects(ctx, q)
		if err != nil {
			return err
		}
		if page.Bound != "" {
			return fmt.Errorf("%w: bound %s reached", ErrUndecided, page.Bound)
		}
		if page.UnknownCount > 0 && page.Reasons != nil && page.Reasons.Bound != "" {
			return fmt.Errorf("%w: bound %s reached", ErrUndecided, page.Reasons.Bound)
		}
		for _, id := range page.IDs {
			if !yield(id, nil) {
				return nil
			}
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return nil
		}
	}
}

// Operation is one permission in a [Engine.VerifyAccess].
type Operation struct {
	// Object is the object to access.
	Object Object
	// Permission is a permission or relation of its resource.
	Permission string
}

// VerifyAccess reports whether an actor has all of the given permissions. It
// returns true if operations is empty.
func (e *Engine) VerifyAccess(ctx context.Context, actor string, operations []Operation) (bool, error) {
	for _, x := range operations {
		if ok, err := e.Check(ctx, actor, x.Permission, x.Object); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

// MayManage reports whether an actor may set and delete relationships of a
// relation on an object. The object's owner may, and every actor in a relation
// that manages it. For an unregistered object it returns false.
func (e *Engine) MayManage(ctx context.Context, actor, relation string, o Object) (bool, error) {
	const op = "check management authority"
	r, t, res, err := e.resource(ctx, o.Policy, o.Resource)
	if err != nil {
		return false, failed(op, err)
	}
	name, ok := res.manage[relation]
	if !ok {
		return false, failed(op, fmt.Errorf("%w: %q", ErrRelationNotFound, relation))
	}
	allowed, err := decided(r.store.Check(ctx, ostiary.CheckRequest{Object: rel.Object{Type: res.typ, ID: o.ID}, Relation: name,
		Subject: rel.Subject{Type: t.actor, ID: actorID(actor)}}))
	return allowed, failed(op, err)
}

// ValidateResource checks that a policy can govern a database's collection. It
// fails unless the policy exists and has the resource, the resource has all the
// permissions ([ErrRequiredPermission]), and an owner always has each of them.
func (e *Engine) ValidateResource(ctx context.Context, policy, resource string, permissions ...string) error {
	const op = "validate resource"
	if policy == "" || resource == "" {
		return failed(op, fmt.Errorf("%w: expected a policy id and a resource name", ErrInput))
	}
	_, t, res, err := e.resource(ctx, policy, resource)
	if err != nil {
		return failed(op, err)
	}
	for _, name := range permissions {
		p := res.def.permission(name)
		if p == nil {
			return failed(op, fmt.Errorf("%w: resource %q has no permission %q", ErrRequiredPermission, resource, name))
		}
		if t.record.Dialect == DialectMap && !p.parsed.ownerStays() {
			return failed(op, fmt.Errorf("%w: permission %q of resource %q can exclude the owner: %s",
				ErrRequiredPermission, name, resource, p.Expression))
		}
	}
	return nil
}
