package kv_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
	"github.com/ostiary/ostiary/storage/memory"
	"github.com/ostiary/ostiary/storage/storagetest"
)

// errFault is the error of an operation of a faulty store.
var errFault = errors.New("injected fault")

// faulty is a store of which one operation fails. It runs only one call at a time.
type faulty struct {
	kv.Store
	left   int          // operations up to the one that fails; 0: none fails
	failed string       // the operation that failed; "" if none did
	open   atomic.Int64 // snapshots, iterators and batches that are not closed
}

// fault counts an operation and returns its error.
func (f *faulty) fault(operation string) error {
	if f.left == 0 {
		return nil
	}
	if f.left--; f.left > 0 {
		return nil
	}
	f.failed = operation
	return errFault
}

func (f *faulty) Get(key, dst []byte) ([]byte, bool, error) {
	return faultyReader{f.Store, f}.Get(key, dst)
}

func (f *faulty) Scan(lower, upper []byte) (kv.Iterator, error) {
	return faultyReader{f.Store, f}.Scan(lower, upper)
}

func (f *faulty) Snapshot() (kv.Snapshot, error) {
	if err := f.fault("snapshot"); err != nil {
		return nil, err
	}
	s, err := f.Store.Snapshot()
	f.open.Add(1)
	return faultySnapshot{faultyReader{s, f}, s}, err
}

func (f *faulty) Batch() kv.Batch {
	f.open.Add(1)
	return &faultyBatch{f.Store.Batch(), f}
}

func (f *faulty) Scrub(context.Context, []byte, []byte) error { return f.fault("scrub") }

func (f *faulty) Close() error { return errors.Join(f.fault("close store"), f.Store.Close()) }

type faultyReader struct {
	kv.Reader
	f *faulty
}

func (r faultyReader) Get(key, dst []byte) ([]byte, bool, error) {
	if err := r.f.fault("get"); err != nil {
		return nil, false, err
	}
	return r.Reader.Get(key, dst)
}

func (r faultyReader) Scan(lower, upper []byte) (kv.Iterator, error) {
	if err := r.f.fault("scan"); err != nil {
		return nil, err
	}
	it, err := r.Reader.Scan(lower, upper)
	r.f.open.Add(1)
	return &faultyIterator{Iterator: it, f: r.f}, err
}

type faultySnapshot struct {
	faultyReader
	whole kv.Snapshot
}

func (s faultySnapshot) Close() error {
	s.f.open.Add(-1)
	return errors.Join(s.f.fault("close snapshot"), s.whole.Close())
}

// faultyIterator ends at the move that fails, with an error.
type faultyIterator struct {
	kv.Iterator
	f   *faulty
	err error
}

func (i *faultyIterator) Next() bool {
	i.err = errors.Join(i.err, i.f.fault("next"))
	return i.err == nil && i.Iterator.Next()
}

func (i *faultyIterator) Seek(key []byte) bool {
	i.err = errors.Join(i.err, i.f.fault("seek"))
	return i.err == nil && i.Iterator.Seek(key)
}

func (i *faultyIterator) Err() error { return errors.Join(i.err, i.Iterator.Err()) }

func (i *faultyIterator) Close() error {
	i.f.open.Add(-1)
	return errors.Join(i.f.fault("close scan"), i.Iterator.Close())
}

type faultyBatch struct {
	kv.Batch
	f *faulty
}

func (b *faultyBatch) Set(key, value []byte) error {
	return errors.Join(b.f.fault("set"), b.Batch.Set(key, value))
}

func (b *faultyBatch) Delete(key []byte) error {
	return errors.Join(b.f.fault("delete"), b.Batch.Delete(key))
}

func (b *faultyBatch) DeleteRange(lower, upper []byte) error {
	return errors.Join(b.f.fault("delete range"), b.Batch.DeleteRange(lower, upper))
}

func (b *faultyBatch) Commit() error {
	if err := b.f.fault("commit"); err != nil {
		return err
	}
	return b.Batch.Commit()
}

func (b *faultyBatch) Close() error {
	b.f.open.Add(-1)
	return b.Batch.Close()
}

// faultCase is a store with data, and the driver of it.
type faultCase struct {
	*kv.Driver
	store *faulty
	log   *storagetest.Log
}

func newFaultCase(t *testing.T) *faultCase {
	t.Helper()
	store := &faulty{Store: memory.NewStore()}
	d, err := kv.New(store, kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := &faultCase{d, store, storagetest.NewLog(1)}
	t.Cleanup(func() { d.Close() })
	info := storage.StoreInfo{ID: c.log.ID, Incarnation: c.log.Incarnation, Name: "one", Aliases: map[string]string{"door": "alias"}}
	if err := d.CreateStore(t.Context(), info); err != nil {
		t.Fatal(err)
	}
	for _, changes := range [][]storage.Change{
		{faultTuple(storage.TupleAdd, 1), faultTuple(storage.TupleAdd, 2), faultTuple(storage.TupleAdd, 3), faultAttribute(storage.AttributeSet, 1), faultAttribute(storage.AttributeSet, 2)},
		{faultDocument(storage.DocumentPut, 1), faultDocument(storage.DocumentPut, 2), faultDocument(storage.DocumentPut, 3), faultDocument(storage.SecretPut, 1), faultDocument(storage.SecretPut, 2)},
		{faultTuple(storage.TupleRemove, 1), faultAttribute(storage.AttributeRemove, 1), faultDocument(storage.DocumentRemove, 1)},
	} {
		if err := c.log.Append(t.Context(), d, changes...); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func faultTuple(kind storage.ChangeKind, n int) storage.Change {
	return storage.Change{Kind: kind, Tuple: rel.Tuple{Object: rel.Object{Type: "doc", ID: fmt.Sprintf("%03d", n)}, Relation: "viewer", Subject: rel.Subject{Type: "user", ID: "anne"}}}
}

func faultAttribute(kind storage.ChangeKind, n int) storage.Change {
	return storage.Change{Kind: kind, Attribute: rel.Attribute{Object: rel.Object{Type: "doc", ID: fmt.Sprintf("%03d", n)}, Name: "size", Value: fmt.Sprint(n)}}
}

func faultDocument(kind storage.ChangeKind, n int) storage.Change {
	doc := storage.Document{Kind: "kind", Key: fmt.Sprintf("%03d", n), Body: []byte("body")}
	if kind == storage.DocumentPut {
		doc.Secondary = []string{"s", fmt.Sprint("s", n)}
	}
	return storage.Change{Kind: kind, Document: doc}
}

// append appends one entry and returns the new revision as text.
func (c *faultCase) append(ctx context.Context, changes ...storage.Change) (string, error) {
	l := *c.log
	head, err := c.Append(ctx, l.ID, l.Head, []storage.Entry{l.Entry(l.Head, changes...)}, nil)
	return fmt.Sprint(head.Revision), err
}

// load returns all rows, live and removed, as text.
func (c *faultCase) load(ctx context.Context) (_ string, err error) {
	since := storage.Revision(0)
	st, err := c.Load(ctx, c.log.ID, storage.LoadOptions{RemovedAfter: &since})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	var out strings.Builder
	fmt.Fprintln(&out, st.Head.Revision, st.Oldest)
	for row, err := range st.Tuples {
		if err != nil {
			return "", err
		}
		fmt.Fprintln(&out, row)
	}
	for row, err := range st.Attributes {
		if err != nil {
			return "", err
		}
		fmt.Fprintln(&out, row)
	}
	for row, err := range st.Documents {
		if err != nil {
			return "", err
		}
		fmt.Fprintln(&out, row)
	}
	for doc, err := range st.Bodies("kind") {
		if err != nil {
			return "", err
		}
		fmt.Fprintln(&out, doc)
	}
	return out.String(), nil
}

// pairsText returns the keys and values of a store. The format record, which has
// one value only, is a part of it.
func pairsText(t *testing.T, s kv.Store) string {
	t.Helper()
	return fmt.Sprintf("%q", readAll(t, s))
}

// faultCall is a call of the driver.
type faultCall struct {
	call func(ctx context.Context, c *faultCase) (string, error)
	// ignored are operations that may fail without making the call fail: they free
	// memory only.
	ignored []string
	// once is set if the call cannot be repeated.
	once bool
}

// faultCalls returns calls of all methods that use the store, by name.
func faultCalls() map[string]faultCall {
	many := func() (all []storage.Change) {
		for i := range 40 {
			all = append(all, faultTuple([]storage.ChangeKind{storage.TupleAdd, storage.TupleRemove}[i%2], i))
		}
		return all
	}
	filters := []storage.Change{
		faultTuple(storage.TupleAdd, 9),
		{Kind: storage.RemoveByFilter, Filter: storage.Filter{Target: storage.FilterTuples, Tuple: rel.Filter{ObjectType: "doc"}}},
		{Kind: storage.RemoveByFilter, Filter: storage.Filter{Target: storage.FilterAttributes, ObjectType: "doc"}},
		{Kind: storage.RemoveByFilter, Filter: storage.Filter{Target: storage.FilterDocuments, DocumentKind: "kind", DocumentKeyPrefix: "0"}},
	}
	other := storage.StoreInfo{ID: storagetest.NewLog(2).ID, Incarnation: storagetest.NewLog(2).Incarnation, Aliases: map[string]string{"door": "second", "gate": "second"}}
	updated := storage.StoreInfo{Name: "one", Aliases: map[string]string{"door": "alias"}}
	changed := storage.StoreInfo{ID: storagetest.NewLog(1).ID, Incarnation: storagetest.NewLog(1).Incarnation, Aliases: map[string]string{"gate": "third"}}
	return map[string]faultCall{
		"new": {call: func(_ context.Context, c *faultCase) (string, error) {
			_, err := kv.New(c.store, kv.Options{Prefix: []byte{0xee}})
			return "", err
		}},
		"format": {call: func(ctx context.Context, c *faultCase) (string, error) {
			n, err := c.Format(ctx)
			return fmt.Sprint(n), err
		}},
		"create": {call: func(ctx context.Context, c *faultCase) (string, error) { return "", c.CreateStore(ctx, other) }},
		"update": {call: func(ctx context.Context, c *faultCase) (string, error) {
			return "", c.UpdateStore(ctx, updated, changed)
		}},
		"delete": {call: func(ctx context.Context, c *faultCase) (string, error) { return "", c.DeleteStore(ctx, c.log.ID) }},
		"store": {call: func(ctx context.Context, c *faultCase) (string, error) {
			info, err := c.Store(ctx, c.log.ID)
			return fmt.Sprint(info), err
		}},
		"alias": {ignored: []string{"close snapshot"}, call: func(ctx context.Context, c *faultCase) (string, error) {
			info, err := c.StoreByAlias(ctx, "door", "alias")
			return fmt.Sprint(info), err
		}},
		"stores": {call: func(ctx context.Context, c *faultCase) (out string, err error) {
			for info, err := range c.Stores(ctx, storage.StoreID{}) {
				if err != nil {
					return "", err
				}
				out += fmt.Sprint(info)
			}
			return out, nil
		}},
		"stores by alias": {ignored: []string{"close snapshot"}, call: func(ctx context.Context, c *faultCase) (out string, err error) {
			for info, err := range c.StoresByAlias(ctx, "door", "") {
				if err != nil {
					return "", err
				}
				out += fmt.Sprint(info)
			}
			return out, nil
		}},
		"stores by name": {ignored: []string{"close snapshot"}, call: func(ctx context.Context, c *faultCase) (out string, err error) {
			for info, err := range c.StoresByName(ctx, "one", storage.StoreID{}) {
				if err != nil {
					return "", err
				}
				out += fmt.Sprint(info)
			}
			return out, nil
		}},
		"head": {call: func(ctx context.Context, c *faultCase) (string, error) {
			h, err := c.Head(ctx, c.log.ID)
			return fmt.Sprint(h), err
		}},
		"head of no store": {call: func(ctx context.Context, c *faultCase) (string, error) {
			_, err := c.Head(ctx, other.ID)
			if errors.Is(err, storage.ErrNoStore) {
				return "no store", nil
			}
			return "", err
		}},
		"oldest": {ignored: []string{"close snapshot"}, call: func(ctx context.Context, c *faultCase) (string, error) {
			log, rows, err := c.Oldest(ctx, c.log.ID)
			return fmt.Sprint(log, rows), err
		}},
		"load": {call: func(ctx context.Context, c *faultCase) (string, error) { return c.load(ctx) }},
		"rows": {ignored: []string{"close snapshot"}, call: func(ctx context.Context, c *faultCase) (string, error) {
			rows, err := c.Rows(ctx, c.log.ID, []rel.Key{faultTuple(0, 2).Tuple.Key(), faultTuple(0, 9).Tuple.Key(), faultTuple(0, 3).Tuple.Key()})
			return fmt.Sprint(rows), err
		}},
		"document": {call: func(ctx context.Context, c *faultCase) (string, error) {
			doc, err := c.Document(ctx, c.log.ID, "kind", "002")
			return fmt.Sprint(doc), err
		}},
		"no document": {call: func(ctx context.Context, c *faultCase) (string, error) {
			_, err := c.Document(ctx, c.log.ID, "kind", "none")
			if errors.Is(err, storage.ErrNoDocument) {
				return "none", nil
			}
			return "", err
		}},
		"secret": {call: func(ctx context.Context, c *faultCase) (string, error) {
			doc, err := c.Secret(ctx, c.log.ID, "kind", "002")
			return fmt.Sprint(doc), err
		}},
		"documents": {ignored: []string{"close snapshot"}, call: func(ctx context.Context, c *faultCase) (out string, err error) {
			for doc, err := range c.DocumentsBy(ctx, c.log.ID, "kind", "s") {
				if err != nil {
					return "", err
				}
				out += fmt.Sprint(doc)
			}
			return out, nil
		}},
		"entries": {ignored: []string{"close snapshot"}, call: func(ctx context.Context, c *faultCase) (out string, err error) {
			for e, err := range c.Entries(ctx, c.log.ID, 1) {
				if err != nil {
					return "", err
				}
				out += fmt.Sprint(e)
			}
			return out, nil
		}},
		"trim": {call: func(ctx context.Context, c *faultCase) (string, error) { return "", c.Trim(ctx, c.log.ID, 2, 3) }},
		"append few": {call: func(ctx context.Context, c *faultCase) (string, error) {
			return c.append(ctx, faultTuple(storage.TupleAdd, 2), faultTuple(storage.TupleRemove, 3), faultTuple(storage.TupleAdd, 4), faultAttribute(storage.AttributeSet, 2), faultAttribute(storage.AttributeRemove, 3),
				faultDocument(storage.DocumentPut, 2), faultDocument(storage.DocumentRemove, 3), faultDocument(storage.DocumentPut, 4), faultDocument(storage.SecretPut, 2), faultDocument(storage.SecretRemove, 1))
		}},
		"append many":    {ignored: []string{"close scan"}, call: func(ctx context.Context, c *faultCase) (string, error) { return c.append(ctx, many()...) }},
		"append filters": {call: func(ctx context.Context, c *faultCase) (string, error) { return c.append(ctx, filters...) }},
		"append nothing": {call: func(ctx context.Context, c *faultCase) (string, error) {
			d, err := kv.New(c.store, kv.Options{}) // it has no head in its cache
			if err != nil {
				return "", err
			}
			h, err := d.Append(ctx, c.log.ID, c.log.Head, nil, nil)
			return fmt.Sprint(h), err
		}},
		"append to": {once: true, call: func(ctx context.Context, c *faultCase) (string, error) {
			l, tx := *c.log, c.store.Batch()
			h, err := c.AppendTo(ctx, tx, l.ID, l.Head, []storage.Entry{l.Entry(l.Head, faultTuple(storage.TupleAdd, 4))})
			if err != nil {
				return "", err
			}
			return fmt.Sprint(h), tx.Commit()
		}},
		"close": {once: true, call: func(ctx context.Context, c *faultCase) (string, error) {
			if _, err := c.Load(ctx, c.log.ID, storage.LoadOptions{}); err != nil {
				return "", err
			}
			return "", c.Close()
		}},
	}
}

// TestFaults makes each operation of the key-value store fail in turn, in each call
// of the driver. The call returns the error of the operation. The data is as before,
// and the call succeeds when it is repeated.
func TestFaults(t *testing.T) {
	t.Parallel()
	for name, one := range faultCalls() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clean := newFaultCase(t)
			before := pairsText(t, clean.store.Store)
			want, err := one.call(t.Context(), clean)
			if err != nil {
				t.Fatal(err)
			}
			after := pairsText(t, clean.store.Store)
			left := int64(0) // the test's own batch
			if name == "append to" {
				left = 1
			}
			if open := clean.store.open.Load(); open != left {
				t.Errorf("%d snapshots, iterators and batches are open, want %d", open, left)
			}
			var hits []string
			for n := 1; ; n++ {
				c := newFaultCase(t)
				c.store.left = n
				got, err := one.call(t.Context(), c)
				c.store.left = 0
				hit := c.store.failed
				if hit == "" {
					if err != nil || got != want {
						t.Errorf("without a fault: %q, %v", got, err)
					}
					break
				}
				hits = append(hits, hit)
				if open := c.store.open.Load(); open != left {
					t.Errorf("operation %d (%s) fails: %d snapshots, iterators and batches are open, want %d", n, hit, open, left)
				}
				switch {
				case err == nil && slices.Contains(one.ignored, hit):
					if got != want {
						t.Errorf("operation %d (%s) fails: got %q, want %q", n, hit, got, want)
					}
					continue
				case !errors.Is(err, errFault):
					t.Errorf("operation %d (%s) fails: got %q, error %v", n, hit, got, err)
					continue
				}
				if one.once || hit == "scrub" { // scrubbing follows the change
					continue
				}
				if have := pairsText(t, c.store.Store); have != before {
					t.Errorf("operation %d (%s) fails: the data is\n%s\nit was\n%s", n, hit, have, before)
				}
				if got, err := one.call(t.Context(), c); err != nil || got != want || pairsText(t, c.store.Store) != after {
					t.Errorf("operation %d (%s) failed, and then the call was repeated: got %q, error %v, want %q", n, hit, got, err, want)
				}
			}
			if len(hits) == 0 {
				t.Error("the call uses no operation of the store")
			}
			t.Log(strings.Join(hits, ", "))
		})
	}
}

// TestStoppedLoad reads one tuple of many. The driver then stops reading.
func TestStoppedLoad(t *testing.T) {
	t.Parallel()
	const tuples, count = 60_000, 1 << 30
	c := newFaultCase(t)
	var changes []storage.Change
	for i := range tuples {
		changes = append(changes, faultTuple(storage.TupleAdd, i))
	}
	if err := c.log.Append(t.Context(), c.Driver, changes...); err != nil {
		t.Fatal(err)
	}
	st, err := c.Load(t.Context(), c.log.ID, storage.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	c.store.left = count // counts, but reaches no fault
	for _, err := range st.Tuples {
		if err != nil {
			t.Fatal(err)
		}
		break
	}
	if n := count - c.store.left; n > tuples/2 {
		t.Errorf("%d operations of the store for the first tuple", n)
	}
}

// blocked is a store whose commits wait until the test lets them go on.
type blocked struct {
	kv.Store
	begun, goOn chan struct{}
}

type blockedBatch struct {
	kv.Batch
	s blocked
}

func (s blocked) Batch() kv.Batch { return blockedBatch{s.Store.Batch(), s} }

func (b blockedBatch) Commit() error {
	b.s.begun <- struct{}{}
	<-b.s.goOn
	return b.Batch.Commit()
}

// lateContext is a context that ends after the first look at its error.
type lateContext struct {
	context.Context
	looked bool
}

func (c *lateContext) Done() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

func (c *lateContext) Err() error {
	if c.looked {
		return context.Canceled
	}
	c.looked = true
	return nil
}

// TestCloseWaits closes a driver in the middle of an append. Close waits for the
// append, which succeeds. Other writers of the store wait until their context ends.
func TestCloseWaits(t *testing.T) {
	t.Parallel()
	c := newFaultCase(t)
	s := blocked{c.store, make(chan struct{}), make(chan struct{})}
	d, err := kv.New(s, kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	appended := make(chan error)
	go func() { appended <- c.log.Append(t.Context(), d, faultTuple(storage.TupleAdd, 7)) }()
	<-s.begun
	for name, call := range map[string]func(context.Context) error{
		"append": func(ctx context.Context) error { _, err := d.Append(ctx, c.log.ID, c.log.Head, nil, nil); return err },
		"append to": func(ctx context.Context) error {
			_, err := d.AppendTo(ctx, c.store.Batch(), c.log.ID, c.log.Head, nil)
			return err
		},
		"trim":   func(ctx context.Context) error { return d.Trim(ctx, c.log.ID, 2, 2) },
		"delete": func(ctx context.Context) error { return d.DeleteStore(ctx, c.log.ID) },
	} {
		if err := call(&lateContext{Context: t.Context()}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s, whose context ends while it waits: %v", name, err)
		}
	}
	closed := make(chan error, 1)
	go func() { closed <- d.Close() }()
	for err == nil { // until Close has begun to wait
		_, err = d.Head(t.Context(), c.log.ID)
	}
	for range 10_000 { // a Close that does not wait would probably end now
		runtime.Gosched()
	}
	select {
	case err := <-closed:
		t.Errorf("Close returned %v during an append", err)
	default:
	}
	close(s.goOn)
	if err := <-appended; err != nil {
		t.Error(err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// joiner is a store whose data can be changed in transactions of type joined.
type joiner struct{ kv.Store }

type joined struct{ kv.Batch }

func (joiner) Join(tx any) (kv.Batch, error) {
	if j, ok := tx.(joined); ok {
		return j.Batch, nil
	}
	return nil, storage.ErrTransaction
}

// TestJoin appends in a transaction of the embedding program. If the store has its own
// transactions, a batch is none.
func TestJoin(t *testing.T) {
	t.Parallel()
	c := newFaultCase(t)
	other, err := kv.New(joiner{c.store}, kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range []struct {
		d        *kv.Driver
		good     func(kv.Batch) any
		bad      any
		expected string
	}{
		{c.Driver, func(b kv.Batch) any { return b }, 7, "it has type int, expected a batch of the store"},
		{other, func(b kv.Batch) any { return joined{b} }, c.store.Batch(), "transaction cannot be used"},
	} {
		e := []storage.Entry{c.log.Entry(c.log.Head, faultTuple(storage.TupleAdd, 5))}
		if _, err := one.d.AppendTo(t.Context(), one.bad, c.log.ID, c.log.Head, e); !errors.Is(err, storage.ErrTransaction) || !strings.Contains(err.Error(), one.expected) {
			t.Errorf("a transaction of another type: %v", err)
		}
		b := c.store.Batch()
		next, err := one.d.AppendTo(t.Context(), one.good(b), c.log.ID, c.log.Head, e)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Commit(); err != nil {
			t.Fatal(err)
		}
		if c.log.Head, err = one.d.Head(t.Context(), c.log.ID); err != nil || c.log.Head != next {
			t.Errorf("head %v, %v, want %v", c.log.Head, err, next)
		}
	}
}

// TestNotices leaves notices in the channel of Notify, which has room for 1024.
func TestNotices(t *testing.T) {
	t.Parallel()
	c := newFaultCase(t)
	notices := c.Notify(t.Context(), storage.WriterID{0xee})
	for i := range 1030 {
		if err := c.log.Append(t.Context(), c.Driver, faultTuple(storage.TupleAdd, i)); err != nil {
			t.Fatal(err)
		}
	}
	if len(notices) != 1024 {
		t.Errorf("%d notices", len(notices))
	}
}
