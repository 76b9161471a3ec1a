package replica

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
)

// FindRequest implements [storage.Copy]: it reads the segments of the log.
func (r *Driver) FindRequest(ctx context.Context, request storage.RequestID, after uint64) (found storage.RequestTrace, err error) {
	if err := r.Confirm(ctx); err != nil {
		return found, err
	}
	last := r.AppliedSequence()
	if after >= last {
		return found, nil
	}
	next := after + 1
	for record, err := range r.log.Read(ctx, next) {
		if err != nil {
			return found, fmt.Errorf("find request %d of node %s: %w", request.Number, request.Node, err)
		}
		if record.Sequence != next {
			return found, fmt.Errorf("find request %d of node %s: %w: segment %d follows segment %d", request.Number, request.Node, storage.ErrDamaged, record.Sequence, next-1)
		}
		if err := r.trace(&found, record, request); err != nil {
			return found, err
		}
		if next++; next > last {
			break
		}
	}
	return found, nil
}

// trace adds what a segment has of a request.
func (r *Driver) trace(found *storage.RequestTrace, record sharedlog.Record, request storage.RequestID) error {
	s, err := sharedlog.Decode(record.Bytes)
	if err != nil {
		return err
	}
	for _, of := range s.Stores {
		for _, b := range of.Entries {
			e, err := storage.DecodeEntryHead(b)
			if err != nil {
				return err
			}
			if e.Origin.Request.Of(request) {
				head := storage.Head{Revision: e.Revision, Hash: sha256.Sum256(b), Time: e.Time}
				found.Entries = append(found.Entries, storage.RequestEntry{Store: of.Store, Request: e.Origin.Request, Head: head})
			}
		}
	}
	if c := s.Catalog; c != nil {
		r.traceCatalog(found, c, request)
	}
	return nil
}

// traceCatalog adds a change of the catalog that a request may have made.
func (r *Driver) traceCatalog(found *storage.RequestTrace, c *sharedlog.CatalogChange, request storage.RequestID) {
	switch c.Op {
	case sharedlog.CreateStore:
		if by, ok := request.Created(c.Store.Incarnation); ok {
			found.Created = append(found.Created, storage.RequestStore{Request: by, Info: c.Store})
		}
	case sharedlog.UpdateStore:
		found.Updated = append(found.Updated, c.Store.ID)
	case sharedlog.DeleteStore:
		found.Deleted = append(found.Deleted, r.deletions.find(c.Store))
	}
}

// deletionsMax is how many deleted stores a node remembers. They are those of the last
// moments, in which a request can be sent again.
const deletionsMax = 1024

// deletions are the stores that were deleted last, as they were. The log has only their
// ids.
type deletions struct {
	mu  sync.Mutex
	all []storage.StoreInfo // oldest first
}

// add remembers a store that is about to be deleted.
func (d *deletions) add(info storage.StoreInfo) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.all) == deletionsMax {
		d.all = append(d.all[:0], d.all[1:]...)
	}
	d.all = append(d.all, info)
}

// find returns a deleted store, as far as it is known.
func (d *deletions) find(store storage.StoreInfo) storage.DeletedStore {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := len(d.all) - 1; i >= 0; i-- {
		if info := d.all[i]; info.ID == store.ID && info.Incarnation == store.Incarnation {
			return storage.DeletedStore{Info: info, Known: true}
		}
	}
	return storage.DeletedStore{Info: store}
}
