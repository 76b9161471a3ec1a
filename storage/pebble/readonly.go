package pebble

import (
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
)

// errReadOnly is the error of a write to a folder that was opened with Options.ReadOnly.
var errReadOnly = fmt.Errorf("%w: the data folder is open for reads only", storage.ErrNotHolder)

// openReadOnly opens the database in a folder without writing to the folder. It locks the
// folder itself, not the file LOCK, which it would have to make.
func openReadOnly(f folder, g *guard, opts Options) (_ *Driver, err error) {
	m, found, err := f.read()
	switch {
	case err != nil:
		return nil, err
	case !found || m.state == creating:
		return nil, fmt.Errorf("%w: %s is no data folder that is complete, and it is opened for reads only", storage.ErrFormat, f.dir)
	case m.format < folderFormat:
		return nil, fmt.Errorf("%w: the data folder has format %d, and this version must upgrade it to %d, which needs writes: open it once for reads and writes", storage.ErrFormat, m.format, folderFormat)
	}
	lock, err := f.lockDir()
	if err != nil {
		return nil, err
	}
	settings := pebbleOptions(&guardedFS{readOnlyFS{f.fs}, g, f.path(pebbleName)}, m, g, opts)
	settings.ReadOnly = true
	db, err := pebble.Open(f.path(pebbleName), settings)
	if err != nil {
		lock.Close()
		return nil, classifyOpen(err)
	}
	s := &store{db: db, write: pebble.NoSync, guard: g, readOnly: true}
	s.closing = func() error {
		err := classify(db.Close())
		lock.Close()
		return err
	}
	err = checkWitness(s, m)
	var under *kv.Driver
	if err == nil {
		under, err = kv.New(s, kv.Options{MustExist: true, Copy: opts.Copy})
	}
	if err != nil {
		s.closing()
		return nil, err
	}
	g.startBlocking()
	return &Driver{under, db, f.fs, g}, nil
}

// readOnlyFS is a file system on which Pebble's own lock is not made.
type readOnlyFS struct{ vfs.FS }

// Lock returns a lock of nothing.
func (readOnlyFS) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }
