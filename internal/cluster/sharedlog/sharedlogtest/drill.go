package sharedlogtest

import (
	"context"
	"crypto/sha256"
	"errors"
	"testing"

	"github.com/ostiary/ostiary/internal/cluster/clustertest"
	"github.com/ostiary/ostiary/internal/cluster/replica"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
	"github.com/ostiary/ostiary/storage/memory"
	"github.com/ostiary/ostiary/storage/storagetest"
)

// Drill restores a backup of a database that is older than what was written, as an
// operator does. The node notices it and does not serve; its copy heals the log; the node
// and a new one have everything and write on. backup makes a backup of the database of a
// URL, and returns what restores it into a new database.
func Drill(t *testing.T, url string, open func(ctx context.Context, url string) (sharedlog.Log, error), backup func(url string) (restore func() string)) {
	ctx := t.Context()
	copied := memory.NewStore()
	local := func(store *memory.Store) replica.Local {
		l, err := kv.New(store, kv.Options{Copy: true})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	start := func(url string, store *memory.Store) (*clustertest.Replica, error) {
		log, err := open(ctx, url)
		if err != nil {
			t.Fatal(err)
		}
		return clustertest.OpenReplica(ctx, log, local(store), replica.Options{})
	}
	l := storagetest.NewLog(1)
	write := func(d *clustertest.Replica, name string) {
		t.Helper()
		body := []byte("secret " + name)
		changes := []storage.Change{
			{Kind: storage.TupleAdd, Tuple: rel.Tuple{Object: rel.Object{Type: "doc", ID: name}, Relation: "viewer", Subject: rel.Subject{Type: "user", ID: "anne"}}},
			{Kind: storage.SecretPut, Document: storage.Document{Kind: "kind", Key: "key", Body: body, Digest: sha256.Sum256(body)}},
		}
		if err := l.Append(ctx, d, changes...); err != nil {
			t.Fatal(err)
		}
	}
	verify := func(d *clustertest.Replica, entries int, name string) {
		t.Helper()
		log, err := storagetest.Verify(ctx, d, l.ID)
		if err != nil || len(log) != entries {
			t.Errorf("the store has %d entries, error %v, want %d", len(log), err, entries)
		}
		if doc, err := d.Secret(ctx, l.ID, "kind", "key"); err != nil || string(doc.Body) != "secret "+name {
			t.Errorf("the secret is %q, error %v, want that of %s", doc.Body, err, name)
		}
	}
	d, err := start(url, copied)
	if err == nil {
		err = d.CreateStore(ctx, storage.StoreInfo{ID: l.ID, Incarnation: l.Incarnation, Name: "drill"})
	}
	if err != nil {
		t.Fatal(err)
	}
	write(d, "before")
	restore := backup(url)
	write(d, "lost 1")
	write(d, "lost 2")
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	restored := restore()
	if d, err := start(restored, copied); !errors.Is(err, storage.ErrHistory) {
		if err == nil {
			d.Close()
		}
		t.Fatalf("a node on a restored database: error %v, expected storage.ErrHistory", err)
	}
	log, err := open(ctx, restored)
	if err != nil {
		t.Fatal(err)
	}
	h, err := replica.Heal(ctx, log, local(copied), storage.Hash{}, true)
	log.Close()
	if err != nil || h.Has.Sequence != h.Had.Sequence+2 {
		t.Fatalf("healed %+v, error %v, want 2 segments", h, err)
	}
	d, err = start(restored, copied)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	verify(d, 3, "lost 2")
	write(d, "after")
	fresh, err := start(restored, memory.NewStore())
	if err != nil {
		t.Fatal(err)
	}
	defer fresh.Close()
	verify(fresh, 4, "after")
}
