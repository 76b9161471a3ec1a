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
		lost = record(lost, 1).Position
	}
	old, kept := secretChange("old", "a"), secretChange("kept", "b")
	r := record(all[2], 2)
	for _, wrong := range []sharedlog.Position{all[1], {}, {Sequence: 2}, r.Position} {
		k.is(l.Restore(k.ctx, wrong, lost, nil), sharedlog.ErrSwap)
	}
	k.ok(k.Append(k.ctx, all[2], r, []sharedlog.SecretChange{old})) // another node writes first
	k.is(l.Restore(k.ctx, all[2], lost, nil), sharedlog.ErrSwap)
	rows, err := read(k.ctx, k.Log, 1)
	k.ok(err)
	k.check(len(rows) == 3, "after restorations that failed, the log has %d segments, want 3", len(rows))

	k.ok(l.Restore(k.ctx, r.Position, lost, []sharedlog.SecretChange{kept}))
	other := k.connect()
	head, err := other.Head(k.ctx)
	k.ok(err)
	k.check(head == lost, "the head is %s, want %s", head, lost)
	_, err = k.Secret(k.ctx, old.SecretKey, old.Digest)
	k.is(err, sharedlog.ErrNoSecret)
	_, err = k.Secret(k.ctx, kept.SecretKey, kept.Digest)
	k.ok(err)
	for _, from := range []uint64{1, 3, 4, lost.Sequence} {
		_, err := read(k.ctx, other, from)
		k.is(err, sharedlog.ErrTrimmed)
	}
	k.conflict(k.Append(k.ctx, r.Position, record(r.Position, 3), nil), lost)
	next := k.append(2)
	rows, err = read(k.ctx, other, lost.Sequence+1)
	k.ok(err)
	k.check(len(rows) == 2 && rows[1].Position == next[2], "%d segments follow the place of the restoration, want 2", len(rows))
	k.ok(k.Trim(k.ctx, next[2].Sequence))
	_, err = read(k.ctx, other, lost.Sequence+1)
	k.is(err, sharedlog.ErrTrimmed)
}

// restoreNew restores a log that has nothing, as one in a new database.
func restoreNew(k *kit) {
	l, ok := k.Log.(sharedlog.Restorer)
	if !ok {
		k.Skip("the log is not a Restorer")
	}
	lost := record(sharedlog.Position{Sequence: 8}, 1).Position
	k.ok(l.Restore(k.ctx, sharedlog.Position{}, lost, nil))
	head, err := k.connect().Head(k.ctx)
	k.ok(err)
	k.check(head == lost, "the head of a new log is %s, want %s", head, lost)
}
