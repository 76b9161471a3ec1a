// Package permify is the door that speaks Permify's API (base.v1), over REST
// and gRPC: tenants, schemas in its language, data with attributes, bundles,
// and its questions. Its main function is New. It translates: what an answer
// means is the engine's, and where the language means something of its own,
// the schema says so (StarIsOrdinary, UnsetAttributeIsZero). It holds no data
// and never evaluates.
//
// README.md tells how to point a client at it, and what a client could notice.
package permify

import (
	"context"
	"errors"
	"sync/atomic"

	ostiary "github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/permify/basev1"
)

// Name is the door's name, and the door under which stores keep their tenant's
// id as an alias.
const Name = "permify"

// DefaultTenant exists from the beginning, as in the original.
const DefaultTenant = "t1"

// Bounds of the protocol. One more is refused with a validation error.
const (
	// DepthMin is the least depth that a question may ask for.
	DepthMin = 3
	// BulkItemsMax bounds the items of a bulk check.
	BulkItemsMax = 100
	// WriteMax bounds the tuples and attributes of one write, in all.
	WriteMax = 1000
	// PageMax bounds a page; a larger page_size is answered with so much.
	PageMax = 100_000
	// TenantBytesMax bounds a tenant's id and name when it is created.
	TenantBytesMax = 64
	// BundlesMax bounds the bundles of one write, BundleBytesMax one bundle's text.
	BundlesMax     = 100
	BundleBytesMax = 64 << 10
	// PermissionsMax bounds the permissions of one lookup.
	PermissionsMax = 20
)

// Options are the door's settings. The zero value is useful.
type Options struct {
	// NoDefaultTenant leaves DefaultTenant out.
	NoDefaultTenant bool
	// ExactSnapTokens answers as of the very revision that a snap token names,
	// while it is kept, as the original does over PostgreSQL. Without it a token
	// asks for data at least as fresh, which is what it is documented for, and
	// costs nothing.
	ExactSnapTokens bool
}

// New returns the door to an engine's stores. It does nothing yet:
// DefaultTenant is created when the door is first asked anything, so that a
// server without this protocol's clients has no store of theirs.
func New(e *ostiary.Engine, o Options) (*door.Door, error) {
	s := &service{engine: e, opts: o}
	s.prepared.Store(o.NoDefaultTenant)
	return &door.Door{
		Name:      Name,
		Prefixes:  []string{"/v1/tenants"},
		Routes:    s.routes(),
		Missing:   missing,
		Refuse:    refuse,
		RefuseRPC: refuseRPC,
		Services: []door.Service{
			{Desc: &basev1.Permission_ServiceDesc, Impl: permissionServer{s: s}},
			{Desc: &basev1.Schema_ServiceDesc, Impl: schemaServer{s: s}},
			{Desc: &basev1.Data_ServiceDesc, Impl: dataServer{s: s}},
			{Desc: &basev1.Bundle_ServiceDesc, Impl: bundleServer{s: s}},
			{Desc: &basev1.Tenancy_ServiceDesc, Impl: tenancyServer{s: s}},
			{Desc: &basev1.Watch_ServiceDesc, Impl: watchServer{s: s}},
		},
	}, nil
}

// service is what both ways in share: one method for each call.
type service struct {
	engine *ostiary.Engine
	opts   Options

	// prepared says that DefaultTenant was there once since New.
	prepared atomic.Bool
}

// store returns a tenant's store.
func (s *service) store(ctx context.Context, tenant string) (*ostiary.Store, error) {
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	store, err := s.engine.StoreByAlias(ctx, Name, tenant)
	if err != nil {
		return nil, translated(err)
	}
	return store, nil
}

// prepare creates DefaultTenant once. Whoever deletes it afterwards does not
// get it back before the next start.
func (s *service) prepare(ctx context.Context) error {
	if s.prepared.Load() {
		return nil
	}
	_, err := s.engine.StoreByAlias(ctx, Name, DefaultTenant)
	if errors.Is(err, ostiary.ErrNoStore) {
		_, err = s.engine.CreateStore(ctx, tenantStore(DefaultTenant, DefaultTenant))
	}
	if err != nil && !errors.Is(err, ostiary.ErrStoreExists) { // another request was quicker
		return translated(err)
	}
	s.prepared.Store(true)
	return nil
}

// noopToken is what a write of nothing answers; as a snap token it asks for
// nothing.
const noopToken = "noop"

// at says which revision a snap token asks for.
func (s *service) at(token string) ostiary.Consistency {
	switch {
	case token == "" || token == noopToken:
		return ostiary.MinimizeLatency()
	case s.opts.ExactSnapTokens:
		return ostiary.AtExactly(ostiary.Token(token))
	}
	return ostiary.AtLeast(ostiary.Token(token))
}
