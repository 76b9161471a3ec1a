package kv_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
	"github.com/ostiary/ostiary/storage/memory"
	"github.com/ostiary/ostiary/storage/storagetest"
)

// Two drivers and an embedder share one store under prefixes that are near to
// each other; all pass the suite or keep what they have.
func TestPrefixes(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, func(t *testing.T) storagetest.Opener {
		store := memory.NewStore()
		bystander, err := kv.New(store, kv.Options{Prefix: []byte("b")})
		if err != nil {
			t.Fatal(err)
		}
		l := storagetest.NewLog(1)
		if err := bystander.CreateStore(t.Context(), storage.StoreInfo{ID: l.ID, Incarnation: l.Incarnation}); err != nil {
			t.Fatal(err)
		}
		if err := l.Append(t.Context(), bystander, storage.Change{Kind: storage.TupleAdd}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if _, err := storagetest.Verify(context.Background(), bystander, l.ID); err != nil {
				t.Errorf("the neighbour: %v", err)
			}
		})
		return func() (storage.Driver, error) { return kv.New(store, kv.Options{Prefix: []byte("a\xff\xff")}) }
	})
}

// sealing appends with the canonical bytes at hand, as the engine does.
type sealing struct{ *kv.Driver }

func (d sealing) Append(ctx context.Context, id storage.StoreID, after storage.Head, entries []storage.Entry) (storage.Head, error) {
	_, sealed, err := storage.Seal(after, entries)
	if err != nil { // or it is of another head, which the driver finds out
		return d.Driver.Append(ctx, id, after, entries)
	}
	return d.AppendSealed(ctx, id, after, entries, sealed)
}

func TestSealed(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, func(t *testing.T) storagetest.Opener {
		store := memory.NewStore()
		return func() (storage.Driver, error) {
			d, err := kv.New(store, kv.Options{})
			return sealing{d}, err
		}
	})
	d, err := kv.New(memory.NewStore(), kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l := storagetest.NewLog(1)
	if err := d.CreateStore(t.Context(), storage.StoreInfo{ID: l.ID, Incarnation: l.Incarnation}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.AppendSealed(t.Context(), l.ID, l.Head, []storage.Entry{l.Entry(l.Head)}, nil); !errors.Is(err, storage.ErrEntry) {
		t.Errorf("an entry that is not sealed: %v", err)
	}
}

// A head that an embedder's transaction moves is looked up, whatever the driver
// wrote itself before and after; so is that of a store that was created anew.
func TestHeadIsTheStored(t *testing.T) {
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
		next, err := d.Append(t.Context(), l.ID, head, []storage.Entry{l.Entry(head)})
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
	if _, err := d.Append(t.Context(), l.ID, head, []storage.Entry{l.Entry(head)}); !errors.Is(err, storage.ErrNoStore) {
		t.Errorf("an append to a store that was deleted: %v", err)
	}
	if err := d.CreateStore(t.Context(), info); err != nil {
		t.Fatal(err)
	}
	head = storage.Head{}
	write()
}

// A prefix that holds somebody's keys, a newer layout, or no format record where
// there was one, is refused.
func TestFormatRecord(t *testing.T) {
	t.Parallel()
	foreign := memory.NewStore()
	set(t, foreign, "p\x03something", "of the embedder's")
	if _, err := kv.New(foreign, kv.Options{Prefix: []byte("p")}); !errors.Is(err, storage.ErrFormat) {
		t.Errorf("a prefix in use: %v", err)
	}
	if _, err := kv.New(foreign, kv.Options{Prefix: []byte("q")}); err != nil {
		t.Errorf("a free prefix: %v", err)
	}
	if _, err := kv.New(memory.NewStore(), kv.Options{MustExist: true}); !errors.Is(err, storage.ErrDamaged) {
		t.Errorf("a missing record: %v", err)
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

// Each value that is changed, removed or put under another key is ErrDamaged to
// whoever reads it, and never a wrong answer.
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
			"a flipped bit":      flip(p.value, 3),
			"a flipped last bit": flip(p.value, 8*len(p.value)-1),
			"a cut value":        p.value[:len(p.value)-1],
			"an empty value":     "",
			"another's value":    pairs[(i+1)%len(pairs)].value,
		} {
			set(t, store, p.key, value)
			if err := use(); !errors.Is(err, storage.ErrDamaged) {
				t.Errorf("%s of key %x: %v", what, p.key, err)
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

// A deleted store leaves no key of its own behind, so that churn of stores does
// not grow the data.
func TestNothingIsLeft(t *testing.T) {
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
		t.Errorf("%d keys became %d: %q", before, len(after), after)
	}
}
