package acp

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/ostiary/ostiary/authz"
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

// target is an object with the tables of its policy and resource.
type target struct {
	r   *running
	t   *table
	res *resourceTable
	// object is the object in the store's form.
	object rel.Object
}

// target finds an object's policy and resource, and checks its id. It fails with
// [ErrNotFound] or [ErrInvalidID].
func (e *Engine) target(ctx context.Context, o Object) (target, error) {
	r, t, res, err := e.resource(ctx, o.Policy, o.Resource)
	if err != nil {
		return target{}, err
	}
	object, err := res.object(o.ID)
	return target{r, t, res, object}, err
}

// check reports whether an actor has a permission on the object.
func (x *target) check(ctx context.Context, actor, permission string) (bool, error) {
	name, err := x.res.name(permission)
	if err != nil {
		return false, err
	}
	return x.ask(ctx, actor, name)
}

// ask reports whether an actor has a relation of the store on the object.
func (x *target) ask(ctx context.Context, actor, relation string) (bool, error) {
	return decided(x.r.store.Check(ctx, authz.CheckRequest{Object: x.object, Relation: relation,
		Subject: rel.Subject{Type: x.t.actor, ID: actorID(actor)}}))
}

// name returns the store's name of a permission, or [ErrPermissionNotFound].
func (res *resourceTable) name(permission string) (string, error) {
	name, ok := res.ask[permission]
	if !ok {
		return "", fmt.Errorf("%w: %q", ErrPermissionNotFound, permission)
	}
	return name, nil
}

// Check reports whether an actor has a permission or a relation on an object. An
// empty actor is a caller without identity, which has only what all actors have.
// An unregistered object is denied; [Engine.Access] distinguishes it. An unknown
// policy, resource or permission is an [ErrNotFound], an id that cannot be
// registered an [ErrInvalidID]; a bound that is reached before there is a decision
// is an [ErrUndecided].
func (e *Engine) Check(ctx context.Context, actor, permission string, o Object) (bool, error) {
	x, err := e.target(ctx, o)
	if err != nil {
		return false, failed("check", err)
	}
	allowed, err := x.check(ctx, actor, permission)
	return allowed, failed("check", err)
}

// decided turns a three-valued result into a decision. A cycle through an
// exclusion is a denial, a reached bound is an error.
func decided(a authz.CheckResult, err error) (bool, error) {
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
	x, err := e.target(ctx, o)
	if err != nil {
		return Deny, failed("access", err)
	}
	allowed, err := x.check(ctx, actor, permission)
	if err != nil {
		return Deny, failed("access", err)
	}
	if allowed {
		return Allow, nil
	}
	a, err := x.res.denied(ctx, x.object.ID)
	return a, failed("access", err)
}

// AccessAny is like [Engine.Access] for an actor that needs one of several
// permissions. DefraDB, for example, lets everyone read a document who may read,
// update or delete it. The permissions are evaluated in their order until one is
// granted. An unknown permission is an error even if another one is granted; an
// empty list is an [ErrInput].
func (e *Engine) AccessAny(ctx context.Context, actor string, permissions []string, o Object) (Access, error) {
	x, err := e.target(ctx, o)
	if err != nil {
		return Deny, failed("access", err)
	}
	a, err := x.accessAny(ctx, actor, permissions)
	return a, failed("access", err)
}

func (x *target) accessAny(ctx context.Context, actor string, permissions []string) (Access, error) {
	if len(permissions) == 0 {
		return Deny, fmt.Errorf("%w: expected at least one permission", ErrInput)
	}
	for _, p := range permissions {
		if _, err := x.res.name(p); err != nil {
			return Deny, err
		}
	}
	var undecided error
	for _, p := range permissions {
		allowed, err := x.check(ctx, actor, p)
		switch {
		case allowed:
			return Allow, nil
		case errors.Is(err, ErrUndecided):
			undecided = err // another permission may still be granted
		case err != nil:
			return Deny, err
		}
	}
	if undecided != nil {
		return Deny, undecided
	}
	return x.res.denied(ctx, x.object.ID)
}

// denied returns Deny for a registered object, else Public. stored is the stored
// form of the object's id.
func (res *resourceTable) denied(ctx context.Context, stored string) (Access, error) {
	_, registered, err := res.owners.First(ctx, stored)
	if err != nil || registered {
		return Deny, err
	}
	return Public, nil
}

// CheckMany decides like [Engine.Access] for many objects of one resource, for
// example to filter a listing. The decisions are in the order of ids, and all
// permissions are evaluated at one revision. An object that is not registered
// when the call ends is public. One id that cannot be registered fails the call
// with [ErrInvalidID].
func (e *Engine) CheckMany(ctx context.Context, actor, permission, policy, resource string, ids []string) ([]Access, error) {
	const op = "check many"
	r, t, res, err := e.resource(ctx, policy, resource)
	if err != nil {
		return nil, failed(op, err)
	}
	name, err := res.name(permission)
	if err != nil {
		return nil, failed(op, err)
	}
	if len(ids) > e.opts.BatchMax {
		return nil, failed(op, fmt.Errorf("%w: %d objects, BatchMax is %d", ErrBound, len(ids), e.opts.BatchMax))
	}
	requests := make([]authz.CheckRequest, len(ids))
	for i, id := range ids {
		object, err := res.object(id)
		if err != nil {
			return nil, failed(op, fmt.Errorf("object %d: %w", i, err))
		}
		requests[i] = authz.CheckRequest{Object: object, Relation: name,
			Subject: rel.Subject{Type: t.actor, ID: actorID(actor)}}
	}
	answers, err := r.store.CheckBatch(ctx, requests, authz.Acknowledged())
	if err != nil {
		return nil, failed(op, err)
	}
	out := make([]Access, len(ids))
	for i := range answers {
		allowed, err := decided(answers[i], answers[i].Err)
		if allowed {
			out[i] = Allow
		} else if err == nil {
			out[i], err = res.denied(ctx, requests[i].Object.ID)
		}
		if err != nil {
			return nil, failed(op, fmt.Errorf("object %q: %w", ids[i], withKind(err)))
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
	name, err := res.name(permission)
	if err != nil {
		return err
	}
	q := authz.ListObjectsRequest{Type: res.typ, Relation: name, Limit: readablePage,
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
			if !yield(ParseStoredID(id), nil) {
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
	x, err := e.target(ctx, o)
	if err != nil {
		return false, failed(op, err)
	}
	name, ok := x.res.manage[relation]
	if !ok {
		return false, failed(op, fmt.Errorf("%w: %q", ErrRelationNotFound, relation))
	}
	allowed, err := x.ask(ctx, actor, name)
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
		if t.record.Dialect == DialectMap && !t.record.ownerStays(res.def, p) {
			return failed(op, fmt.Errorf("%w: permission %q of resource %q can exclude the owner: %s",
				ErrRequiredPermission, name, resource, p.Expression))
		}
	}
	return nil
}
