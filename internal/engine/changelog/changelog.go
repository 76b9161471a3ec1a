// Package changelog reads the log of a store for its users: [Read] returns a page of
// entries, [Head] one entry without its changes, and [Watch] follows the log. No
// function returns secrets, and none writes.
package changelog

import (
	"bytes"
	"context"
	"slices"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/errs"
	"github.com/ostiary/ostiary/internal/engine/snapshot"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// changesMax bounds the changes of a page, except for those of its last entry.
const changesMax = 100_000

// enough returns the number of changes with which the page of a request ends.
func enough(r *authz.ChangesRequest) int {
	if r.ChangesEnough <= 0 {
		return changesMax
	}
	return min(r.ChangesEnough, changesMax)
}

// Read returns a page of the log. It fails with ErrTooOld if the entries were
// trimmed, and with ErrNoStore if the store was deleted, even if another one has its
// id.
func Read(ctx context.Context, t *snapshot.Timeline, r authz.ChangesRequest) (authz.ChangePage, error) {
	page, err := read(ctx, t, &r)
	return page, errs.Wrap("changes", t.ID, err)
}

func read(ctx context.Context, t *snapshot.Timeline, r *authz.ChangesRequest) (page authz.ChangePage, err error) {
	if err := t.Err(); err != nil {
		return page, err
	}
	limit, err := errs.PageItems(&t.Runtime.Bounds, r.Limit)
	if err != nil {
		return page, err
	}
	after, err := start(ctx, t, r)
	if err != nil {
		return page, err
	}
	newest, err := t.Newest(ctx)
	if err != nil {
		return page, err
	}
	pages := pager{timeline: t, request: r, limit: limit, enough: enough(r), newest: newest.Head.Revision}
	if done, err := pages.kept(ctx, after+1); err != nil || done {
		return pages.page, err
	}
	if len(pages.page.Entries) > 0 {
		after++
	}
	return pages.read(ctx, after)
}

// pager collects a page of the log.
type pager struct {
	timeline *snapshot.Timeline
	request  *authz.ChangesRequest
	limit    int              // entries
	enough   int              // changes
	newest   storage.Revision // the newest one when the request came

	page    authz.ChangePage
	changes int // in page
}

// kept adds the entry of a revision if it is large and was read before. A client that
// reads the changes of such an entry in pages asks for it with each page, and decoding
// it takes long. done is true if the page ends with it.
func (p *pager) kept(ctx context.Context, r storage.Revision) (done bool, err error) {
	t := p.timeline
	e := t.Large(r, p.request.Types)
	if e == nil {
		return false, nil
	}
	if err := t.ConfirmStore(ctx); err != nil {
		return false, err
	}
	oldest, _, err := t.Runtime.Driver.Oldest(ctx, t.ID)
	if err != nil || r < oldest {
		return false, err // reading the log fails with the right error
	}
	p.add(authz.ChangeEntry{Revision: r, Time: e.Time.Time(), Origin: e.Origin, Token: t.Token(e.Head), Changes: e.Changes})
	p.page.More = p.full() && r < p.newest
	return p.page.More, nil
}

// read adds the entries that follow a revision until the page is full.
func (p *pager) read(ctx context.Context, after storage.Revision) (page authz.ChangePage, err error) {
	t := p.timeline
	for e, err := range t.Runtime.Driver.Entries(ctx, t.ID, after+1) {
		if err != nil {
			return p.page, err
		}
		if e.Incarnation != t.Incarnation {
			return authz.ChangePage{}, snapshot.ErrIncarnation
		}
		if p.full() {
			p.page.More = true
			break
		}
		head := storage.Head{Revision: e.Revision, Hash: e.Hash()}
		entry := visible(t, &e, head, p.request.Types)
		t.KeepLarge(snapshot.LargeEntry{Head: head, Time: e.Time, Origin: e.Origin, Types: p.request.Types, Changes: entry.Changes})
		p.add(entry)
		if e.Revision < p.newest && p.full() {
			p.page.More = true // known without the next entry, which may be large
			break
		}
	}
	if p.page.Next == "" {
		p.page.Next, err = t.TokenAt(ctx, after)
	}
	return p.page, err
}

// add adds an entry. One without selected changes only moves the position.
func (p *pager) add(e authz.ChangeEntry) {
	p.page.Next = e.Token
	if len(e.Changes) > 0 {
		p.page.Entries = append(p.page.Entries, e)
		p.changes += len(e.Changes)
	}
}

// full reports whether the page has the entries or the changes that end it.
func (p *pager) full() bool { return len(p.page.Entries) >= p.limit || p.changes >= p.enough }

// Head returns the entry that led to the revision of a token, without its changes,
// however many it has. At the revision of an empty store it returns an authz.ChangeEntry with
// only the token. It fails with ErrTooOld if the entry was trimmed.
func Head(ctx context.Context, t *snapshot.Timeline, token authz.Token) (authz.ChangeEntry, error) {
	e, err := head(ctx, t, token)
	return e, errs.Wrap("entry", t.ID, err)
}

func head(ctx context.Context, t *snapshot.Timeline, token authz.Token) (authz.ChangeEntry, error) {
	p, err := authz.ReadToken(token)
	if err == nil {
		_, err = t.Confirm(ctx, p)
	}
	if err != nil || p.Revision == 0 {
		return authz.ChangeEntry{Token: token}, err
	}
	e, err := t.Runtime.Driver.EntryHead(ctx, t.ID, p.Revision)
	if err = t.ConfirmRead(ctx, err); err != nil {
		return authz.ChangeEntry{}, err
	}
	return authz.ChangeEntry{Revision: e.Revision, Time: e.Time.Time(), Origin: e.Origin, Token: token}, nil
}

// start returns the revision that the entries of a request follow.
func start(ctx context.Context, t *snapshot.Timeline, r *authz.ChangesRequest) (storage.Revision, error) {
	if r.After != "" {
		p, err := authz.ReadToken(r.After)
		if err != nil {
			return 0, err
		}
		_, err = t.Confirm(ctx, p)
		return p.Revision, err
	}
	if r.AfterRevision > 0 {
		if _, err := t.Await(ctx, r.AfterRevision); err != nil {
			return 0, err
		}
	}
	if r.Since.IsZero() {
		return r.AfterRevision, nil
	}
	// Since is inclusive: the entries follow the newest revision before it.
	before, err := t.RevisionAt(ctx, rel.TimeOf(r.Since)-1)
	return max(before, r.AfterRevision), err
}

// visible returns a copy of an entry with the selected changes and without
// secrets.
func visible(t *snapshot.Timeline, e *storage.Entry, head storage.Head, types []string) authz.ChangeEntry {
	return authz.ChangeEntry{Revision: e.Revision, Time: e.Time.Time(), Origin: e.Origin, Token: t.Token(head), Changes: visibleChanges(e, types)}
}

// visibleChanges returns copies of the selected changes, without secrets.
func visibleChanges(e *storage.Entry, types []string) []storage.Change {
	n := 0
	for i := range e.Changes {
		if selects(&e.Changes[i], types) {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	out := make([]storage.Change, 0, n)
	for i := range e.Changes {
		if !selects(&e.Changes[i], types) {
			continue
		}
		c := e.Changes[i]
		c.Fresh = false
		c.Document.Body = bytes.Clone(c.Document.Body)
		out = append(out, c)
	}
	return out
}

// selects reports whether a change is visible to a request with these types.
func selects(c *storage.Change, types []string) bool {
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
