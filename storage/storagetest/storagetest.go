// Package storagetest tests a storage driver against the contract of package
// storage. Its main function is [Run]. Each case has a sentence about the part of
// the contract that it tests, and prints it when it fails. [Model] and [Verify]
// compute the state that follows from a log. The package uses a driver only
// through the interfaces of package storage.
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

// Opener opens a driver. Each call opens the same data. The suite closes a driver
// before it calls the Opener again.
type Opener func() (storage.Driver, error)

// Run runs the suite. For each case it calls newOpener, which returns an Opener
// for new, empty data. Run closes the drivers that it opens.
func Run(t *testing.T, newOpener func(t *testing.T) Opener) {
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			k := &kit{T: t, opener: newOpener(t), contract: c.contract, ctx: t.Context()}
			k.open()
			t.Cleanup(func() {
				if err := k.Driver.Close(); err != nil {
					k.Errorf("closing the driver: %v", err)
				}
			})
			c.run(k)
		})
	}
}

// testcase is one case of the suite.
type testcase struct {
	name     string
	contract string // the part of the contract that the case tests, as a sentence
	run      func(k *kit)
}

func cases() []testcase {
	var all []testcase
	for _, part := range [][]testcase{storeCases(), appendCases(), stateCases(), filterCases(), documentCases(), pastCases(), concurrencyCases(), boundCases()} {
		all = append(all, part...)
	}
	return all
}

// kit is the test and the driver of a running case. Its methods fail the test
// with the contract in the message.
type kit struct {
	*testing.T
	storage.Driver
	opener   Opener
	contract string          // see testcase.contract
	ctx      context.Context // of the test
	stores   atomic.Uint32   // number of stores that the method store created
}

// Fatalf is like [testing.T.Fatalf], with the contract in the message.
func (k *kit) Fatalf(format string, args ...any) {
	k.Helper()
	k.T.Fatalf("%s\nThe contract: %s", fmt.Sprintf(format, args...), k.contract)
}

// Errorf is like [testing.T.Errorf], with the contract in the message.
func (k *kit) Errorf(format string, args ...any) {
	k.Helper()
	k.T.Errorf("%s\nThe contract: %s", fmt.Sprintf(format, args...), k.contract)
}

// open opens the data.
func (k *kit) open() {
	k.Helper()
	d, err := k.opener()
	if err != nil {
		k.Fatalf("opening the driver: %v", err)
	}
	k.Driver = d
}

// reopen closes the driver and opens the data again.
func (k *kit) reopen() {
	k.Helper()
	k.ok(k.Driver.Close())
	k.open()
}

// ok requires that err is nil.
func (k *kit) ok(err error) {
	k.Helper()
	if err != nil {
		k.Fatalf("unexpected error: %v", err)
	}
}

// is requires that err wraps kind.
func (k *kit) is(err, kind error) {
	k.Helper()
	if !errors.Is(err, kind) {
		k.Fatalf("error %v, want %v", err, kind)
	}
}

// check requires that ok is true.
func (k *kit) check(ok bool, format string, args ...any) {
	k.Helper()
	if !ok {
		k.Fatalf(format, args...)
	}
}

// store creates a store. The stores of a case have the ids of NewLog(1), NewLog(2)
// and so on.
func (k *kit) store() *Log {
	k.Helper()
	n := k.stores.Add(1)
	l := NewLog(n)
	k.ok(k.CreateStore(k.ctx, storage.StoreInfo{ID: l.ID, Incarnation: l.Incarnation, Name: fmt.Sprint("store ", n), Created: 7}))
	return l
}

// update replaces the name and the aliases of a store, whatever they are.
func (k *kit) update(info storage.StoreInfo) {
	k.Helper()
	old, err := k.Store(k.ctx, info.ID)
	k.ok(err)
	k.ok(k.UpdateStore(k.ctx, old, info))
}

// Log makes and appends the entries of one store.
type Log struct {
	// ID is the id of the store.
	ID storage.StoreID
	// Incarnation is the incarnation of the store.
	Incarnation storage.Incarnation
	// Writer is the writer of the entries.
	Writer storage.WriterID
	// Head is the head after the last entry that was appended.
	Head storage.Head
	// Sequence is the sequence number of the last entry that was made.
	Sequence uint64
	// Origin is the origin of the entries that are made.
	Origin storage.Origin
}

// NewLog returns a Log with ids that depend on n. It does not create the store.
func NewLog(n uint32) *Log {
	l := &Log{}
	l.ID = storage.StoreID{0: 1, 12: byte(n >> 24), 13: byte(n >> 16), 14: byte(n >> 8), 15: byte(n)}
	l.Incarnation = storage.Incarnation{0: 9, 15: byte(n)}
	l.Writer = storage.WriterID{0: 5, 15: byte(n)}
	return l
}

// Entry returns an entry that follows head. Its time is a second later.
func (l *Log) Entry(head storage.Head, changes ...storage.Change) storage.Entry {
	l.Sequence++
	return storage.Entry{
		Incarnation: l.Incarnation,
		Revision:    head.Revision + 1,
		Previous:    head.Hash,
		Writer:      l.Writer,
		Sequence:    l.Sequence,
		Time:        head.Time + 1e9,
		Origin:      l.Origin,
		Changes:     changes,
	}
}

// Append appends one entry after l.Head. The driver seals every other entry itself.
func (l *Log) Append(ctx context.Context, d storage.Driver, changes ...storage.Change) error {
	entries := []storage.Entry{l.Entry(l.Head, changes...)}
	var sealed []storage.Sealed
	if l.Head.Revision%2 == 1 {
		var err error
		if _, sealed, err = storage.Seal(l.Head, entries); err != nil {
			return err
		}
	}
	head, err := d.Append(ctx, l.ID, l.Head, entries, sealed)
	if err == nil {
		l.Head = head
	}
	return err
}

// append is like [Log.Append], but fails the test if the append fails.
func (k *kit) append(l *Log, changes ...storage.Change) {
	k.Helper()
	k.ok(l.Append(k.ctx, k.Driver, changes...))
}

// verify requires that the state of a store follows from its log, and that the
// head is that of the log. It returns the log.
func (k *kit) verify(l *Log) []storage.Entry {
	k.Helper()
	log, err := Verify(k.ctx, k.Driver, l.ID)
	k.ok(err)
	k.check(len(log) == int(l.Head.Revision), "the log has %d entries, but the head is at revision %d", len(log), l.Head.Revision)
	return log
}

// tuples loads the rows of tuples.
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

// add returns TupleAdd changes for the texts of tuples.
func add(texts ...string) (out []storage.Change) {
	for _, s := range texts {
		out = append(out, storage.Change{Kind: storage.TupleAdd, Tuple: tuple(s)})
	}
	return out
}

// remove returns TupleRemove changes for the texts of tuples.
func remove(texts ...string) (out []storage.Change) {
	for _, s := range texts {
		out = append(out, storage.Change{Kind: storage.TupleRemove, Tuple: tuple(s)})
	}
	return out
}

// tuple parses the text of a tuple.
func tuple(s string) rel.Tuple {
	t, err := rel.Parse(s)
	if err != nil {
		panic(err) // the suite contains a wrong text
	}
	return t
}

// put returns a DocumentPut.
func put(kind, key, body string, secondary ...string) storage.Change {
	return storage.Change{Kind: storage.DocumentPut, Document: storage.Document{Kind: kind, Key: key, Body: []byte(body), Secondary: secondary}}
}

// filterTuples returns a RemoveByFilter of tuples.
func filterTuples(f rel.Filter) storage.Change {
	return storage.Change{Kind: storage.RemoveByFilter, Filter: storage.Filter{Target: storage.FilterTuples, Tuple: f}}
}
