package storagetest

import (
	"strings"

	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

func boundCases() []testcase {
	return []testcase{
		{"bounds/changes", "An entry can have ChangesMax changes; with one more, Append fails with ErrTooLarge, and the error has the name of the limit.", boundChanges},
		{"bounds/bytes", "An entry can have EntryBytesMax bytes, including the ciphertext of secrets; with one more, Append fails with ErrTooLarge, and the error has the name of the limit.", boundBytes},
		{"bounds/filters", "An entry can have FiltersMax filters; with one more, Append fails with ErrTooLarge, and the error has the name of the limit.", boundFilters},
		{"bounds/names", "Names and values can be as long as the entry allows, and are stored completely.", boundNames},
	}
}

// tooLarge requires that Append of changes fails with ErrTooLarge and the name of
// the limit.
func (k *kit) tooLarge(l *Log, bound string, changes ...storage.Change) {
	k.Helper()
	_, err := k.Append(k.ctx, l.ID, l.Head, []storage.Entry{l.Entry(l.Head, changes...)}, nil)
	k.is(err, storage.ErrTooLarge)
	k.check(strings.Contains(err.Error(), bound), "the error %q does not have the name of the limit %s", err, bound)
}

func boundChanges(k *kit) {
	l := k.store()
	changes := make([]storage.Change, storage.ChangesMax+1)
	for i := range changes {
		changes[i] = remove("doc:1#viewer@user:anne")[0]
	}
	k.append(l, changes[:storage.ChangesMax]...)
	k.tooLarge(l, "ChangesMax", changes...)
	n := 0
	for e, err := range k.Entries(k.ctx, l.ID, 1) {
		k.ok(err)
		n += len(e.Changes)
	}
	k.check(n == storage.ChangesMax, "the log has %d changes", n)
}

func boundBytes(k *kit) {
	l := k.store()
	c := put("schema", "1", "")
	empty := l.Entry(l.Head, c)
	l.Sequence--
	// The length of the body will take four bytes instead of one.
	room := storage.EntryBytesMax - len(storage.AppendEntry(nil, &empty)) - 3
	body := make([]byte, room+1)
	c.Document.Body = body[:room]
	k.append(l, c)
	c.Document.Body = body
	k.tooLarge(l, "EntryBytesMax", c)
	doc, err := k.Document(k.ctx, l.ID, "schema", "1")
	k.ok(err)
	k.check(len(doc.Body) == room, "the body has %d bytes, want all of them", len(doc.Body))
	k.verify(l)
	secret := storage.Change{Kind: storage.SecretPut, Document: storage.Document{Kind: "k", Key: "1", Body: make([]byte, storage.EntryBytesMax)}}
	k.tooLarge(l, "EntryBytesMax", secret)
}

func boundFilters(k *kit) {
	l := k.store()
	changes := make([]storage.Change, storage.FiltersMax+1)
	for i := range changes {
		changes[i] = filterTuples(rel.Filter{ObjectType: "nothing"})
	}
	k.append(l, changes[:storage.FiltersMax]...)
	k.tooLarge(l, "FiltersMax", changes...)
	k.verify(l)
}

func boundNames(k *kit) {
	l := k.store()
	for _, n := range []int{1, 127, 128, 255, 256, 16383, 16384, 65535, 65536, 1 << 20} {
		long := strings.Repeat("n", n)
		t := rel.Tuple{Object: rel.Object{Type: "doc", ID: long}, Relation: "viewer", Subject: rel.Subject{Type: "user", ID: long + "s"}, Condition: "c", Context: long}
		k.append(l, storage.Change{Kind: storage.TupleAdd, Tuple: t}, put("schema", long, long, long))
	}
	k.verify(l)
}
