package relations

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/cmd/ostiary/internal/cli"
	"github.com/ostiary/ostiary/door/openfga/language"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
)

func (r *remote) createStore(ctx context.Context, name, id string, sameName bool) error {
	if known, err := r.Stores(ctx, ""); err == nil && !sameName { // a caller may create stores without the right to list them
		if err := cli.RequireNewName(name, cli.LabelsOf(known)); err != nil {
			return err
		}
	}
	if err := r.nativeCreateStore(ctx, name, id); id != "" || !cli.IsForeign(err) {
		return cli.NativeMissing(err)
	}
	var s cli.RemoteStore
	if _, err := r.Call(ctx, http.MethodPost, "/stores", map[string]string{"name": name}, &s); err != nil {
		return err
	}
	return r.a.printCreated(s.JSON())
}

func (r *remote) listStores(ctx context.Context) ([]cli.StoreJSON, error) {
	found, err := r.NativeStores(ctx)
	if cli.IsForeign(err) {
		found, err = r.Stores(ctx, "")
	}
	if err != nil {
		return nil, err
	}
	stores := []cli.StoreJSON{}
	for _, s := range found {
		stores = append(stores, s.JSON())
	}
	return stores, nil
}

func (r *remote) getStore(ctx context.Context, args []string) error {
	s, err := r.named(ctx, args)
	if err != nil {
		return err
	}
	out := s.JSON()
	if err := r.addNative(ctx, &out); err != nil && !cli.IsForeign(err) {
		return err
	}
	return r.a.printStore(out)
}

// named finds the store that the first argument or else --store names.
func (r *remote) named(ctx context.Context, args []string) (cli.RemoteStore, error) {
	if len(args) > 0 {
		return r.Find(ctx, args[0])
	}
	return r.Find(ctx, r.a.Store)
}

func (r *remote) renameStore(ctx context.Context, store, name string) error {
	s, err := r.Find(ctx, store)
	if err != nil {
		return err
	}
	in := map[string]string{"name": name}
	if _, err = r.Call(ctx, http.MethodPatch, cli.NativePath+s.ID, in, &s); cli.IsForeign(err) {
		_, err = r.Call(ctx, http.MethodPatch, "/stores/"+s.ID, in, &s)
	}
	if err != nil {
		return err
	}
	return r.a.printRenamed(s.JSON())
}

func (r *remote) deleteStore(ctx context.Context, store string, yes bool) error {
	s, err := r.Find(ctx, store)
	if err != nil {
		return err
	}
	if !yes {
		return fmt.Errorf("%w: this deletes store %s (%s) and all its data; confirm with --yes", cli.ErrUsage, s.Name, s.ID)
	}
	if _, err := r.Call(ctx, http.MethodDelete, "/stores/"+s.ID, nil, nil); err != nil {
		return err
	}
	return r.a.printDeleted(s.JSON())
}

// writeSchema writes a model with its text as written. A server without the native
// API gets the model without the text, and so do models of several files.
func (r *remote) writeSchema(ctx context.Context, source *cli.ModelSource) error {
	if source.Dialect == language.LanguageDSL || source.Dialect == language.LanguageJSON {
		if err := r.nativeWriteSchema(ctx, source); !cli.IsForeign(err) {
			return err
		}
	}
	model, err := language.FormatJSON(source.Model)
	if err != nil {
		return err
	}
	path, err := r.Path(ctx, "/authorization-models")
	if err != nil {
		return err
	}
	var written struct {
		ID string `json:"authorization_model_id"`
	}
	h, err := r.Call(ctx, http.MethodPost, path, json.RawMessage(model), &written)
	if err != nil {
		return err
	}
	out := schemaJSON{ID: written.ID, Created: createdOf(written.ID), Current: true}
	_, out.Revision = cli.RevisionOf(h)
	return r.a.printSchemaWritten(out, source.Model)
}

func (r *remote) nativeWriteSchema(ctx context.Context, source *cli.ModelSource) error {
	s, err := r.Find(ctx, r.a.Store)
	if err != nil {
		return err
	}
	var written struct {
		ID, Namespace string
		Created       time.Time
		Revision      uint64
	}
	in := map[string]string{"dialect": source.Dialect, "source": string(source.Source)}
	if _, err := r.Call(ctx, http.MethodPost, cli.NativePath+s.ID+"/schemas", in, &written); err != nil {
		return err
	}
	out := schemaJSON{ID: written.ID, Namespace: written.Namespace, Created: cli.Stamp(written.Created), Revision: written.Revision, Current: true}
	return r.a.printSchemaWritten(out, source.Model)
}

// createdOf returns the time in a ULID.
func createdOf(id string) string {
	u, err := storage.ParseStoreID(id)
	if err != nil {
		return ""
	}
	millis := int64(0)
	for _, b := range u[:6] {
		millis = millis<<8 | int64(b)
	}
	return cli.Stamp(time.UnixMilli(millis))
}

// addNative adds to a store what only the native API returns.
func (r *remote) addNative(ctx context.Context, out *cli.StoreJSON) error {
	var now struct {
		Revision *uint64
		Aliases  map[string]string
		Schema   string
	}
	if _, err := r.Call(ctx, http.MethodGet, cli.NativePath+out.ID, nil, &now); err != nil {
		return err
	}
	out.Revision, out.Aliases, out.Schema = now.Revision, now.Aliases, now.Schema
	return nil
}

// nativeSchemas returns the schemas of a store, newest first.
func (r *remote) nativeSchemas(ctx context.Context, store string) ([]schemaJSON, error) {
	var list struct {
		Schemas []struct {
			ID, Namespace string
			Created       time.Time
			Revision      uint64
		}
	}
	if _, err := r.Call(ctx, http.MethodGet, cli.NativePath+store+"/schemas", nil, &list); err != nil {
		return nil, err
	}
	out := []schemaJSON{}
	for _, s := range list.Schemas {
		out = append(out, schemaJSON{ID: s.ID, Namespace: s.Namespace, Created: cli.Stamp(s.Created), Revision: s.Revision})
	}
	markCurrent(out)
	return out, nil
}

func (r *remote) listSchemas(ctx context.Context) error {
	s, err := r.Find(ctx, r.a.Store)
	if err != nil {
		return err
	}
	if out, err := r.nativeSchemas(ctx, s.ID); err == nil {
		return r.a.printSchemas(out)
	} else if !cli.IsForeign(err) {
		return err
	}
	path, err := r.Path(ctx, "/authorization-models?")
	if err != nil {
		return err
	}
	query, out := url.Values{"page_size": {fmt.Sprint(cli.PageMax)}}, []schemaJSON{}
	for {
		var page struct {
			Models []struct {
				ID string `json:"id"`
			} `json:"authorization_models"`
			Next string `json:"continuation_token"`
		}
		if _, err := r.Call(ctx, http.MethodGet, path+query.Encode(), nil, &page); err != nil {
			return err
		}
		for _, m := range page.Models {
			out = append(out, schemaJSON{ID: m.ID, Created: createdOf(m.ID), Current: len(out) == 0})
		}
		if page.Next == "" {
			return r.a.printSchemas(out)
		}
		query.Set("continuation_token", page.Next)
	}
}

// nativeSchema returns a schema of the store that --store names; "" is the current
// one.
func (r *remote) nativeSchema(ctx context.Context, id string) (*ostiary.Schema, error) {
	s, err := r.Find(ctx, r.a.Store)
	if err != nil {
		return nil, err
	}
	return r.schemaOf(ctx, s.ID, cmp.Or(id, "current"))
}

// schemaOf returns a schema of a store.
func (r *remote) schemaOf(ctx context.Context, store, id string) (*ostiary.Schema, error) {
	var got struct {
		ID, Namespace, Dialect, Source string
		Created                        time.Time
		Revision                       uint64
		Model                          *schema.Model
	}
	if _, err := r.Call(ctx, http.MethodGet, cli.NativePath+store+"/schemas/"+url.PathEscape(id), nil, &got); err != nil {
		return nil, err
	}
	return &ostiary.Schema{SchemaInfo: ostiary.SchemaInfo{ID: got.ID, Namespace: got.Namespace, Created: got.Created, Revision: storage.Revision(got.Revision)},
		SchemaSource: ostiary.SchemaSource{Dialect: got.Dialect, Source: []byte(got.Source), Model: got.Model}}, nil
}

func (r *remote) getSchema(ctx context.Context, id, format string) error {
	if sc, err := r.nativeSchema(ctx, id); err == nil {
		return r.a.printSchema(sc, format)
	} else if !cli.IsForeign(err) {
		return err
	}
	raw, err := r.foreignModel(ctx, id)
	if err != nil {
		return err
	}
	return r.a.printRemoteSchema(raw, format)
}

// foreignModel returns a model as OpenFGA's API does; "" is the current one.
func (r *remote) foreignModel(ctx context.Context, id string) (json.RawMessage, error) {
	path, err := r.Path(ctx, "/authorization-models")
	if err != nil {
		return nil, err
	}
	if id != "" {
		var got struct {
			Model json.RawMessage `json:"authorization_model"`
		}
		_, err = r.Call(ctx, http.MethodGet, path+"/"+url.PathEscape(id), nil, &got)
		return got.Model, err
	}
	var page struct {
		Models []json.RawMessage `json:"authorization_models"`
	}
	if _, err = r.Call(ctx, http.MethodGet, path+"?page_size=1", nil, &page); err != nil {
		return nil, err
	}
	if len(page.Models) == 0 {
		return nil, fmt.Errorf("the store has no schema yet: write one with \"ostiary schema write FILE\"")
	}
	return page.Models[0], nil
}

func (a *app) printRemoteSchema(raw json.RawMessage, format string) error {
	var named struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(raw, &named); err != nil {
		return err
	}
	var m *schema.Model
	m, _, err := language.ParseJSON(raw)
	if err != nil {
		return err
	}
	switch {
	case a.JSON:
		model, err := language.FormatJSON(m)
		if err != nil {
			return err
		}
		return cli.WriteJSON(a.Out, schemaJSON{ID: named.ID, Created: createdOf(named.ID), Language: language.LanguageJSON, Model: model})
	case format == "json":
		model, err := language.FormatJSON(m)
		if err == nil {
			_, err = fmt.Fprintf(a.Out, "%s\n", model)
		}
		return err
	case format == "dsl" || format == "source": // OpenFGA's API does not return the source text
		text, err := language.FormatDSL(m)
		if err == nil {
			_, err = io.WriteString(a.Out, text)
		}
		return err
	}
	return fmt.Errorf("%w: invalid --format %q: expected source, dsl or json", cli.ErrUsage, format)
}
