package sim

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/ostiary/ostiary/storage/kv"
	"github.com/ostiary/ostiary/storage/memory"
)

// errFull is the error of a write to a full disk.
var errFull = errors.New("no space left on the disk")

// disk is the local disk of a node: a store in RAM that knows what of it would survive
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

// crashed returns the disk after the end of the process. With lost, the machine has
// crashed too, and a random part of what was not synced is gone.
func (d *disk) crashed(lost bool, random func(n int) int) *disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	last := len(d.versions) - 1
	if lost {
		last = random(last + 1)
	}
	return newDisk(d.versions[last].Clone())
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
