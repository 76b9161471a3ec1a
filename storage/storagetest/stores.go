package storagetest

import (
	"slices"

	"github.com/ostiary/ostiary/storage"
)

// Names that a driver which folds, trims or collates would confuse.
func awkward() []string {
	return []string{
		"name", "Name", "NAME", "name ", " name", "name\x00", "\x00name", "\x00", "\x01", "\x01\x01", "\x00\x01", "\x01\x00",
		"naïve", "naive", "nai\u0308ve", "😀", "😁", "ß", "ss", "a:b", "a", "b", "a#b", "\xff", "\xff\xff", "é", "É", "ı", "I", "i", "%", "_", "\\", "'", "\"",
	}
}

func storeCases() []testcase {
	return []testcase{
		{"stores/create", "A created store is found by id and by alias; an id or alias in use is ErrExists.", createStore},
		{"stores/aliases are bytes", "Aliases are bytes: no two different ones meet, whatever a collation says.", aliasBytes},
		{"stores/update", "UpdateStore replaces name and aliases and frees the old ones; another incarnation is refused.", updateStore},
		{"stores/delete", "A deleted store is ErrNoStore, leaves nothing to a store created later under its id, and frees its aliases.", deleteStore},
		{"stores/order", "Stores yields in order of id, beginning after the one given.", storeOrder},
		{"stores/twins", "Two stores with equal names, keys and tuples never see each other.", twins},
		{"stores/unknown", "Every call on an unknown store is ErrNoStore.", unknownStore},
		{"stores/reopen", "What was created, updated and deleted is so after a reopen.", storesReopen},
		{"format", "Format returns the layout's version, the same after a reopen.", format},
	}
}

func createStore(k *kit) {
	l := NewLog(1)
	info := storage.StoreInfo{ID: l.ID, Incarnation: l.Incarnation, Name: "first", Created: 42, Aliases: map[string]string{"openfga": "x", "permify": "x"}}
	k.ok(k.CreateStore(k.ctx, info))
	have, err := k.Store(k.ctx, l.ID)
	k.ok(err)
	k.sameInfo(have, info)
	for _, door := range []string{"openfga", "permify"} {
		have, err := k.StoreByAlias(k.ctx, door, "x")
		k.ok(err)
		k.sameInfo(have, info)
	}
	_, err = k.StoreByAlias(k.ctx, "keystone", "x")
	k.is(err, storage.ErrNoStore)
	k.is(k.CreateStore(k.ctx, storage.StoreInfo{ID: l.ID}), storage.ErrExists)
	other := NewLog(2)
	k.is(k.CreateStore(k.ctx, storage.StoreInfo{ID: other.ID, Aliases: map[string]string{"permify": "x"}}), storage.ErrExists)
	_, err = k.Store(k.ctx, other.ID)
	k.is(err, storage.ErrNoStore)
	h, err := k.Head(k.ctx, l.ID)
	k.ok(err)
	k.check(h == storage.Head{}, "the head of an empty store is %v", h)
}

func (k *kit) sameInfo(have, want storage.StoreInfo) {
	k.Helper()
	same := have.ID == want.ID && have.Incarnation == want.Incarnation && have.Name == want.Name && have.Created == want.Created && len(have.Aliases) == len(want.Aliases)
	for door, alias := range want.Aliases {
		same = same && have.Aliases[door] == alias
	}
	k.check(same, "the store is %+v, want %+v", have, want)
}

func aliasBytes(k *kit) {
	for i, name := range awkward() {
		l := NewLog(uint32(i))
		k.ok(k.CreateStore(k.ctx, storage.StoreInfo{ID: l.ID, Name: name, Aliases: map[string]string{"door": name, name + "!": "alias"}}))
	}
	for i, name := range awkward() {
		l := NewLog(uint32(i))
		for _, pair := range [][2]string{{"door", name}, {name + "!", "alias"}} {
			have, err := k.StoreByAlias(k.ctx, pair[0], pair[1])
			k.ok(err)
			k.check(have.ID == l.ID && have.Name == name, "%q of %q found store %s named %q, want %s", pair[1], pair[0], have.ID, have.Name, l.ID)
		}
	}
	// (door, alias) is a pair, not a joined text.
	_, err := k.StoreByAlias(k.ctx, "doorname", "")
	k.is(err, storage.ErrNoStore)
}

func updateStore(k *kit) {
	l := NewLog(1)
	info := storage.StoreInfo{ID: l.ID, Incarnation: l.Incarnation, Name: "old", Created: 3, Aliases: map[string]string{"a": "one", "b": "two"}}
	k.ok(k.CreateStore(k.ctx, info))
	k.append(l, add("doc:1#viewer@user:anne")...)
	info.Name, info.Aliases = "new", map[string]string{"a": "three", "c": "two"}
	k.ok(k.UpdateStore(k.ctx, info))
	have, err := k.StoreByAlias(k.ctx, "a", "three")
	k.ok(err)
	k.sameInfo(have, info)
	for door, alias := range map[string]string{"a": "one", "b": "two"} {
		_, err := k.StoreByAlias(k.ctx, door, alias)
		k.is(err, storage.ErrNoStore)
	}
	k.verify(l)
	other := NewLog(2)
	k.ok(k.CreateStore(k.ctx, storage.StoreInfo{ID: other.ID, Incarnation: other.Incarnation, Aliases: map[string]string{"a": "one"}}))
	taken := info
	taken.Aliases = map[string]string{"a": "one"}
	k.is(k.UpdateStore(k.ctx, taken), storage.ErrExists)
	have, err = k.Store(k.ctx, l.ID)
	k.ok(err)
	k.sameInfo(have, info)
	info.Incarnation[3]++
	k.is(k.UpdateStore(k.ctx, info), storage.ErrNoStore)
}

func deleteStore(k *kit) {
	l, bystander := k.store(), k.store()
	changes := append(add("doc:1#viewer@user:anne"), put("schema", "1", "body", "by"))
	changes = append(changes, storage.Change{Kind: storage.SecretPut, Document: storage.Document{Kind: "key", Key: "1", Body: []byte("cipher")}})
	k.append(l, changes...)
	k.append(l, remove("doc:1#viewer@user:anne")...)
	k.append(bystander, changes...)
	k.ok(k.UpdateStore(k.ctx, storage.StoreInfo{ID: l.ID, Incarnation: l.Incarnation, Aliases: map[string]string{"d": "a"}}))
	k.ok(k.DeleteStore(k.ctx, l.ID))
	_, err := k.Store(k.ctx, l.ID)
	k.is(err, storage.ErrNoStore)
	_, err = k.StoreByAlias(k.ctx, "d", "a")
	k.is(err, storage.ErrNoStore)
	k.is(k.DeleteStore(k.ctx, l.ID), storage.ErrNoStore)

	again := *l
	again.Incarnation[7]++
	again.Head = storage.Head{}
	k.ok(k.CreateStore(k.ctx, storage.StoreInfo{ID: again.ID, Incarnation: again.Incarnation, Aliases: map[string]string{"d": "a"}}))
	zero := storage.Revision(0)
	k.check(len(k.tuples(&again, storage.LoadOptions{RemovedAfter: &zero})) == 0, "tuples outlived their store")
	_, err = k.Document(k.ctx, l.ID, "schema", "1")
	k.is(err, storage.ErrNoDocument)
	_, err = k.Secret(k.ctx, l.ID, "key", "1")
	k.is(err, storage.ErrNoDocument)
	_, err = k.Append(k.ctx, l.ID, storage.Head{}, []storage.Entry{l.Entry(storage.Head{}, changes...)})
	k.is(err, storage.ErrEntry) // of the incarnation before
	k.verify(&again)
	k.verify(bystander)
}

func storeOrder(k *kit) {
	var ids []storage.StoreID
	for _, n := range []uint32{300, 2, 70000, 1, 255, 256} {
		l := NewLog(n)
		k.ok(k.CreateStore(k.ctx, storage.StoreInfo{ID: l.ID}))
		ids = append(ids, l.ID)
	}
	slices.SortFunc(ids, func(a, b storage.StoreID) int { return slices.Compare(a[:], b[:]) })
	all := func(after storage.StoreID) (out []storage.StoreID) {
		for info, err := range k.Stores(k.ctx, after) {
			k.ok(err)
			out = append(out, info.ID)
		}
		return out
	}
	k.check(slices.Equal(all(storage.StoreID{}), ids), "stores are %v, want %v", all(storage.StoreID{}), ids)
	for i := range ids {
		k.check(slices.Equal(all(ids[i]), ids[i+1:]), "stores after %s are %v", ids[i], all(ids[i]))
	}
	for range k.Stores(k.ctx, storage.StoreID{}) {
		break
	}
}

func twins(k *kit) {
	a, b := k.store(), k.store()
	b.Incarnation = a.Incarnation // even that may not join them
	k.ok(k.DeleteStore(k.ctx, b.ID))
	k.ok(k.CreateStore(k.ctx, storage.StoreInfo{ID: b.ID, Incarnation: b.Incarnation}))
	k.append(a, append(add("doc:1#viewer@user:anne", "doc:2#viewer@user:anne"), put("schema", "s", "of a", "x"))...)
	k.append(b, append(add("doc:1#viewer@user:bob"), put("schema", "s", "of b", "x"))...)
	k.append(b, filterTuples(anyTuple()))
	k.check(len(k.tuples(a, storage.LoadOptions{})) == 2, "a filter on one twin removed tuples of the other")
	doc, err := k.Document(k.ctx, a.ID, "schema", "s")
	k.ok(err)
	k.check(string(doc.Body) == "of a", "one twin's document is %q", doc.Body)
	for doc, err := range k.DocumentsBy(k.ctx, b.ID, "schema", "x") {
		k.ok(err)
		k.check(string(doc.Body) == "of b", "the other twin's document is %q", doc.Body)
	}
	_, err = k.Append(k.ctx, b.ID, a.Head, []storage.Entry{b.Entry(a.Head)})
	k.conflict(err, b.Head)
	k.ok(k.Trim(k.ctx, b.ID, 3, 2))
	k.verify(a)
	k.ok(k.DeleteStore(k.ctx, b.ID))
	k.verify(a)
}

func unknownStore(k *kit) {
	k.store()
	id := NewLog(99).ID
	_, err := k.Head(k.ctx, id)
	k.is(err, storage.ErrNoStore)
	_, err = k.Append(k.ctx, id, storage.Head{}, nil)
	k.is(err, storage.ErrNoStore)
	_, err = k.Load(k.ctx, id, storage.LoadOptions{})
	k.is(err, storage.ErrNoStore)
	_, err = k.Rows(k.ctx, id, nil)
	k.is(err, storage.ErrNoStore)
	_, err = k.Document(k.ctx, id, "a", "b")
	k.is(err, storage.ErrNoStore)
	_, err = k.Secret(k.ctx, id, "a", "b")
	k.is(err, storage.ErrNoStore)
	_, _, err = k.Oldest(k.ctx, id)
	k.is(err, storage.ErrNoStore)
	k.is(k.Trim(k.ctx, id, 1, 1), storage.ErrNoStore)
	k.is(k.UpdateStore(k.ctx, storage.StoreInfo{ID: id}), storage.ErrNoStore)
	n := 0
	for _, err := range k.Entries(k.ctx, id, 1) {
		k.is(err, storage.ErrNoStore)
		n++
	}
	for _, err := range k.DocumentsBy(k.ctx, id, "a", "b") {
		k.is(err, storage.ErrNoStore)
		n++
	}
	k.check(n == 2, "a sequence of an unknown store ended without an error")
}

func storesReopen(k *kit) {
	kept, gone := k.store(), k.store()
	info := storage.StoreInfo{ID: kept.ID, Incarnation: kept.Incarnation, Name: "renamed", Created: 7, Aliases: map[string]string{"a": "b"}}
	k.ok(k.UpdateStore(k.ctx, info))
	k.append(kept, add("doc:1#viewer@user:anne")...)
	k.ok(k.DeleteStore(k.ctx, gone.ID))
	k.reopen()
	have, err := k.StoreByAlias(k.ctx, "a", "b")
	k.ok(err)
	k.sameInfo(have, info)
	_, err = k.Store(k.ctx, gone.ID)
	k.is(err, storage.ErrNoStore)
	k.verify(kept)
	k.append(kept, remove("doc:1#viewer@user:anne")...)
	k.verify(kept)
}

func format(k *kit) {
	a, err := k.Format(k.ctx)
	k.ok(err)
	k.reopen()
	b, err := k.Format(k.ctx)
	k.ok(err)
	k.check(a == b && a > 0, "formats are %d and %d", a, b)
}
