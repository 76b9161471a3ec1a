package pebble

import (
	"errors"
	"io/fs"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// fuse is the file system that Pebble works on. Pebble answers a failed write
// with a panic, some of them on its own goroutines and with its locks in a
// state that ends the process; or it tidies up, and may delete the very files
// that a half-written manifest record names. So it never learns of one: at the
// first failed change of the folder the guard blows, and from then on changes
// seem to succeed and are not made. The disk stays as the failure left it, as
// after a crash; and since the guard is asked after each commit, nothing that
// happens after it is acknowledged.
type fuse struct {
	vfs.FS
	guard *guard
	dir   string // what lies below it is guarded; a backup's folder does not
}

// change makes a change unless the guard has blown, and blows it if the change
// fails. That a file is not there is an answer and no failure.
func (f *fuse) change(name string, make func() error) error {
	if !strings.HasPrefix(name, f.dir) {
		return make()
	}
	if f.guard.reading() != nil {
		return nil
	}
	err := make()
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f.guard.blow(err)
	return nil
}

// file makes a file like change; the file of a change that was not made is one
// that swallows what is written to it.
func (f *fuse) file(name string, make func() (vfs.File, error)) (vfs.File, error) {
	var file vfs.File
	err := f.change(name, func() (err error) {
		file, err = make()
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case file == nil:
		return hole{f.guard}, nil
	case !strings.HasPrefix(name, f.dir):
		return file, nil
	}
	return &fusedFile{file, f, name}, nil
}

func (f *fuse) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return f.file(name, func() (vfs.File, error) { return f.FS.Create(name, c) })
}

func (f *fuse) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return f.file(name, func() (vfs.File, error) { return f.FS.ReuseForWrite(old, name, c) })
}

func (f *fuse) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return f.file(name, func() (vfs.File, error) { return f.FS.OpenReadWrite(name, c, opts...) })
}

// Open of a file that was not made reads nothing and parks.
func (f *fuse) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	file, err := f.FS.Open(name, opts...)
	if errors.Is(err, fs.ErrNotExist) && f.guard.reading() != nil && strings.HasPrefix(name, f.dir) {
		return nil, f.guard.park()
	}
	return file, err
}

// OpenDir guards the folder's sync; opening it changes nothing.
func (f *fuse) OpenDir(name string) (vfs.File, error) {
	dir, err := f.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &fusedFile{dir, f, name}, nil
}

func (f *fuse) Link(old, name string) error {
	return f.change(name, func() error { return f.FS.Link(old, name) })
}

func (f *fuse) Remove(name string) error {
	return f.change(name, func() error { return f.FS.Remove(name) })
}

func (f *fuse) RemoveAll(name string) error {
	return f.change(name, func() error { return f.FS.RemoveAll(name) })
}

func (f *fuse) Rename(old, name string) error {
	return f.change(name, func() error { return f.FS.Rename(old, name) })
}

func (f *fuse) MkdirAll(name string, perm fs.FileMode) error {
	return f.change(name, func() error { return f.FS.MkdirAll(name, perm) })
}

// Unwrap returns the file system below.
func (f *fuse) Unwrap() vfs.FS { return f.FS }

// fusedFile is an open file of a fuse.
type fusedFile struct {
	vfs.File
	fuse *fuse
	name string
}

func (f *fusedFile) Write(p []byte) (int, error) {
	err := f.fuse.change(f.name, func() error { _, err := f.File.Write(p); return err })
	return written(p, err)
}

func (f *fusedFile) WriteAt(p []byte, offset int64) (int, error) {
	err := f.fuse.change(f.name, func() error { _, err := f.File.WriteAt(p, offset); return err })
	return written(p, err)
}

func written(p []byte, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// Preallocate may fail for its own reasons; where there is no room the write
// says so.
func (f *fusedFile) Preallocate(offset, length int64) error {
	if f.fuse.guard.reading() == nil {
		_ = f.File.Preallocate(offset, length)
	}
	return nil
}

func (f *fusedFile) Sync() error { return f.fuse.change(f.name, f.File.Sync) }

func (f *fusedFile) SyncData() error { return f.fuse.change(f.name, f.File.SyncData) }

func (f *fusedFile) SyncTo(length int64) (full bool, err error) {
	err = f.fuse.change(f.name, func() (err error) { full, err = f.File.SyncTo(length); return err })
	return full, err
}

// Stat of a file that is being written may not fail either: Pebble asks it of
// the log that it is about to reuse.
func (f *fusedFile) Stat() (vfs.FileInfo, error) {
	info, err := f.File.Stat()
	if err != nil {
		f.fuse.guard.blow(err)
		return nothing{}, nil
	}
	return info, nil
}

// hole is a file that was not made.
type hole struct{ guard *guard }

func (h hole) Close() error                           { return nil }
func (h hole) Read([]byte) (int, error)               { return 0, h.guard.park() }
func (h hole) ReadAt([]byte, int64) (int, error)      { return 0, h.guard.park() }
func (h hole) Write(p []byte) (int, error)            { return len(p), nil }
func (h hole) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }
func (h hole) Preallocate(int64, int64) error         { return nil }
func (h hole) Stat() (vfs.FileInfo, error)            { return nothing{}, nil }
func (h hole) Sync() error                            { return nil }
func (h hole) SyncTo(int64) (bool, error)             { return true, nil }
func (h hole) SyncData() error                        { return nil }
func (h hole) Prefetch(int64, int64) error            { return nil }
func (h hole) Fd() uintptr                            { return vfs.InvalidFd }

// nothing describes a hole.
type nothing struct{}

func (nothing) Name() string           { return "" }
func (nothing) Size() int64            { return 0 }
func (nothing) Mode() fs.FileMode      { return 0 }
func (nothing) ModTime() time.Time     { return time.Time{} }
func (nothing) IsDir() bool            { return false }
func (nothing) Sys() any               { return nil }
func (nothing) DeviceID() vfs.DeviceID { return vfs.DeviceID{} }
