package storagetest

import (
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

func appendCases() []testcase {
	return []testcase{
		{"append/conflict", "Append fails with a ConflictError that has the current head, and changes nothing, unless the head has the revision and the hash of after.", appendConflict},
		{"append/group", "Append of several entries appends all of them, each as one revision, or none.", appendGroup},
		{"append/chain", "Append fails with ErrEntry if an entry does not follow its predecessor in revision, hash, time or incarnation.", appendChain},
		{"append/log", "Entries yields the appended entries in order, from any revision on, with writer and sequence, also after the data is opened again.", entriesBack},
		{"append/origin", "Entries and EntryHead return the origin of each entry, also after the data is opened again; Append rejects an origin that is too long or has control characters, and changes nothing.", appendOrigin},
		{"append/nothing", "Append without entries only compares the heads.", appendNothing},
		{"append/times", "Times of entries may be equal or far in the future, but not decrease; a row has the time of the entry that created it.", appendTimes},
		{"append/unknown kind", "Append fails with ErrFormat, and changes nothing, if a change is of an unknown kind.", unknownKind},
	}
}

// anyTuple returns a filter that selects all tuples.
func anyTuple() rel.Filter { return rel.Filter{} }

// conflict requires that err is a ConflictError with the head want.
func (k *kit) conflict(err error, want storage.Head) {
	k.Helper()
	var c *storage.ConflictError
	k.check(errors.As(err, &c), "error %v, want a ConflictError", err)
	k.check(c.Head == want, "the ConflictError has head %v, want %v", c.Head, want)
}

func appendConflict(k *kit) {
	l := k.store()
	k.append(l, add("doc:1#viewer@user:anne")...)
	for _, after := range []storage.Head{
		{},
		{Revision: 1, Time: l.Head.Time},
		{Revision: 2, Hash: l.Head.Hash, Time: l.Head.Time},
		{Revision: 0, Hash: l.Head.Hash},
	} {
		_, err := k.Append(k.ctx, l.ID, after, []storage.Entry{l.Entry(after, add("doc:2#viewer@user:anne")...)}, nil)
		k.conflict(err, l.Head)
	}
	h, err := k.Head(k.ctx, l.ID)
	k.ok(err)
	k.check(h == l.Head, "the head moved to %v", h)
	k.check(len(k.tuples(l, storage.LoadOptions{})) == 1, "a rejected entry changed the state")
	k.verify(l)
}

func appendGroup(k *kit) {
	l := k.store()
	head, entries := storage.Head{}, []storage.Entry(nil)
	for _, changes := range [][]storage.Change{
		add("doc:1#viewer@user:anne", "doc:2#viewer@user:anne"),
		remove("doc:1#viewer@user:anne"),
		append(add("doc:1#viewer@user:anne with c {\"a\":1}"), remove("doc:2#viewer@user:anne")...),
		{filterTuples(rel.Filter{ObjectType: "doc"})},
		add("doc:1#viewer@user:anne"),
	} {
		e := l.Entry(head, changes...)
		entries = append(entries, e)
		head = storage.Head{Revision: e.Revision, Hash: e.Hash(), Time: e.Time}
	}
	bad := slices.Clone(entries)
	bad[4].Previous[0] ^= 1
	_, err := k.Append(k.ctx, l.ID, storage.Head{}, bad, nil)
	k.is(err, storage.ErrEntry)
	h, err := k.Head(k.ctx, l.ID)
	k.ok(err)
	k.check(h == storage.Head{}, "a part of a rejected group was appended: the head is %v", h)
	l.Head, err = k.Append(k.ctx, l.ID, storage.Head{}, entries, nil)
	k.ok(err)
	k.check(l.Head == head, "the head is %v, want %v", l.Head, head)
	k.verify(l)
	k.check(len(k.tuples(l, storage.LoadOptions{})) == 1, "%v are live, want one tuple", k.tuples(l, storage.LoadOptions{}))
}

func appendChain(k *kit) {
	l := k.store()
	k.append(l, add("doc:1#viewer@user:anne")...)
	good := func() storage.Entry { return l.Entry(l.Head, add("doc:2#viewer@user:anne")...) }
	for what, spoil := range map[string]func(e *storage.Entry){
		"a gap in revisions":  func(e *storage.Entry) { e.Revision++ },
		"a repeated revision": func(e *storage.Entry) { e.Revision-- },
		"another predecessor": func(e *storage.Entry) { e.Previous[31] ^= 1 },
		"an earlier time":     func(e *storage.Entry) { e.Time = l.Head.Time - 1 },
		"another incarnation": func(e *storage.Entry) { e.Incarnation[0] ^= 1 },
	} {
		e := good()
		spoil(&e)
		_, err := k.Append(k.ctx, l.ID, l.Head, []storage.Entry{e}, nil)
		k.check(errors.Is(err, storage.ErrEntry), "%s: error %v, want ErrEntry", what, err)
	}
	mixed := []storage.Entry{good(), {}}
	mixed[1] = l.Entry(storage.Head{Revision: mixed[0].Revision, Hash: mixed[0].Hash(), Time: mixed[0].Time})
	mixed[1].Incarnation[0] ^= 1
	_, err := k.Append(k.ctx, l.ID, l.Head, mixed, nil)
	k.is(err, storage.ErrEntry)
	k.verify(l)
}

func entriesBack(k *kit) {
	l := k.store()
	var want []storage.Hash
	for _, c := range everyKind() {
		e := l.Entry(l.Head, c)
		want = append(want, e.Hash())
		h, err := k.Append(k.ctx, l.ID, l.Head, []storage.Entry{e}, nil)
		k.ok(err)
		l.Head = h
	}
	for range 2 {
		for from := storage.Revision(0); from <= l.Head.Revision+1; from++ {
			next := max(from, 1)
			for e, err := range k.Entries(k.ctx, l.ID, from) {
				k.ok(err)
				k.check(e.Revision == next, "Entries yields entry %d, want %d", e.Revision, next)
				k.check(e.Hash() == want[next-1], "entry %d is not what was appended", next)
				k.check(e.Writer == l.Writer && e.Sequence == uint64(next), "entry %d has writer %x and sequence %d", next, e.Writer, e.Sequence)
				next++
			}
			k.check(next == l.Head.Revision+1 || from > l.Head.Revision, "Entries from %d ends before entry %d", from, next)
		}
		k.reopen()
	}
}

func appendOrigin(k *kit) {
	l := k.store()
	l.Origin = storage.Origin{Caller: "anne\n"}
	k.is(l.Append(k.ctx, k.Driver, add("doc:1#viewer@user:anne")...), storage.ErrEntry)
	l.Origin = storage.Origin{Reason: strings.Repeat("x", storage.ReasonBytesMax+1)}
	k.is(l.Append(k.ctx, k.Driver, add("doc:1#viewer@user:anne")...), storage.ErrTooLarge)
	k.check(len(k.tuples(l, storage.LoadOptions{})) == 0, "a rejected entry changed the state")
	origins := []storage.Origin{
		{},
		{Caller: "anne"},
		{Caller: storage.CallerCollector, Reason: "ticket 7: é"},
		{Request: storage.RequestID{Node: storage.NodeID{1, 15: 2}, Number: 3}},
		{Caller: strings.Repeat("x", storage.CallerBytesMax), Reason: strings.Repeat("y", storage.ReasonBytesMax), Request: storage.RequestID{Number: 1<<64 - 1}},
		{},
	}
	for i, o := range origins {
		l.Origin = o
		k.append(l, add("doc:"+string(rune('a'+i))+"#viewer@user:anne")...)
	}
	for range 2 {
		n := 0
		for e, err := range k.Entries(k.ctx, l.ID, 1) {
			k.ok(err)
			k.check(e.Origin == origins[n], "entry %d has origin %+v, want %+v", n+1, e.Origin, origins[n])
			head, err := k.EntryHead(k.ctx, l.ID, e.Revision)
			k.ok(err)
			e.Changes = nil
			k.check(reflect.DeepEqual(head, e), "the head of entry %d is %+v, want %+v", n+1, head, e)
			n++
		}
		k.check(n == len(origins), "the log has %d entries, want %d", n, len(origins))
		for _, r := range []storage.Revision{0, l.Head.Revision + 1} {
			_, err := k.EntryHead(k.ctx, l.ID, r)
			k.is(err, storage.ErrNoEntry)
		}
		k.verify(l)
		k.reopen()
	}
}

// everyKind returns changes of all kinds and filter targets. Together they set
// every field.
func everyKind() []storage.Change {
	a := rel.Attribute{Object: rel.Object{Type: "doc", ID: "1"}, Name: "size", Value: "[1,2]"}
	return []storage.Change{
		add("doc:1#viewer@user:anne with c {\"a\":1} until 2030-01-02T03:04:05.000000006Z")[0],
		add("doc:1#viewer@group:eng#member")[0],
		remove("doc:1#viewer@user:anne")[0],
		{Kind: storage.AttributeSet, Attribute: a},
		{Kind: storage.AttributeRemove, Attribute: a},
		put("schema", "1", "body", "name", "other"),
		put("schema", "empty", ""),
		{Kind: storage.DocumentRemove, Document: storage.Document{Kind: "schema", Key: "1"}},
		{Kind: storage.SecretPut, Document: storage.Document{Kind: "key", Key: "k", Body: []byte("ciphertext"), Secondary: []string{"s"}}},
		{Kind: storage.SecretRemove, Document: storage.Document{Kind: "key", Key: "k"}},
		filterTuples(rel.Filter{ObjectType: "doc", ObjectID: "1", Relation: "viewer", SubjectType: "group", SubjectID: "eng", SubjectRelation: "member"}),
		filterTuples(rel.Filter{SubjectPlain: true}),
		{Kind: storage.RemoveByFilter, Filter: storage.Filter{Target: storage.FilterAttributes, ObjectType: "doc", ObjectID: "1", Name: "size"}},
		{Kind: storage.RemoveByFilter, Filter: storage.Filter{Target: storage.FilterDocuments, DocumentKind: "schema", DocumentKeyPrefix: "e"}},
	}
}

func appendNothing(k *kit) {
	l := k.store()
	h, err := k.Append(k.ctx, l.ID, l.Head, nil, nil)
	k.ok(err)
	k.check(h == storage.Head{}, "the head is %v", h)
	k.append(l)
	_, err = k.Append(k.ctx, l.ID, storage.Head{}, nil, nil)
	k.conflict(err, l.Head)
	k.verify(l)
}

func appendTimes(k *kit) {
	l := k.store()
	early := l.Entry(l.Head, add("doc:x#viewer@user:anne")...)
	early.Time = -1 // the head of an empty log has time 0
	_, err := k.Append(k.ctx, l.ID, l.Head, []storage.Entry{early}, nil)
	k.is(err, storage.ErrEntry)
	times := []rel.Time{0, 0, 1, 1 << 62, 1<<63 - 1, 1<<63 - 1}
	for i, at := range times {
		e := l.Entry(l.Head, add("doc:"+string(rune('a'+i))+"#viewer@user:anne")...)
		e.Time = at
		h, err := k.Append(k.ctx, l.ID, l.Head, []storage.Entry{e}, nil)
		k.ok(err)
		k.check(h.Time == at, "the head has time %d, want %d", h.Time, at)
		l.Head = h
	}
	k.verify(l)
	for i, row := range k.tuples(l, storage.LoadOptions{}) {
		k.check(row.CreatedAt == times[i], "row %d has creation time %d, want %d", i, row.CreatedAt, times[i])
	}
}

func unknownKind(k *kit) {
	l := k.store()
	k.append(l, add("doc:1#viewer@user:anne")...)
	for _, c := range []storage.Change{{}, {Kind: 200}, {Kind: storage.RemoveByFilter}, {Kind: storage.RemoveByFilter, Filter: storage.Filter{Target: 9}}} {
		_, err := k.Append(k.ctx, l.ID, l.Head, []storage.Entry{l.Entry(l.Head, c)}, nil)
		k.is(err, storage.ErrFormat)
	}
	withoutKind := storage.Change{Kind: storage.RemoveByFilter, Filter: storage.Filter{Target: storage.FilterDocuments}}
	_, err := k.Append(k.ctx, l.ID, l.Head, []storage.Entry{l.Entry(l.Head, withoutKind)}, nil)
	k.is(err, storage.ErrEntry)
	k.verify(l)
}
