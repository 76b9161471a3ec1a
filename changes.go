package ostiary

import (
	"context"
	"iter"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/changelog"
)

// Changes returns a page of the log, from any revision or time that it still
// has. Otherwise it fails with [authz.ErrTooOld].
func (s *Store) Changes(ctx context.Context, r authz.ChangesRequest) (authz.ChangePage, error) {
	return changelog.Read(ctx, s.timeline, r)
}

// Entry returns the entry that led to the revision of a token, without its changes. It
// fails with [authz.ErrTooOld] if the log no longer has it.
func (s *Store) Entry(ctx context.Context, token authz.Token) (authz.ChangeEntry, error) {
	return changelog.Head(ctx, s.timeline, token)
}

// Watch yields the entries after a token: first from the log, then as this
// process publishes them. It ends when ctx ends or the consumer stops. Writers
// never wait for a watcher: one that lags by more than Bounds.WatchBuffer
// entries ends with a [authz.WatchError].
func (s *Store) Watch(ctx context.Context, r authz.WatchRequest) iter.Seq2[authz.ChangeEntry, error] {
	return changelog.Watch(ctx, s.timeline, r)
}
