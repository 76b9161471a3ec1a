package kv_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"testing"

	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
	"github.com/ostiary/ostiary/storage/memory"
	"github.com/ostiary/ostiary/storage/storagetest"
)

// Two drivers share a store under different prefixes. One passes the suite, and
// the data of the other does not change.
func TestPrefixes(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, func(t *testing.T) storagetest.Opener {
		store := memory.NewStore()
		neighbor, err := kv.New(store, kv.Options{Prefix: []byte("b")})
		if err != nil {
			t.Fatal(err)
		}
		l := storagetest.NewLog(1)
		if err := neighbor.CreateStore(t.Context(), storage.StoreInfo{ID: l.ID, Incarnation: l.Incarnation}); err != nil {
			t.Fatal(err)
		}
		if err := l.Append(t.Context(), neighbor, storage.Change{Kind: storage.TupleAdd}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if _, err := storagetest.Verify(context.Background(), neighbor, l.ID); err != nil {
				t.Errorf("the other driver: %v", err)
			}
		})
		return func() (storage.Driver, error) { return kv.New(store, kv.Options{Prefix: []byte("a\xff\xff")}) }
	})
}

// TestSealed appends an entry without its canonical bytes.
func TestSealed(t *testing.T) {
	t.Parallel()
	d, err := kv.New(memory.NewStore(), kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l := storagetest.NewLog(1)
	if err := d.CreateStore(t.Context(), storage.StoreInfo{ID: l.ID, Incarnation: l.Incarnation}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Append(t.Context(), l.ID, l.Head, []storage.Entry{l.Entry(l.Head)}, []storage.Sealed{}); !errors.Is(err, storage.ErrEntry) {
		t.Errorf("an entry without its canonical bytes: error %v, want ErrEntry", err)
	}
}

// The driver does not use a cached head after a transaction of the embedding
// program moved it, or after the store was deleted and created again.
func TestCachedHead(t *testing.T) {
	t.Parallel()
	store := memory.NewStore()
	d, err := kv.New(store, kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l := storagetest.NewLog(1)
	info := storage.StoreInfo{ID: l.ID, Incarnation: l.Incarnation}
	if err := d.CreateStore(t.Context(), info); err != nil {
		t.Fatal(err)
	}
	head := storage.Head{}
	write := func() {
		t.Helper()
		next, err := d.Append(t.Context(), l.ID, head, []storage.Entry{l.Entry(head)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		head = next
	}
	for round := range 6 {
		write()
		tx := store.Batch()
		next, err := d.AppendTo(t.Context(), tx, l.ID, head, []storage.Entry{l.Entry(head)})
		if err != nil {
			t.Fatal(err)
		}
		if round%2 == 0 {
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			head = next
		}
		write()
	}
	if err := d.DeleteStore(t.Context(), l.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Append(t.Context(), l.ID, head, []storage.Entry{l.Entry(head)}, nil); !errors.Is(err, storage.ErrNoStore) {
		t.Errorf("append to a deleted store: error %v, want ErrNoStore", err)
	}
	if err := d.CreateStore(t.Context(), info); err != nil {
		t.Fatal(err)
	}
	head = storage.Head{}
	write()
}

// New fails if there are other keys with the prefix, or if the format record is
// missing although it must exist.
func TestFormatRecord(t *testing.T) {
	t.Parallel()
	foreign := memory.NewStore()
	set(t, foreign, "p\x03something", "of the embedding program")
	if _, err := kv.New(foreign, kv.Options{Prefix: []byte("p")}); !errors.Is(err, storage.ErrFormat) {
		t.Errorf("a prefix with other keys: error %v, want ErrFormat", err)
	}
	if _, err := kv.New(foreign, kv.Options{Prefix: []byte("q")}); err != nil {
		t.Errorf("an unused prefix: %v", err)
	}
	if _, err := kv.New(memory.NewStore(), kv.Options{MustExist: true}); !errors.Is(err, storage.ErrDamaged) {
		t.Errorf("a missing format record: error %v, want ErrDamaged", err)
	}
}

// New upgrades the format record of older layouts, whose programs then refuse the
// data, and refuses layouts that it does not know without changing them.
func TestUpgradeOfFormatRecord(t *testing.T) {
	t.Parallel()
	record := func(layout byte) string {
		v := "ostiary kv layout " + string([]byte{layout})
		sum := crc32.Checksum([]byte("\x00"+v), crc32.MakeTable(crc32.Castagnoli))
		return string(binary.LittleEndian.AppendUint32([]byte(v), sum))
	}
	for layout := range byte(5) {
		store := memory.NewStore()
		set(t, store, "p\x00", record(layout))
		_, err := kv.New(store, kv.Options{Prefix: []byte("p"), MustExist: true})
		want := record(layout)
		if layout >= 1 && layout <= kv.FormatVersion {
			want = record(kv.FormatVersion)
			if err != nil {
				t.Errorf("layout %d: %v", layout, err)
			}
		} else if !errors.Is(err, storage.ErrFormat) {
			t.Errorf("layout %d: error %v, want ErrFormat", layout, err)
		}
		if v, _, _ := store.Get([]byte("p\x00"), nil); string(v) != want {
			t.Errorf("layout %d: the record is %q, want %q", layout, v, want)
		}
	}
}

// New adds the rows of names to the data of an older layout, in one batch. If it fails,
// the data stays as it was.
func TestUpgradeOfNames(t *testing.T) {
	t.Parallel()
	older := func() *faulty {
		c := newFaultCase(t)
		b := c.store.Batch()
		defer b.Close()
		for _, p := range readAll(t, c.store.Store) {
			if p.key[0] == 4 {
				if err := b.Delete([]byte(p.key)); err != nil {
					t.Fatal(err)
				}
			}
		}
		record := withChecksum("\x00", "ostiary kv layout \x02")
		if err := errors.Join(b.Set([]byte{0}, []byte(record)), b.Commit()); err != nil {
			t.Fatal(err)
		}
		return c.store
	}
	want := pairsText(t, newFaultCase(t).store.Store)
	for fail := 1; ; fail++ {
		store := older()
		before := pairsText(t, store.Store)
		store.left = fail
		_, err := kv.New(store, kv.Options{})
		store.left = 0
		if have := pairsText(t, store.Store); err != nil && have != before {
			t.Errorf("after the error %v the data is %s, want %s", err, have, before)
		} else if err == nil && have != want {
			t.Errorf("the upgraded data is %s, want %s", have, want)
		}
		if store.failed == "" {
			break
		}
		if !errors.Is(err, errFault) {
			t.Errorf("%s fails: error %v, want that of the operation", store.failed, err)
		}
		store.failed = ""
	}
}

func set(t *testing.T, s kv.Store, key, value string) {
	t.Helper()
	b := s.Batch()
	if err := b.Set([]byte(key), []byte(value)); err != nil {
		t.Fatal(err)
	}
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
}

// Reading a value that was damaged, or written under another key, fails with
// ErrDamaged.
func TestDamagedValues(t *testing.T) {
	t.Parallel()
	store := memory.NewStore()
	d, err := kv.New(store, kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	l := storagetest.NewLog(1)
	info := storage.StoreInfo{ID: l.ID, Incarnation: l.Incarnation, Aliases: map[string]string{"door": "alias"}}
	if err := d.CreateStore(ctx, info); err != nil {
		t.Fatal(err)
	}
	tuple := func(id string) rel.Tuple {
		return rel.Tuple{Object: rel.Object{Type: "doc", ID: id}, Relation: "viewer", Subject: rel.Subject{Type: "user", ID: "anne"}}
	}
	for _, changes := range [][]storage.Change{
		{{Kind: storage.TupleAdd, Tuple: tuple("1")}, {Kind: storage.TupleAdd, Tuple: tuple("2")}},
		{{Kind: storage.AttributeSet, Attribute: rel.Attribute{Object: rel.Object{Type: "doc", ID: "1"}, Name: "n", Value: "1"}}},
		{{Kind: storage.DocumentPut, Document: storage.Document{Kind: "schema", Key: "1", Secondary: []string{"s"}, Body: []byte("body")}}},
		{{Kind: storage.SecretPut, Document: storage.Document{Kind: "key", Key: "1", Body: []byte("cipher")}}},
		{{Kind: storage.TupleRemove, Tuple: tuple("2")}},
	} {
		if err := l.Append(ctx, d, changes...); err != nil {
			t.Fatal(err)
		}
	}
	use := func() error {
		if _, err := storagetest.Verify(ctx, d, l.ID); err != nil {
			return err
		}
		if _, err := d.StoreByAlias(ctx, "door", "alias"); err != nil {
			return err
		}
		for _, err := range d.StoresByName(ctx, "", storage.StoreID{}) {
			if err != nil {
				return err
			}
		}
		if _, err := d.Secret(ctx, l.ID, "key", "1"); err != nil {
			return err
		}
		for _, err := range d.DocumentsBy(ctx, l.ID, "schema", "s") {
			if err != nil {
				return err
			}
		}
		_, err := d.Format(ctx)
		return err
	}
	if err := use(); err != nil {
		t.Fatal(err)
	}
	pairs := readAll(t, store)
	for i, p := range pairs {
		for what, value := range map[string]string{
			"a flipped bit":            flip(p.value, 3),
			"a flipped last bit":       flip(p.value, 8*len(p.value)-1),
			"a cut value":              p.value[:len(p.value)-1],
			"an empty value":           "",
			"the value of another key": pairs[(i+1)%len(pairs)].value,
		} {
			set(t, store, p.key, value)
			if err := use(); !errors.Is(err, storage.ErrDamaged) {
				t.Errorf("%s at key %x: error %v, want ErrDamaged", what, p.key, err)
			}
		}
		set(t, store, p.key, p.value)
	}
	if err := use(); err != nil {
		t.Fatal(err)
	}
}

type pair struct{ key, value string }

func readAll(t *testing.T, s kv.Store) (pairs []pair) {
	t.Helper()
	it, err := s.Scan(nil, []byte{0xff, 0xff})
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	for it.Next() {
		pairs = append(pairs, pair{string(it.Key()), string(it.Value())})
	}
	return pairs
}

func flip(s string, bit int) string {
	b := []byte(s)
	b[bit/8] ^= 1 << (bit % 8)
	return string(b)
}

// Deleting a store deletes all of its keys, so creating and deleting many stores
// does not make the data grow.
func TestDeleteStoreLeavesNothing(t *testing.T) {
	t.Parallel()
	store := memory.NewStore()
	d, err := kv.New(store, kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	before := len(readAll(t, store))
	for n := range uint32(3) {
		l := storagetest.NewLog(n)
		info := storage.StoreInfo{ID: l.ID, Incarnation: l.Incarnation, Aliases: map[string]string{"a": fmt.Sprint(n), "b": fmt.Sprint(n)}}
		if err := d.CreateStore(t.Context(), info); err != nil {
			t.Fatal(err)
		}
		if err := l.Append(t.Context(), d, storage.Change{Kind: storage.TupleAdd}, storage.Change{Kind: storage.DocumentPut, Document: storage.Document{Secondary: []string{"s"}}}); err != nil {
			t.Fatal(err)
		}
		if err := d.DeleteStore(t.Context(), l.ID); err != nil {
			t.Fatal(err)
		}
	}
	if after := readAll(t, store); len(after) != before {
		t.Errorf("%d keys before, %d keys after: %q", before, len(after), after)
	}
}
