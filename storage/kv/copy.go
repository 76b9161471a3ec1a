package kv

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"

	"github.com/ostiary/ostiary/storage"
)

// Syncer is an optional interface of a [Store] whose Commit can return before the
// changes are durable.
type Syncer interface {
	// Sync returns when everything that was committed before is durable.
	Sync() error
}

// Copy changes a driver that keeps a copy of the state of a shared log. Package
// replica uses it. All changes of such a driver come from the log, in its order, so
// one goroutine at a time may use a Copy. The methods of the driver that read can be
// used at the same time; those that write must not be used.
type Copy struct{ d *Driver }

// Copy returns what changes d. It fails with [storage.ErrFormat] unless d was opened
// with Options.Copy.
func (d *Driver) Copy() (*Copy, error) {
	if !d.copy.Load() {
		return nil, fmt.Errorf("%w: the data is not a copy of a shared log", storage.ErrFormat)
	}
	return &Copy{d}, nil
}

func (d *Driver) copyKey() []byte { return append(append([]byte(nil), d.prefix...), areaCopy) }

// Record returns the record of the copy, which the newest transaction with SetRecord
// wrote, or nil.
func (c *Copy) Record() ([]byte, error) {
	v, _, err := c.d.get(c.d.store, c.d.copyKey())
	return v, err
}

// trailSlots is how many of the last marks a copy keeps, see [Transaction.SetMark].
const trailSlots = 1 << 16

// markKey is the key of a mark. It follows that of the record.
func (d *Driver) markKey(number uint64) []byte {
	return binary.BigEndian.AppendUint16(d.copyKey(), uint16(number%trailSlots))
}

// SetMark records a value under a number, in place of the one whose number is smaller by
// trailSlots. Marks are not in the stream of Export, and Import removes them.
func (t *Transaction) SetMark(number uint64, value []byte) error {
	return t.d.put(t.b, t.d.markKey(number), append(binary.BigEndian.AppendUint64(nil, number), value...))
}

// Mark returns the value under a number, or nil if the copy does not have it (any more).
func (c *Copy) Mark(number uint64) ([]byte, error) {
	v, _, err := c.d.get(c.d.store, c.d.markKey(number))
	if err != nil || len(v) < 8 || binary.BigEndian.Uint64(v) != number {
		return nil, err
	}
	return v[8:], nil
}

// Sync returns when all transactions that were committed before are durable.
func (c *Copy) Sync() error {
	if s, ok := c.d.store.(Syncer); ok {
		return s.Sync()
	}
	return nil
}

// Scrub removes the deleted secrets of a store from the medium. It may be called while
// another goroutine uses the copy.
func (c *Copy) Scrub(ctx context.Context, id storage.StoreID) error {
	return wrap("trim", id, c.d.scrub(ctx, id))
}

// Transaction collects changes that are committed together. Each store may appear
// once, because no change sees the others. After an error the transaction must be
// closed, and not committed.
type Transaction struct {
	d       *Driver
	b       Batch
	moved   []movedHead
	created int
	updated []storage.StoreID
	deleted []storage.StoreID
}

// movedHead is the new head of a store.
type movedHead struct {
	id     storage.StoreID
	head   head
	writer storage.WriterID
}

// Begin returns an empty transaction.
func (c *Copy) Begin() *Transaction { return &Transaction{d: c.d, b: c.d.store.Batch()} }

// Head returns the head of a store. It fails with [storage.ErrNoStore] if the store
// is missing or has another incarnation.
func (c *Copy) Head(id storage.StoreID, incarnation storage.Incarnation) (storage.Head, error) {
	h, err := c.d.headOf(id, incarnation)
	return h.Head, err
}

// Incarnation returns the incarnation of a store, or fails with [storage.ErrNoStore].
func (c *Copy) Incarnation(id storage.StoreID) (storage.Incarnation, error) {
	h, known := c.d.heads.get(id)
	if known {
		return h.incarnation, nil
	}
	h, err := c.d.readHead(c.d.store, id)
	return h.incarnation, err
}

// headOf returns the head of a store with an incarnation.
func (d *Driver) headOf(id storage.StoreID, incarnation storage.Incarnation) (head, error) {
	h, known := d.heads.get(id)
	if !known {
		var err error
		if h, err = d.readHead(d.store, id); err != nil {
			return head{}, err
		}
		d.heads.put(id, h)
	}
	if h.incarnation != incarnation {
		return head{}, fmt.Errorf("%w with this incarnation", storage.ErrNoStore)
	}
	return h, nil
}

// Append adds entries to the log of a store, after its head. Secrets without a body
// are recorded as missing. It fails as [storage.Driver] does. With awaited, the
// writer of the entries, if they have the same one, waits for them and is not notified.
func (t *Transaction) Append(ctx context.Context, id storage.StoreID, entries []storage.Entry, sealed []storage.Sealed, awaited bool) error {
	h, err := t.d.headOf(id, entries[0].Incarnation)
	if err == nil {
		h, err = t.d.stage(ctx, t.b, id, h.Head, entries, sealed)
	}
	if err != nil {
		return wrap("append to", id, err)
	}
	moved := movedHead{id: id, head: h}
	if first := entries[0].Writer; awaited && !slices.ContainsFunc(entries, func(e storage.Entry) bool { return e.Writer != first }) {
		moved.writer = first
	}
	t.moved = append(t.moved, moved)
	return nil
}

// CreateStore adds a store, as [storage.Driver] does.
func (t *Transaction) CreateStore(info storage.StoreInfo) error {
	t.created++
	return wrap("create", info.ID, t.d.stageCreate(t.b, info))
}

// UpdateStore replaces the name and the aliases of a store. If old is not nil, they
// must be those of old.
func (t *Transaction) UpdateStore(old *storage.StoreInfo, info storage.StoreInfo) error {
	t.updated = append(t.updated, info.ID)
	return wrap("update", info.ID, t.d.stageUpdate(t.b, old, info))
}

// DeleteStore removes a store.
func (t *Transaction) DeleteStore(id storage.StoreID, incarnation storage.Incarnation) error {
	info, err := t.d.infoOf(id, incarnation)
	if err == nil {
		err = t.d.stageDelete(t.b, info)
	}
	t.deleted = append(t.deleted, id)
	return wrap("delete", id, err)
}

// Trim trims a store, as [storage.Driver] does. It returns false if there is nothing
// to trim.
func (t *Transaction) Trim(id storage.StoreID, incarnation storage.Incarnation, log, rows storage.Revision) (trimmed bool, err error) {
	h, err := t.d.headOf(id, incarnation)
	if err == nil {
		trimmed, err = t.d.stageTrim(t.b, id, h, log, rows)
	}
	return trimmed, wrap("trim", id, err)
}

// SetRecord replaces the record of the copy.
func (t *Transaction) SetRecord(record []byte) error {
	return t.d.put(t.b, t.d.copyKey(), append([]byte(nil), record...))
}

// Commit makes the changes visible, or none if it fails. They are durable after
// [Copy.Sync].
func (t *Transaction) Commit() error {
	d := t.d
	if t.created > 0 {
		defer d.creations.Add(1) // also after an error that leaves the outcome open
	}
	if err := t.b.Commit(); err != nil {
		d.stores.forget()
		for i := range t.moved {
			d.heads.forget(t.moved[i].id)
		}
		return err
	}
	d.stores.add(t.created)
	for i := range t.moved {
		m := &t.moved[i]
		d.heads.put(m.id, m.head)
		d.watchers.moved(m.id, m.writer)
	}
	for _, id := range t.deleted {
		d.deleted(id)
		d.changed(id)
	}
	for _, id := range t.updated {
		d.changed(id)
	}
	return nil
}

// Close frees the transaction. It drops changes that were not committed.
func (t *Transaction) Close() error { return t.b.Close() }

// copySecret writes, deletes or records as missing the secret of a copy. key is its
// key in the table of secrets.
func (w *writer) copySecret(key []byte, c *storage.Change) error {
	doc := &c.Document
	missing := appendDocumentKey(w.d.tableKey(w.id, tableSecretsMissing), doc.Kind, doc.Key)
	isMissing := c.Kind == storage.SecretPut && len(doc.Body) == 0 && doc.Digest != (storage.Hash{}) && doc.Digest != sha256.Sum256(nil)
	var err error
	if c.Kind == storage.SecretRemove || isMissing {
		err = w.b.Delete(key)
	} else {
		err = w.d.put(w.b, key, appendBodyValue(nil, doc))
	}
	if err != nil {
		return err
	}
	if !isMissing {
		return w.b.Delete(missing)
	}
	return w.d.put(w.b, missing, appendMissing(nil, doc.Secondary, doc.Digest))
}

// appendMissing appends the value of a missing secret.
func appendMissing(dst []byte, secondary []string, digest storage.Hash) []byte {
	return append(appendTexts(dst, secondary), digest[:]...)
}

// missing returns the error for a document that is in no table: ErrSecretReplaced for
// a missing secret of a copy, otherwise ErrNoDocument.
func (d *Driver) missing(id storage.StoreID, t table, kind, key string) error {
	if t != tableSecrets || !d.copy.Load() {
		return storage.ErrNoDocument
	}
	_, found, err := d.store.Get(appendDocumentKey(d.tableKey(id, tableSecretsMissing), kind, key), nil)
	switch {
	case err != nil:
		return err
	case found:
		return storage.ErrSecretReplaced
	}
	return storage.ErrNoDocument
}

// CopiedSecret is a secret of a copy.
type CopiedSecret struct {
	Store       storage.StoreID     // the store
	Incarnation storage.Incarnation // incarnation of the store
	Secret      storage.Document    // the secret, with a digest; without a body if the copy lacks it
}

// MissingSecrets yields the secrets whose ciphertexts the copy lacks.
func (c *Copy) MissingSecrets(ctx context.Context) iter.Seq2[CopiedSecret, error] {
	return c.secrets(ctx, tableSecretsMissing, func(doc *storage.Document, digest []byte) bool {
		copy(doc.Digest[:], digest)
		return len(digest) == len(doc.Digest)
	})
}

// Secrets yields the secrets of all stores, with their ciphertexts.
func (c *Copy) Secrets(ctx context.Context) iter.Seq2[CopiedSecret, error] {
	return c.secrets(ctx, tableSecrets, func(doc *storage.Document, body []byte) bool {
		doc.Body, doc.Digest = bytes.Clone(body), sha256.Sum256(body)
		return true
	})
}

// secrets yields the rows of a table of secrets in all stores. set sets what the end of a
// row has, and returns false if the row is damaged.
func (c *Copy) secrets(ctx context.Context, of table, set func(doc *storage.Document, rest []byte) bool) iter.Seq2[CopiedSecret, error] {
	return func(yield func(CopiedSecret, error) bool) {
		d := c.d
		for info, err := range d.Stores(ctx, storage.StoreID{}) {
			if err != nil {
				yield(CopiedSecret{}, err)
				return
			}
			table, more := d.tableKey(info.ID, of), true
			err := d.scan(ctx, d.store, table, successor(table), func(key, value []byte) (bool, error) {
				var parts [2][]byte
				if err := splitKey(key[len(table):], parts[:]); err != nil {
					return false, err
				}
				m := CopiedSecret{info.ID, info.Incarnation, storage.Document{Kind: string(parts[0]), Key: string(parts[1])}}
				secondary, rest, ok := splitTexts(value)
				if m.Secret.Secondary = secondary; !ok || !set(&m.Secret, rest) {
					return false, errRow()
				}
				more = yield(m, nil)
				return more, nil
			})
			if err != nil {
				yield(CopiedSecret{}, wrap("secrets of", info.ID, err))
				return
			}
			if !more {
				return
			}
		}
	}
}

// PutSecret adds the ciphertext of a missing secret. It fails with
// [storage.ErrDamaged] if the ciphertext does not have the digest.
func (t *Transaction) PutSecret(m CopiedSecret, body []byte) error {
	if sha256.Sum256(body) != m.Secret.Digest {
		return wrap("secret of", m.Store, fmt.Errorf("%w: key %q of kind %q does not have its digest", storage.ErrDamaged, m.Secret.Key, m.Secret.Kind))
	}
	doc := m.Secret
	doc.Body = body
	key := appendDocumentKey(t.d.tableKey(m.Store, tableSecrets), doc.Kind, doc.Key)
	if err := t.d.put(t.b, key, appendBodyValue(nil, &doc)); err != nil {
		return err
	}
	return t.b.Delete(appendDocumentKey(t.d.tableKey(m.Store, tableSecretsMissing), doc.Kind, doc.Key))
}
