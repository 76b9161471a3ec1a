package ostiary

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// ChangesRequest asks for a part of a store's log.
type ChangesRequest struct {
	// After is a token that the entries follow; "" is the log's beginning, or what
	// AfterRevision and Since say.
	After Token
	// AfterRevision, if After is "", is the revision that the entries follow. One
	// that the store has not reached is waited for, as AtRevision does.
	AfterRevision storage.Revision
	// Since, if After is "", leaves out the entries before that time.
	Since time.Time
	// Limit is the most entries wanted; 0 is 100. A page may have fewer and still
	// go on.
	Limit int
	// Types, if not empty, selects the changes of objects of these types. Removals
	// by filter are kept where they could touch them; documents are left out.
	Types []string
}

// ChangeEntry is an entry of the log, without secrets.
type ChangeEntry struct {
	Revision storage.Revision
	Time     time.Time
	// Token is the entry's own: what comes after it is After(Token).
	Token   Token
	Changes []storage.Change
}

// ChangePage is a page of the log, in order of revision.
type ChangePage struct {
	Entries []ChangeEntry
	// Next is the After of the next page, whether or not there is anything yet.
	Next Token
	// More says that the log went on when the page was read.
	More bool
}

// changesMax bounds the changes of a page, but for those of its last entry.
const changesMax = 100_000

// Changes reads the log from any revision or time that it still has; below, it
// is ErrTooOld.
func (s *Store) Changes(ctx context.Context, r ChangesRequest) (ChangePage, error) {
	page, err := s.changes(ctx, r)
	return page, failed("changes", s.id, err)
}

func (s *Store) changes(ctx context.Context, r ChangesRequest) (page ChangePage, err error) {
	limit, err := s.pageLimit(r.Limit)
	if err != nil {
		return page, err
	}
	after, err := s.changesAfter(ctx, &r)
	if err != nil {
		return page, err
	}
	walk := logWalk{s: s, after: after}
	if r.After != "" || after == 0 {
		page.Next = r.After
	}
	n := 0
	for e, err := range walk.entries(ctx) {
		if err != nil {
			return page, err
		}
		if len(page.Entries) >= limit || n >= changesMax {
			page.More = true
			break
		}
		page.Next = s.tokenAt(walk.head)
		if entry := s.visible(e, walk.head, r.Types); len(entry.Changes) > 0 {
			page.Entries = append(page.Entries, entry)
			n += len(entry.Changes)
		}
	}
	if page.Next == "" {
		page.Next, err = s.tokenFor(ctx, after)
	}
	return page, err
}

// TokenAt returns the token of a revision that the store has, such as an
// answer's.
func (s *Store) TokenAt(ctx context.Context, r storage.Revision) (Token, error) {
	t, err := s.tokenFor(ctx, r)
	return t, failed("token", s.id, err)
}

// toldToken is a head's token, kept for the next who wants it.
type toldToken struct {
	head  storage.Head
	token Token
}

// tokenFor returns the token of a revision that the store has.
func (s *Store) tokenFor(ctx context.Context, r storage.Revision) (Token, error) {
	v, err := s.view(ctx)
	if err != nil {
		return "", err
	}
	if r == v.head.Revision {
		t := s.told.Load()
		if t == nil || t.head != v.head {
			t = &toldToken{v.head, s.tokenAt(v.head)}
			s.told.Store(t)
		}
		return t.token, nil
	}
	m, err := s.mark(ctx, v, r)
	return tokenParts{s.incarnation, r, m}.text(), err
}

// changesAfter finds the revision that a request's entries follow.
func (s *Store) changesAfter(ctx context.Context, r *ChangesRequest) (storage.Revision, error) {
	if r.After != "" {
		p, err := readToken(r.After)
		if err != nil {
			return 0, err
		}
		_, err = s.confirm(ctx, p)
		return p.revision, err
	}
	if r.AfterRevision > 0 {
		if _, err := s.await(ctx, r.AfterRevision); err != nil {
			return 0, err
		}
	}
	if r.Since.IsZero() {
		return r.AfterRevision, nil
	}
	// The newest revision before that time; one of exactly that time is wanted.
	before, err := s.revisionAt(ctx, rel.TimeOf(r.Since)-1)
	return max(before, r.AfterRevision), err
}

// logWalk reads entries with their heads.
type logWalk struct {
	s     *Store
	after storage.Revision
	head  storage.Head // of the entry that was yielded last
}

func (w *logWalk) entries(ctx context.Context) func(yield func(*storage.Entry, error) bool) {
	return func(yield func(*storage.Entry, error) bool) {
		for e, err := range w.s.engine.driver.Entries(ctx, w.s.id, w.after+1) {
			if err != nil {
				yield(nil, err)
				return
			}
			w.head = storage.Head{Revision: e.Revision, Hash: e.Hash(), Time: e.Time}
			if !yield(&e, nil) {
				return
			}
		}
	}
}

// visible is an entry as callers may see it: a copy without secrets.
func (s *Store) visible(e *storage.Entry, head storage.Head, types []string) ChangeEntry {
	out := ChangeEntry{Revision: e.Revision, Time: e.Time.Time(), Token: s.tokenAt(head)}
	for i := range e.Changes {
		c := e.Changes[i]
		if !shows(&c, types) {
			continue
		}
		c.Fresh = false
		c.Document.Body = bytes.Clone(c.Document.Body)
		out.Changes = append(out.Changes, c)
	}
	return out
}

func shows(c *storage.Change, types []string) bool {
	typ := ""
	switch c.Kind {
	case storage.SecretPut, storage.SecretRemove:
		return false
	case storage.TupleAdd, storage.TupleRemove:
		typ = c.Tuple.Object.Type
	case storage.AttributeSet, storage.AttributeRemove:
		typ = c.Attribute.Object.Type
	case storage.RemoveByFilter:
		typ = c.Filter.ObjectType
		if c.Filter.Target == storage.FilterTuples {
			typ = c.Filter.Tuple.ObjectType
		}
		if typ == "" && c.Filter.Target != storage.FilterDocuments {
			return true
		}
	}
	return len(types) == 0 || slices.Contains(types, typ)
}
