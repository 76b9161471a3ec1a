package pebble

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ostiary/ostiary/storage"
)

// A data folder holds a marker that tells it from other programs' folders, a
// lock, and Pebble's own folder.
const (
	markerName = "OSTIARY"
	markerTemp = "OSTIARY.new"
	lockName   = "LOCK"
	pebbleName = "pebble"

	// folderFormat is the folder's layout; Pebble's files have their own.
	folderFormat = 1
	markerHead   = "ostiary data folder"
	// markerBytesMax bounds what is read of a file that may be anybody's.
	markerBytesMax = 4096
)

// condition is what the marker says of how the folder was left.
type condition string

const (
	creating condition = "creating" // nothing was acknowledged yet
	opened   condition = "open"     // in use, or left without a Close
	// closed comes with a witness: a random word that was the last thing written
	// to the data. Files that were cut since do not hold it.
	closed condition = "closed"
)

type marker struct {
	condition condition
	witness   string
}

// folder is a data folder on a file system.
type folder struct {
	fs  vfs.FS
	dir string
}

func (f folder) path(name string) string { return f.fs.PathJoin(f.dir, name) }

// read returns the marker; found is false for a folder that is absent or empty.
// A folder that holds something else is ErrFormat, and is not touched.
func (f folder) read() (m marker, found bool, err error) {
	file, err := f.fs.Open(f.path(markerName))
	if errors.Is(err, fs.ErrNotExist) {
		return m, false, f.free()
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

// free says whether the folder may become ours.
func (f folder) free() error {
	names, err := f.fs.List(f.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		if name != lockName && name != markerTemp {
			return fmt.Errorf("%w: %s is not an Ostiary data folder: it holds %q and no %s", storage.ErrFormat, f.dir, name, markerName)
		}
	}
	return nil
}

// write replaces the marker, durably.
func (f folder) write(m marker) error {
	text := fmt.Sprintf("%s\nformat %d\nstate %s %s\n", markerHead, folderFormat, m.condition, m.witness)
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

// sync makes the folder's names durable.
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

// make creates the folder, and makes its own name durable where it can.
func (f folder) make() error {
	if err := f.fs.MkdirAll(f.dir, 0o700); err != nil {
		return err
	}
	parent := folder{f.fs, f.fs.PathDir(f.dir)}
	if err := parent.sync(); err != nil && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return nil
}

// lock takes the folder for this process, or returns ErrLocked.
func (f folder) lock() (io.Closer, error) {
	l, err := f.fs.Lock(f.path(lockName))
	var number syscall.Errno
	switch {
	case err == nil:
		return l, nil
	case errors.As(err, &number) && number != syscall.EAGAIN && number != syscall.EACCES:
		return nil, err
	case errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	return nil, fmt.Errorf("%w: %s: %w", storage.ErrLocked, f.dir, err)
}

func markerSum(text string) uint32 {
	return crc32.Checksum([]byte(text), crc32.MakeTable(crc32.Castagnoli))
}

func parseMarker(text string) (m marker, err error) {
	body, ours := strings.CutPrefix(text, markerHead+"\n")
	if !ours {
		return m, fmt.Errorf("%w: the file %s is not ours", storage.ErrFormat, markerName)
	}
	var format int
	if _, err := fmt.Sscanf(body, "format %d\n", &format); err != nil {
		return m, fmt.Errorf("%w: the file %s names no format", storage.ErrDamaged, markerName)
	}
	if format > folderFormat {
		return m, fmt.Errorf("%w: data folder of format %d, this build knows up to %d", storage.ErrFormat, format, folderFormat)
	}
	at := strings.Index(text, "sum ")
	if at < 0 || text[at:] != fmt.Sprintf("sum %08x\n", markerSum(text[:at])) || format < 1 {
		return m, fmt.Errorf("%w: checksum of %s", storage.ErrDamaged, markerName)
	}
	lines := strings.Split(body, "\n")
	word, rest, _ := strings.Cut(strings.TrimPrefix(lines[1], "state "), " ")
	m = marker{condition(word), rest}
	if m.condition != creating && m.condition != opened && m.condition != closed {
		return m, fmt.Errorf("%w: state %q in %s", storage.ErrDamaged, word, markerName)
	}
	return m, nil
}
