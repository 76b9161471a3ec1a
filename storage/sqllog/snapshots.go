package sqllog

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/ostiary/ostiary/storage/sharedlog"
)

// PutSnapshot implements [sharedlog.Log].
func (l *Log) PutSnapshot(ctx context.Context, of sharedlog.Shard, at sharedlog.Position, parts iter.Seq2[[]byte, error]) error {
	var attempt [16]byte
	_, _ = crand.Read(attempt[:]) // never fails
	number := 0
	for part, err := range parts {
		if err == nil {
			err = sharedlog.CheckPart(part)
		}
		if err == nil {
			_, err = l.exec(ctx, "insert into ostiary_snapshot_part (attempt, part, made, bytes) values (?, ?, "+l.dialect.Now()+", ?)", attempt[:], number, nonNil(part))
		}
		if err != nil {
			return errors.Join(err, l.dropParts(context.WithoutCancel(ctx), attempt[:]))
		}
		number++
	}
	named, err := l.nameSnapshot(ctx, of, at, attempt[:])
	if err != nil {
		return err // whether it was named is open
	}
	if !named {
		return l.dropParts(ctx, attempt[:])
	}
	return nil // Trim drops what attempts that were interrupted have left
}

// nameSnapshot makes an attempt the snapshot of a shard, if it is newer than the one
// before, whose parts it drops.
func (l *Log) nameSnapshot(ctx context.Context, of sharedlog.Shard, at sharedlog.Position, attempt []byte) (bool, error) {
	named, err := l.insert(ctx, "insert into ostiary_snapshot (shard, sequence, hash, attempt) values (?, ?, ?, ?)", int64(of), int64(at.Sequence), at.Hash[:], attempt)
	if err != nil || named {
		return named, err
	}
	var old []byte
	if _, err := l.row(ctx, "select attempt from ostiary_snapshot where shard = ?", []any{int64(of)}, &old); err != nil {
		return false, err
	}
	n, err := l.exec(ctx, "update ostiary_snapshot set sequence = ?, hash = ?, attempt = ? where shard = ? and sequence < ?",
		int64(at.Sequence), at.Hash[:], attempt, int64(of), int64(at.Sequence))
	if err != nil || n != 1 {
		return false, err
	}
	return true, l.dropParts(ctx, old)
}

func (l *Log) dropParts(ctx context.Context, attempt []byte) error {
	_, err := l.exec(ctx, "delete from ostiary_snapshot_part where attempt = ?", attempt)
	return err
}

// Snapshot implements [sharedlog.Log].
func (l *Log) Snapshot(ctx context.Context, of sharedlog.Shard) (at sharedlog.Position, parts iter.Seq2[[]byte, error], err error) {
	var hash, attempt []byte
	found, err := l.row(ctx, "select sequence, hash, attempt from ostiary_snapshot where shard = ?", []any{int64(of)}, &at.Sequence, &hash, &attempt)
	if err == nil && !found {
		err = fmt.Errorf("shard %d: %w", of, sharedlog.ErrNoSnapshot)
	}
	if err == nil {
		err = fill(at.Hash[:], hash)
	}
	if err != nil {
		return sharedlog.Position{}, nil, err
	}
	return at, func(yield func([]byte, error) bool) {
		for number := 0; ; number++ {
			var part []byte
			found, err := l.row(ctx, "select bytes from ostiary_snapshot_part where attempt = ? and part = ?", []any{attempt, number}, &part)
			if err == nil && !found {
				err = l.stillNamed(ctx, of, attempt)
				if err == nil {
					return
				}
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(part, nil) {
				return
			}
		}
	}, nil
}

// stillNamed fails with ErrNoSnapshot if a snapshot was replaced while it was read.
func (l *Log) stillNamed(ctx context.Context, of sharedlog.Shard, attempt []byte) error {
	var now []byte
	found, err := l.row(ctx, "select attempt from ostiary_snapshot where shard = ?", []any{int64(of)}, &now)
	if err == nil && (!found || !slices.Equal(now, attempt)) {
		err = fmt.Errorf("shard %d: %w: it was replaced while it was read", of, sharedlog.ErrNoSnapshot)
	}
	return err
}
