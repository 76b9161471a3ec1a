// Package native is Ostiary's own door, /ostiary/v1: JSON over HTTP, and
// server-sent events for what is watched. It offers what the engine can do and
// no other protocol asks for: explanations, entitlements, the past, differences,
// what-if, watches, streams. Its main function is New; openapi.json describes
// it. It never decides anything and never knows a driver.
package native

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
)

// Name is the door's name, and the one under which stores have aliases for it.
const Name = "native"

// prefix stands before every path.
const prefix = "/ostiary/v1"

// Options are the door's settings. The zero value is useful.
type Options struct {
	// Dialects are the model languages that schemas may be written and read in,
	// besides the plain JSON of schema.Model.
	Dialects []Dialect
}

// Dialect is a model language.
type Dialect struct {
	// Name is the language's, in lower case: "openfga".
	Name string
	// Parse reads a text. Its errors are told to whoever sent the text.
	Parse func(source []byte) (*schema.Model, error)
	// Format prints a model, or says why the language has no words for it.
	Format func(*schema.Model) (string, error)
}

// New returns the door over an engine.
func New(e *ostiary.Engine, o Options) (*door.Door, error) {
	s := &service{engine: e, options: o}
	d := &door.Door{Name: Name, Prefixes: []string{prefix}, Missing: missing, Refuse: refuse}
	for _, r := range routes {
		route := door.Route{Method: r.method, Pattern: prefix + r.path, Name: r.name, Streams: r.stream != nil,
			Public: r.public, BodyMax: r.bodyMax}
		switch {
		case r.stream != nil:
			route.Serve = s.streams(r.stream)
		case r.store != nil:
			route.Serve = s.onStore(r.store)
		default:
			route.Serve = s.plain(r.engine)
		}
		d.Routes = append(d.Routes, route)
	}
	return d, nil
}

// streamBytesMax bounds the body of an import: 1 TiB.
const streamBytesMax = 1 << 40

// route is one operation: on the engine, on a store, or as a stream.
type route struct {
	method, path, name string
	engine             func(*call) error
	store              func(*call) error
	stream             func(*call, http.ResponseWriter) error
	public             bool
	bodyMax            int64
}

// routes are all operations; openapi.json has the same.
var routes = [...]route{
	{method: "GET", path: "/openapi.json", name: "OpenAPI", engine: (*call).openAPI, public: true},
	{method: "GET", path: "/stores", name: "ListStores", engine: (*call).listStores},
	{method: "POST", path: "/stores", name: "CreateStore", engine: (*call).createStore},
	{method: "GET", path: "/stores/{store}", name: "GetStore", store: (*call).getStore},
	{method: "PATCH", path: "/stores/{store}", name: "UpdateStore", store: (*call).updateStore},
	{method: "DELETE", path: "/stores/{store}", name: "DeleteStore", store: (*call).deleteStore},
	{method: "GET", path: "/stores/{store}/schemas", name: "ListSchemas", store: (*call).listSchemas},
	{method: "POST", path: "/stores/{store}/schemas", name: "WriteSchema", store: (*call).writeSchema},
	{method: "GET", path: "/stores/{store}/schemas/{schema}", name: "GetSchema", store: (*call).getSchema},
	{method: "DELETE", path: "/stores/{store}/schemas/{schema}", name: "DeleteSchema", store: (*call).deleteSchema},
	{method: "POST", path: "/stores/{store}/write", name: "Write", store: (*call).write},
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
	{method: "POST", path: "/stores/{store}/import", name: "Import", stream: (*call).importStream, bodyMax: streamBytesMax},
	{method: "GET", path: "/stores/{store}/export", name: "Export", stream: (*call).exportStream},
}

type service struct {
	engine  *ostiary.Engine
	options Options
}

// call is one request under way.
type call struct {
	*service
	ctx    context.Context
	r      *http.Request
	params door.Params
	store  *ostiary.Store
	body   []byte
	// out is the answer; status is 0 for 200.
	out    []byte
	status int
}

// find sets the call's store: by its id, or by its alias for this door.
func (c *call) find() (err error) {
	name := c.params.At(0)
	if id, bad := storage.ParseStoreID(name); bad == nil {
		c.store, err = c.engine.Store(c.ctx, id)
	} else {
		c.store, err = c.engine.StoreByAlias(c.ctx, Name, name)
	}
	return err
}

func (s *service) plain(serve func(*call) error) func(http.ResponseWriter, *http.Request, door.Params) {
	return func(w http.ResponseWriter, r *http.Request, p door.Params) {
		c := call{service: s, ctx: r.Context(), r: r, params: p}
		c.reply(w, c.withBody(serve))
	}
}

func (s *service) onStore(serve func(*call) error) func(http.ResponseWriter, *http.Request, door.Params) {
	return func(w http.ResponseWriter, r *http.Request, p door.Params) {
		c := call{service: s, ctx: r.Context(), r: r, params: p}
		err := c.find()
		if err == nil {
			err = c.withBody(serve)
		}
		c.reply(w, err)
	}
}

// streams answers with a stream, or with an error if nothing was sent yet.
func (s *service) streams(serve func(*call, http.ResponseWriter) error) func(http.ResponseWriter, *http.Request, door.Params) {
	return func(w http.ResponseWriter, r *http.Request, p door.Params) {
		c := call{service: s, ctx: r.Context(), r: r, params: p}
		err := c.find()
		if err == nil {
			err = serve(&c, w)
		}
		if err != nil {
			fail(w, err)
		}
	}
}

// withBody reads the body of a request that has one.
func (c *call) withBody(serve func(*call) error) error {
	if c.r.Method != http.MethodPost && c.r.Method != http.MethodPatch {
		return serve(c)
	}
	if err := jsonOnly(c.r, "application/json"); err != nil {
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

// jsonOnly refuses a body that says it is something else.
func jsonOnly(r *http.Request, want string) error {
	t, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	if t = strings.TrimSpace(t); t != "" && !strings.EqualFold(t, want) {
		return &problem{status: http.StatusUnsupportedMediaType, Code: "content_type", Message: "the Content-Type must be " + want}
	}
	return nil
}

func (c *call) reply(w http.ResponseWriter, err error) {
	if err != nil {
		fail(w, err)
		return
	}
	w.Header()["Content-Type"] = jsonType
	if c.status != 0 {
		w.WriteHeader(c.status)
	}
	w.Write(c.out)
}

// json sets the answer.
func (c *call) json(v any) (err error) {
	c.out, err = json.Marshal(v)
	return err
}

var jsonType = []string{"application/json"}
