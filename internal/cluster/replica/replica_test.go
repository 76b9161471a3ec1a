package replica_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/ostiary/ostiary/internal/cluster/clustertest"
	"github.com/ostiary/ostiary/internal/cluster/replica"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog/memorylog"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
	"github.com/ostiary/ostiary/storage/memory"
	"github.com/ostiary/ostiary/storage/pebble"
	"github.com/ostiary/ostiary/storage/storagetest"
)

// place is where a copy is, for several openings.
type place func() (replica.Local, error)

// inMemory returns the place of a new copy in memory.
func inMemory() place {
	store := memory.NewStore()
	return func() (replica.Local, error) { return kv.New(store, kv.Options{Copy: true}) }
}

// onDisk returns the place of a new copy in a folder.
func onDisk(dir string) place {
	return func() (replica.Local, error) {
		return pebble.Open(dir, pebble.Options{Copy: true, NoSync: true})
	}
}

// open opens a replica.
func open(ctx context.Context, tables *memorylog.Tables, at place) (*clustertest.Replica, error) {
	local, err := at()
	if err != nil {
		return nil, err
	}
	return clustertest.OpenReplica(ctx, tables.Open(), local, replica.Options{})
}

// mustOpen opens a replica that is closed with the test.
func mustOpen(t testing.TB, tables *memorylog.Tables, at place) *clustertest.Replica {
	t.Helper()
	d, err := open(t.Context(), tables, at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func TestDriver(t *testing.T) {
	t.Parallel()
	for name, newPlace := range map[string]func(t *testing.T) place{
		"memory": func(*testing.T) place { return inMemory() },
		"pebble": func(t *testing.T) place { return onDisk(t.TempDir()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storagetest.Run(t, func(t *testing.T) storagetest.Opener {
				tables, at := memorylog.New(), newPlace(t)
				return func() (storage.Driver, error) { return open(context.Background(), tables, at) }
			})
		})
	}
}

// TestTurns runs the suite on two and three replicas of one log that are used in
// turns.
func TestTurns(t *testing.T) {
	t.Parallel()
	for name, newPlaces := range map[string]func(t *testing.T) []place{
		"two in memory":     func(*testing.T) []place { return []place{inMemory(), inMemory()} },
		"three in memory":   func(*testing.T) []place { return []place{inMemory(), inMemory(), inMemory()} },
		"pebble and memory": func(t *testing.T) []place { return []place{onDisk(t.TempDir()), inMemory()} },
		"three on disk": func(t *testing.T) []place {
			dir := t.TempDir()
			return []place{onDisk(filepath.Join(dir, "1")), onDisk(filepath.Join(dir, "2")), onDisk(filepath.Join(dir, "3"))}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storagetest.Run(t, func(t *testing.T) storagetest.Opener {
				tables, places := memorylog.New(), newPlaces(t)
				return func() (storage.Driver, error) {
					d := &inTurns{}
					for _, at := range places {
						one, err := open(context.Background(), tables, at)
						if err != nil {
							return nil, errors.Join(err, d.Close())
						}
						d.all = append(d.all, one)
					}
					return d, nil
				}
			})
		})
	}
}

// inTurns is a driver that gives each call to the next of several replicas. A replica
// confirms that it has everything before it reads.
type inTurns struct {
	all   []*clustertest.Replica
	calls atomic.Uint64
}

func (d *inTurns) next(ctx context.Context) *clustertest.Replica {
	one := d.all[d.calls.Add(1)%uint64(len(d.all))]
	_ = one.Confirm(ctx) // the call has the same error
	return one
}

// writer returns the next replica, which may be behind the one before.
func (d *inTurns) writer() *clustertest.Replica { return d.all[d.calls.Add(1)%uint64(len(d.all))] }

func (d *inTurns) Format(ctx context.Context) (int, error) { return d.next(ctx).Format(ctx) }
func (d *inTurns) CreateStore(ctx context.Context, info storage.StoreInfo) error {
	return d.followed(ctx, d.writer().CreateStore(ctx, info))
}
func (d *inTurns) UpdateStore(ctx context.Context, old, info storage.StoreInfo) error {
	return d.followed(ctx, d.writer().UpdateStore(ctx, old, info))
}
func (d *inTurns) DeleteStore(ctx context.Context, id storage.StoreID) error {
	return d.followed(ctx, d.writer().DeleteStore(ctx, id))
}

// followed returns err when the first replica, whose CatalogChanges, Creations and Notify
// are used, has followed.
func (d *inTurns) followed(ctx context.Context, err error) error {
	if err == nil {
		err = d.all[0].Confirm(ctx)
	}
	return err
}
func (d *inTurns) CatalogChanges() *atomic.Uint64 { return d.all[0].CatalogChanges() }
func (d *inTurns) Creations() *atomic.Uint64      { return d.all[0].Creations() }
func (d *inTurns) CountStores(ctx context.Context) (int, error) {
	return d.next(ctx).CountStores(ctx)
}
func (d *inTurns) Notify(ctx context.Context, own storage.WriterID) <-chan storage.StoreID {
	return d.all[0].Notify(ctx, own)
}
func (d *inTurns) EntryHead(ctx context.Context, id storage.StoreID, at storage.Revision) (storage.Entry, error) {
	return d.next(ctx).EntryHead(ctx, id, at)
}
func (d *inTurns) Store(ctx context.Context, id storage.StoreID) (storage.StoreInfo, error) {
	return d.next(ctx).Store(ctx, id)
}
func (d *inTurns) StoreByAlias(ctx context.Context, door, alias string) (storage.StoreInfo, error) {
	return d.next(ctx).StoreByAlias(ctx, door, alias)
}
func (d *inTurns) Stores(ctx context.Context, after storage.StoreID) iter.Seq2[storage.StoreInfo, error] {
	return d.next(ctx).Stores(ctx, after)
}
func (d *inTurns) StoresByAlias(ctx context.Context, door, after string) iter.Seq2[storage.StoreInfo, error] {
	return d.next(ctx).StoresByAlias(ctx, door, after)
}
func (d *inTurns) StoresByName(ctx context.Context, name string, after storage.StoreID) iter.Seq2[storage.StoreInfo, error] {
	return d.next(ctx).StoresByName(ctx, name, after)
}
func (d *inTurns) Head(ctx context.Context, id storage.StoreID) (storage.Head, error) {
	return d.next(ctx).Head(ctx, id)
}
func (d *inTurns) Append(ctx context.Context, id storage.StoreID, after storage.Head, entries []storage.Entry, sealed []storage.Sealed) (storage.Head, error) {
	return d.writer().Append(ctx, id, after, entries, sealed)
}
func (d *inTurns) Entries(ctx context.Context, id storage.StoreID, from storage.Revision) iter.Seq2[storage.Entry, error] {
	return d.next(ctx).Entries(ctx, id, from)
}
func (d *inTurns) Load(ctx context.Context, id storage.StoreID, opts storage.LoadOptions) (storage.State, error) {
	return d.next(ctx).Load(ctx, id, opts)
}
func (d *inTurns) Rows(ctx context.Context, id storage.StoreID, keys []rel.Key) ([]storage.TupleRow, error) {
	return d.next(ctx).Rows(ctx, id, keys)
}
func (d *inTurns) Document(ctx context.Context, id storage.StoreID, kind, key string) (storage.Document, error) {
	return d.next(ctx).Document(ctx, id, kind, key)
}
func (d *inTurns) DocumentsBy(ctx context.Context, id storage.StoreID, kind, secondary string) iter.Seq2[storage.Document, error] {
	return d.next(ctx).DocumentsBy(ctx, id, kind, secondary)
}
func (d *inTurns) Secret(ctx context.Context, id storage.StoreID, kind, key string) (storage.Document, error) {
	return d.next(ctx).Secret(ctx, id, kind, key)
}
func (d *inTurns) Trim(ctx context.Context, id storage.StoreID, log, rows storage.Revision) error {
	return d.writer().Trim(ctx, id, log, rows)
}
func (d *inTurns) Oldest(ctx context.Context, id storage.StoreID) (log, rows storage.Revision, err error) {
	return d.next(ctx).Oldest(ctx, id)
}

func (d *inTurns) Close() error {
	var all error
	for i, one := range d.all {
		if err := one.Close(); err != nil {
			all = errors.Join(all, fmt.Errorf("replica %d: %w", i, err))
		}
	}
	return all
}
