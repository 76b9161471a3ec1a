package permify

import (
	"context"
	"errors"

	"google.golang.org/protobuf/types/known/timestamppb"

	ostiary "github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/permifypb"
	"github.com/ostiary/ostiary/storage"
)

// tenantPage is the page size of tenant lists if the request sets none.
const tenantPage = 50

// tenantStore returns the request that creates a tenant's store.
func tenantStore(id, name string) ostiary.CreateStoreRequest {
	return ostiary.CreateStoreRequest{Name: name, Aliases: map[string]string{Name: id}}
}

// validNewTenant reports whether id is a valid id for a new tenant
// (newTenantPattern).
func validNewTenant(id string) bool {
	if id == "" {
		return false
	}
	for i := 0; i < len(id); i++ {
		switch c := id[i]; {
		case c|0x20 >= 'a' && c|0x20 <= 'z', c >= '0' && c <= '9', c == '-', c == ',':
		default:
			return false
		}
	}
	return true
}

// CreateTenant implements Tenancy.Create.
func (s *service) CreateTenant(ctx context.Context, r *permifypb.TenantCreateRequest) (*permifypb.TenantCreateResponse, error) {
	switch {
	case len(r.Id) > tenantBytesMax:
		return nil, invalidArgument("invalid TenantCreateRequest.Id: value length must be at most %d bytes", tenantBytesMax)
	case !validNewTenant(r.Id):
		return nil, patternError("TenantCreateRequest.Id", newTenantPattern)
	case len(r.Name) > tenantBytesMax:
		return nil, invalidArgument("invalid TenantCreateRequest.Name: value length must be at most %d bytes", tenantBytesMax)
	}
	if err := s.ensureDefaultTenant(ctx); err != nil {
		return nil, err
	}
	store, err := s.engine.CreateStore(ctx, tenantStore(r.Id, r.Name))
	if err != nil {
		return nil, translateError(err)
	}
	return &permifypb.TenantCreateResponse{Tenant: tenantMessage(store.Info())}, nil
}

// tenantMessage translates a tenant's store.
func tenantMessage(i storage.StoreInfo) *permifypb.Tenant {
	return &permifypb.Tenant{Id: i.Aliases[Name], Name: i.Name, CreatedAt: timestamppb.New(i.Created.Time())}
}

// DeleteTenant implements Tenancy.Delete.
func (s *service) DeleteTenant(ctx context.Context, r *permifypb.TenantDeleteRequest) (*permifypb.TenantDeleteResponse, error) {
	if err := s.ensureDefaultTenant(ctx); err != nil {
		return nil, err
	}
	store, err := s.engine.StoreByAlias(ctx, Name, r.Id)
	if err == nil && r.Id == DefaultTenant {
		err = s.markDefaultDeleted(ctx)
	}
	if err == nil {
		err = s.engine.DeleteStore(ctx, store.ID())
	}
	if errors.Is(err, authz.ErrNoStore) {
		return nil, codeError(permifypb.ErrorCode_ERROR_CODE_NOT_FOUND)
	}
	if err != nil {
		return nil, translateError(err)
	}
	return &permifypb.TenantDeleteResponse{TenantId: r.Id}, nil
}

// ListTenants implements Tenancy.List, in order of id.
func (s *service) ListTenants(ctx context.Context, r *permifypb.TenantListRequest) (*permifypb.TenantListResponse, error) {
	key := tokenKey("tenants")
	start, err := parsePosition(r.ContinuousToken, key)
	if err != nil {
		return nil, err
	}
	if err := s.ensureDefaultTenant(ctx); err != nil {
		return nil, err
	}
	limit := pageSize(r.PageSize, tenantPage)
	out := &permifypb.TenantListResponse{}
	for info, err := range s.engine.StoresByAlias(ctx, Name, start.last) {
		if err != nil {
			return nil, translateError(err)
		}
		if len(out.Tenants) == limit {
			out.ContinuousToken = (&position{last: out.Tenants[limit-1].Id}).token(key)
			break
		}
		out.Tenants = append(out.Tenants, tenantMessage(info))
	}
	return out, nil
}
