package pebble_test

import (
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	cockroach "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/pebble"
	"github.com/ostiary/ostiary/storage/storagetest"
)

var golden = flag.Bool("golden", false, "rewrite the golden data folder; only for a new format")

// goldenFormat is the newest format, whose golden folder the flag rewrites.
const goldenFormat = 3

// goldenFolder returns the golden folder of a format.
func goldenFolder(format int) string { return fmt.Sprint("testdata/golden-v", format) }

// goldenOrigins returns the origins of the entries in the golden folder of a
// format, one for each of goldenEntries.
func goldenOrigins(format int) []storage.Origin {
	origins := make([]storage.Origin, len(goldenEntries()))
	if format > 1 {
		origins[1] = storage.Origin{Caller: "anne"}
		origins[2] = storage.Origin{Caller: storage.CallerCollector, Reason: "ticket 7: é"}
		origins[5] = storage.Origin{Caller: "anne", Request: storage.RequestID{Node: storage.NodeID{7, 15: 8}, Number: 300}}
	}
	return origins
}

// goldenEntries returns the changes of the entries in the golden folders.
func goldenEntries() [][]storage.Change {
	tuple := func(s string) rel.Tuple {
		t, err := rel.Parse(s)
		if err != nil {
			panic(err)
		}
		return t
	}
	add := func(s string) storage.Change { return storage.Change{Kind: storage.TupleAdd, Tuple: tuple(s)} }
	attribute := rel.Attribute{Object: rel.Object{Type: "doc", ID: "1"}, Name: "size", Value: "3"}
	return [][]storage.Change{
		{add("doc:1#viewer@user:anne"), add("doc:1#viewer@group:eng#member"), add("doc:2#viewer@user:*"), add("doc:3#parent@doc:1")},
		{add(`doc:1#viewer@user:anne with office_hours {"zone":"UTC"} until 2040-01-01T00:00:00Z`)},
		{{Kind: storage.TupleRemove, Tuple: tuple("doc:2#viewer@user:*")}, {Kind: storage.AttributeSet, Attribute: attribute}},
		{{Kind: storage.DocumentPut, Document: storage.Document{Kind: "schema", Key: "01", Secondary: []string{"main"}, Body: []byte("type user")}}},
		{{Kind: storage.SecretPut, Document: storage.Document{Kind: "signing", Key: "k1", Body: []byte("ciphertext")}}},
		{{Kind: storage.RemoveByFilter, Filter: storage.Filter{Target: storage.FilterTuples, Tuple: rel.Filter{ObjectType: "doc", ObjectID: "3"}}}, add("doc:\u00e9#viewer@user:B\u00f6b")},
	}
}

func makeGolden(t *testing.T) {
	t.Helper()
	if err := os.RemoveAll(goldenFolder(goldenFormat)); err != nil {
		t.Fatal(err)
	}
	for n := range uint32(2) {
		// The second Open flushes the log of the first store to a table.
		d, err := pebble.Open(goldenFolder(goldenFormat), pebble.Options{})
		if err != nil {
			t.Fatal(err)
		}
		l := storagetest.NewLog(n + 1)
		info := storage.StoreInfo{ID: l.ID, Incarnation: l.Incarnation, Name: "golden", Created: 1, Aliases: map[string]string{"permify": fmt.Sprint("t", n+1)}}
		if err := d.CreateStore(t.Context(), info); err != nil {
			t.Fatal(err)
		}
		for i, changes := range goldenEntries() {
			l.Origin = goldenOrigins(goldenFormat)[i]
			if err := l.Append(t.Context(), d, changes...); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Every version opens the golden folders, which the first version of each format
// wrote, and reads the state that follows from their entries. It upgrades a folder
// of an older format, and leaves the entries as they are.
func TestGoldenFolder(t *testing.T) {
	t.Parallel()
	if *golden {
		makeGolden(t)
	}
	for format := 1; format <= goldenFormat; format++ {
		t.Run(fmt.Sprint("format ", format), func(t *testing.T) {
			t.Parallel()
			testGoldenFolder(t, format)
		})
	}
}

func testGoldenFolder(t *testing.T, format int) {
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.CopyFS(dir, os.DirFS(goldenFolder(format))); err != nil {
		t.Fatal(err)
	}
	if have := formatLine(t, dir); have != fmt.Sprint("format ", format) {
		t.Fatalf("the marker of the golden folder has %q", have)
	}
	d, err := pebble.Open(dir, pebble.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	ctx := t.Context()
	for n := range uint32(2) {
		l := storagetest.NewLog(n + 1)
		info, err := d.StoreByAlias(ctx, "permify", fmt.Sprint("t", n+1))
		if err != nil || info.ID != l.ID || info.Incarnation != l.Incarnation || info.Name != "golden" || info.Created != 1 {
			t.Fatalf("store %d has description %+v, error %v", n+1, info, err)
		}
		named := 0
		for info, err := range d.StoresByName(ctx, "golden", storage.StoreID{}) {
			if err != nil || info.ID != storagetest.NewLog(uint32(named)+1).ID {
				t.Errorf("store %d with the name is %+v, error %v", named+1, info, err)
			}
			named++
		}
		if named != 2 {
			t.Errorf("%d stores have the name, want 2", named)
		}
		m := storagetest.NewModel()
		for i, changes := range goldenEntries() {
			l.Origin = goldenOrigins(format)[i]
			e := l.Entry(l.Head, changes...)
			m.Apply(e)
			l.Head = m.Head
		}
		if err := m.Compare(ctx, d, l.ID, 0); err != nil {
			t.Errorf("store %d: %v", n+1, err)
		}
		log, err := storagetest.Verify(ctx, d, l.ID)
		if err != nil {
			t.Errorf("store %d: %v", n+1, err)
		}
		for i, e := range log {
			if e.Origin != goldenOrigins(format)[i] {
				t.Errorf("store %d: entry %d has origin %+v, want %+v", n+1, i+1, e.Origin, goldenOrigins(format)[i])
			}
		}
		secret, err := d.Secret(ctx, l.ID, "signing", "k1")
		if err != nil || string(secret.Body) != "ciphertext" {
			t.Errorf("the secret is %q, %v", secret.Body, err)
		}
		l.Origin = storage.Origin{Caller: "bob"}
		if err := l.Append(ctx, d, goldenEntries()[0]...); err != nil {
			t.Errorf("store %d: %v", n+1, err)
		}
		if _, err := storagetest.Verify(ctx, d, l.ID); err != nil {
			t.Errorf("store %d after an entry of version 2: %v", n+1, err)
		}
	}
	if v, err := d.Format(ctx); err != nil || v != goldenFormat {
		t.Errorf("the format is %d, %v", v, err)
	}
	// While the folder is in use, and so after a crash, older programs refuse it.
	if have := formatLine(t, dir); have != fmt.Sprint("format ", goldenFormat) {
		t.Errorf("the marker of the open folder has %q", have)
	}
	copied := filepath.Join(t.TempDir(), "backup")
	if err := d.Backup(ctx, copied); err != nil {
		t.Fatal(err)
	}
	if have := formatLine(t, copied); have != fmt.Sprint("format ", goldenFormat) {
		t.Errorf("the marker of the backup has %q", have)
	}
}

// formatLine returns the line of the marker that has the format.
func formatLine(t *testing.T, dir string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "OSTIARY"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(b), "\n")[1]
}

// A folder of format 1 that was not closed is upgraded, too, and so is one whose
// upgrade was interrupted after the data and before the marker.
func TestUpgradeInterrupted(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.CopyFS(dir, os.DirFS(goldenFolder(1))); err != nil {
		t.Fatal(err)
	}
	old, err := os.ReadFile(filepath.Join(dir, "OSTIARY"))
	if err != nil {
		t.Fatal(err)
	}
	open := func(when string) {
		t.Helper()
		d, err := pebble.Open(dir, pebble.Options{})
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		if v, err := d.Format(t.Context()); err != nil || v != goldenFormat {
			t.Errorf("%s: the format is %d, %v", when, v, err)
		}
		if have := formatLine(t, dir); have != fmt.Sprint("format ", goldenFormat) {
			t.Errorf("%s: the marker has %q", when, have)
		}
		if err := d.Close(); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
	}
	text, _, _ := strings.Cut(string(old), "state ")
	text += "state open \n"
	text += fmt.Sprintf("sum %08x\n", crc32.Checksum([]byte(text), crc32.MakeTable(crc32.Castagnoli)))
	for _, when := range []string{"not closed", "after the data, before the marker"} {
		if err := os.WriteFile(filepath.Join(dir, "OSTIARY"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		open(when)
	}
}

// Open rejects a folder of another program, or of a newer format, and does not
// change it.
func TestForeignFolder(t *testing.T) {
	t.Parallel()
	for what, make := range map[string]func(dir string) error{
		"a file": func(dir string) error { return os.WriteFile(filepath.Join(dir, "photo.jpg"), []byte("x"), 0o600) },
		"another Pebble's folder": func(dir string) error {
			db, err := cockroach.Open(dir, &cockroach.Options{Logger: quiet{}})
			if err != nil {
				return err
			}
			return db.Close()
		},
		"another program's marker": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "OSTIARY"), []byte("something else\n"), 0o600)
		},
		"a newer format": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "OSTIARY"), []byte("ostiary data folder\nformat 4\nwhatever comes then\n"), 0o600)
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := make(dir); err != nil {
				t.Fatal(err)
			}
			before := listing(t, dir)
			_, err := pebble.Open(dir, pebble.Options{})
			if !errors.Is(err, storage.ErrFormat) {
				t.Errorf("error %v, want ErrFormat", err)
			}
			if after := listing(t, dir); after != before {
				t.Errorf("the folder before:\n%s\nand after:\n%s", before, after)
			}
		})
	}
}

type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(string, ...any) {}

func listing(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err == nil {
			fmt.Fprintln(&b, path, info.Size(), info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Open rejects a folder whose marker is damaged or cut.
func TestDamagedMarker(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d, err := pebble.Open(dir, pebble.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "OSTIARY")
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	mustReject := func(what string, content []byte) {
		t.Helper()
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
		d, err := pebble.Open(dir, pebble.Options{})
		if err == nil {
			d.Close()
		}
		if !errors.Is(err, storage.ErrDamaged) && !errors.Is(err, storage.ErrFormat) {
			t.Errorf("%s: error %v, want ErrDamaged or ErrFormat", what, err)
		}
	}
	for bit := range 8 * len(whole) {
		flipped := append([]byte{}, whole...)
		flipped[bit/8] ^= 1 << (bit % 8)
		mustReject(fmt.Sprint("bit ", bit), flipped)
	}
	for n := range whole {
		mustReject(fmt.Sprint("cut at ", n), whole[:n])
	}
}

// Open fails with ErrLocked while another driver uses the folder, and succeeds
// after Close. The error names this process, and no other one.
func TestLockedFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d, err := pebble.Open(dir, pebble.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pebble.Open(dir, pebble.Options{}); !errors.Is(err, storage.ErrLocked) || !strings.Contains(err.Error(), "by this process, which has opened it before") {
		t.Errorf("a second Open: error %v, want ErrLocked by this process", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d, err = pebble.Open(dir, pebble.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d.Close()
}

// A backup that is taken while the driver is in use has the state at that time.
// Backup rejects a folder that is not empty.
func TestBackup(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	d, err := pebble.Open(filepath.Join(t.TempDir(), "data"), pebble.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	l := storagetest.NewLog(1)
	if err := d.CreateStore(ctx, storage.StoreInfo{ID: l.ID, Incarnation: l.Incarnation}); err != nil {
		t.Fatal(err)
	}
	write := func() {
		t.Helper()
		for i, changes := range goldenEntries() {
			l.Origin = goldenOrigins(goldenFormat)[i]
			if err := l.Append(ctx, d, changes...); err != nil {
				t.Fatal(err)
			}
		}
	}
	write()
	dir := filepath.Join(t.TempDir(), "backup")
	if err := d.Backup(ctx, dir); err != nil {
		t.Fatal(err)
	}
	then := l.Head
	write()
	if err := d.Backup(ctx, dir); !errors.Is(err, storage.ErrExists) {
		t.Errorf("a backup into a folder that is not empty: error %v, want ErrExists", err)
	}
	b, err := pebble.Open(dir, pebble.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if _, err := storagetest.Verify(ctx, b, l.ID); err != nil {
		t.Error(err)
	}
	if h, err := b.Head(ctx, l.ID); err != nil || h != then {
		t.Errorf("the head of the backup is %v, %v; want %v", h, err, then)
	}
	if _, err := storagetest.Verify(ctx, d, l.ID); err != nil {
		t.Error(err)
	}
}

// After a Trim no table contains a removed or replaced secret. The write-ahead log
// contains it until Pebble overwrites it; see docs/format.md.
func TestSecretsLeaveTheDisk(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), t.TempDir()
	d, err := pebble.Open(dir, pebble.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l := storagetest.NewLog(1)
	if err := d.CreateStore(ctx, storage.StoreInfo{ID: l.ID, Incarnation: l.Incarnation}); err != nil {
		t.Fatal(err)
	}
	secret := storage.Document{Kind: "key", Key: "1", Body: []byte("ciphertext-of-a-secret")}
	for _, c := range []storage.Change{{Kind: storage.SecretPut, Document: secret}, {Kind: storage.SecretRemove, Document: storage.Document{Kind: "key", Key: "1"}}} {
		if err := l.Append(ctx, d, c); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Trim(ctx, l.ID, 1, 0); err != nil {
		t.Fatal(err)
	}
	err = filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the store has removed the file meanwhile
		}
		if err != nil || info.IsDir() || strings.HasSuffix(path, ".log") {
			return err
		}
		b, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if strings.Contains(string(b), string(secret.Body)) {
			t.Errorf("%s contains the removed secret", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// In a database of the embedding program, the driver only uses keys with its
// prefix.
func TestSharedDatabase(t *testing.T) {
	t.Parallel()
	db, err := cockroach.Open("data", &cockroach.Options{FS: vfs.NewMem(), Logger: quiet{}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, key := range []string{"\x00", "ostiarx", "ostiarz", "zzz"} {
		if err := db.Set([]byte(key), []byte("of the program"), cockroach.Sync); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("suite", func(t *testing.T) {
		storagetest.Run(t, func(t *testing.T) storagetest.Opener {
			prefix := []byte("ostiary/" + t.Name() + "/\xff\xff")
			return func() (storage.Driver, error) {
				d, err := pebble.New(db, prefix)
				return driver{d}, err
			}
		})
	})
	for _, key := range []string{"\x00", "ostiarx", "ostiarz", "zzz"} {
		v, closer, err := db.Get([]byte(key))
		if err != nil || string(v) != "of the program" {
			t.Errorf("the value of key %q is %q, %v", key, v, err)
			continue
		}
		closer.Close()
	}
}
