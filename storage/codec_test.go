package storage_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/internal/workshop/golden"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// sample returns entries that set every field of every kind of change.
func sample() []storage.Entry {
	tuple := rel.Tuple{
		Object: rel.Object{Type: "doc", ID: "1"}, Relation: "viewer", Subject: rel.Subject{Type: "group", ID: "é\x00", Relation: "member"},
		Condition: "c", Context: `{"a":1}`, Expires: 1893553445000000006,
	}
	attribute := rel.Attribute{Object: rel.Object{Type: "doc", ID: "1"}, Name: "size", Value: "[1,2]"}
	document := storage.Document{Kind: "schema", Key: "1", Secondary: []string{"", "name"}, Body: []byte("body")}
	secret := storage.Document{Kind: "key", Key: "k", Secondary: []string{"s"}, Body: []byte("ciphertext")}
	changes := []storage.Change{
		{Kind: storage.TupleAdd, Tuple: tuple},
		{Kind: storage.TupleRemove, Tuple: rel.Tuple{Object: tuple.Object, Relation: tuple.Relation, Subject: tuple.Subject}},
		{Kind: storage.AttributeSet, Attribute: attribute},
		{Kind: storage.AttributeRemove, Attribute: rel.Attribute{Object: attribute.Object, Name: attribute.Name}},
		{Kind: storage.DocumentPut, Document: document},
		{Kind: storage.DocumentRemove, Document: storage.Document{Kind: "schema", Key: "1"}},
		{Kind: storage.SecretPut, Document: secret},
		{Kind: storage.SecretRemove, Document: storage.Document{Kind: "key", Key: "k"}},
		{Kind: storage.RemoveByFilter, Filter: storage.Filter{Target: storage.FilterTuples, Tuple: rel.Filter{ObjectType: "a", ObjectID: "b", Relation: "c", SubjectType: "d", SubjectID: "e", SubjectRelation: "f", SubjectPlain: true}}},
		{Kind: storage.RemoveByFilter, Filter: storage.Filter{Target: storage.FilterAttributes, ObjectType: "a", ObjectID: "b", Name: "c"}},
		{Kind: storage.RemoveByFilter, Filter: storage.Filter{Target: storage.FilterDocuments, DocumentKind: "a", DocumentKeyPrefix: "b"}},
	}
	entries := []storage.Entry{{Incarnation: storage.Incarnation{1, 2}, Revision: 1, Writer: storage.WriterID{3}, Sequence: 4, Time: 5}}
	head := storage.Head{Revision: 1, Hash: entries[0].Hash(), Time: 5}
	for i := range changes {
		e := storage.Entry{Incarnation: storage.Incarnation{1, 2}, Revision: head.Revision + 1, Previous: head.Hash, Writer: storage.WriterID{3}, Sequence: 5 + uint64(i), Time: head.Time + 1, Changes: changes[i : i+1]}
		entries = append(entries, e)
		head = storage.Head{Revision: e.Revision, Hash: e.Hash(), Time: e.Time}
	}
	all := storage.Entry{Incarnation: storage.Incarnation{1, 2}, Revision: head.Revision + 1, Previous: head.Hash, Time: head.Time, Changes: changes}
	entries = append(entries, all)
	for i, origin := range origins() { // entries of version 2
		last := &entries[len(entries)-1]
		e := storage.Entry{Incarnation: last.Incarnation, Revision: last.Revision + 1, Previous: last.Hash(), Writer: storage.WriterID{3}, Sequence: 100 + uint64(i), Time: last.Time, Origin: origin, Changes: changes[:2]}
		entries = append(entries, e)
	}
	return entries
}

// origins returns an origin for each set of fields.
func origins() []storage.Origin {
	request := storage.RequestID{Node: storage.NodeID{7, 15: 8}, Number: 300}
	return []storage.Origin{
		{Caller: "anne"},
		{Reason: "ticket 7: é"},
		{Caller: "anne", Reason: "ticket 7"},
		{Request: request},
		{Caller: storage.CallerCollector, Request: request},
		{Reason: "ticket 7", Request: storage.RequestID{Number: 1}},
		{Caller: strings.Repeat("c", storage.CallerBytesMax), Reason: strings.Repeat("r", storage.ReasonBytesMax), Request: request},
	}
}

// The canonical bytes never change, because logs on disk contain them and their
// hashes. Another layout needs another version of the entry.
func TestCanonicalBytesAreGolden(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for _, e := range sample() {
		fmt.Fprintf(&b, "%x\nhash %s\n", storage.AppendEntry(nil, &e), e.Hash())
	}
	golden.Equal(t, "testdata/entries.txt", b.String())
	// The bytes decode to the same entries.
	lines := strings.Split(b.String(), "\n")
	for i, e := range sample() {
		raw, err := hex.DecodeString(lines[2*i])
		if err != nil {
			t.Fatal(err)
		}
		have, err := storage.DecodeEntry(raw)
		if err != nil {
			t.Fatal(err)
		}
		if want := asRead(e); !reflect.DeepEqual(have, want) {
			t.Errorf("entry %d is decoded as\n%+v, want\n%+v", i, have, want)
		}
	}
}

// asRead returns e as a log returns it: with the digests of secrets.
func asRead(e storage.Entry) storage.Entry {
	changes := make([]storage.Change, len(e.Changes))
	for i, c := range e.Changes {
		if c.Kind == storage.SecretPut {
			c.Document.Digest = secretDigest(c.Document.Body)
			c.Document.Body = nil
		}
		changes[i] = c
	}
	if len(changes) == 0 {
		changes = nil
	}
	e.Changes = changes
	return e
}

// Cut, extended and damaged bytes are rejected, or they are the canonical bytes
// of another entry. No two texts decode to the same entry.
func TestDecodeRejectsOtherBytes(t *testing.T) {
	t.Parallel()
	for _, e := range sample() {
		b := storage.AppendEntry(nil, &e)
		for n := range b {
			if _, err := storage.DecodeEntry(b[:n]); !errors.Is(err, storage.ErrDamaged) {
				t.Fatalf("cut at byte %d of %d: error %v, want ErrDamaged", n, len(b), err)
			}
		}
		if _, err := storage.DecodeEntry(append(bytes.Clone(b), 0)); !errors.Is(err, storage.ErrDamaged) {
			t.Fatalf("one byte more: error %v, want ErrDamaged", err)
		}
		for bit := range 8 * len(b) {
			flipped := bytes.Clone(b)
			flipped[bit/8] ^= 1 << (bit % 8)
			checkDecode(t, flipped)
		}
	}
}

// checkDecode decodes b. The result must be one of the documented errors, or an
// entry whose canonical bytes are b.
func checkDecode(t *testing.T, b []byte) {
	t.Helper()
	e, err := storage.DecodeEntry(b)
	if err != nil {
		if !errors.Is(err, storage.ErrDamaged) && !errors.Is(err, storage.ErrFormat) && !errors.Is(err, storage.ErrTooLarge) {
			t.Fatalf("%x: error %v is none of those that DecodeEntry documents", b, err)
		}
		return
	}
	if again := storage.AppendEntry(nil, &e); !bytes.Equal(again, b) {
		t.Fatalf("%x is decoded as %+v, whose canonical bytes are %x", b, e, again)
	}
}

func FuzzDecodeEntry(f *testing.F) {
	for _, e := range sample() {
		f.Add(storage.AppendEntry(nil, &e))
	}
	f.Fuzz(checkDecode)
}

func TestUnknownKindsAndVersions(t *testing.T) {
	t.Parallel()
	e := sample()[0]
	b := storage.AppendEntry(nil, &e)
	for _, version := range []byte{0, 3, 255} {
		b[0] = version
		if _, err := storage.DecodeEntry(b); !errors.Is(err, storage.ErrFormat) || !strings.HasSuffix(err.Error(), fmt.Sprintf("version %d, expected 1 or 2", version)) {
			t.Errorf("version %d: error %v, want ErrFormat", version, err)
		}
	}
	for _, c := range []storage.Change{{Kind: 10}, {Kind: 255}, {Kind: 0}, {Kind: storage.RemoveByFilter, Filter: storage.Filter{Target: 4}}} {
		e.Changes = []storage.Change{c}
		b := append(storage.AppendEntry(nil, &e), 0, 0) // a change has at least three bytes
		if _, err := storage.DecodeEntry(b); !errors.Is(err, storage.ErrFormat) {
			t.Errorf("kind %d, target %d: error %v, want ErrFormat", c.Kind, c.Filter.Target, err)
		}
	}
}

func TestDecodeBounds(t *testing.T) {
	t.Parallel()
	e := storage.Entry{Revision: 1, Changes: make([]storage.Change, storage.ChangesMax+1)}
	for i := range e.Changes {
		e.Changes[i] = storage.Change{Kind: storage.DocumentRemove}
	}
	_, err := storage.DecodeEntry(storage.AppendEntry(nil, &e))
	if !errors.Is(err, storage.ErrTooLarge) || !strings.Contains(err.Error(), "ChangesMax") {
		t.Errorf("one change too many: error %v, want ErrTooLarge", err)
	}
	e.Changes = e.Changes[:storage.ChangesMax]
	if _, err := storage.DecodeEntry(storage.AppendEntry(nil, &e)); err != nil {
		t.Errorf("ChangesMax changes: %v", err)
	}
	_, err = storage.DecodeEntry(make([]byte, storage.EntryBytesMax+1))
	if !errors.Is(err, storage.ErrTooLarge) || !strings.Contains(err.Error(), "EntryBytesMax") {
		t.Errorf("one byte too many: error %v, want ErrTooLarge", err)
	}
	// A wrong count is rejected before memory for that many changes is allocated.
	wrong := storage.AppendEntry(nil, &storage.Entry{Revision: 1})
	wrong = append(wrong[:len(wrong)-1], 0xa0, 0x8d, 0x06) // 100,000
	if _, err := storage.DecodeEntry(wrong); !errors.Is(err, storage.ErrDamaged) {
		t.Errorf("a wrong count: error %v, want ErrDamaged", err)
	}
}

// The hash covers the ciphertext of a secret, but the canonical bytes do not
// contain it.
func TestSecretsAreHashedByDigest(t *testing.T) {
	t.Parallel()
	entry := func(d storage.Document) storage.Entry {
		return storage.Entry{Revision: 1, Changes: []storage.Change{{Kind: storage.SecretPut, Document: d}}}
	}
	a := entry(storage.Document{Kind: "k", Key: "1", Body: []byte("ciphertext")})
	if bytes.Contains(storage.AppendEntry(nil, &a), []byte("ciphertext")) {
		t.Error("the canonical bytes contain the ciphertext")
	}
	b := entry(storage.Document{Kind: "k", Key: "1", Body: []byte("ciphertexT")})
	if a.Hash() == b.Hash() {
		t.Error("entries with different ciphertexts have the same hash")
	}
	read := entry(storage.Document{Kind: "k", Key: "1", Digest: secretDigest([]byte("ciphertext"))})
	if a.Hash() != read.Hash() {
		t.Error("an entry that was read from a log has another hash")
	}
	both := entry(storage.Document{Kind: "k", Key: "1", Body: []byte("ciphertext"), Digest: secretDigest([]byte("other"))})
	if a.Hash() != both.Hash() {
		t.Error("a digest is used although the body is set")
	}
}

// Changing a field of an entry changes its hash, unless the kind of the change
// does not use the field.
func TestHashCoversEveryField(t *testing.T) {
	t.Parallel()
	seen := map[storage.Hash]string{}
	all := sample()
	note := func(what string, e storage.Entry) {
		h := e.Hash()
		if other, ok := seen[h]; ok {
			t.Errorf("%s and %s have the same hash", what, other)
		}
		seen[h] = what
	}
	for i, e := range all {
		note(fmt.Sprint("entry ", i), e)
		each(reflect.ValueOf(&e).Elem(), "Entry", func(path string, leaf reflect.Value) {
			if path == "Entry.Changes" {
				return
			}
			old := reflect.New(leaf.Type()).Elem()
			old.Set(leaf)
			bump(leaf)
			note(fmt.Sprintf("entry %d with another %s", i, path), e)
			leaf.Set(old)
		})
	}
	full := all[len(all)-1-len(origins())].Changes
	fields := []string{"Tuple", "Tuple", "Attribute", "Attribute", "Document", "Document", "Document", "Document", "Filter", "Filter", "Filter"}
	for i, c := range full {
		e := storage.Entry{Revision: 99, Changes: []storage.Change{c}}
		note(fmt.Sprintf("change %d", i), e)
		named := reflect.ValueOf(&e.Changes[0]).Elem().FieldByName(fields[i])
		each(named, fields[i], func(path string, leaf reflect.Value) {
			if leaf.IsZero() || path == "Document.Digest" {
				return // this kind of change does not use the field
			}
			old := reflect.New(leaf.Type()).Elem()
			old.Set(leaf)
			bump(leaf)
			note(fmt.Sprintf("change %d with another %s", i, path), e)
			leaf.Set(old)
		})
	}
}

func each(v reflect.Value, path string, leaf func(string, reflect.Value)) {
	if v.Kind() != reflect.Struct {
		leaf(path, v)
		return
	}
	for i := range v.NumField() {
		each(v.Field(i), path+"."+v.Type().Field(i).Name, leaf)
	}
}

func bump(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Uint8:
		v.SetUint(v.Uint()%3 + 1)
	case reflect.Uint64:
		v.SetUint(v.Uint() + 1)
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Array:
		v.Index(0).SetUint(v.Index(0).Uint() ^ 0x80)
	case reflect.Struct:
		panic("bump the fields of a structure one by one")
	case reflect.Slice:
		grown := reflect.MakeSlice(v.Type(), v.Len()+1, v.Len()+1)
		reflect.Copy(grown, v)
		v.Set(grown)
	}
}
