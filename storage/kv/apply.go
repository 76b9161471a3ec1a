package kv

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"slices"
	"sort"

	"github.com/ostiary/ostiary/storage"
)

// writer applies the changes of entries to the tables of a store.
//
// The effect of a change depends on the row that its key has at that time. The
// row comes from the store or from an earlier change of the same call. Different
// keys do not depend on each other. So the writer sorts the changes by key, and
// then applies the changes of each key, and the filters that select it, in their
// order. A writer is reused, with its memory.
type writer struct {
	d       *Driver
	ctx     context.Context
	id      storage.StoreID
	b       Batch           // receives the changes
	entries []storage.Entry // entries of the call

	keys  []byte  // memory of the keys of all steps
	plans [3]plan // by tuples, attributes and documents
	old   lookup  // finds rows in the store

	// Buffers for one row.
	key, row, removedKey, removed []byte
}

// keptMax limits the memory that a writer keeps for its next use: the number of
// steps, and the bytes of each buffer.
const keptMax = 1 << 12

// keysSampled is the number of keys after which collect estimates the length of
// the remaining keys.
const keysSampled = 64

// reset prepares the writer for its next use.
func (w *writer) reset() {
	w.ctx, w.b, w.entries = nil, nil, nil
	largest := max(cap(w.keys)/64, cap(w.key), cap(w.row), cap(w.removedKey), cap(w.removed), cap(w.old.key), cap(w.old.value))
	for i := range w.plans {
		p := &w.plans[i]
		largest = max(largest, cap(p.steps), cap(p.filters))
		clear(p.steps)
		clear(p.filters)
	}
	if largest > keptMax {
		*w = writer{d: w.d}
	}
}

// write adds the entries, their changes of the state, and the new head to the
// batch.
func (w *writer) write(sealed []storage.Sealed, next head) error {
	if err := w.collect(); err != nil {
		return err
	}
	if err := w.apply(); err != nil {
		return err
	}
	for i := range w.entries {
		w.key = w.d.appendLogKey(w.key[:0], w.id, w.entries[i].Revision)
		if err := w.d.put(w.b, w.key, sealed[i].Bytes); err != nil {
			return err
		}
	}
	w.key, w.row = w.d.appendTableKey(w.key[:0], w.id, tableHead), appendHead(w.row[:0], next)
	return w.d.put(w.b, w.key, w.row)
}

// plan is what a call does to one kind of rows.
type plan struct {
	kind    *rowKind
	steps   []step       // changes of single rows
	filters []filterStep // removals by filter
}

// step is one change of one row.
type step struct {
	key    []byte          // the key of the row within its table
	change *storage.Change // nil: a filter removes the row
	entry  int32           // index of the entry with the change
	order  int32           // index of the change among all changes of the call
	next   uint64          // some bytes of key; see plan.sort
}

// filterStep is one RemoveByFilter.
type filterStep struct {
	filter *storage.Filter
	entry  int32 // index of the entry with the change
	order  int32 // index of the change among all changes of the call
}

// Indexes of the kinds of rows in writer.plans. Their order is that of the
// storage.FilterTarget values, which start at 1.
const (
	tuples = iota
	attributes
	documents
)

// collect distributes the changes to the plans. It writes secrets immediately:
// secrets have no rows, so the writer need not read the old value.
func (w *writer) collect() error {
	for i := range w.plans {
		p := &w.plans[i]
		p.kind, p.steps, p.filters = w.d.rows[i], p.steps[:0], p.filters[:0]
	}
	n := 0
	for i := range w.entries {
		n += len(w.entries[i].Changes)
	}
	w.plans[tuples].steps = slices.Grow(w.plans[tuples].steps, n)
	w.keys = slices.Grow(w.keys[:0], 192*min(n, keysSampled))
	order := int32(0)
	for i := range w.entries {
		for j := range w.entries[i].Changes {
			if order == keysSampled { // assume that all have the same average length, and allocate once
				w.keys = slices.Grow(w.keys, min(len(w.keys)/keysSampled*(n-keysSampled)*9/8, storage.EntryBytesMax))
			}
			if err := w.add(&w.entries[i].Changes[j], int32(i), order); err != nil {
				return err
			}
			order++
		}
	}
	return nil
}

// add adds a change to its plan.
func (w *writer) add(c *storage.Change, entry, order int32) error {
	begin := len(w.keys)
	kind := tuples
	switch c.Kind {
	case storage.TupleAdd, storage.TupleRemove:
		w.keys = appendTupleKey(w.keys, c.Tuple.Object, c.Tuple.Relation, c.Tuple.Subject)
	case storage.AttributeSet, storage.AttributeRemove:
		kind = attributes
		w.keys = appendAttributeKey(w.keys, &c.Attribute)
	case storage.DocumentPut, storage.DocumentRemove:
		kind = documents
		w.keys = appendDocumentKey(w.keys, c.Document.Kind, c.Document.Key)
	case storage.SecretPut, storage.SecretRemove:
		return w.secret(c)
	case storage.RemoveByFilter:
		p := &w.plans[c.Filter.Target-storage.FilterTuples]
		p.filters = append(p.filters, filterStep{&c.Filter, entry, order})
		return nil
	}
	p := &w.plans[kind]
	p.steps = append(p.steps, step{w.keys[begin:len(w.keys):len(w.keys)], c, entry, order, 0})
	return nil
}

// secret writes or deletes a secret.
func (w *writer) secret(c *storage.Change) error {
	key := appendDocumentKey(w.d.tableKey(w.id, tableSecrets), c.Document.Kind, c.Document.Key)
	if w.d.copy.Load() {
		return w.copySecret(key, c)
	}
	if c.Kind == storage.SecretRemove {
		return w.b.Delete(key)
	}
	return w.d.put(w.b, key, appendBodyValue(nil, &c.Document))
}

// apply carries out the plans.
func (w *writer) apply() error {
	for i := range w.plans {
		p := &w.plans[i]
		if len(p.steps) == 0 && len(p.filters) == 0 {
			continue
		}
		p.sort()
		if err := w.applySteps(p); err != nil {
			return err
		}
		if err := w.removeFiltered(p); err != nil {
			return err
		}
	}
	return nil
}

// sort sorts the steps by key, and steps of the same key by their order. Most keys
// of a large entry differ in the first bytes after their common beginning. So
// sort compares these bytes first, as one number.
func (p *plan) sort() {
	if slices.IsSortedFunc(p.steps, compareSteps) {
		return
	}
	n := len(p.steps[0].key)
	for i := range p.steps {
		n = sharedBytes(p.steps[0].key[:n], p.steps[i].key)
	}
	for i := range p.steps {
		var next [8]byte
		copy(next[:], p.steps[i].key[n:])
		p.steps[i].next = binary.BigEndian.Uint64(next[:])
	}
	slices.SortFunc(p.steps, func(a, b step) int {
		if a.next != b.next {
			if a.next < b.next {
				return -1
			}
			return 1
		}
		return compareSteps(a, b)
	})
}

// sharedBytes returns the length of the common beginning of a and b.
func sharedBytes(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

func compareSteps(a, b step) int {
	if c := bytes.Compare(a.key, b.key); c != 0 {
		return c
	}
	return cmp.Compare(a.order, b.order)
}

// applySteps applies the steps of each key.
func (w *writer) applySteps(p *plan) error {
	if len(p.steps) == 0 {
		return nil
	}
	old := &w.old
	if err := old.open(w.d, w.id, p); err != nil {
		return err
	}
	defer old.close()
	var err error
	for begin := 0; begin < len(p.steps); {
		end := begin + 1
		for end < len(p.steps) && bytes.Equal(p.steps[end].key, p.steps[begin].key) {
			end++
		}
		group := p.steps[begin:end]
		begin = end
		if len(p.filters) > 0 {
			if group, err = withFilters(p, group); err != nil {
				return err
			}
		}
		row, found, err := old.find(group[0])
		if err != nil {
			return err
		}
		if err := w.applyKey(p.kind, group, row, found); err != nil {
			return err
		}
	}
	return old.err()
}

// withFilters returns the steps of one key, with an additional removal for each
// filter that selects the key.
func withFilters(p *plan, group []step) ([]step, error) {
	own := len(group)
	for _, f := range p.filters {
		ok, err := p.kind.match(f.filter, group[0].key)
		if err != nil {
			return nil, err
		}
		if ok {
			group = append(group[:len(group):len(group)], step{key: group[0].key, entry: f.entry, order: f.order})
		}
	}
	if len(group) > own {
		slices.SortFunc(group, compareSteps)
	}
	return group, nil
}

// applyKey applies the steps of one key. old is the row in the store, if found.
func (w *writer) applyKey(kind *rowKind, group []step, old []byte, found bool) error {
	var last *step // the step that made the live row; nil if the live row is old
	live := found
	for i := range group {
		s := &group[i]
		if live {
			if err := w.archive(kind, s, last, old); err != nil {
				return err
			}
		}
		live = s.change != nil && kind.puts(s.change.Kind)
		if live {
			last = s
		} else {
			last = nil
		}
	}
	if found && kind.deleteExtra != nil {
		if err := kind.deleteExtra(w, group[0].key, old); err != nil {
			return err
		}
	}
	if !live {
		if !found {
			return nil
		}
		return w.b.Delete(w.liveKey(kind, group[0].key))
	}
	if kind.putExtra != nil {
		if err := kind.putExtra(w, last); err != nil {
			return err
		}
	}
	w.row = w.appendRow(w.row[:0], kind, last)
	return w.d.put(w.b, w.liveKey(kind, group[0].key), w.row)
}

// liveKey returns the full key of a live row. It is valid until the next call.
func (w *writer) liveKey(kind *rowKind, key []byte) []byte {
	w.key = append(w.d.appendTableKey(w.key[:0], w.id, kind.live), key...)
	return w.key
}

// archive adds the live row to the removed rows, because step s removes or
// replaces it. The row was made by step last, or is old if last is nil. If s and
// last belong to the same entry, the row was never live and is not archived.
func (w *writer) archive(kind *rowKind, s, last *step, old []byte) error {
	if last != nil {
		if last.entry == s.entry {
			return nil
		}
		old = w.appendRow(w.row[:0], kind, last)
		w.row = old
	}
	return w.putRemoved(kind, s.key, w.entries[s.entry].Revision, old)
}

// putRemoved writes a removed row; at is the revision that removed it.
func (w *writer) putRemoved(kind *rowKind, key []byte, at storage.Revision, row []byte) error {
	w.removedKey = appendRevision(w.d.appendTableKey(w.removedKey[:0], w.id, kind.removed), at)
	w.removedKey = append(w.removedKey, key...)
	w.removed = append(w.removed[:0], row...)
	return w.d.put(w.b, w.removedKey, w.removed)
}

// appendRow appends the row that s makes.
func (w *writer) appendRow(dst []byte, kind *rowKind, s *step) []byte {
	e := &w.entries[s.entry]
	return kind.value(appendRowHead(dst, e.Revision, e.Time), s.change)
}

// removeFiltered removes the rows that the filters select. It leaves out the keys
// that have steps, because applySteps has applied the filters to them.
func (w *writer) removeFiltered(p *plan) error {
	var removed map[string]bool // keys that an earlier filter removed
	for n, f := range p.filters {
		table := w.d.tableKey(w.id, p.kind.live)
		lower := p.kind.prefix(table, f.filter)
		err := w.d.scan(w.ctx, w.d.store, lower, successor(lower), func(key, row []byte) (bool, error) {
			own := key[len(table):]
			ok, err := p.kind.match(f.filter, own)
			if err != nil || !ok || hasStep(p.steps, own) || removed[string(own)] {
				return err == nil, err
			}
			if n+1 < len(p.filters) {
				if removed == nil {
					removed = map[string]bool{}
				}
				removed[string(own)] = true
			}
			return true, w.removeRow(p.kind, own, row, w.entries[f.entry].Revision)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// removeRow moves a live row to the removed rows; at is the revision that removes
// it.
func (w *writer) removeRow(kind *rowKind, key, row []byte, at storage.Revision) error {
	if err := w.putRemoved(kind, key, at, row); err != nil {
		return err
	}
	if kind.deleteExtra != nil {
		if err := kind.deleteExtra(w, key, row); err != nil {
			return err
		}
	}
	return w.b.Delete(w.liveKey(kind, key))
}

// hasStep reports whether one of the sorted steps has key.
func hasStep(steps []step, key []byte) bool {
	i := sort.Search(len(steps), func(i int) bool { return bytes.Compare(steps[i].key, key) >= 0 })
	return i < len(steps) && bytes.Equal(steps[i].key, key)
}
