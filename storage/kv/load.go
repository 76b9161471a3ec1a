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

// picture is the snapshot behind a State, closed by State.Close or Driver.Close,
// whichever comes first.
type picture struct {
	d    *Driver
	once sync.Once
	snap Snapshot
	err  error
}

func (p *picture) close() error {
	p.once.Do(func() {
		p.d.mu.Lock()
		delete(p.d.open, p)
		p.d.mu.Unlock()
		p.err = p.snap.Close()
	})
	return p.err
}

// Load returns a State on a snapshot.
func (d *Driver) Load(ctx context.Context, id storage.StoreID, opts storage.LoadOptions) (storage.State, error) {
	done, err := d.begin(ctx)
	if err != nil {
		return storage.State{}, err
	}
	defer done()
	snap, err := d.store.Snapshot()
	if err != nil {
		return storage.State{}, failed("load", id, err)
	}
	p := &picture{d: d, snap: snap}
	d.mu.Lock()
	d.open[p] = struct{}{}
	d.mu.Unlock()
	h, err := d.readHead(snap, id)
	if err != nil {
		p.close()
		return storage.State{}, failed("load", id, err)
	}
	t, err := d.readTrim(snap, id)
	if err != nil {
		p.close()
		return storage.State{}, failed("load", id, err)
	}
	return storage.State{
		Head:       h.Head,
		Oldest:     t.rows,
		Tuples:     ahead(ctx, d.visits(ctx, id, p, opts, tupleRows()), tupleRow(&names{})),
		Attributes: stream(d.visits(ctx, id, p, opts, attributeRows()), attributeRow(&names{})),
		Documents:  stream(d.visits(ctx, id, p, opts, documentRows()), documentRow),
		Close:      p.close,
	}, nil
}

// parse fills a row from its key and value, all of its fields; removed is 0 for a
// live one. A row is filled where it stands: it is large, and there are many.
type parse[R any] func(row *R, key, value []byte, removed storage.Revision) error

// visit is called with a row's key behind its table and its value.
type visit func(key, value []byte, removed storage.Revision) (more bool, err error)

// stream yields live rows, then removed ones, as the options say.
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

// visits returns what visits the rows of a kind, live ones and then removed ones,
// as the options say.
func (d *Driver) visits(ctx context.Context, id storage.StoreID, p *picture, opts storage.LoadOptions, kind *rowKind) func(visit) error {
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
		return failed("load", id, err)
	}
}

func tupleRow(n *names) parse[storage.TupleRow] {
	return func(row *storage.TupleRow, key, value []byte, removed storage.Revision) (err error) {
		var parts [tupleParts][]byte
		if err := cutParts(key, parts[:]); err != nil {
			return err
		}
		row.Removed = removed
		if row.Created, row.CreatedAt, value, err = cutRowHead(value); err != nil {
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

func attributeRow(n *names) parse[storage.AttributeRow] {
	return func(row *storage.AttributeRow, key, value []byte, removed storage.Revision) (err error) {
		var parts [3][]byte
		if err := cutParts(key, parts[:]); err != nil {
			return err
		}
		row.Removed = removed
		if row.Created, _, value, err = cutRowHead(value); err != nil {
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

func documentRow(row *storage.DocumentRow, key, value []byte, removed storage.Revision) (err error) {
	var parts [2][]byte
	if err := cutParts(key, parts[:]); err != nil {
		return err
	}
	row.Kind, row.Key, row.Removed = string(parts[0]), string(parts[1]), removed
	if row.Created, row.CreatedAt, value, err = cutRowHead(value); err != nil {
		return err
	}
	row.Secondary, row.BodyBytes, err = parseDocumentValue(value)
	return err
}

// Rows returns the live rows of keys, all from one moment.
func (d *Driver) Rows(ctx context.Context, id storage.StoreID, keys []rel.Key) ([]storage.TupleRow, error) {
	done, err := d.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	snap, err := d.store.Snapshot()
	if err != nil {
		return nil, failed("rows of", id, err)
	}
	defer snap.Close()
	if _, err := d.readHead(snap, id); err != nil {
		return nil, failed("rows of", id, err)
	}
	rows := make([]storage.TupleRow, len(keys))
	key := d.tableKey(id, tableTuples)
	table := len(key)
	var value []byte
	parse := tupleRow(&names{})
	for i, k := range keys {
		key = appendTupleKey(key[:table], k.Object, k.Relation, k.Subject)
		v, found, err := snap.Get(key, value[:0])
		if err != nil {
			return nil, failed("rows of", id, err)
		}
		if !found {
			continue
		}
		value = v
		if v, err = d.verify(key, v); err == nil {
			err = parse(&rows[i], key[table:], v, 0)
		}
		if err != nil {
			return nil, failed("rows of", id, err)
		}
	}
	return rows, nil
}

// Document returns the live document with its body.
func (d *Driver) Document(ctx context.Context, id storage.StoreID, kind, key string) (storage.Document, error) {
	return d.body(ctx, id, tableBodies, kind, key)
}

// Secret returns the newest ciphertext.
func (d *Driver) Secret(ctx context.Context, id storage.StoreID, kind, key string) (storage.Document, error) {
	return d.body(ctx, id, tableSecrets, kind, key)
}

func (d *Driver) body(ctx context.Context, id storage.StoreID, t table, kind, key string) (storage.Document, error) {
	done, err := d.begin(ctx)
	if err != nil {
		return storage.Document{}, err
	}
	defer done()
	v, found, err := d.get(d.store, appendDocumentKey(d.tableKey(id, t), kind, key))
	if err == nil && !found {
		// Only now is it worth asking whether there is such a store at all.
		if _, err = d.readHead(d.store, id); err == nil {
			err = fmt.Errorf("%w: %q of kind %q", storage.ErrNoDocument, key, kind)
		}
	}
	if err != nil {
		return storage.Document{}, failed("document of", id, err)
	}
	doc, err := parseBodyValue(kind, key, v)
	return doc, failed("document of", id, err)
}

// DocumentsBy yields the live documents that have the secondary key.
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
			yield(storage.Document{}, failed("documents of", id, err))
		}
	}
}

func (d *Driver) documentsBy(ctx context.Context, r Reader, id storage.StoreID, kind, secondary string, yield func(storage.Document, error) bool) error {
	prefix := d.secondaryKey(id, kind, secondary)
	return d.scan(ctx, r, prefix, successor(prefix), func(key, _ []byte) (bool, error) {
		var part [1][]byte
		if err := cutParts(key[len(prefix):], part[:]); err != nil {
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

// names gives rows their strings: words (types, relations, conditions) are few
// and shared, texts (ids) share chunks of memory, so that a row costs no
// allocation of its own. It is used by one goroutine.
type names struct {
	last  [5]string
	again string // the text that came last in the place of an object's id
	words map[string]string
	chunk strings.Builder
}

const (
	// chunkBytes is the memory that texts share. A text that outlives the others
	// keeps its chunk alive.
	chunkBytes = 16 << 10
	// wordsMax bounds the words remembered, for stores whose words are many.
	wordsMax = 4096
)

// word returns b as a string. slot tells words apart that come in different
// places, since the next row mostly has the same word in the same place.
func (n *names) word(slot int, b []byte) string {
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

// object is text for an object's id, which is mostly that of the next row too.
func (n *names) object(b []byte) string {
	if n.again != string(b) {
		n.again = n.text(b)
	}
	return n.again
}

func (n *names) text(b []byte) string {
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
