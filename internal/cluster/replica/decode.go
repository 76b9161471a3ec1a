package replica

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
)

// decoded is a segment with the entries of its stores.
type decoded struct {
	sharedlog.Verified
	stores []storeEntries // of Segment.Stores
}

// storeEntries are entries of one store.
type storeEntries struct {
	entries []storage.Entry
	sealed  []storage.Sealed
}

// aheadBytes is the size of the segments that are passed on together while a log is read.
const aheadBytes = 256 << 10

// chunk is what is passed on together.
type chunk struct {
	segments []decoded
	err      error // after the segments; it is the end
}

// readAhead yields the segments of [sharedlog.Segments] that follow a state, decoded. While
// the caller applies some, another goroutine reads and decodes the next ones, about
// aheadBytes of them.
func readAhead(ctx context.Context, from sharedlog.Log, after *state) iter.Seq2[*decoded, error] {
	return func(yield func(*decoded, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		chunks := make(chan chunk)
		go func() {
			defer close(chunks)
			readChunks(ctx, from, after, func(c chunk) bool {
				select {
				case chunks <- c:
					return true
				case <-ctx.Done():
					chunks <- chunk{err: ctx.Err()} // the caller reads until the end
					return false
				}
			})
		}()
		defer func() {
			cancel()
			for range chunks { // until the goroutine has ended
			}
		}()
		for c := range chunks {
			for i := range c.segments {
				if !yield(&c.segments[i], nil) {
					return
				}
			}
			if c.err != nil {
				yield(nil, c.err)
				return
			}
		}
	}
}

// readChunks passes the segments that follow a state to send, until it returns false.
func readChunks(ctx context.Context, from sharedlog.Log, after *state, send func(chunk) bool) {
	var c chunk
	size := 0
	for v, err := range sharedlog.Segments(ctx, from, after.applied, after.epoch) {
		var d decoded
		if err == nil {
			d, err = decodeSegment(ctx, from, &v, nil)
		}
		if err != nil {
			c.err = err
			break
		}
		c.segments = append(c.segments, d)
		if size += v.Bytes; size >= aheadBytes {
			if !send(c) {
				return
			}
			c, size = chunk{}, 0
		}
	}
	if len(c.segments) > 0 || c.err != nil {
		send(c)
	}
}

// decodeSegment decodes the entries of a segment, see decode.
func decodeSegment(ctx context.Context, from sharedlog.Log, v *sharedlog.Verified, given map[storage.Hash][]byte) (decoded, error) {
	d := decoded{*v, make([]storeEntries, len(v.Segment.Stores))}
	for i := range d.stores {
		var err error
		if d.stores[i], err = decode(ctx, from, &v.Segment.Stores[i], given); err != nil {
			return decoded{}, fmt.Errorf("segment %d: %w", v.Sequence, err)
		}
	}
	return d, nil
}

// decode decodes the entries of a store and fetches their secrets from the log, except
// those whose ciphertexts are given by their digests.
func decode(ctx context.Context, from sharedlog.Log, of *sharedlog.StoreEntries, given map[storage.Hash][]byte) (storeEntries, error) {
	out := storeEntries{make([]storage.Entry, len(of.Entries)), make([]storage.Sealed, len(of.Entries))}
	var missing []*storage.Document
	for i, b := range of.Entries {
		e, err := storage.DecodeEntry(b)
		if err == nil && e.Incarnation != of.Incarnation {
			err = fmt.Errorf("%w: an entry of store %s has another incarnation than the segment", storage.ErrDamaged, of.Store)
		}
		if err != nil {
			return storeEntries{}, err
		}
		for j := range e.Changes {
			c := &e.Changes[j]
			if c.Kind != storage.SecretPut {
				continue
			}
			if body, ok := given[c.Document.Digest]; ok {
				c.Document.Body = body
			} else {
				missing = append(missing, &c.Document)
			}
		}
		out.entries[i], out.sealed[i] = e, storage.Sealed{Bytes: b, Hash: sha256.Sum256(b)}
	}
	return out, fetchSecrets(ctx, from, of, missing)
}

// secretReads is how many secrets are read from the log at the same time: each takes a
// round trip, and the log may be far away.
const secretReads = 8

// fetchSecrets sets the ciphertexts of secrets, unless they were replaced or removed
// meanwhile.
func fetchSecrets(ctx context.Context, from sharedlog.Log, of *sharedlog.StoreEntries, all []*storage.Document) error {
	var wait sync.WaitGroup
	errs := make([]error, min(secretReads, len(all)))
	for i := range errs {
		wait.Go(func() {
			for n := i; n < len(all) && errs[i] == nil; n += len(errs) {
				errs[i] = fetchSecret(ctx, from, of, all[n])
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

func fetchSecret(ctx context.Context, from sharedlog.Log, of *sharedlog.StoreEntries, d *storage.Document) error {
	key := sharedlog.SecretKey{Store: of.Store, Incarnation: of.Incarnation, Kind: d.Kind, Key: d.Key}
	body, err := from.Secret(ctx, key, d.Digest)
	if errors.Is(err, sharedlog.ErrNoSecret) {
		return nil
	}
	d.Body = body
	return err
}
