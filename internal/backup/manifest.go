// Package backup keeps the newest backup of a data folder in another folder, or as a tar.
// [Write] adds to a folder the files that it lacks, and [Open] finds what it has: its main
// type is [Backup]. [Prove] checks the rows of data, as far as they follow from each other.
//
// A backup has two parts. The folder "files" has the content of each file under its SHA-256,
// and no file in it ever changes. The file MANIFEST lists them with their names. It is written
// last, and replaced in one step; so at each moment, a folder has the backup before or the new
// one, and both are whole. docs/decisions/0034-backup.md has the format.
//
// The package opens no data folder for writing, asks no server, and knows no key.
package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/ostiary/ostiary/storage"
)

// The names in the folder of a backup.
const (
	manifestName = "MANIFEST"
	manifestTemp = "MANIFEST.new"
	lockName     = "LOCK"
	filesName    = "files"
	// unfinished is what the names of files begin with that are not whole.
	unfinished = "new-"
)

const (
	// Format is the version of the format.
	Format       = 1
	manifestHead = "ostiary backup "
	// manifestBytesMax bounds a manifest: 250 bytes for each of 500,000 files.
	manifestBytesMax = 128 << 20
	// storesMax bounds the stores that a manifest names.
	storesMax = 1000
)

// ErrOther means that a folder has the backup of another data folder.
var ErrOther = errors.New("the backup there is that of another data folder")

// Manifest describes a backup. Its files are those of a data folder.
type Manifest struct {
	// Made is when the data was as the backup has it.
	Made time.Time `json:"made"`
	// Program is the version of the program that made the backup.
	Program string `json:"program"`
	// Copy is true if the files are those of the copy that a node of a cluster has.
	Copy bool `json:"copy,omitempty"`
	// Closed is true if the source did not serve everyone: it required authentication.
	Closed bool `json:"closed,omitempty"`
	// SecretKey is the fingerprint of the key of the secrets; "" without one. The backup
	// does not have the key.
	SecretKey string `json:"secretKey,omitempty"`
	// Content is what the data has.
	Content Content `json:"content"`
	// Files are the files of the data folder.
	Files []File `json:"files"`
}

// Content are the stores of data and their heads.
type Content struct {
	// Stores is the number of stores, and Secrets that of secrets.
	Stores  int `json:"stores"`
	Secrets int `json:"secrets"`
	// Heads is the SHA-256 of the ids, the incarnations and the heads of all stores, in the
	// order of the ids.
	Heads string `json:"heads"`
	// First are the first stores, at most 1,000.
	First []Store `json:"first"`
}

// Store is a store of a [Content].
type Store struct {
	ID          string           `json:"id"`
	Incarnation string           `json:"incarnation"`
	Name        string           `json:"name"`
	Revision    storage.Revision `json:"revision"`
}

// File is a file of a backup.
type File struct {
	// Name is the path of the file in the data folder, with slashes.
	Name string `json:"name"`
	// SHA256 is the SHA-256 of its content in hexadecimal digits.
	SHA256 string `json:"sha256"`
	// Bytes is its length.
	Bytes int64 `json:"bytes"`
	// Seen identifies the file of the source, which never changes; "" if the next backup
	// has to read it.
	Seen string `json:"seen,omitempty"`
}

// Bytes is the length of all files.
func (m *Manifest) Bytes() (n int64) {
	for i := range m.Files {
		n += m.Files[i].Bytes
	}
	return n
}

// text returns the content of the file MANIFEST.
func (m *Manifest) text() ([]byte, error) {
	body, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	text := fmt.Appendf(nil, "%s%d\n%s\n", manifestHead, Format, body)
	return fmt.Appendf(text, "sha256 %x\n", sha256.Sum256(text)), nil
}

var (
	// fileName matches the names of the files of a data folder.
	fileName = regexp.MustCompile(`^(OSTIARY|pebble/[A-Za-z0-9][A-Za-z0-9._-]{0,200})$`)
	sumText  = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// parse reads the content of the file MANIFEST.
func parse(text []byte) (*Manifest, error) {
	head, body, _ := bytes.Cut(text, []byte("\n"))
	var format int
	if n, err := fmt.Sscanf(string(head), manifestHead+"%d", &format); n != 1 || err != nil {
		return nil, fmt.Errorf("%w: the file %s was not written by Ostiary, or is cut", storage.ErrDamaged, manifestName)
	}
	if format > Format {
		return nil, fmt.Errorf("%w: the backup has format %d, but this version reads formats up to %d", storage.ErrFormat, format, Format)
	}
	body, sum, _ := bytes.Cut(body, []byte("\n"))
	signed := len(head) + len(body) + 2
	if signed > len(text) || string(sum) != fmt.Sprintf("sha256 %x\n", sha256.Sum256(text[:signed])) {
		return nil, fmt.Errorf("%w: the file %s has a wrong checksum, or is cut", storage.ErrDamaged, manifestName)
	}
	m := &Manifest{}
	if err := json.Unmarshal(body, m); err != nil {
		return nil, fmt.Errorf("%w: the file %s: %w", storage.ErrDamaged, manifestName, err)
	}
	names := map[string]bool{}
	for _, f := range m.Files {
		if !fileName.MatchString(f.Name) || names[f.Name] || !sumText.MatchString(f.SHA256) || f.Bytes < 0 {
			return nil, fmt.Errorf("%w: the file %s lists the file %q with checksum %q and %d bytes, expected OSTIARY or a file of pebble, once", storage.ErrDamaged, manifestName, f.Name, f.SHA256, f.Bytes)
		}
		names[f.Name] = true
	}
	return m, nil
}

// Backup is a whole backup in a folder.
type Backup struct {
	Manifest
	dir string
}

// Open returns the backup in a folder. It reads the manifest, but not the files. It fails
// with [fs.ErrNotExist] if the folder is missing, with [storage.ErrFormat] if it has no backup or
// one of a newer format, and with [storage.ErrDamaged] if the manifest is cut or altered.
func Open(dir string) (*Backup, error) {
	if _, err := os.Stat(dir); err != nil {
		return nil, err
	}
	f, err := os.Open(filepath.Join(dir, manifestName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s is no whole backup: it has no file %s, which a backup gets last", storage.ErrFormat, dir, manifestName)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, manifestBytesMax))
	if err != nil {
		return nil, err
	}
	m, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("backup %s: %w", dir, err)
	}
	return &Backup{*m, dir}, nil
}

// path returns the path of a file of the backup.
func (b *Backup) path(f *File) string { return filepath.Join(b.dir, filesName, f.SHA256) }

// Progress is called with the bytes that are done and those that there are.
type Progress func(done, total int64)

// Check reads all files and compares them with their checksums. It fails with
// [storage.ErrDamaged], and the name of the file, if one is missing, cut or altered.
func (b *Backup) Check(progress Progress) error {
	done := int64(0)
	for i := range b.Files {
		f := &b.Files[i]
		if err := b.read(f, io.Discard); err != nil {
			return err
		}
		done += f.Bytes
		progress(done, b.Bytes())
	}
	return nil
}

// read writes a file to w, and compares it with its checksum.
func (b *Backup) read(f *File, w io.Writer) error {
	in, err := os.Open(b.path(f))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: the backup %s lacks the file %s: %w", storage.ErrDamaged, b.dir, f.Name, err)
	}
	if err != nil {
		return err
	}
	defer in.Close()
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(w, sum), in)
	if err != nil {
		return err
	}
	if n != f.Bytes || hex.EncodeToString(sum.Sum(nil)) != f.SHA256 {
		return fmt.Errorf("%w: the file %s of the backup has %d bytes and another checksum than its name, expected %d bytes. It is %s", storage.ErrDamaged, b.path(f), n, f.Bytes, f.Name)
	}
	return nil
}

// CopyTo makes dir, which must be missing, the data folder that was backed up. It compares
// each file with its checksum, and fails as [Backup.Check] does. The files are on disk when it
// returns.
func (b *Backup) CopyTo(dir string, progress Progress) error {
	if err := os.MkdirAll(filepath.Join(dir, pebbleName), 0o700); err != nil {
		return err
	}
	done := int64(0)
	for i := range b.Files {
		f := &b.Files[i]
		if err := writeFile(filepath.Join(dir, filepath.FromSlash(f.Name)), func(w io.Writer) error { return b.read(f, w) }); err != nil {
			return err
		}
		done += f.Bytes
		progress(done, b.Bytes())
	}
	return errors.Join(SyncFolder(filepath.Join(dir, pebbleName)), SyncFolder(dir))
}

// ViewIn makes dir, which must be missing, a data folder with the content of the backup, to look
// at it: its large files are links to those of the backup, which nothing changes.
func (b *Backup) ViewIn(dir string) error {
	return view(dir, b.Files, func(f *File) string { return b.path(f) })
}

// ViewOf is [Backup.ViewIn] for a data folder that no one has open.
func ViewOf(folder, dir string) error {
	files, err := list(folder)
	if err != nil {
		return err
	}
	return view(dir, files, func(f *File) string { return filepath.Join(folder, filepath.FromSlash(f.Name)) })
}

// view makes dir a data folder of files. Pebble never changes a table, so a link will do.
func view(dir string, files []File, path func(*File) string) error {
	if err := os.MkdirAll(filepath.Join(dir, pebbleName), 0o700); err != nil {
		return err
	}
	for i := range files {
		from, err := filepath.Abs(path(&files[i]))
		if err != nil {
			return err
		}
		to := filepath.Join(dir, filepath.FromSlash(files[i].Name))
		if filepath.Ext(to) == tableEnd && os.Symlink(from, to) == nil {
			continue
		}
		err = writeFile(to, func(w io.Writer) error {
			in, err := os.Open(from)
			if err != nil {
				return err
			}
			defer in.Close()
			_, err = io.Copy(w, in)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
