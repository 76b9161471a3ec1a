package sharedlogtest

import (
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
)

func restore(k *kit) {
	l, ok := k.Log.(sharedlog.Restorer)
	if !ok {
		k.Skip("the log is not a Restorer")
	}
	all := k.append(2)
	lost := all[2]
	for range 3 {
		lost = record(0, lost, 1).Position
	}
	old, kept := secretChange("old", "a"), secretChange("kept", "b")
	r := record(0, all[2], 2)
	for _, wrong := range []sharedlog.Position{all[1], {}, {Sequence: 2}, r.Position} {
		k.is(l.Restore(k.ctx, 0, wrong, lost, nil), sharedlog.ErrSwap)
	}
	k.ok(k.Append(k.ctx, 0, all[2], r, []sharedlog.SecretChange{old})) // another node writes first
	k.is(l.Restore(k.ctx, 0, all[2], lost, nil), sharedlog.ErrSwap)
	rows, err := read(k.ctx, k.Log, 0, 1)
	k.ok(err)
	k.check(len(rows) == 3, "after restorations that failed, the log has %d segments, want 3", len(rows))

	k.ok(l.Restore(k.ctx, 0, r.Position, lost, []sharedlog.SecretChange{kept}))
	other := k.connect()
	head, err := other.Head(k.ctx, 0)
	k.ok(err)
	k.check(head == lost, "the head is %s, want %s", head, lost)
	_, err = k.Secret(k.ctx, old.SecretKey, old.Digest)
	k.is(err, sharedlog.ErrNoSecret)
	_, err = k.Secret(k.ctx, kept.SecretKey, kept.Digest)
	k.ok(err)
	for _, from := range []uint64{1, 3, 4, lost.Sequence} {
		_, err := read(k.ctx, other, 0, from)
		k.is(err, sharedlog.ErrTrimmed)
	}
	k.conflict(k.Append(k.ctx, 0, r.Position, record(0, r.Position, 3), nil), lost)
	next := k.append(2)
	rows, err = read(k.ctx, other, 0, lost.Sequence+1)
	k.ok(err)
	k.check(len(rows) == 2 && rows[1].Position == next[2], "%d segments follow the place of the restoration, want 2", len(rows))
	k.ok(k.Trim(k.ctx, 0, next[2].Sequence))
	_, err = read(k.ctx, other, 0, lost.Sequence+1)
	k.is(err, sharedlog.ErrTrimmed)

	empty, ok := k.connect().(sharedlog.Restorer)
	k.check(ok, "a connection is not a Restorer")
	k.ok(empty.Restore(k.ctx, 7, sharedlog.Position{}, lost, nil)) // a new database
	head, err = other.Head(k.ctx, 7)
	k.ok(err)
	k.check(head == lost, "the head of a new shard is %s, want %s", head, lost)
}
