package pebble

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
)

// The names in a data folder: a marker that identifies it, a lock, and the folder
// of Pebble's files.
const (
	markerName = "OSTIARY"
	markerTemp = "OSTIARY.new"
	lockName   = "LOCK"
	pebbleName = "pebble"

	// folderFormat is the layout of the folder. The format of Pebble's files has its
	// own number. It is that of the layout of package kv in the folder. Open upgrades
	// older formats in place.
	folderFormat = kv.FormatVersion
	markerHead   = "ostiary data folder"
	// markerBytesMax is the maximum number of bytes that are read of a marker. The
	// file may belong to another program and be large.
	markerBytesMax = 4096
)

// folderState is the state of a folder according to its marker.
type folderState string

const (
	creating folderState = "creating" // no write was acknowledged yet
	opened   folderState = "open"     // in use, or not closed
	// closed means that Close wrote a random word, the witness, to the data as the
	// last record, and then to the marker. If the files are truncated afterwards,
	// the data no longer contains the witness.
	closed folderState = "closed"
)

// marker is the content of the marker file.
type marker struct {
	format  int // read only: write writes folderFormat
	state   folderState
	witness string // "" unless state is closed
}

// folder is a data folder on a file system.
type folder struct {
	fs  vfs.FS
	dir string
}

func (f folder) path(name string) string { return f.fs.PathJoin(f.dir, name) }

// read returns the marker. found is false if the folder is missing or empty. If
// the folder contains something else, or is a file, read fails with ErrFormat.
func (f folder) read() (m marker, found bool, err error) {
	if info, err := f.fs.Stat(f.dir); err == nil && !info.IsDir() {
		return m, false, fmt.Errorf("%w: %s is a file, and a data folder was expected", storage.ErrFormat, f.dir)
	}
	file, err := f.fs.Open(f.path(markerName))
	if errors.Is(err, fs.ErrNotExist) {
		return m, false, f.checkUnused()
	}
	if err != nil {
		return m, false, err
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, markerBytesMax))
	if err != nil {
		return m, false, err
	}
	m, err = parseMarker(string(b))
	return m, err == nil, err
}

// checkUnused returns ErrFormat if the folder contains files of other programs.
func (f folder) checkUnused() error {
	names, err := f.fs.List(f.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		if name != lockName && name != markerTemp {
			return fmt.Errorf("%w: %s is not an Ostiary data folder: it contains %q but no file %s", storage.ErrFormat, f.dir, name, markerName)
		}
	}
	return nil
}

// write replaces the marker. It is on disk when write returns.
func (f folder) write(m marker) error {
	text := fmt.Sprintf("%s\nformat %d\nstate %s %s\n", markerHead, folderFormat, m.state, m.witness)
	text += fmt.Sprintf("sum %08x\n", markerSum(text))
	file, err := f.fs.Create(f.path(markerTemp), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = io.WriteString(file, text)
	if err == nil {
		err = file.Sync()
	}
	if closing := file.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = f.fs.Rename(f.path(markerTemp), f.path(markerName))
	}
	if err != nil {
		return err
	}
	return f.sync()
}

// sync waits until the names of the files in the folder are on disk.
func (f folder) sync() error {
	dir, err := f.fs.OpenDir(f.dir)
	if err != nil {
		return err
	}
	if err := dir.Sync(); err != nil {
		dir.Close()
		return err
	}
	return dir.Close()
}

// create creates the folder. It syncs the parent folder if it has permission.
func (f folder) create() error {
	if err := f.fs.MkdirAll(f.dir, 0o700); err != nil {
		return err
	}
	parent := folder{f.fs, f.fs.PathDir(f.dir)}
	if err := parent.sync(); err != nil && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return nil
}

// lock locks the folder for one driver, until the result is closed. It fails with
// ErrLocked if another driver has locked it, in this process or in another one. It
// locks the folder itself, and the file LOCK: a file can be deleted, but older
// versions look at nothing else.
func (f folder) lock() (_ io.Closer, err error) {
	l, err := f.lockDir()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			l.Close()
		}
	}()
	l.file, err = f.fs.Lock(f.path(lockName))
	var number syscall.Errno  // of the operating system, whose locks are those of other processes
	var refused *fs.PathError // the file cannot be opened, which is no lock of another process
	switch {
	case err == nil:
		return l, nil
	case errors.As(err, &refused):
		return nil, err
	case errors.As(err, &number) && number != syscall.EAGAIN && number != syscall.EACCES:
		return nil, err
	case errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	return nil, f.locked(number == 0)
}

// lockDir locks the folder itself, if it is on disk.
func (f folder) lockDir() (_ *folderLock, err error) {
	l := &folderLock{}
	if !f.onDisk() {
		return l, nil
	}
	if l.dir, err = os.Open(f.dir); err != nil {
		return nil, err
	}
	if err := flock(l.dir); err != nil {
		twice := openTwice(l.dir)
		l.Close()
		return nil, f.locked(twice)
	}
	return l, nil
}

// locked returns an ErrLocked that names who has locked the folder: this process, if
// here is true, or another one.
func (f folder) locked(here bool) error {
	if here {
		return fmt.Errorf("%w by this process, which has opened it before: %s", storage.ErrLocked, f.dir)
	}
	return fmt.Errorf("%w by another process: %s", storage.ErrLocked, f.dir)
}

// openTwice reports whether this process has another descriptor of the open folder dir.
// Only a driver has one. openTwice returns false where the operating system does not list
// the descriptors.
func openTwice(dir *os.File) bool {
	want, err := dir.Stat()
	if err != nil {
		return false
	}
	const descriptors = "/dev/fd"
	names, err := os.ReadDir(descriptors)
	if err != nil {
		return false
	}
	n := 0
	for _, name := range names {
		if info, err := os.Stat(filepath.Join(descriptors, name.Name())); err == nil && os.SameFile(info, want) {
			n++
		}
	}
	return n > 1
}

// folderLock holds the locks of a folder.
type folderLock struct {
	dir  *os.File  // the locked folder; nil if it is not on disk
	file io.Closer // the locked file LOCK; nil if it is not locked
}

// Close unlocks the folder.
func (l *folderLock) Close() error {
	var err error
	if l.file != nil {
		err = l.file.Close()
	}
	if l.dir != nil {
		unflock(l.dir)
		err = errors.Join(err, l.dir.Close())
	}
	return err
}

func markerSum(text string) uint32 {
	return crc32.Checksum([]byte(text), crc32.MakeTable(crc32.Castagnoli))
}

// parseMarker reads the text of a marker file.
func parseMarker(text string) (m marker, err error) {
	body, ours := strings.CutPrefix(text, markerHead+"\n")
	if !ours {
		return m, fmt.Errorf("%w: the file %s was not written by Ostiary", storage.ErrFormat, markerName)
	}
	var format int
	if _, err := fmt.Sscanf(body, "format %d\n", &format); err != nil {
		return m, fmt.Errorf("%w: the file %s has no format number", storage.ErrDamaged, markerName)
	}
	if format > folderFormat {
		return m, fmt.Errorf("%w: the data folder has format %d, but this version reads formats up to %d", storage.ErrFormat, format, folderFormat)
	}
	at := strings.Index(text, "sum ")
	if at < 0 || text[at:] != fmt.Sprintf("sum %08x\n", markerSum(text[:at])) || format < 1 {
		return m, fmt.Errorf("%w: the file %s has a wrong checksum", storage.ErrDamaged, markerName)
	}
	lines := strings.Split(body, "\n")
	word, rest, _ := strings.Cut(strings.TrimPrefix(lines[1], "state "), " ")
	m = marker{format, folderState(word), rest}
	if m.state != creating && m.state != opened && m.state != closed {
		return m, fmt.Errorf("%w: unknown state %q in the file %s", storage.ErrDamaged, word, markerName)
	}
	return m, nil
}
