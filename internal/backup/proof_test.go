package backup

import (
	"bytes"
	"testing"

	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
	"github.com/ostiary/ostiary/storage/memory"
)

// pair is a key with its value.
type pair struct{ key, value []byte }

// pairs returns what a store has.
func pairs(t *testing.T, s kv.Store) (all []pair) {
	t.Helper()
	it, err := s.Scan(nil, []byte{0xff})
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	for it.Next() {
		all = append(all, pair{bytes.Clone(it.Key()), bytes.Clone(it.Value())})
	}
	return all
}

// TestProve loses each key of a store with rows of all kinds, one after the other, and expects that
// this is found. If the log was trimmed, it does not show which rows were made before: two tuples,
// and a tuple and an attribute of the past.
func TestProve(t *testing.T) {
	for _, trimmed := range []bool{false, true} {
		store := memory.NewStore()
		d, err := kv.New(store, kv.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s := (&source{t: t, driver: d}).create()
		s.fill()
		if trimmed {
			if err := d.Trim(t.Context(), s.id, 3, 3); err != nil {
				t.Fatal(err)
			}
		}
		want, err := ContentOf(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		p, err := Prove(t.Context(), d, func(int) {})
		if err != nil {
			t.Fatal(err)
		}
		if past := map[bool]int{false: 4, true: 3}[trimmed]; p.Tuples != 2 || p.Documents != 1 || p.Attributes != 1 || p.Secrets != 1 || p.Past != past || want.Secrets != 1 {
			t.Errorf("trimmed %t: counted %+v", trimmed, p)
		}
		all, unknown := pairs(t, store), ""
		for i := range all {
			if key := all[i].key; key[0] == 0 || len(key) > 17 && key[17] == 'o' {
				continue // the format, whose loss is found when the data is opened, and the trim
			}
			lost := memory.NewStore()
			b := lost.Batch()
			for j := range all {
				if j == i {
					continue
				}
				if err := b.Set(all[j].key, all[j].value); err != nil {
					t.Fatal(err)
				}
			}
			if err := b.Commit(); err != nil {
				t.Fatal(err)
			}
			without, err := kv.New(lost, kv.Options{MustExist: true})
			if err != nil {
				t.Fatal(err)
			}
			have, err := ContentOf(t.Context(), without)
			if err == nil && have.Heads == want.Heads {
				_, err = Prove(t.Context(), without, func(int) {})
			} else if err == nil {
				err = storage.ErrDamaged
			}
			switch key := all[i].key; {
			case err == nil && trimmed && len(key) > 17:
				unknown += string(key[17])
			case err == nil:
				t.Errorf("trimmed %t: the key %q was lost, and the data was proved", trimmed, all[i].key)
			}
		}
		if want := map[bool]string{true: "bttu"}[trimmed]; unknown != want {
			t.Errorf("trimmed %t: lost rows of the tables %q were not found, expected %q", trimmed, unknown, want)
		}
	}
}
