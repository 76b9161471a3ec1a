package keystone

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/tool/turns"
)

// deployment returns the service of the store, and opens it on the first call. The
// store then stays in memory.
func (s *service) deployment(ctx context.Context) (*identity.Service, error) {
	if opened := s.opened.Load(); opened != nil {
		return opened, nil
	}
	turns.Pause(ctx)
	s.opening.Lock()
	defer s.opening.Unlock()
	if opened := s.opened.Load(); opened != nil {
		return opened, nil
	}
	store, err := s.store(ctx)
	if errors.Is(err, authz.ErrNoStore) {
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
	if err := s.setPermissions(context.WithoutCancel(ctx), opened); err != nil {
		return nil, err
	}
	s.opened.Store(opened)
	return opened, nil
}

// setPermissions makes the permissions of the settings those of the deployment. It
// warns about roles that do not exist and about permissions of earlier settings.
func (s *service) setPermissions(ctx context.Context, opened *identity.Service) error {
	if s.options.Permissions == nil {
		if left, err := opened.PermissionNames(ctx); err == nil && len(left) > 0 {
			s.options.Warn(fmt.Errorf("permissions of an earlier start are still in use: %s; a file with {} for --keystone-permissions removes them", strings.Join(left, ", ")))
		}
		return nil
	}
	missing, err := opened.SetPermissions(ctx, s.options.Permissions)
	if err == nil && len(missing) > 0 {
		s.options.Warn(fmt.Errorf("--keystone-permissions: the roles %q do not exist, so they give no permission; create them and start again", missing))
	}
	return err
}

func (s *service) store(ctx context.Context) (*ostiary.Store, error) {
	return door.FindStore(ctx, s.engine, Name, s.options.Store)
}

// prepare opens the deployment before the first request, and fails if its secrets
// cannot be read. It does nothing if there is none.
func (s *service) prepare(ctx context.Context) error {
	store, err := s.store(ctx)
	if errors.Is(err, authz.ErrNoStore) {
		return nil
	}
	if err == nil {
		err = store.Load(ctx) // unlike a request, it waits as long as necessary
	}
	if err != nil {
		return err
	}
	opened, err := s.deployment(ctx)
	if err != nil {
		return err
	}
	return opened.CheckSecrets(ctx)
}

// FlushInterval is how often the counts of logins are stored.
const FlushInterval = 10 * time.Second

// flushTimeout bounds storing the counts when the server stops.
const flushTimeout = 5 * time.Second

// trustsInterval is how often trusts that have ended are removed.
const trustsInterval = time.Hour

// flush stores the counts of logins at intervals until ctx ends, and then once
// more. It also removes trusts that have ended.
func (s *service) flush(ctx context.Context) {
	tick, trusts := time.NewTicker(FlushInterval), time.NewTicker(trustsInterval)
	defer tick.Stop()
	defer trusts.Stop()
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
			defer cancel()
			s.flushOnce(last)
			return
		case <-tick.C:
			s.flushOnce(ctx)
		case <-trusts.C:
			s.removeTrusts(ctx)
		}
	}
}

func (s *service) removeTrusts(ctx context.Context) {
	opened := s.opened.Load()
	if opened == nil {
		return
	}
	if _, err := opened.RemoveEndedTrusts(ctx); err != nil && ctx.Err() == nil {
		s.options.Report(fmt.Errorf("remove trusts that have ended: %w", err))
	}
}

func (s *service) flushOnce(ctx context.Context) {
	opened := s.opened.Load()
	if opened == nil {
		return
	}
	if err := opened.Flush(ctx); err != nil && ctx.Err() == nil {
		s.options.Report(err)
	}
}
