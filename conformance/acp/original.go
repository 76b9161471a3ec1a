// Package acp asks acp_core, the original, and our library the same, and
// explains where they differ. It is a module of its own that nothing imports.
package acp

import (
	"context"
	"errors"

	"github.com/sourcenetwork/acp_core/pkg/auth"
	acperrors "github.com/sourcenetwork/acp_core/pkg/errors"
	"github.com/sourcenetwork/acp_core/pkg/runtime"
	"github.com/sourcenetwork/acp_core/pkg/services"
	"github.com/sourcenetwork/acp_core/pkg/types"

	"github.com/ostiary/ostiary/acp"
)

// original is acp_core in memory.
type original struct{ e *services.EngineService }

func newOriginal() (*original, error) {
	rt, err := runtime.NewRuntimeManager(runtime.WithMemKV(), runtime.WithLogger(types.NoopLogger()))
	if err != nil {
		return nil, err
	}
	return &original{services.NewACPEngine(rt)}, nil
}

// as is a context in which a DID asks; "" is nobody.
func as(did string) (context.Context, error) {
	if did == "" {
		return context.Background(), nil
	}
	p, err := types.NewDIDPrincipal(did)
	if err != nil {
		return nil, err
	}
	return auth.InjectPrincipal(context.Background(), p), nil
}

// kind is an outcome in one word: "ok", or the kind of its error.
func theirKind(err error) string {
	if err == nil {
		return "ok"
	}
	for _, k := range []acperrors.ErrorType{acperrors.ErrorType_INTERNAL, acperrors.ErrorType_UNAUTHENTICATED,
		acperrors.ErrorType_UNAUTHORIZED, acperrors.ErrorType_BAD_INPUT, acperrors.ErrorType_OPERATION_FORBIDDEN, acperrors.ErrorType_NOT_FOUND} {
		if errors.Is(err, k) {
			return k.String()
		}
	}
	return "UNKNOWN"
}

// ourKinds are the kinds that an error of ours has.
func ourKinds(err error) []string {
	if err == nil {
		return []string{"ok"}
	}
	var out []string
	for _, k := range []struct {
		err  error
		name string
	}{{acp.ErrInternal, "INTERNAL"}, {acp.ErrUnauthenticated, "UNAUTHENTICATED"}, {acp.ErrUnauthorized, "UNAUTHORIZED"},
		{acp.ErrInput, "BAD_INPUT"}, {acp.ErrForbidden, "OPERATION_FORBIDDEN"}, {acp.ErrNotFound, "NOT_FOUND"}} {
		if errors.Is(err, k.err) {
			out = append(out, k.name)
		}
	}
	return out
}

func object(o acp.Object) *types.Object { return &types.Object{Resource: o.Resource, Id: o.ID} }

func subject(s acp.Subject) *types.Subject {
	switch {
	case s.Actor == acp.AllActors:
		return &types.Subject{Subject: &types.Subject_AllActors{AllActors: &types.AllActors{}}}
	case s.Actor != "":
		return &types.Subject{Subject: &types.Subject_Actor{Actor: &types.Actor{Id: s.Actor}}}
	case s.Relation != "":
		return &types.Subject{Subject: &types.Subject_ActorSet{ActorSet: &types.ActorSet{
			Object: &types.Object{Resource: s.Resource, Id: s.ID}, Relation: s.Relation}}}
	}
	return &types.Subject{Subject: &types.Subject_Object{Object: &types.Object{Resource: s.Resource, Id: s.ID}}}
}

func relationship(x acp.Relationship) *types.Relationship {
	return &types.Relationship{Object: object(x.Object), Relation: x.Relation, Subject: subject(x.Subject)}
}

func (t *original) create(did, text string) (string, error) {
	ctx, err := as(did)
	if err != nil {
		return "", err
	}
	r, err := t.e.CreatePolicy(ctx, &types.CreatePolicyRequest{Policy: text, MarshalType: types.PolicyMarshalingType_YAML})
	if err != nil {
		return "", err
	}
	return r.Record.Policy.Id, nil
}

func (t *original) check(did, permission string, o acp.Object) (bool, error) {
	r, err := t.e.VerifyAccessRequest(context.Background(), &types.VerifyAccessRequestRequest{PolicyId: o.Policy,
		AccessRequest: &types.AccessRequest{Actor: &types.Actor{Id: did},
			Operations: []*types.Operation{{Object: object(o), Permission: permission}}}})
	return err == nil && r.Valid, err
}

func (t *original) manage(did, relation string, o acp.Object) (bool, error) {
	r, err := t.e.CheckManagementAuthority(context.Background(), &types.CheckManagementAuthorityRequest{PolicyId: o.Policy,
		Object: object(o), Relation: relation, Actor: &types.Actor{Id: did}})
	return err == nil && r.Authorized, err
}

func (t *original) owner(o acp.Object) (string, error) {
	r, err := t.e.GetObjectRegistration(context.Background(), &types.GetObjectRegistrationRequest{PolicyId: o.Policy, Object: object(o)})
	if err != nil {
		return "", err
	}
	return r.OwnerId, nil
}
