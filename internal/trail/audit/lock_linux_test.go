package audit_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/ostiary/ostiary/internal/trail/audit"
)

// TestLockWhileProcessStarts closes a log and opens it again while a process that is being
// started has a copy of the lock's descriptor.
func TestLockWhileProcessStarts(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	l, err := audit.OpenFolder(folder, audit.Rotation{}, audit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	copies := 0
	descriptors, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range descriptors {
		at, err := os.Readlink(filepath.Join("/proc/self/fd", d.Name()))
		if err != nil || !strings.HasPrefix(at, folder) || !strings.HasSuffix(at, "LOCK") {
			continue
		}
		n, err := strconv.Atoi(d.Name())
		if err != nil {
			t.Fatal(err)
		}
		other, err := syscall.Dup(n)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { syscall.Close(other) })
		copies++
	}
	if copies == 0 {
		t.Fatal("no descriptor of the lock")
	}
	if _, err := audit.OpenFolder(folder, audit.Rotation{}, audit.Options{}); err == nil {
		t.Fatal("a log was opened twice")
	}
	for range 2 {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if l, err = audit.OpenFolder(folder, audit.Rotation{}, audit.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}
