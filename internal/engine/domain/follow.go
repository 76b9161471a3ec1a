package domain

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/documents"
	"github.com/ostiary/ostiary/storage"
)

// atRevision is a collection at one revision of its store.
type atRevision = documents.At[*collection]

// form describes how the documents of a domain become a collection.
func (d *Domain) form() documents.Form[*collection] {
	return documents.Form[*collection]{
		Kinds:  []string{policyKind, rootKind},
		Empty:  func() *collection { return &collection{} },
		Apply:  follow,
		Finish: d.finish,
	}
}

// follow returns the collection after changes of documents, without a plan.
func follow(ctx context.Context, old *collection, changes []storage.Change) (*collection, error) {
	parsed, err := parseAll(ctx, changes)
	if err != nil {
		return nil, err
	}
	next := old.draft()
	for i := range changes {
		next.apply(&changes[i], parsed[i])
	}
	return next, nil
}

// parseAll parses the policies that changes put, on all processors. The policy of
// another change is nil.
func parseAll(ctx context.Context, changes []storage.Change) ([]*Stored, error) {
	out, errs := make([]*Stored, len(changes)), make([]error, len(changes))
	var all sync.WaitGroup
	workers := min(runtime.GOMAXPROCS(0), len(changes))
	for worker := range workers {
		all.Go(func() {
			for i := worker; i < len(changes); i += workers {
				if c := &changes[i]; c.Kind == storage.DocumentPut {
					out[i], errs[i] = parseDocument(ctx, policyName(&c.Document), c.Document.Body)
				}
			}
		})
	}
	all.Wait()
	return out, errors.Join(errs...)
}

// policyName returns the name of the policy that a document contains. It is "" for
// the root.
func policyName(d *storage.Document) string {
	if d.Kind == rootKind {
		return ""
	}
	return d.Key
}

// apply applies one change to a collection that is being made. p is the policy that it
// puts.
func (c *collection) apply(change *storage.Change, p *Stored) {
	kind := change.Document.Kind
	switch change.Kind {
	case storage.DocumentPut:
		if kind == rootKind {
			c.setRoot(p)
		} else {
			c.put(p)
		}
	case storage.DocumentRemove:
		if kind == rootKind {
			c.setRoot(nil)
		} else {
			c.drop(change.Document.Key)
		}
	case storage.RemoveByFilter:
		prefix := change.Filter.DocumentKeyPrefix
		if change.Filter.DocumentKind == policyKind {
			c.dropPrefix(prefix)
		} else if strings.HasPrefix(rootKey, prefix) {
			c.setRoot(nil)
		}
	}
}

// finish compiles a collection that [follow] has made. It shares with previous what
// did not change. Stored policies that do not compile are no error: they are broken.
func (d *Domain) finish(ctx context.Context, previous, next *collection) (*collection, error) {
	if next.share(previous) {
		next.plan, next.broken = previous.plan, previous.broken
		return next, nil
	}
	if next.broken = d.compile(ctx, next, previous); errors.Is(next.broken, authz.ErrCanceled) {
		return nil, next.broken
	}
	return next, nil
}
