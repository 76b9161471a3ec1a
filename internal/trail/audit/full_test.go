//go:build linux

package audit_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ostiary/ostiary/internal/trail/audit"
	"github.com/ostiary/ostiary/internal/workshop/wait"
)

// smallDisk mounts a file system of 256 KiB, and returns functions that fill it and free
// it again.
func smallDisk(t *testing.T) (folder string, fill, free func()) {
	t.Helper()
	folder = t.TempDir()
	if err := syscall.Mount("none", folder, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("SKIPPED: a file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(folder, syscall.MNT_DETACH) })
	filler := filepath.Join(folder, "filler")
	fill = func() {
		// In parts, so that the last one takes what is left.
		f, err := os.OpenFile(filler, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for err == nil {
			_, err = f.Write(make([]byte, 4096))
		}
	}
	return folder, fill, func() {
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
	}
}

// count returns how many records of requests the files of a log have, and how many others
// they count as lost.
func count(t *testing.T, folder string) (records int, lines string) {
	t.Helper()
	for _, name := range names(t, folder) {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		records += bytes.Count(data, []byte(`"kind":"write"`))
		lines += string(data)
	}
	return records, lines
}

// TestFullDisk fills the disk of a log that is not required. What finds no place in the
// buffer is lost, and the next record and the trail's figure count it.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	disk, fill, free := smallDisk(t)
	folder := filepath.Join(disk, "audit")
	key, public := newKey(t)
	l, err := audit.OpenFolder(folder, audit.Rotation{}, audit.Options{Key: key, QueueBytes: 16 << 10})
	if err != nil {
		t.Fatal(err)
	}
	trail := audit.NewTrail(false, l)
	fill()
	n := 0
	for trail.Lost() < 10 || !trail.Failing() {
		if err := trail.Record(record(n)); err != nil {
			t.Fatal(err)
		}
		n++
	}
	if err := trail.Ready(); err != nil {
		t.Errorf("a log that is not required stops requests: %v", err)
	}
	free()
	wait.Until(t, "the log to work again", func() bool { return !trail.Failing() })
	lost := int(trail.Lost())
	if err := trail.Close(); err != nil {
		t.Fatal(err)
	}
	if found := verify(t, public, false, names(t, folder)...); found != "" {
		t.Errorf("findings: %s", found)
	}
	records, lines := count(t, folder)
	if records+lost != n {
		t.Errorf("%d records were made: %d are there, and %d are lost", n, records, lost)
	}
	if !strings.Contains(lines, `"kind":"lost"`) {
		t.Error("no record has the number of the lost ones")
	}
}

// TestFullDiskRequired fills the disk of a log that is required: requests fail until there
// is place, and no record is lost.
func TestFullDiskRequired(t *testing.T) {
	t.Parallel()
	disk, fill, free := smallDisk(t)
	folder := filepath.Join(disk, "audit")
	key, public := newKey(t)
	l, err := audit.OpenFolder(folder, audit.Rotation{}, audit.Options{Key: key, Required: true})
	if err != nil {
		t.Fatal(err)
	}
	trail := audit.NewTrail(true, l)
	fill()
	n := 0
	for err == nil { // a page of the file may be free
		err = trail.Record(record(n))
		n++
	}
	if trail.Ready() == nil {
		t.Error("the log is ready, but the disk is full")
	}
	if trail.Record(record(n)) == nil {
		t.Error("a record that is not written is no error")
	}
	n++
	free()
	wait.Until(t, "the log to work again", func() bool { return trail.Ready() == nil })
	if err := trail.Record(record(n)); err != nil {
		t.Error(err)
	}
	n++
	if err := trail.Close(); err != nil {
		t.Fatal(err)
	}
	if found := verify(t, public, false, names(t, folder)...); found != "" {
		t.Errorf("findings: %s", found)
	}
	if records, _ := count(t, folder); records != n || trail.Lost() != 0 {
		t.Errorf("%d records are there, %d lost; %d were made", records, trail.Lost(), n)
	}
}
