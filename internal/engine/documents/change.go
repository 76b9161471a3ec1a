package documents

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/storage"
)

// Decide returns a write that is decided on a value, and the value after it. A nil
// write changes nothing; its value is ignored. An error rejects the change.
type Decide[T any] func(base *At[T]) (w *authz.WriteRequest, next T, err error)

// attemptsMax is the largest number of times that one change is decided. It is decided
// again if another writer of the store has written in between.
const attemptsMax = 100

// errBehind is the error of a write that another writer of the store preceded.
var errBehind = errors.New("the replica lacks a write of another writer")

// Change makes a durable change that is decided on the newest revision, and returns
// the value after it. It decides again if another writer changes the store meanwhile,
// and fails with [authz.ErrConflict] if that happens 100 times. Changes of one
// replica are decided one after another. An error of decide is returned as it is.
func (r *Replica[T]) Change(ctx context.Context, decide Decide[T]) (*At[T], error) {
	if err := r.enter(ctx, r.entering, "another change"); err != nil {
		return nil, err
	}
	defer func() { <-r.entering }()
	r.together.Wait()
	for range attemptsMax {
		base, err := r.Newest(ctx)
		if err != nil {
			return nil, err
		}
		w, next, err := decide(base)
		if err != nil {
			return nil, err
		}
		if w == nil {
			return base, nil
		}
		after, _, err := r.append(ctx, func(head authz.Token) (*At[T], *authz.WriteRequest, T, error) {
			if head != base.Token {
				return nil, nil, next, errBehind
			}
			return base, w, next, nil
		})
		if !errors.Is(err, errBehind) {
			return after, err
		}
	}
	return nil, r.conflict()
}

func (r *Replica[T]) conflict() error {
	return fmt.Errorf("%w: other writers changed store %s before each of %d attempts", authz.ErrConflict, r.store.ID(), attemptsMax)
}

// Together is like [Replica.Change] for a decision that is quick and does not use the
// store. Concurrent changes are decided one after another, each on the value that the
// ones before it lead to, and then become durable together. A change fails if one that
// it was decided on does not become durable.
func (r *Replica[T]) Together(ctx context.Context, decide Decide[T]) (*At[T], error) {
	for range attemptsMax {
		after, refusedOn, err := r.tryTogether(ctx, decide)
		switch {
		case errors.Is(err, errBehind):
			return r.Change(ctx, decide)
		case refusedOn == nil || r.durable(ctx, refusedOn):
			return after, err
		}
		// The change was refused because of one that did not become durable.
	}
	return nil, r.conflict()
}

// tryTogether makes a change once. If decide refuses it, refusedOn is the value that
// it was decided on.
func (r *Replica[T]) tryTogether(ctx context.Context, decide Decide[T]) (after, refusedOn *At[T], err error) {
	if err := r.enter(ctx, r.entering, "another change"); err != nil {
		return nil, nil, err
	}
	r.together.Add(1)
	defer r.together.Done()
	<-r.entering
	if _, err := r.Newest(ctx); err != nil {
		return nil, nil, err
	}
	return r.append(ctx, func(head authz.Token) (base *At[T], w *authz.WriteRequest, next T, err error) {
		if base = r.known(head); base == nil {
			return nil, nil, next, errBehind
		}
		w, next, err = decide(base)
		return base, w, next, err
	})
}

// append writes what decide returns for the state that the writes before it lead to,
// and returns the value after it. If decide returns an error with a base, refusedOn is
// that base.
func (r *Replica[T]) append(ctx context.Context, decide func(head authz.Token) (*At[T], *authz.WriteRequest, T, error)) (after, refusedOn *At[T], err error) {
	var base *At[T]
	var next T
	var w *authz.WriteRequest
	_, err = r.store.Update(ctx, authz.Update{
		Build: func(head authz.Token) (_ authz.WriteRequest, err error) {
			refusedOn = nil
			if base, w, next, err = decide(head); err != nil {
				refusedOn = base
				return authz.WriteRequest{}, err
			}
			if w == nil {
				return authz.WriteRequest{}, nil
			}
			return *w, nil
		},
		Accepted: func(head authz.Token) {
			if after = base; head != base.Token {
				after = &At[T]{next, base.Revision + 1, head}
				r.ahead.add(after)
			}
		},
	})
	if err != nil {
		return nil, refusedOn, err
	}
	return after, nil, nil
}

// known returns the value of a revision that may not be durable yet, or nil.
func (r *Replica[T]) known(head authz.Token) *At[T] {
	if at := r.ahead.get(head); at != nil {
		return at
	}
	if at := r.current.Load(); at.Token == head {
		return at
	}
	return nil
}

// durable reports whether the revision of a value is one of the store.
func (r *Replica[T]) durable(ctx context.Context, at *At[T]) bool {
	if at == r.current.Load() {
		return true
	}
	token, err := r.store.TokenAt(ctx, at.Revision)
	return err == nil && token == at.Token
}

// ahead holds values after writes that were accepted, but may not be durable yet, by
// the token of their revision. Only writes are decided on them. A value of a write
// that fails is never used again, because no revision gets its token.
type ahead[T any] struct {
	mu     sync.Mutex
	values map[authz.Token]*At[T]
}

func (a *ahead[T]) get(head authz.Token) *At[T] {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.values[head]
}

func (a *ahead[T]) add(at *At[T]) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.values == nil {
		a.values = map[authz.Token]*At[T]{}
	}
	a.values[at.Token] = at
}

// forget drops the values of a revision and of older ones.
func (a *ahead[T]) forget(revision storage.Revision) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for head, at := range a.values {
		if at.Revision <= revision {
			delete(a.values, head)
		}
	}
}
