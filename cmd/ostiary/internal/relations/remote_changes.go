package relations

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door/native"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// nativeEntry is an entry of the log in the native API.
type nativeEntry struct {
	Revision uint64
	Time     time.Time
	Token    string
	native.OriginJSON
	Changes []nativeChange
}

// nativeChange is a change of an entry. Op determines which other fields are set.
type nativeChange struct {
	Op        string
	Tuple     *nativeTuple
	Attribute *nativeAttribute
	Tuples    *struct {
		ObjectType      string `json:"object_type"`
		ObjectID        string `json:"object_id"`
		Relation        string
		SubjectType     string `json:"subject_type"`
		SubjectID       string `json:"subject_id"`
		SubjectRelation string `json:"subject_relation"`
	}
	Attributes *struct {
		ObjectType string `json:"object_type"`
		ObjectID   string `json:"object_id"`
		Name       string
	}
	Document *struct{ Kind, Key string }
}

// nativeAttribute is an attribute in the native API.
type nativeAttribute struct {
	Object string          `json:"object"`
	Name   string          `json:"name"`
	Value  json.RawMessage `json:"value"`
}

// attribute returns the attribute in the engine's form.
func (n *nativeAttribute) attribute() (out rel.Attribute, err error) {
	out.Object, err = rel.ParseObject(n.Object)
	out.Name, out.Value = n.Name, string(n.Value)
	return out, err
}

// change returns the change in the engine's form.
func (n *nativeChange) change() (c storage.Change, err error) {
	kinds := map[string]storage.ChangeKind{"add": storage.TupleAdd, "remove": storage.TupleRemove, "set_attribute": storage.AttributeSet,
		"remove_attribute": storage.AttributeRemove, "put_document": storage.DocumentPut, "remove_document": storage.DocumentRemove,
		"remove_matching": storage.RemoveByFilter}
	c.Kind = kinds[n.Op]
	switch {
	case n.Tuple != nil:
		c.Tuple, err = n.Tuple.tuple()
	case n.Attribute != nil:
		c.Attribute, err = n.Attribute.attribute()
	case n.Tuples != nil:
		f := n.Tuples
		c.Filter = storage.Filter{Target: storage.FilterTuples, Tuple: rel.Filter{ObjectType: f.ObjectType, ObjectID: f.ObjectID, Relation: f.Relation,
			SubjectType: f.SubjectType, SubjectID: f.SubjectID, SubjectRelation: f.SubjectRelation}}
	case n.Attributes != nil:
		c.Filter = storage.Filter{Target: storage.FilterAttributes, ObjectType: n.Attributes.ObjectType, ObjectID: n.Attributes.ObjectID, Name: n.Attributes.Name}
	case n.Document != nil:
		c.Document.Kind, c.Document.Key = n.Document.Kind, n.Document.Key
	}
	return c, err
}

func (n *nativeEntry) entry() (ostiary.ChangeEntry, error) {
	e := ostiary.ChangeEntry{Revision: storage.Revision(n.Revision), Time: n.Time, Token: ostiary.Token(n.Token)}
	var err error
	if e.Origin, err = n.OriginJSON.Origin(); err != nil {
		return e, err
	}
	for i := range n.Changes {
		c, err := n.Changes[i].change()
		if err != nil {
			return e, err
		}
		e.Changes = append(e.Changes, c)
	}
	return e, nil
}

// remoteLog reads the log of a server's store.
type remoteLog struct{ *remote }

// Changes returns one page of the log.
func (l remoteLog) Changes(ctx context.Context, q ostiary.ChangesRequest) (out ostiary.ChangePage, err error) {
	in := map[string]any{}
	if q.After != "" {
		in["after"] = q.After
	} else if !q.Since.IsZero() {
		in["since"] = q.Since.Format(time.RFC3339Nano)
	}
	if q.Types != nil {
		in["types"] = q.Types
	}
	var page struct {
		Entries []nativeEntry
		Next    string
		More    bool
	}
	if err := l.nativeCall(ctx, "/changes", in, &page); err != nil {
		return out, err
	}
	out.Next, out.More = ostiary.Token(page.Next), page.More
	for i := range page.Entries {
		e, err := page.Entries[i].entry()
		if err != nil {
			return out, err
		}
		out.Entries = append(out.Entries, e)
	}
	return out, nil
}

// follow prints the entries after a token until ctx ends.
func (l remoteLog) follow(ctx context.Context, q ostiary.WatchRequest) error {
	query := url.Values{"after": {string(q.After)}}
	if len(q.Types) > 0 {
		query.Set("types", strings.Join(q.Types, ","))
	}
	body, err := l.a.NativeStream(ctx, http.MethodGet, "/watch?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	defer body.Close()
	last, err := eachEvent(body, func(data []byte) error {
		var n nativeEntry
		if err := json.Unmarshal(data, &n); err != nil {
			return err
		}
		e, err := n.entry()
		if err != nil {
			return err
		}
		return l.a.printEntry(&e)
	})
	return l.a.endOfStream(ctx, cmp.Or(last, string(q.After)), err)
}
