package kv

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"strings"
	"sync"

	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// openState is the snapshot of a [storage.State]. State.Close closes it, or
// [Driver.Close] if that is called earlier.
type openState struct {
	d    *Driver
	once sync.Once
	snap Snapshot
	err  error // the error of closing snap
}

func (p *openState) close() error {
	p.once.Do(func() {
		p.d.mu.Lock()
		delete(p.d.open, p)
		p.d.mu.Unlock()
		p.err = p.snap.Close()
	})
	return p.err
}

// Load implements [storage.Driver].
func (d *Driver) Load(ctx context.Context, id storage.StoreID, opts storage.LoadOptions) (storage.State, error) {
	done, err := d.begin(ctx)
	if err != nil {
		return storage.State{}, err
	}
	defer done()
	snap, err := d.store.Snapshot()
	if err != nil {
		return storage.State{}, wrap("load", id, err)
	}
	p := &openState{d: d, snap: snap}
	d.mu.Lock()
	d.open[p] = struct{}{}
	d.mu.Unlock()
	h, err := d.readHead(snap, id)
	if err != nil {
		p.close()
		return storage.State{}, wrap("load", id, err)
	}
	t, err := d.readTrim(snap, id)
	if err != nil {
		p.close()
		return storage.State{}, wrap("load", id, err)
	}
	return storage.State{
		Head:       h.Head,
		Oldest:     t.rows,
		Tuples:     prefetch(ctx, d.rowScan(ctx, id, p, opts, tupleRows()), tupleRow(&rowStrings{})),
		Attributes: stream(d.rowScan(ctx, id, p, opts, attributeRows()), attributeRow(&rowStrings{})),
		Documents:  stream(d.rowScan(ctx, id, p, opts, documentRows()), documentRow),
		Bodies:     func(kind string) iter.Seq2[storage.Document, error] { return d.bodies(ctx, id, p, kind) },
		Close:      p.close,
	}, nil
}

// parse sets all fields of a row from its key and value. removed is 0 for a live
// row. It takes a pointer because a row is large and there are many.
type parse[R any] func(row *R, key, value []byte, removed storage.Revision) error

// visit is called for each row, with the key after the table and the value. It
// returns false to stop.
type visit func(key, value []byte, removed storage.Revision) (more bool, err error)

// stream yields the rows that each visits.
func stream[R any](each func(visit) error, parse parse[R]) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		var zero, row R
		if err := each(func(key, value []byte, removed storage.Revision) (bool, error) {
			if err := parse(&row, key, value, removed); err != nil {
				return false, err
			}
			return yield(row, nil), nil
		}); err != nil {
			yield(zero, err)
		}
	}
}

// rowScan returns a function that visits the rows of a kind that opts selects:
// the live rows first, and then the removed rows.
func (d *Driver) rowScan(ctx context.Context, id storage.StoreID, p *openState, opts storage.LoadOptions, kind *rowKind) func(visit) error {
	return func(do visit) error {
		done, err := d.begin(ctx)
		if err != nil {
			return err
		}
		defer done()
		more := true
		if !opts.RemovedOnly || opts.RemovedAfter == nil {
			live := d.tableKey(id, kind.live)
			err = d.scan(ctx, p.snap, live, successor(live), func(key, value []byte) (_ bool, err error) {
				more, err = do(key[len(live):], value, 0)
				return more, err
			})
		}
		if err == nil && more && opts.RemovedAfter != nil {
			table := d.tableKey(id, kind.removed)
			lower := successor(appendRevision(bytes.Clone(table), *opts.RemovedAfter))
			err = d.scan(ctx, p.snap, lower, successor(table), func(key, value []byte) (bool, error) {
				if len(key) < len(table)+8 {
					return false, errRow()
				}
				key = key[len(table):]
				return do(key[8:], value, storage.Revision(fixed(key)))
			})
		}
		return wrap("load", id, err)
	}
}

// tupleRow returns the parser of tuples.
func tupleRow(n *rowStrings) parse[storage.TupleRow] {
	return func(row *storage.TupleRow, key, value []byte, removed storage.Revision) (err error) {
		var parts [tupleParts][]byte
		if err := splitKey(key, parts[:]); err != nil {
			return err
		}
		row.Removed = removed
		if row.Created, row.CreatedAt, value, err = splitRowHead(value); err != nil {
			return err
		}
		v, err := parseTupleValue(value)
		if err != nil {
			return err
		}
		fillTuple(&row.Tuple, n, &parts, &v)
		return nil
	}
}

// attributeRow returns the parser of attributes.
func attributeRow(n *rowStrings) parse[storage.AttributeRow] {
	return func(row *storage.AttributeRow, key, value []byte, removed storage.Revision) (err error) {
		var parts [3][]byte
		if err := splitKey(key, parts[:]); err != nil {
			return err
		}
		row.Removed = removed
		if row.Created, _, value, err = splitRowHead(value); err != nil {
			return err
		}
		row.Attribute = rel.Attribute{
			Object: rel.Object{Type: n.word(0, parts[0]), ID: n.text(parts[1])},
			Name:   n.word(1, parts[2]),
			Value:  n.text(value),
		}
		return nil
	}
}

// documentRow is the parser of documents.
func documentRow(row *storage.DocumentRow, key, value []byte, removed storage.Revision) (err error) {
	var parts [2][]byte
	if err := splitKey(key, parts[:]); err != nil {
		return err
	}
	row.Kind, row.Key, row.Removed = string(parts[0]), string(parts[1]), removed
	if row.Created, row.CreatedAt, value, err = splitRowHead(value); err != nil {
		return err
	}
	row.Secondary, row.BodyBytes, err = parseDocumentValue(value)
	return err
}

// Rows implements [storage.Driver].
func (d *Driver) Rows(ctx context.Context, id storage.StoreID, keys []rel.Key) ([]storage.TupleRow, error) {
	done, err := d.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	snap, err := d.store.Snapshot()
	if err != nil {
		return nil, wrap("rows of", id, err)
	}
	defer snap.Close()
	if _, err := d.readHead(snap, id); err != nil {
		return nil, wrap("rows of", id, err)
	}
	rows := make([]storage.TupleRow, len(keys))
	key := d.tableKey(id, tableTuples)
	table := len(key)
	var value []byte
	parse := tupleRow(&rowStrings{})
	for i, k := range keys {
		key = appendTupleKey(key[:table], k.Object, k.Relation, k.Subject)
		v, found, err := snap.Get(key, value[:0])
		if err != nil {
			return nil, wrap("rows of", id, err)
		}
		if !found {
			continue
		}
		value = v
		if v, err = d.verify(key, v); err == nil {
			err = parse(&rows[i], key[table:], v, 0)
		}
		if err != nil {
			return nil, wrap("rows of", id, err)
		}
	}
	return rows, nil
}

// Document implements [storage.Driver].
func (d *Driver) Document(ctx context.Context, id storage.StoreID, kind, key string) (storage.Document, error) {
	return d.body(ctx, id, tableBodies, kind, key)
}

// Secret implements [storage.Driver].
func (d *Driver) Secret(ctx context.Context, id storage.StoreID, kind, key string) (storage.Document, error) {
	return d.body(ctx, id, tableSecrets, kind, key)
}

// body returns the document with a key from the table of bodies or of secrets.
func (d *Driver) body(ctx context.Context, id storage.StoreID, t table, kind, key string) (storage.Document, error) {
	done, err := d.begin(ctx)
	if err != nil {
		return storage.Document{}, err
	}
	defer done()
	v, found, err := d.get(d.store, appendDocumentKey(d.tableKey(id, t), kind, key))
	if err == nil && !found {
		// Only now check whether the store exists, to save a read in the usual case.
		if _, err = d.readHead(d.store, id); err == nil {
			err = fmt.Errorf("%w: key %q of kind %q", d.missing(id, t, kind, key), key, kind)
		}
	}
	if err != nil {
		return storage.Document{}, wrap("document of", id, err)
	}
	doc, err := parseBodyValue(kind, key, v)
	return doc, wrap("document of", id, err)
}

// bodies yields the documents of a kind in a state.
func (d *Driver) bodies(ctx context.Context, id storage.StoreID, p *openState, kind string) iter.Seq2[storage.Document, error] {
	return func(yield func(storage.Document, error) bool) {
		done, err := d.begin(ctx)
		if err != nil {
			yield(storage.Document{}, err)
			return
		}
		defer done()
		prefix := appendPart(d.tableKey(id, tableBodies), kind)
		err = d.scan(ctx, p.snap, prefix, successor(prefix), func(key, value []byte) (bool, error) {
			var part [1][]byte
			if err := splitKey(key[len(prefix):], part[:]); err != nil {
				return false, err
			}
			doc, err := parseBodyValue(kind, string(part[0]), bytes.Clone(value))
			if err != nil {
				return false, err
			}
			return yield(doc, nil), nil
		})
		if err != nil {
			yield(storage.Document{}, wrap("documents of", id, err))
		}
	}
}

// DocumentsBy implements [storage.Driver].
func (d *Driver) DocumentsBy(ctx context.Context, id storage.StoreID, kind, secondary string) iter.Seq2[storage.Document, error] {
	return func(yield func(storage.Document, error) bool) {
		done, err := d.begin(ctx)
		if err != nil {
			yield(storage.Document{}, err)
			return
		}
		defer done()
		snap, err := d.store.Snapshot()
		if err == nil {
			defer snap.Close()
			if _, err = d.readHead(snap, id); err == nil {
				err = d.documentsBy(ctx, snap, id, kind, secondary, yield)
			}
		}
		if err != nil {
			yield(storage.Document{}, wrap("documents of", id, err))
		}
	}
}

func (d *Driver) documentsBy(ctx context.Context, r Reader, id storage.StoreID, kind, secondary string, yield func(storage.Document, error) bool) error {
	prefix := d.secondaryKey(id, kind, secondary)
	return d.scan(ctx, r, prefix, successor(prefix), func(key, _ []byte) (bool, error) {
		var part [1][]byte
		if err := splitKey(key[len(prefix):], part[:]); err != nil {
			return false, err
		}
		name := string(part[0])
		v, found, err := d.get(r, appendDocumentKey(d.tableKey(id, tableBodies), kind, name))
		if err == nil && !found {
			err = fmt.Errorf("%w: document %q of kind %q has no body", storage.ErrDamaged, name, kind)
		}
		if err != nil {
			return false, err
		}
		doc, err := parseBodyValue(kind, name, v)
		if err != nil {
			return false, err
		}
		return yield(doc, nil), nil
	})
}

// rowStrings makes the strings of rows without an allocation for each row. Words
// (types, relations and conditions) are few, so equal ones share their memory.
// Texts (ids) are many, so they are cut from chunks of memory. It is used by one
// goroutine.
type rowStrings struct {
	last     [5]string         // the last word of each slot
	objectID string            // the last result of object
	words    map[string]string // all words so far, up to wordsMax
	chunk    strings.Builder   // memory of the next texts
}

const (
	// chunkBytes is the size of a chunk. As long as one text of a chunk is in use,
	// the whole chunk stays in memory.
	chunkBytes = 16 << 10
	// wordsMax is the maximum number of words that are kept for sharing.
	wordsMax = 4096
)

// word returns b as a string that shares its memory with equal words. slot is the
// field of the row: the next row often has the same word in the same field, and
// word checks that first.
func (n *rowStrings) word(slot int, b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if n.last[slot] == string(b) {
		return n.last[slot]
	}
	w, ok := n.words[string(b)]
	if !ok {
		if n.words == nil || len(n.words) >= wordsMax {
			n.words = map[string]string{}
		}
		w = string(b)
		n.words[w] = w
	}
	n.last[slot] = w
	return w
}

// object is like text for the id of an object. Successive rows often have the same
// object.
func (n *rowStrings) object(b []byte) string {
	if n.objectID != string(b) {
		n.objectID = n.text(b)
	}
	return n.objectID
}

// text returns b as a string.
func (n *rowStrings) text(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if len(b) > chunkBytes/8 {
		return string(b)
	}
	if n.chunk.Cap()-n.chunk.Len() < len(b) {
		n.chunk = strings.Builder{}
		n.chunk.Grow(chunkBytes)
	}
	at := n.chunk.Len()
	n.chunk.Write(b)
	return n.chunk.String()[at:]
}
