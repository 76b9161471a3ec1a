package storage_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

func secretDigest(body []byte) storage.Hash { return sha256.Sum256(body) }

func TestChain(t *testing.T) {
	t.Parallel()
	entries := sample()
	head, err := storage.Chain(storage.Head{}, entries)
	if err != nil {
		t.Fatal(err)
	}
	last := entries[len(entries)-1]
	if head != (storage.Head{Revision: last.Revision, Hash: last.Hash(), Time: last.Time}) {
		t.Fatalf("Chain returns head %v, want that of entry %d", head, last.Revision)
	}
	if h, err := storage.Chain(head, nil); err != nil || h != head {
		t.Errorf("without entries Chain returns %v, %v; want the head itself", h, err)
	}
	for what, spoil := range map[string]func(e []storage.Entry){
		"a gap":                            func(e []storage.Entry) { e[3].Revision++ },
		"a swap":                           func(e []storage.Entry) { e[3], e[4] = e[4], e[3] },
		"another predecessor":              func(e []storage.Entry) { e[3].Previous[0]++ },
		"a changed entry":                  func(e []storage.Entry) { e[3].Sequence++ },
		"an earlier time":                  func(e []storage.Entry) { e[len(e)-1].Time -= 2 },
		"another incarnation":              func(e []storage.Entry) { e[len(e)-1].Incarnation[0]++ },
		"a first entry with a predecessor": func(e []storage.Entry) { e[0].Previous[0]++ },
	} {
		bad := sample()
		spoil(bad)
		if _, err := storage.Chain(storage.Head{}, bad); !errors.Is(err, storage.ErrEntry) {
			t.Errorf("%s: error %v, want ErrEntry", what, err)
		}
		sameSealed(t, what, storage.Head{}, bad)
	}
	sameSealed(t, "the sample", storage.Head{}, entries)
	sameSealed(t, "no entries", head, nil)
	sameSealed(t, "a missing first entry", storage.Head{}, entries[1:])
	if _, err := storage.ChainSealed(storage.Head{}, entries, make([]storage.Sealed, len(entries)-1)); !errors.Is(err, storage.ErrEntry) {
		t.Errorf("a missing canonical form: error %v, want ErrEntry", err)
	}
	if _, err := storage.Chain(storage.Head{}, entries[1:]); !errors.Is(err, storage.ErrEntry) {
		t.Errorf("a missing first entry: error %v, want ErrEntry", err)
	}
}

// sameSealed requires that ChainSealed returns what Chain and Seal return.
func sameSealed(t *testing.T, what string, after storage.Head, entries []storage.Entry) {
	t.Helper()
	var sealed []storage.Sealed
	for i := range entries {
		sealed = append(sealed, storage.Sealed{Bytes: storage.AppendEntry(nil, &entries[i]), Hash: entries[i].Hash()})
	}
	want, wantErr := storage.Chain(after, entries)
	if got, err := storage.ChainSealed(after, entries, sealed); got != want || fmt.Sprint(err) != fmt.Sprint(wantErr) {
		t.Errorf("%s: ChainSealed returns %v, %v, but Chain %v, %v", what, got, err, want, wantErr)
	}
	if _, err := storage.ChainSealed(after, entries, append(sealed, storage.Sealed{})); !errors.Is(err, storage.ErrEntry) {
		t.Errorf("%s: one canonical form too many: error %v, want ErrEntry", what, err)
	}
	got, forms, err := storage.Seal(after, entries)
	if got != want || fmt.Sprint(err) != fmt.Sprint(wantErr) {
		t.Errorf("%s: Seal returns %v, %v, but Chain %v, %v", what, got, err, want, wantErr)
	}
	if err == nil && len(entries) > 0 && !reflect.DeepEqual(forms, sealed) {
		t.Errorf("%s: Seal returns other canonical bytes or hashes", what)
	}
}

// TestTexts checks the texts of values and errors.
func TestTexts(t *testing.T) {
	t.Parallel()
	if got := (storage.Hash{0: 0xab, 31: 1}).String(); got != "ab"+strings.Repeat("00", 30)+"01" {
		t.Error(got)
	}
	if got := (&storage.ConflictError{Head: storage.Head{Revision: 7}}).Error(); got != "append conflict: the head is at revision 7" {
		t.Error(got)
	}
	if storage.NewIncarnation() == storage.NewIncarnation() || storage.NewWriterID() == storage.NewWriterID() {
		t.Error("two random ids are equal")
	}
}

func TestChainBounds(t *testing.T) {
	t.Parallel()
	filters := func(n int) []storage.Change {
		out := make([]storage.Change, n)
		for i := range out {
			out[i] = storage.Change{Kind: storage.RemoveByFilter, Filter: storage.Filter{Target: storage.FilterTuples}}
		}
		return out
	}
	removes := func(n int) []storage.Change {
		out := make([]storage.Change, n)
		for i := range out {
			out[i].Kind = storage.TupleRemove
		}
		return out
	}
	body := func(n int) []storage.Change {
		return []storage.Change{{Kind: storage.SecretPut, Document: storage.Document{Body: make([]byte, n)}}}
	}
	empty := storage.Entry{Revision: 1, Changes: []storage.Change{{Kind: storage.SecretPut}}}
	room := storage.EntryBytesMax - len(storage.AppendEntry(nil, &empty))
	for bound, c := range map[string]struct{ allowed, tooMany []storage.Change }{
		"ChangesMax":    {removes(storage.ChangesMax), removes(storage.ChangesMax + 1)},
		"FiltersMax":    {filters(storage.FiltersMax), filters(storage.FiltersMax + 1)},
		"EntryBytesMax": {body(room), body(room + 1)},
	} {
		if _, err := storage.Chain(storage.Head{}, []storage.Entry{{Revision: 1, Changes: c.allowed}}); err != nil {
			t.Errorf("at %s: %v", bound, err)
		}
		allowed := storage.Entry{Revision: 1, Changes: c.allowed}
		if bound == "EntryBytesMax" { // the log has the body of a document, but not that of a secret
			allowed.Changes = []storage.Change{{Kind: storage.DocumentPut}}
			spare := storage.EntryBytesMax - len(storage.AppendEntry(nil, &allowed)) - 3 // for the length of the body
			allowed.Changes[0].Document.Body = make([]byte, spare)
		}
		b := storage.AppendEntry(nil, &allowed)
		if _, err := storage.DecodeEntry(b); err != nil || bound == "EntryBytesMax" && len(b) != storage.EntryBytesMax {
			t.Errorf("at %s: decoding %d bytes: %v", bound, len(b), err)
		}
		_, err := storage.Chain(storage.Head{}, []storage.Entry{{Revision: 1, Changes: c.tooMany}})
		if !errors.Is(err, storage.ErrTooLarge) || !strings.Contains(err.Error(), bound) {
			t.Errorf("above %s: %v", bound, err)
		}
		sameSealed(t, "at "+bound, storage.Head{}, []storage.Entry{{Revision: 1, Changes: c.allowed}})
		sameSealed(t, "above "+bound, storage.Head{}, []storage.Entry{{Revision: 1, Changes: c.tooMany}})
	}
}

func TestParseStoreID(t *testing.T) {
	t.Parallel()
	id := storage.StoreID{0: 1, 15: 255}
	back, err := storage.ParseStoreID(id.String())
	if err != nil || back != id {
		t.Errorf("ParseStoreID(%s) = %v, %v", id, back, err)
	}
	for _, s := range []string{"", "x", strings.ToLower(id.String()), id.String() + "0", id.String()[1:], "8" + id.String()[1:], "\x00" + id.String()[1:]} {
		if _, err := storage.ParseStoreID(s); !errors.Is(err, storage.ErrNoStore) {
			t.Errorf("ParseStoreID(%q): error %v, want ErrNoStore", s, err)
		}
	}
}

// BenchmarkEntry measures sealing and decoding an entry of 10,000 tuples.
func BenchmarkEntry(b *testing.B) {
	e := storage.Entry{Revision: 1}
	for i := range 10_000 {
		id := strings.Repeat(string(rune('a'+i%26)), 8)
		e.Changes = append(e.Changes, storage.Change{Kind: storage.TupleAdd, Tuple: rel.Tuple{
			Object: rel.Object{Type: "document", ID: id}, Relation: "parent", Subject: rel.Subject{Type: "folder", ID: id},
		}})
	}
	raw := storage.AppendEntry(nil, &e)
	b.Run("seal", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, _, err := storage.Seal(storage.Head{}, []storage.Entry{e}); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/10_000, "ns/tuple")
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := storage.DecodeEntry(raw); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/10_000, "ns/tuple")
	})
}
