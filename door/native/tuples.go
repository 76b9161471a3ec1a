package native

import (
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/journal"
	"github.com/ostiary/ostiary/internal/tool/jsonread"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// readChange reads one member of a write that changes data. It returns false if
// there is no such member.
func readChange(r *jsonread.Reader, w *authz.WriteRequest) bool {
	switch string(r.Name()) {
	case "add":
		w.Add = readTuples(r)
	case "remove":
		for r.Array(); r.Item(); {
			t := readTuple(r, true)
			w.Remove = append(w.Remove, t.Key())
		}
	case "remove_matching":
		for r.Array(); r.Item(); {
			w.RemoveMatching = append(w.RemoveMatching, readMatching(r))
		}
	case "set_attributes":
		w.SetAttributes = readAttributes(r, true)
	case "remove_attributes":
		w.RemoveAttributes = readAttributes(r, false)
	default:
		return false
	}
	return true
}

// readMatching reads a filter of remove_matching: {"tuples": filter} or
// {"attributes": {object_type, object_id, name}}.
func readMatching(r *jsonread.Reader) (f storage.Filter) {
	n := 0
	for r.Object(); r.Field(); n++ {
		switch string(r.Name()) {
		case "tuples":
			f.Target, f.Tuple = storage.FilterTuples, readFilter(r)
		case "attributes":
			f.Target = storage.FilterAttributes
			f.ObjectType, f.ObjectID, f.Name = readAttributeFilter(r)
		default:
			r.Unknown()
		}
	}
	if n != 1 {
		r.Fail("expected either tuples or attributes")
	}
	return f
}

// readAttributeFilter reads a filter for attributes.
func readAttributeFilter(r *jsonread.Reader) (typ, id, name string) {
	for r.Object(); r.Field(); {
		switch string(r.Name()) {
		case "object_type":
			typ = r.String()
		case "object_id":
			id = r.String()
		case "name":
			name = r.String()
		default:
			r.Unknown()
		}
	}
	return typ, id, name
}

// parseConflictAction returns the action of that name. replace is true if
// "replace" is allowed.
func parseConflictAction(text string, replace bool) (p authz.ConflictAction, ok bool) {
	switch text {
	case "fail":
		return authz.Fail, true
	case "ignore":
		return authz.Ignore, true
	case "replace":
		return authz.Replace, replace
	}
	return p, false
}

// readConflictAction reads an action; see parseConflictAction.
func readConflictAction(r *jsonread.Reader, replace bool) authz.ConflictAction {
	p, ok := parseConflictAction(r.String(), replace)
	if !ok {
		r.Fail(map[bool]string{true: "expected fail, ignore or replace", false: "expected fail or ignore"}[replace])
	}
	return p
}

// write serves Write.
func (c *call) write() error {
	var w authz.WriteRequest
	r := jsonread.New(c.body)
	for r.Object(); r.Field(); {
		switch string(r.Name()) {
		case "on_duplicate":
			w.OnDuplicate = readConflictAction(r, true)
		case "on_missing":
			w.OnMissing = readConflictAction(r, false)
		case "schema":
			w.SchemaID = r.String()
		case "documents":
			for r.Array(); r.Item(); {
				w.Documents = append(w.Documents, readDocument(r))
			}
		case "importing":
			mark := authz.DocumentKey{Kind: authz.ImportKind, Key: authz.ImportKey}
			if r.Bool() {
				w.Documents = append(w.Documents, authz.Document{Kind: mark.Kind, Key: mark.Key, Body: []byte("true")})
			} else {
				w.RemoveDocuments = append(w.RemoveDocuments, mark)
			}
		case "preconditions":
			for r.Array(); r.Item(); {
				w.Preconditions = append(w.Preconditions, readPrecondition(r))
			}
		default:
			if !readChange(r, &w) {
				r.Unknown()
			}
		}
	}
	if err := r.End(); err != nil {
		return err
	}
	before, err := c.store.Head(c.Context())
	if err != nil {
		return err
	}
	token, err := c.store.Write(c.Context(), w)
	if err != nil {
		return err
	}
	revision, err := token.Revision()
	if err != nil {
		return err
	}
	return c.setJSON(struct {
		writeResultJSON
		Unchanged bool `json:"unchanged,omitempty"`
	}{writeResultJSON{string(token), uint64(revision)}, token == before && !journal.Of(c.Context()).SentBefore()})
}

// readPrecondition reads a precondition of a write.
func readPrecondition(r *jsonread.Reader) (p authz.Precondition) {
	has := false
	for r.Object(); r.Field(); {
		switch string(r.Name()) {
		case "filter":
			p.Filter, has = readFilter(r), true
		case "absent":
			p.Absent = r.Bool()
		default:
			r.Unknown()
		}
	}
	if !has {
		r.Fail("filter is missing")
	}
	return p
}

// readListRequest decodes a request of Read or ReadAttributes. filter reads its
// filter.
func (c *call) readListRequest(filter func(*jsonread.Reader)) (limit int, cursor string, at authz.Consistency, err error) {
	r := jsonread.New(c.body)
	for r.Object(); r.Field(); {
		switch string(r.Name()) {
		case "filter":
			filter(r)
		case "at":
			at = readAt(r)
		default:
			if !readPage(r, &limit, &cursor) {
				r.Unknown()
			}
		}
	}
	return limit, cursor, at, r.End()
}

// read serves Read: the tuples that a filter selects.
func (c *call) read() error {
	var q authz.ReadRequest
	var err error
	q.Limit, q.Cursor, q.Consistency, err = c.readListRequest(func(r *jsonread.Reader) { q.Filter = readFilter(r) })
	if err != nil {
		return err
	}
	page, err := c.store.Read(c.Context(), q)
	if err != nil {
		return err
	}
	out := struct {
		Tuples   []tupleJSON `json:"tuples"`
		Next     string      `json:"next"`
		Revision uint64      `json:"revision"`
	}{make([]tupleJSON, len(page.Tuples)), page.Next, uint64(page.Revision)}
	for i := range page.Tuples {
		t := &page.Tuples[i]
		out.Tuples[i] = tupleOf(&t.Tuple)
		if !t.Created.IsZero() {
			out.Tuples[i].Created = &t.Created
		}
	}
	return c.setJSON(out)
}

// readAttributes serves ReadAttributes: the attributes that a filter selects.
func (c *call) readAttributes() error {
	var q authz.ReadAttributesRequest
	var err error
	q.Limit, q.Cursor, q.Consistency, err = c.readListRequest(func(r *jsonread.Reader) {
		q.ObjectType, q.ObjectID, q.Name = readAttributeFilter(r)
	})
	if err != nil {
		return err
	}
	page, err := c.store.ReadAttributes(c.Context(), q)
	if err != nil {
		return err
	}
	out := struct {
		Attributes []attributeJSON `json:"attributes"`
		Next       string          `json:"next"`
		Revision   uint64          `json:"revision"`
	}{make([]attributeJSON, len(page.Attributes)), page.Next, uint64(page.Revision)}
	for i := range page.Attributes {
		out.Attributes[i] = attributeOf(&page.Attributes[i])
	}
	return c.setJSON(out)
}

// changeJSON is one change of an entry of the log.
type changeJSON struct {
	// Op names the change, for example "add". It determines which other fields
	// are set.
	Op        string         `json:"op"`
	Tuple     *tupleJSON     `json:"tuple,omitempty"`
	Attribute *attributeJSON `json:"attribute,omitempty"`
	// Tuples and Attributes are the filter of "remove_matching".
	Tuples     *filterJSON          `json:"tuples,omitempty"`
	Attributes *attributeFilterJSON `json:"attributes,omitempty"`
	Document   *documentJSON        `json:"document,omitempty"`
}

// attributeFilterJSON is a filter for attributes. An empty field matches
// everything.
type attributeFilterJSON struct {
	ObjectType string `json:"object_type,omitempty"`
	ObjectID   string `json:"object_id,omitempty"`
	Name       string `json:"name,omitempty"`
}

// documentJSON identifies a document. A schema has the kind "schema" and its id
// as key.
type documentJSON struct {
	Kind string `json:"kind"`
	Key  string `json:"key"`
}

// changeOf translates a change.
func changeOf(ch *storage.Change) changeJSON {
	switch ch.Kind {
	case storage.TupleAdd, storage.TupleRemove:
		t := tupleOf(&ch.Tuple)
		op := map[bool]string{true: "add", false: "remove"}[ch.Kind == storage.TupleAdd]
		return changeJSON{Op: op, Tuple: &t}
	case storage.AttributeSet, storage.AttributeRemove:
		a := attributeOf(&ch.Attribute)
		op := map[bool]string{true: "set_attribute", false: "remove_attribute"}[ch.Kind == storage.AttributeSet]
		return changeJSON{Op: op, Attribute: &a}
	case storage.DocumentPut:
		return changeJSON{Op: "put_document", Document: &documentJSON{ch.Document.Kind, ch.Document.Key}}
	case storage.DocumentRemove:
		return changeJSON{Op: "remove_document", Document: &documentJSON{ch.Document.Kind, ch.Document.Key}}
	case storage.SecretPut:
		return changeJSON{Op: "put_secret"}
	case storage.SecretRemove:
		return changeJSON{Op: "remove_secret"}
	}
	out := changeJSON{Op: "remove_matching"}
	switch f := &ch.Filter; f.Target {
	case storage.FilterTuples:
		t := filterOf(f.Tuple)
		out.Tuples = &t
	case storage.FilterAttributes:
		out.Attributes = &attributeFilterJSON{f.ObjectType, f.ObjectID, f.Name}
	default:
		out.Document = &documentJSON{f.DocumentKind, f.DocumentKeyPrefix}
	}
	return out
}

// filterOf translates a filter for tuples.
func filterOf(f rel.Filter) filterJSON {
	return filterJSON{f.ObjectType, f.ObjectID, f.Relation, f.SubjectType, f.SubjectID, f.SubjectRelation, f.SubjectPlain}
}
