package pebble

import (
	"errors"
	"io"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ostiary/ostiary/storage"
)

// noLockFS is a file system on which the file LOCK cannot be opened or is locked.
type noLockFS struct {
	vfs.FS
	err error
}

func (f noLockFS) Lock(string) (io.Closer, error) { return nil, f.err }

// TestLockRefused checks that a file LOCK without permission is not reported as
// another process: waiting for that process would be in vain.
func TestLockRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err    error
		locked bool
	}{
		"permission denied": {&fs.PathError{Op: "open", Path: lockName, Err: syscall.EACCES}, false},
		"EACCES of a lock":  {syscall.EACCES, true},
		"EAGAIN of a lock":  {syscall.EAGAIN, true},
		"another error":     {syscall.EIO, false},
	} {
		_, err := folder{fs: noLockFS{vfs.NewMem(), c.err}, dir: "data"}.lock()
		if errors.Is(err, storage.ErrLocked) != c.locked || c.locked && !strings.Contains(err.Error(), "by another process") || !c.locked && !errors.Is(err, c.err) {
			t.Errorf("%s: %v, locked %v", name, err, c.locked)
		}
	}
}
