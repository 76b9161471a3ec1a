package storagetest

import (
	"fmt"
	"slices"

	"github.com/ostiary/ostiary/storage"
)

// awkward returns names that become equal if a driver folds case, trims white
// space, or compares with a collation.
func awkward() []string {
	return []string{
		"name", "Name", "NAME", "name ", " name", "name\x00", "\x00name", "\x00", "\x01", "\x01\x01", "\x00\x01", "\x01\x00",
		"naïve", "naive", "nai\u0308ve", "😀", "😁", "ß", "ss", "a:b", "a", "b", "a#b", "\xff", "\xff\xff", "é", "É", "ı", "I", "i", "%", "_", "\\", "'", "\"",
	}
}

func storeCases() []testcase {
	return []testcase{
		{"stores/create", "A store is found by id and by alias; CreateStore fails with ErrExists if the id or an alias is in use.", createStore},
		{"stores/aliases are bytes", "Aliases are bytes: different aliases never find the same store.", aliasBytes},
		{"stores/update", "UpdateStore replaces the name and the aliases, and the old aliases can be used again; it fails with ErrChanged if the name or the aliases are not the expected ones, and with ErrNoStore for another incarnation.", updateStore},
		{"stores/catalog", "CatalogChanges changes when a store is updated or deleted; CountStores counts the stores.", catalog},
		{"stores/delete", "A deleted store is ErrNoStore; a new store with its id is empty, and its aliases can be used again.", deleteStore},
		{"stores/order", "Stores yields the stores in order of their ids, starting after the given id.", storeOrder},
		{"stores/aliases", "StoresByAlias yields the stores with an alias for a door in order of the aliases, starting after the given one.", aliasOrder},
		{"stores/names", "StoresByName yields the stores with a name in order of their ids, starting after the given one.", nameOrder},
		{"stores/isolation", "Stores with the same names, keys and tuples do not affect each other.", storeIsolation},
		{"stores/unknown", "Every call on an unknown store fails with ErrNoStore.", unknownStore},
		{"stores/reopen", "Created, updated and deleted stores are the same after the data is opened again.", storesReopen},
		{"format", "Format returns the version of the layout, which is the same after the data is opened again.", format},
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
			k.check(have.ID == l.ID && have.Name == name, "alias %q of door %q finds store %s with name %q, want %s", pair[1], pair[0], have.ID, have.Name, l.ID)
		}
	}
	// The door and the alias must not be joined to one text.
	_, err := k.StoreByAlias(k.ctx, "doorname", "")
	k.is(err, storage.ErrNoStore)
}

func updateStore(k *kit) {
	l := NewLog(1)
	info := storage.StoreInfo{ID: l.ID, Incarnation: l.Incarnation, Name: "old", Created: 3, Aliases: map[string]string{"a": "one", "b": "two"}}
	k.ok(k.CreateStore(k.ctx, info))
	k.append(l, add("doc:1#viewer@user:anne")...)
	old := info
	info.Name, info.Aliases = "new", map[string]string{"a": "three", "c": "two"}
	k.ok(k.UpdateStore(k.ctx, old, info))
	k.is(k.UpdateStore(k.ctx, old, info), storage.ErrChanged)
	renamed := info
	renamed.Name = "old"
	k.is(k.UpdateStore(k.ctx, renamed, old), storage.ErrChanged)
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
	conflicting := info
	conflicting.Aliases = map[string]string{"a": "one"}
	k.is(k.UpdateStore(k.ctx, info, conflicting), storage.ErrExists)
	have, err = k.Store(k.ctx, l.ID)
	k.ok(err)
	k.sameInfo(have, info)
	info.Incarnation[3]++
	k.is(k.UpdateStore(k.ctx, info, info), storage.ErrNoStore)
}

func deleteStore(k *kit) {
	l, other := k.store(), k.store()
	changes := append(add("doc:1#viewer@user:anne"), put("schema", "1", "body", "by"))
	changes = append(changes, storage.Change{Kind: storage.SecretPut, Document: storage.Document{Kind: "key", Key: "1", Body: []byte("cipher")}})
	k.append(l, changes...)
	k.append(l, remove("doc:1#viewer@user:anne")...)
	k.append(other, changes...)
	k.update(storage.StoreInfo{ID: l.ID, Incarnation: l.Incarnation, Aliases: map[string]string{"d": "a"}})
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
	k.check(len(k.tuples(&again, storage.LoadOptions{RemovedAfter: &zero})) == 0, "the new store has tuples of the deleted one")
	_, err = k.Document(k.ctx, l.ID, "schema", "1")
	k.is(err, storage.ErrNoDocument)
	_, err = k.Secret(k.ctx, l.ID, "key", "1")
	k.is(err, storage.ErrNoDocument)
	_, err = k.Append(k.ctx, l.ID, storage.Head{}, []storage.Entry{l.Entry(storage.Head{}, changes...)}, nil)
	k.is(err, storage.ErrEntry) // the entry has the incarnation of the deleted store
	k.verify(&again)
	k.verify(other)
}

func nameOrder(k *kit) {
	infos := map[string][]storage.StoreInfo{}
	for n := range uint32(3) {
		for i, name := range append(awkward(), "") {
			l := NewLog(1000*(3-n) + uint32(i))
			info := storage.StoreInfo{ID: l.ID, Incarnation: l.Incarnation, Name: name, Aliases: map[string]string{"door": fmt.Sprint(n, i)}}
			k.ok(k.CreateStore(k.ctx, info))
			infos[name] = append([]storage.StoreInfo{info}, infos[name]...)
		}
	}
	expect := func(name string, after storage.StoreID, want ...storage.StoreInfo) {
		var have []storage.StoreInfo
		for info, err := range k.StoresByName(k.ctx, name, after) {
			k.ok(err)
			have = append(have, info)
		}
		k.check(len(have) == len(want), "%d stores have the name %q after %s, want %d", len(have), name, after, len(want))
		for i, info := range have[:min(len(have), len(want))] {
			k.sameInfo(info, want[i])
		}
	}
	for name, all := range infos {
		expect(name, storage.StoreID{}, all...)
		for i, info := range all {
			expect(name, info.ID, all[i+1:]...)
		}
	}
	for range k.StoresByName(k.ctx, "a", storage.StoreID{}) {
		break
	}
	expect("none", storage.StoreID{})
	a, b := infos["a"], infos["b"]
	moved := a[1]
	moved.Name = "b"
	k.ok(k.UpdateStore(k.ctx, a[1], moved))
	expect("a", storage.StoreID{}, a[0], a[2])
	expect("b", storage.StoreID{}, b[0], moved, b[1], b[2])
	same := moved
	same.Aliases = nil
	k.ok(k.UpdateStore(k.ctx, moved, same))
	expect("b", b[0].ID, same, b[1], b[2])
	k.ok(k.DeleteStore(k.ctx, moved.ID))
	expect("b", storage.StoreID{}, b...)
	expect("a", storage.StoreID{}, a[0], a[2])
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
	k.check(slices.Equal(all(storage.StoreID{}), ids), "Stores yields %v, want %v", all(storage.StoreID{}), ids)
	for i := range ids {
		k.check(slices.Equal(all(ids[i]), ids[i+1:]), "Stores after %s yields %v", ids[i], all(ids[i]))
	}
	for range k.Stores(k.ctx, storage.StoreID{}) {
		break
	}
}

func aliasOrder(k *kit) {
	const door = "order"
	sorted := []string{"\x00", "\x00\x01", "\x01", "\x02", "a", "a\x00", "a\x00b", "a\x01", "aa", "b", "é"}
	var last storage.StoreInfo
	for n, alias := range slices.Backward(sorted) {
		l := NewLog(uint32(500 + n))
		last = storage.StoreInfo{ID: l.ID, Incarnation: l.Incarnation, Name: alias, Aliases: map[string]string{door: alias, "other": alias}}
		k.ok(k.CreateStore(k.ctx, last))
	}
	for n, doors := range []map[string]string{{"orde": "a"}, {"order2": "a"}, {door: ""}, nil} {
		k.ok(k.CreateStore(k.ctx, storage.StoreInfo{ID: NewLog(uint32(600 + n)).ID, Aliases: doors}))
	}
	all := func(after string) (out []string) {
		for info, err := range k.StoresByAlias(k.ctx, door, after) {
			k.ok(err)
			k.check(info.Name == info.Aliases[door] && info.Aliases["other"] == info.Name, "StoresByAlias yields %v", info)
			out = append(out, info.Name)
		}
		return out
	}
	k.check(slices.Equal(all(""), sorted), "StoresByAlias yields %q, want %q", all(""), sorted)
	for i, alias := range sorted {
		k.check(slices.Equal(all(alias), sorted[i+1:]), "StoresByAlias after %q yields %q", alias, all(alias))
	}
	k.check(slices.Equal(all("aaa"), []string{"b", "é"}), "StoresByAlias after an alias that does not exist yields %q", all("aaa"))
	for range k.StoresByAlias(k.ctx, door, "") {
		break
	}
	changed := last
	changed.Aliases = map[string]string{door: "z", "other": "z"}
	changed.Name = "z"
	k.ok(k.UpdateStore(k.ctx, last, changed))
	k.check(slices.Equal(all("b"), []string{"z", "é"}) && all("")[0] == sorted[1], "StoresByAlias after a change yields %q", all(""))
	k.ok(k.DeleteStore(k.ctx, last.ID))
	k.check(slices.Equal(all("b"), []string{"é"}), "StoresByAlias after a deletion yields %q", all("b"))
}

func storeIsolation(k *kit) {
	a, b := k.store(), k.store()
	b.Incarnation = a.Incarnation // equal incarnations must not matter either
	k.ok(k.DeleteStore(k.ctx, b.ID))
	k.ok(k.CreateStore(k.ctx, storage.StoreInfo{ID: b.ID, Incarnation: b.Incarnation}))
	k.append(a, append(add("doc:1#viewer@user:anne", "doc:2#viewer@user:anne"), put("schema", "s", "of a", "x"))...)
	k.append(b, append(add("doc:1#viewer@user:bob"), put("schema", "s", "of b", "x"))...)
	k.append(b, filterTuples(anyTuple()))
	k.check(len(k.tuples(a, storage.LoadOptions{})) == 2, "a filter on one store removed tuples of the other")
	doc, err := k.Document(k.ctx, a.ID, "schema", "s")
	k.ok(err)
	k.check(string(doc.Body) == "of a", "the document of the first store is %q", doc.Body)
	for doc, err := range k.DocumentsBy(k.ctx, b.ID, "schema", "x") {
		k.ok(err)
		k.check(string(doc.Body) == "of b", "the document of the second store is %q", doc.Body)
	}
	_, err = k.Append(k.ctx, b.ID, a.Head, []storage.Entry{b.Entry(a.Head)}, nil)
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
	_, err = k.Append(k.ctx, id, storage.Head{}, nil, nil)
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
	k.is(k.UpdateStore(k.ctx, storage.StoreInfo{}, storage.StoreInfo{ID: id}), storage.ErrNoStore)
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
	kept, deleted := k.store(), k.store()
	info := storage.StoreInfo{ID: kept.ID, Incarnation: kept.Incarnation, Name: "renamed", Created: 7, Aliases: map[string]string{"a": "b"}}
	k.update(info)
	k.append(kept, add("doc:1#viewer@user:anne")...)
	k.ok(k.DeleteStore(k.ctx, deleted.ID))
	k.reopen()
	have, err := k.StoreByAlias(k.ctx, "a", "b")
	k.ok(err)
	k.sameInfo(have, info)
	_, err = k.Store(k.ctx, deleted.ID)
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
	k.check(a == b && a > 0, "Format returns %d, and %d after opening again; want the same positive number", a, b)
}

func catalog(k *kit) {
	count := func(want int) {
		k.Helper()
		n, err := k.CountStores(k.ctx)
		k.ok(err)
		k.check(n == want, "CountStores returns %d, want %d", n, want)
	}
	count(0)
	a := k.store()
	changes, creations := k.CatalogChanges().Load(), k.Creations().Load()
	b := k.store()
	k.check(k.Creations().Load() != creations, "a new store does not change Creations")
	k.check(k.CatalogChanges().Load() == changes, "a new store changes CatalogChanges")
	count(2)
	k.is(k.CreateStore(k.ctx, storage.StoreInfo{ID: a.ID}), storage.ErrExists)
	count(2)
	before := k.CatalogChanges().Load()
	k.append(a, add("doc:1#viewer@user:anne")...)
	k.check(k.CatalogChanges().Load() == before, "an append changes CatalogChanges")
	k.update(storage.StoreInfo{ID: a.ID, Incarnation: a.Incarnation, Name: "named"})
	updated := k.CatalogChanges().Load()
	k.check(updated != before, "an update does not change CatalogChanges")
	k.ok(k.DeleteStore(k.ctx, b.ID))
	k.check(k.CatalogChanges().Load() != updated, "a deletion does not change CatalogChanges")
	count(1)
	k.is(k.DeleteStore(k.ctx, b.ID), storage.ErrNoStore)
	count(1)
	k.reopen()
	k.store()
	count(2)
}
