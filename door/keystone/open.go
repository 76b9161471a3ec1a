package keystone

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/identity"
	"github.com/ostiary/ostiary/storage"
)

// deployment returns the service of the store, and opens it on the first call. The
// store then stays in memory.
func (s *service) deployment(ctx context.Context) (*identity.Service, error) {
	if opened := s.opened.Load(); opened != nil {
		return opened, nil
	}
	s.opening.Lock()
	defer s.opening.Unlock()
	if opened := s.opened.Load(); opened != nil {
		return opened, nil
	}
	store, err := s.store(ctx)
	if errors.Is(err, ostiary.ErrNoStore) {
		return nil, &statusError{status: http.StatusServiceUnavailable, text: "There is no deployment yet: run `ostiary keystone bootstrap`."}
	}
	if err != nil {
		return nil, err
	}
	store.Keep()
	// The directory outlives the request that opens it.
	opened, err := identity.Open(context.WithoutCancel(ctx), store, s.options.Identity)
	if err != nil {
		return nil, err
	}
	if s.options.Permissions != nil {
		missing, err := opened.SetPermissions(context.WithoutCancel(ctx), s.options.Permissions)
		if err != nil {
			return nil, err
		}
		if len(missing) > 0 && s.options.Report != nil {
			s.options.Report(fmt.Errorf("roles of the permissions do not exist: %q", missing))
		}
	}
	s.opened.Store(opened)
	return opened, nil
}

func (s *service) store(ctx context.Context) (*ostiary.Store, error) {
	store, err := s.engine.StoreByAlias(ctx, Name, s.options.Store)
	if errors.Is(err, ostiary.ErrNoStore) {
		if id, parseErr := storage.ParseStoreID(s.options.Store); parseErr == nil {
			return s.engine.Store(ctx, id)
		}
	}
	return store, err
}

// prepare opens the deployment before the first request. It does nothing if there
// is none.
func (s *service) prepare(ctx context.Context) error {
	store, err := s.store(ctx)
	if errors.Is(err, ostiary.ErrNoStore) {
		return nil
	}
	if err == nil {
		err = store.Load(ctx) // unlike a request, it waits as long as necessary
	}
	if err == nil {
		_, err = s.deployment(ctx)
	}
	return err
}

// FlushInterval is how often the counts of logins are stored.
const FlushInterval = 10 * time.Second

// flushTimeout bounds storing the counts when the server stops.
const flushTimeout = 5 * time.Second

// flush stores the counts of logins at intervals until ctx ends, and then once
// more.
func (s *service) flush(ctx context.Context) {
	tick := time.NewTicker(FlushInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
			defer cancel()
			s.flushOnce(last)
			return
		case <-tick.C:
			s.flushOnce(ctx)
		}
	}
}

func (s *service) flushOnce(ctx context.Context) {
	opened := s.opened.Load()
	if opened == nil {
		return
	}
	if err := opened.Flush(ctx); err != nil && ctx.Err() == nil && s.options.Report != nil {
		s.options.Report(err)
	}
}
