package storagetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

func stateCases() []testcase {
	return []testcase{
		{"state/every kind", "Each kind of change has the effect on the state that its comment documents.", stateKinds},
		{"state/names are bytes", "Names are bytes: different names never identify the same row, attribute, document or secret.", stateBytes},
		{"state/replace", "TupleAdd of a live key replaces the row, which becomes a removed row; TupleRemove of a key that is not live does nothing.", stateReplace},
		{"state/rows", "Rows returns the live rows in the order of the keys, and the zero row for a key that is not live.", stateRows},
		{"state/order", "Load yields the live rows in order of their keys, and then the removed rows in order of removal.", stateOrder},
		{"state/fresh", "A correct Fresh hint does not change the state, and is not stored.", stateFresh},
		{"state/random", "The state follows from the log, for random logs.", stateRandom},
		{"state/isolation", "A State does not change when entries are appended or trimmed.", stateIsolation},
	}
}

func stateKinds(k *kit) {
	l := k.store()
	for _, c := range everyKind() {
		k.append(l, c)
		k.verify(l)
	}
	// All changes in one entry: rows that it makes and removes are never live.
	all := k.store()
	k.append(all, everyKind()...)
	k.verify(all)
	k.reopen()
	k.verify(l)
	k.verify(all)
}

func stateBytes(k *kit) {
	l := k.store()
	var changes []storage.Change
	for _, a := range awkward() {
		for _, t := range []rel.Tuple{
			{Object: rel.Object{Type: a, ID: "x"}, Relation: "r", Subject: rel.Subject{Type: "u", ID: "1"}},
			{Object: rel.Object{Type: "t", ID: a}, Relation: "r", Subject: rel.Subject{Type: "u", ID: "1"}},
			{Object: rel.Object{Type: "t", ID: "x"}, Relation: a, Subject: rel.Subject{Type: "u", ID: "1"}},
			{Object: rel.Object{Type: "t", ID: "x"}, Relation: "r", Subject: rel.Subject{Type: a, ID: "1"}},
			{Object: rel.Object{Type: "t", ID: "x"}, Relation: "r", Subject: rel.Subject{Type: "u", ID: a}},
			{Object: rel.Object{Type: "t", ID: "x"}, Relation: "r", Subject: rel.Subject{Type: "u", ID: "1", Relation: a}},
		} {
			t.Condition, t.Context = a, a
			changes = append(changes, storage.Change{Kind: storage.TupleAdd, Tuple: t})
		}
		changes = append(changes, put("k"+a, "key", "body "+a, "s"), put("kind", a, "body "+a, a, a+"2"),
			storage.Change{Kind: storage.AttributeSet, Attribute: rel.Attribute{Object: rel.Object{Type: "t", ID: a}, Name: a, Value: a}},
			storage.Change{Kind: storage.SecretPut, Document: storage.Document{Kind: "kind", Key: a, Body: []byte("secret " + a)}})
	}
	k.append(l, changes...)
	k.verify(l)
	k.check(len(k.tuples(l, storage.LoadOptions{})) == 6*len(awkward()), "different tuples became the same row")
	for _, a := range awkward() {
		secret, err := k.Secret(k.ctx, l.ID, "kind", a)
		k.ok(err)
		k.check(string(secret.Body) == "secret "+a, "secret %q is %q", a, secret.Body)
		var keys []string
		for doc, err := range k.DocumentsBy(k.ctx, l.ID, "kind", a) {
			k.ok(err)
			keys = append(keys, doc.Key)
		}
		k.check(slices.Equal(keys, []string{a}), "DocumentsBy(%q) yields %q", a, keys)
	}
	// The removal of one tuple leaves the other tuples unchanged.
	for i, a := range awkward() {
		k.append(l, filterTuples(rel.Filter{ObjectID: a}))
		k.check(len(k.tuples(l, storage.LoadOptions{})) == 6*len(awkward())-i-1, "a filter on object id %q removed other rows", a)
	}
	k.verify(l)
}

func stateReplace(k *kit) {
	l := k.store()
	k.append(l, add("doc:1#viewer@user:anne")...)
	k.append(l, add("doc:1#viewer@user:anne with c {\"x\":1}")...)
	k.append(l, add("doc:1#viewer@user:anne with c {\"x\":1}")...) // the same again
	k.append(l, remove("doc:1#viewer@user:bob")...)
	k.append(l, remove("doc:1#viewer@user:anne with other")...) // only the key is used
	zero := storage.Revision(0)
	rows := k.tuples(l, storage.LoadOptions{RemovedAfter: &zero})
	var have []string
	for _, r := range rows {
		have = append(have, fmt.Sprint(r.Created, "-", r.Removed, r.Tuple.Condition))
	}
	k.check(slices.Equal(have, []string{"1-2", "2-3c", "3-5c"}), "the rows are %q", have)
	k.verify(l)
}

func stateRows(k *kit) {
	l := k.store()
	k.append(l, add("doc:1#viewer@user:anne", "doc:2#viewer@user:anne with c {\"x\":1} until 2030-01-01T00:00:00Z")...)
	k.append(l, remove("doc:1#viewer@user:anne")...)
	k.append(l, add("doc:3#viewer@user:*")...)
	texts := []string{"doc:3#viewer@user:*", "doc:1#viewer@user:anne", "doc:2#viewer@user:anne", "doc:3#viewer@user:*", "doc:4#viewer@user:*"}
	var keys []rel.Key
	for _, s := range texts {
		keys = append(keys, tuple(s).Key())
	}
	rows, err := k.Rows(k.ctx, l.ID, keys)
	k.ok(err)
	k.check(len(rows) == len(keys), "%d rows for %d keys", len(rows), len(keys))
	for i, want := range []storage.Revision{3, 0, 1, 3, 0} {
		r := rows[i]
		k.check(r.Created == want && (want != 0) == (r.Tuple.Key() == keys[i]), "row %d is %+v", i, r)
	}
	k.check(rows[2].Tuple == tuple("doc:2#viewer@user:anne with c {\"x\":1} until 2030-01-01T00:00:00Z"), "row 2 is %v", rows[2].Tuple)
}

func stateOrder(k *kit) {
	l := k.store()
	k.append(l, add("doc:1#viewer@user:c", "doc:1#viewer@user:b", "doc:1#viewer@user:a", "doc:0#viewer@user:z")...)
	k.append(l, remove("doc:1#viewer@user:c")...)
	k.append(l, remove("doc:1#viewer@user:b")...)
	zero := storage.Revision(0)
	var ids []string
	for _, r := range k.tuples(l, storage.LoadOptions{RemovedAfter: &zero}) {
		ids = append(ids, r.Tuple.Subject.ID)
	}
	k.check(slices.Equal(ids, []string{"z", "a", "c", "b"}), "the order of the rows is %q", ids)
}

func stateFresh(k *kit) {
	l := k.store()
	fresh := func(texts ...string) []storage.Change {
		changes := add(texts...)
		for i := range changes {
			changes[i].Fresh = true
		}
		return changes
	}
	k.append(l, fresh("doc:1#viewer@user:a", "doc:2#viewer@user:a", "doc:3#viewer@user:b")...)
	k.append(l, append(remove("doc:1#viewer@user:a"), fresh("doc:1#viewer@user:a with c")...)...)
	k.append(l, append([]storage.Change{filterTuples(rel.Filter{SubjectID: "a"})}, fresh("doc:1#viewer@user:a", "doc:0#viewer@user:a")...)...)
	k.append(l, append(fresh("doc:9#viewer@user:q"), remove("doc:9#viewer@user:q", "doc:3#viewer@user:b")...)...)
	var many []string
	for i := range 50 {
		many = append(many, fmt.Sprintf("doc:m%d#viewer@user:a", i))
	}
	k.append(l, fresh(many...)...)
	k.append(l, append(append([]storage.Change{filterTuples(rel.Filter{ObjectID: "m7"})}, fresh("doc:m7#viewer@user:a")...), add(many[10:40]...)...)...)
	for _, e := range k.verify(l) {
		for _, c := range e.Changes {
			k.check(!c.Fresh, "the log contains the hint")
		}
	}
}

// stateRandom appends random entries. It uses few keys, so many entries change
// the same key.
func stateRandom(k *kit) {
	const seed = 20250101
	k.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	l := k.store()
	for i := range 60 {
		var entries []storage.Entry
		head := l.Head
		for range 1 + rng.IntN(3) {
			e := l.Entry(head, RandomChanges(rng, 1+rng.IntN(40))...)
			entries = append(entries, e)
			head = storage.Head{Revision: e.Revision, Hash: e.Hash(), Time: e.Time}
		}
		h, err := k.Append(k.ctx, l.ID, l.Head, entries, nil)
		k.ok(err)
		l.Head = h
		if i%20 == 19 {
			k.verify(l)
			k.reopen()
		}
	}
	k.verify(l)
}

// RandomChanges returns n random changes of all kinds with few different names.
func RandomChanges(rng *rand.Rand, n int) []storage.Change {
	word := func(words string) string { return pick(rng, strings.Fields(words)) }
	object := func() rel.Object { return rel.Object{Type: word("doc folder"), ID: word("1 2 3 10")} }
	randomTuple := func() rel.Tuple {
		t := rel.Tuple{Object: object(), Relation: word("viewer parent"), Subject: rel.Subject{Type: word("user group"), ID: word("a b *")}}
		if rng.IntN(3) == 0 {
			t.Subject.Relation = "member"
		}
		if rng.IntN(3) == 0 {
			t.Condition, t.Context = "c", pick(rng, []string{"", "{\"a\":1}"})
		}
		t.Expires = rel.Time(rng.IntN(2) * rng.IntN(1000))
		return t
	}
	doc := func() storage.Document {
		return storage.Document{Kind: word("schema user"), Key: word("a ab b"), Body: []byte(strings.Repeat("x", 1+rng.IntN(50))), Secondary: []string{word("s t"), word("s u")}}
	}
	var out []storage.Change
	for range n {
		switch rng.IntN(14) {
		case 0, 1, 2, 3, 4:
			out = append(out, storage.Change{Kind: storage.TupleAdd, Tuple: randomTuple()})
		case 5, 6:
			out = append(out, storage.Change{Kind: storage.TupleRemove, Tuple: rel.Tuple{Object: randomTuple().Object, Relation: "viewer", Subject: rel.Subject{Type: "user", ID: "a"}}})
		case 7:
			out = append(out, storage.Change{Kind: storage.AttributeSet, Attribute: rel.Attribute{Object: object(), Name: word("n m"), Value: word("1 2")}})
		case 8:
			out = append(out, storage.Change{Kind: storage.AttributeRemove, Attribute: rel.Attribute{Object: object(), Name: word("n m")}})
		case 9, 10:
			out = append(out, storage.Change{Kind: storage.DocumentPut, Document: doc()})
		case 11:
			d := doc()
			out = append(out, storage.Change{Kind: storage.DocumentRemove, Document: storage.Document{Kind: d.Kind, Key: d.Key}})
		case 12:
			out = append(out, storage.Change{Kind: pick(rng, []storage.ChangeKind{storage.SecretPut, storage.SecretRemove}), Document: storage.Document{Kind: "key", Key: word("a b"), Body: []byte(word("c d"))}})
		case 13:
			out = append(out, storage.Change{Kind: storage.RemoveByFilter, Filter: randomFilter(rng)})
		}
	}
	for i := range out {
		if out[i].Kind == storage.SecretRemove {
			out[i].Document.Body = nil
		}
	}
	return out
}

// randomFilter returns a random filter with the names that [RandomChanges] uses.
func randomFilter(rng *rand.Rand) storage.Filter {
	maybe := func(words string) string {
		if rng.IntN(2) == 0 {
			return ""
		}
		return pick(rng, strings.Fields(words))
	}
	switch rng.IntN(3) {
	case 0:
		return storage.Filter{Target: storage.FilterAttributes, ObjectType: maybe("doc folder"), ObjectID: maybe("1 2"), Name: maybe("n m")}
	case 1:
		return storage.Filter{Target: storage.FilterDocuments, DocumentKind: pick(rng, []string{"schema", "user"}), DocumentKeyPrefix: maybe("a b")}
	}
	f := storage.Filter{Target: storage.FilterTuples, Tuple: rel.Filter{
		ObjectType: maybe("doc folder"), ObjectID: maybe("1 2 10"), Relation: maybe("viewer parent"),
		SubjectType: maybe("user group"), SubjectID: maybe("a b *"), SubjectRelation: maybe("member"),
	}}
	f.Tuple.SubjectPlain = f.Tuple.SubjectRelation == "" && rng.IntN(3) == 0
	return f
}

// pick returns a random element.
func pick[E any](rng *rand.Rand, from []E) E { return from[rng.IntN(len(from))] }

func stateIsolation(k *kit) {
	l := k.store()
	var texts []string
	for i := range 500 {
		texts = append(texts, fmt.Sprintf("doc:%d#viewer@user:anne", i))
	}
	k.append(l, append(add(texts...), put("schema", "1", "body"))...)
	before := l.Head
	zero := storage.Revision(0)
	st, err := k.Load(k.ctx, l.ID, storage.LoadOptions{RemovedAfter: &zero})
	k.ok(err)
	k.append(l, filterTuples(rel.Filter{ObjectType: "doc"}), put("schema", "2", "body"))
	k.append(l, add("doc:new#viewer@user:anne")...)
	k.ok(k.Trim(k.ctx, l.ID, 2, 2))
	n := 0
	for row, err := range st.Tuples {
		k.ok(err)
		k.check(row.Removed == 0 && row.Created == 1, "the state has row %+v of a later revision", row)
		if n++; n == 100 {
			k.append(l, add("doc:meanwhile#viewer@user:anne")...)
		}
	}
	k.check(n == 500 && st.Head == before, "%d rows at head %v", n, st.Head)
	n = 0
	for range st.Documents {
		n++
	}
	k.check(n == 1, "%d documents, want 1", n)
	k.ok(st.Close())
	k.ok(st.Close()) // a second call does nothing
}
