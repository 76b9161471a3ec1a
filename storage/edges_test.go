package storage_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// entryOf returns an entry with one change.
func entryOf(c storage.Change) storage.Entry {
	return storage.Entry{Revision: 1, Sequence: 1, Time: 1, Changes: []storage.Change{c}}
}

// TestLengths encodes and decodes texts of the lengths at which the encoding of the
// length grows, and lists of as many secondary keys.
func TestLengths(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 126, 127, 128, 129, 255, 256, 16_383, 16_384, 16_385, 2_097_151, 2_097_152} {
		text := strings.Repeat("x", n)
		tuple := rel.Tuple{Object: rel.Object{Type: "doc", ID: text}, Relation: "viewer", Subject: rel.Subject{Type: "user", ID: "a"}}
		changes := []storage.Change{
			{Kind: storage.TupleAdd, Tuple: tuple},
			{Kind: storage.AttributeSet, Attribute: rel.Attribute{Object: tuple.Object, Name: "n", Value: text}},
			{Kind: storage.DocumentPut, Document: storage.Document{Kind: "k", Key: text, Body: []byte("body")}},
			{Kind: storage.DocumentRemove, Document: storage.Document{Kind: "k", Key: text}},
			{Kind: storage.RemoveByFilter, Filter: storage.Filter{Target: storage.FilterTuples, Tuple: rel.Filter{ObjectType: text}}},
		}
		if n > 0 && n < 20_000 {
			keys := make([]string, n)
			changes = append(changes, storage.Change{Kind: storage.DocumentPut, Document: storage.Document{Kind: "k", Key: "d", Secondary: keys}},
				storage.Change{Kind: storage.SecretPut, Document: storage.Document{Kind: "k", Key: "d", Secondary: keys}})
		}
		for _, c := range changes {
			e := entryOf(c)
			b := storage.AppendEntry(nil, &e)
			got, err := storage.DecodeEntry(b)
			if err != nil {
				t.Errorf("kind %d, length %d: %v", c.Kind, n, err)
				continue
			}
			if again := storage.AppendEntry(nil, &got); string(again) != string(b) {
				t.Errorf("kind %d, length %d: another entry is read", c.Kind, n)
			}
			if c.Kind == storage.TupleAdd && !reflect.DeepEqual(got, e) {
				t.Errorf("length %d: got %v", n, got.Changes[0].Tuple.Object.Type)
			}
			if _, err := storage.DecodeEntry(b[:len(b)-1]); !errors.Is(err, storage.ErrDamaged) {
				t.Errorf("kind %d, length %d: without the last byte: %v", c.Kind, n, err)
			}
		}
	}
}

// TestNumbers decodes counts of changes in each form that a number can have.
func TestNumbers(t *testing.T) {
	t.Parallel()
	empty := storage.Entry{Revision: 1}
	head := storage.AppendEntry(nil, &empty)
	head = head[:len(head)-1] // the last byte is the number of changes, 0
	ff := strings.Repeat("\xff", 9)
	for count, want := range map[string]error{
		"\x00": nil, "\x80\x00": storage.ErrDamaged, "\x80\x80\x00": storage.ErrDamaged, "\x81\x00": storage.ErrDamaged,
		"\x80": storage.ErrDamaged, "": storage.ErrDamaged, ff: storage.ErrDamaged,
		ff + "\x00": storage.ErrDamaged, ff + "\x01": storage.ErrTooLarge, ff + "\x02": storage.ErrDamaged, ff + "\x81\x00": storage.ErrDamaged,
		ff + "\xff\x01": storage.ErrDamaged, "\xa1\x8d\x06": storage.ErrTooLarge, "\x01": storage.ErrDamaged,
	} {
		_, err := storage.DecodeEntry(append([]byte(nil), string(head)+count...))
		if !errors.Is(err, want) || (err == nil) != (want == nil) {
			t.Errorf("count %q: error %v, expected %v", count, err, want)
		}
	}
}

// TestCounts decodes counts of changes and of secondary keys that are larger than the rest
// of the entry can hold. The error has the count, and the number of bytes that are left.
func TestCounts(t *testing.T) {
	t.Parallel()
	empty := storage.Entry{Revision: 1}
	head := storage.AppendEntry(nil, &empty)
	head = head[:len(head)-1]
	const document = "\x01\x05\x01k\x01d" // one change, a document with the key d
	for rest, want := range map[string]string{
		"\x01":                         "1 changes in 0 bytes",
		"\x01\x06\x00":                 "1 changes in 2 bytes",
		"\x01\x06\x00\x00":             "",
		"\x02\x06\x00\x00\x06\x00":     "2 changes in 5 bytes",
		"\x02\x06\x00\x00\x06\x00\x00": "",
		"\x1e" + strings.Repeat("\x06\x00\x00", 29) + "\x06\x00": "30 changes in 89 bytes",
		"\x01\x06\x00\x00\x00":                              "unexpected 1 bytes after the end",
		"\x01\x09\x01" + strings.Repeat("\x00", 6) + "\x00": "",
		"\x01\x09\x01" + strings.Repeat("\x00", 6) + "\x02": "a flag is 2, expected 0 or 1",
		document + "\x01":                                   "1 secondary keys in 0 bytes",
		document + "\x03\x00\x00":                           "3 secondary keys in 2 bytes",
		document + "\x02\x00\x00":                           "unexpected end after 98 bytes", // the body is missing
		document + "\x02\x00\x00\x00":                       "",
		document + "\x02\x00\x05\x00":                       "unexpected end after 99 bytes",
	} {
		_, err := storage.DecodeEntry(append([]byte(nil), string(head)+rest...))
		if want == "" && err != nil || want != "" && (!errors.Is(err, storage.ErrDamaged) || !strings.HasSuffix(err.Error(), want)) {
			t.Errorf("%q: error %v, expected %q", rest, err, want)
		}
	}
}

// TestReserves checks that the memory for canonical bytes is reserved once, and that it is
// not much larger than they are, if all changes have the same length.
func TestReserves(t *testing.T) {
	for _, n := range []int{0, 1, 2, 10, 63, 64, 65, 100, 1_000, 10_000} {
		for _, length := range []int{1, 50, 120} {
			e := entryOf(storage.Change{Kind: storage.DocumentRemove, Document: storage.Document{Kind: "k", Key: strings.Repeat("x", length)}})
			for len(e.Changes) < n {
				e.Changes = append(e.Changes, e.Changes[0])
			}
			e.Changes = e.Changes[:n]
			_, sealed, err := storage.Seal(storage.Head{}, []storage.Entry{e})
			if err != nil {
				t.Fatal(err)
			}
			if got, most := cap(sealed[0].Bytes), len(sealed[0].Bytes)+8*(n+1); got > most {
				t.Errorf("%d changes with %d bytes: Seal reserves %d bytes for %d, at most %d are expected", n, length, got, len(sealed[0].Bytes), most)
			}
			if n < 100 {
				continue
			}
			// The buffer holds the first 64 changes, which AppendEntry looks at, and then all.
			var b []byte
			small := make([]byte, 100+64*(len(sealed[0].Bytes)-80)/n)
			if allocations := testing.AllocsPerRun(3, func() { b = storage.AppendEntry(small[:0], &e) }); allocations != 1 || cap(b) > len(b)*3/2 {
				t.Errorf("%d changes with %d bytes: AppendEntry allocates %v times and reserves %d bytes for %d", n, length, allocations, cap(b), len(b))
			}
		}
	}
}

// TestLongText decodes an entry with a text that is longer than an entry can be.
func TestLongText(t *testing.T) {
	t.Parallel()
	e := entryOf(storage.Change{Kind: storage.DocumentRemove, Document: storage.Document{Kind: "k", Key: "d"}})
	b := storage.AppendEntry(nil, &e)
	head := b[:strings.LastIndex(string(b), "\x01k\x01d")]
	for count, want := range map[string]string{
		"\x80\x80\x80\x08":         "",                                        // 16 MiB, which the entry does not have
		"\x81\x80\x80\x08":         "16777217 bytes, the maximum is 16777216", // one byte more
		"\xff\xff\xff\xff\xff\x0f": "549755813887 bytes, the maximum is 16777216",
	} {
		_, err := storage.DecodeEntry(append([]byte(nil), string(head)+count...))
		if !errors.Is(err, storage.ErrDamaged) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, expected %q", count, err, want)
		}
	}
}

// TestRefusedChanges seals entries with changes that the format does not have.
func TestRefusedChanges(t *testing.T) {
	t.Parallel()
	filter := func(f storage.Filter) storage.Change {
		return storage.Change{Kind: storage.RemoveByFilter, Filter: f}
	}
	for _, c := range []struct {
		change storage.Change
		want   error
	}{
		{storage.Change{Kind: 0}, storage.ErrFormat}, {storage.Change{Kind: storage.RemoveByFilter + 1}, storage.ErrFormat},
		{filter(storage.Filter{}), storage.ErrFormat}, {filter(storage.Filter{Target: storage.FilterDocuments + 1, DocumentKind: "k"}), storage.ErrFormat},
		{filter(storage.Filter{Target: storage.FilterDocuments}), storage.ErrEntry}, {filter(storage.Filter{Target: storage.FilterDocuments, DocumentKind: "k"}), nil},
		{filter(storage.Filter{Target: storage.FilterTuples}), nil}, {filter(storage.Filter{Target: storage.FilterAttributes}), nil},
		{storage.Change{Kind: storage.TupleAdd}, nil}, {storage.Change{Kind: storage.SecretRemove}, nil},
	} {
		for name, changes := range map[string][]storage.Change{
			"alone": {c.change}, "after a tuple": {{Kind: storage.TupleAdd}, c.change}, "after a filter": {filter(storage.Filter{Target: storage.FilterTuples}), c.change},
			"before a tuple": {c.change, {Kind: storage.TupleAdd}},
		} {
			e := storage.Entry{Revision: 1, Sequence: 1, Time: 1, Changes: changes}
			_, err := storage.Chain(storage.Head{}, []storage.Entry{e})
			_, sealed, sealing := storage.Seal(storage.Head{}, []storage.Entry{e})
			_, again := storage.ChainSealed(storage.Head{}, []storage.Entry{e}, make([]storage.Sealed, 1))
			if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) || fmt.Sprint(err) != fmt.Sprint(sealing) || fmt.Sprint(err) != fmt.Sprint(again) {
				t.Errorf("kind %d, target %d, %s: errors %v, %v and %v, expected %v", c.change.Kind, c.change.Filter.Target, name, err, sealing, again, c.want)
			}
			if err != nil && sealed != nil {
				t.Errorf("kind %d, target %d, %s: canonical bytes beside an error", c.change.Kind, c.change.Filter.Target, name)
			}
		}
	}
}

// TestConstants checks the limits of the format, which existing data relies on.
func TestConstants(t *testing.T) {
	t.Parallel()
	got := fmt.Sprint(storage.EntryBytesMax, storage.ChangesMax, storage.FiltersMax, storage.TupleAdd, storage.RemoveByFilter, storage.FilterTuples, storage.FilterDocuments)
	if want := "16777216 100000 100 1 9 1 3"; got != want {
		t.Errorf("got %s, expected %s", got, want)
	}
}

// TestNewIDIsRandom checks that each of the ten last bytes of an id is random, and that the
// first six are the time.
func TestNewIDIsRandom(t *testing.T) {
	t.Parallel()
	at := rel.Time(1469918176385e6 + 999_999)
	first := storage.NewID(at)
	changed := map[int]bool{}
	for range 64 {
		for i, b := range storage.NewID(at) {
			changed[i] = changed[i] || b != first[i]
		}
	}
	for i := range first {
		if changed[i] != (i >= 6) {
			t.Errorf("byte %d of ids of one time differs: %v", i, changed[i])
		}
	}
	if got := storage.NewID(-1).String()[:10]; got != "0000000000" {
		t.Errorf("an id of a time before 1970 begins with %s", got)
	}
}
