package sqllog

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
)

// Append implements [sharedlog.Log].
func (l *Log) Append(ctx context.Context, after sharedlog.Position, record sharedlog.Record, secrets []sharedlog.SecretChange) error {
	if err := sharedlog.CheckSegment(&record); err != nil {
		return err
	}
	if err := l.err(ctx); err != nil {
		return err
	}
	if record.Sequence != after.Sequence+1 {
		return l.conflict(ctx)
	}
	inline, parts := record.Bytes, [][]byte(nil)
	if len(inline) > sharedlog.PartBytesMax {
		inline, parts = nil, sharedlog.Parts(record.Bytes)
		if err := l.putParts(ctx, record.Hash, parts); err != nil {
			return err
		}
	}
	return l.append(ctx, after, l.appendStatements(after, record.Position, len(parts), inline, secrets))
}

// appendStatements returns the statements of an append, whose segment is inline or has parts.
func (l *Log) appendStatements(after, at sharedlog.Position, parts int, inline []byte, secrets []sharedlog.SecretChange) []Statement {
	insert := Statement{insertSegment, append(segmentKey(at), parts, nonNil(inline))}
	if after.Sequence == 0 {
		insert.and(" not exists (select 1 from ostiary_log where shard = 0)")
	} else {
		insert.and(hasSegment, segmentKey(after)...)
	}
	statements := []Statement{l.dialect.Announced(insert, at.Sequence)}
	for i := range secrets {
		statements = append(statements, secretStatements(&secrets[i], at)...)
	}
	return l.rebind(statements)
}

// ErrStatements is the error of [Dialect.Atomic] for more than the server takes at once. It
// wraps storage.ErrTooLarge.
var ErrStatements = fmt.Errorf("%w: the statements of a segment and its secrets", storage.ErrTooLarge)

// insertSegment inserts a row of ostiary_log if the condition that follows holds.
const insertSegment = "insert into ostiary_log (shard, sequence, hash, parts, bytes) select 0, ?, ?, ?, ? where"

// hasSegment is the condition that the log has the segment of segmentKey.
const hasSegment = " exists (select 1 from ostiary_log where shard = 0 and sequence = ? and hash = ?)"

// segmentKey returns what identifies a segment, as arguments.
func segmentKey(p sharedlog.Position) []any {
	return []any{int64(p.Sequence), p.Hash[:]}
}

// and appends a condition to a statement, with its arguments.
func (s *Statement) and(condition string, arguments ...any) {
	s.Query += condition
	s.Arguments = append(s.Arguments, arguments...)
}

// append runs the statements of an append. A node of Galera may not have the last
// segment yet, or may not show the one that is in the place already. So the head is read
// before append reports a conflict: an append after the head is never answered with one.
func (l *Log) append(ctx context.Context, after sharedlog.Position, statements []Statement) error {
	for wait := repeatMin; ; wait = min(2*wait, repeatMax) {
		var n int64
		err := l.bounded(ctx, func(ctx context.Context, _ func()) (err error) {
			n, err = l.atomic(ctx, statements)
			return err
		})
		switch {
		case err != nil && !l.dialect.Duplicate(err):
			return err
		case err == nil && n > 0:
			l.wake(after.Sequence + 1)
			return nil
		}
		var conflict *sharedlog.ConflictError
		if err = l.conflict(ctx); !errors.As(err, &conflict) || conflict.Head != after {
			return err
		}
		pause(ctx, wait)
	}
}

// conflict returns the error of an append that did not follow the last segment.
func (l *Log) conflict(ctx context.Context) error {
	head, err := l.Head(ctx)
	if err != nil {
		return err
	}
	return &sharedlog.ConflictError{Head: head}
}

// putParts stores the parts of a large segment, which is not in the log before its row
// is.
func (l *Log) putParts(ctx context.Context, hash storage.Hash, parts [][]byte) error {
	for i, part := range parts {
		if _, err := l.insert(ctx, "insert into ostiary_part (hash, part, made, bytes) values (?, ?, "+l.dialect.Now()+", ?)", hash[:], i, part); err != nil {
			return err
		}
	}
	return nil
}

// secretName returns the name of a secret in its table, which has a fixed length.
func secretName(k *sharedlog.SecretKey) []byte {
	h := sha256.New()
	var length [8]byte
	binary.BigEndian.PutUint64(length[:], uint64(len(k.Kind)))
	h.Write(length[:])
	h.Write([]byte(k.Kind))
	h.Write([]byte(k.Key))
	return h.Sum(nil)
}

// secretStatements returns the statements of a change of a secret. They do nothing
// unless the segment was inserted.
func secretStatements(c *sharedlog.SecretChange, at sharedlog.Position) []Statement {
	remove := Statement{"delete from ostiary_secret where store = ? and incarnation = ?", []any{c.Store[:], c.Incarnation[:]}}
	if c.Kind != "" || !c.Removed {
		remove.and(" and name = ?", secretName(&c.SecretKey))
	}
	remove.and(" and"+hasSegment, segmentKey(at)...)
	if c.Removed {
		return []Statement{remove}
	}
	add := Statement{"insert into ostiary_secret (store, incarnation, name, digest, body) select ?, ?, ?, ?, ? where",
		[]any{c.Store[:], c.Incarnation[:], secretName(&c.SecretKey), c.Digest[:], nonNil(c.Body)}}
	add.and(hasSegment, segmentKey(at)...)
	return []Statement{remove, add}
}

// Secret implements [sharedlog.Log].
func (l *Log) Secret(ctx context.Context, key sharedlog.SecretKey, digest storage.Hash) ([]byte, error) {
	var have storage.Hash
	var column, body []byte
	found, err := l.row(ctx, "select digest, body from ostiary_secret where store = ? and incarnation = ? and name = ?",
		[]any{key.Store[:], key.Incarnation[:], secretName(&key)}, &column, &body)
	if err == nil && found {
		err = fill(have[:], column)
	}
	if err == nil {
		err = sharedlog.CheckSecret(&key, digest, found, have, body)
	}
	if err != nil {
		return nil, err
	}
	return body, nil
}

// restoredParts is the number of parts of a segment that is not kept: the place at which
// a log was restored.
const restoredParts = -1

// Restore implements [sharedlog.Restorer].
func (l *Log) Restore(ctx context.Context, old, at sharedlog.Position, secrets []sharedlog.SecretChange) error {
	insert := func(p sharedlog.Position) Statement {
		s := Statement{insertSegment, append(segmentKey(p), restoredParts, []byte{})}
		if old.Sequence > 0 {
			s.and(hasSegment, segmentKey(old)...)
		} else {
			s.and(" not exists (select 1 from ostiary_log where shard = 0 and sequence > 0 and parts >= 0)")
		}
		return s
	}
	var statements []Statement
	if at.Sequence > old.Sequence+1 {
		// It takes the place of a segment that another node appends meanwhile.
		statements = append(statements, insert(sharedlog.Position{Sequence: old.Sequence + 1, Hash: at.Hash}))
	}
	trim := Statement{"delete from ostiary_log where shard = 0 and sequence < ?", []any{int64(at.Sequence)}}
	trim.and(" and exists (select 1 from (select 1 from ostiary_log where shard = 0 and sequence = ? and hash = ?) as restored)", segmentKey(at)...)
	statements = append(statements, insert(at), trim, Statement{"delete from ostiary_secret where" + hasSegment, segmentKey(at)})
	for i := range secrets {
		statements = append(statements, secretStatements(&secrets[i], at)...)
	}
	n, err := l.atomic(ctx, l.rebind(statements))
	if err != nil && l.dialect.Duplicate(err) || err == nil && n == 0 {
		return fmt.Errorf("the last segment is not %s: %w", old, sharedlog.ErrSwap)
	}
	return err
}
