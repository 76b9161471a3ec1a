package identity

import (
	"context"
	"errors"
	"sync"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/internal/turns"
	"github.com/ostiary/ostiary/storage"
)

// ahead holds directories after writes that were accepted, but may not be durable
// yet, by the token of their revision. Only writes are decided on them. A directory
// of a write that fails is never used again, because no revision gets its token.
type ahead struct {
	mu          sync.Mutex
	directories map[ostiary.Token]*directory
}

func (a *ahead) get(head ostiary.Token) *directory {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.directories[head]
}

func (a *ahead) add(d *directory) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.directories == nil {
		a.directories = map[ostiary.Token]*directory{}
	}
	a.directories[d.token] = d
}

// forget drops the directories of a revision and of older ones.
func (a *ahead) forget(r ostiary.Revision) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for head := range a.directories {
		if at, err := head.Revision(); err != nil || at <= r {
			delete(a.directories, head)
		}
	}
}

// errBehind is the error of a write that another writer of the store preceded.
var errBehind = errors.New("the directory lacks a write of another writer")

// together is like write for a change that needs nothing but the directory to be
// decided: prepare must not read the store. Concurrent writes are decided one after
// another, each on the directory that the ones before it lead to, and then become
// durable together. A write fails if one that it was decided on does not become
// durable.
func (s *Service) together(ctx context.Context, prepare func(*directory) (ostiary.WriteRequest, error)) (*directory, error) {
	for range attemptsMax {
		d, refusedOn, err := s.tryTogether(ctx, prepare)
		switch {
		case errors.Is(err, errBehind):
			return s.write(ctx, prepare)
		case refusedOn == nil || s.durable(ctx, refusedOn):
			return d, err
		}
		// The write was refused because of one that did not become durable.
	}
	return nil, failf(Conflict, "writes before this one failed %d times in a row", attemptsMax)
}

// tryTogether makes a write once, and returns the directory with the change. If
// prepare refuses the write, refusedOn is the directory that it was called with.
func (s *Service) tryTogether(ctx context.Context, prepare func(*directory) (ostiary.WriteRequest, error)) (after, refusedOn *directory, err error) {
	turns.Pause(ctx)
	s.writing.RLock()
	defer s.writing.RUnlock()
	if _, err := s.at(ctx); err != nil {
		return nil, nil, err
	}
	var w ostiary.WriteRequest
	var before *directory
	_, err = s.store.Update(ctx, ostiary.Update{
		Build: func(head ostiary.Token) (_ ostiary.WriteRequest, err error) {
			refusedOn = nil
			if before = s.known(head); before == nil {
				return w, errBehind
			}
			if w, err = s.decide(ctx, before, prepare); err != nil {
				refusedOn = before
			}
			return w, err
		},
		Accepted: func(head ostiary.Token) {
			if after = before; head != before.token {
				after = before.with(&w, head)
				s.ahead.add(after)
			}
		},
	})
	if err != nil {
		return nil, refusedOn, err
	}
	return after, nil, nil
}

// known returns the directory of a revision that may not be durable yet, or nil.
func (s *Service) known(head ostiary.Token) *directory {
	if d := s.ahead.get(head); d != nil {
		return d
	}
	if d := s.current.Load(); d.token == head {
		return d
	}
	return nil
}

// durable returns whether the revision of a directory is one of the store.
func (s *Service) durable(ctx context.Context, d *directory) bool {
	if d == s.current.Load() {
		return true
	}
	r, err := d.token.Revision()
	if err != nil {
		return false
	}
	head, err := s.store.TokenAt(ctx, r)
	return err == nil && head == d.token
}

// with returns the directory after the documents of a write, at a token.
func (d *directory) with(w *ostiary.WriteRequest, head ostiary.Token) *directory {
	next := d.edit()
	next.token = head
	for _, k := range w.RemoveDocuments {
		next.remove(storage.Document{Kind: k.Kind, Key: k.Key})
	}
	for _, x := range w.Documents {
		// The service has made the document, so it can be read.
		_ = next.put(storage.Document{Kind: x.Kind, Key: x.Key, Body: x.Body})
	}
	return next
}

// adopt makes the directory of the newest revision the current one, if a write has
// left it, and returns it; otherwise nil. The caller holds following.
func (s *Service) adopt(ctx context.Context) (*directory, error) {
	d, head, err := s.newest(ctx)
	if d != nil || err != nil {
		return d, err
	}
	if d = s.ahead.get(head); d == nil {
		return nil, nil
	}
	s.current.Store(d)
	r, err := head.Revision()
	s.ahead.forget(r)
	return d, err
}
