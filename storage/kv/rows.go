package kv

import (
	"bytes"

	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// rowKind defines how tuples, attributes or documents are stored.
type rowKind struct {
	// live is the table of the live rows, removed that of the removed rows.
	live, removed table
	// puts reports whether a kind of change makes a row. Other kinds remove it.
	puts func(storage.ChangeKind) bool
	// value appends the part of a row after its head.
	value func(dst []byte, c *storage.Change) []byte
	// match reports whether a filter selects a key.
	match func(f *storage.Filter, key []byte) (bool, error)
	// prefix returns the common beginning of all keys that a filter may select,
	// starting with table.
	prefix func(table []byte, f *storage.Filter) []byte
	// putExtra writes what a new row has in other tables; deleteExtra deletes what a
	// row of the store has there. nil if the kind uses no other tables.
	putExtra    func(w *writer, s *step) error
	deleteExtra func(w *writer, key, row []byte) error
}

func tupleRows() *rowKind {
	return &rowKind{
		live: tableTuples, removed: tableTuplesRemoved,
		puts:   func(k storage.ChangeKind) bool { return k == storage.TupleAdd },
		value:  func(dst []byte, c *storage.Change) []byte { return appendTupleValue(dst, &c.Tuple) },
		match:  matchTuple,
		prefix: tuplePrefix,
	}
}

func attributeRows() *rowKind {
	return &rowKind{
		live: tableAttributes, removed: tableAttributesRemoved,
		puts:  func(k storage.ChangeKind) bool { return k == storage.AttributeSet },
		value: func(dst []byte, c *storage.Change) []byte { return append(dst, c.Attribute.Value...) },
		match: matchAttribute,
		prefix: func(table []byte, f *storage.Filter) []byte {
			return appendObjectPrefix(table, f.ObjectType, f.ObjectID)
		},
	}
}

func documentRows() *rowKind {
	return &rowKind{
		live: tableDocuments, removed: tableDocumentsRemoved,
		puts:  func(k storage.ChangeKind) bool { return k == storage.DocumentPut },
		value: func(dst []byte, c *storage.Change) []byte { return appendDocumentValue(dst, &c.Document) },
		match: matchDocument,
		prefix: func(table []byte, f *storage.Filter) []byte {
			return appendPartPrefix(appendPart(bytes.Clone(table), f.DocumentKind), f.DocumentKeyPrefix)
		},
		putExtra:    putDocumentExtra,
		deleteExtra: deleteDocumentExtra,
	}
}

// tuplePrefix narrows a scan of tuples by the parts at the beginning of their
// keys: object type, object id and relation, as far as the filter has them
// without a gap. A filter that has only a subject reads all tuples;
// docs/format.md explains why there is no index by subject.
func tuplePrefix(table []byte, f *storage.Filter) []byte {
	key := appendObjectPrefix(table, f.Tuple.ObjectType, f.Tuple.ObjectID)
	if f.Tuple.ObjectType != "" && f.Tuple.ObjectID != "" && f.Tuple.Relation != "" {
		key = appendPart(key, f.Tuple.Relation)
	}
	return key
}

func appendObjectPrefix(table []byte, typ, id string) []byte {
	key := bytes.Clone(table)
	if typ == "" {
		return key
	}
	key = appendPart(key, typ)
	if id == "" {
		return key
	}
	return appendPart(key, id)
}

func matchTuple(f *storage.Filter, key []byte) (bool, error) {
	var parts [tupleParts][]byte
	if err := splitKey(key, parts[:]); err != nil {
		return false, err
	}
	t := &f.Tuple
	want := [tupleParts]string{t.ObjectType, t.ObjectID, t.Relation, t.SubjectType, t.SubjectID, t.SubjectRelation}
	for i, w := range want {
		if w != "" && w != string(parts[i]) {
			return false, nil
		}
	}
	return !t.SubjectPlain || len(parts[5]) == 0, nil
}

func matchAttribute(f *storage.Filter, key []byte) (bool, error) {
	var parts [3][]byte
	if err := splitKey(key, parts[:]); err != nil {
		return false, err
	}
	return (f.ObjectType == "" || f.ObjectType == string(parts[0])) &&
		(f.ObjectID == "" || f.ObjectID == string(parts[1])) &&
		(f.Name == "" || f.Name == string(parts[2])), nil
}

func matchDocument(f *storage.Filter, key []byte) (bool, error) {
	var parts [2][]byte
	if err := splitKey(key, parts[:]); err != nil {
		return false, err
	}
	return f.DocumentKind == string(parts[0]) && bytes.HasPrefix(parts[1], []byte(f.DocumentKeyPrefix)), nil
}

// putDocumentExtra writes the body and the secondary keys of a document.
func putDocumentExtra(w *writer, s *step) error {
	doc := &s.change.Document
	key := append(w.d.tableKey(w.id, tableBodies), s.key...)
	if err := w.d.put(w.b, key, appendBodyValue(nil, doc)); err != nil {
		return err
	}
	for _, secondary := range doc.Secondary {
		key := w.d.secondaryKey(w.id, doc.Kind, secondary)
		if err := w.d.put(w.b, appendPart(key, doc.Key), nil); err != nil {
			return err
		}
	}
	return nil
}

// deleteDocumentExtra deletes the body and the secondary keys of a document.
func deleteDocumentExtra(w *writer, key, row []byte) error {
	var parts [2][]byte
	if err := splitKey(key, parts[:]); err != nil {
		return err
	}
	_, _, v, err := splitRowHead(row)
	if err != nil {
		return err
	}
	secondary, _, err := parseDocumentValue(v)
	if err != nil {
		return err
	}
	for _, s := range secondary {
		key := w.d.secondaryKey(w.id, string(parts[0]), s)
		if err := w.b.Delete(appendPart(key, string(parts[1]))); err != nil {
			return err
		}
	}
	return w.b.Delete(append(w.d.tableKey(w.id, tableBodies), key...))
}

// secondaryKey returns the beginning of the keys of all documents that have a
// secondary key.
func (d *Driver) secondaryKey(id storage.StoreID, kind, secondary string) []byte {
	return appendDocumentKey(d.tableKey(id, tableSecondary), kind, secondary)
}

// lookup finds the rows of steps in the store, in ascending order of their keys.
// It gets a few keys one by one. For many keys it uses one iterator and seeks
// from row to row.
type lookup struct {
	d     *Driver
	table int      // length of the part of key that all rows have
	hints bool     // whether Change.Fresh may be used
	it    Iterator // nil: get the keys one by one
	at    []byte   // current key of it; nil: it was not moved yet
	end   bool     // the iterator is at its end
	key   []byte   // buffer for a full key
	value []byte   // buffer for a value
}

// walkMin is the number of keys from which an iterator is cheaper than single
// reads.
const walkMin = 16

// open prepares the lookup of the rows of a plan. It reuses the buffers.
func (l *lookup) open(d *Driver, id storage.StoreID, p *plan) error {
	// If a filter of the same call removed the row of a fresh key, the row is still
	// in the store and must be found.
	*l = lookup{d: d, key: d.appendTableKey(l.key[:0], id, p.kind.live), value: l.value[:0], hints: len(p.filters) == 0}
	l.table = len(l.key)
	steps := p.steps
	reads, first, last := 0, -1, 0
	for i := range steps {
		if !l.skips(&steps[i]) {
			reads++
			last = i
			if first < 0 {
				first = i
			}
		}
	}
	if reads < walkMin {
		return nil
	}
	lower := append(bytes.Clone(l.key), steps[first].key...)
	upper := append(append(bytes.Clone(l.key), steps[last].key...), 0)
	it, err := d.store.Scan(lower, upper)
	l.it = it
	return err
}

// skips reports whether a key has no row according to a hint. s is the first step
// of the key.
func (l *lookup) skips(s *step) bool {
	return l.hints && s.change.Fresh && s.change.Kind == storage.TupleAdd
}

// find returns the row of the key of s. It is valid until the next call.
func (l *lookup) find(s step) (row []byte, found bool, err error) {
	if l.skips(&s) {
		return nil, false, nil
	}
	l.key = append(l.key[:l.table], s.key...)
	if l.it == nil {
		l.value, found, err = l.d.store.Get(l.key, l.value[:0])
		if err != nil || !found {
			return nil, false, err
		}
		row, err = l.d.verify(l.key, l.value)
		return row, err == nil, err
	}
	if l.at == nil || bytes.Compare(l.at, l.key) < 0 {
		if l.end || !l.it.Seek(l.key) {
			l.end, l.at = true, nil // the bytes of the iterator are no longer valid
			return nil, false, l.it.Err()
		}
		l.at = l.it.Key()
	}
	if !bytes.Equal(l.at, l.key) {
		return nil, false, nil
	}
	row, err = l.d.verify(l.key, l.it.Value())
	return row, err == nil, err
}

func (l *lookup) err() error {
	if l.it == nil {
		return nil
	}
	return l.it.Err()
}

func (l *lookup) close() {
	if l.it != nil {
		l.it.Close()
		l.it, l.at = nil, nil
	}
}

// fillTuple sets all fields of a tuple from the parts of its key and the value of
// its row.
func fillTuple(t *rel.Tuple, n *rowStrings, parts *[tupleParts][]byte, v *tupleValue) {
	t.Object.Type = n.word(0, parts[0])
	t.Object.ID = n.object(parts[1])
	t.Relation = n.word(1, parts[2])
	t.Subject.Type = n.word(2, parts[3])
	t.Subject.ID = n.text(parts[4])
	t.Subject.Relation = n.word(3, parts[5])
	t.Condition = n.word(4, v.condition)
	t.Context = n.text(v.context)
	t.Expires = v.expires
}
