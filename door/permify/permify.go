// Package permify serves Permify's API (base.v1) over REST and gRPC: tenants,
// schemas in Permify's language, data with attributes, bundles, checks, lookups
// and watch. [New] returns the [door.Door].
//
// The package translates requests and results. It stores no data and never
// evaluates. Where Permify's language has semantics of its own, the schema
// carries them as options (StarIsOrdinary, UnsetAttributeIsZero), so the engine
// evaluates them for every door.
//
// docs/permify.md explains how to point a client at it, and lists what a client could
// notice.
package permify

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/engine/journal"
	"github.com/ostiary/ostiary/internal/permifypb"
)

// Name is the door's name. A store keeps its tenant's id as the alias for this
// door.
const Name = "permify"

// DefaultTenant is the tenant that exists from the start, as in the original, until it
// is deleted.
const DefaultTenant = "t1"

// Bounds of the protocol. Requests beyond them fail with a validation error,
// except for PageMax.
const (
	// depthMin is the smallest depth that a request may set.
	depthMin = 3
	// bulkItemsMax bounds the items of a bulk check.
	bulkItemsMax = 100
	// writeMax bounds the tuples and attributes of one write, counted together.
	writeMax = 1000
	// PageMax bounds the items of a page. A larger page_size is reduced to it.
	PageMax = 100_000
	// tenantBytesMax bounds the id and the name of a new tenant, in bytes.
	tenantBytesMax = 64
	// bundlesMax bounds the bundles of one request.
	bundlesMax = 100
	// bundleBytesMax bounds a bundle's JSON, in bytes.
	bundleBytesMax = 64 << 10
	// permissionsMax bounds the permissions of one lookup of entities.
	permissionsMax = 20
)

// Options are the settings of the door. The zero value is useful.
type Options struct {
	// NoDefaultTenant, if true, does not create DefaultTenant.
	NoDefaultTenant bool
	// ExactSnapTokens, if true, reads at exactly the revision of a snap token,
	// as the original does over PostgreSQL. It fails once the revision is no
	// longer kept. By default a snap token asks for data at least as fresh,
	// which is its documented meaning and needs no old revision.
	ExactSnapTokens bool
}

// New returns the door to an engine's stores. It creates DefaultTenant when the
// first request arrives, not earlier. So a server that no Permify client uses
// has no store for Permify.
func New(e *ostiary.Engine, o Options) (*door.Door, error) {
	s := &service{engine: e, opts: o}
	s.defaultTenantReady.Store(o.NoDefaultTenant)
	return &door.Door{
		Name:      Name,
		Prefixes:  []string{"/v1/tenants"},
		Guide:     "docs/permify.md",
		Routes:    s.routes(),
		Missing:   serveMissing,
		Refuse:    serveRefusal,
		RefuseRPC: refusalStatus,
		Services: []door.Service{
			{Desc: &permifypb.Permission_ServiceDesc, Impl: permissionServer{s: s}, MayWrite: s.makesDefaultTenant},
			{Desc: &permifypb.Schema_ServiceDesc, Impl: schemaServer{s: s}, Writes: []string{"Write", "PartialWrite"}, MayWrite: s.makesDefaultTenant},
			{Desc: &permifypb.Data_ServiceDesc, Impl: dataServer{s: s}, Writes: []string{"Write", "WriteRelationships", "Delete", "DeleteRelationships", "RunBundle"}, MayWrite: s.makesDefaultTenant},
			{Desc: &permifypb.Bundle_ServiceDesc, Impl: bundleServer{s: s}, Writes: []string{"Write", "Delete"}, MayWrite: s.makesDefaultTenant},
			{Desc: &permifypb.Tenancy_ServiceDesc, Impl: tenancyServer{s: s}, Writes: []string{"Create", "Delete"}, MayWrite: s.makesDefaultTenant},
			{Desc: &permifypb.Watch_ServiceDesc, Impl: watchServer{s: s}},
		},
	}, nil
}

// service implements every call once, for REST and gRPC.
type service struct {
	// engine has one store for each tenant.
	engine *ostiary.Engine
	// opts are the door's settings.
	opts Options

	// defaultTenantReady is true once DefaultTenant was created or found.
	defaultTenantReady atomic.Bool
}

// store returns a tenant's store. It fails with TENANT_NOT_FOUND if the tenant
// does not exist.
func (s *service) store(ctx context.Context, tenant string) (*ostiary.Store, error) {
	if err := s.ensureDefaultTenant(ctx); err != nil {
		return nil, err
	}
	store, err := s.engine.StoreByAlias(ctx, Name, tenant)
	if err != nil {
		return nil, translateError(err)
	}
	return store, nil
}

// validTenant is like store, but validates the tenant's id first. message names
// the request in the validation error.
func (s *service) validTenant(ctx context.Context, message, tenant string) (*ostiary.Store, error) {
	if err := checkTenant(message, tenant); err != nil {
		return nil, err
	}
	return s.store(ctx, tenant)
}

// makesDefaultTenant reports whether the next request, also a read, may create
// DefaultTenant.
func (s *service) makesDefaultTenant() bool { return !s.defaultTenantReady.Load() }

// ensureDefaultTenant creates DefaultTenant unless it exists or was deleted, whatever the
// caller may do. Several nodes may do it at once.
func (s *service) ensureDefaultTenant(ctx context.Context) error {
	if s.defaultTenantReady.Load() {
		return nil
	}
	ctx = authz.WithAccess(ctx, nil)
	for _, alias := range []struct{ door, name string }{{Name, DefaultTenant}, {DeletedDoor, DefaultTenant}} {
		_, err := s.engine.StoreByAlias(ctx, alias.door, alias.name)
		if err == nil {
			s.defaultTenantReady.Store(true)
			return nil
		}
		if !errors.Is(err, authz.ErrNoStore) {
			return translateError(err)
		}
	}
	if err := s.createOnce(ctx, tenantStore(DefaultTenant, DefaultTenant)); err != nil {
		return translateError(err)
	}
	s.defaultTenantReady.Store(true)
	return nil
}

// createOnce creates a store unless another request has created it.
func (s *service) createOnce(ctx context.Context, r ostiary.CreateStoreRequest) error {
	return journal.Beforehand(ctx, func(ctx context.Context) error {
		_, err := s.engine.CreateStore(ctx, r)
		if errors.Is(err, authz.ErrStoreExists) {
			return nil
		}
		return err
	})
}

// DeletedDoor is the door whose alias marks that DefaultTenant was deleted, so that no
// other node and no later start creates it again. The store with that alias is empty.
const DeletedDoor = "permify-deleted"

// markDefaultDeleted marks that DefaultTenant is deleted.
func (s *service) markDefaultDeleted(ctx context.Context) error {
	return s.createOnce(ctx, ostiary.CreateStoreRequest{Name: "Permify: tenant " + DefaultTenant + " was deleted", Aliases: map[string]string{DeletedDoor: DefaultTenant}})
}

// noopToken is the snap token of a write without data. Sent back as a snap
// token, it sets no limit.
const noopToken = "noop"

// consistency returns how fresh the data must be for a snap token.
func (s *service) consistency(token string) authz.Consistency {
	switch {
	case token == "" || token == noopToken:
		return authz.Acknowledged()
	case s.opts.ExactSnapTokens:
		return authz.AtExactly(authz.Token(token))
	}
	return authz.AtLeast(authz.Token(token))
}
