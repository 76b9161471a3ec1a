package replica

import (
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/sharedlog"
)

// FindRequest implements [storage.RequestFinder]: it reads the segments of the log.
func (r *Driver) FindRequest(ctx context.Context, request storage.RequestID, after uint64) (found []storage.RequestEntry, err error) {
	if err := r.Confirm(ctx); err != nil {
		return nil, err
	}
	last := r.AppliedSequence()
	if after >= last {
		return nil, nil
	}
	next := after + 1
	for record, err := range r.log.Read(ctx, shard, next) {
		if err != nil {
			return nil, fmt.Errorf("find request %d of node %s: %w", request.Number, request.Node, err)
		}
		if record.Sequence != next {
			return nil, fmt.Errorf("find request %d of node %s: %w: segment %d follows segment %d", request.Number, request.Node, storage.ErrDamaged, record.Sequence, next-1)
		}
		if found, err = appendRequest(found, record, request); err != nil {
			return nil, err
		}
		if next++; next > last {
			break
		}
	}
	return found, nil
}

// appendRequest appends the entries of a segment that belong to a request.
func appendRequest(found []storage.RequestEntry, record sharedlog.Record, request storage.RequestID) ([]storage.RequestEntry, error) {
	s, err := sharedlog.Decode(record.Bytes)
	if err != nil {
		return nil, err
	}
	for _, of := range s.Stores {
		for _, b := range of.Entries {
			e, err := storage.DecodeEntryHead(b)
			if err != nil {
				return nil, err
			}
			if e.Origin.Request.Of(request) {
				head := storage.Head{Revision: e.Revision, Hash: sha256.Sum256(b), Time: e.Time}
				found = append(found, storage.RequestEntry{Store: of.Store, Request: e.Origin.Request, Head: head})
			}
		}
	}
	return found, nil
}
