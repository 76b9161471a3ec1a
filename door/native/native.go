// Package native is the door for Ostiary's own API, /ostiary/v1: JSON over
// HTTP, and server-sent events for watches. It offers all features of the
// engine, including those that no other protocol has: explanations,
// entitlements, past revisions, differences, what-if, watches and streams.
// [New] returns the [door.Door]; openapi.json describes the API. The package
// never decides anything and uses no storage driver.
package native

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/schema"
)

// Name is the door's name. A store may have an alias for this door.
const Name = "native"

// prefix is the start of every path.
const prefix = "/ostiary/v1"

// Options are the settings of the door. The zero value is useful.
type Options struct {
	// Dialects are the model languages for reading and writing schemas. The
	// JSON form of schema.Model needs no dialect.
	Dialects []Dialect
	// Report, if set, is called with each error whose cause the client does not see: a
	// failure of the server, of its storage or of its data.
	Report func(error)
}

// Dialect is a model language.
type Dialect struct {
	// Name is the name of the language in lower case, for example "openfga".
	Name string
	// Parse parses a text. The client sees the text of its errors.
	Parse func(source []byte) (*schema.Model, error)
	// Format returns a model as text. It fails if the language cannot express
	// the model.
	Format func(*schema.Model) (string, error)
}

// New returns the door to an engine's stores.
func New(e *ostiary.Engine, o Options) (*door.Door, error) {
	s := &service{engine: e, options: o}
	d := &door.Door{Name: Name, Prefixes: []string{prefix}, Missing: serveMissing, Refuse: serveRefusal}
	for _, r := range routes {
		route := door.Route{Method: r.method, Pattern: prefix + r.path, Name: r.name, Streams: r.stream != nil, Writes: r.writes,
			Public: r.public, BodyMax: r.bodyMax}
		switch {
		case r.stream != nil:
			route.Serve = s.handleStream(r.stream)
		case r.store != nil:
			route.Serve = s.handleStore(r.store)
		default:
			route.Serve = s.handleEngine(r.engine)
		}
		d.Routes = append(d.Routes, route)
	}
	return d, nil
}

// streamBytesMax bounds the body of an import, in bytes.
const streamBytesMax = 1 << 40

// route is one operation. Exactly one of engine, store and stream is set.
type route struct {
	// method and path are the HTTP method and the path after prefix; name is the
	// operation's name.
	method, path, name string
	// writes is true if the operation changes a store.
	writes bool
	// engine handles a request that names no store.
	engine func(*call) error
	// store handles a request for a store.
	store func(*call) error
	// stream handles a request for a store, and writes the response itself.
	stream func(*call, http.ResponseWriter) error
	// public routes need no authentication.
	public bool
	// bodyMax bounds the body in bytes; 0 is the server's bound.
	bodyMax int64
}

// routes are all operations. openapi.json describes the same ones, and a test
// compares them.
var routes = [...]route{
	{method: "GET", path: "/openapi.json", name: "OpenAPI", engine: (*call).openAPI, public: true},
	{method: "GET", path: "/stores", name: "ListStores", engine: (*call).listStores},
	{method: "POST", path: "/stores", name: "CreateStore", writes: true, engine: (*call).createStore},
	{method: "GET", path: "/stores/{store}", name: "GetStore", store: (*call).getStore},
	{method: "PATCH", path: "/stores/{store}", name: "UpdateStore", writes: true, store: (*call).updateStore},
	{method: "DELETE", path: "/stores/{store}", name: "DeleteStore", writes: true, store: (*call).deleteStore},
	{method: "GET", path: "/stores/{store}/schemas", name: "ListSchemas", store: (*call).listSchemas},
	{method: "POST", path: "/stores/{store}/schemas", name: "WriteSchema", writes: true, store: (*call).writeSchema},
	{method: "GET", path: "/stores/{store}/schemas/{schema}", name: "GetSchema", store: (*call).getSchema},
	{method: "DELETE", path: "/stores/{store}/schemas/{schema}", name: "DeleteSchema", writes: true, store: (*call).deleteSchema},
	{method: "POST", path: "/stores/{store}/write", name: "Write", writes: true, store: (*call).write},
	{method: "GET", path: "/stores/{store}/documents/{key}", name: "GetDocument", store: (*call).getDocument},
	{method: "POST", path: "/stores/{store}/read", name: "Read", store: (*call).read},
	{method: "POST", path: "/stores/{store}/read-attributes", name: "ReadAttributes", store: (*call).readAttributes},
	{method: "POST", path: "/stores/{store}/check", name: "Check", store: (*call).check},
	{method: "POST", path: "/stores/{store}/batch", name: "Batch", store: (*call).batch},
	{method: "POST", path: "/stores/{store}/list-objects", name: "ListObjects", store: (*call).listObjects},
	{method: "POST", path: "/stores/{store}/list-subjects", name: "ListSubjects", store: (*call).listSubjects},
	{method: "POST", path: "/stores/{store}/expand", name: "Expand", store: (*call).expand},
	{method: "POST", path: "/stores/{store}/explain", name: "Explain", store: (*call).explain},
	{method: "POST", path: "/stores/{store}/entitlements", name: "Entitlements", store: (*call).entitlements},
	{method: "POST", path: "/stores/{store}/changes", name: "Changes", store: (*call).changes},
	{method: "POST", path: "/stores/{store}/difference", name: "Difference", store: (*call).difference},
	{method: "POST", path: "/stores/{store}/what-if", name: "WhatIf", store: (*call).whatIf},
	{method: "GET", path: "/stores/{store}/watch", name: "Watch", stream: (*call).watch},
	{method: "GET", path: "/stores/{store}/watch-permission", name: "WatchPermission", stream: (*call).watchPermission},
	{method: "POST", path: "/stores/{store}/import", name: "Import", writes: true, stream: (*call).importStream, bodyMax: streamBytesMax},
	{method: "GET", path: "/stores/{store}/export", name: "Export", stream: (*call).exportStream},
}

// service holds what all requests share.
type service struct {
	engine  *ostiary.Engine
	options Options
}

// call is the state of one request.
type call struct {
	*service
	ctx    context.Context
	r      *http.Request
	params door.Params
	// store is the request's store; nil if the path names none.
	store *ostiary.Store
	// body is the request's JSON; nil if it has no body.
	body []byte
	// out is the response's JSON, and status its HTTP status; 0 means 200.
	out    []byte
	status int
}

// openStore sets the store that the path names by its id, or by its alias for
// this door.
func (c *call) openStore() (err error) {
	c.store, err = door.FindStore(c.ctx, c.engine, Name, c.params.At(0))
	return err
}

// handleEngine returns the handler of an operation on the engine.
func (s *service) handleEngine(serve func(*call) error) func(http.ResponseWriter, *http.Request, door.Params) {
	return func(w http.ResponseWriter, r *http.Request, p door.Params) {
		c := call{service: s, ctx: r.Context(), r: r, params: p}
		c.reply(w, c.withBody(serve))
	}
}

// handleStore returns the handler of an operation on a store.
func (s *service) handleStore(serve func(*call) error) func(http.ResponseWriter, *http.Request, door.Params) {
	return func(w http.ResponseWriter, r *http.Request, p door.Params) {
		c := call{service: s, ctx: r.Context(), r: r, params: p}
		err := c.openStore()
		if err == nil {
			err = c.withBody(serve)
		}
		c.reply(w, err)
	}
}

// handleStream returns the handler of an operation that writes its response
// itself. If serve returns an error, it must not have written anything.
func (s *service) handleStream(serve func(*call, http.ResponseWriter) error) func(http.ResponseWriter, *http.Request, door.Params) {
	return func(w http.ResponseWriter, r *http.Request, p door.Params) {
		c := call{service: s, ctx: r.Context(), r: r, params: p}
		err := c.openStore()
		if err == nil {
			err = serve(&c, w)
		}
		if err != nil {
			c.fail(w, err)
		}
	}
}

// withBody calls serve after reading the body, if the request has one.
func (c *call) withBody(serve func(*call) error) error {
	if c.r.Method != http.MethodPost && c.r.Method != http.MethodPatch {
		return serve(c)
	}
	if err := checkContentType(c.r, "application/json"); err != nil {
		return err
	}
	body, err := door.ReadBody(c.r)
	if err != nil {
		return err
	}
	defer body.Free()
	c.body = body.Bytes
	return serve(c)
}

// checkContentType fails if the request declares another content type.
func checkContentType(r *http.Request, want string) error {
	t, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	if t = strings.TrimSpace(t); t != "" && !strings.EqualFold(t, want) {
		return &problem{status: http.StatusUnsupportedMediaType, Code: "content_type", Message: "the Content-Type must be " + want}
	}
	return nil
}

// reply writes the response, or err.
func (c *call) reply(w http.ResponseWriter, err error) {
	if err != nil {
		c.fail(w, err)
		return
	}
	door.WriteJSON(w, cmp.Or(c.status, http.StatusOK), c.out)
}

// fail writes err as the response, and reports a failure of the server.
func (c *call) fail(w http.ResponseWriter, err error) {
	if c.options.Report != nil && describe(err).status == http.StatusInternalServerError {
		c.options.Report(err)
	}
	writeError(w, err)
}

// setJSON sets the response to v.
func (c *call) setJSON(v any) (err error) {
	c.out, err = json.Marshal(v)
	return err
}
