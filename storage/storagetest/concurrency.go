package storagetest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

func concurrencyCases() []testcase {
	return []testcase{
		{"concurrency/one store", "If writers append to one store at the same time, each Append either fails with a conflict or appends its entry once.", raceOneStore},
		{"concurrency/many stores", "Writers of different stores have no conflicts.", raceManyStores},
		{"concurrency/load while appending", "A State is that of one revision, even if entries are appended while it is loaded.", raceLoad},
		{"context", "A call whose context has ended returns the context's error, and an Append then changes nothing.", contextEnds},
		{"closed", "After Close every method fails with ErrClosed, and an open State is closed.", closedDriver},
		{"join", "An AppendTo becomes visible when the transaction commits, and not before.", join},
	}
}

func raceOneStore(k *kit) {
	const writers, each = 6, 12
	l := k.store()
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			mine := *l
			mine.Writer, mine.Sequence = storage.WriterID{byte(w + 1)}, 0
			for n := range each {
				change := add(fmt.Sprintf("doc:%d-%d#viewer@user:anne", w, n), "doc:shared#viewer@user:anne")
				for {
					seq := mine.Sequence
					err := mine.Append(k.ctx, k.Driver, change...)
					var c *storage.ConflictError
					if errors.As(err, &c) {
						mine.Head, mine.Sequence = c.Head, seq
						continue
					}
					if err != nil {
						k.Errorf("writer %d: %v", w, err)
						return
					}
					break
				}
			}
		})
	}
	group.Wait()
	var err error
	l.Head, err = k.Head(k.ctx, l.ID)
	k.ok(err)
	next := map[storage.WriterID]uint64{}
	for _, e := range k.verify(l) {
		next[e.Writer]++
		k.check(e.Sequence == next[e.Writer], "writer %x has sequence %d, want %d", e.Writer[:1], e.Sequence, next[e.Writer])
	}
	k.check(int(l.Head.Revision) == writers*each, "the head is at revision %d after %d writes", l.Head.Revision, writers*each)
}

func raceManyStores(k *kit) {
	var logs []*Log
	for range 8 {
		logs = append(logs, k.store())
	}
	var group sync.WaitGroup
	for _, l := range logs {
		group.Go(func() {
			for n := range 20 {
				if err := l.Append(k.ctx, k.Driver, add(fmt.Sprintf("doc:%d#viewer@user:anne", n))...); err != nil {
					k.Errorf("store %s: %v", l.ID, err)
					return
				}
			}
		})
	}
	group.Wait()
	for _, l := range logs {
		k.verify(l)
	}
}

// raceLoad always writes the same value to two tuples. So if a State contains
// only half of an entry, the two values differ.
func raceLoad(k *kit) {
	l := k.store()
	stop := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		defer close(stop)
		for n := range 60 {
			text := fmt.Sprintf(" with c {\"n\":%d}", n)
			if err := l.Append(k.ctx, k.Driver, add("doc:1#viewer@user:anne"+text, "doc:2#viewer@user:anne"+text)...); err != nil {
				k.Errorf("append: %v", err)
				return
			}
		}
	})
	for done := false; !done; {
		select {
		case <-stop:
			done = true
		default:
		}
		st, err := k.Load(k.ctx, l.ID, storage.LoadOptions{})
		k.ok(err)
		var rows []storage.TupleRow
		for row, err := range st.Tuples {
			k.ok(err)
			rows = append(rows, row)
		}
		k.ok(st.Close())
		if st.Head.Revision == 0 {
			k.check(len(rows) == 0, "%d rows in an empty store", len(rows))
			continue
		}
		k.check(len(rows) == 2 && rows[0].Created == st.Head.Revision && rows[1].Created == st.Head.Revision && rows[0].Tuple.Context == rows[1].Tuple.Context,
			"at revision %d the rows are %+v, want two of that revision with the same context", st.Head.Revision, rows)
	}
	group.Wait()
}

func contextEnds(k *kit) {
	l := k.store()
	var texts []string
	for i := range 2000 {
		texts = append(texts, fmt.Sprintf("doc:%d#viewer@user:anne", i))
	}
	k.append(l, add(texts...)...)
	ended, cancel := context.WithCancel(k.ctx)
	cancel()
	_, err := k.Append(ended, l.ID, l.Head, []storage.Entry{l.Entry(l.Head, add("doc:x#viewer@user:anne")...)}, nil)
	k.is(err, context.Canceled)
	_, err = k.Load(ended, l.ID, storage.LoadOptions{})
	k.is(err, context.Canceled)
	_, err = k.Head(ended, l.ID)
	k.is(err, context.Canceled)
	for _, err := range k.Entries(ended, l.ID, 1) {
		k.is(err, context.Canceled)
	}
	running, cancel := context.WithCancel(k.ctx)
	defer cancel()
	st, err := k.Load(running, l.ID, storage.LoadOptions{})
	k.ok(err)
	defer st.Close()
	n := 0
	for _, err = range st.Tuples {
		if n++; n == 1 {
			cancel()
		}
	}
	k.is(err, context.Canceled)
	k.check(n < len(texts), "the sequence yielded all %d rows although the context ended", n)
	h, err := k.Head(k.ctx, l.ID)
	k.ok(err)
	k.check(h == l.Head, "the head moved to %v", h)
}

func closedDriver(k *kit) {
	l := k.store()
	k.append(l, add("doc:1#viewer@user:anne", "doc:2#viewer@user:anne")...)
	st, err := k.Load(k.ctx, l.ID, storage.LoadOptions{})
	k.ok(err)
	entries := k.Entries(k.ctx, l.ID, 1)
	k.ok(k.Driver.Close())
	k.ok(k.Driver.Close())
	for _, err := range st.Tuples {
		k.is(err, storage.ErrClosed)
	}
	k.ok(st.Close())
	for _, err := range entries {
		k.is(err, storage.ErrClosed)
	}
	_, err = k.Format(k.ctx)
	k.is(err, storage.ErrClosed)
	_, err = k.Head(k.ctx, l.ID)
	k.is(err, storage.ErrClosed)
	_, err = k.Append(k.ctx, l.ID, l.Head, nil, nil)
	k.is(err, storage.ErrClosed)
	_, err = k.Load(k.ctx, l.ID, storage.LoadOptions{})
	k.is(err, storage.ErrClosed)
	_, err = k.Rows(k.ctx, l.ID, []rel.Key{})
	k.is(err, storage.ErrClosed)
	_, err = k.Document(k.ctx, l.ID, "a", "b")
	k.is(err, storage.ErrClosed)
	k.is(k.CreateStore(k.ctx, storage.StoreInfo{}), storage.ErrClosed)
	k.is(k.UpdateStore(k.ctx, storage.StoreInfo{}, storage.StoreInfo{}), storage.ErrClosed)
	k.is(k.DeleteStore(k.ctx, l.ID), storage.ErrClosed)
	k.is(k.Trim(k.ctx, l.ID, 1, 1), storage.ErrClosed)
	_, err = k.Store(k.ctx, l.ID)
	k.is(err, storage.ErrClosed)
	_, err = k.StoreByAlias(k.ctx, "a", "b")
	k.is(err, storage.ErrClosed)
	_, err = k.CountStores(k.ctx)
	k.is(err, storage.ErrClosed)
	for _, err := range k.Stores(k.ctx, storage.StoreID{}) {
		k.is(err, storage.ErrClosed)
	}
	k.open()
	k.verify(l)
}

// Transactor is an optional interface of a driver under test. The case for
// [storage.Joiner] runs only if the driver implements it.
type Transactor interface {
	// Transaction returns a new transaction for AppendTo, and its commit.
	Transaction() (tx any, commit func() error)
}

func join(k *kit) {
	j, joins := k.Driver.(storage.Joiner)
	tr, can := k.Driver.(Transactor)
	if !joins || !can {
		k.Skip("the driver is not a Joiner and a Transactor")
	}
	l := k.store()
	k.append(l, add("doc:1#viewer@user:anne")...)
	tx, commit := tr.Transaction()
	next, err := j.AppendTo(k.ctx, tx, l.ID, l.Head, []storage.Entry{l.Entry(l.Head, append(remove("doc:1#viewer@user:anne"), add("doc:2#viewer@user:anne")...)...)})
	k.ok(err)
	k.verify(l) // not visible yet
	k.ok(commit())
	l.Head, err = k.Head(k.ctx, l.ID)
	k.ok(err)
	k.check(l.Head == next, "the head is %v, want %v", l.Head, next)
	k.verify(l)

	// A transaction that is never committed has no effect.
	tx, _ = tr.Transaction()
	_, err = j.AppendTo(k.ctx, tx, l.ID, l.Head, []storage.Entry{l.Entry(l.Head, add("doc:3#viewer@user:anne")...)})
	k.ok(err)
	k.append(l, add("doc:4#viewer@user:anne")...)
	k.verify(l)
	_, err = j.AppendTo(k.ctx, "no transaction", l.ID, l.Head, nil)
	k.is(err, storage.ErrTransaction)
	_, err = j.AppendTo(k.ctx, nil, l.ID, l.Head, nil)
	k.is(err, storage.ErrTransaction)
	tx, _ = tr.Transaction()
	_, err = j.AppendTo(k.ctx, tx, l.ID, storage.Head{}, []storage.Entry{l.Entry(storage.Head{})})
	k.conflict(err, l.Head)
}
