package sim

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ostiary/ostiary/internal/cluster/replica"
	"github.com/ostiary/ostiary/storage/kv"
	"github.com/ostiary/ostiary/storage/memory"
	"github.com/ostiary/ostiary/storage/pebble"
)

// errFull is the error of a write to a full disk.
var errFull = errors.New("no space left on the disk")

// medium is the local disk of a node.
type medium interface {
	// open opens the copy on the disk.
	open() (replica.Local, error)
	// fill makes writes and syncs fail, or work again.
	fill(full bool)
	// crashed returns the disk after the end of the process. With lost, the machine has
	// crashed too, and a random part of what was not synced is gone.
	crashed(lost bool, random func(n int) int) medium
}

// disk is a disk that most runs use: a store in RAM that knows what of it would survive
// a crash of the machine. It never waits, because the product holds locks while it uses
// a disk, and virtual time does not go on while a goroutine waits for a lock.
type disk struct {
	*memory.Store
	full atomic.Bool // writes and syncs fail

	mu sync.Mutex
	// versions are what a crash can leave: the data at the last sync, and after each
	// commit since.
	versions []*memory.Store
}

var _ kv.Syncer = (*disk)(nil)

func newDisk(content *memory.Store) *disk {
	return &disk{Store: content, versions: []*memory.Store{content.Clone()}}
}

func (d *disk) open() (replica.Local, error) { return kv.New(d, kv.Options{Copy: true}) }

func (d *disk) fill(full bool) { d.full.Store(full) }

// Batch implements [kv.Store].
func (d *disk) Batch() kv.Batch { return &diskBatch{d.Store.Batch(), d} }

// Sync implements [kv.Syncer].
func (d *disk) Sync() error {
	if d.full.Load() {
		return errFull
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.versions = append(d.versions[:0], d.versions[len(d.versions)-1])
	return nil
}

func (d *disk) crashed(lost bool, random func(n int) int) medium {
	d.mu.Lock()
	defer d.mu.Unlock()
	last := len(d.versions) - 1
	if lost {
		last = random(last + 1)
	}
	return newDisk(d.versions[last].Clone())
}

// folder is a disk with Pebble on a file system in RAM, which some runs use. It is never
// full.
type folder struct{ fs *vfs.MemFS }

func newFolder() folder { return folder{vfs.NewCrashableMem()} }

func (f folder) open() (replica.Local, error) {
	return pebble.Open("data", pebble.Options{FS: f.fs, Copy: true, NoSync: true, MemTableBytes: 64 << 10, CacheBytes: 1 << 20})
}

func (folder) fill(bool) {}

func (f folder) crashed(lost bool, random func(n int) int) medium {
	percent := 100
	if lost {
		percent = random(101)
	}
	seed := uint64(random(1 << 30))
	return folder{f.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(seed, 1))})}
}

// diskBatch is a batch of a disk.
type diskBatch struct {
	kv.Batch
	disk *disk
}

func (b *diskBatch) Commit() error {
	d := b.disk
	if d.full.Load() {
		return errFull
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := b.Batch.Commit(); err != nil {
		return err
	}
	d.versions = append(d.versions, d.Store.Clone())
	return nil
}
