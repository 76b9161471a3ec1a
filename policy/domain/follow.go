package domain

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/storage"
)

// entriesPage is how many entries of the log are read at once.
const entriesPage = 1_000

// load reads all policies of a store, and then the entries that were written
// since head, which is not newer than what the reads returned. The entries have
// whole documents, so the result is one revision even if the reads were not.
func (d *Domain) load(ctx context.Context, head ostiary.Token) (*revision, error) {
	var docs []ostiary.Document
	for i := range buckets {
		some, err := d.store.DocumentsBy(ctx, policyKind, bucketKey(i))
		if err != nil {
			return nil, err
		}
		docs = append(docs, some...)
	}
	r := &revision{token: head}
	var err error
	if r.policies, err = parseAll(ctx, docs); err != nil {
		return nil, err
	}
	for _, p := range r.policies {
		r.bytes += p.bytes
	}
	slices.SortFunc(r.policies, func(a, b *Stored) int { return strings.Compare(a.Name, b.Name) })
	root, err := d.store.Document(ctx, ostiary.DocumentKey{Kind: rootKind, Key: rootKey})
	if err == nil {
		var stored *Stored
		if stored, err = parseDocument(ctx, "", root.Body); err == nil {
			r.setRoot(stored)
		}
	}
	if err != nil && !errors.Is(err, ostiary.ErrNoDocument) {
		return nil, err
	}
	return d.follow(ctx, r, nil)
}

// parseAll parses the documents of policies on all processors.
func parseAll(ctx context.Context, docs []ostiary.Document) ([]*Stored, error) {
	out, errs := make([]*Stored, len(docs)), make([]error, len(docs))
	var next sync.WaitGroup
	workers := min(runtime.GOMAXPROCS(0), len(docs))
	for w := range workers {
		next.Go(func() {
			for i := w; i < len(docs); i += workers {
				out[i], errs[i] = parseDocument(ctx, docs[i].Key, docs[i].Body)
			}
		})
	}
	next.Wait()
	return out, errors.Join(errs...)
}

// parseDocument parses the document of a policy. name is "" for the root.
func parseDocument(ctx context.Context, name string, body []byte) (*Stored, error) {
	src, at, err := readSource(body)
	if err != nil {
		return nil, err
	}
	p, err := parseStored(ctx, name, src, at)
	if errors.Is(err, ostiary.ErrCanceled) {
		return nil, err
	}
	if err != nil {
		// The cause is text only: the request that reads the policy is not invalid.
		return nil, fmt.Errorf("%w: stored policy: %v", ostiary.ErrFormat, err)
	}
	return p, nil
}

// follow returns the revision after the entries of the log behind r, without a
// plan. If until is not nil, it stops before the first entry for which until is
// true. A revision whose policies did not change shares them with r.
func (d *Domain) follow(ctx context.Context, r *revision, until func(storage.Revision) bool) (*revision, error) {
	next := *r
	next.plan, next.broken = nil, nil
	copied := false
	apply := func(c *storage.Change) error {
		if !concerns(c) {
			return nil
		}
		if !copied {
			next.policies, copied = slices.Clone(next.policies), true
		}
		return next.apply(ctx, c)
	}
	for more := true; more; {
		page, err := d.store.Changes(ctx, ostiary.ChangesRequest{After: next.token, Limit: entriesPage})
		if err != nil {
			return nil, err
		}
		for _, e := range page.Entries {
			if until != nil && until(e.Revision) {
				return &next, nil
			}
			for i := range e.Changes {
				if err := apply(&e.Changes[i]); err != nil {
					return nil, err
				}
			}
			next.token, next.number = e.Token, e.Revision
		}
		next.token, more = page.Next, page.More
	}
	number, err := next.token.Revision()
	next.number = number
	return &next, err
}

// concerns reports whether a change may concern policies.
func concerns(c *storage.Change) bool {
	kind := c.Document.Kind
	if c.Kind == storage.RemoveByFilter {
		kind = c.Filter.DocumentKind
	}
	return kind == policyKind || kind == rootKind
}

// apply applies a change that concerns policies to a revision that is being made.
func (r *revision) apply(ctx context.Context, c *storage.Change) error {
	switch c.Kind {
	case storage.DocumentPut:
		name := c.Document.Key
		if c.Document.Kind == rootKind {
			name = ""
		}
		p, err := parseDocument(ctx, name, c.Document.Body)
		if err != nil {
			return err
		}
		if c.Document.Kind == rootKind {
			r.setRoot(p)
		} else {
			r.put(p)
		}
	case storage.DocumentRemove: // only a filter removes the root
		r.drop(c.Document.Key)
	case storage.RemoveByFilter:
		if c.Filter.DocumentKind == policyKind {
			r.dropPrefix(c.Filter.DocumentKeyPrefix)
		} else if strings.HasPrefix(rootKey, c.Filter.DocumentKeyPrefix) {
			r.setRoot(nil)
		}
	}
	return nil
}
