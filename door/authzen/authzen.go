// Package authzen is the door for the OpenID Authorization API 1.0 (AuthZEN):
// access evaluation, evaluations, the three searches and the metadata document.
// [New] returns the [door.Door].
//
// A request's action is a relation of the resource's type. The properties of the
// subject, the resource and the action reach conditions as the parameters
// "subject", "resource" and "action"; the request's context adds further
// parameters. If the store is a policy domain, its policies answer instead, and
// properties and context are attributes of the request. The package never writes,
// and properties of a request never replace stored attributes.
package authzen

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/engine/domain"
	"github.com/ostiary/ostiary/storage"
)

// Name is the door's name. A store may have an alias for this door.
const Name = "authzen"

// Options are the settings of the door. The zero value is useful.
type Options struct {
	// Store is the id or the alias of the store for paths that name none. The
	// default is the store with the alias "default". Without such a store, a path
	// must name one.
	Store string
	// URL is the base URL in the metadata document, without a slash at the end:
	// "https://pdp.example.com". It is needed behind a proxy. The default is the
	// scheme and host of the request.
	URL string
	// Domains finds the policy domains. A request to a store that is a policy domain
	// is answered by its policies. Nil means that no store is one.
	Domains *domain.Registry
}

// New returns the door to an engine's stores. The path may name a store:
// /authzen/{store}/access/v1/evaluation. Otherwise requests use the default
// store; see [Options.Store]. New fails if [Options.URL] ends with a slash.
func New(e *ostiary.Engine, o Options) (*door.Door, error) {
	if strings.HasSuffix(o.URL, "/") {
		return nil, fmt.Errorf("authzen: invalid URL %q: expected no slash at the end", o.URL)
	}
	s := &service{engine: e, options: o, emptyParams: emptyParams()}
	d := &door.Door{Name: Name, Prefixes: []string{"/access/v1", "/authzen", wellKnown}, Guide: "docs/authzen.md", Missing: serveMissing, Refuse: serveRefusal}
	for _, r := range []struct {
		path, name string
		serve      func(*call) error
	}{
		{"/access/v1/evaluation", "Evaluation", (*call).serveEvaluation},
		{"/access/v1/evaluations", "Evaluations", (*call).serveEvaluations},
		{"/access/v1/search/subject", "SearchSubject", (*call).serveSearchSubject},
		{"/access/v1/search/resource", "SearchResource", (*call).serveSearchResource},
		{"/access/v1/search/action", "SearchAction", (*call).serveSearchAction},
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

// defaultAlias is the alias of the store for paths that name none.
const defaultAlias = "default"

// wellKnown is the path of the metadata document.
const wellKnown = "/.well-known/authzen-configuration"

// service holds what all requests share.
type service struct {
	engine  *ostiary.Engine
	options Options
	// emptyParams are the condition parameters of a request without properties
	// and context. They are shared, so they must not change.
	emptyParams expr.Values
}

// findStore returns the store of a request. name is the store in its path, or "".
func (s *service) findStore(ctx context.Context, name string) (*ostiary.Store, error) {
	if name == "" {
		name = s.options.Store
	}
	if name != "" {
		st, err := door.FindStore(ctx, s.engine, Name, name)
		if _, notID := storage.ParseStoreID(name); notID != nil && errors.Is(err, authz.ErrNoStore) {
			return nil, &requestError{http.StatusNotFound, fmt.Sprintf("no such store: %q is no id, and no store has the alias for AuthZEN: ostiary store alias STORE %s %s sets it; a policy domain has no such alias: use its id, which ostiary store list shows", name, Name, name)}
		}
		return st, err
	}
	st, err := s.engine.StoreByAlias(ctx, Name, defaultAlias)
	if errors.Is(err, authz.ErrNoStore) {
		// The only store is never the default: after a store is deleted and another
		// one is created, that one would answer silently.
		return nil, &requestError{http.StatusBadRequest, "the path names no store: use /authzen/{store}/access/v1/…, or start the server with --authzen-store; a policy domain is named by its id, which ostiary store list shows"}
	}
	return st, err
}

// call is the state of one request.
type call struct {
	*service
	door.Call
	store *ostiary.Store
	// domain is the policy domain that store is; nil if it is none.
	domain *domain.Domain
	// body is the request's JSON.
	body []byte
	// out is the response's JSON.
	out []byte
}

// post returns the handler of a POST with a JSON body. serve fills in call.out.
func (s *service) post(serve func(*call) error) func(http.ResponseWriter, *http.Request, door.Params) {
	return func(w http.ResponseWriter, r *http.Request, p door.Params) {
		echoRequestID(w, r)
		c := call{service: s, Call: door.Call{W: w, R: r, Params: p}}
		defer c.End()
		if err := c.run(serve); err != nil {
			writeError(w, err)
			return
		}
		door.WriteJSON(w, http.StatusOK, c.out)
	}
}

// run reads the request and calls serve. The protocol demands a Content-Type.
func (c *call) run(serve func(*call) error) (err error) {
	if c.R.Header.Get("Content-Type") == "" {
		return c.RefuseMedia("application/json")
	}
	if c.store, err = c.findStore(c.Context(), c.Params.At(0)); err != nil {
		return err
	}
	if c.body, err = c.JSON(); err != nil {
		return err
	}
	if c.domain, err = c.domainOf(c); err != nil {
		return err
	}
	c.out = make([]byte, 0, 128)
	err = serve(c)
	if cause := context.Cause(c.Context()); err != nil && cause != nil && !errors.Is(err, authz.ErrLoading) {
		// Policies report an ended context as a bound on time.
		err = fmt.Errorf("%w: %w", authz.ErrCanceled, cause)
	}
	return err
}

// echoRequestID copies the request's identifier into the response, as the
// protocol requires.
func echoRequestID(w http.ResponseWriter, r *http.Request) {
	if id := r.Header["X-Request-Id"]; len(id) > 0 {
		w.Header()["X-Request-Id"] = id[:1]
	}
}
