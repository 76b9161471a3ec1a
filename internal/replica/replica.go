// Package replica keeps the documents of some kinds of one store in memory, as a
// value that the caller makes of them: a [Replica] reads them once, follows the log
// of the store, and changes them. The values never change, so a reader needs no lock.
// The package does not know what a document contains.
package replica

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/internal/turns"
	"github.com/ostiary/ostiary/storage"
)

// Form describes how documents become a value.
type Form[T any] struct {
	// Kinds are the kinds of the documents.
	Kinds []string
	// Empty returns the value without a document.
	Empty func() T
	// Apply returns the value after changes of documents of Kinds, in order. Each
	// change is a DocumentPut, a DocumentRemove, or a RemoveByFilter of documents. It
	// must not change old. The documents of a new replica are changes as well, at most
	// 1,000 in one call.
	Apply func(old T, changes []storage.Change) (T, error)
	// Finish completes a value that Apply returned before readers get it. previous is
	// the value that readers got before, or Empty. Nil completes nothing.
	Finish func(ctx context.Context, previous, next T) (T, error)
}

// At is a value at one revision of the store.
type At[T any] struct {
	// Value is the value. Readers must not change it.
	Value T
	// Token names the revision.
	Token ostiary.Token
}

// Replica is the documents of some kinds of one store. It reads the store when it is
// first used, and starts no goroutine. It is safe for concurrent use.
//
// A read sees every write that was acknowledged by the engine of the store before the
// read began, and the writes of other engines as far as that engine has followed
// them.
type Replica[T any] struct {
	store   *ostiary.Store
	form    Form[T]
	current atomic.Pointer[At[T]] // nil before the first use
	// following holds one element while current is replaced.
	following chan struct{}
	// writing is locked by writes that are made alone, from their decision until they
	// are durable, and locked for reading by those that are made together.
	writing sync.RWMutex
	ahead   ahead[T]
}

// New returns the replica of a store. It reads nothing yet.
func New[T any](store *ostiary.Store, form Form[T]) *Replica[T] {
	return &Replica[T]{store: store, form: form, following: make(chan struct{}, 1)}
}

// Newest returns the value at the newest revision.
func (r *Replica[T]) Newest(ctx context.Context) (*At[T], error) {
	at, _, err := r.adopt(ctx)
	if at != nil || err != nil {
		return at, err
	}
	return r.follow(ctx)
}

// Wait returns the value at the newest revision when the store has reached the
// revision that c chooses. It fails as [ostiary.Store.Resolve] does.
func (r *Replica[T]) Wait(ctx context.Context, c ostiary.Consistency) (*At[T], error) {
	if _, err := r.store.Resolve(ctx, c); err != nil {
		return nil, err
	}
	return r.Newest(ctx)
}

// adopt returns the value of the newest revision, if it is known, otherwise nil. head
// is the token of that revision.
func (r *Replica[T]) adopt(ctx context.Context) (at *At[T], head ostiary.Token, err error) {
	if head, err = r.store.Head(ctx); err != nil {
		return nil, "", err
	}
	if at = r.current.Load(); at != nil && at.Token == head {
		return at, head, nil
	}
	return nil, head, nil
}

// follow brings the replica to the newest revision.
func (r *Replica[T]) follow(ctx context.Context) (*At[T], error) {
	turns.Pause(ctx) // the goroutine that follows may wait for a turn
	select {
	case r.following <- struct{}{}:
		defer func() { <-r.following }()
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: waiting for the documents of store %s: %w", ostiary.ErrCanceled, r.store.ID(), ctx.Err())
	}
	at, head, err := r.adopt(ctx)
	if at != nil || err != nil {
		return at, err
	}
	if at = r.ahead.get(head); at == nil {
		if at, err = r.read(ctx); err != nil {
			return nil, err
		}
	}
	revision, err := at.Token.Revision()
	if err != nil {
		return nil, err
	}
	r.current.Store(at)
	r.ahead.forget(revision)
	return at, nil
}

// read returns the value after the log behind the current one. It reads all documents
// if there is none, or if the log does not continue it: the log was trimmed, or an
// older state of the store was restored.
func (r *Replica[T]) read(ctx context.Context) (*At[T], error) {
	old := r.current.Load()
	if old == nil {
		return r.load(ctx)
	}
	at, err := r.replay(ctx, old)
	if errors.Is(err, ostiary.ErrTooOld) || errors.Is(err, ostiary.ErrToken) {
		return r.load(ctx)
	}
	return at, err
}

// pageMax is how many documents, or entries of the log, are applied at once.
const pageMax = 1000

// load reads all documents.
func (r *Replica[T]) load(ctx context.Context) (*At[T], error) {
	value := r.form.Empty()
	var page []storage.Change
	apply := func() (err error) {
		if len(page) > 0 {
			value, err = r.form.Apply(value, page)
			page = page[:0]
		}
		return err
	}
	token, err := r.store.Documents(ctx, r.form.Kinds, func(d ostiary.Document) error {
		page = append(page, storage.Change{Kind: storage.DocumentPut, Document: storage.Document{Kind: d.Kind, Key: d.Key, Secondary: d.Secondary, Body: d.Body}})
		if len(page) < pageMax {
			return nil
		}
		return apply()
	})
	if err == nil {
		err = apply()
	}
	if err != nil {
		return nil, err
	}
	return r.finish(ctx, value, token)
}

// replay applies the log behind old.
func (r *Replica[T]) replay(ctx context.Context, old *At[T]) (*At[T], error) {
	value, token, changed := old.Value, old.Token, false
	for more := true; more; {
		page, err := r.store.Changes(ctx, ostiary.ChangesRequest{After: token, Limit: pageMax})
		if err != nil {
			return nil, err
		}
		var changes []storage.Change
		for i := range page.Entries {
			changes = r.form.concerned(changes, page.Entries[i].Changes)
		}
		if len(changes) > 0 {
			if value, err = r.form.Apply(value, changes); err != nil {
				return nil, err
			}
			changed = true
		}
		// An entry that changes secrets only is not in the page.
		token, more = page.Next, page.More
	}
	if !changed {
		return &At[T]{value, token}, nil
	}
	return r.finish(ctx, value, token)
}

// concerned appends those of some changes that concern the documents of the form.
func (f *Form[T]) concerned(dst, changes []storage.Change) []storage.Change {
	for i := range changes {
		c := &changes[i]
		kind := c.Document.Kind
		switch c.Kind {
		case storage.DocumentPut, storage.DocumentRemove:
		case storage.RemoveByFilter:
			if kind = c.Filter.DocumentKind; c.Filter.Target != storage.FilterDocuments {
				continue
			}
		default:
			continue
		}
		if slices.Contains(f.Kinds, kind) {
			dst = append(dst, *c)
		}
	}
	return dst
}

// finish completes a value.
func (r *Replica[T]) finish(ctx context.Context, value T, token ostiary.Token) (_ *At[T], err error) {
	if r.form.Finish == nil {
		return &At[T]{value, token}, nil
	}
	previous := r.form.Empty()
	if old := r.current.Load(); old != nil {
		previous = old.Value
	}
	if value, err = r.form.Finish(ctx, previous, value); err != nil {
		return nil, err
	}
	return &At[T]{value, token}, nil
}
