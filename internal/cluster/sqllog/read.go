package sqllog

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
)

// Head implements [sharedlog.Log].
func (l *Log) Head(ctx context.Context) (p sharedlog.Position, err error) {
	var hash []byte
	found, err := l.row(ctx, "select sequence, hash from ostiary_log where shard = 0 order by sequence desc limit 1", nil, &p.Sequence, &hash)
	if err != nil || !found {
		return sharedlog.Position{}, err
	}
	return p, fill(p.Hash[:], hash)
}

// Newest implements [sharedlog.Newester].
func (l *Log) Newest(ctx context.Context) (p sharedlog.Position, err error) {
	var hash []byte
	var moved int
	last := sharedlog.Lease{Holder: sharedlog.Mover()}.MovedFrom()
	found, err := l.row(ctx, `select sequence, hash, (select count(*) from ostiary_lease where shard = 0 and holder = ? and renewals = ?)
		from ostiary_log where shard = 0 order by sequence desc limit 1`, []any{last.Holder[:], int64(last.Renewals)}, &p.Sequence, &hash, &moved)
	if err != nil || !found {
		return sharedlog.Position{}, err
	}
	if moved > 0 {
		return sharedlog.Position{}, sharedlog.ErrMoved
	}
	return p, fill(p.Hash[:], hash)
}

// readRows is how many segments one query returns at most. Their memory is held while
// the caller uses them, so that no query is open meanwhile.
const readRows = 64

// segmentRow is a row of ostiary_log.
type segmentRow struct {
	sharedlog.Record
	parts int
}

// Read implements [sharedlog.Log].
func (l *Log) Read(ctx context.Context, from uint64) iter.Seq2[sharedlog.Record, error] {
	return func(yield func(sharedlog.Record, error) bool) {
		from = max(from, 1)
		head, err := l.Head(ctx)
		for err == nil && from <= head.Sequence {
			var rows []segmentRow
			if rows, err = l.rows(ctx, from, head); err != nil {
				break
			}
			for i := range rows {
				if err = l.err(ctx); err == nil {
					err = l.complete(ctx, &rows[i])
				}
				if err != nil {
					break
				}
				if !yield(rows[i].Record, nil) {
					return
				}
			}
			from += uint64(len(rows))
		}
		if err != nil {
			yield(sharedlog.Record{}, err)
		}
	}
}

// rows returns up to readRows segments without a gap, the first of which is from.
func (l *Log) rows(ctx context.Context, from uint64, head sharedlog.Position) (all []segmentRow, err error) {
	if all = l.replicaRows(ctx, from, head); len(all) > 0 {
		return all, nil
	}
	err = l.repeat(ctx, func() error {
		all, err = l.scanRows(ctx, l.db, from, head.Sequence)
		return err
	})
	if err == nil && len(all) == 0 {
		err = l.missing(ctx, from)
	}
	return all, err
}

// scanRows returns up to readRows segments without a gap from a database, the first of
// which is from, and none if it does not have that one.
func (l *Log) scanRows(ctx context.Context, db *sql.DB, from, to uint64) (all []segmentRow, err error) {
	err = l.scan(ctx, db, func(scan func(...any) error) error {
		var r segmentRow
		var hash []byte
		if err := scan(&r.Sequence, &hash, &r.parts, &r.Bytes); err != nil {
			return err
		}
		all = append(all, r)
		return fill(all[len(all)-1].Hash[:], hash)
	}, "select sequence, hash, parts, bytes from ostiary_log where shard = 0 and sequence >= ? and sequence <= ? order by sequence limit ?", int64(from), int64(to), readRows)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].Sequence != from+uint64(i) {
			return all[:i], nil
		}
	}
	return all, nil
}

// missing returns why the log does not have a segment below its head.
func (l *Log) missing(ctx context.Context, sequence uint64) error {
	var oldest sql.Null[uint64]
	if _, err := l.row(ctx, "select min(sequence) from ostiary_log where shard = 0", nil, &oldest); err != nil {
		return err
	}
	if sequence < oldest.V {
		return fmt.Errorf("%w: segment %d of shard 0; the oldest is %d", sharedlog.ErrTrimmed, sequence, oldest.V)
	}
	return fmt.Errorf("%w: segment %d of shard 0 is missing", storage.ErrDamaged, sequence)
}

// complete reads the parts of a large segment.
func (l *Log) complete(ctx context.Context, r *segmentRow) error {
	if r.parts == restoredParts {
		return fmt.Errorf("%w: segment %d: the log was restored there", sharedlog.ErrTrimmed, r.Sequence)
	}
	for i := range r.parts {
		part, found := l.replicaPart(ctx, r.Hash, i)
		if !found {
			var err error
			if found, err = l.row(ctx, partQuery, []any{r.Hash[:], i}, &part); err != nil {
				return err
			}
		}
		if !found {
			return fmt.Errorf("%w: part %d of segment %d is missing", storage.ErrDamaged, i, r.Sequence)
		}
		r.Bytes = append(r.Bytes, part...)
	}
	return nil
}

// partQuery reads a part of a large segment.
const partQuery = "select bytes from ostiary_part where hash = ? and part = ?"

// The times between two looks at the head, while callers wait.
const (
	pollMin = 5 * time.Millisecond
	pollMax = time.Second
)

// Wait implements [sharedlog.Log]. A segment that was noticed spares one call the look at
// the head, and only one: the log may not have it, because a fail-over has lost it or
// because another user of the database has announced it.
func (l *Log) Wait(ctx context.Context, after uint64) error {
	for wait := pollMin; ; wait = min(2*wait, pollMax) {
		l.mu.Lock()
		woken, noticed := l.woken, l.noticed > after
		if noticed {
			l.noticed = 0
		}
		l.mu.Unlock()
		if noticed {
			return l.err(ctx)
		}
		head, err := l.Head(ctx)
		if err != nil || head.Sequence > after {
			return err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-woken:
			timer.Stop()
			wait = pollMin
		case <-l.ctx.Done():
			timer.Stop()
			return storage.ErrClosed
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// staleTime is how old parts are at least that are dropped because nothing names them.
const staleTime = 24 * time.Hour

// Trim implements [sharedlog.Log].
func (l *Log) Trim(ctx context.Context, below uint64) error {
	head, err := l.Head(ctx)
	if err != nil {
		return err
	}
	below = min(below, head.Sequence)
	var oldest sql.Null[uint64]
	if _, err := l.row(ctx, "select min(sequence) from ostiary_log where shard = 0", nil, &oldest); err != nil {
		return err
	}
	for from := oldest.V; from < below; from += trimRows {
		to := min(from+trimRows, below)
		for _, query := range []string{
			"delete from ostiary_part where hash in (select hash from ostiary_log where shard = 0 and sequence < ? and parts > 0)",
			"delete from ostiary_log where shard = 0 and sequence < ?",
		} {
			if _, err := l.exec(ctx, query, int64(to)); err != nil {
				return err
			}
		}
	}
	if _, err := l.exec(ctx, "delete from ostiary_part where made < "+l.dialect.Now()+" - ? and not exists (select 1 from ostiary_log where ostiary_log.hash = ostiary_part.hash)", staleTime.Microseconds()); err != nil {
		return err
	}
	return l.dropStale(ctx)
}

// trimRows is how many segments one statement drops, so that a transaction stays small:
// Galera sends it to all nodes at once.
const trimRows = 64
