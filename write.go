package ostiary

import (
	"context"
	"iter"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/commit"
	"github.com/ostiary/ostiary/internal/engine/errs"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// Write makes a change durable and returns the token of its revision. A write
// that changes nothing, for example because [authz.Ignore] applies to all of it, makes
// no log entry; its token is that of the newest revision.
func (s *Store) Write(ctx context.Context, r authz.WriteRequest) (authz.Token, error) {
	if err := s.mayWrite(ctx, "write", &r); err != nil {
		return "", err
	}
	return s.queue.Write(ctx, &r)
}

// Update makes a change that is decided when the writes before it are known, and
// returns the token of its revision. Concurrent updates become durable together,
// although each is decided on the state that the ones before it lead to. None is
// acknowledged before everything that it was decided on is durable.
func (s *Store) Update(ctx context.Context, u authz.Update) (authz.Token, error) {
	if err := s.mayChange(ctx, "update", authz.RightWrite); err != nil {
		return "", err
	}
	if authz.AccessOf(ctx) != nil {
		build := u.Build
		u.Build = func(head authz.Token) (authz.WriteRequest, error) {
			r, err := build(head)
			if err == nil {
				err = s.mayWrite(ctx, "update", &r)
			}
			return r, err
		}
	}
	return s.queue.Update(ctx, &u)
}

// Import writes many tuples in large log entries, each of them atomic and durable
// before the next one. Every tuple is validated as by [Store.Write]. An error of
// the sequence, a rejected tuple or the end of ctx ends the import; the entries
// before stay, and the result counts them.
func (s *Store) Import(ctx context.Context, tuples iter.Seq2[rel.Tuple, error], o authz.ImportOptions) (authz.ImportResult, error) {
	if err := s.mayChange(ctx, "import", authz.RightWrite); err != nil {
		return authz.ImportResult{}, err
	}
	return s.queue.Import(ctx, tuples, o)
}

// Prepare validates a write that becomes a part of the caller's own database
// transaction. It holds the store's write lock until the [Pending] ends, so the
// caller should be quick. It fails with [authz.ErrTransaction] if the driver is no
// storage.Joiner.
func (s *Store) Prepare(ctx context.Context, r authz.WriteRequest) (*Pending, error) {
	if err := s.mayWrite(ctx, "prepare", &r); err != nil {
		return nil, err
	}
	p, err := s.queue.Prepare(ctx, &r)
	if err != nil {
		return nil, err
	}
	return &Pending{p}, nil
}

// Pending is a write inside the caller's own database transaction: the result of
// [Store.Prepare]. It holds the store's write lock until Publish or Abort, or until
// Bounds.HoldTime has passed before AppendTo. It is safe for concurrent use.
type Pending struct{ pending *commit.Pending }

// AppendTo adds the write to the caller's transaction tx, whose type the driver's
// documentation names. It may be called once. A write that changes nothing adds
// nothing.
func (p *Pending) AppendTo(ctx context.Context, tx any) error { return p.pending.AppendTo(ctx, tx) }

// Publish makes the write visible, after the caller's transaction is committed, and
// returns the token of its revision.
func (p *Pending) Publish(ctx context.Context) (authz.Token, error) { return p.pending.Publish(ctx) }

// Abort cancels the write. The caller must not commit a transaction that contains it.
// If the caller does so nevertheless, the write is valid.
func (p *Pending) Abort() { p.pending.Abort() }

// guard is [Options].Guard, which may be nil.
type guard func(context.Context, storage.StoreInfo) error

// check fails with [authz.ErrForbidden] if the caller of ctx lacks a right on a store, and
// otherwise if the guard refuses a change of it.
func (g guard) check(ctx context.Context, right authz.Right, store storage.StoreInfo) error {
	if err := allow(ctx, right, store); err != nil || g == nil {
		return err
	}
	return g(ctx, store)
}

// allow fails with [authz.ErrForbidden] if the caller of ctx lacks a right on a store.
func allow(ctx context.Context, right authz.Right, store storage.StoreInfo) error {
	if a := authz.AccessOf(ctx); a != nil {
		return a.Allow(ctx, right, store)
	}
	return nil
}

// mayChange fails if the caller of ctx lacks a right on the store, or if the guard refuses
// a change of it.
func (s *Store) mayChange(ctx context.Context, op string, right authz.Right) error {
	return errs.Wrap(op, s.timeline.ID, s.guard.check(ctx, right, s.timeline.Info()))
}

// mayWrite is mayChange for a write, which may also change schemas.
func (s *Store) mayWrite(ctx context.Context, op string, r *authz.WriteRequest) error {
	err := s.mayChange(ctx, op, authz.RightWrite)
	if err == nil && len(r.Schemas)+len(r.RemoveSchemas) > 0 {
		err = errs.Wrap(op, s.timeline.ID, allow(ctx, authz.RightSchema, s.timeline.Info()))
	}
	return err
}

// Document returns the newest document with the key, or [authz.ErrNoDocument].
func (s *Store) Document(ctx context.Context, k authz.DocumentKey) (authz.Document, error) {
	return s.documents.Get(ctx, k)
}

// DocumentsBy returns the newest documents of a kind that have a secondary key,
// in the order of their keys. More than Bounds.PageItems of them is an error.
func (s *Store) DocumentsBy(ctx context.Context, kind, secondary string) ([]authz.Document, error) {
	return s.documents.By(ctx, kind, secondary)
}

// Documents calls visit for each document of some kinds, kind by kind and in the
// order of their keys. All of them belong to one revision, which is not older than any
// write that was acknowledged before the call; Documents returns its token. Their
// number has no bound. An error of visit ends the call and is returned as it is.
func (s *Store) Documents(ctx context.Context, kinds []string, visit func(authz.Document) error) (authz.Token, error) {
	return s.documents.All(ctx, kinds, visit)
}

// Secret returns the newest secret with the key, decrypted, or [authz.ErrNoDocument].
// It fails with [authz.ErrNoSecretKey] if the engine has no key or another one.
func (s *Store) Secret(ctx context.Context, k authz.DocumentKey) (authz.Document, error) {
	return s.documents.Secret(ctx, k)
}
