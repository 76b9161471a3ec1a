package relations

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/cmd/ostiary/internal/cli"
	"github.com/ostiary/ostiary/door/native"
	"github.com/ostiary/ostiary/door/openfga"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// moveTarget is where an import copies one store to.
type moveTarget interface {
	// open opens the store with an id, or creates it with a name and aliases. It
	// returns the state that write stored last, or nil, and whether the store has no
	// data.
	open(ctx context.Context, id storage.StoreID, name string, aliases map[string]string) (state []byte, empty bool, err error)
	// schemas returns the ids of the store's schemas.
	schemas(ctx context.Context) ([]string, error)
	// writeSchema writes a schema with its id.
	writeSchema(ctx context.Context, source ostiary.SchemaSource) error
	// writeAssertions replaces the assertions of a schema. body is the response of
	// OpenFGA's API that has them.
	writeAssertions(ctx context.Context, schemaID string, body []byte) error
	// write adds or replaces data that the schema admits; "" is the current one. It
	// stores the record, unless it is nil, with the last of the data.
	write(ctx context.Context, data moveData, schemaID string, record *moveRecord) error
}

// moveRecord is what a target stores about the import of a store: its state. Until
// the import is done, the store is marked as incomplete.
type moveRecord struct {
	state []byte
	done  bool
}

// moveData is what one write of an import stores: tuples or attributes.
type moveData struct {
	tuples     []rel.Tuple
	attributes []rel.Attribute
}

func (d moveData) len() int { return len(d.tuples) + len(d.attributes) }

// cut returns the first n tuples and attributes, and the others.
func (d moveData) cut(n int) (first, rest moveData) {
	t := min(n, len(d.tuples))
	a := n - t
	return moveData{d.tuples[:t], d.attributes[:a]}, moveData{d.tuples[t:], d.attributes[a:]}
}

// halves returns the data in two parts.
func (d moveData) halves() [2]moveData {
	first, second := d.cut(d.len() / 2)
	return [2]moveData{first, second}
}

// size returns about the size of the tuple or attribute i in a request, in bytes.
func (d moveData) size(i int) int {
	if i < len(d.tuples) {
		return len(d.tuples[i].String())
	}
	at := &d.attributes[i-len(d.tuples)]
	return len(at.Object.String()) + len(at.Name) + len(at.Value)
}

// folderTarget is a store of a data folder.
type folderTarget struct {
	engine *ostiary.Engine
	store  *ostiary.Store
}

func (f *folderTarget) open(ctx context.Context, id storage.StoreID, name string, aliases map[string]string) (state []byte, empty bool, err error) {
	f.store, err = f.engine.Store(ctx, id)
	if errors.Is(err, ostiary.ErrNoStore) {
		f.store, err = f.engine.CreateStore(ctx, ostiary.CreateStoreRequest{ID: id, Name: name, Aliases: aliases})
	}
	if err != nil {
		return nil, false, err
	}
	head, err := f.store.Head(ctx)
	if err != nil {
		return nil, false, err
	}
	revision, err := head.Revision()
	if err != nil {
		return nil, false, err
	}
	d, err := f.store.Document(ctx, ostiary.DocumentKey{Kind: native.DocumentsKind, Key: moveKey})
	if errors.Is(err, ostiary.ErrNoDocument) {
		return nil, revision == 0, nil
	}
	return d.Body, false, err
}

func (f *folderTarget) schemas(ctx context.Context) (ids []string, err error) {
	list, err := f.store.Schemas(ctx)
	for _, s := range list {
		ids = append(ids, s.ID)
	}
	return ids, err
}

func (f *folderTarget) writeSchema(ctx context.Context, source ostiary.SchemaSource) error {
	_, _, err := f.store.WriteSchema(ctx, source)
	return err
}

func (f *folderTarget) writeAssertions(ctx context.Context, schemaID string, body []byte) error {
	_, err := f.store.Write(ctx, ostiary.WriteRequest{Documents: []ostiary.Document{{Kind: openfga.AssertionsKind, Key: schemaID, Body: body}}})
	return err
}

func (f *folderTarget) write(ctx context.Context, data moveData, schemaID string, record *moveRecord) error {
	w := ostiary.WriteRequest{Add: data.tuples, SetAttributes: data.attributes, OnDuplicate: ostiary.Replace, SchemaID: schemaID}
	if record != nil {
		w.Documents = []ostiary.Document{{Kind: native.DocumentsKind, Key: moveKey, Body: record.state}}
		if record.done {
			w.RemoveDocuments = []ostiary.DocumentKey{{Kind: ostiary.ImportKind, Key: ostiary.ImportKey}}
		} else {
			w.Documents = append(w.Documents, ostiary.Document{Kind: ostiary.ImportKind, Key: ostiary.ImportKey, Body: []byte("true")})
		}
	}
	_, err := f.store.Write(ctx, w)
	return err
}

// serverTarget is a store of a running ostiary serve.
type serverTarget struct {
	*remote
	id string
}

// path returns the path of a route of the native API about the store.
func (s *serverTarget) path(below string) string { return cli.NativePath + s.id + below }

func (s *serverTarget) open(ctx context.Context, id storage.StoreID, name string, aliases map[string]string) (state []byte, empty bool, err error) {
	s.id = id.String()
	_, err = s.Call(ctx, http.MethodGet, s.path(""), nil, nil)
	if at, ok := errors.AsType[*cli.RemoteError](err); ok && at.Code == "no_store" {
		_, err = s.Call(ctx, http.MethodPost, cli.NativePrefix+"/stores", map[string]any{"name": name, "id": s.id, "aliases": withAlias(aliases, "", "")}, nil)
	}
	if err != nil {
		return nil, false, cli.NativeMissing(err)
	}
	var d struct{ Value json.RawMessage }
	_, err = s.Call(ctx, http.MethodGet, s.path("/documents/"+url.PathEscape(moveKey)), nil, &d)
	if at, ok := errors.AsType[*cli.RemoteError](err); !ok || at.Code != "no_document" {
		return d.Value, false, err
	}
	var log struct{ Entries []json.RawMessage }
	_, err = s.Call(ctx, http.MethodPost, s.path("/changes"), map[string]any{"limit": 1}, &log)
	return nil, len(log.Entries) == 0, err
}

func (s *serverTarget) schemas(ctx context.Context) (ids []string, err error) {
	var list struct{ Schemas []struct{ ID string } }
	_, err = s.Call(ctx, http.MethodGet, s.path("/schemas"), nil, &list)
	for _, found := range list.Schemas {
		ids = append(ids, found.ID)
	}
	return ids, err
}

func (s *serverTarget) writeSchema(ctx context.Context, source ostiary.SchemaSource) error {
	in := map[string]any{"id": source.WithID}
	if len(source.Source) > 0 {
		in["dialect"], in["source"] = source.Dialect, string(source.Source)
	} else {
		in["model"] = source.Model
	}
	if source.Model != nil && source.Model.Namespace != "" {
		in["namespace"] = source.Model.Namespace
	}
	_, err := s.Call(ctx, http.MethodPost, s.path("/schemas"), in, nil)
	return err
}

func (s *serverTarget) writeAssertions(ctx context.Context, schemaID string, body []byte) error {
	_, err := s.Call(ctx, http.MethodPut, "/stores/"+s.id+"/assertions/"+schemaID, json.RawMessage(body), nil)
	return err
}

// moveBytes is the size of a write from which the rest of the tuples goes into
// another write, so that no request reaches the server's default --body-bytes.
const moveBytes = 1 << 20

func (s *serverTarget) write(ctx context.Context, data moveData, schemaID string, record *moveRecord) error {
	for {
		n, size := 0, 0
		for ; n < data.len() && size < moveBytes; n++ {
			size += data.size(n)
		}
		part, rest := data.cut(n)
		in := map[string]any{"add": cli.NativeTuples(part.tuples), "set_attributes": nativeAttributes(part.attributes), "on_duplicate": "replace"}
		if schemaID != "" {
			in["schema"] = schemaID
		}
		if data = rest; data.len() == 0 && record != nil {
			in["documents"] = []any{map[string]any{"key": moveKey, "value": json.RawMessage(record.state)}}
			in["importing"] = !record.done
		}
		if _, err := s.Call(ctx, http.MethodPost, s.path("/write"), in, nil); err != nil || data.len() == 0 {
			return err
		}
	}
}

// nativeAttributes returns attributes in the native API's form.
func nativeAttributes(attributes []rel.Attribute) []nativeAttribute {
	out := []nativeAttribute{}
	for _, at := range attributes {
		out = append(out, nativeAttribute{at.Object.String(), at.Name, json.RawMessage(at.Value)})
	}
	return out
}
