package sharedlog_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/internal/workshop/golden"
	"github.com/ostiary/ostiary/storage"
)

// examples are segments of each kind.
func examples() map[string]sharedlog.Segment {
	with := func(change func(*sharedlog.Segment)) sharedlog.Segment {
		s := sharedlog.Segment{Version: 1, Sequence: 5, Previous: storage.Hash{6}, Epoch: 7, Writer: storage.NodeID{8}}
		change(&s)
		return s
	}
	catalog := func(c sharedlog.CatalogChange) sharedlog.Segment {
		c.Expected, c.Store.ID, c.Store.Incarnation = 9, storage.StoreID{10}, storage.Incarnation{11}
		return with(func(s *sharedlog.Segment) { s.Catalog = &c })
	}
	return map[string]sharedlog.Segment{
		"barrier": with(func(*sharedlog.Segment) {}),
		"entries": with(func(s *sharedlog.Segment) {
			s.Stores = []sharedlog.StoreEntries{
				{storage.StoreID{1}, storage.Incarnation{2}, [][]byte{[]byte("first"), []byte("second")}},
				{storage.StoreID{3}, storage.Incarnation{4}, [][]byte{bytes.Repeat([]byte("long"), 50)}},
			}
		}),
		"create": catalog(sharedlog.CatalogChange{Op: sharedlog.CreateStore, Store: storage.StoreInfo{Name: "name", Created: 12, Aliases: map[string]string{"b": "2", "a": "1"}}}),
		"update": catalog(sharedlog.CatalogChange{Op: sharedlog.UpdateStore, Store: storage.StoreInfo{Name: ""}}),
		"delete": catalog(sharedlog.CatalogChange{Op: sharedlog.DeleteStore}),
		"trims": with(func(s *sharedlog.Segment) {
			s.Trims = []sharedlog.StoreTrim{{storage.StoreID{1}, storage.Incarnation{2}, 3, 4}, {storage.StoreID{5}, storage.Incarnation{6}, 7, 8}}
		}),
	}
}

func TestSegmentRoundTrip(t *testing.T) {
	t.Parallel()
	for name, s := range examples() {
		r, err := s.Record()
		if err != nil {
			t.Fatal(err)
		}
		have, err := sharedlog.Decode(r.Bytes)
		if err != nil || !reflect.DeepEqual(have, s) {
			t.Errorf("%s: read %+v, error %v, want %+v", name, have, err, s)
		}
		for n := range r.Bytes {
			if _, err := sharedlog.Decode(r.Bytes[:n]); !errors.Is(err, storage.ErrDamaged) {
				t.Errorf("%s: the first %d of %d bytes are read with the error %v, want ErrDamaged", name, n, len(r.Bytes), err)
			}
		}
	}
}

// TestSegmentBytes requires that the bytes of segments never change.
func TestSegmentBytes(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	all := examples()
	for _, name := range []string{"barrier", "entries", "create", "update", "delete", "trims"} {
		s := all[name]
		r, err := s.Record()
		if err != nil {
			t.Fatal(err)
		}
		text.WriteString(name + "\n" + hex.EncodeToString(r.Bytes) + "\n" + r.Hash.String() + "\n\n")
	}
	golden.Equal(t, "testdata/segments.txt", text.String())
}

func TestSegmentRejects(t *testing.T) {
	t.Parallel()
	entries, trims := examples()["entries"], examples()["trims"]
	entries.Stores[1].Store = entries.Stores[0].Store
	trims.Trims[0].Store = storage.StoreID{6}
	op := examples()["delete"]
	b := op.Append(nil)
	b[70+8] = 4 // the operation
	for name, c := range map[string]struct {
		bytes []byte
		kind  error
		text  string
	}{
		"one store twice":   {entries.Append(nil), storage.ErrDamaged, "does not follow store"},
		"order of trims":    {trims.Append(nil), storage.ErrDamaged, "does not follow store"},
		"unknown operation": {b, storage.ErrFormat, "operation on the catalog 4"},
		"too large":         {make([]byte, sharedlog.SegmentBytesMax+1), storage.ErrTooLarge, "SegmentBytesMax"},
	} {
		if _, err := sharedlog.Decode(c.bytes); !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: error %v, want %v with %q", name, err, c.kind, c.text)
		}
	}
}

// TestSegmentVersion writes the oldest version without another one, and refuses to write
// or to read what this program does not know.
func TestSegmentVersion(t *testing.T) {
	t.Parallel()
	s := examples()["barrier"]
	first, none := s.Append(nil), s
	if none.Version = 0; !bytes.Equal(none.Append(nil), first) || first[0] != sharedlog.SegmentVersionMin {
		t.Errorf("version %d, want %d", none.Append(nil)[0], sharedlog.SegmentVersionMin)
	}
	s.Version = sharedlog.SegmentVersion + 1
	if _, err := s.Record(); !errors.Is(err, storage.ErrFormat) {
		t.Errorf("a newer version is written with the error %v, want ErrFormat", err)
	}
	for _, version := range []byte{sharedlog.SegmentVersionMin - 1, s.Version, 255} {
		b := bytes.Clone(first)
		b[0] = version
		if _, err := sharedlog.Decode(b); !errors.Is(err, storage.ErrFormat) || !strings.Contains(err.Error(), fmt.Sprintf("has version %d,", version)) {
			t.Errorf("version %d is read with the error %v, want ErrFormat with the version", version, err)
		}
	}
}

// TestMoved keeps the version of a log that is moved and used again.
func TestMoved(t *testing.T) {
	t.Parallel()
	for format, want := range map[uint32]uint32{0: 1, 1: 1, 7: 7, 7 | sharedlog.FormatMoved: 7, sharedlog.FormatMoved: 1} {
		c := sharedlog.Cluster{Format: format}
		if c.Version() != want || c.Moved() != (format >= sharedlog.FormatMoved) {
			t.Errorf("format %x has version %d, moved %t, want %d", format, c.Version(), c.Moved(), want)
		}
	}
	later := sharedlog.Cluster{Format: sharedlog.SegmentVersion + 1}
	if err := later.CheckFormat(); !errors.Is(err, storage.ErrFormat) {
		t.Errorf("a newer version: %v, want ErrFormat", err)
	}
	if later.Format |= sharedlog.FormatMoved; !errors.Is(later.CheckFormat(), sharedlog.ErrMoved) || !errors.Is(later.CheckVersion(), storage.ErrFormat) {
		t.Errorf("a newer version that was moved: %v and %v", later.CheckFormat(), later.CheckVersion())
	}
}

func TestSegmentTooLarge(t *testing.T) {
	t.Parallel()
	s := examples()["entries"]
	s.Stores = s.Stores[:1]
	s.Stores[0].Entries = [][]byte{make([]byte, sharedlog.SegmentBytesMax)}
	if _, err := s.Record(); !errors.Is(err, storage.ErrTooLarge) || !strings.Contains(err.Error(), "SegmentBytesMax") {
		t.Fatalf("error %v, want ErrTooLarge with the name of the limit", err)
	}
	sealed := []storage.Sealed{{Bytes: make([]byte, sharedlog.EntriesBytesMax-sharedlog.EntriesBytes(make([]storage.Sealed, 1)))}}
	if n := sharedlog.EntriesBytes(sealed); n != sharedlog.EntriesBytesMax {
		t.Fatalf("EntriesBytes is %d, want %d", n, sharedlog.EntriesBytesMax)
	}
	s.Stores[0].Entries[0] = sealed[0].Bytes
	if _, err := s.Record(); err != nil {
		t.Fatalf("entries of EntriesBytesMax: %v", err)
	}
}

func TestParts(t *testing.T) {
	t.Parallel()
	const m = sharedlog.PartBytesMax
	b := make([]byte, 3*m)
	for i := range b {
		b[i] = byte(i >> 7)
	}
	for _, n := range []int{0, 1, m - 1, m, m + 1, 2 * m, 3 * m} {
		parts := sharedlog.Parts(b[:n])
		if want := max(1, (n+m-1)/m); len(parts) != want {
			t.Errorf("%d bytes have %d parts, want %d", n, len(parts), want)
		}
		if have, err := sharedlog.JoinParts(parts); err != nil || !bytes.Equal(have, b[:n]) {
			t.Errorf("%d bytes are not joined, error %v", n, err)
		}
	}
	parts := sharedlog.Parts(b)
	parts[1] = parts[1][:m-1]
	if _, err := sharedlog.JoinParts(parts); !errors.Is(err, storage.ErrDamaged) {
		t.Errorf("a short part in the middle: error %v, want ErrDamaged", err)
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range examples() {
		f.Add(s.Append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := sharedlog.Decode(b)
		if err != nil {
			if !errors.Is(err, storage.ErrDamaged) && !errors.Is(err, storage.ErrFormat) && !errors.Is(err, storage.ErrTooLarge) {
				t.Fatalf("unnamed error %v", err)
			}
			return
		}
		if again := s.Append(nil); !bytes.Equal(again, b) {
			t.Fatalf("%x is read as %+v, which has the bytes %x", b, s, again)
		}
	})
}
