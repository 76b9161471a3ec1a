// Package documents keeps the documents of some kinds of one store in memory, as a
// value that the caller makes of them: a [Replica] reads them once, follows the log
// of the store, and changes them. The values never change, so a reader needs no lock.
// [System] does so in the system store of an engine, which holds what the program itself
// keeps: keys of callers, and keys of tokens.
// The package does not know what a document contains.
package documents

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/tool/turns"
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
	Apply func(ctx context.Context, old T, changes []storage.Change) (T, error)
	// Finish completes a value that Apply returned before readers get it. previous is
	// the newest value that readers have got, or Empty. The context of a newest value
	// does not end with the request that reads it, because all requests use the value.
	// Nil completes nothing.
	Finish func(ctx context.Context, previous, next T) (T, error)
}

// At is a value at one revision of the store.
type At[T any] struct {
	// Value is the value. Readers must not change it.
	Value T
	// Revision is the revision, and Token names it.
	Revision storage.Revision
	Token    authz.Token
}

// newAt returns the value at the revision that a token names.
func newAt[T any](value T, token authz.Token) (*At[T], error) {
	revision, err := token.Revision()
	return &At[T]{value, revision, token}, err
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
	// entering holds one element while a write is made alone, and while one that is
	// made together with others begins.
	entering chan struct{}
	// together counts the writes that are made together and are not finished.
	together sync.WaitGroup
	ahead    ahead[T]
}

// New returns the replica of a store. It reads nothing yet.
func New[T any](store *ostiary.Store, form Form[T]) *Replica[T] {
	return &Replica[T]{store: store, form: form, following: make(chan struct{}, 1), entering: make(chan struct{}, 1)}
}

// Newest returns the value at the newest revision.
func (r *Replica[T]) Newest(ctx context.Context) (*At[T], error) {
	at, _, err := r.adopt(ctx)
	if at != nil || err != nil {
		return at, err
	}
	return r.follow(ctx)
}

// Loaded returns the value that a read returned last, without a look at the store. It
// is nil before the first read.
func (r *Replica[T]) Loaded() *At[T] { return r.current.Load() }

// Wait returns the value at the newest revision when the store has reached the
// revision that c chooses. It fails as [ostiary.Store.Resolve] does.
func (r *Replica[T]) Wait(ctx context.Context, c authz.Consistency) (*At[T], error) {
	if _, err := r.store.Resolve(ctx, c); err != nil {
		return nil, err
	}
	return r.Newest(ctx)
}

// adopt returns the value of the newest revision, if it is known, otherwise nil. head
// is the token of that revision.
func (r *Replica[T]) adopt(ctx context.Context) (at *At[T], head authz.Token, err error) {
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
	if err := r.enter(ctx, r.following, "the documents"); err != nil {
		return nil, err
	}
	defer func() { <-r.following }()
	at, head, err := r.adopt(ctx)
	if at != nil || err != nil {
		return at, err
	}
	if at = r.ahead.get(head); at == nil {
		if at, err = r.read(ctx); err != nil {
			return nil, err
		}
	}
	r.current.Store(at)
	r.ahead.forget(at.Revision)
	return at, nil
}

// enter waits until a channel takes an element, and fails if ctx has ended. what names
// what its owner makes.
func (r *Replica[T]) enter(ctx context.Context, door chan struct{}, what string) error {
	turns.Pause(ctx) // the owner may wait for a turn
	select {
	case door <- struct{}{}:
		if ctx.Err() == nil {
			return nil
		}
		<-door
	case <-ctx.Done():
	}
	return fmt.Errorf("%w: waiting for %s of store %s: %w", authz.ErrCanceled, what, r.store.ID(), ctx.Err())
}

// read returns the value after the log behind the current one. It reads all documents
// if there is none, or if the log was trimmed above it. If the log does not continue
// it, the engine has failed with ErrHistory before.
func (r *Replica[T]) read(ctx context.Context) (*At[T], error) {
	old := r.current.Load()
	if old == nil {
		return r.load(ctx)
	}
	at, err := r.replay(ctx, old)
	if errors.Is(err, authz.ErrTooOld) {
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
			value, err = r.form.Apply(ctx, value, page)
			page = page[:0]
		}
		return err
	}
	token, err := r.store.Documents(ctx, r.form.Kinds, func(d authz.Document) error {
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

// replay returns the newest value after the log behind old.
func (r *Replica[T]) replay(ctx context.Context, old *At[T]) (*At[T], error) {
	value, token, changed, err := r.apply(ctx, old, math.MaxInt64)
	if err != nil {
		return nil, err
	}
	if !changed {
		return newAt(value, token)
	}
	return r.finish(ctx, value, token)
}

// apply applies the log behind old up to a revision. It returns the token behind what
// it read, and whether any of it concerns the documents.
func (r *Replica[T]) apply(ctx context.Context, old *At[T], until storage.Revision) (value T, token authz.Token, changed bool, err error) {
	value, token = old.Value, old.Token
	for more := true; more; {
		page, err := r.store.Changes(ctx, authz.ChangesRequest{After: token, Limit: pageMax})
		if err != nil {
			return value, "", false, err
		}
		// An entry that changes secrets only is not in the page.
		token, more = page.Next, page.More
		var changes []storage.Change
		for i := range page.Entries {
			if page.Entries[i].Revision > until {
				more = false
				break
			}
			changes = r.form.concerned(changes, page.Entries[i].Changes)
		}
		if len(changes) == 0 {
			continue
		}
		if value, err = r.form.Apply(ctx, value, changes); err != nil {
			return value, "", false, err
		}
		changed = true
	}
	return value, token, changed, nil
}

// Past returns the value at a revision of the store. It makes a past value from the
// log, which it reads from the beginning, and keeps none: a caller who asks again may
// keep it. It fails as [ostiary.Store.Resolve] does, and with [authz.ErrTooOld] if
// the log was trimmed.
func (r *Replica[T]) Past(ctx context.Context, revision storage.Revision) (*At[T], error) {
	newest, err := r.Newest(ctx)
	if err != nil || newest.Revision == revision {
		return newest, err
	}
	token, err := r.store.Resolve(ctx, authz.AtRevision(revision))
	if err != nil {
		return nil, err
	}
	start, err := r.store.TokenAt(ctx, 0)
	if err != nil {
		return nil, err
	}
	value, _, _, err := r.apply(ctx, &At[T]{Value: r.form.Empty(), Token: start}, revision)
	if err == nil && r.form.Finish != nil {
		value, err = r.form.Finish(ctx, newest.Value, value)
	}
	if err != nil {
		return nil, err
	}
	return &At[T]{value, revision, token}, nil
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

// finish completes a newest value.
func (r *Replica[T]) finish(ctx context.Context, value T, token authz.Token) (_ *At[T], err error) {
	if r.form.Finish == nil {
		return newAt(value, token)
	}
	previous := r.form.Empty()
	if old := r.current.Load(); old != nil {
		previous = old.Value
	}
	if value, err = r.form.Finish(context.WithoutCancel(ctx), previous, value); err != nil {
		return nil, err
	}
	return newAt(value, token)
}
