package sharedlog

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/ostiary/ostiary/storage"
)

// Segments yields the segments that follow a position whose segment had
// the given epoch, up to the head at the time of the call. It checks each of them
// against its predecessor, and yields nothing that follows a wrong one. It fails with
//   - [storage.ErrHistory] if the segments do not continue the position: the log was
//     restored from a backup, or lost segments, or the caller has another history;
//   - [ErrTrimmed] if the log no longer has the segment that follows;
//   - [storage.ErrFormat] if a segment has a version or a content that this program
//     does not know;
//   - [storage.ErrDamaged] if a segment is not what was appended.
func Segments(ctx context.Context, log Log, after Position, epoch uint64) iter.Seq2[Verified, error] {
	return func(yield func(Verified, error) bool) {
		head, err := log.Head(ctx)
		if err == nil && head.Sequence < after.Sequence {
			err = fmt.Errorf("%w: the last segment of shard 0 is %s, expected %s or a later one", storage.ErrHistory, head, after)
		}
		if err == nil && head.Sequence == after.Sequence && head.Hash != after.Hash {
			err = fmt.Errorf("%w: segment %s of shard 0 has another hash, expected %s", storage.ErrHistory, head, after)
		}
		if err != nil {
			yield(Verified{}, err)
			return
		}
		if head.Sequence == after.Sequence {
			return
		}
		first := true
		for record, err := range log.Read(ctx, after.Sequence+1) {
			var v Verified
			if err == nil {
				v, err = verify(record, after, epoch, first)
			}
			if err != nil {
				yield(Verified{}, err)
				return
			}
			if !yield(v, nil) {
				return
			}
			after, epoch, first = v.Position, v.Segment.Epoch, false
		}
	}
}

// Verified is a segment that follows its predecessor.
type Verified struct {
	Position
	Segment Segment
	// Bytes is the number of bytes of the segment.
	Bytes int
}

// Verify decodes a record that did not come from the log, for example one that another
// node has sent, and checks that it follows a position whose segment had the given
// epoch. It fails as [Segments] does. The log may have another segment in its place.
func Verify(r Record, after Position, epoch uint64) (Verified, error) {
	return verify(r, after, epoch, true)
}

// verify decodes a record and checks it. first is true if after is the caller's own
// position, and not a record of the same log.
func verify(r Record, after Position, epoch uint64, first bool) (Verified, error) {
	if hash := sha256.Sum256(r.Bytes); r.Hash != hash {
		return Verified{}, fmt.Errorf("segment %d of shard 0: %w: its hash is %x, expected %x", r.Sequence, storage.ErrDamaged, hash[:4], r.Hash[:4])
	}
	s, err := Decode(r.Bytes)
	if err != nil {
		return Verified{}, fmt.Errorf("segment %d of shard 0: %w", r.Sequence, err)
	}
	damaged := func(format string, args ...any) (Verified, error) {
		return Verified{}, fmt.Errorf("segment %d of shard 0: %w: "+format, append([]any{r.Sequence, storage.ErrDamaged}, args...)...)
	}
	switch {
	case s.Sequence != r.Sequence:
		return damaged("it has the sequence %d", s.Sequence)
	case s.Sequence != after.Sequence+1:
		return damaged("it follows segment %d, expected segment %d", after.Sequence, after.Sequence+1)
	case s.Previous != after.Hash && first:
		return Verified{}, fmt.Errorf("%w: segment %d of shard 0 follows a segment with the hash %x, expected %x", storage.ErrHistory, s.Sequence, s.Previous[:4], after.Hash[:4])
	case s.Previous != after.Hash:
		return damaged("it does not follow its predecessor: the hash is %x, expected %x", s.Previous[:4], after.Hash[:4])
	case s.Epoch < epoch:
		return damaged("its epoch is %d, expected %d or a higher one", s.Epoch, epoch)
	}
	return Verified{r.Position, s, len(r.Bytes)}, nil
}

// The times between two attempts of Commit.
const (
	retryMin = time.Millisecond
	retryMax = 250 * time.Millisecond
)

// Commit appends a segment and settles its outcome: after an attempt whose outcome is
// open, it appends the same segment again, until the log answers or ctx ends. At most
// one segment can follow after, so the attempts cannot make two. Commit returns
//   - nil if the segment is in the log;
//   - a *[ConflictError] if another segment is in its place, or if the log was
//     restored from a backup; the segment can then never appear;
//   - storage.ErrTooLarge or storage.ErrClosed, if no attempt was made before;
//   - an error that wraps [storage.ErrUncertain] and [ErrTrimmed] if another segment follows
//     and the log no longer keeps this place: an earlier attempt may have made the segment,
//     but none can make it any more;
//   - an error that wraps [storage.ErrUncertain] otherwise: the segment may be in the
//     log, or may still appear. The caller must call Commit with the same segment
//     again before it appends another one.
//
// An empty segment is a barrier: once it is in the log, an earlier attempt to put
// another segment in its place can no longer succeed.
func Commit(ctx context.Context, log Log, after Position, record Record, secrets []SecretChange) error {
	return Settle(ctx, log, after, record, secrets, log.Append(ctx, after, record, secrets))
}

// Settle is Commit, after a first attempt that has returned err.
func Settle(ctx context.Context, log Log, after Position, record Record, secrets []SecretChange, err error) error {
	open := false
	for wait := retryMin; ; wait = min(2*wait, retryMax) {
		var conflict *ConflictError
		switch {
		case err == nil:
			return nil
		case errors.As(err, &conflict):
			if conflict.Head.Sequence < record.Sequence {
				return err
			}
			// An earlier attempt, perhaps of an earlier call, may have made the segment.
			made := conflict.Head == record.Position
			if err = nil; conflict.Head.Sequence > record.Sequence {
				made, err = has(ctx, log, record.Position)
			}
			if errors.Is(err, ErrTrimmed) {
				return fmt.Errorf("%w: segment %s: %w", storage.ErrUncertain, record.Position, err)
			}
			if err == nil {
				if made {
					return nil
				}
				return conflict
			}
		case errors.Is(err, storage.ErrTooLarge) && !open:
			return err
		case errors.Is(err, storage.ErrClosed):
			if !open {
				return err
			}
			return fmt.Errorf("%w: %w", storage.ErrUncertain, err)
		}
		open = true
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w: %w", storage.ErrUncertain, err)
		}
		err = log.Append(ctx, after, record, secrets)
	}
}

// has reports whether a log has a segment with a hash.
func has(ctx context.Context, log Log, at Position) (bool, error) {
	for r, err := range log.Read(ctx, at.Sequence) {
		return err == nil && r.Hash == at.Hash, err
	}
	return false, nil
}
