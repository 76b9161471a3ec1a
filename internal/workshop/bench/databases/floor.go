package databases

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
	"github.com/ostiary/ostiary/storage/pebble"
)

// floor does with segments what a node cannot avoid: it inserts each of them into the bare
// table, and applies it to a copy in a folder. It checks nothing, makes no views, and inserts
// the next segment while it applies the one before.
type floor struct {
	copied *pebble.Driver
	copy   *kv.Copy
	at     uint64 // the last segment that the copy has
}

// openFloor returns a floor whose copy is empty.
func openFloor(folder string) (*floor, error) {
	copied, err := pebble.Open(filepath.Join(folder, "floor"), pebble.Options{Copy: true, NoSync: true})
	if err != nil {
		return nil, err
	}
	f := &floor{copied: copied}
	if f.copy, err = copied.Copy(); err != nil {
		return nil, errors.Join(err, copied.Close())
	}
	return f, nil
}

// decoded is a segment with the entries of its stores.
type decoded struct {
	record  sharedlog.Record
	segment sharedlog.Segment
	entries [][]storage.Entry
	sealed  [][]storage.Sealed
}

// decode returns a segment with its entries, which a node that writes has.
func decode(r sharedlog.Record) (d decoded, err error) {
	d.record = r
	if d.segment, err = sharedlog.Decode(r.Bytes); err != nil {
		return d, err
	}
	for _, of := range d.segment.Stores {
		entries, sealed := make([]storage.Entry, len(of.Entries)), make([]storage.Sealed, len(of.Entries))
		for i, b := range of.Entries {
			if entries[i], err = storage.DecodeEntry(b); err != nil {
				return d, err
			}
			sealed[i] = storage.Sealed{Bytes: b, Hash: sha256.Sum256(b)}
			for j := range entries[i].Changes { // so the copy does not look for what is not there
				entries[i].Changes[j].Fresh = entries[i].Changes[j].Kind == storage.TupleAdd
			}
		}
		d.entries, d.sealed = append(d.entries, entries), append(d.sealed, sealed)
	}
	return d, nil
}

// apply applies a segment to the copy.
func (f *floor) apply(ctx context.Context, d *decoded) error {
	tx := f.copy.Begin()
	defer tx.Close()
	for i := range d.entries {
		if err := tx.Append(ctx, d.segment.Stores[i].Store, d.entries[i], d.sealed[i], true); err != nil {
			return err
		}
	}
	if c := d.segment.Catalog; c != nil {
		if c.Op != sharedlog.CreateStore {
			return fmt.Errorf("segment %d changes the catalog, expected only new stores", d.segment.Sequence)
		}
		if err := tx.CreateStore(c.Store); err != nil {
			return err
		}
	}
	if err := tx.SetMark(d.record.Sequence, d.record.Hash[:]); err != nil {
		return err
	}
	if err := tx.SetRecord(d.record.Hash[:]); err != nil {
		return err
	}
	f.at = d.record.Sequence
	return tx.Commit()
}

// follow applies the segments of the log before a sequence.
func (f *floor) follow(ctx context.Context, log sharedlog.Log, before uint64) error {
	if f.at+1 >= before {
		return nil
	}
	for r, err := range log.Read(ctx, f.at+1) {
		if err != nil || r.Sequence >= before {
			return err
		}
		d, err := decode(r)
		if err == nil {
			err = f.apply(ctx, &d)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// run inserts and applies the segments that follow the copy, and returns how long that takes.
func (f *floor) run(ctx context.Context, all []sharedlog.Record, insert func(context.Context, *sharedlog.Record) error) (time.Duration, error) {
	segments := make([]decoded, len(all))
	for i := range all {
		var err error
		if segments[i], err = decode(all[i]); err != nil {
			return 0, err
		}
	}
	inserted, failed := make(chan *decoded, 1), make(chan error, 1)
	begin := time.Now()
	go func() {
		var err error
		for d := range inserted {
			if err == nil {
				err = f.apply(ctx, d)
			}
		}
		failed <- err
	}()
	var err error
	for i := range segments {
		if err = insert(ctx, &segments[i].record); err != nil {
			break
		}
		inserted <- &segments[i]
	}
	close(inserted)
	err = errors.Join(err, <-failed)
	return time.Since(begin), err
}
