package sqllog

import (
	"context"
	crand "crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
)

// PutSnapshot implements [sharedlog.Log].
func (l *Log) PutSnapshot(ctx context.Context, at sharedlog.Position, parts iter.Seq2[[]byte, error]) error {
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
			return errors.Join(err, l.dropUnnamed(ctx, attempt[:]))
		}
		number++
	}
	named, err := l.nameSnapshot(ctx, at, attempt[:])
	if err != nil {
		return err // whether it was named is open
	}
	if !named {
		return l.dropParts(ctx, attempt[:])
	}
	return nil // Trim drops what attempts that were interrupted have left
}

// nameSnapshot makes an attempt the snapshot, if it is newer than the one
// before, whose parts it drops.
func (l *Log) nameSnapshot(ctx context.Context, at sharedlog.Position, attempt []byte) (bool, error) {
	named, err := l.insert(ctx, "insert into ostiary_snapshot (shard, sequence, hash, attempt) values (0, ?, ?, ?)", int64(at.Sequence), at.Hash[:], attempt)
	if err != nil || named {
		return named, err
	}
	var old []byte
	if _, err := l.row(ctx, "select attempt from ostiary_snapshot where shard = 0", nil, &old); err != nil {
		return false, err
	}
	n, err := l.exec(ctx, "update ostiary_snapshot set sequence = ?, hash = ?, attempt = ? where shard = 0 and sequence < ?",
		int64(at.Sequence), at.Hash[:], attempt, int64(at.Sequence))
	if err != nil || n != 1 {
		return false, err
	}
	return true, l.dropParts(ctx, old)
}

// dropTime bounds how long a snapshot that has failed is waited for. Trim drops what is left.
const dropTime = 5 * time.Second

// dropUnnamed drops the parts of an attempt that has failed, also if ctx has ended.
func (l *Log) dropUnnamed(ctx context.Context, attempt []byte) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropTime)
	defer cancel()
	return l.dropParts(ctx, attempt)
}

// dropParts drops the parts of an attempt, some at a time: Galera refuses a transaction of
// more than 2 GiB, and sends it to all nodes at once.
func (l *Log) dropParts(ctx context.Context, attempt []byte) error {
	var last sql.Null[int]
	if _, err := l.row(ctx, "select max(part) from ostiary_snapshot_part where attempt = ?", []any{attempt}, &last); err != nil {
		return err
	}
	for from := 0; last.Valid && from <= last.V; from += snapshotRows {
		if _, err := l.exec(ctx, "delete from ostiary_snapshot_part where attempt = ? and part >= ? and part < ?", attempt, from, from+snapshotRows); err != nil {
			return err
		}
	}
	return nil
}

// dropStale drops the parts of attempts that were interrupted.
func (l *Log) dropStale(ctx context.Context) error {
	var stale [][]byte
	err := l.query(ctx, func() { stale = nil }, func(scan func(...any) error) error {
		var attempt []byte
		err := scan(&attempt)
		stale = append(stale, attempt)
		return err
	}, "select distinct attempt from ostiary_snapshot_part where made < "+l.dialect.Now()+" - ? and attempt not in (select attempt from ostiary_snapshot)", staleTime.Microseconds())
	for i := 0; err == nil && i < len(stale); i++ {
		err = l.dropParts(ctx, stale[i])
	}
	return err
}

// Snapshot implements [sharedlog.Log].
func (l *Log) Snapshot(ctx context.Context) (at sharedlog.Position, parts iter.Seq2[[]byte, error], err error) {
	var hash, attempt []byte
	found, err := l.row(ctx, "select sequence, hash, attempt from ostiary_snapshot where shard = 0", nil, &at.Sequence, &hash, &attempt)
	if err == nil && !found {
		err = fmt.Errorf("shard 0: %w", sharedlog.ErrNoSnapshot)
	}
	if err == nil {
		err = fill(at.Hash[:], hash)
	}
	if err != nil {
		return sharedlog.Position{}, nil, err
	}
	return at, func(yield func([]byte, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		var reading sync.WaitGroup
		defer reading.Wait()
		defer cancel()
		ahead := l.ahead(ctx, &reading, attempt, 0)
		for number := 0; ; number += snapshotRows {
			group := <-ahead
			if len(group.parts) == snapshotRows { // read the next ones meanwhile
				ahead = l.ahead(ctx, &reading, attempt, number+snapshotRows)
			}
			if group.err == nil && len(group.parts) < snapshotRows {
				group.err = l.stillNamed(ctx, attempt)
			}
			for _, part := range group.parts {
				if !yield(part, nil) {
					return
				}
			}
			if group.err != nil {
				yield(nil, group.err)
			}
			if group.err != nil || len(group.parts) < snapshotRows {
				return
			}
		}
	}, nil
}

// snapshotRows is how many parts of a snapshot one statement returns or drops. Two such
// groups are in memory at a time.
const snapshotRows = 16

// partGroup are parts of a snapshot that follow each other.
type partGroup struct {
	parts [][]byte
	err   error
}

// scanParts returns up to snapshotRows parts of a snapshot without a gap from a database,
// the first of which is from.
func (l *Log) scanParts(ctx context.Context, db *sql.DB, attempt []byte, from int) (parts [][]byte, err error) {
	gap := false
	err = l.scan(ctx, db, func(scan func(...any) error) error {
		var number int
		var part []byte
		if err := scan(&number, &part); err != nil {
			return err
		}
		if gap = gap || number != from+len(parts); !gap {
			parts = append(parts, part)
		}
		return nil
	}, "select part, bytes from ostiary_snapshot_part where attempt = ? and part >= ? and part < ? order by part", attempt, from, from+snapshotRows)
	return parts, err
}

// ahead reads parts of a snapshot, from a number on. The channel has room for them, so
// the goroutine ends when the query does.
func (l *Log) ahead(ctx context.Context, reading *sync.WaitGroup, attempt []byte, from int) <-chan partGroup {
	read := make(chan partGroup, 1)
	reading.Go(func() {
		g := partGroup{parts: l.replicaParts(ctx, attempt, from)}
		if g.parts == nil {
			g.err = l.repeat(ctx, func() (err error) {
				g.parts, err = l.scanParts(ctx, l.db, attempt, from)
				return err
			})
		}
		read <- g
	})
	return read
}

// stillNamed fails with ErrNoSnapshot if a snapshot was replaced while it was read.
func (l *Log) stillNamed(ctx context.Context, attempt []byte) error {
	var now []byte
	found, err := l.row(ctx, "select attempt from ostiary_snapshot where shard = 0", nil, &now)
	if err == nil && (!found || !slices.Equal(now, attempt)) {
		err = fmt.Errorf("shard 0: %w: it was replaced while it was read", sharedlog.ErrNoSnapshot)
	}
	return err
}
