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

// writer turns entries into changes of the state's tables.
//
// What a change does depends on the row that its key has at that moment, which
// may come from the store or from an earlier change of the same call. Keys do
// not depend on each other, so the changes are sorted by key, and each key's
// changes and the filters that match it are played in their order.
type writer struct {
	d       *Driver
	ctx     context.Context
	id      storage.StoreID
	b       Batch
	entries []storage.Entry

	keys  []byte // memory of the steps' keys
	plans [3]plan
	old   lookup

	// Memory that each row uses again.
	key, row, removedKey, removed []byte
}

// keptMax is how many steps, and how many bytes for each use, a writer keeps the
// memory of.
const keptMax = 1 << 12

// keysSampled is how many keys tell how long the others are.
const keysSampled = 64

// reset forgets what was written.
func (w *writer) reset() {
	w.ctx, w.b, w.entries = nil, nil, nil
	most := max(cap(w.keys)/64, cap(w.key), cap(w.row), cap(w.removedKey), cap(w.removed), cap(w.old.key), cap(w.old.value))
	for i := range w.plans {
		p := &w.plans[i]
		most = max(most, cap(p.steps), cap(p.filters))
		clear(p.steps)
		clear(p.filters)
	}
	if most > keptMax {
		*w = writer{d: w.d}
	}
}

// write puts the entries into the batch, and what follows from them.
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

// plan holds the steps of one kind of rows.
type plan struct {
	kind    *rowKind
	steps   []step
	filters []filterStep
}

// step is one change of one row.
type step struct {
	key    []byte
	change *storage.Change
	entry  int32
	order  int32  // among all changes of the call
	next   uint64 // bytes of key, for sort
}

// filterStep is one RemoveByFilter.
type filterStep struct {
	filter *storage.Filter
	entry  int32
	order  int32
}

// Kinds of rows, in the order of writer.plans and of FilterTarget from 1.
const (
	tuples = iota
	attributes
	documents
)

// collect fills the plans, and writes secrets, which have no rows: the newest
// wins and nothing is asked of what was there.
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
			if order == keysSampled { // the others are about as long: room for all of them, once
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

func (w *writer) secret(c *storage.Change) error {
	key := appendDocumentKey(w.d.tableKey(w.id, tableSecrets), c.Document.Kind, c.Document.Key)
	if c.Kind == storage.SecretRemove {
		return w.b.Delete(key)
	}
	return w.d.put(w.b, key, appendBodyValue(nil, &c.Document))
}

func (w *writer) apply() error {
	for i := range w.plans {
		p := &w.plans[i]
		if len(p.steps) == 0 && len(p.filters) == 0 {
			continue
		}
		p.sort()
		if err := w.play(p); err != nil {
			return err
		}
		if err := w.sweep(p); err != nil {
			return err
		}
	}
	return nil
}

// sort orders the steps by key and, within a key, as they came. Most keys of a
// large entry differ in the few bytes after what all of them begin with: those
// are compared as one number.
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

// sharedBytes is how far b begins as a does.
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

// play writes what becomes of each key that has steps.
func (w *writer) play(p *plan) error {
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
		if err := w.playKey(p.kind, group, row, found); err != nil {
			return err
		}
	}
	return old.err()
}

// withFilters adds a removal to a key's steps for each filter that matches it.
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

// playKey plays a key's steps on the row that the store holds.
func (w *writer) playKey(kind *rowKind, group []step, old []byte, found bool) error {
	var last *step // the step that made the live row; nil: it is old, if that lives
	live := found
	for i := range group {
		s := &group[i]
		if live {
			if err := w.retire(kind, s, last, old); err != nil {
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
	if found && kind.forget != nil {
		if err := kind.forget(w, group[0].key, old); err != nil {
			return err
		}
	}
	if !live {
		if !found {
			return nil
		}
		return w.b.Delete(w.liveKey(kind, group[0].key))
	}
	if kind.keep != nil {
		if err := kind.keep(w, last); err != nil {
			return err
		}
	}
	w.row = w.appendRow(w.row[:0], kind, last)
	return w.d.put(w.b, w.liveKey(kind, group[0].key), w.row)
}

// liveKey returns a live row's whole key, valid until the next call.
func (w *writer) liveKey(kind *rowKind, key []byte) []byte {
	w.key = append(w.d.appendTableKey(w.key[:0], w.id, kind.live), key...)
	return w.key
}

// retire moves the live row, made by step last or else old, to the removed
// ones, at the revision of s. A row that the same revision made never lived.
func (w *writer) retire(kind *rowKind, s, last *step, old []byte) error {
	if last != nil {
		if last.entry == s.entry {
			return nil
		}
		old = w.appendRow(w.row[:0], kind, last)
		w.row = old
	}
	return w.putRemoved(kind, s.key, w.entries[s.entry].Revision, old)
}

func (w *writer) putRemoved(kind *rowKind, key []byte, at storage.Revision, row []byte) error {
	w.removedKey = appendRevision(w.d.appendTableKey(w.removedKey[:0], w.id, kind.removed), at)
	w.removedKey = append(w.removedKey, key...)
	w.removed = append(w.removed[:0], row...)
	return w.d.put(w.b, w.removedKey, w.removed)
}

func (w *writer) appendRow(dst []byte, kind *rowKind, s *step) []byte {
	e := &w.entries[s.entry]
	return kind.value(appendRowHead(dst, e.Revision, e.Time), s.change)
}

// sweep removes the rows that filters match and no step named.
func (w *writer) sweep(p *plan) error {
	var gone map[string]bool // rows that an earlier filter removed
	for n, f := range p.filters {
		table := w.d.tableKey(w.id, p.kind.live)
		lower := p.kind.prefix(table, f.filter)
		err := w.d.scan(w.ctx, w.d.store, lower, successor(lower), func(key, row []byte) (bool, error) {
			own := key[len(table):]
			ok, err := p.kind.match(f.filter, own)
			if err != nil || !ok || stepsName(p.steps, own) || gone[string(own)] {
				return err == nil, err
			}
			if n+1 < len(p.filters) {
				if gone == nil {
					gone = map[string]bool{}
				}
				gone[string(own)] = true
			}
			return true, w.removeRow(p.kind, own, row, w.entries[f.entry].Revision)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) removeRow(kind *rowKind, key, row []byte, at storage.Revision) error {
	if err := w.putRemoved(kind, key, at, row); err != nil {
		return err
	}
	if kind.forget != nil {
		if err := kind.forget(w, key, row); err != nil {
			return err
		}
	}
	return w.b.Delete(w.liveKey(kind, key))
}

func stepsName(steps []step, key []byte) bool {
	i := sort.Search(len(steps), func(i int) bool { return bytes.Compare(steps[i].key, key) >= 0 })
	return i < len(steps) && bytes.Equal(steps[i].key, key)
}
