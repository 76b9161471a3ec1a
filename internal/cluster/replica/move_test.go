package replica_test

import (
	"iter"
	"testing"

	"github.com/ostiary/ostiary/internal/cluster/clustertest"
	"github.com/ostiary/ostiary/internal/cluster/move"
	"github.com/ostiary/ostiary/internal/cluster/replica"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog/memorylog"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
	"github.com/ostiary/ostiary/storage/pebble"
)

// contentOf reads the content of a driver.
func contentOf(t *testing.T, d *kv.Driver) move.Content {
	t.Helper()
	c, err := move.ReadContent(t.Context(), d, func(uint64) {})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// openFolder opens a folder, as a copy or as one of its own.
func openFolder(t *testing.T, dir string, asCopy bool) *pebble.Driver {
	t.Helper()
	d, err := pebble.Open(dir, pebble.Options{Copy: asCopy})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestMove makes a folder with a past and secrets the copy of a new log. Nodes have the same
// then, and write on; the folder of one of them becomes a folder of its own.
func TestMove(t *testing.T) {
	t.Parallel()
	dir, tables := t.TempDir(), memorylog.New()
	d := openFolder(t, dir, false)
	l := newStore(t, d, 1)
	mustAppend(t, l, d, add("0"), add("1"), secret("kept", "body"), secret("removed", "body"))
	mustAppend(t, l, d, storage.Change{Kind: storage.SecretRemove, Document: storage.Document{Kind: "kind", Key: "removed"}})
	before := contentOf(t, d.Driver)
	log := tables.Open()
	defer log.Close()
	key := replica.Fingerprint(&[32]byte{1})
	if err := replica.Adopt(t.Context(), log, d.Driver, key, storage.NodeID{}); err != nil {
		t.Fatal(err)
	}
	if err := replica.Adopt(t.Context(), log, d.Driver, key, storage.NodeID{}); err == nil {
		t.Error("a copy became a copy again")
	}
	d.Close()
	_, err := pebble.Open(dir, pebble.Options{})
	wantErrors(t, err, "copy", kv.ErrCopy, storage.ErrFormat)

	for range 2 { // the second time, as after an interruption, nothing is left to do
		d = openFolder(t, dir, true)
		if _, err := replica.Heal(t.Context(), log, d, key, false); err != nil {
			t.Fatal(err)
		}
		d.Close()
	}
	fresh := openFolder(t, t.TempDir(), false)
	wantErrors(t, replica.Adopt(t.Context(), log, fresh.Driver, key, storage.NodeID{}), "", replica.ErrUsed)
	fresh.Close()

	other := t.TempDir()
	for i, at := range []place{onDisk(dir), onDisk(other)} {
		local, err := at()
		if err != nil {
			t.Fatal(err)
		}
		node, err := clustertest.OpenReplica(t.Context(), tables.Open(), local, replica.Options{KeyFingerprint: key})
		if err != nil {
			t.Fatal(err)
		}
		mustVerify(t, node, l.ID, 2+i)
		mustAppend(t, l, node, add("node"))
		node.Close()
	}
	d = openFolder(t, other, true)
	after := contentOf(t, d.Driver)
	wantErrors(t, before.Compare(&after), "ends with revision 2", move.ErrDiffers)
	c, err := d.Copy()
	if err == nil {
		err = c.Release(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	d.Close()
	_, err = pebble.Open(other, pebble.Options{Copy: true})
	wantErrors(t, err, "not a copy", kv.ErrNoCopy)
	d = openFolder(t, other, false)
	defer d.Close()
	if own := contentOf(t, d.Driver); own.At.Sequence != 0 || own.State != after.State || after.Compare(&own) != nil {
		t.Errorf("a released copy has %+v, expected %+v", own, after)
	}
	mustAppend(t, l, d, add("own"), secret("kept", "new"))
}

// unrestorable is a log that cannot be restored, for example because its disk is full.
type unrestorable struct{ sharedlog.Log }

// TestMoveAgain makes a folder what it was after the log could not take its state, writes to
// it, and moves it again. What the first attempt has left in the log is not used.
func TestMoveAgain(t *testing.T) {
	t.Parallel()
	dir, tables, key := t.TempDir(), memorylog.New(), storage.Hash{}
	log := tables.Open()
	defer log.Close()
	d := openFolder(t, dir, false)
	l := newStore(t, d, 1)
	for i := range 2 {
		mustAppend(t, l, d, add("0"), secret("kept", "body"))
		if err := replica.Adopt(t.Context(), log, d.Driver, key, storage.NodeID{}); err != nil {
			t.Fatal(err)
		}
		if i == 1 {
			break
		}
		if err := log.PutSnapshot(t.Context(), sharedlog.Position{Sequence: 1}, parts("of an attempt")); err != nil {
			t.Fatal(err)
		}
		if _, err := replica.Heal(t.Context(), unrestorable{log}, d, key, false); err == nil {
			t.Fatal("a log that cannot be restored was")
		}
		c, err := d.Copy()
		if err == nil {
			err = c.Release(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		d.Close()
		d = openFolder(t, dir, false)
	}
	want := contentOf(t, d.Driver)
	if _, err := replica.Heal(t.Context(), log, d, key, false); err != nil {
		t.Fatal(err)
	}
	d.Close()
	other := t.TempDir()
	mustOpen(t, tables, onDisk(other)).Close()
	local := openFolder(t, other, true)
	defer local.Close()
	if have := contentOf(t, local.Driver); want.Compare(&have) != nil || have.Stores[l.ID].Head.Revision != 2 {
		t.Errorf("a new node has %+v, expected %+v", have, want)
	}
}

// parts returns a sequence of one part.
func parts(text string) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) { yield([]byte(text), nil) }
}

// TestMoved lets no node start on a log that was moved, until it is used again.
func TestMoved(t *testing.T) {
	t.Parallel()
	tables, at := memorylog.New(), onDisk(t.TempDir())
	mustOpen(t, tables, at).Close()
	log := tables.Open()
	defer log.Close()
	if err := move.SetMoved(t.Context(), log, true); err != nil {
		t.Fatal(err)
	}
	_, err := open(t.Context(), tables, at)
	wantErrors(t, err, "", sharedlog.ErrMoved)
	if err := move.SetMoved(t.Context(), log, false); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, tables, at).Close()
}

// TestMirror copies a log whose node runs, with secrets, deleted stores and trims, takes the
// role of the node that writes, and copies the rest. Copies of both are the same.
func TestMirror(t *testing.T) {
	t.Parallel()
	tables, target := memorylog.New(), memorylog.New()
	from, to := tables.Open(), target.Open()
	defer from.Close()
	defer to.Close()
	d := mustOpen(t, tables, inMemory())
	defer d.Close()
	l, gone := newStore(t, d, 1), newStore(t, d, 2)
	mustAppend(t, gone, d, secret("other", "body"))
	mustAppend(t, l, d, add("0"), secret("replaced", "old"), secret("removed", "old"))
	mirror := func() sharedlog.Position {
		t.Helper()
		at, err := replica.Mirror(t.Context(), from, to, func(uint64) {})
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	mirror()
	mustAppend(t, l, d, secret("replaced", "new"), storage.Change{Kind: storage.SecretRemove, Document: storage.Document{Kind: "kind", Key: "removed"}})
	mustAppend(t, l, d, secret("replaced", "newest"))
	if err := d.DeleteStore(t.Context(), gone.ID); err != nil {
		t.Fatal(err)
	}
	if err := d.Trim(t.Context(), l.ID, 2, 2); err != nil {
		t.Fatal(err)
	}
	fence, err := move.TakeFence(t.Context(), from)
	if err != nil {
		t.Fatal(err)
	}
	if same, err := fence.Holds(t.Context(), from); err != nil || !same {
		t.Errorf("the log does not have the lease of the fence, error %v", err)
	}
	if same, err := fence.Holds(t.Context(), to); err != nil || same {
		t.Errorf("another log has the lease of the fence, error %v", err)
	}
	last := mirror()
	if head, err := from.Head(t.Context()); err != nil || head != last {
		t.Errorf("mirrored up to %s, expected %s, error %v", last, head, err)
	}
	cluster, err := from.Cluster(t.Context())
	if err == nil {
		err = to.SwapCluster(t.Context(), sharedlog.Cluster{}, cluster)
	}
	if err != nil {
		t.Fatal(err)
	}
	var contents [2]move.Content
	for i, tables := range []*memorylog.Tables{tables, target} {
		dir := t.TempDir()
		mustOpen(t, tables, onDisk(dir)).Close()
		local := openFolder(t, dir, true)
		contents[i] = contentOf(t, local.Driver)
		local.Close()
	}
	if err := contents[0].Compare(&contents[1]); err != nil || contents[1].Secrets != 1 || len(contents[1].Stores) != 1 {
		t.Errorf("the copies: %v; %+v", err, contents[1])
	}
}
