// Package authzen is the door for the OpenID Authorization API 1.0 (AuthZEN):
// access evaluation, evaluations, the three searches and the metadata document.
// Its main function is New. A request's action is a relation of the resource's
// type; what a request brings along reaches conditions as the parameters
// subject, resource, action (the properties of each) and those of its context.
// It never writes and never lets a request's properties stand for stored ones.
package authzen

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/storage"
)

// Name is the door's name, and the one under which stores have aliases for it.
const Name = "authzen"

// Options are the door's settings. The zero value is useful.
type Options struct {
	// Store is the store that paths without one mean, by its id or its alias.
	// Default: the alias "default", or the only store there is.
	Store string
	// URL is what clients know the server by, without a slash at its end:
	// "https://pdp.example.com". The metadata tell of it. Default: as the request
	// says, which is right where no proxy stands between.
	URL string
}

// New returns the door over an engine. Stores are addressed by a path before
// the protocol's: /authzen/{store}/access/v1/evaluation. Without one it is the
// default store.
func New(e *ostiary.Engine, o Options) (*door.Door, error) {
	if strings.HasSuffix(o.URL, "/") {
		return nil, fmt.Errorf("authzen: URL %q ends with a slash", o.URL)
	}
	s := &service{engine: e, options: o, unsent: unsentValues()}
	d := &door.Door{Name: Name, Prefixes: []string{"/access/v1", "/authzen", wellKnown}, Missing: missing, Refuse: refuse}
	for _, r := range []struct {
		path, name string
		serve      func(*call) error
	}{
		{"/access/v1/evaluation", "Evaluation", (*call).evaluation},
		{"/access/v1/evaluations", "Evaluations", (*call).evaluations},
		{"/access/v1/search/subject", "SearchSubject", (*call).searchSubject},
		{"/access/v1/search/resource", "SearchResource", (*call).searchResource},
		{"/access/v1/search/action", "SearchAction", (*call).searchAction},
	} {
		d.Routes = append(d.Routes,
			door.Route{Method: http.MethodPost, Pattern: r.path, Name: r.name, Serve: s.post(r.serve)},
			door.Route{Method: http.MethodPost, Pattern: "/authzen/{store}" + r.path, Name: r.name, Serve: s.post(r.serve)})
	}
	d.Routes = append(d.Routes,
		door.Route{Method: http.MethodGet, Pattern: wellKnown, Name: "Configuration", Public: true, Serve: s.configuration},
		door.Route{Method: http.MethodGet, Pattern: wellKnown + "/authzen/{store}", Name: "Configuration", Public: true, Serve: s.configuration})
	return d, nil
}

const wellKnown = "/.well-known/authzen-configuration"

type service struct {
	engine  *ostiary.Engine
	options Options
	unsent  expr.Values // never changed
}

// store finds the store of a request.
func (s *service) store(ctx context.Context, name string) (*ostiary.Store, error) {
	if name == "" {
		name = s.options.Store
	}
	if name != "" {
		return s.named(ctx, name)
	}
	st, err := s.engine.StoreByAlias(ctx, Name, "default")
	if !errors.Is(err, ostiary.ErrNoStore) {
		return st, err
	}
	var only *storage.StoreInfo
	for info, err := range s.engine.Stores(ctx, storage.StoreID{}) {
		if err != nil {
			return nil, err
		}
		if only != nil {
			return nil, &refusal{http.StatusBadRequest, "there are several stores: name one in the path, /authzen/{store}/access/v1/…"}
		}
		only = &info
	}
	if only == nil {
		return nil, &refusal{http.StatusNotFound, "there is no store"}
	}
	return s.engine.Store(ctx, only.ID)
}

func (s *service) named(ctx context.Context, name string) (*ostiary.Store, error) {
	if id, err := storage.ParseStoreID(name); err == nil {
		return s.engine.Store(ctx, id)
	}
	return s.engine.StoreByAlias(ctx, Name, name)
}

// call is one request under way.
type call struct {
	*service
	ctx   context.Context
	store *ostiary.Store
	body  []byte
	out   []byte
}

// post answers a POST with a JSON body.
func (s *service) post(serve func(*call) error) func(http.ResponseWriter, *http.Request, door.Params) {
	return func(w http.ResponseWriter, r *http.Request, p door.Params) {
		echo(w, r)
		out, err := s.answer(r, p, serve)
		if err != nil {
			fail(w, err)
			return
		}
		w.Header()["Content-Type"] = jsonType
		w.Write(out)
	}
}

func (s *service) answer(r *http.Request, p door.Params, serve func(*call) error) ([]byte, error) {
	if t, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); !strings.EqualFold(strings.TrimSpace(t), "application/json") {
		return nil, &refusal{http.StatusBadRequest, "the Content-Type must be application/json"}
	}
	st, err := s.store(r.Context(), p.At(0))
	if err != nil {
		return nil, err
	}
	body, err := door.ReadBody(r)
	if err != nil {
		return nil, err
	}
	defer body.Free()
	c := call{service: s, ctx: r.Context(), store: st, body: body.Bytes, out: make([]byte, 0, 128)}
	err = serve(&c)
	return c.out, err
}

// echo gives the request's identifier back, as the protocol demands.
func echo(w http.ResponseWriter, r *http.Request) {
	if id := r.Header["X-Request-Id"]; len(id) > 0 {
		w.Header()["X-Request-Id"] = id[:1]
	}
}

var jsonType = []string{"application/json"}
