package pebble_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/pebble"
	"github.com/ostiary/ostiary/storage/storagetest"
)

// Adding and removing many tuples does not make the folder grow, if the log and
// the removed rows are trimmed regularly. With OSTIARY_WORLDS=20 the test writes
// and removes forty times as many tuples as it keeps.
func TestChurnIsReclaimed(t *testing.T) {
	t.Parallel()
	const live, each = 20_000, 1_000
	tuple := func(kind string, i int) rel.Tuple {
		return rel.Tuple{
			Object: rel.Object{Type: "doc", ID: fmt.Sprintf("%s-%08d-%08x", kind, i, uint32(i)*2654435761)}, Relation: "viewer",
			Subject: rel.Subject{Type: "user", ID: fmt.Sprintf("user-%08x", uint32(i)*40503)},
		}
	}
	fill := func(dir string, rounds int) int64 {
		d, err := pebble.Open(dir, pebble.Options{NoSync: true, MemTableBytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		l := storagetest.NewLog(1)
		if err := d.CreateStore(t.Context(), storage.StoreInfo{ID: l.ID, Incarnation: l.Incarnation}); err != nil {
			t.Fatal(err)
		}
		write := func(kind storage.ChangeKind, name string, from, to int) {
			var changes []storage.Change
			for i := from; i < to; i++ {
				changes = append(changes, storage.Change{Kind: kind, Tuple: tuple(name, i)})
			}
			if err := l.Append(t.Context(), d, changes...); err != nil {
				t.Fatal(err)
			}
		}
		for i := 0; i < live; i += each {
			write(storage.TupleAdd, "stays", i, i+each)
		}
		for r := range rounds {
			write(storage.TupleAdd, "goes", r*each, (r+1)*each)
			if r >= 4 {
				write(storage.TupleRemove, "goes", (r-4)*each, (r-3)*each)
			}
			if r%10 == 9 {
				if err := d.Trim(t.Context(), l.ID, l.Head.Revision-8, l.Head.Revision-8); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := d.Trim(t.Context(), l.ID, l.Head.Revision, l.Head.Revision); err != nil {
			t.Fatal(err)
		}
		n := 0
		st, err := d.Load(t.Context(), l.ID, storage.LoadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range st.Tuples {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
		if want := live + min(rounds, 4)*each; n != want {
			t.Errorf("%d live tuples after %d rounds, want %d", n, rounds, want)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		return tableBytes(t, dir)
	}
	fresh := fill(t.TempDir(), 4)
	churned := fill(t.TempDir(), 40*worlds(t))
	t.Logf("tables: %d bytes fresh, %d bytes after churn", fresh, churned)
	if churned > fresh*3/2+(4<<20) {
		t.Errorf("the folder grew from %d to %d bytes", fresh, churned)
	}
}

// tableBytes returns the size of the sorted tables in a folder. It leaves out the
// write-ahead logs, whose size is limited by that of the memtables.
func tableBytes(t *testing.T, dir string) (n int64) {
	t.Helper()
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err == nil && filepath.Ext(path) == ".sst" {
			n += info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
