package storagetest

import (
	"fmt"
	"slices"

	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

func pastCases() []testcase {
	return []testcase{
		{"past/window", "Load also yields the rows that were removed after RemovedAfter, and with RemovedOnly only those; the state of every later revision follows from them.", pastWindow},
		{"past/trim", "Trim drops the entries below a revision and the rows that were removed up to a revision; Entries and EntryHead of trimmed revisions fail with ErrTrimmed.", pastTrim},
		{"past/trim beyond", "Trim with a revision above the head does not affect later entries and rows.", pastTrimBeyond},
		{"notify", "The channel of Notify receives each store whose head another writer moved, or that was updated or deleted.", notify},
	}
}

func pastWindow(k *kit) {
	l := k.store()
	live := map[storage.Revision][]string{0: nil}
	for i := range 12 {
		changes := add(fmt.Sprintf("doc:%d#viewer@user:anne", i%5))
		if i%3 == 2 {
			changes = append(changes, remove(fmt.Sprintf("doc:%d#viewer@user:anne", (i+2)%5))...)
		}
		k.append(l, changes...)
		var now []string
		for _, row := range k.tuples(l, storage.LoadOptions{}) {
			now = append(now, fmt.Sprint(row.Tuple, row.Created))
		}
		live[l.Head.Revision] = now
	}
	for after := range l.Head.Revision + 1 {
		rows := k.tuples(l, storage.LoadOptions{RemovedAfter: &after})
		for at := after; at <= l.Head.Revision; at++ {
			var then []string
			for _, row := range rows {
				if row.Created <= at && (row.Removed == 0 || at < row.Removed) {
					then = append(then, fmt.Sprint(row.Tuple, row.Created))
				}
			}
			slices.Sort(then)
			slices.Sort(live[at])
			k.check(slices.Equal(then, live[at]), "at revision %d the live tuples were %q, but the rows show %q", at, live[at], then)
		}
		for _, row := range k.tuples(l, storage.LoadOptions{RemovedAfter: &after, RemovedOnly: true}) {
			k.check(row.Removed > after, "row %+v was not removed after revision %d", row, after)
		}
	}
	for _, row := range k.tuples(l, storage.LoadOptions{}) {
		k.check(row.Removed == 0, "Load without RemovedAfter yields removed row %+v", row)
	}
}

func pastTrim(k *kit) {
	l := k.store()
	for i := range 10 {
		text := fmt.Sprintf("doc:%d#viewer@user:anne", i)
		k.append(l, append(add(text), storage.Change{Kind: storage.AttributeSet, Attribute: rel.Attribute{Object: rel.Object{Type: "doc", ID: "1"}, Name: "n", Value: fmt.Sprint(i)}}, put("schema", "1", text))...)
		k.append(l, remove(text)...)
	}
	m := NewModel()
	for e, err := range k.Entries(k.ctx, l.ID, 1) {
		k.ok(err)
		m.Apply(e)
	}
	oldest := func(log, rows storage.Revision) {
		k.Helper()
		a, b, err := k.Oldest(k.ctx, l.ID)
		k.ok(err)
		k.check(a == log && b == rows, "Oldest returns %d and %d, want %d and %d", a, b, log, rows)
		st, err := k.Load(k.ctx, l.ID, storage.LoadOptions{})
		k.ok(err)
		k.check(st.Oldest == rows, "the oldest revision of the state is %d, want %d", st.Oldest, rows)
		k.ok(st.Close())
		k.ok(m.Compare(k.ctx, k.Driver, l.ID, rows))
		zero := storage.Revision(0)
		for _, row := range k.tuples(l, storage.LoadOptions{RemovedAfter: &zero}) {
			k.check(row.Removed == 0 || row.Removed > rows, "row %+v exists after a trim up to %d", row, rows)
		}
	}
	oldest(1, 0)
	k.ok(k.Trim(k.ctx, l.ID, 5, 4))
	oldest(5, 4)
	n := 0
	for _, err := range k.Entries(k.ctx, l.ID, 4) {
		k.is(err, storage.ErrTrimmed)
		n++
	}
	k.check(n == 1, "Entries yields %d errors for a trimmed revision, want 1; none hides the gap", n)
	_, err := k.EntryHead(k.ctx, l.ID, 4)
	k.is(err, storage.ErrTrimmed)
	n = 0
	for e, err := range k.Entries(k.ctx, l.ID, 5) {
		k.ok(err)
		k.check(e.Revision == storage.Revision(5+n), "Entries yields entry %d, want %d", e.Revision, 5+n)
		n++
	}
	k.check(n == 16, "%d entries after the trim, want 16", n)
	k.ok(k.Trim(k.ctx, l.ID, 2, 6)) // trims no entries, but more rows
	oldest(5, 6)
	k.reopen()
	oldest(5, 6)
	k.ok(k.Trim(k.ctx, l.ID, l.Head.Revision+1, l.Head.Revision))
	oldest(l.Head.Revision+1, l.Head.Revision)
	k.append(l, add("doc:after#viewer@user:anne")...)
	for e, err := range k.Entries(k.ctx, l.ID, l.Head.Revision) {
		k.ok(err)
		m.Apply(e)
	}
	oldest(l.Head.Revision, l.Head.Revision-1)
}

func pastTrimBeyond(k *kit) {
	l := k.store()
	k.append(l, add("doc:1#viewer@user:anne")...)
	k.ok(k.Trim(k.ctx, l.ID, 1<<63, 1<<63))
	log, rows, err := k.Oldest(k.ctx, l.ID)
	k.ok(err)
	k.check(log == 2 && rows == 1, "Oldest returns %d and %d, want 2 and 1", log, rows)
	k.append(l, remove("doc:1#viewer@user:anne")...)
	k.append(l, add("doc:1#viewer@user:anne")...)
	n := 0
	for _, err := range k.Entries(k.ctx, l.ID, 2) {
		k.ok(err)
		n++
	}
	after := storage.Revision(1)
	k.check(n == 2 && len(k.tuples(l, storage.LoadOptions{RemovedAfter: &after})) == 2, "%d entries after the trim, want 2", n)
}

func notify(k *kit) {
	a, b := k.store(), k.store()
	c, own := k.Notify(k.ctx, storage.WriterID{0xee}), k.Notify(k.ctx, a.Writer)
	k.append(a, add("doc:1#viewer@user:anne")...)
	k.append(b, add("doc:1#viewer@user:anne")...)
	k.update(storage.StoreInfo{ID: a.ID, Incarnation: a.Incarnation, Name: "named"})
	k.ok(k.DeleteStore(k.ctx, b.ID))
	receive := func(c <-chan storage.StoreID, wanted ...storage.StoreID) {
		k.Helper()
		for _, want := range wanted {
			select {
			case have := <-c:
				k.check(have == want, "the channel received store %s, want %s", have, want)
			case <-k.ctx.Done():
				k.Fatalf("the channel did not receive store %s", want)
			}
		}
	}
	receive(c, a.ID, b.ID, a.ID, b.ID)
	receive(own, b.ID, a.ID, b.ID) // not for its own entry
	k.ok(k.Driver.Close())
	_, open := <-c
	k.check(!open, "the channel is open after Close")
	k.open()
}
