package replica_test

import (
	"fmt"
	"testing"

	"github.com/ostiary/ostiary/internal/cluster/replica"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog/memorylog"
	"github.com/ostiary/ostiary/storage"
)

// healed heals a log with the copy of a place.
func healed(t *testing.T, tables *memorylog.Tables, at place, force bool) (replica.Healed, error) {
	t.Helper()
	local, err := at()
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	log := tables.Open()
	defer log.Close()
	return replica.Heal(t.Context(), log, local, storage.Hash{}, force)
}

// TestHeal loses the end of a log, and restores it from the copy of a node, on disk and in
// memory. Old nodes and new ones have everything then, and write on.
func TestHeal(t *testing.T) {
	t.Parallel()
	tables, first, behind := memorylog.New(), onDisk(t.TempDir()), inMemory()
	d, err := open(t.Context(), tables, first)
	if err != nil {
		t.Fatal(err)
	}
	l := newStore(t, d, 1)
	mustAppend(t, l, d, add("0"), secret("replaced", "old"), secret("removed", "old"))
	other, err := open(t.Context(), tables, behind)
	if err != nil {
		t.Fatal(err)
	}
	restore := tables.Backup()
	mustVerify(t, other, l.ID, 1)
	other.Close()
	for i := range 3 {
		mustAppend(t, l, d, add(fmt.Sprint("lost", i)), secret("replaced", fmt.Sprint("new", i)))
	}
	mustAppend(t, l, d, storage.Change{Kind: storage.SecretRemove, Document: storage.Document{Kind: "kind", Key: "removed"}})
	if _, err := healed(t, tables, behind, false); err == nil {
		t.Error("healed a log while a node runs on it")
	} else {
		wantErrors(t, err, "has reported", replica.ErrRuns)
	}
	d.Close()
	if h, err := healed(t, tables, first, false); err != nil || h.Had != h.Has {
		t.Errorf("a log that has lost nothing: %+v, error %v", h, err)
	}
	_, err = healed(t, tables, behind, false)
	wantErrors(t, err, "node", replica.ErrBehind) // another node had more

	restore()
	_, err = open(t.Context(), tables, first)
	wantErrors(t, err, "", storage.ErrHistory)
	_, err = healed(t, tables, inMemory(), true)
	wantErrors(t, err, "empty", replica.ErrBehind)
	h, err := healed(t, tables, first, true)
	if err != nil || h.Has.Sequence != h.Had.Sequence+4 || h.Secrets != 1 {
		t.Fatalf("healed %+v, error %v, want 4 segments and 1 secret", h, err)
	}
	for i, at := range []place{first, behind, inMemory()} {
		d := mustOpen(t, tables, at)
		mustVerify(t, d, l.ID, 5+i)
		if doc, err := d.Secret(t.Context(), l.ID, "kind", "replaced"); err != nil || string(doc.Body) != "new2" {
			t.Errorf("node %d: the secret is %q, error %v", i, doc.Body, err)
		}
		mustAppend(t, l, d, add(fmt.Sprint("after", i)))
	}

	// The whole database is lost.
	d, err = open(t.Context(), tables, inMemory())
	if err != nil {
		t.Fatal(err)
	}
	d.Close()
	empty, last := memorylog.New(), inMemory()
	d = mustOpen(t, tables, last)
	mustVerify(t, d, l.ID, 8)
	d.Close()
	if h, err := healed(t, empty, last, true); err != nil || h.Had.Sequence != 0 {
		t.Fatalf("healed %+v, error %v", h, err)
	}
	d = mustOpen(t, empty, inMemory())
	mustVerify(t, d, l.ID, 8)
	mustAppend(t, l, d, add("on the new one"))
	mustVerify(t, mustOpen(t, empty, last), l.ID, 9)
}

// TestHealRefused requires that a log with other segments, or of another cluster, is left
// as it is.
func TestHealRefused(t *testing.T) {
	t.Parallel()
	tables, at := memorylog.New(), inMemory()
	d, err := open(t.Context(), tables, at)
	if err != nil {
		t.Fatal(err)
	}
	l := newStore(t, d, 1)
	for i := range 3 {
		mustAppend(t, l, d, add(fmt.Sprint(i)))
	}
	d.Close()
	tables.Rewind(2)
	fresh, err := open(t.Context(), tables, inMemory())
	if err != nil {
		t.Fatal(err)
	}
	if l.Head, err = fresh.Head(t.Context(), l.ID); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, l, fresh, add("other"))
	fresh.Close()
	log := tables.Open()
	before, err := log.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = healed(t, tables, at, true)
	wantErrors(t, err, "which the copy does not have", storage.ErrHistory)
	if after, err := log.Head(t.Context()); err != nil || after != before {
		t.Errorf("the head is %s, error %v, expected %s", after, err, before)
	}
	foreign := memorylog.New()
	mustOpen(t, foreign, inMemory()).Close()
	_, err = healed(t, foreign, at, true)
	wantErrors(t, err, "belongs to cluster", replica.ErrCluster)
}
