//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package pebble

import (
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestUnlockWithCopiedDescriptor locks a folder again after it was unlocked, while a
// copy of the descriptor is open, as in a process that is being started.
func TestUnlockWithCopiedDescriptor(t *testing.T) {
	t.Parallel()
	f := folder{vfs.Default, t.TempDir()}
	lock, err := f.lock()
	if err != nil {
		t.Fatal(err)
	}
	descriptor, err := syscall.Dup(int(lock.(*folderLock).dir.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(descriptor)
	if _, err := f.lock(); err == nil {
		t.Error("a locked folder is locked again")
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := f.lock()
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}
