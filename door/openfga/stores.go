package openfga

import (
	"context"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/storage"
)

// pageDefault is the size of a page if the request has none.
const pageDefault = 50

func (s *service) createStore(ctx context.Context, _ *headers, in *openfgav1.CreateStoreRequest) (*openfgav1.CreateStoreResponse, error) {
	if err := validateMessage(in); err != nil {
		return nil, err
	}
	st, err := s.engine.CreateStore(ctx, ostiary.CreateStoreRequest{Name: in.GetName()})
	if err != nil {
		return nil, translateError(err)
	}
	info := st.Info()
	created := timestamppb.New(info.Created.Time())
	return &openfgav1.CreateStoreResponse{Id: info.ID.String(), Name: info.Name, CreatedAt: created, UpdatedAt: created}, nil
}

func (s *service) getStore(ctx context.Context, c *headers, in *openfgav1.GetStoreRequest) (*openfgav1.GetStoreResponse, error) {
	st, err := s.storeOf(ctx, c, in)
	if err != nil {
		return nil, err
	}
	info := st.Info()
	created := timestamppb.New(info.Created.Time())
	return &openfgav1.GetStoreResponse{Id: info.ID.String(), Name: info.Name, CreatedAt: created, UpdatedAt: created}, nil
}

// updateStore handles UpdateStore: it renames a store. OpenFGA has the route, but
// answers "unimplemented".
func (s *service) updateStore(ctx context.Context, c *headers, in *openfgav1.UpdateStoreRequest) (*openfgav1.UpdateStoreResponse, error) {
	st, err := s.storeOf(ctx, c, in)
	if err != nil {
		return nil, err
	}
	info := st.Info()
	if err := s.engine.UpdateStore(ctx, info.ID, func(name *string, _ map[string]string) error { *name = in.GetName(); return nil }); err != nil {
		return nil, translateError(err)
	}
	created := timestamppb.New(info.Created.Time())
	return &openfgav1.UpdateStoreResponse{Id: info.ID.String(), Name: in.GetName(), CreatedAt: created, UpdatedAt: created}, nil
}

// deleteStore handles DeleteStore. As in OpenFGA, a missing store is no error.
func (s *service) deleteStore(ctx context.Context, _ *headers, in *openfgav1.DeleteStoreRequest) (*openfgav1.DeleteStoreResponse, error) {
	if err := validateMessage(in); err != nil {
		return nil, err
	}
	st, err := s.store(ctx, in.GetStoreId(), authz.Acknowledged())
	if err == nil {
		err = translateError(s.engine.DeleteStore(ctx, st.ID()))
	}
	if err != nil && toFailure(err).code != codeStoreNotFound {
		return nil, err
	}
	return &openfgav1.DeleteStoreResponse{}, nil
}

func (s *service) listStores(ctx context.Context, _ *headers, in *openfgav1.ListStoresRequest) (*openfgav1.ListStoresResponse, error) {
	if err := validateMessage(in); err != nil {
		return nil, err
	}
	var after storage.StoreID
	if token := in.GetContinuationToken(); token != "" {
		position, err := openToken(storesToken, token, in.GetName())
		if err != nil || len(position) != len(after) {
			return nil, badContinuation()
		}
		after = storage.StoreID(position)
	}
	limit := pageSize(in.GetPageSize().GetValue())
	out := &openfgav1.ListStoresResponse{Stores: []*openfgav1.Store{}}
	stores := s.engine.Stores(ctx, after)
	if in.GetName() != "" {
		stores = s.engine.StoresByName(ctx, in.GetName(), after)
	}
	for info, err := range stores {
		if err != nil {
			return nil, translateError(err)
		}
		if len(out.Stores) == limit {
			out.ContinuationToken = sealToken(storesToken, after[:], in.GetName())
			break
		}
		after = info.ID
		created := timestamppb.New(info.Created.Time())
		out.Stores = append(out.Stores, &openfgav1.Store{Id: info.ID.String(), Name: info.Name, CreatedAt: created, UpdatedAt: created})
	}
	return out, translateError(ctx.Err())
}

// pageSize returns the size of a page, whose form the caller has checked.
func pageSize(n int32) int {
	if n <= 0 {
		return pageDefault
	}
	return int(n)
}
