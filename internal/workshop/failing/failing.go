// Package failing is a storage driver for tests: it makes chosen operations of
// another driver fail. Its main type is [Driver]. [Each] repeats a call and makes
// each operation of the call fail in turn. It checks that the call then fails, too,
// and that the store is as it was. Product code never imports the package.
package failing

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"

	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// ErrInjected is the error of an operation that a [Fault] without an Err makes
// fail.
var ErrInjected = errors.New("injected failure of the storage")

// Operation is something that a [Driver] can make fail: a call of a method, or a
// step of a sequence.
type Operation string

// The operations. Those with Next in their name are the steps of a sequence: one
// for each element and one for the end.
const (
	Format            Operation = "Format"
	CreateStore       Operation = "CreateStore"
	UpdateStore       Operation = "UpdateStore"
	DeleteStore       Operation = "DeleteStore"
	Store             Operation = "Store"
	StoreByAlias      Operation = "StoreByAlias"
	Stores            Operation = "Stores"
	StoresNext        Operation = "next of Stores"
	StoresByAlias     Operation = "StoresByAlias"
	StoresByAliasNext Operation = "next of StoresByAlias"
	StoresByName      Operation = "StoresByName"
	StoresByNameNext  Operation = "next of StoresByName"
	Head              Operation = "Head"
	Append            Operation = "Append"
	Entries           Operation = "Entries"
	EntriesNext       Operation = "next of Entries"
	Load              Operation = "Load"
	TuplesNext        Operation = "next of State.Tuples"
	AttributesNext    Operation = "next of State.Attributes"
	DocumentsNext     Operation = "next of State.Documents"
	BodiesNext        Operation = "next of State.Bodies"
	CloseState        Operation = "State.Close"
	Rows              Operation = "Rows"
	Document          Operation = "Document"
	DocumentsBy       Operation = "DocumentsBy"
	DocumentsByNext   Operation = "next of DocumentsBy"
	Secret            Operation = "Secret"
	Trim              Operation = "Trim"
	Oldest            Operation = "Oldest"
	Close             Operation = "Close"
)

// Writes reports whether the operation changes data.
func (o Operation) Writes() bool {
	return slices.Contains([]Operation{CreateStore, UpdateStore, DeleteStore, Append, Trim}, o)
}

// Fault chooses which operations fail.
type Fault struct {
	// Number is the number of the operation that fails, from 1, among those of Only.
	// 0 makes no operation fail.
	Number int
	// Only are the operations that are counted. Nil counts all.
	Only []Operation
	// Lasting makes all counted operations from Number on fail, not only one.
	Lasting bool
	// After makes an operation that changes data fail after the change: the data
	// is changed, but the caller gets the error.
	After bool
	// Unchanged makes no operation fail after one that has changed data.
	Unchanged bool
	// Err is the error. Nil is [ErrInjected].
	Err error
}

// Driver is a [storage.Driver] whose operations fail as [Driver.Break] asks for.
// It passes all others on to another driver. It is a [storage.Joiner], too; without
// AppendTo in the other driver, a call of it fails with [storage.ErrTransaction]. AppendTo
// never fails on purpose. All methods are safe for concurrent use.
type Driver struct {
	storage.Driver
	// Notices makes Notify pass on what the other driver reports.
	Notices bool

	mu     sync.Mutex
	fault  Fault
	count  int       // number of the counted operations since Break
	failed Operation // the first operation that failed since Break; "" if none
	writes int       // number of operations that have changed data since Break
}

var _ storage.Joiner = (*Driver)(nil)

// New returns a driver that passes everything on to d.
func New(d storage.Driver) *Driver { return &Driver{Driver: d} }

// Break makes operations fail from now on, as f describes, and starts counting.
func (d *Driver) Break(f Fault) {
	if f.Err == nil {
		f.Err = ErrInjected
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fault, d.count, d.failed, d.writes = f, 0, "", 0
}

// Mend ends the fault. It returns the first operation that failed since Break; ok
// is false if none did.
func (d *Driver) Mend() (failed Operation, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fault = Fault{}
	return d.failed, d.failed != ""
}

// Count returns the number of operations that were counted since Break.
func (d *Driver) Count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.count
}

// Wrote reports whether an operation has changed data since Break.
func (d *Driver) Wrote() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.writes > 0
}

// next counts an operation. before is the error of an operation that must have no
// effect, after that of one that must take effect first.
func (d *Driver) next(o Operation) (before, after error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fault.Only != nil && !slices.Contains(d.fault.Only, o) {
		return nil, nil
	}
	d.count++
	if n := d.fault.Number; n == 0 || d.fault.Unchanged && d.writes > 0 || d.count < n || d.count > n && !d.fault.Lasting {
		return nil, nil
	}
	if d.failed == "" {
		d.failed = o
	}
	if d.fault.After && o.Writes() {
		return nil, d.fault.Err
	}
	return d.fault.Err, nil
}

// noteWrite records that an operation has changed data.
func (d *Driver) noteWrite() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.writes++
}

// call counts an operation and runs do, unless the operation fails before it.
func call[T any](d *Driver, o Operation, do func() (T, error)) (T, error) {
	var zero T
	before, after := d.next(o)
	if before != nil {
		return zero, before
	}
	v, err := do()
	if err == nil && o.Writes() {
		d.noteWrite()
	}
	if after != nil {
		return zero, after
	}
	return v, err
}

// run is call for operations without a result.
func run(d *Driver, o Operation, do func() error) error {
	_, err := call(d, o, func() (struct{}, error) { return struct{}{}, do() })
	return err
}

// steps returns a sequence whose elements and whose end are counted as o.
func steps[T any](d *Driver, o Operation, seq iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		for v, err := range seq {
			if err == nil {
				if err, _ = d.next(o); err != nil {
					v = zero
				}
			}
			if !yield(v, err) || err != nil {
				return
			}
		}
		if err, _ := d.next(o); err != nil {
			yield(zero, err)
		}
	}
}

// sequence is steps with an operation that is counted when the sequence begins.
func sequence[T any](d *Driver, begin, next Operation, seq iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		if err, _ := d.next(begin); err != nil {
			var zero T
			yield(zero, err)
			return
		}
		steps(d, next, seq)(yield)
	}
}

// Format implements [storage.Driver].
func (d *Driver) Format(ctx context.Context) (int, error) {
	return call(d, Format, func() (int, error) { return d.Driver.Format(ctx) })
}

// CreateStore implements [storage.Driver].
func (d *Driver) CreateStore(ctx context.Context, info storage.StoreInfo) error {
	return run(d, CreateStore, func() error { return d.Driver.CreateStore(ctx, info) })
}

// UpdateStore implements [storage.Driver].
func (d *Driver) UpdateStore(ctx context.Context, old, info storage.StoreInfo) error {
	return run(d, UpdateStore, func() error { return d.Driver.UpdateStore(ctx, old, info) })
}

// DeleteStore implements [storage.Driver].
func (d *Driver) DeleteStore(ctx context.Context, id storage.StoreID) error {
	return run(d, DeleteStore, func() error { return d.Driver.DeleteStore(ctx, id) })
}

// Store implements [storage.Driver].
func (d *Driver) Store(ctx context.Context, id storage.StoreID) (storage.StoreInfo, error) {
	return call(d, Store, func() (storage.StoreInfo, error) { return d.Driver.Store(ctx, id) })
}

// StoreByAlias implements [storage.Driver].
func (d *Driver) StoreByAlias(ctx context.Context, door, alias string) (storage.StoreInfo, error) {
	return call(d, StoreByAlias, func() (storage.StoreInfo, error) { return d.Driver.StoreByAlias(ctx, door, alias) })
}

// Stores implements [storage.Driver].
func (d *Driver) Stores(ctx context.Context, after storage.StoreID) iter.Seq2[storage.StoreInfo, error] {
	return sequence(d, Stores, StoresNext, d.Driver.Stores(ctx, after))
}

// StoresByAlias implements [storage.Driver].
func (d *Driver) StoresByAlias(ctx context.Context, door, after string) iter.Seq2[storage.StoreInfo, error] {
	return sequence(d, StoresByAlias, StoresByAliasNext, d.Driver.StoresByAlias(ctx, door, after))
}

// StoresByName implements [storage.Driver].
func (d *Driver) StoresByName(ctx context.Context, name string, after storage.StoreID) iter.Seq2[storage.StoreInfo, error] {
	return sequence(d, StoresByName, StoresByNameNext, d.Driver.StoresByName(ctx, name, after))
}

// Head implements [storage.Driver].
func (d *Driver) Head(ctx context.Context, id storage.StoreID) (storage.Head, error) {
	return call(d, Head, func() (storage.Head, error) { return d.Driver.Head(ctx, id) })
}

// Append implements [storage.Driver].
func (d *Driver) Append(ctx context.Context, id storage.StoreID, after storage.Head, entries []storage.Entry, sealed []storage.Sealed) (storage.Head, error) {
	return call(d, Append, func() (storage.Head, error) { return d.Driver.Append(ctx, id, after, entries, sealed) })
}

// AppendTo implements [storage.Joiner].
func (d *Driver) AppendTo(ctx context.Context, tx any, id storage.StoreID, after storage.Head, entries []storage.Entry) (storage.Head, error) {
	j, ok := d.Driver.(storage.Joiner)
	if !ok {
		return storage.Head{}, storage.ErrTransaction
	}
	return j.AppendTo(ctx, tx, id, after, entries)
}

// Entries implements [storage.Driver].
func (d *Driver) Entries(ctx context.Context, id storage.StoreID, from storage.Revision) iter.Seq2[storage.Entry, error] {
	return sequence(d, Entries, EntriesNext, d.Driver.Entries(ctx, id, from))
}

// Load implements [storage.Driver].
func (d *Driver) Load(ctx context.Context, id storage.StoreID, opts storage.LoadOptions) (storage.State, error) {
	st, err := call(d, Load, func() (storage.State, error) { return d.Driver.Load(ctx, id, opts) })
	if err != nil {
		return st, err
	}
	st.Tuples = steps(d, TuplesNext, st.Tuples)
	st.Attributes = steps(d, AttributesNext, st.Attributes)
	st.Documents = steps(d, DocumentsNext, st.Documents)
	bodies := st.Bodies
	st.Bodies = func(kind string) iter.Seq2[storage.Document, error] { return steps(d, BodiesNext, bodies(kind)) }
	closeState := st.Close
	st.Close = func() error {
		injected, _ := d.next(CloseState)
		return errors.Join(closeState(), injected) // the state is closed in any case
	}
	return st, nil
}

// Rows implements [storage.Driver].
func (d *Driver) Rows(ctx context.Context, id storage.StoreID, keys []rel.Key) ([]storage.TupleRow, error) {
	return call(d, Rows, func() ([]storage.TupleRow, error) { return d.Driver.Rows(ctx, id, keys) })
}

// Document implements [storage.Driver].
func (d *Driver) Document(ctx context.Context, id storage.StoreID, kind, key string) (storage.Document, error) {
	return call(d, Document, func() (storage.Document, error) { return d.Driver.Document(ctx, id, kind, key) })
}

// DocumentsBy implements [storage.Driver].
func (d *Driver) DocumentsBy(ctx context.Context, id storage.StoreID, kind, secondary string) iter.Seq2[storage.Document, error] {
	return sequence(d, DocumentsBy, DocumentsByNext, d.Driver.DocumentsBy(ctx, id, kind, secondary))
}

// Secret implements [storage.Driver].
func (d *Driver) Secret(ctx context.Context, id storage.StoreID, kind, key string) (storage.Document, error) {
	return call(d, Secret, func() (storage.Document, error) { return d.Driver.Secret(ctx, id, kind, key) })
}

// Trim implements [storage.Driver].
func (d *Driver) Trim(ctx context.Context, id storage.StoreID, log, rows storage.Revision) error {
	return run(d, Trim, func() error { return d.Driver.Trim(ctx, id, log, rows) })
}

// Oldest implements [storage.Driver].
func (d *Driver) Oldest(ctx context.Context, id storage.StoreID) (log, rows storage.Revision, err error) {
	if err, _ := d.next(Oldest); err != nil {
		return 0, 0, err
	}
	return d.Driver.Oldest(ctx, id)
}

// Notify implements [storage.Driver]. Unless Notices is true, the channel never
// receives, so that an engine makes only the operations that a test asks for.
func (d *Driver) Notify(ctx context.Context, own storage.WriterID) <-chan storage.StoreID {
	if d.Notices {
		return d.Driver.Notify(ctx, own)
	}
	return nil
}

// Close implements [storage.Driver]. The other driver is closed in any case.
func (d *Driver) Close() error {
	injected, _ := d.next(Close)
	return errors.Join(d.Driver.Close(), injected)
}
