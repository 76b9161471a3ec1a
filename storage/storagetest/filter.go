package storagetest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

func filterCases() []testcase {
	return []testcase{
		{"filter/tuple fields", "A filter of tuples removes the rows that match all of its fields; an empty field matches everything.", filterTupleFields},
		{"filter/attribute fields", "A filter of attributes removes the rows that match all of its fields; an empty field matches everything.", filterAttributeFields},
		{"filter/in order", "A filter removes rows that earlier changes of the same call made, but not those of later changes.", filterOrder},
		{"filter/many rows", "A filter removes all rows that it selects in one entry, however many there are.", filterMany},
		{"documents/filter", "A filter of documents removes the documents of a kind whose key has a prefix, but no secrets.", filterDocuments},
	}
}

func filterTupleFields(k *kit) {
	texts := []string{
		"doc:1#viewer@user:anne", "doc:1#viewer@user:bob", "doc:1#editor@user:anne", "doc:10#viewer@user:anne",
		"docs:1#viewer@user:anne", "folder:1#viewer@group:anne", "folder:1#viewer@group:anne#member", "folder:1#viewer@group:anne#owner", "folder:1#viewer@user:*",
	}
	filters := []rel.Filter{
		{}, {ObjectType: "doc"}, {ObjectID: "1"}, {Relation: "viewer"}, {SubjectType: "group"}, {SubjectID: "anne"}, {SubjectRelation: "member"}, {SubjectPlain: true},
		{ObjectType: "doc", ObjectID: "1"}, {ObjectType: "doc", ObjectID: "1", Relation: "viewer"}, {ObjectType: "doc", Relation: "viewer"},
		{SubjectType: "user", SubjectID: "anne"}, {SubjectType: "group", SubjectPlain: true}, {SubjectRelation: "member", SubjectPlain: true},
		{ObjectType: "nothing"}, {ObjectType: "doc", ObjectID: ""}, {SubjectID: "*"},
	}
	for _, f := range filters {
		l := k.store()
		k.append(l, add(texts...)...)
		k.append(l, filterTuples(f))
		var want, have []string
		for _, s := range texts {
			if !f.Match(tuple(s).Key()) {
				want = append(want, s)
			}
		}
		for _, row := range k.tuples(l, storage.LoadOptions{}) {
			have = append(have, row.Tuple.String())
		}
		slices.Sort(want)
		slices.Sort(have)
		k.check(slices.Equal(have, want), "after filter %+v the live tuples are %q, want %q", f, have, want)
		k.verify(l)
	}
}

func filterAttributeFields(k *kit) {
	attributes := func(f storage.Filter) int {
		l := k.store()
		var changes []storage.Change
		for _, id := range []string{"1", "2"} {
			for _, name := range []string{"a", "b"} {
				for _, typ := range []string{"doc", "dir"} {
					changes = append(changes, storage.Change{Kind: storage.AttributeSet, Attribute: rel.Attribute{Object: rel.Object{Type: typ, ID: id}, Name: name, Value: "1"}})
				}
			}
		}
		k.append(l, changes...)
		f.Target = storage.FilterAttributes
		k.append(l, storage.Change{Kind: storage.RemoveByFilter, Filter: f})
		k.verify(l)
		st, err := k.Load(k.ctx, l.ID, storage.LoadOptions{})
		k.ok(err)
		defer st.Close()
		n := 0
		for _, err := range st.Attributes {
			k.ok(err)
			n++
		}
		return n
	}
	for _, c := range []struct {
		f    storage.Filter
		want int
	}{{storage.Filter{}, 0}, {storage.Filter{ObjectType: "doc"}, 4}, {storage.Filter{ObjectID: "1"}, 4}, {storage.Filter{Name: "a"}, 4}, {storage.Filter{ObjectType: "doc", ObjectID: "1", Name: "a"}, 7}} {
		k.check(attributes(c.f) == c.want, "after filter %+v the number of live attributes is not %d", c.f, c.want)
	}
}

func filterOrder(k *kit) {
	l := k.store()
	k.append(l, add("doc:1#viewer@user:old", "doc:2#viewer@user:old")...)
	all := filterTuples(rel.Filter{ObjectType: "doc"})
	k.append(l, slices.Concat(add("doc:1#viewer@user:before"), []storage.Change{all}, add("doc:1#viewer@user:after", "doc:2#viewer@user:old"))...)
	var have []string
	for _, row := range k.tuples(l, storage.LoadOptions{}) {
		have = append(have, row.Tuple.Key().String())
	}
	k.check(slices.Equal(have, []string{"doc:1#viewer@user:after", "doc:2#viewer@user:old"}), "the live tuples are %q", have)
	// A group of entries: add, two filters, a filter, add, a filter of one tuple.
	head, entries := l.Head, []storage.Entry(nil)
	for _, changes := range [][]storage.Change{
		add("doc:3#viewer@user:x"), {all, all}, {all}, add("doc:4#viewer@user:y", "doc:5#viewer@user:y"), {filterTuples(rel.Filter{ObjectID: "4"})},
	} {
		e := l.Entry(head, changes...)
		entries = append(entries, e)
		head = storage.Head{Revision: e.Revision, Hash: e.Hash(), Time: e.Time}
	}
	var err error
	l.Head, err = k.Append(k.ctx, l.ID, l.Head, entries, nil)
	k.ok(err)
	k.verify(l)
}

// filterMany removes more rows than a number of 16 bits can count.
func filterMany(k *kit) {
	const rows = 70_000
	l := k.store()
	changes := make([]storage.Change, 0, rows)
	for i := range rows {
		t := rel.Tuple{Object: rel.Object{Type: "doc", ID: fmt.Sprint(i)}, Relation: "viewer", Subject: rel.Subject{Type: "user", ID: "leaving"}}
		changes = append(changes, storage.Change{Kind: storage.TupleAdd, Tuple: t})
	}
	k.append(l, append(changes, add("doc:0#viewer@user:staying")...)...)
	k.append(l, filterTuples(rel.Filter{SubjectType: "user", SubjectID: "leaving"}))
	k.check(len(k.tuples(l, storage.LoadOptions{})) == 1, "%d rows are live, want 1", len(k.tuples(l, storage.LoadOptions{})))
	after := storage.Revision(1)
	n := 0
	for _, row := range k.tuples(l, storage.LoadOptions{RemovedAfter: &after, RemovedOnly: true}) {
		k.check(row.Removed == 2 && row.Created == 1, "row %+v, want one that revision 2 removed", row)
		n++
	}
	k.check(n == rows, "%d removed rows, want %d", n, rows)
	k.ok(k.Trim(k.ctx, l.ID, 1, 2))
	k.check(len(k.tuples(l, storage.LoadOptions{RemovedAfter: &after})) == 1, "trimmed rows still exist")
}

func filterDocuments(k *kit) {
	l := k.store()
	secret := storage.Change{Kind: storage.SecretPut, Document: storage.Document{Kind: "user", Key: "a1", Body: []byte("c")}}
	k.append(l, put("user", "a1", "1", "s"), put("user", "a2", "2", "s"), put("user", "b", "3", "s"), put("users", "a1", "4", "s"), put("user", "a\x00", "5", "s"), secret)
	k.append(l, storage.Change{Kind: storage.RemoveByFilter, Filter: storage.Filter{Target: storage.FilterDocuments, DocumentKind: "user", DocumentKeyPrefix: "a"}})
	k.verify(l)
	for _, key := range []string{"a1", "a2", "a\x00"} {
		_, err := k.Document(k.ctx, l.ID, "user", key)
		k.check(errors.Is(err, storage.ErrNoDocument), "document %q: error %v, want ErrNoDocument", key, err)
	}
	var keys []string
	for doc, err := range k.DocumentsBy(k.ctx, l.ID, "user", "s") {
		k.ok(err)
		keys = append(keys, doc.Key)
	}
	k.check(slices.Equal(keys, []string{"b"}), "the documents after the filter are %q", keys)
	_, err := k.Document(k.ctx, l.ID, "users", "a1")
	k.ok(err)
	_, err = k.Secret(k.ctx, l.ID, "user", "a1")
	k.ok(err)
}
