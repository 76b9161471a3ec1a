// Package storagetest is the suite that every storage driver passes. Its main
// function is Run; Model and Verify say what a store's state must be. Each case
// begins with a sentence on the contract that a failure violates. It reads no
// files and knows no driver.
package storagetest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// Opener opens a driver; each call opens the same data again, after the driver
// of the call before was closed.
type Opener func() (storage.Driver, error)

// Run plays the suite. place makes a new, empty place for data and returns what
// opens a driver there; Run closes what it opens.
func Run(t *testing.T, place func(t *testing.T) Opener) {
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			k := &kit{T: t, opener: place(t), explain: c.explain, ctx: t.Context()}
			k.open()
			t.Cleanup(func() {
				if err := k.Driver.Close(); err != nil {
					k.Errorf("closing: %v", err)
				}
			})
			c.run(k)
		})
	}
}

// testcase is one case of the suite.
type testcase struct {
	name string
	// explain is the contract in a sentence.
	explain string
	run     func(k *kit)
}

func cases() []testcase {
	var all []testcase
	for _, part := range [][]testcase{storeCases(), appendCases(), stateCases(), filterCases(), documentCases(), pastCases(), concurrencyCases(), boundCases()} {
		all = append(all, part...)
	}
	return all
}

// kit is what a case works with.
type kit struct {
	*testing.T
	storage.Driver
	opener  Opener
	explain string
	ctx     context.Context
	stores  atomic.Uint32
}

// The kit's Context is the testing.T's.

func (k *kit) Fatalf(format string, args ...any) {
	k.Helper()
	k.T.Fatalf("%s\nThe contract: %s", fmt.Sprintf(format, args...), k.explain)
}

func (k *kit) Errorf(format string, args ...any) {
	k.Helper()
	k.T.Errorf("%s\nThe contract: %s", fmt.Sprintf(format, args...), k.explain)
}

func (k *kit) open() {
	k.Helper()
	d, err := k.opener()
	if err != nil {
		k.Fatalf("opening: %v", err)
	}
	k.Driver = d
}

// reopen closes the driver and opens the data again.
func (k *kit) reopen() {
	k.Helper()
	k.ok(k.Driver.Close())
	k.open()
}

func (k *kit) ok(err error) {
	k.Helper()
	if err != nil {
		k.Fatalf("unexpected error: %v", err)
	}
}

func (k *kit) is(err, kind error) {
	k.Helper()
	if !errors.Is(err, kind) {
		k.Fatalf("the error is %v, want %v", err, kind)
	}
}

func (k *kit) check(ok bool, format string, args ...any) {
	k.Helper()
	if !ok {
		k.Fatalf(format, args...)
	}
}

// store creates a store with a deterministic id.
func (k *kit) store() *Log {
	k.Helper()
	n := k.stores.Add(1)
	l := NewLog(n)
	k.ok(k.CreateStore(k.ctx, storage.StoreInfo{ID: l.ID, Incarnation: l.Incarnation, Name: fmt.Sprint("store ", n), Created: 7}))
	return l
}

// Log writes one store's entries, remembering the head.
type Log struct {
	ID          storage.StoreID
	Incarnation storage.Incarnation
	Writer      storage.WriterID
	Head        storage.Head
	Sequence    uint64
}

// NewLog names the n-th store of a test.
func NewLog(n uint32) *Log {
	l := &Log{}
	l.ID = storage.StoreID{0: 1, 12: byte(n >> 24), 13: byte(n >> 16), 14: byte(n >> 8), 15: byte(n)}
	l.Incarnation = storage.Incarnation{0: 9, 15: byte(n)}
	l.Writer = storage.WriterID{0: 5, 15: byte(n)}
	return l
}

// Entry returns an entry that follows head, a second later.
func (l *Log) Entry(head storage.Head, changes ...storage.Change) storage.Entry {
	l.Sequence++
	return storage.Entry{
		Incarnation: l.Incarnation,
		Revision:    head.Revision + 1,
		Previous:    head.Hash,
		Writer:      l.Writer,
		Sequence:    l.Sequence,
		Time:        head.Time + 1e9,
		Changes:     changes,
	}
}

// Append appends one entry.
func (l *Log) Append(ctx context.Context, d storage.Driver, changes ...storage.Change) error {
	head, err := d.Append(ctx, l.ID, l.Head, []storage.Entry{l.Entry(l.Head, changes...)})
	if err == nil {
		l.Head = head
	}
	return err
}

// append is Log.Append that must succeed.
func (k *kit) append(l *Log, changes ...storage.Change) {
	k.Helper()
	k.ok(l.Append(k.ctx, k.Driver, changes...))
}

// verify compares the store's state with its log.
func (k *kit) verify(l *Log) []storage.Entry {
	k.Helper()
	log, err := Verify(k.ctx, k.Driver, l.ID)
	k.ok(err)
	k.check(len(log) == int(l.Head.Revision), "the log has %d entries, the head is %d", len(log), l.Head.Revision)
	return log
}

// tuples loads rows.
func (k *kit) tuples(l *Log, opts storage.LoadOptions) (rows []storage.TupleRow) {
	k.Helper()
	st, err := k.Load(k.ctx, l.ID, opts)
	k.ok(err)
	for row, err := range st.Tuples {
		k.ok(err)
		rows = append(rows, row)
	}
	k.ok(st.Close())
	return rows
}

// add and remove make changes from the text of tuples.
func add(texts ...string) (out []storage.Change) {
	for _, s := range texts {
		out = append(out, storage.Change{Kind: storage.TupleAdd, Tuple: tuple(s)})
	}
	return out
}

func remove(texts ...string) (out []storage.Change) {
	for _, s := range texts {
		out = append(out, storage.Change{Kind: storage.TupleRemove, Tuple: tuple(s)})
	}
	return out
}

func tuple(s string) rel.Tuple {
	t, err := rel.Parse(s)
	if err != nil {
		panic(err) // a text of the suite's own
	}
	return t
}

func put(kind, key, body string, secondary ...string) storage.Change {
	return storage.Change{Kind: storage.DocumentPut, Document: storage.Document{Kind: kind, Key: key, Body: []byte(body), Secondary: secondary}}
}

func filterTuples(f rel.Filter) storage.Change {
	return storage.Change{Kind: storage.RemoveByFilter, Filter: storage.Filter{Target: storage.FilterTuples, Tuple: f}}
}
