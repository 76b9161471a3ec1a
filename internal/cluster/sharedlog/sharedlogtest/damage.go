package sharedlogtest

import (
	"fmt"
	"strings"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
)

func damageCases() []testcase {
	return []testcase{
		{"damage/bits", "A flipped bit of a segment is found, with the name of the segment, and nothing after it is yielded.", flippedBits},
		{"damage/chain", "A segment that does not follow its predecessor is found: another number of the log, sequence, hash, epoch, or an unknown version.", brokenChain},
		{"damage/history", "A caller with another history than the log gets ErrHistory, also if the log is shorter.", otherHistory},
	}
}

// segments reads the segments after a position. It returns how many there
// are before the error.
func (k *kit) segments(after sharedlog.Position) (n int, err error) {
	for _, err := range sharedlog.Segments(k.ctx, k.Log, after, 0) {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

func flippedBits(k *kit) {
	c, ok := k.Log.(Corrupter)
	if !ok {
		k.Skip("the log is not a Corrupter")
	}
	k.append(4)
	length := len(record(sharedlog.Position{}, 1).Bytes)
	for at := range length {
		flip := func(b []byte) []byte { b[at] ^= 1; return b }
		c.Corrupt(3, flip)
		n, err := k.segments(sharedlog.Position{})
		k.is(err, storage.ErrDamaged)
		k.check(n == 2 && strings.Contains(err.Error(), "segment 3 of shard 0"), "byte %d: %d segments, then %v", at, n, err)
		c.Corrupt(3, flip)
	}
	c.Corrupt(3, func(b []byte) []byte { return b[:len(b)-1] })
	_, err := k.segments(sharedlog.Position{})
	k.is(err, storage.ErrDamaged)
}

// brokenChain appends segments that a correct node never appends, each after a good one that
// follows the one before: a log compares positions only.
func brokenChain(k *kit) {
	after := sharedlog.Position{}
	for _, c := range []struct {
		bytes func(good sharedlog.Segment) []byte
		kind  error
		text  string
	}{
		{func(s sharedlog.Segment) []byte { b := s.Append(nil); b[4]++; return b }, storage.ErrDamaged, "it is of shard 1"},
		{func(s sharedlog.Segment) []byte { s.Sequence++; return s.Append(nil) }, storage.ErrDamaged, "it has the sequence"},
		{func(s sharedlog.Segment) []byte { s.Previous[0]++; return s.Append(nil) }, storage.ErrDamaged, "does not follow its predecessor"},
		{func(s sharedlog.Segment) []byte { s.Epoch = 1; return s.Append(nil) }, storage.ErrDamaged, "epoch is 1"},
		{func(s sharedlog.Segment) []byte { b := s.Append(nil); b[0]++; return b }, storage.ErrFormat, "version 2"},
		{func(s sharedlog.Segment) []byte { b := s.Append(nil); b[len(b)-1] = 99; return b }, storage.ErrFormat, "kind of segment 99"},
		{func(s sharedlog.Segment) []byte { return append(s.Append(nil), 0) }, storage.ErrDamaged, "after the end"},
		{func(s sharedlog.Segment) []byte { return s.Append(nil)[:40] }, storage.ErrDamaged, "unexpected end"},
		{func(sharedlog.Segment) []byte { return nil }, storage.ErrDamaged, "unexpected end"},
	} {
		first := sharedlog.Segment{Sequence: after.Sequence + 1, Previous: after.Hash, Epoch: 2}
		r, err := first.Record()
		k.ok(err)
		k.ok(k.Append(k.ctx, after, r, nil))
		bad := bytesRecord(r.Position, c.bytes(sharedlog.Segment{Sequence: r.Sequence + 1, Previous: r.Hash, Epoch: 3}))
		k.ok(k.Append(k.ctx, r.Position, bad, nil))
		n := 0
		for _, err = range sharedlog.Segments(k.ctx, k.Log, after, 0) {
			if err == nil {
				n++
			}
		}
		k.is(err, c.kind)
		k.check(n == 1 && strings.Contains(err.Error(), c.text) && strings.Contains(err.Error(), fmt.Sprintf("segment %d of shard 0", bad.Sequence)), "%d segments, then %v; want %q", n, err, c.text)
		after = bad.Position
	}
}

func otherHistory(k *kit) {
	all := k.append(3)
	for _, after := range []sharedlog.Position{
		{Sequence: 4, Hash: storage.Hash{1}},
		{Sequence: 3, Hash: storage.Hash{1}},
		{Sequence: 2, Hash: storage.Hash{1}},
	} {
		n, err := k.segments(after)
		k.is(err, storage.ErrHistory)
		k.check(n == 0, "%d segments were yielded after %s", n, after)
	}
	n, err := k.segments(all[3])
	k.ok(err)
	k.check(n == 0, "%d segments after the last one", n)
}
