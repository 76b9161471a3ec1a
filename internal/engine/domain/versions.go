package domain

import (
	"container/list"
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/tool/turns"
	"github.com/ostiary/ostiary/storage"
)

// Version is one version of a policy or of the root.
type Version struct {
	// Revision is the revision of the domain that made the version, and Time its
	// commit time.
	Revision storage.Revision
	Time     time.Time
	// Removed is true if the policy was removed at the revision. Source is empty
	// then.
	Removed bool
	// Source is the text.
	Source Source
}

// VersionsMax is the largest number of versions that [Domain.Versions] returns.
const VersionsMax = 1_000

// Versions returns the newest versions of a policy, at most limit, the newest
// first. name is "" for the root; a limit of 0 means [VersionsMax]. It reads the
// log of the store, so it omits versions whose entries were trimmed. It fails
// with [ErrNoPolicy] if the log has no version.
func (d *Domain) Versions(ctx context.Context, name string, limit int) ([]Version, error) {
	if limit <= 0 || limit > VersionsMax {
		limit = VersionsMax
	}
	var out []Version
	for v, err := range d.history(ctx, name) {
		if err != nil {
			return nil, err
		}
		if out = append(out, v); len(out) >= 2*limit {
			out = slices.Delete(out, 0, len(out)-limit)
		}
	}
	if len(out) == 0 {
		return nil, noPolicy(name)
	}
	slices.Reverse(out)
	return out[:min(limit, len(out))], nil
}

// Version returns the version of a policy that was in force at a revision. name
// is "" for the root. It fails with [ErrNoPolicy] if there was none.
func (d *Domain) Version(ctx context.Context, name string, at storage.Revision) (Version, error) {
	var found Version
	for v, err := range d.history(ctx, name) {
		if err != nil {
			return Version{}, err
		}
		if v.Revision > at {
			break
		}
		found = v
	}
	if found.Revision == 0 || found.Removed {
		return Version{}, fmt.Errorf("%w at revision %d", noPolicy(name), at)
	}
	return found, nil
}

// history yields the versions of a policy from the log, the oldest first.
func (d *Domain) history(ctx context.Context, name string) iter.Seq2[Version, error] {
	kind, key := policyKind, name
	if name == "" {
		kind, key = rootKind, rootKey
	}
	return func(yield func(Version, error) bool) {
		live := false
		for e, err := range d.entries(ctx, 0) {
			if err != nil {
				yield(Version{}, err)
				return
			}
			var last Version // of the entry, which may remove and put the policy
			for i := range e.Changes {
				v, ok, err := version(&e.Changes[i], kind, key)
				if err != nil {
					yield(Version{}, err)
					return
				}
				if ok {
					last = v
					last.Revision, last.Time = e.Revision, e.Time
				}
			}
			if last.Revision == 0 || last.Removed && !live {
				continue
			}
			if live = !last.Removed; !yield(last, nil) {
				return
			}
		}
	}
}

// version returns the version of a document that a change makes. ok is false if
// the change does not concern the document.
func version(c *storage.Change, kind, key string) (v Version, ok bool, err error) {
	switch c.Kind {
	case storage.DocumentPut:
		if ok = c.Document.Kind == kind && c.Document.Key == key; ok {
			v.Source, _, err = readSource(c.Document.Body)
		}
	case storage.DocumentRemove:
		v.Removed, ok = true, c.Document.Kind == kind && c.Document.Key == key
	case storage.RemoveByFilter:
		f := &c.Filter
		v.Removed = true
		ok = f.Target == storage.FilterDocuments && f.DocumentKind == kind && len(key) >= len(f.DocumentKeyPrefix) && key[:len(f.DocumentKeyPrefix)] == f.DocumentKeyPrefix
	}
	return v, ok, err
}

// entriesPage is how many entries of the log are read at once.
const entriesPage = 1_000

// entries yields the entries of the log after a revision.
func (d *Domain) entries(ctx context.Context, after storage.Revision) iter.Seq2[authz.ChangeEntry, error] {
	return func(yield func(authz.ChangeEntry, error) bool) {
		request := authz.ChangesRequest{AfterRevision: after, Limit: entriesPage}
		for more := true; more; {
			page, err := d.store.Changes(ctx, request)
			if err != nil {
				yield(authz.ChangeEntry{}, err)
				return
			}
			for _, e := range page.Entries {
				if !yield(e, nil) {
					return
				}
			}
			request, more = authz.ChangesRequest{After: page.Next, Limit: entriesPage}, page.More
		}
	}
}

// pastMax is the number of past revisions that a domain keeps compiled.
const pastMax = 4

// pastRevisions keeps the past revisions that were pinned last.
type pastRevisions struct {
	// making holds one element while a past revision is made.
	making chan struct{}
	mu     sync.Mutex
	order  list.List // of *atRevisionRevision, the last used first
}

// get returns the revision that a token names, or nil.
func (p *pastRevisions) get(token authz.Token) *atRevision {
	p.mu.Lock()
	defer p.mu.Unlock()
	for e := p.order.Front(); e != nil; e = e.Next() {
		if kept := e.Value.(*atRevision); kept.Token == token {
			p.order.MoveToFront(e)
			return kept
		}
	}
	return nil
}

// put adds a revision.
func (p *pastRevisions) put(made *atRevision) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.order.PushFront(made)
	for p.order.Len() > pastMax {
		p.order.Remove(p.order.Back())
	}
}

// pastAt returns a past revision. One goroutine at a time makes one, because that
// takes long and many requests may ask for the same one.
func (d *Domain) pastAt(ctx context.Context, n storage.Revision) (*atRevision, error) {
	token, err := d.store.Resolve(ctx, authz.AtRevision(n))
	if err != nil {
		return nil, err
	}
	if kept := d.past.get(token); kept != nil {
		return kept, nil
	}
	turns.Pause(ctx) // the goroutine that makes one may wait for a turn
	select {
	case d.past.making <- struct{}{}:
		defer func() { <-d.past.making }()
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: waiting for a past revision of the policies: %w", authz.ErrCanceled, ctx.Err())
	}
	if kept := d.past.get(token); kept != nil {
		return kept, nil
	}
	made, err := d.replica.Past(ctx, n)
	if err != nil {
		return nil, err
	}
	d.past.put(made)
	return made, nil
}
