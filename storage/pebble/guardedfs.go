package pebble

import (
	"errors"
	"io/fs"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// guardedFS is the file system that Pebble uses. It hides failed writes from
// Pebble. Otherwise Pebble would panic, sometimes in its own goroutines with
// locks held; or it would clean up, and could delete files that a half-written
// manifest record refers to.
//
// At the first failed change of the folder, guardedFS reports the failure to the
// guard. From then on it drops all changes, but Pebble sees them succeed. So the
// disk stays as the failure left it, as after a crash. No write is acknowledged
// after the failure, because every commit checks the guard at its end.
type guardedFS struct {
	vfs.FS
	guard *guard
	dir   string // only files below dir are guarded; the target of a backup is not
}

// change calls do, which changes a file. If do fails, change reports that to the
// guard and returns nil. After a failure it does not call do.
func (f *guardedFS) change(name string, do func() error) error {
	if !strings.HasPrefix(name, f.dir) {
		return do()
	}
	if f.guard.checkRead() != nil {
		return nil
	}
	if err := do(); err != nil {
		f.guard.fail(err)
	}
	return nil
}

// changeName is like change for an operation that creates, renames or removes a
// name. It does not call do in a folder that was replaced.
func (f *guardedFS) changeName(name string, do func() error) error {
	return f.change(name, func() error {
		if err := f.guard.checkFolder(); err != nil {
			return err
		}
		return do()
	})
}

// file is like changeName for an operation that opens a file. If the operation fails,
// file returns a missingFile.
func (f *guardedFS) file(name string, open func() (vfs.File, error)) (vfs.File, error) {
	var file vfs.File
	err := f.changeName(name, func() (err error) {
		file, err = open()
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case file == nil:
		return missingFile{f.guard}, nil
	case !strings.HasPrefix(name, f.dir):
		return file, nil
	}
	return &guardedFile{file, f, name}, nil
}

func (f *guardedFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return f.file(name, func() (vfs.File, error) { return f.FS.Create(name, c) })
}

func (f *guardedFS) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return f.file(name, func() (vfs.File, error) { return f.FS.ReuseForWrite(old, name, c) })
}

func (f *guardedFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return f.file(name, func() (vfs.File, error) { return f.FS.OpenReadWrite(name, c, opts...) })
}

// Open blocks if the file does not exist because of an earlier failure.
func (f *guardedFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	file, err := f.FS.Open(name, opts...)
	if errors.Is(err, fs.ErrNotExist) && f.guard.checkRead() != nil && strings.HasPrefix(name, f.dir) {
		return nil, f.guard.block()
	}
	return file, err
}

// OpenDir returns a folder whose Sync is guarded.
func (f *guardedFS) OpenDir(name string) (vfs.File, error) {
	dir, err := f.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &guardedFile{dir, f, name}, nil
}

func (f *guardedFS) Link(old, name string) error {
	return f.changeName(name, func() error { return f.FS.Link(old, name) })
}

// Remove returns the error if the file is missing already. Pebble ignores it.
func (f *guardedFS) Remove(name string) (missing error) {
	err := f.changeName(name, func() error {
		err := f.FS.Remove(name)
		if errors.Is(err, fs.ErrNotExist) {
			missing, err = err, nil
		}
		return err
	})
	if err != nil {
		return err
	}
	return missing
}

func (f *guardedFS) RemoveAll(name string) error {
	return f.changeName(name, func() error { return f.FS.RemoveAll(name) })
}

func (f *guardedFS) Rename(old, name string) error {
	return f.changeName(name, func() error { return f.FS.Rename(old, name) })
}

func (f *guardedFS) MkdirAll(name string, perm fs.FileMode) error {
	return f.changeName(name, func() error { return f.FS.MkdirAll(name, perm) })
}

// Unwrap returns the file system below.
func (f *guardedFS) Unwrap() vfs.FS { return f.FS }

// guardedFile is an open file of a guardedFS.
type guardedFile struct {
	vfs.File
	fs   *guardedFS
	name string
}

func (f *guardedFile) Write(p []byte) (int, error) {
	err := f.fs.change(f.name, func() error { _, err := f.File.Write(p); return err })
	return written(p, err)
}

func (f *guardedFile) WriteAt(p []byte, offset int64) (int, error) {
	err := f.fs.change(f.name, func() error { _, err := f.File.WriteAt(p, offset); return err })
	return written(p, err)
}

// written returns the results of a Write that wrote all of p or failed with err.
func written(p []byte, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// Preallocate ignores errors: if the disk is full, the next write fails.
func (f *guardedFile) Preallocate(offset, length int64) error {
	if f.fs.guard.checkRead() == nil {
		_ = f.File.Preallocate(offset, length)
	}
	return nil
}

func (f *guardedFile) Sync() error { return f.fs.change(f.name, f.File.Sync) }

func (f *guardedFile) SyncData() error { return f.fs.change(f.name, f.File.SyncData) }

func (f *guardedFile) SyncTo(length int64) (full bool, err error) {
	err = f.fs.change(f.name, func() (err error) { full, err = f.File.SyncTo(length); return err })
	return full, err
}

// Stat does not fail either: Pebble calls it for a log that it is about to reuse.
func (f *guardedFile) Stat() (vfs.FileInfo, error) {
	info, err := f.File.Stat()
	if err != nil {
		f.fs.guard.fail(err)
		return missingInfo{}, nil
	}
	return info, nil
}

// missingFile is a file that was not created because of a failure. Writes are
// dropped, and reads block.
type missingFile struct{ guard *guard }

func (h missingFile) Close() error                           { return nil }
func (h missingFile) Read([]byte) (int, error)               { return 0, h.guard.block() }
func (h missingFile) ReadAt([]byte, int64) (int, error)      { return 0, h.guard.block() }
func (h missingFile) Write(p []byte) (int, error)            { return len(p), nil }
func (h missingFile) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }
func (h missingFile) Preallocate(int64, int64) error         { return nil }
func (h missingFile) Stat() (vfs.FileInfo, error)            { return missingInfo{}, nil }
func (h missingFile) Sync() error                            { return nil }
func (h missingFile) SyncTo(int64) (bool, error)             { return true, nil }
func (h missingFile) SyncData() error                        { return nil }
func (h missingFile) Prefetch(int64, int64) error            { return nil }
func (h missingFile) Fd() uintptr                            { return vfs.InvalidFd }

// missingInfo is the FileInfo of a missingFile.
type missingInfo struct{}

func (missingInfo) Name() string           { return "" }
func (missingInfo) Size() int64            { return 0 }
func (missingInfo) Mode() fs.FileMode      { return 0 }
func (missingInfo) ModTime() time.Time     { return time.Time{} }
func (missingInfo) IsDir() bool            { return false }
func (missingInfo) Sys() any               { return nil }
func (missingInfo) DeviceID() vfs.DeviceID { return vfs.DeviceID{} }
