package snapshot

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/storage"
)

// markOf returns the part of an entry's hash that tokens contain.
func markOf(h storage.Hash) uint64 { return binary.BigEndian.Uint64(h[:8]) }

// TokenParts returns the content of the token of a head.
func (t *Timeline) TokenParts(h storage.Head) authz.TokenParts {
	return authz.TokenParts{Incarnation: t.Incarnation, Revision: h.Revision, Mark: markOf(h.Hash)}
}

// Token returns the token of a head.
func (t *Timeline) Token(h storage.Head) authz.Token { return t.TokenParts(h).Token() }

// headToken is the token of a head.
type headToken struct {
	head  storage.Head
	token authz.Token
}

// TokenAt returns the token of a revision that the store has. The token of the
// newest revision is cached.
func (t *Timeline) TokenAt(ctx context.Context, r storage.Revision) (authz.Token, error) {
	v, err := t.Current(ctx)
	if err != nil {
		return "", err
	}
	if r == v.Head.Revision {
		known := t.headToken.Load()
		if known == nil || known.head != v.Head {
			known = &headToken{v.Head, t.Token(v.Head)}
			t.headToken.Store(known)
		}
		return known.token, nil
	}
	m, err := t.mark(ctx, v, r)
	return authz.TokenParts{Incarnation: t.Incarnation, Revision: r, Mark: m}.Token(), err
}

// markRing caches the marks of the newest revisions, and of some older ones, so
// that most tokens are confirmed without reading the log. See [markOf].
type markRing struct {
	mu    sync.RWMutex
	first storage.Revision // of marks[0]
	marks []uint64         // of successive revisions
	older map[storage.Revision]uint64
}

// marksMax bounds older, and is half of the bound of marks.
const marksMax = 4096

func (r *markRing) put(h storage.Head) {
	r.mu.Lock()
	defer r.mu.Unlock()
	mark, next := markOf(h.Hash), r.first+storage.Revision(len(r.marks))
	switch {
	case h.Revision == next && len(r.marks) > 0:
	case h.Revision >= next: // the first one, or one after a gap
		r.first, r.marks = h.Revision, r.marks[:0]
	default:
		r.putOlder(h.Revision, mark)
		return
	}
	if len(r.marks) == 2*marksMax {
		copy(r.marks, r.marks[marksMax:])
		r.first, r.marks = r.first+marksMax, r.marks[:marksMax]
	}
	r.marks = append(r.marks, mark)
}

// putOlder stores the mark of a revision that is not the newest; mu is held.
func (r *markRing) putOlder(rev storage.Revision, mark uint64) {
	if rev >= r.first {
		r.marks[rev-r.first] = mark
		return
	}
	if r.older == nil || len(r.older) >= marksMax {
		r.older = map[storage.Revision]uint64{}
	}
	r.older[rev] = mark
}

func (r *markRing) get(rev storage.Revision) (uint64, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if rev >= r.first && rev-r.first < storage.Revision(len(r.marks)) {
		return r.marks[rev-r.first], true
	}
	m, ok := r.older[rev]
	return m, ok
}

// has reports whether the history in memory is known to contain h.
func (r *markRing) has(h storage.Head) bool {
	mark, ok := r.get(h.Revision)
	return ok && mark == markOf(h.Hash)
}

func (r *markRing) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.first, r.marks, r.older = 0, nil, nil
}

// mark returns the mark of a revision that is not later than v.
func (t *Timeline) mark(ctx context.Context, v *View, r storage.Revision) (uint64, error) {
	switch {
	case r == 0:
		return 0, nil
	case r == v.Head.Revision:
		return markOf(v.Head.Hash), nil
	}
	if m, ok := t.marks.get(r); ok {
		return m, nil
	}
	return t.markFromLog(ctx, r)
}

// markFromLog reads a mark from the log and caches it. The entry after r
// contains the hash of r.
func (t *Timeline) markFromLog(ctx context.Context, r storage.Revision) (uint64, error) {
	for e, err := range t.Runtime.Driver.Entries(ctx, t.ID, r+1) {
		if err != nil {
			return 0, err
		}
		if e.Incarnation != t.Incarnation {
			return 0, ErrIncarnation
		}
		t.marks.put(storage.Head{Revision: r, Hash: e.Previous})
		return markOf(e.Previous), nil
	}
	return 0, fmt.Errorf("%w: the log ends before revision %d", authz.ErrToken, r+1)
}
