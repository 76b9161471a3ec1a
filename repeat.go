package ostiary

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/journal"
	"github.com/ostiary/ostiary/storage"
)

// A node sends a request again if the node that writes has ended before it answered.
// Entries have the id of their request. Changes of the stores themselves do not: a new
// store is recognized by its incarnation, and for a store that was changed or deleted, the
// log only shows that some request did that. This file has what follows from it for a
// request that was sent before, see [journal.Journal].

// createdBefore returns the store that the request of ctx has created when it was sent
// before, or nil. asked is the id that the request wants, or the zero id.
func (e *Engine) createdBefore(ctx context.Context, number storage.RequestID, asked storage.StoreID, want storage.StoreInfo) (*Store, error) {
	j := journal.Of(ctx)
	made, ok, err := j.CreatedBefore(number)
	if !ok || err != nil {
		return nil, err
	}
	if made.Name != want.Name || !maps.Equal(made.Aliases, want.Aliases) || asked != (storage.StoreID{}) && asked != made.ID {
		return nil, uncertainIf(true, errors.New("it has created another store then"))
	}
	j.Note(made.ID, nil)
	if err := e.runtime.Acknowledge(ctx); err != nil {
		return nil, err
	}
	info, err := e.runtime.Driver.Store(ctx, made.ID)
	if errors.Is(err, storage.ErrNoStore) || err == nil && info.Incarnation != made.Incarnation {
		return e.deletedHandle(made), nil
	}
	if err != nil {
		return nil, err
	}
	return e.handle(info), nil
}

// deletedBefore returns the store with an id if the request of ctx may have deleted it when
// it was sent before, and otherwise nil. err is why the store was not found.
func (e *Engine) deletedBefore(ctx context.Context, id storage.StoreID, err error) *Store {
	if errors.Is(err, storage.ErrNoStore) {
		for _, d := range slices.Backward(journal.Of(ctx).MayHaveDeleted()) {
			if d.Info.ID == id {
				return e.deletedHandle(d.Info)
			}
		}
	}
	return nil
}

// aliasOfDeleted is deletedBefore for the store with an alias. It returns err if the
// request has deleted no store with the alias, and fails with [authz.ErrUncertain] if that is not
// known, or if another store has the alias now.
func (e *Engine) aliasOfDeleted(ctx context.Context, door, alias string, err error) (*Store, error) {
	if err != nil && !errors.Is(err, storage.ErrNoStore) {
		return nil, err
	}
	for _, d := range slices.Backward(journal.Of(ctx).MayHaveDeleted()) {
		switch {
		case d.Known && d.Info.Aliases[door] != alias:
		case err == nil:
			return nil, uncertainIf(true, fmt.Errorf("the store with the alias %q was deleted meanwhile", alias))
		case !d.Known:
			return nil, uncertainIf(true, err)
		default:
			return e.deletedHandle(d.Info), nil
		}
	}
	return nil, err
}

// deletionMade reports whether the deletion of a store is made, possibly by the request of
// ctx when it was sent before. It fails with [authz.ErrUncertain] if the store has been created
// again since.
func (e *Engine) deletionMade(ctx context.Context, s *Store) (bool, error) {
	j := journal.Of(ctx)
	for _, d := range slices.Backward(j.MayHaveDeleted()) {
		if d.Info.ID != s.ID() {
			continue
		}
		if s.timeline.Open() {
			return false, uncertainIf(true, errors.New("the store was deleted and created again"))
		}
		j.Note(s.ID(), nil)
		return true, e.runtime.Acknowledge(ctx)
	}
	return false, nil
}

// deletedHandle returns a handle of a store that was deleted.
func (e *Engine) deletedHandle(info storage.StoreInfo) *Store {
	s := newStore(e, info)
	s.timeline.Close(authz.ErrNoStore)
	return s
}

// uncertainIf returns [authz.ErrUncertain] with a cause if a request that was sent before may
// have changed what is to be changed, and otherwise the cause.
func uncertainIf(sentBefore bool, cause error) error {
	if !sentBefore {
		return cause
	}
	return fmt.Errorf("%w: the request was sent before, its response was lost, and now: %v", authz.ErrUncertain, cause)
}
