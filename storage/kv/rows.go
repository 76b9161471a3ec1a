package kv

import (
	"bytes"

	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// rowKind is what tuples, attributes and documents differ in.
type rowKind struct {
	live, removed table
	// puts says whether a kind of change makes a row; the others remove it.
	puts func(storage.ChangeKind) bool
	// value appends what the row says besides its head.
	value func(dst []byte, c *storage.Change) []byte
	// match says whether a filter selects the row's key.
	match func(f *storage.Filter, key []byte) (bool, error)
	// prefix appends to table what all selected keys begin with.
	prefix func(table []byte, f *storage.Filter) []byte
	// forget deletes what stands in other tables for a row that the store holds;
	// keep writes it for a new one. Both may be nil.
	forget func(w *writer, key, row []byte) error
	keep   func(w *writer, s *step) error
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
			return appendOpenPart(appendPart(bytes.Clone(table), f.DocumentKind), f.DocumentKeyPrefix)
		},
		forget: forgetDocument,
		keep:   keepDocument,
	}
}

// tuplePrefix narrows a scan by the object, and by the relation where the
// object is whole: the parts a tuple's key begins with. A filter that names
// only a subject reads all tuples; see docs/format.md for why there is no
// second index.
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
	if err := cutParts(key, parts[:]); err != nil {
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
	if err := cutParts(key, parts[:]); err != nil {
		return false, err
	}
	return (f.ObjectType == "" || f.ObjectType == string(parts[0])) &&
		(f.ObjectID == "" || f.ObjectID == string(parts[1])) &&
		(f.Name == "" || f.Name == string(parts[2])), nil
}

func matchDocument(f *storage.Filter, key []byte) (bool, error) {
	var parts [2][]byte
	if err := cutParts(key, parts[:]); err != nil {
		return false, err
	}
	return f.DocumentKind == string(parts[0]) && bytes.HasPrefix(parts[1], []byte(f.DocumentKeyPrefix)), nil
}

// keepDocument writes a document's body and secondary keys.
func keepDocument(w *writer, s *step) error {
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

// forgetDocument deletes them.
func forgetDocument(w *writer, key, row []byte) error {
	var parts [2][]byte
	if err := cutParts(key, parts[:]); err != nil {
		return err
	}
	_, _, v, err := cutRowHead(row)
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

// secondaryKey is the beginning of the keys of all documents of a kind that
// have the secondary key.
func (d *Driver) secondaryKey(id storage.StoreID, kind, secondary string) []byte {
	return appendDocumentKey(d.tableKey(id, tableSecondary), kind, secondary)
}

// lookup finds the rows that steps' keys have in the store, in ascending order
// of keys. Few keys are asked one by one, where a store's filters help; many
// are walked with one iterator, which skips what lies between two rows.
type lookup struct {
	d     *Driver
	table int      // bytes of key before a row's own
	hints bool     // whether steps' Fresh may be believed
	it    Iterator // nil: ask one by one
	at    []byte   // where it stands; nil: before the first
	end   bool
	key   []byte
	value []byte
}

// walkMin is the number of keys from which on one walk is cheaper than asking.
const walkMin = 16

// open begins the search for a plan's rows, in the memory of the last one.
func (l *lookup) open(d *Driver, id storage.StoreID, p *plan) error {
	// With filters a key may be fresh only because a filter of the same call
	// removed its row; then the row must be found.
	*l = lookup{d: d, key: d.appendTableKey(l.key[:0], id, p.kind.live), value: l.value[:0], hints: len(p.filters) == 0}
	l.table = len(l.key)
	steps := p.steps
	asked, first, last := 0, -1, 0
	for i := range steps {
		if !l.skips(&steps[i]) {
			asked++
			last = i
			if first < 0 {
				first = i
			}
		}
	}
	if asked < walkMin {
		return nil
	}
	lower := append(bytes.Clone(l.key), steps[first].key...)
	upper := append(append(bytes.Clone(l.key), steps[last].key...), 0)
	it, err := d.store.Scan(lower, upper)
	l.it = it
	return err
}

// skips says whether the caller knows that a key whose first step is s has no
// row.
func (l *lookup) skips(s *step) bool {
	return l.hints && s.change.Fresh && s.change.Kind == storage.TupleAdd
}

// find returns the row of s's key; it is valid until the next call.
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
			l.end, l.at = true, nil // the iterator's bytes are no key any more
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

// fillTuple sets a tuple from its key's parts and its row's value.
func fillTuple(t *rel.Tuple, n *names, parts *[tupleParts][]byte, v *tupleValue) {
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
