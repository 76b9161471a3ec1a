package relations

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/cmd/internal/tuplefile"
	"github.com/ostiary/ostiary/door/native/client"
	"github.com/ostiary/ostiary/door/openfga/language"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

const (
	// writeMax is the number of tuples that OpenFGA's servers accept in one write.
	writeMax = 100
	pageMax  = 100 // the largest page that OpenFGA's API allows
	// The headers with which ostiary serve extends OpenFGA's API: the revision, and the
	// bound that cut a list.
	headerRevision = "Ostiary-Revision"
	headerCut      = "Ostiary-Truncated"
)

// openFGA is a server with OpenFGA's API, and without the native one.
type openFGA struct{ *client.Client }

// store returns the store with an id.
func (o openFGA) store(id string) *openFGAStore { return &openFGAStore{o.Client, "/stores/" + id} }

// openFGAInfo is a store in OpenFGA's API.
type openFGAInfo struct {
	ID, Name string
	Created  time.Time `json:"created_at"`
}

func (i *openFGAInfo) info() client.StoreInfo {
	return client.StoreInfo{ID: i.ID, Name: i.Name, Created: i.Created}
}

// stores lists the stores with a name, or all stores for "".
func (o openFGA) stores(ctx context.Context, name string) (all []client.StoreInfo, err error) {
	query := url.Values{"page_size": {fmt.Sprint(pageMax)}}
	if name != "" {
		query.Set("name", name)
	}
	for {
		var page struct {
			Stores []openFGAInfo
			Next   string `json:"continuation_token"`
		}
		_, err := o.Call(ctx, http.MethodGet, "/stores?"+query.Encode(), nil, &page)
		if refused, ok := errors.AsType[*client.Error](err); ok && name != "" && refused.Status == http.StatusBadRequest {
			// The API refuses to search names that its clients cannot give to a store, for
			// example those of less than three letters.
			all, err = o.stores(ctx, "")
			return slices.DeleteFunc(all, func(s client.StoreInfo) bool { return s.Name != name }), err
		}
		if err != nil {
			return nil, err
		}
		for i := range page.Stores {
			all = append(all, page.Stores[i].info())
		}
		if page.Next == "" {
			return all, nil
		}
		query.Set("continuation_token", page.Next)
	}
}

// create creates a store.
func (o openFGA) create(ctx context.Context, name string) (client.StoreInfo, error) {
	var s openFGAInfo
	_, err := o.Call(ctx, http.MethodPost, "/stores", map[string]string{"name": name}, &s)
	return s.info(), err
}

// openFGAStore is a store of a server without the native API. It implements store as
// far as OpenFGA's API can express it, and fails with errNative otherwise.
type openFGAStore struct {
	client *client.Client
	path   string
}

// call sends a request about the store.
func (s *openFGAStore) call(ctx context.Context, method, path string, in, out any) (http.Header, error) {
	return s.client.Call(ctx, method, s.path+path, in, out)
}

func (s *openFGAStore) Get(ctx context.Context) (client.StoreInfo, error) {
	var out openFGAInfo
	_, err := s.call(ctx, http.MethodGet, "", nil, &out)
	return out.info(), err
}

func (s *openFGAStore) Rename(ctx context.Context, name string) (client.StoreInfo, error) {
	var out openFGAInfo
	_, err := s.call(ctx, http.MethodPatch, "", map[string]string{"name": name}, &out)
	return out.info(), err
}

func (s *openFGAStore) Delete(ctx context.Context) error {
	_, err := s.call(ctx, http.MethodDelete, "", nil, nil)
	return err
}

// openFGAModel translates a model of a response. Its source is the text of the server,
// which has forms that a model lacks.
func openFGAModel(raw json.RawMessage) (authz.SchemaSource, error) {
	var named struct{ ID string }
	if err := json.Unmarshal(raw, &named); err != nil {
		return authz.SchemaSource{}, err
	}
	model, text, err := language.ParseJSON(raw)
	if err != nil {
		return authz.SchemaSource{}, fmt.Errorf("model %s: %w", named.ID, err)
	}
	return authz.SchemaSource{Model: model, Dialect: language.LanguageJSON, Source: text, WithID: named.ID}, nil
}

// openFGASchema describes a model. It has no source, so that it is printed in the
// modelling language: OpenFGA's API returns only JSON.
func openFGASchema(m authz.SchemaSource) client.SchemaInfo {
	return client.SchemaInfo{ID: m.WithID, Created: createdOf(m.WithID), Dialect: m.Dialect, Model: m.Model}
}

// createdOf returns the time in a ULID.
func createdOf(id string) time.Time {
	u, err := storage.ParseStoreID(id)
	if err != nil {
		return time.Time{}
	}
	millis := int64(0)
	for _, b := range u[:6] {
		millis = millis<<8 | int64(b)
	}
	return time.UnixMilli(millis)
}

// models returns the models with their sources, newest first.
func (s *openFGAStore) models(ctx context.Context) (all []authz.SchemaSource, err error) {
	for query := (url.Values{"page_size": {fmt.Sprint(pageMax)}}); ; {
		var page struct {
			Models []json.RawMessage `json:"authorization_models"`
			Next   string            `json:"continuation_token"`
		}
		if _, err := s.call(ctx, http.MethodGet, "/authorization-models?"+query.Encode(), nil, &page); err != nil {
			return nil, err
		}
		for _, raw := range page.Models {
			m, err := openFGAModel(raw)
			if err != nil {
				return nil, err
			}
			all = append(all, m)
		}
		if page.Next == "" {
			return all, nil
		}
		query.Set("continuation_token", page.Next)
	}
}

func (s *openFGAStore) Schemas(ctx context.Context) (all []client.SchemaInfo, err error) {
	models, err := s.models(ctx)
	for _, m := range models {
		all = append(all, openFGASchema(m))
	}
	return all, err
}

func (s *openFGAStore) Schema(ctx context.Context, id string) (out client.SchemaInfo, err error) {
	var raw json.RawMessage
	if id != "" {
		var got struct {
			Model json.RawMessage `json:"authorization_model"`
		}
		if _, err := s.call(ctx, http.MethodGet, "/authorization-models/"+url.PathEscape(id), nil, &got); err != nil {
			return out, err
		}
		raw = got.Model
	} else {
		var page struct {
			Models []json.RawMessage `json:"authorization_models"`
		}
		if _, err := s.call(ctx, http.MethodGet, "/authorization-models?page_size=1", nil, &page); err != nil {
			return out, err
		}
		if len(page.Models) == 0 {
			return out, authz.ErrNoSchema
		}
		raw = page.Models[0]
	}
	m, err := openFGAModel(raw)
	if err != nil {
		return out, err
	}
	return openFGASchema(m), nil
}

// WriteSchema writes the model without its text.
func (s *openFGAStore) WriteSchema(ctx context.Context, n client.NewSchema) (out client.SchemaInfo, err error) {
	model, err := language.FormatJSON(n.Model)
	if err != nil {
		return out, err
	}
	var written struct {
		ID string `json:"authorization_model_id"`
	}
	h, err := s.call(ctx, http.MethodPost, "/authorization-models", json.RawMessage(model), &written)
	return client.SchemaInfo{ID: written.ID, Created: createdOf(written.ID), Revision: revisionOf(h), Model: n.Model}, err
}

// revisionOf reads the revision of a response; 0 if the server does not report it.
func revisionOf(h http.Header) uint64 {
	revision, _ := authz.Token(h.Get(headerRevision)).Revision()
	return uint64(revision)
}

// question adds to a request what all questions share.
func (s *openFGAStore) question(q *client.Query, in map[string]any) (map[string]any, error) {
	if q.At != nil {
		return nil, errNative
	}
	if q.Schema != "" {
		in["authorization_model_id"] = q.Schema
	}
	if q.Context != nil {
		in["context"] = q.Context
	}
	records, err := recordsOf(q.Tuples)
	if records != nil {
		in["contextual_tuples"] = map[string]any{"tuple_keys": records}
	}
	return in, err
}

// recordsOf returns tuples in OpenFGA's form, which has no expiry.
func recordsOf(tuples []client.Tuple) (out []tuplefile.Record, err error) {
	for i := range tuples {
		t, err := tuples[i].Tuple()
		if err != nil {
			return nil, err
		}
		if t.Expires != 0 {
			return nil, fmt.Errorf("%s: OpenFGA's API has no expiry of tuples: %w", t.Key(), errNative)
		}
		record, err := tuplefile.RecordOf(t)
		if err != nil {
			return nil, err
		}
		out = append(out, record)
	}
	return out, nil
}

// undecided matches the errors with which OpenFGA's servers answer a check that they
// cannot decide, because a parameter is missing or a condition fails.
var undecided = regexp.MustCompile(`failed to evaluate relationship condition: (.*)`)

// missing matches the names of parameters in such an error.
var missing = regexp.MustCompile(`missing (?:context )?parameters '\[([^\]]*)\]'`)

// reasonsOf returns the reasons of an undecided check from its error response. It
// returns nil for every other error.
func reasonsOf(err error) *client.Reasons {
	refused, ok := errors.AsType[*client.Error](err)
	if !ok {
		return nil
	}
	why := undecided.FindStringSubmatch(refused.Message)
	if why == nil {
		return nil
	}
	if names := missing.FindStringSubmatch(why[1]); names != nil {
		return &client.Reasons{Missing: strings.Fields(strings.ReplaceAll(names[1], ",", " "))}
	}
	return &client.Reasons{Errors: []string{why[1]}}
}

func (s *openFGAStore) Check(ctx context.Context, q client.Question) (out client.Decision, err error) {
	in, err := s.question(&q.Query, map[string]any{"tuple_key": map[string]string{"user": q.Subject, "relation": q.Relation, "object": q.Object}})
	if err != nil {
		return out, err
	}
	h, err := s.call(ctx, http.MethodPost, "/check", in, &out)
	if out.Reasons = reasonsOf(err); out.Reasons != nil {
		out.Truth = "unknown"
		return out, nil
	}
	out.Truth, out.Revision = fmt.Sprint(out.Allowed), revisionOf(h)
	return out, err
}

// ListObjects reads the streamed list, because it has no limit on the number of
// objects.
func (s *openFGAStore) ListObjects(ctx context.Context, q client.ListObjects) (out client.List, err error) {
	if q.Page != (client.Page{}) {
		return out, errNative
	}
	in, err := s.question(&q.Query, map[string]any{"user": q.Subject, "relation": q.Relation, "type": q.Type})
	if err != nil {
		return out, err
	}
	resp, err := s.client.Open(ctx, http.MethodPost, s.path+"/streamed-list-objects", in)
	if err != nil {
		return out, err
	}
	defer resp.Body.Close()
	for dec := json.NewDecoder(resp.Body); ; {
		var line struct {
			Result struct{ Object string }
			Error  *client.Error
		}
		if err := dec.Decode(&line); errors.Is(err, io.EOF) {
			break
		} else if err != nil && !(line.Error != nil && line.Error.Message != "") { // its code is a number
			return out, err
		}
		if line.Error != nil {
			line.Error.Code = "error"
			return out, line.Error
		}
		out.Objects = append(out.Objects, line.Result.Object)
	}
	out.Revision = revisionOf(resp.Header)
	if out.Cut = resp.Header.Get(headerCut); out.Cut == "" {
		out.Cut = resp.Trailer.Get(headerCut)
	}
	return out, nil
}

func (s *openFGAStore) ListSubjects(ctx context.Context, q client.ListSubjects) (out client.List, err error) {
	object, err := rel.ParseObject(q.Object)
	if err != nil {
		return out, err
	}
	if q.Page != (client.Page{}) {
		return out, errNative
	}
	filter := map[string]string{"type": q.SubjectType}
	if q.SubjectRelation != "" {
		filter["relation"] = q.SubjectRelation
	}
	in, err := s.question(&q.Query, map[string]any{"object": map[string]string{"type": object.Type, "id": object.ID}, "relation": q.Relation, "user_filters": []any{filter}})
	if err != nil {
		return out, err
	}
	if c, ok := in["contextual_tuples"].(map[string]any); ok {
		in["contextual_tuples"] = c["tuple_keys"] // list-users takes a plain list
	}
	type named struct{ Type, ID, Relation string }
	var got struct {
		Users []struct{ Object, Userset, Wildcard *named } `json:"users"`
	}
	h, err := s.call(ctx, http.MethodPost, "/list-users", in, &got)
	if err != nil {
		return out, err
	}
	for _, u := range got.Users {
		switch {
		case u.Object != nil:
			out.Subjects = append(out.Subjects, u.Object.Type+":"+u.Object.ID)
		case u.Userset != nil:
			out.Subjects = append(out.Subjects, u.Userset.Type+":"+u.Userset.ID+"#"+u.Userset.Relation)
		case u.Wildcard != nil:
			out.Everybody = "true"
		}
	}
	out.Revision, out.Cut = revisionOf(h), h.Get(headerCut)
	return out, nil
}

// Expand returns OpenFGA's form of the tree, which has no pages, also as the text.
func (s *openFGAStore) Expand(ctx context.Context, q client.Expand) (json.RawMessage, error) {
	if q.Levels > 1 || q.Page != (client.Page{}) || q.Context != nil {
		return nil, errNative
	}
	in, err := s.question(&q.Query, map[string]any{"tuple_key": map[string]string{"relation": q.Relation, "object": q.Object}})
	if err != nil {
		return nil, err
	}
	var got struct {
		Tree json.RawMessage `json:"tree"`
		Text string          `json:"text,omitempty"`
	}
	if _, err := s.call(ctx, http.MethodPost, "/expand", in, &got); err != nil {
		return nil, err
	}
	if q.Text {
		text, err := json.MarshalIndent(got.Tree, "", "  ")
		if err != nil {
			return nil, err
		}
		got.Text = string(text) + "\n"
	}
	return json.Marshal(got)
}

// openFGAWrite is the body of a write.
type openFGAWrite struct {
	Schema  string          `json:"authorization_model_id,omitempty"`
	Writes  *openFGAAdd     `json:"writes,omitempty"`
	Deletes *openFGARemoval `json:"deletes,omitempty"`
}

type openFGAAdd struct {
	Keys        []tuplefile.Record `json:"tuple_keys"`
	OnDuplicate string             `json:"on_duplicate,omitempty"`
}

type openFGARemoval struct {
	Keys      []tuplefile.Record `json:"tuple_keys"`
	OnMissing string             `json:"on_missing,omitempty"`
}

func (s *openFGAStore) Write(ctx context.Context, w client.Write) (out client.Written, err error) {
	if w.OnDuplicate == "replace" || len(w.RemoveMatching) > 0 {
		return out, errNative
	}
	in := openFGAWrite{Schema: w.Schema}
	added, err := recordsOf(w.Add)
	if err != nil {
		return out, err
	}
	removed, err := recordsOf(w.Remove)
	if err != nil {
		return out, err
	}
	if added != nil {
		in.Writes = &openFGAAdd{added, w.OnDuplicate}
	}
	if removed != nil {
		in.Deletes = &openFGARemoval{removed, w.OnMissing}
	}
	before := uint64(0) // the revision before a write that may change nothing
	if w.OnDuplicate != "" || w.OnMissing != "" {
		h, err := s.call(ctx, http.MethodPost, "/read", map[string]any{"page_size": 1, "consistency": "HIGHER_CONSISTENCY"}, nil)
		if err == nil {
			before = revisionOf(h)
		}
	}
	h, err := s.call(ctx, http.MethodPost, "/write", in, nil)
	out.Token, out.Revision = h.Get(headerRevision), revisionOf(h)
	out.Unchanged = before != 0 && before == out.Revision
	return out, err
}

func (s *openFGAStore) Read(ctx context.Context, q client.Read) (out client.TuplePage, err error) {
	f := q.Filter
	if q.At != nil || f.SubjectType != "" && f.SubjectID == "" {
		return out, errNative // OpenFGA's API has no past, and no filter by a type of subjects
	}
	in := map[string]any{"page_size": min(max(q.Limit, 1), pageMax), "continuation_token": q.Cursor}
	if f != (client.Filter{}) {
		key := map[string]string{"relation": f.Relation}
		if f.ObjectType != "" {
			key["object"] = f.ObjectType + ":" + f.ObjectID
		}
		if f.SubjectID != "" {
			key["user"] = rel.Subject{Type: f.SubjectType, ID: f.SubjectID, Relation: f.SubjectRelation}.String()
		}
		in["tuple_key"] = key
	}
	var page struct {
		Tuples []struct {
			Key       tuplefile.Record
			Timestamp *time.Time
		}
		Next string `json:"continuation_token"`
	}
	h, err := s.call(ctx, http.MethodPost, "/read", in, &page)
	if err != nil {
		return out, err
	}
	out.Next, out.Revision = page.Next, revisionOf(h)
	for _, row := range page.Tuples {
		t, err := row.Key.Tuple()
		if err != nil {
			return out, err
		}
		one := client.TupleOf(t)
		one.Created = row.Timestamp
		out.Tuples = append(out.Tuples, one)
	}
	return out, nil
}

// Import writes the tuples in groups of writeMax. Each group is atomic; the import as a
// whole is not.
func (s *openFGAStore) Import(ctx context.Context, tuples iter.Seq2[rel.Tuple, error], o client.ImportOptions) (out client.Imported, err error) {
	switch {
	case o.OnDuplicate == "replace":
		return out, fmt.Errorf("%w: OpenFGA's API has no --on-duplicate replace", cli.ErrUsage)
	case o.Entry != 0:
		return out, fmt.Errorf("%w: OpenFGA's API has no --entry", cli.ErrUsage)
	}
	var group []client.Tuple
	flush := func() error {
		if len(group) == 0 {
			return nil
		}
		records, err := recordsOf(group)
		if err != nil {
			return err
		}
		h, err := s.call(ctx, http.MethodPost, "/write", openFGAWrite{Schema: o.Schema, Writes: &openFGAAdd{records, o.OnDuplicate}}, nil)
		if err != nil {
			return err
		}
		out.Token = h.Get(headerRevision)
		out.Read, group = out.Read+len(group), group[:0]
		return nil
	}
	for t, err := range tuples {
		if err != nil {
			return out, err
		}
		if t.Expires != 0 {
			return out, fmt.Errorf("%s: OpenFGA's API has no expiry of tuples", t.Key())
		}
		if group = append(group, client.TupleOf(t)); len(group) == writeMax {
			if err := flush(); err != nil {
				return out, err
			}
		}
	}
	err = flush()
	out.Written = out.Read
	return out, err
}
