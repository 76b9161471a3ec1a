package client

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
)

// Stores returns the stores with a name, or all stores for "", in the order of their
// ids.
func (c *Client) Stores(ctx context.Context, name string) (all []StoreInfo, err error) {
	query := url.Values{}
	if name != "" {
		query.Set("name", name)
	}
	for {
		var page struct {
			Stores []StoreInfo
			Next   string
		}
		if _, err := c.Call(ctx, http.MethodGet, prefix+"/stores?"+query.Encode(), nil, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Stores...)
		if page.Next == "" {
			return all, nil
		}
		query.Set("after", page.Next)
	}
}

// CreateStore creates a store.
func (c *Client) CreateStore(ctx context.Context, s NewStore) (out StoreInfo, err error) {
	_, err = c.Call(ctx, http.MethodPost, prefix+"/stores", s, &out)
	return out, err
}

// Store returns the store with an id, or an alias for the native door. It sends no
// request.
func (c *Client) Store(id string) *Store { return &Store{c, id} }

// Store sends requests about one store. It is safe for concurrent use.
type Store struct {
	client *Client
	id     string
}

// Path returns the path of a route about the store.
func (s *Store) Path(below string) string { return prefix + "/stores/" + url.PathEscape(s.id) + below }

// Get returns the store with its newest revision and its current schema.
func (s *Store) Get(ctx context.Context) (out StoreInfo, err error) {
	_, err = s.client.Call(ctx, http.MethodGet, s.Path(""), nil, &out)
	return out, err
}

// Rename gives the store a name.
func (s *Store) Rename(ctx context.Context, name string) (out StoreInfo, err error) {
	_, err = s.client.Call(ctx, http.MethodPatch, s.Path(""), map[string]string{"name": name}, &out)
	return out, err
}

// SetAliases replaces the aliases of the store, by door.
func (s *Store) SetAliases(ctx context.Context, aliases map[string]string) (out StoreInfo, err error) {
	_, err = s.client.Call(ctx, http.MethodPatch, s.Path(""), map[string]any{"aliases": aliases}, &out)
	return out, err
}

// Delete deletes the store with all its data.
func (s *Store) Delete(ctx context.Context) error {
	_, err := s.client.Call(ctx, http.MethodDelete, s.Path(""), nil, nil)
	return err
}

// post sends a request to a route about the store.
func (s *Store) post(ctx context.Context, path string, in, out any) error {
	_, err := s.client.Call(ctx, http.MethodPost, s.Path(path), in, out)
	return err
}

// Schemas returns the schemas, newest first.
func (s *Store) Schemas(ctx context.Context) ([]SchemaInfo, error) {
	var out struct{ Schemas []SchemaInfo }
	_, err := s.client.Call(ctx, http.MethodGet, s.Path("/schemas"), nil, &out)
	return out.Schemas, err
}

// Schema returns a schema; the id "" is the current one.
func (s *Store) Schema(ctx context.Context, id string) (out SchemaInfo, err error) {
	_, err = s.client.Call(ctx, http.MethodGet, s.Path("/schemas/"+url.PathEscape(cmp.Or(id, "current"))), nil, &out)
	return out, err
}

// WriteSchema makes a schema the current one.
func (s *Store) WriteSchema(ctx context.Context, n NewSchema) (out SchemaInfo, err error) {
	return out, s.post(ctx, "/schemas", n, &out)
}

// Check runs a check. A check that a bound leaves undecided is an error with the code
// "bound_reached".
func (s *Store) Check(ctx context.Context, q Question) (out Decision, err error) {
	return out, s.post(ctx, "/check", q, &out)
}

// ListObjects returns a page of objects.
func (s *Store) ListObjects(ctx context.Context, q ListObjects) (out List, err error) {
	return out, s.post(ctx, "/list-objects", q, &out)
}

// ListSubjects returns a page of subjects.
func (s *Store) ListSubjects(ctx context.Context, q ListSubjects) (out List, err error) {
	return out, s.post(ctx, "/list-subjects", q, &out)
}

// Expand returns the JSON of a tree, or of a page of it.
func (s *Store) Expand(ctx context.Context, q Expand) (out json.RawMessage, err error) {
	return out, s.post(ctx, "/expand", q, &out)
}

// Explain returns the JSON of an explanation.
func (s *Store) Explain(ctx context.Context, q Explain) (out json.RawMessage, err error) {
	return out, s.post(ctx, "/explain", q, &out)
}

// Ask sends the JSON of a request to a route of questions, for example "/what-if", and
// returns the JSON of the response.
func (s *Store) Ask(ctx context.Context, path string, in any) (out json.RawMessage, err error) {
	return out, s.post(ctx, path, in, &out)
}

// Write writes.
func (s *Store) Write(ctx context.Context, w Write) (out Written, err error) {
	return out, s.post(ctx, "/write", w, &out)
}

// Read returns a page of tuples.
func (s *Store) Read(ctx context.Context, q Read) (out TuplePage, err error) {
	return out, s.post(ctx, "/read", q, &out)
}

// Changes returns a page of the log.
func (s *Store) Changes(ctx context.Context, q Changes) (out ChangePage, err error) {
	return out, s.post(ctx, "/changes", q, &out)
}

// Document returns a document that a client wrote.
func (s *Store) Document(ctx context.Context, key string) (out Document, err error) {
	_, err = s.client.Call(ctx, http.MethodGet, s.Path("/documents/"+url.PathEscape(key)), nil, &out)
	return out, err
}
