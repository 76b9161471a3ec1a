// Package pebble keeps stores on disk: storage/kv over Pebble, an embedded
// ordered key-value store. Its main type is Driver. It knows files, syncs, locks
// and damage; the layout of keys is storage/kv's.
package pebble

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
)

// Options of Open. The zero value keeps data safe on the local disk.
type Options struct {
	// FS is the file system; default the operating system's.
	FS vfs.FS
	// CacheBytes bounds the memory for blocks read from disk; default 32 MiB.
	CacheBytes int64
	// MemTableBytes is the size at which recent writes go from memory to a sorted
	// file; up to four such tables live at a time. Default 32 MiB.
	MemTableBytes int64
	// NoSync acknowledges a write before it is on disk: a crash of the machine
	// may lose the last ones, whole and from the end. Default: every Append waits
	// for the disk.
	NoSync bool
	// Logf receives Pebble's own messages; default none.
	Logf func(format string, args ...any)
}

const (
	cacheBytesDefault    = 32 << 20
	memTableBytesDefault = 32 << 20
	// pebbleFormat pins the format of Pebble's files, so that a build with a newer
	// Pebble does not change a folder unasked.
	pebbleFormat = pebble.FormatWALSyncChunks
)

// Driver is a storage.Driver on a data folder. It is also a storage.Joiner, of
// a *pebble.Batch of the same database, a storage.Backuper and a
// storage.Notifier.
type Driver struct {
	*kv.Driver
	db    *pebble.DB
	fs    vfs.FS
	guard *guard
}

var (
	_ storage.Driver   = (*Driver)(nil)
	_ storage.Joiner   = (*Driver)(nil)
	_ storage.Backuper = (*Driver)(nil)
)

// Open opens the data folder dir, creating it if it is absent or empty. A
// folder of something else, or of a newer format, is ErrFormat and is left
// untouched; one in use is ErrLocked; one whose files are cut or altered is
// ErrDamaged, here or when the altered part is read. Of a folder that was not
// closed (a crash) the end of the write-ahead log may be missing unnoticed.
//
// Open starts Pebble's background goroutines; Close ends them.
func Open(dir string, opts Options) (*Driver, error) {
	d, err := open(dir, opts)
	if err != nil {
		return nil, fmt.Errorf("open data folder %s: %w", dir, err)
	}
	return d, nil
}

func open(dir string, opts Options) (_ *Driver, err error) {
	g := &guard{logf: opts.Logf}
	f := folder{opts.FS, dir}
	if f.fs == nil {
		f.fs = vfs.Default
	}
	if _, _, err := f.read(); err != nil {
		return nil, err
	}
	if err := f.make(); err != nil {
		return nil, err
	}
	lock, err := f.lock()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			lock.Close()
		}
	}()
	m, found, err := f.read()
	if err != nil {
		return nil, err
	}
	if !found {
		m = marker{condition: creating}
		if err := f.write(m); err != nil {
			return nil, err
		}
	}
	return openPebble(f, m, lock, g, opts)
}

func openPebble(f folder, m marker, lock io.Closer, g *guard, opts Options) (*Driver, error) {
	db, err := pebble.Open(f.path(pebbleName), pebbleOptions(&fuse{f.fs, g, f.path(pebbleName)}, m, g, opts))
	if blown := g.reading(); err != nil || blown != nil {
		if err == nil {
			db.Close()
		}
		if blown != nil {
			return nil, blown
		}
		return nil, namedOpening(err)
	}
	s := &store{db: db, write: pebble.Sync, guard: g}
	if opts.NoSync {
		s.write = pebble.NoSync
	}
	s.closing = func() error { return closePebble(f, s, lock) }
	fail := func(err error) (*Driver, error) {
		db.Close()
		return nil, err
	}
	if err := checkWitness(s, m); err != nil {
		return fail(err)
	}
	under, err := kv.New(s, kv.Options{MustExist: m.condition != creating})
	if err != nil {
		return fail(err)
	}
	if m.condition != opened {
		if err := f.write(marker{condition: opened}); err != nil {
			return fail(err)
		}
	}
	if err := g.reading(); err != nil { // Pebble said nothing of it
		return fail(err)
	}
	g.opened()
	return &Driver{under, db, f.fs, g}, nil
}

// New returns a driver on the embedder's own database, which must have Pebble's
// default comparer, under a prefix of keys that nobody else uses; Close leaves
// the database open. What Pebble regards as fatal stays with the embedder's
// logger.
func New(db *pebble.DB, prefix []byte) (*Driver, error) {
	g := &guard{}
	under, err := kv.New(&store{db: db, write: pebble.Sync, guard: g}, kv.Options{Prefix: prefix})
	if err != nil {
		return nil, fmt.Errorf("open in the embedder's database: %w", err)
	}
	return &Driver{under, db, vfs.Default, g}, nil
}

// Failed is the ErrFailed that every call returns since a write to the folder
// failed, or nil. It costs next to nothing.
func (d *Driver) Failed() error { return d.guard.reading() }

func pebbleOptions(fs vfs.FS, m marker, g *guard, opts Options) *pebble.Options {
	o := &pebble.Options{
		FS:                          fs,
		FormatMajorVersion:          pebbleFormat,
		ErrorIfNotExists:            m.condition != creating,
		CacheSize:                   orDefault(opts.CacheBytes, cacheBytesDefault),
		MemTableSize:                uint64(orDefault(opts.MemTableBytes, memTableBytesDefault)),
		MemTableStopWritesThreshold: 4,
		L0CompactionThreshold:       4,
		L0StopWritesThreshold:       1000,
		LBaseMaxBytes:               64 << 20,
		CompactionConcurrencyRange:  func() (int, int) { return 1, 2 },
		WALBytesPerSync:             1 << 20,
		Logger:                      g,
		EventListener:               g.listener(),
	}
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		o.Levels[i].BlockSize = 16 << 10
		o.Levels[i].IndexBlockSize = 64 << 10
		o.Levels[i].Compression = func() *sstable.CompressionProfile { return sstable.SnappyCompression }
	}
	// What comes from memory is soon merged into the levels below: to compress it
	// for so short a time costs an import a tenth of its work.
	o.Levels[0].Compression = func() *sstable.CompressionProfile { return sstable.NoCompression }
	return o
}

func orDefault(n, otherwise int64) int64 {
	if n <= 0 {
		return otherwise
	}
	return n
}

// witnessKey lies behind all keys of kv's.
func witnessKey() []byte { return []byte{0xff, 'w'} }

// checkWitness compares what a folder that was closed must hold at its end.
func checkWitness(s *store, m marker) error {
	if m.condition != closed {
		return nil
	}
	v, found, err := s.Get(witnessKey(), nil)
	if err != nil {
		return err
	}
	if !found || string(v) != m.witness {
		return fmt.Errorf("%w: the newest data are missing", storage.ErrDamaged)
	}
	return nil
}

// closePebble leaves the folder as closed if all went well, and lets it go.
func closePebble(f folder, s *store, lock io.Closer) error {
	err := s.guard.writing()
	if err == nil {
		err = leaveWitness(f, s)
	}
	s.guard.closing()
	if closing := s.db.Close(); err == nil {
		err = named(closing)
	}
	if unlocking := lock.Close(); err == nil {
		err = unlocking
	}
	return err
}

func leaveWitness(f folder, s *store) error {
	var word [16]byte
	rand.Read(word[:])
	witness := hex.EncodeToString(word[:])
	if err := s.db.Set(witnessKey(), []byte(witness), pebble.Sync); err != nil {
		return named(err)
	}
	if err := s.guard.reading(); err != nil {
		return err
	}
	return f.write(marker{closed, witness})
}

// Batch returns a new batch of the driver's database, to be used with AppendTo
// and committed and closed by the caller.
func (d *Driver) Batch() *pebble.Batch { return d.db.NewBatch() }

// Backup writes a consistent copy, which Open opens, into dir, which must be
// absent or empty. Its marker comes last, so that half a backup is refused. It
// is durable when Backup returns, and costs little where files can be linked.
func (d *Driver) Backup(ctx context.Context, dir string) error {
	done, err := d.Begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	if err := d.guard.writing(); err != nil {
		return err
	}
	if err := d.backup(dir); err != nil {
		return fmt.Errorf("back up into %s: %w", dir, err)
	}
	return nil
}

func (d *Driver) backup(dir string) error {
	f := folder{d.fs, dir}
	if names, err := f.fs.List(dir); err == nil && len(names) > 0 {
		return fmt.Errorf("%w: the folder is not empty", storage.ErrExists)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := f.make(); err != nil {
		return err
	}
	if err := d.db.Checkpoint(f.path(pebbleName), pebble.WithFlushedWAL()); err != nil {
		return named(err)
	}
	if err := d.guard.reading(); err != nil { // Pebble said nothing of it
		return err
	}
	return f.write(marker{condition: opened})
}

// namedOpening names what keeps Pebble from opening a folder that carries our
// marker: an error of the operating system, a folder in use, or damage.
func namedOpening(err error) error {
	var number syscall.Errno
	switch {
	case errors.Is(err, storage.ErrDamaged), pebble.IsCorruptionError(err):
		return named(err)
	case errors.Is(err, fs.ErrNotExist), !errors.As(err, &number):
		return fmt.Errorf("%w: %w", storage.ErrDamaged, err)
	}
	return err
}
