package sharedlogtest

import (
	"bytes"
	"errors"
	"iter"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
)

func snapshotCases() []testcase {
	return []testcase{
		{"snapshot", "The newest complete snapshot is returned with its position; an older one never replaces it.", snapshots},
		{"snapshot/many", "All parts of a snapshot are returned in order, however many it has; one that was replaced meanwhile ends with an error.", snapshotMany},
		{"snapshot/cut", "A snapshot whose parts fail is never seen.", snapshotCut},
	}
}

// parts yields parts without an error.
func parts(all ...[]byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for _, p := range all {
			if !yield(p, nil) {
				return
			}
		}
	}
}

// snapshot requires that the newest snapshot is at a position and has parts.
func (k *kit) snapshot(l sharedlog.Log, at sharedlog.Position, want ...[]byte) {
	k.Helper()
	have, seq, err := l.Snapshot(k.ctx)
	k.ok(err)
	k.check(have == at, "the snapshot is at %s, want %s", have, at)
	var all [][]byte
	for p, err := range seq {
		k.ok(err)
		all = append(all, bytes.Clone(p))
	}
	k.check(len(all) == len(want), "the snapshot has %d parts, want %d", len(all), len(want))
	for i := range want {
		k.check(bytes.Equal(all[i], want[i]), "part %d has %d bytes that differ from the %d that were put", i, len(all[i]), len(want[i]))
	}
}

func snapshots(k *kit) {
	_, _, err := k.Snapshot(k.ctx)
	k.is(err, sharedlog.ErrNoSnapshot)
	full := bytes.Repeat([]byte{7}, sharedlog.PartBytesMax)
	two, five := sharedlog.Position{Sequence: 2, Hash: storage.Hash{2}}, sharedlog.Position{Sequence: 5, Hash: storage.Hash{5}}
	k.ok(k.PutSnapshot(k.ctx, two, parts([]byte("a"), nil, full)))
	k.snapshot(k.connect(), two, []byte("a"), nil, full)
	k.ok(k.PutSnapshot(k.ctx, five, parts([]byte("new"))))
	k.snapshot(k.Log, five, []byte("new"))
	k.ok(k.PutSnapshot(k.ctx, two, parts([]byte("old"))))
	k.ok(k.PutSnapshot(k.ctx, five, parts([]byte("again"))))
	k.snapshot(k.Log, five, []byte("new"))
	k.is(k.PutSnapshot(k.ctx, sharedlog.Position{Sequence: 6}, parts(make([]byte, sharedlog.PartBytesMax+1))), storage.ErrTooLarge)
	k.snapshot(k.Log, five, []byte("new"))
	_, seq, err := k.Snapshot(k.ctx)
	k.ok(err)
	for range seq {
		break
	}
}

func snapshotMany(k *kit) {
	numbered := func(n int) (all [][]byte) {
		for i := range n {
			all = append(all, []byte{byte(i), 1})
		}
		return all
	}
	at := func(n int) sharedlog.Position {
		return sharedlog.Position{Sequence: uint64(n), Hash: storage.Hash{byte(n)}}
	}
	for _, n := range []int{1, 15, 16, 17, 32, 50} {
		k.ok(k.PutSnapshot(k.ctx, at(n), parts(numbered(n)...)))
		k.snapshot(k.Log, at(n), numbered(n)...)
	}
	_, seq, err := k.Snapshot(k.ctx)
	k.ok(err)
	read := 0
	for _, err = range seq {
		if err != nil {
			break
		}
		if read++; read == 1 {
			k.ok(k.PutSnapshot(k.ctx, at(51), parts([]byte("new"))))
		}
	}
	k.check(read == 50 && err == nil || errors.Is(err, sharedlog.ErrNoSnapshot), "a snapshot that was replaced ends after %d of 50 parts with error %v, want all or %v", read, err, sharedlog.ErrNoSnapshot)
	k.snapshot(k.Log, at(51), []byte("new"))
}

func snapshotCut(k *kit) {
	failure := errors.New("cut")
	one := sharedlog.Position{Sequence: 1}
	cut := func(yield func([]byte, error) bool) { _ = yield([]byte("a"), nil) && yield(nil, failure) }
	k.is(k.PutSnapshot(k.ctx, one, cut), failure)
	_, _, err := k.Snapshot(k.ctx)
	k.is(err, sharedlog.ErrNoSnapshot)
	k.ok(k.PutSnapshot(k.ctx, one, parts([]byte("b"))))
	k.is(k.PutSnapshot(k.ctx, sharedlog.Position{Sequence: 2}, cut), failure)
	k.snapshot(k.Log, one, []byte("b"))
}
