package backup

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ostiary/ostiary/storage"
)

const (
	// pebbleName is the folder of Pebble's files in a data folder, and tableEnd the end of
	// the names of those that never change.
	pebbleName = "pebble"
	tableEnd   = ".sst"
	// chunkBytes is how much is copied between two looks at the rate and the context.
	chunkBytes = 256 << 10
)

// Options are the options of [Write] and [Stream].
type Options struct {
	// Rate bounds the bytes that are copied in a second; 0 means no bound.
	Rate int64
	// Progress is called while files are copied.
	Progress Progress
	// Replace allows Write to replace the backup of another data folder.
	Replace bool
}

// Done is what a backup has copied.
type Done struct {
	Files  int   `json:"files"`  // files that were copied
	Bytes  int64 `json:"bytes"`  // their length
	Kept   int   `json:"kept"`   // files that the folder had already
	Length int64 `json:"length"` // length of all files of the backup
}

// Write makes to the backup of the data folder from, which no one changes meanwhile. It
// copies the files that to lacks, and replaces the manifest when to has all of them; then it
// removes the files that no manifest lists. Whatever stops it before, to has the backup that it
// had, and the next Write goes on. It sets Files of m. It fails with [storage.ErrLocked] if another
// backup into to runs, with [storage.ErrFormat] if to has other files, and with [ErrOther] if
// the backup there has no store of this one.
func Write(ctx context.Context, from, to string, m *Manifest, o Options) (d Done, err error) {
	if err := prepare(to); err != nil {
		return d, err
	}
	lock, err := vfs.Default.Lock(filepath.Join(to, lockName))
	if err != nil {
		return d, fmt.Errorf("%w: another backup into %s runs: %w", storage.ErrLocked, to, err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	old, err := earlier(to, m, o.Replace)
	if err != nil {
		return d, err
	}
	if m.Files, err = list(from); err != nil {
		return d, err
	}
	w := &writer{dir: filepath.Join(to, filesName), pace: pace{ctx: ctx, rate: o.Rate, begun: time.Now()}, seen: map[string]*File{}}
	if err := w.know(old); err != nil {
		return d, err
	}
	total, done := m.Bytes(), int64(0)
	for i := range m.Files {
		f := &m.Files[i]
		copied, err := w.add(filepath.Join(from, filepath.FromSlash(f.Name)), f)
		if err != nil {
			return d, fmt.Errorf("back up %s: %w", f.Name, err)
		}
		if copied {
			d.Files++
			d.Bytes += f.Bytes
		} else {
			d.Kept++
		}
		done += f.Bytes
		o.Progress(done, total)
	}
	d.Length = m.Bytes()
	if err := SyncFolder(w.dir); err != nil {
		return d, err
	}
	text, err := m.text()
	if err == nil {
		err = writeFile(filepath.Join(to, manifestTemp), func(w io.Writer) error {
			_, err := w.Write(text)
			return err
		})
	}
	if err == nil {
		err = os.Rename(filepath.Join(to, manifestTemp), filepath.Join(to, manifestName))
	}
	if err == nil {
		err = SyncFolder(to)
	}
	if err != nil {
		return d, err
	}
	return d, w.removeOthers(m)
}

// prepare makes the folder of a backup, and fails if it has other files.
func prepare(to string) error {
	if err := os.MkdirAll(filepath.Join(to, filesName), 0o700); err != nil {
		return err
	}
	names, err := os.ReadDir(to)
	if err != nil {
		return err
	}
	for _, e := range names {
		if !slices.Contains([]string{manifestName, manifestTemp, lockName, filesName}, e.Name()) {
			return fmt.Errorf("%w: the folder %s has other files, such as %q, expected a new folder or that of a backup", storage.ErrFormat, to, e.Name())
		}
	}
	lock, err := os.OpenFile(filepath.Join(to, lockName), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return lock.Close()
}

// earlier returns the backup that a folder has, or nil if it has no whole one. It fails with
// [ErrOther] if that has no store of m.
func earlier(to string, m *Manifest, replace bool) (*Backup, error) {
	if _, err := os.Stat(filepath.Join(to, manifestName)); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	old, err := Open(to)
	if errors.Is(err, storage.ErrDamaged) {
		return nil, nil // the new manifest replaces it; its files have their checksums
	}
	if err != nil {
		return nil, err
	}
	has := func(s Store) bool {
		return slices.ContainsFunc(old.Content.First, func(o Store) bool { return o.Incarnation == s.Incarnation })
	}
	if !replace && old.Content.Stores > 0 && !slices.ContainsFunc(m.Content.First, has) {
		return nil, fmt.Errorf("%w: %s has %d stores as of %s, and this folder has none of them (it has %d): expected another folder, or --replace", ErrOther, to, old.Content.Stores, old.Made.UTC().Format(time.RFC3339), m.Content.Stores)
	}
	return old, nil
}

// list returns the files of a data folder, without checksums.
func list(from string) (files []File, err error) {
	for _, folder := range []string{"", pebbleName} {
		entries, err := os.ReadDir(filepath.Join(from, folder))
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			name := filepath.ToSlash(filepath.Join(folder, e.Name()))
			if !fileName.MatchString(name) || name == pebbleName+"/"+lockName {
				continue
			}
			info, err := e.Info()
			if err != nil {
				return nil, err
			}
			f := File{Name: name, Bytes: info.Size()}
			if filepath.Ext(name) == tableEnd {
				f.Seen = identity(info)
			}
			files = append(files, f)
		}
	}
	return files, nil
}

// identity returns what a file has, and no other file that is there or was there before: its
// [FileID] and the time of its change. It returns "" if the system does not identify files.
func identity(info fs.FileInfo) string {
	id := FileID(info)
	if id == "" {
		return ""
	}
	return fmt.Sprintf("%s-%x", id, info.ModTime().UnixNano())
}

// writer adds files to the folder of a backup.
type writer struct {
	dir   string
	pace  pace
	seen  map[string]*File // the files of the earlier backup that are there, by name
	sizes map[int64]bool   // the lengths of the files that are there
}

// know notes which files the folder has, and removes those that are not whole.
func (w *writer) know(old *Backup) error {
	entries, err := os.ReadDir(w.dir)
	if err != nil {
		return err
	}
	w.sizes = map[int64]bool{}
	lengths := map[string]int64{}
	for _, e := range entries {
		info, err := e.Info()
		switch {
		case err != nil:
			return err
		case !sumText.MatchString(e.Name()):
			if err := os.Remove(filepath.Join(w.dir, e.Name())); err != nil {
				return err
			}
		default:
			w.sizes[info.Size()], lengths[e.Name()] = true, info.Size()
		}
	}
	if old == nil {
		return nil
	}
	for i := range old.Files {
		f := &old.Files[i]
		if bytes, ok := lengths[f.SHA256]; ok && bytes == f.Bytes && f.Seen != "" {
			w.seen[f.Name] = f
		}
	}
	return nil
}

// add makes sure that the folder has a file, and sets its checksum and its length. It returns
// true if it was copied.
func (w *writer) add(path string, f *File) (copied bool, err error) {
	if old := w.seen[f.Name]; old != nil && f.Seen != "" && *old == (File{f.Name, old.SHA256, f.Bytes, f.Seen}) {
		f.SHA256 = old.SHA256
		return false, nil
	}
	if w.sizes[f.Bytes] { // it may be there
		if err := w.sum(path, f, io.Discard); err != nil {
			return false, err
		}
		if info, err := os.Stat(filepath.Join(w.dir, f.SHA256)); err == nil && info.Size() == f.Bytes {
			return false, nil
		}
	}
	temp := filepath.Join(w.dir, unfinished+filepath.Base(path))
	if err := writeFile(temp, func(to io.Writer) error { return w.sum(path, f, to) }); err != nil {
		return false, err
	}
	return true, os.Rename(temp, filepath.Join(w.dir, f.SHA256))
}

// sum writes a file to another writer, and sets its checksum and its length.
func (w *writer) sum(path string, f *File, to io.Writer) error {
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	sum := sha256.New()
	if f.Bytes, err = w.pace.copy(io.MultiWriter(to, sum), in); err != nil {
		return err
	}
	f.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return nil
}

// removeOthers removes the files that a manifest does not list.
func (w *writer) removeOthers(m *Manifest) error {
	listed := map[string]bool{}
	for i := range m.Files {
		listed[m.Files[i].SHA256] = true
	}
	entries, err := os.ReadDir(w.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !listed[e.Name()] {
			if err := os.Remove(filepath.Join(w.dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// pace copies at a rate, until a context ends.
type pace struct {
	ctx    context.Context
	rate   int64
	begun  time.Time
	copied int64
}

func (p *pace) copy(to io.Writer, from io.Reader) (n int64, err error) {
	for {
		if err := p.ctx.Err(); err != nil {
			return n, err
		}
		k, err := io.CopyN(to, from, chunkBytes)
		n, p.copied = n+k, p.copied+k
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		if p.rate <= 0 {
			continue
		}
		due := time.Duration(float64(p.copied) / float64(p.rate) * float64(time.Second))
		select {
		case <-p.ctx.Done():
		case <-time.After(due - time.Since(p.begun)):
		}
	}
}

// Stream writes the backup of the data folder from to out, as a tar that can be extracted to
// the folder of a backup. The manifest is its last file. It sets Files of m.
func Stream(ctx context.Context, from string, out io.Writer, m *Manifest, o Options) (d Done, err error) {
	if m.Files, err = list(from); err != nil {
		return d, err
	}
	total, to, written := m.Bytes(), tar.NewWriter(out), map[string]bool{}
	w := &writer{pace: pace{ctx: ctx, begun: time.Now()}}
	paced := &pace{ctx: ctx, rate: o.Rate, begun: time.Now()}
	for i := range m.Files {
		f := &m.Files[i]
		path := filepath.Join(from, filepath.FromSlash(f.Name))
		if err := w.sum(path, f, io.Discard); err != nil { // a name in the tar precedes its content
			return d, err
		}
		if written[f.SHA256] {
			continue
		}
		written[f.SHA256] = true
		if err := to.WriteHeader(&tar.Header{Name: filesName + "/" + f.SHA256, Mode: 0o600, Size: f.Bytes, ModTime: m.Made}); err != nil {
			return d, err
		}
		in, err := os.Open(path)
		if err == nil {
			_, err = paced.copy(to, in)
			err = errors.Join(err, in.Close())
		}
		if err != nil {
			return d, err
		}
		d.Files++
		d.Bytes += f.Bytes
		o.Progress(d.Bytes, total)
	}
	d.Length = m.Bytes()
	text, err := m.text()
	if err == nil {
		err = to.WriteHeader(&tar.Header{Name: manifestName, Mode: 0o600, Size: int64(len(text)), ModTime: m.Made})
	}
	if err == nil {
		_, err = to.Write(text)
	}
	return d, errors.Join(err, to.Close())
}

// Extract makes dir, which must be missing, the backup that a tar of [Stream] has. It fails
// with [storage.ErrDamaged] if the tar is cut or altered, and with [storage.ErrFormat] if it is
// another one. Nothing is written outside of dir.
func Extract(ctx context.Context, in io.Reader, dir string) (*Backup, error) {
	files := filepath.Join(dir, filesName)
	if err := os.MkdirAll(files, 0o700); err != nil {
		return nil, err
	}
	r, any := tar.NewReader(in), false
	w := &writer{pace: pace{ctx: ctx, begun: time.Now()}}
	for {
		h, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil, fmt.Errorf("%w: the tar of a backup is cut: it has no file %s, which is its last one", storage.ErrDamaged, manifestName)
		case err != nil && !any:
			return nil, fmt.Errorf("%w: the input is not the tar of a backup: %w", storage.ErrFormat, err)
		case err != nil:
			return nil, fmt.Errorf("%w: the tar of a backup is cut or altered: %w", storage.ErrDamaged, err)
		}
		folder, name := filepath.Split(filepath.FromSlash(h.Name))
		path := filepath.Join(files, name)
		switch {
		case h.Typeflag != tar.TypeReg || h.Name != manifestName && (folder != filesName+string(filepath.Separator) || !sumText.MatchString(name)):
			return nil, fmt.Errorf("%w: the tar has the file %q, expected that of a backup, with %s/… and %s", storage.ErrFormat, h.Name, filesName, manifestName)
		case h.Name == manifestName:
			path = filepath.Join(dir, manifestName)
		}
		any = true
		sum := sha256.New()
		err = writeFile(path, func(to io.Writer) error {
			_, err := w.pace.copy(io.MultiWriter(to, sum), r)
			return err
		})
		switch {
		case errors.Is(err, io.ErrUnexpectedEOF):
			return nil, fmt.Errorf("%w: the tar of a backup is cut in the file %s", storage.ErrDamaged, h.Name)
		case err != nil:
			return nil, err
		case h.Name == manifestName:
			return Open(dir)
		case hex.EncodeToString(sum.Sum(nil)) != name:
			return nil, fmt.Errorf("%w: the file %s in the tar of a backup has another checksum than its name", storage.ErrDamaged, h.Name)
		}
	}
}

// writeFile writes a file that only this user can read. It is on disk when writeFile returns;
// after an error there is no such file.
func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if err = write(f); err == nil {
		err = f.Sync()
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// SyncFolder returns when the names in a folder are on disk.
func SyncFolder(dir string) error {
	f, err := vfs.Default.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
