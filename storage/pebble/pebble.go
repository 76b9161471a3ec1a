// Package pebble keeps stores on disk, in Pebble, an embedded ordered key-value
// store. Its main type is [Driver], which [Open] returns for a data folder and
// [New] for a database of the embedding program. The package is responsible for
// files, durability, locks and failing disks. It does not define the layout of
// keys and values: package kv does.
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

// Options are the options of [Open]. With the zero value, every write is on the
// local disk before it is acknowledged.
type Options struct {
	// FS is the file system. The default is that of the operating system.
	FS vfs.FS
	// CacheBytes is the size of the cache for blocks of files, in bytes. The default
	// is 32 MiB.
	CacheBytes int64
	// MemTableBytes is the size in bytes at which recent writes are flushed from
	// memory to a sorted file. Up to four such tables are in memory at a time. The
	// default is 32 MiB.
	MemTableBytes int64
	// NoSync acknowledges a write before it is on disk. A crash of the machine can
	// then lose the newest entries, but never a part of an entry. By default every
	// Append waits for the disk. The driver looks before every 16th write only whether
	// the folder is still the one that it opened; see [ErrReplaced].
	NoSync bool
	// Copy opens a copy of a log that several nodes share, for package replica. The
	// folder of a copy can be opened only with Copy, and other folders only without it.
	// The log has every write, so NoSync is usual for a copy.
	Copy bool
	// ReadOnly opens an existing folder without a change of it, also on a disk that is full or
	// read-only: it makes no file, and each write fails with [storage.ErrNotHolder]. It fails
	// with [storage.ErrFormat] for a folder of an older format, which Open would upgrade.
	ReadOnly bool
	// FilesMax bounds the sorted files that are open at a time. The default is
	// 1000, and the smallest value is 16.
	FilesMax int
	// Logf receives the log messages of Pebble. The default is to drop them.
	Logf func(format string, args ...any)
}

const (
	cacheBytesDefault    = 32 << 20
	memTableBytesDefault = 32 << 20
	filesMaxDefault      = 1000
	filesMin             = 16
	// pebbleFormat is the format of Pebble's files. It is fixed, so that a newer
	// version of Pebble does not change the format of existing folders.
	pebbleFormat = pebble.FormatWALSyncChunks
)

// Driver is a [storage.Driver] on a data folder. It is also a [storage.Backuper], and a
// [storage.Joiner] whose transactions are batches of type *pebble.Batch of the same
// database.
type Driver struct {
	*kv.Driver
	db    *pebble.DB
	fs    vfs.FS
	guard *guard // stops all calls after a failed write
}

var (
	_ storage.Driver   = (*Driver)(nil)
	_ storage.Joiner   = (*Driver)(nil)
	_ storage.Backuper = (*Driver)(nil)
)

// Open opens the data folder dir. It creates the folder if it is missing or empty.
// It fails with
//   - [storage.ErrFormat] if the folder belongs to something else or has a newer
//     format; Open does not change it. A folder of an older format is upgraded in
//     place, and programs for the older format no longer open it;
//   - [storage.ErrLocked] if the folder is in use;
//   - [storage.ErrDamaged] if files are cut or altered. Damage that Open does not
//     read is found when it is read. Open repairs a damaged OPTIONS file of Pebble,
//     which holds no data, and keeps it under another name.
//
// If the folder was not closed, for example because of a crash, Open cannot
// notice that the end of the write-ahead log is missing.
//
// Open starts the background goroutines of Pebble; Close stops them.
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
	if opts.ReadOnly {
		return openReadOnly(f, g, opts)
	}
	if err := f.create(); err != nil {
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
		m = marker{state: creating}
		if err := f.write(m); err != nil {
			return nil, err
		}
	}
	return openPebble(f, m, lock, g, opts)
}

// openPebble opens the database in a folder that is locked and has the marker m.
func openPebble(f folder, m marker, lock io.Closer, g *guard, opts Options) (*Driver, error) {
	settings := pebbleOptions(&guardedFS{f.fs, g, f.path(pebbleName)}, m, g, opts)
	if err := f.replaceSettings(settings, g); err != nil {
		return nil, err
	}
	db, err := pebble.Open(f.path(pebbleName), settings)
	if failure := g.checkRead(); err != nil || failure != nil {
		if err == nil {
			db.Close()
		}
		if failure != nil {
			return nil, failure
		}
		return nil, classifyOpen(err)
	}
	s := &store{db: db, write: pebble.Sync, guard: g}
	s.closing = func() error { return closePebble(f, s, lock) }
	fail := func(err error) (*Driver, error) {
		db.Close()
		return nil, err
	}
	if err := checkWitness(s, m); err != nil {
		return fail(err)
	}
	under, err := kv.New(s, kv.Options{MustExist: m.state != creating, Copy: opts.Copy})
	if err != nil {
		return fail(err)
	}
	if m.state != opened || m.format < folderFormat { // kv.New has upgraded the data
		if err := f.write(marker{state: opened}); err != nil {
			return fail(err)
		}
	}
	if opts.NoSync { // only now: the marker promises what kv.New has written
		s.write = pebble.NoSync
	}
	files, err := f.identify() // after the last write of the marker
	if err != nil {
		return fail(err)
	}
	g.folder.Store(files)
	if err := g.checkRead(); err != nil { // a write failed, and Pebble did not notice
		return fail(err)
	}
	g.startBlocking()
	return &Driver{under, db, f.fs, g}, nil
}

// New returns a driver on a database of the embedding program, which must use
// Pebble's default comparer. All keys of the driver begin with prefix; the
// program must not use such keys. Close leaves the database open. If a write
// fails, Pebble calls Fatalf of the logger of the database, not of this package.
func New(db *pebble.DB, prefix []byte) (*Driver, error) {
	g := &guard{}
	under, err := kv.New(&store{db: db, write: pebble.Sync, guard: g}, kv.Options{Prefix: prefix})
	if err != nil {
		return nil, fmt.Errorf("open in a database of the embedding program: %w", err)
	}
	return &Driver{under, db, vfs.Default, g}, nil
}

// Failed returns nil while the driver works. After a write to the folder failed, or
// after the folder was removed or replaced, it returns the error that every other
// call returns. The error wraps [ErrFailed], and also [ErrReplaced] if the folder
// was removed or replaced. It takes a few microseconds, so it can serve frequent
// health checks.
func (d *Driver) Failed() error { return d.guard.checkFolder() }

func pebbleOptions(fs vfs.FS, m marker, g *guard, opts Options) *pebble.Options {
	o := &pebble.Options{
		Comparer:                    pebble.DefaultComparer,
		Merger:                      pebble.DefaultMerger,
		FS:                          fs,
		FormatMajorVersion:          pebbleFormat,
		ErrorIfNotExists:            m.state != creating,
		CacheSize:                   orDefault(opts.CacheBytes, cacheBytesDefault),
		MemTableSize:                uint64(orDefault(opts.MemTableBytes, memTableBytesDefault)),
		MemTableStopWritesThreshold: 4,
		MaxOpenFiles:                max(int(orDefault(int64(opts.FilesMax), filesMaxDefault)), filesMin),
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
	// Files of level 0 are soon merged into the levels below. Compressing them would
	// cost an import a tenth of its time.
	o.Levels[0].Compression = func() *sstable.CompressionProfile { return sstable.NoCompression }
	return o
}

// orDefault returns n, or otherwise if n is not positive.
func orDefault(n, otherwise int64) int64 {
	if n <= 0 {
		return otherwise
	}
	return n
}

// witnessKey returns the key of the witness. It is above all keys of package kv.
func witnessKey() []byte { return []byte{0xff, 'w'} }

// checkWitness checks that the data contains the witness of the marker. Close
// wrote it last, so if it is missing, newer files were lost or replaced.
func checkWitness(s *store, m marker) error {
	if m.state != closed {
		return nil
	}
	v, found, err := s.Get(witnessKey(), nil)
	if err != nil {
		return err
	}
	if !found || string(v) != m.witness {
		return fmt.Errorf("%w: the newest data is missing: the last record that Close wrote is not in the folder", storage.ErrDamaged)
	}
	return nil
}

// closePebble closes the database and unlocks the folder. If no write failed, it
// marks the folder as closed.
func closePebble(f folder, s *store, lock io.Closer) error {
	err := s.guard.checkWrite()
	if err == nil {
		err = writeWitness(f, s)
	}
	s.guard.stopBlocking()
	if closing := s.db.Close(); err == nil {
		err = classify(closing)
	}
	if unlocking := lock.Close(); err == nil {
		err = unlocking
	}
	return err
}

// writeWitness writes a new witness to the data, and then to the marker.
func writeWitness(f folder, s *store) error {
	var word [16]byte
	rand.Read(word[:])
	witness := hex.EncodeToString(word[:])
	if err := s.db.Set(witnessKey(), []byte(witness), pebble.Sync); err != nil {
		return classify(err)
	}
	if err := s.guard.checkRead(); err != nil {
		return err
	}
	s.guard.folder.Store(nil) // write replaces the marker
	return f.write(marker{state: closed, witness: witness})
}

// Batch returns a new batch of the driver's database, for use with AppendTo. The
// caller must commit and close it.
func (d *Driver) Batch() *pebble.Batch { return d.db.NewBatch() }

// Backup implements [storage.Backuper]. [Open] can open the copy. The marker is
// written last, so Open rejects an incomplete backup. The copy is durable when
// Backup returns. Where the file system supports links, Backup is fast. It fails
// with [storage.ErrExists] if dir is not empty.
func (d *Driver) Backup(ctx context.Context, dir string) error {
	done, err := d.Begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	if err := d.guard.checkWrite(); err != nil {
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
	if err := f.create(); err != nil {
		return err
	}
	if err := d.db.Checkpoint(f.path(pebbleName), pebble.WithFlushedWAL()); err != nil {
		return classify(err)
	}
	if err := d.guard.checkRead(); err != nil { // a write failed, and Pebble did not notice
		return err
	}
	return f.write(marker{state: opened})
}

// classifyOpen adds ErrDamaged to an error of opening the database, unless it is
// an error of the operating system. The folder has a marker, so a missing file is
// damage.
func classifyOpen(err error) error {
	var number syscall.Errno
	switch {
	case errors.Is(err, storage.ErrDamaged), pebble.IsCorruptionError(err):
		return classify(err)
	case errors.Is(err, fs.ErrNotExist), !errors.As(err, &number):
		return fmt.Errorf("%w: %w", storage.ErrDamaged, err)
	}
	return err
}
