package relations

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/door/native/client"
	"github.com/ostiary/ostiary/rel"
)

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

// moveTarget is where an import copies one store to: a folder, or an Ostiary.
type moveTarget struct {
	server *server
	store  *client.Store
	id     string
	// name is that of a store with an id of its own; "" keeps the name, id and aliases.
	name string
}

// open opens the store for the copy of from, or creates it. It returns the state that write
// stored last, or nil, and whether the store has no data.
func (t *moveTarget) open(ctx context.Context, from client.StoreInfo) (state []byte, empty bool, err error) {
	if t.name != "" {
		from, err = t.named(ctx)
	} else if _, err = t.server.Store(from.ID).Get(ctx); errors.Is(err, authz.ErrNoStore) {
		_, err = t.server.CreateStore(ctx, client.NewStore{Name: from.Name, ID: from.ID, Aliases: from.Aliases})
	}
	if err != nil {
		return nil, false, cli.NativeMissing(err)
	}
	t.id, t.store = from.ID, t.server.Store(from.ID)
	d, err := t.store.Document(ctx, moveKey)
	if !errors.Is(err, authz.ErrNoDocument) {
		return d.Value, false, err
	}
	log, err := t.store.Changes(ctx, client.Changes{Limit: 1})
	return nil, len(log.Entries) == 0, err
}

// named returns the store with the name, which it creates if there is none.
func (t *moveTarget) named(ctx context.Context) (client.StoreInfo, error) {
	have, err := t.server.Stores(ctx, t.name)
	switch {
	case err != nil:
		return client.StoreInfo{}, err
	case len(have) == 0:
		return t.server.CreateStore(ctx, client.NewStore{Name: t.name})
	case len(have) > 1:
		return client.StoreInfo{}, cli.WithText(fmt.Sprintf("the target has %d stores with the name %s: choose another one for --as", len(have), t.name), cli.ErrTarget)
	}
	return have[0], nil
}

// schemas returns the ids of the store's schemas.
func (t *moveTarget) schemas(ctx context.Context) (ids []string, err error) {
	list, err := t.store.Schemas(ctx)
	for _, found := range list {
		ids = append(ids, found.ID)
	}
	return ids, err
}

// writeSchema writes a schema with its id.
func (t *moveTarget) writeSchema(ctx context.Context, source authz.SchemaSource) error {
	n := client.NewSchema{ID: source.WithID}
	if len(source.Source) > 0 {
		n.Dialect, n.Source = source.Dialect, string(source.Source)
	} else {
		n.Model = source.Model
	}
	if source.Model != nil {
		n.Namespace = source.Model.Namespace
	}
	_, err := t.store.WriteSchema(ctx, n)
	return err
}

// writeAssertions replaces the assertions of a schema. body is the response of
// OpenFGA's API that has them.
func (t *moveTarget) writeAssertions(ctx context.Context, schemaID string, body []byte) error {
	_, err := t.server.Call(ctx, http.MethodPut, "/stores/"+t.id+"/assertions/"+schemaID, json.RawMessage(body), nil)
	return err
}

// moveBytes is the size of a write from which the rest of the tuples goes into
// another write, so that no request reaches the server's default --body-bytes.
const moveBytes = 1 << 20

// write adds or replaces data that the schema admits; "" is the current one. It stores
// the record, unless it is nil, with the last of the data.
func (t *moveTarget) write(ctx context.Context, data moveData, schemaID string, record *moveRecord) error {
	for {
		n, size := 0, 0
		for ; n < data.len() && size < moveBytes; n++ {
			size += data.size(n)
		}
		part, rest := data.cut(n)
		w := client.Write{Add: client.TuplesOf(part.tuples...), OnDuplicate: "replace", Schema: schemaID}
		for _, at := range part.attributes {
			w.SetAttributes = append(w.SetAttributes, client.Attribute{Object: at.Object.String(), Name: at.Name, Value: json.RawMessage(at.Value)})
		}
		if data = rest; data.len() == 0 && record != nil {
			importing := !record.done
			w.Documents, w.Importing = []client.Document{{Key: moveKey, Value: record.state}}, &importing
		}
		if _, err := t.store.Write(ctx, w); err != nil || data.len() == 0 {
			return err
		}
	}
}
