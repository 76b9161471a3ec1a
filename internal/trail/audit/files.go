package audit

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	// FileBytesDefault is the size at which a file is followed by the next one.
	FileBytesDefault = 100 << 20
	// FilesDefault is how many files are kept.
	FilesDefault = 10
	// lineMax bounds a line, with escapes.
	lineMax = 8 * (ContentMax + 16*TextMax)
)

// Rotation bounds the files of a folder.
type Rotation struct {
	// FileBytes is the size at which a file is followed by the next one, and Files is how
	// many files are kept. 0 is the default.
	FileBytes int64
	Files     int
}

func (r *Rotation) setDefaults() {
	if r.FileBytes <= 0 {
		r.FileBytes = FileBytesDefault
	}
	if r.Files <= 0 {
		r.Files = FilesDefault
	}
}

// The names of further logs in a folder, see [Options].
const (
	// RefusalsName is that of the log of refusals.
	RefusalsName = "refusals"
	// DecisionsName is that of the decision log.
	DecisionsName = "decisions"
)

// OfRefusals returns the bounds of the log of refusals next to a log with the bounds r: a
// fifth of its files, and at least two.
func (r Rotation) OfRefusals() Rotation {
	r.setDefaults()
	r.Files = max(2, r.Files/5)
	return r
}

// files is an output to the files of a folder.
type files struct {
	Rotation
	folder string
	prefix string // of the names of files
	plain  bool
	locked *os.File
	names  []string // of all files, in order
	from   uint64   // number of the first line that is kept, by the log and not by the names
	file   *os.File
	size   int64
	broken bool // the file may have a part of a line at its end
}

const (
	nameDefault = "audit"
	nameSuffix  = ".jsonl"
	lockName    = "LOCK"
)

// OpenFolder opens the log of a folder, and makes the folder if it does not exist. A log
// that is there is continued in a new file. It fails if it is open already.
func OpenFolder(folder string, r Rotation, o Options) (*Log, error) {
	r.setDefaults()
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	f := &files{Rotation: r, folder: folder, prefix: cmp.Or(o.Name, nameDefault) + "-", plain: o.Plain}
	var err error
	if f.locked, err = os.OpenFile(filepath.Join(folder, f.prefix+lockName), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, err
	}
	if err := lock(f.locked); err != nil {
		return nil, errors.Join(fmt.Errorf("the audit log in %s is open already, in this process or another one: %w", folder, err), f.locked.Close())
	}
	at, err := f.find()
	if err != nil {
		return nil, errors.Join(err, f.release())
	}
	f.from = at.oldest
	return open(f, at, o)
}

// release lets the folder be opened again.
func (f *files) release() error {
	unlock(f.locked)
	return f.locked.Close()
}

// Folder returns the files of an audit log in a folder, in their order.
func Folder(folder string) ([]string, error) { return filesOf(folder, nameDefault+"-") }

// FolderOf is [Folder] for a log with another name, see [Options].
func FolderOf(folder, name string) ([]string, error) { return filesOf(folder, name+"-") }

// filesOf returns the files of a log whose names begin with prefix.
func filesOf(folder, prefix string) ([]string, error) {
	all, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range all {
		if _, ok := numberOf(e.Name(), prefix); ok {
			names = append(names, filepath.Join(folder, e.Name()))
		}
	}
	slices.Sort(names)
	return names, nil
}

// numberOf returns the number of the first line of a file, from its name.
func numberOf(name, prefix string) (uint64, bool) {
	digits, ok := strings.CutPrefix(filepath.Base(name), prefix)
	digits, suffix := strings.CutSuffix(digits, nameSuffix)
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, ok && suffix && err == nil
}

// find finds the end of the log in the folder.
func (f *files) find() (at place, err error) {
	if f.names, err = filesOf(f.folder, f.prefix); err != nil || len(f.names) == 0 {
		return at, err
	}
	if f.plain {
		at.number, _ = numberOf(f.names[len(f.names)-1], f.prefix)
		return at, nil
	}
	// A crash can leave a file without its first line.
	for i := len(f.names) - 1; i >= 0; i-- {
		if at, err = lastLine(f.names[i]); err != nil {
			return at, err
		}
		if at.number > 0 {
			return at, nil
		}
		if i < len(f.names)-1 || at.torn > 0 && i == 0 {
			break
		}
		if err := os.Remove(f.names[i]); err != nil {
			return at, err
		}
		f.names = f.names[:i]
	}
	if len(f.names) == 0 {
		return place{}, nil
	}
	return at, fmt.Errorf("%s has no line of an audit log: move the files of %s away to begin a new log", f.names[len(f.names)-1], f.folder)
}

// lastLine returns the place of the last line of a file that is whole.
func lastLine(name string) (at place, err error) {
	file, err := os.Open(name)
	if err != nil {
		return at, err
	}
	defer file.Close()
	r := bufio.NewReaderSize(file, 1<<20)
	var good, all int64
	for {
		line, err := readLine(r)
		all += int64(len(line))
		if err == nil && good+int64(len(line)) == all {
			if p, why := parseLine(line); why == "" {
				good = all
				at.number, at.hash, at.closed = p.Number, p.hash, p.Kind == KindEnd
				if p.Log != "" {
					at.log = p.Log
				}
				if p.Kind == KindBegin {
					at.oldest = p.Oldest
				}
			}
		}
		if err == io.EOF {
			at.torn = all - good
			return at, nil
		}
		if err != nil && !errors.Is(err, errLineTooLong) {
			return at, err
		}
	}
}

func (f *files) write(lines []byte) error {
	if f.broken {
		if err := f.mend(); err != nil {
			return err
		}
	}
	n, err := f.file.Write(lines)
	if err != nil {
		f.broken = n > 0
		if f.broken {
			_ = f.mend() // or before the next write
		}
		return err
	}
	f.size += int64(n)
	return nil
}

// mend removes a part of a line from the end of the file.
func (f *files) mend() error {
	if err := f.file.Truncate(f.size); err != nil {
		return err
	}
	if _, err := f.file.Seek(f.size, io.SeekStart); err != nil {
		return err
	}
	f.broken = false
	return nil
}

func (f *files) sync() error { return f.file.Sync() }
func (f *files) full() bool  { return f.size >= f.FileBytes }

// next begins a file, and decides which are kept. The numbers of names alone would not do:
// a file that another program has removed is still missing.
func (f *files) next(number uint64) error {
	name := filepath.Join(f.folder, fmt.Sprintf("%s%012d%s", f.prefix, number, nameSuffix))
	if f.file != nil && f.file.Name() == name {
		return nil // its first line could not be written
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := syncFolder(f.folder); err != nil {
		return errors.Join(err, file.Close(), os.Remove(name))
	}
	if f.file != nil {
		_ = f.file.Close() // it was synced
	}
	f.file, f.size, f.broken = file, 0, false
	f.names = append(f.names, name)
	if first := max(0, len(f.names)-f.Files); first > 0 || f.from == 0 {
		n, _ := numberOf(f.names[first], f.prefix)
		f.from = max(f.from, n)
	}
	return nil
}

// trim removes the files in front of those that are kept. The first line of the newest file
// is durable and has their number, so it is known that nothing else has removed them.
func (f *files) trim() {
	for {
		if n, _ := numberOf(f.names[0], f.prefix); n >= f.from {
			return
		}
		if err := os.Remove(f.names[0]); err != nil && !errors.Is(err, os.ErrNotExist) {
			return // it is tried again with the next file
		}
		f.names = f.names[1:]
	}
}

// syncFolder makes a new file of a folder durable.
func syncFolder(folder string) error {
	d, err := os.Open(folder)
	if err != nil {
		return err
	}
	if err := d.Sync(); err != nil && permissions {
		return errors.Join(err, d.Close())
	}
	return d.Close()
}

func (f *files) oldest() uint64 { return f.from }

func (f *files) close() error {
	var err error
	if f.file != nil {
		err = f.file.Close()
	}
	return errors.Join(err, f.release())
}

// endless is the part of an output without files.
type endless struct{ first uint64 }

func (e *endless) sync() error { return nil }
func (e *endless) full() bool  { return false }
func (e *endless) next(n uint64) error {
	e.first = n
	return nil
}
func (e *endless) oldest() uint64 { return e.first }
func (e *endless) trim()          {}

// stream is an output to a stream, such as standard output.
type stream struct {
	endless
	w io.Writer
}

// OpenStream opens a log that is written to w. Each log of a stream is a new one.
func OpenStream(w io.Writer, o Options) (*Log, error) { return open(&stream{w: w}, place{}, o) }

func (s *stream) write(lines []byte) error {
	_, err := s.w.Write(lines)
	return err
}

func (s *stream) close() error { return nil }
