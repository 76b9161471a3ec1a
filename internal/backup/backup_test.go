package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
	"github.com/ostiary/ostiary/storage/pebble"
)

// source is a data folder that a test fills, with its driver.
type source struct {
	t      *testing.T
	dir    string
	folder *pebble.Driver // nil in memory
	driver *kv.Driver
	id     storage.StoreID
	info   storage.StoreInfo
	head   storage.Head
	n      int // checkpoints
}

func open(t *testing.T, dir string) *pebble.Driver {
	t.Helper()
	d, err := pebble.Open(dir, pebble.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func newSource(t *testing.T) *source {
	t.Helper()
	s := &source{t: t, dir: filepath.Join(t.TempDir(), "data")}
	s.folder = open(t, s.dir)
	s.driver = s.folder.Driver
	return s.create()
}

// create creates the store.
func (s *source) create() *source {
	s.t.Helper()
	s.id = storage.NewID(rel.TimeOf(time.Now()))
	s.info = storage.StoreInfo{ID: s.id, Incarnation: storage.NewIncarnation(), Name: "docs", Aliases: map[string]string{"a": "x"}, Created: 1}
	if err := s.driver.CreateStore(s.t.Context(), s.info); err != nil {
		s.t.Fatal(err)
	}
	return s
}

// write appends an entry with changes.
func (s *source) write(changes ...storage.Change) {
	s.t.Helper()
	e := storage.Entry{Incarnation: s.info.Incarnation, Revision: s.head.Revision + 1, Previous: s.head.Hash, Writer: storage.WriterID{1}, Sequence: uint64(s.head.Revision) + 1, Time: rel.TimeOf(time.Now()), Changes: changes}
	head, err := s.driver.Append(s.t.Context(), s.id, s.head, []storage.Entry{e}, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	s.head = head
}

func add(text string) storage.Change {
	t, err := rel.Parse(text)
	if err != nil {
		panic(err)
	}
	return storage.Change{Kind: storage.TupleAdd, Tuple: t}
}

func drop(text string) storage.Change {
	c := add(text)
	c.Kind = storage.TupleRemove
	return c
}

// fill writes rows of each kind, some of which are of the past.
func (s *source) fill() {
	s.write(add("doc:1#viewer@user:anne"), add("doc:2#viewer@user:anne"), add("doc:2#viewer@user:bob"))
	s.write(drop("doc:1#viewer@user:anne"), add("doc:3#viewer@user:bob"), add("doc:4#viewer@user:bob"), drop("doc:4#viewer@user:bob"))
	s.write(storage.Change{Kind: storage.AttributeSet, Attribute: rel.Attribute{Object: rel.Object{Type: "doc", ID: "1"}, Name: "public", Value: "true"}})
	s.write(storage.Change{Kind: storage.AttributeSet, Attribute: rel.Attribute{Object: rel.Object{Type: "doc", ID: "1"}, Name: "public", Value: "false"}},
		storage.Change{Kind: storage.DocumentPut, Document: storage.Document{Kind: "note", Key: "1", Secondary: []string{"p", "q"}, Body: []byte("text")}},
		storage.Change{Kind: storage.DocumentPut, Document: storage.Document{Kind: "note", Key: "2", Body: []byte("more")}},
		storage.Change{Kind: storage.SecretPut, Document: storage.Document{Kind: "key", Key: "1", Body: []byte("ciphertext")}})
	s.write(storage.Change{Kind: storage.DocumentRemove, Document: storage.Document{Kind: "note", Key: "2"}},
		storage.Change{Kind: storage.RemoveByFilter, Filter: storage.Filter{Target: storage.FilterTuples, Tuple: rel.Filter{ObjectID: "2", SubjectID: "bob"}}})
}

// checkpoint returns a copy of the data and what it has.
func (s *source) checkpoint() (string, *Manifest) {
	s.t.Helper()
	s.n++
	dir := filepath.Join(s.dir, fmt.Sprint("backup-", s.n))
	if err := s.folder.Backup(s.t.Context(), dir); err != nil {
		s.t.Fatal(err)
	}
	c, err := ContentOf(s.t.Context(), s.driver)
	if err != nil {
		s.t.Fatal(err)
	}
	return dir, &Manifest{Made: time.Now(), Program: "test", Content: c}
}

func quiet(int64, int64) {}

// backup writes a backup to a folder.
func (s *source) backup(to string) Done {
	s.t.Helper()
	dir, m := s.checkpoint()
	d, err := Write(s.t.Context(), dir, to, m, Options{Progress: quiet})
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

// proves proves a whole backup, and that it has a content.
func proves(t *testing.T, from string, want Content) {
	t.Helper()
	b, err := Open(from)
	if err == nil {
		err = b.Check(quiet)
	}
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "restored")
	if err := b.CopyTo(dir, quiet); err != nil {
		t.Fatal(err)
	}
	d := open(t, dir)
	defer d.Close()
	have, err := ContentOf(t.Context(), d.Driver)
	if err != nil || have.Heads != want.Heads || have.Secrets != want.Secrets {
		t.Fatalf("restored %+v, %v, expected %+v", have, err, want)
	}
	if _, err := Prove(t.Context(), d.Driver, func(int) {}); err != nil {
		t.Fatal(err)
	}
}

func TestBackup(t *testing.T) {
	s, to := newSource(t), filepath.Join(t.TempDir(), "to")
	s.fill()
	if d := s.backup(to); d.Kept != 0 || d.Files == 0 {
		t.Fatalf("the first backup: %+v", d)
	}
	_, m := s.checkpoint()
	proves(t, to, m.Content)
	if d := s.backup(to); d.Kept == 0 {
		t.Errorf("the second backup copied all: %+v", d)
	}
	s.write(add("doc:9#viewer@user:anne"))
	if d := s.backup(to); d.Kept == 0 {
		t.Errorf("the third backup copied all: %+v", d)
	}
	_, m = s.checkpoint()
	proves(t, to, m.Content)
	b, err := Open(to)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(filepath.Join(to, filesName))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !slices.ContainsFunc(b.Files, func(f File) bool { return f.SHA256 == e.Name() }) {
			t.Errorf("the file %s is in no backup, and was not removed", e.Name())
		}
	}
	err = filepath.WalkDir(to, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if info, err := e.Info(); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: mode %v, %v", path, info.Mode(), err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestStopped ends a backup at each of its files, and when its target vanishes: the folder has
// the backup before, whole, and the next backup goes on.
func TestStopped(t *testing.T) {
	s, to := newSource(t), filepath.Join(t.TempDir(), "to")
	s.fill()
	dir, first := s.checkpoint()
	stopped := errors.New("stopped")
	for n := 1; ; n++ {
		ctx, cancel := context.WithCancelCause(t.Context())
		files := 0
		_, err := Write(ctx, dir, to, first, Options{Progress: func(int64, int64) {
			if files++; files == n {
				cancel(stopped)
			}
		}})
		if err == nil {
			break
		}
		if _, err := Open(to); !errors.Is(err, storage.ErrFormat) {
			t.Fatalf("a backup that was stopped at file %d is taken for a whole one: %v", n, err)
		}
	}
	proves(t, to, first.Content)
	s.write(add("doc:9#viewer@user:anne"))
	dir, second := s.checkpoint()
	vanish := func(int64, int64) {
		if _, err := os.Stat(to); err == nil {
			if err := os.Rename(to, to+".away"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := Write(t.Context(), dir, to, second, Options{Progress: vanish}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a target that vanishes: %v", err)
	}
	proves(t, to+".away", first.Content)
	if _, err := Write(t.Context(), dir, to+".away", second, Options{Progress: quiet}); err != nil {
		t.Fatal(err)
	}
	proves(t, to+".away", second.Content)
}

// TestRefused makes backups into folders that have something else, or are in use.
func TestRefused(t *testing.T) {
	s, parent := newSource(t), t.TempDir()
	s.fill()
	dir, m := s.checkpoint()
	foreign := filepath.Join(parent, "foreign")
	if err := os.MkdirAll(foreign, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(foreign, "letter.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	write := func(to string, o Options) error {
		o.Progress = quiet
		_, err := Write(t.Context(), dir, to, m, o)
		return err
	}
	if err := write(foreign, Options{}); !errors.Is(err, storage.ErrFormat) || !strings.Contains(err.Error(), "letter.txt") {
		t.Errorf("a folder of others: %v", err)
	}
	if err := write(s.dir, Options{}); !errors.Is(err, storage.ErrFormat) {
		t.Errorf("the data folder itself: %v", err)
	}
	file := filepath.Join(foreign, "letter.txt")
	if err := write(file, Options{}); err == nil {
		t.Error("a file was taken for a folder")
	}
	to := filepath.Join(parent, "to")
	newSource(t).backup(to)
	if err := write(to, Options{}); !errors.Is(err, ErrOther) || !strings.Contains(err.Error(), "--replace") {
		t.Errorf("the backup of another folder: %v", err)
	}
	if err := write(to, Options{Replace: true}); err != nil {
		t.Error(err)
	}
	proves(t, to, m.Content)
	empty := filepath.Join(parent, "empty")
	if err := os.Mkdir(empty, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(empty); !errors.Is(err, storage.ErrFormat) {
		t.Errorf("an empty folder: %v", err)
	}
	if _, err := Open(filepath.Join(parent, "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing folder: %v", err)
	}
}

// TestDamaged cuts, flips and removes each file of a backup: it is refused, and the next backup
// replaces a damaged manifest.
func TestDamaged(t *testing.T) {
	s, to := newSource(t), filepath.Join(t.TempDir(), "to")
	s.fill()
	s.backup(to)
	paths := []string{filepath.Join(to, manifestName)}
	entries, err := os.ReadDir(filepath.Join(to, filesName))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		paths = append(paths, filepath.Join(to, filesName, e.Name()))
	}
	check := func() error {
		b, err := Open(to)
		if err != nil {
			return err
		}
		if err := b.Check(quiet); err != nil {
			return err
		}
		return b.CopyTo(filepath.Join(t.TempDir(), "restored"), quiet)
	}
	if err := check(); err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		flipped := bytes.Clone(text)
		changes := map[string][]byte{"longer": append(bytes.Clone(text), 'x'), "empty": {}}
		if len(text) > 0 {
			flipped[len(text)/2] ^= 1
			changes["flipped"], changes["cut"] = flipped, text[:len(text)-1]
		} else {
			delete(changes, "empty")
		}
		for what, changed := range changes {
			if err := os.WriteFile(path, changed, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := check(); !errors.Is(err, storage.ErrDamaged) {
				t.Errorf("%s %s: %v", filepath.Base(path), what, err)
			}
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := check(); !errors.Is(err, storage.ErrDamaged) && !errors.Is(err, storage.ErrFormat) {
			t.Errorf("%s is missing: %v", filepath.Base(path), err)
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(paths[0], []byte("ostiary backup 1\n{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.backup(to)
	if err := check(); err != nil {
		t.Error(err)
	}
}

// TestManifests reads manifests with a right checksum that name other files.
func TestManifests(t *testing.T) {
	sum := fmt.Sprintf("%x", sha256.Sum256(nil))
	for _, f := range []File{{Name: "../x", SHA256: sum}, {Name: "pebble/../../x", SHA256: sum}, {Name: "/etc/x", SHA256: sum}, {Name: "pebble/", SHA256: sum}, {Name: "OSTIARY", SHA256: "../" + sum}, {Name: "OSTIARY", SHA256: sum, Bytes: -1}} {
		text, err := (&Manifest{Files: []File{f}}).text()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parse(text); !errors.Is(err, storage.ErrDamaged) {
			t.Errorf("%+v: %v", f, err)
		}
	}
	text, err := (&Manifest{}).text()
	if err != nil {
		t.Fatal(err)
	}
	newer := bytes.Replace(text, []byte("backup 1"), []byte("backup 2"), 1)
	if _, err := parse(newer); !errors.Is(err, storage.ErrFormat) || !strings.Contains(err.Error(), "format 2") {
		t.Errorf("a newer format: %v", err)
	}
	if _, err := parse([]byte("ostiary backup\n")); !errors.Is(err, storage.ErrDamaged) {
		t.Errorf("another file: %v", err)
	}
}

// TestStream writes a tar, and reads it whole, cut at many places, altered and with other files.
func TestStream(t *testing.T) {
	s := newSource(t)
	s.fill()
	dir, m := s.checkpoint()
	var out bytes.Buffer
	if _, err := Stream(t.Context(), dir, &out, m, Options{Progress: quiet, Rate: 100 << 20}); err != nil {
		t.Fatal(err)
	}
	text := out.Bytes()
	extract := func(text []byte) (string, error) {
		to := filepath.Join(t.TempDir(), "to")
		_, err := Extract(t.Context(), bytes.NewReader(text), to)
		return to, err
	}
	to, err := extract(text)
	if err != nil {
		t.Fatal(err)
	}
	proves(t, to, m.Content)
	manifest := bytes.LastIndex(text, []byte("ostiary backup 1"))
	for at := 512; at < manifest; at += 256 {
		if to, err := extract(text[:at]); err == nil {
			t.Errorf("a tar that is cut at %d was taken for a whole one", at)
		} else if _, err := Open(to); err == nil {
			t.Errorf("what a tar has that is cut at %d was taken for a backup", at)
		}
	}
	flipped := bytes.Clone(text)
	flipped[manifest+100] ^= 1
	if _, err := extract(flipped); !errors.Is(err, storage.ErrDamaged) {
		t.Errorf("a manifest that is altered: %v", err)
	}
	at := bytes.Index(text, []byte("ostiary data folder"))
	flipped = bytes.Clone(text)
	flipped[at] ^= 1
	if _, err := extract(flipped); !errors.Is(err, storage.ErrDamaged) {
		t.Errorf("a file that is altered: %v", err)
	}
	for name, text := range map[string]string{"nothing": "", "text": strings.Repeat("no tar\n", 500)} {
		if _, err := extract([]byte(text)); err == nil {
			t.Errorf("%s was taken for a backup", name)
		}
	}
	if _, err := Stream(t.Context(), dir, failing{}, m, Options{Progress: quiet}); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("an output that is closed: %v", err)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
