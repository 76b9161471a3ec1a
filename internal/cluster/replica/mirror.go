package replica

import (
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
)

// This file copies what a log has more than another one.

// Mirror appends to a log what another one of the same cluster has more, with the secrets. It
// returns the last segment of both. progress is called with its sequence. It fails with
// [storage.ErrHistory] if to has a segment that from does not have.
func Mirror(ctx context.Context, from, to sharedlog.Log, progress func(sequence uint64)) (sharedlog.Position, error) {
	at, err := to.Head(ctx)
	if err != nil {
		return at, err
	}
	for v, err := range sharedlog.Segments(ctx, from, at, 0) {
		if err != nil {
			return at, err
		}
		secrets, err := segmentSecrets(ctx, from, &v.Segment)
		if err != nil {
			return at, err
		}
		record, err := v.Segment.Record()
		if err != nil {
			return at, err
		}
		if record.Position != v.Position {
			return at, fmt.Errorf("%w: segment %s has hash %s when it is written again", storage.ErrFormat, v.Position, record.Hash)
		}
		if err := sharedlog.Commit(ctx, to, at, record, secrets); err != nil {
			return at, err
		}
		at = v.Position
		progress(at.Sequence)
	}
	return at, nil
}

// segmentSecrets returns what a segment does to secrets. A secret that was replaced or
// removed by a later segment is left out, because the log has it no longer.
func segmentSecrets(ctx context.Context, from sharedlog.Log, s *sharedlog.Segment) (all []sharedlog.SecretChange, err error) {
	if c := s.Catalog; c != nil && c.Op == sharedlog.DeleteStore {
		return []sharedlog.SecretChange{{SecretKey: sharedlog.SecretKey{Store: c.Store.ID, Incarnation: c.Store.Incarnation}, Removed: true}}, nil
	}
	for i := range s.Stores {
		of := &s.Stores[i]
		decoded, err := decode(ctx, from, of, nil)
		if err != nil {
			return nil, err
		}
		for _, e := range decoded.entries {
			kept := e
			kept.Changes = nil
			for _, c := range e.Changes {
				if c.Kind != storage.SecretPut || sha256.Sum256(c.Document.Body) == c.Document.Digest {
					kept.Changes = append(kept.Changes, c)
				}
			}
			all = appendSecrets(all, sharedlog.SecretKey{Store: of.Store, Incarnation: of.Incarnation}, []storage.Entry{kept})
		}
	}
	return all, nil
}
