package storagetest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// Model computes the state that follows from entries in the simplest way: it keeps
// all rows in slices and tries each filter on each row.
type Model struct {
	// Head is the head after the entries.
	Head storage.Head
	// Tuples are the rows of tuples, live and removed, in order of creation.
	Tuples []storage.TupleRow
	// Attributes are the rows of attributes, live and removed, in order of creation.
	Attributes []storage.AttributeRow
	// Documents are the rows of documents, live and removed, in order of creation.
	Documents []storage.DocumentRow

	bodies     map[[2]string]storage.Document // live documents, by kind and key
	liveTuples map[rel.Key]int                // indexes of live rows in Tuples
}

// NewModel returns the model of an empty store.
func NewModel() *Model {
	return &Model{bodies: map[[2]string]storage.Document{}, liveTuples: map[rel.Key]int{}}
}

// Apply applies an entry, which must follow m.Head.
func (m *Model) Apply(e storage.Entry) {
	for _, c := range e.Changes {
		m.change(&e, c)
	}
	m.Head = storage.Head{Revision: e.Revision, Hash: e.Hash(), Time: e.Time}
}

func (m *Model) change(e *storage.Entry, c storage.Change) {
	switch c.Kind {
	case storage.TupleAdd:
		m.removeTuple(c.Tuple.Key(), e.Revision)
		m.liveTuples[c.Tuple.Key()] = len(m.Tuples)
		m.Tuples = append(m.Tuples, storage.TupleRow{Tuple: c.Tuple, Created: e.Revision, CreatedAt: e.Time})
	case storage.TupleRemove:
		m.removeTuple(c.Tuple.Key(), e.Revision)
	case storage.AttributeSet:
		m.removeAttribute(c.Attribute, e.Revision)
		m.Attributes = append(m.Attributes, storage.AttributeRow{Attribute: c.Attribute, Created: e.Revision})
	case storage.AttributeRemove:
		m.removeAttribute(c.Attribute, e.Revision)
	case storage.DocumentPut:
		m.removeDocument(c.Document.Kind, c.Document.Key, e.Revision)
		m.putDocument(e, c.Document)
	case storage.DocumentRemove:
		m.removeDocument(c.Document.Kind, c.Document.Key, e.Revision)
	case storage.RemoveByFilter:
		m.filter(c.Filter, e.Revision)
	}
}

func (m *Model) removeTuple(k rel.Key, r storage.Revision) {
	if i, ok := m.liveTuples[k]; ok {
		m.Tuples[i].Removed = r
		delete(m.liveTuples, k)
	}
}

func (m *Model) removeAttribute(a rel.Attribute, r storage.Revision) {
	for i := range m.Attributes {
		row := &m.Attributes[i]
		if row.Removed == 0 && row.Attribute.Object == a.Object && row.Attribute.Name == a.Name {
			row.Removed = r
		}
	}
}

func (m *Model) putDocument(e *storage.Entry, doc storage.Document) {
	m.bodies[[2]string{doc.Kind, doc.Key}] = doc
	m.Documents = append(m.Documents, storage.DocumentRow{
		Kind: doc.Kind, Key: doc.Key, Secondary: doc.Secondary,
		Created: e.Revision, CreatedAt: e.Time, BodyBytes: len(doc.Body),
	})
}

func (m *Model) removeDocument(kind, key string, r storage.Revision) {
	for i := range m.Documents {
		if row := &m.Documents[i]; row.Removed == 0 && row.Kind == kind && row.Key == key {
			row.Removed = r
			delete(m.bodies, [2]string{kind, key})
		}
	}
}

func (m *Model) filter(f storage.Filter, r storage.Revision) {
	switch f.Target {
	case storage.FilterTuples:
		for i := range m.Tuples {
			if k := m.Tuples[i].Tuple.Key(); m.Tuples[i].Removed == 0 && f.Tuple.Match(k) {
				m.removeTuple(k, r)
			}
		}
	case storage.FilterAttributes:
		for i := range m.Attributes {
			row := &m.Attributes[i]
			a := row.Attribute
			if row.Removed == 0 && matches(f.ObjectType, a.Object.Type) && matches(f.ObjectID, a.Object.ID) && matches(f.Name, a.Name) {
				row.Removed = r
			}
		}
	case storage.FilterDocuments:
		for _, row := range m.Documents {
			if row.Removed == 0 && row.Kind == f.DocumentKind && strings.HasPrefix(row.Key, f.DocumentKeyPrefix) {
				m.removeDocument(row.Kind, row.Key, r)
			}
		}
	}
}

// matches reports whether a field of a filter selects a value.
func matches(field, value string) bool { return field == "" || field == value }

// Compare loads the state of a store, with its removed rows, and returns an error
// if it differs from m. It expects no rows that were removed at the revision
// trimmed or earlier.
func (m *Model) Compare(ctx context.Context, d storage.Driver, id storage.StoreID, trimmed storage.Revision) error {
	after := trimmed
	st, err := d.Load(ctx, id, storage.LoadOptions{RemovedAfter: &after})
	if err != nil {
		return err
	}
	defer st.Close()
	if st.Head != m.Head {
		return fmt.Errorf("the state has head %d %s, want %d %s", st.Head.Revision, st.Head.Hash, m.Head.Revision, m.Head.Hash)
	}
	if err := compareRows("tuple", st.Tuples, m.Tuples, trimmed, func(r storage.TupleRow) (string, storage.Revision, storage.Revision) {
		return fmt.Sprintf("%+q", r.Tuple.String()) + fmt.Sprint(r.CreatedAt), r.Created, r.Removed
	}); err != nil {
		return err
	}
	if err := compareRows("attribute", st.Attributes, m.Attributes, trimmed, func(r storage.AttributeRow) (string, storage.Revision, storage.Revision) {
		return fmt.Sprintf("%+q", r.Attribute), r.Created, r.Removed
	}); err != nil {
		return err
	}
	if err := compareRows("document", st.Documents, m.Documents, trimmed, func(r storage.DocumentRow) (string, storage.Revision, storage.Revision) {
		return fmt.Sprintf("%q %q %q %d %d", r.Kind, r.Key, r.Secondary, r.BodyBytes, r.CreatedAt), r.Created, r.Removed
	}); err != nil {
		return err
	}
	return m.compareBodies(ctx, d, id, &st)
}

// compareBodies compares the live documents that are read one by one, and those that
// the state yields by kind.
func (m *Model) compareBodies(ctx context.Context, d storage.Driver, id storage.StoreID, st *storage.State) error {
	kinds := map[string][]string{"no such kind": nil}
	for k, want := range m.bodies {
		kinds[k[0]] = append(kinds[k[0]], k[1])
		have, err := d.Document(ctx, id, k[0], k[1])
		if err != nil {
			return err
		}
		if !sameDocument(have, want) {
			return fmt.Errorf("document %q of kind %q differs from what was put", k[1], k[0])
		}
	}
	for kind, want := range kinds {
		var keys []string
		for have, err := range st.Bodies(kind) {
			if err != nil {
				return err
			}
			keys = append(keys, have.Key)
			if !sameDocument(have, m.bodies[[2]string{kind, have.Key}]) {
				return fmt.Errorf("document %q of kind %q in Bodies differs from what was put", have.Key, kind)
			}
		}
		if slices.Sort(want); !slices.Equal(keys, want) {
			return fmt.Errorf("Bodies(%q) yields the keys %q, want %q", kind, keys, want)
		}
	}
	return nil
}

func sameDocument(a, b storage.Document) bool {
	return a.Kind == b.Kind && a.Key == b.Key && string(a.Body) == string(b.Body) && slices.Equal(a.Secondary, b.Secondary)
}

// compareRows compares rows without their order. It does not expect rows that the
// same entry created and removed, because they were never live. describe returns a
// text for a row, and the revisions that created and removed it.
func compareRows[R storage.TupleRow | storage.AttributeRow | storage.DocumentRow](what string, have func(func(R, error) bool), want []R, trimmed storage.Revision, describe func(R) (string, storage.Revision, storage.Revision)) error {
	count := map[string]int{}
	line := func(r R) (string, bool) {
		text, created, removed := describe(r)
		return fmt.Sprintf("%s created %d removed %d", text, created, removed), removed == 0 || removed > created && removed > trimmed
	}
	for _, r := range want {
		if text, counts := line(r); counts {
			count[text]++
		}
	}
	for r, err := range have {
		if err != nil {
			return err
		}
		text, _ := line(r)
		count[text]--
	}
	for text, n := range count {
		if n != 0 {
			return fmt.Errorf("%s %s: %+d rows are missing", what, text, n)
		}
	}
	return nil
}

// Verify reads the whole log of a store and compares the state that follows from
// it with the state that the driver loads. It returns the log, and an error if they
// differ.
func Verify(ctx context.Context, d storage.Driver, id storage.StoreID) ([]storage.Entry, error) {
	m := NewModel()
	var log []storage.Entry
	for e, err := range d.Entries(ctx, id, 1) {
		if err != nil {
			return nil, err
		}
		m.Apply(e)
		log = append(log, e)
	}
	if len(log) > 0 {
		if _, err := storage.Chain(storage.Head{}, log); err != nil {
			return nil, err
		}
	}
	return log, m.Compare(ctx, d, id, 0)
}
