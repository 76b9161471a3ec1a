// Package native is the door for Ostiary's own API, /ostiary/v1: JSON over
// HTTP, and server-sent events for watches. It offers all features of the
// engine, including those that no other protocol has: explanations,
// entitlements, past revisions, differences, what-if, watches and streams.
// [New] returns the [door.Door]; openapi.json describes the API. The package
// never decides anything and uses no storage driver.
package native

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/callers"
	"github.com/ostiary/ostiary/internal/tool/jsonread"
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
	// Callers are the keys of callers in the system store. Nil means a registry of this
	// door's own.
	Callers *callers.Registry
	// DecisionLog and AuditLog are the folders of these logs of the server; "" is none.
	DecisionLog, AuditLog string
	// Nodes returns what is known about this server and the nodes that share its log, in the form
	// of the schema Nodes of openapi.json. Nil means that the server is a single one.
	Nodes func(context.Context) any
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
	if o.Callers == nil {
		o.Callers = callers.New(e, callers.Options{})
	}
	s := &service{engine: e, options: o}
	d := &door.Door{Name: Name, Prefixes: []string{prefix}, Guide: "docs/native.md", Missing: serveMissing, Refuse: serveRefusal}
	for _, r := range routes {
		d.Routes = append(d.Routes, door.Route{Method: r.method, Pattern: prefix + r.path, Name: r.name, Streams: r.streams, Writes: r.writes,
			Public: r.public, Unlimited: r.unlimited, BodyMax: r.bodyMax, Serve: s.handle(r)})
	}
	return d, nil
}

// streamBytesMax bounds the body of an import, in bytes.
const streamBytesMax = 1 << 40

// route is one operation.
type route struct {
	// method and path are the HTTP method and the path after prefix; name is the
	// operation's name.
	method, path, name string
	// writes is true if the operation changes a store.
	writes bool
	// serve handles a request. It fills in the response of the call; if streams is true,
	// it may write it itself.
	serve   func(*call) error
	streams bool
	// public routes need no authentication.
	public bool
	// unlimited is [door.Route.Unlimited].
	unlimited bool
	// bodyMax bounds the body in bytes; 0 is the server's bound.
	bodyMax int64
}

// routes are all operations. openapi.json describes the same ones, and a test
// compares them.
var routes = [...]route{
	{method: "GET", path: "/openapi.json", name: "OpenAPI", serve: (*call).openAPI, public: true},
	{method: "GET", path: "/me", name: "Me", serve: (*call).me},
	{method: "GET", path: "/keys", name: "ListKeys", serve: (*call).listKeys, unlimited: true},
	{method: "POST", path: "/keys", name: "CreateKey", writes: true, serve: (*call).createKey},
	{method: "GET", path: "/keys/{name}", name: "GetKey", serve: (*call).getKey, unlimited: true},
	{method: "POST", path: "/keys/{name}/rotate", name: "RotateKey", writes: true, serve: (*call).rotateKey},
	{method: "POST", path: "/keys/{name}/explain", name: "ExplainKey", serve: (*call).explainKey},
	{method: "DELETE", path: "/keys/{name}", name: "RevokeKey", writes: true, serve: (*call).revokeKey},
	{method: "PUT", path: "/keys/{name}/limits", name: "SetKeyLimits", writes: true, serve: (*call).setKeyLimits, unlimited: true},
	{method: "GET", path: "/limits", name: "ListLimits", serve: (*call).listLimits, unlimited: true},
	{method: "POST", path: "/audit", name: "Audit", serve: (*call).audit},
	{method: "GET", path: "/nodes", name: "Nodes", serve: (*call).nodes},
	{method: "GET", path: "/stores", name: "ListStores", serve: (*call).listStores, unlimited: true},
	{method: "POST", path: "/stores", name: "CreateStore", writes: true, serve: (*call).createStore},
	{method: "GET", path: "/stores/{store}", name: "GetStore", serve: (*call).getStore, unlimited: true},
	{method: "PATCH", path: "/stores/{store}", name: "UpdateStore", writes: true, serve: (*call).updateStore},
	{method: "DELETE", path: "/stores/{store}", name: "DeleteStore", writes: true, serve: (*call).deleteStore},
	{method: "PUT", path: "/stores/{store}/limits", name: "SetStoreLimits", writes: true, serve: (*call).setStoreLimits, unlimited: true},
	{method: "GET", path: "/stores/{store}/schemas", name: "ListSchemas", serve: (*call).listSchemas},
	{method: "POST", path: "/stores/{store}/schemas", name: "WriteSchema", writes: true, serve: (*call).writeSchema},
	{method: "GET", path: "/stores/{store}/schemas/{schema}", name: "GetSchema", serve: (*call).getSchema},
	{method: "DELETE", path: "/stores/{store}/schemas/{schema}", name: "DeleteSchema", writes: true, serve: (*call).deleteSchema},
	{method: "POST", path: "/stores/{store}/write", name: "Write", writes: true, serve: (*call).write},
	{method: "GET", path: "/stores/{store}/documents/{key}", name: "GetDocument", serve: (*call).getDocument},
	{method: "POST", path: "/stores/{store}/read", name: "Read", serve: (*call).read},
	{method: "POST", path: "/stores/{store}/read-attributes", name: "ReadAttributes", serve: (*call).readAttributes},
	{method: "POST", path: "/stores/{store}/check", name: "Check", serve: (*call).check},
	{method: "POST", path: "/stores/{store}/batch", name: "Batch", serve: (*call).batch},
	{method: "POST", path: "/stores/{store}/list-objects", name: "ListObjects", serve: (*call).listObjects},
	{method: "POST", path: "/stores/{store}/list-subjects", name: "ListSubjects", serve: (*call).listSubjects},
	{method: "POST", path: "/stores/{store}/expand", name: "Expand", serve: (*call).expand},
	{method: "POST", path: "/stores/{store}/explain", name: "Explain", serve: (*call).explain},
	{method: "POST", path: "/stores/{store}/entitlements", name: "Entitlements", serve: (*call).entitlements},
	{method: "POST", path: "/stores/{store}/changes", name: "Changes", serve: (*call).changes},
	{method: "POST", path: "/stores/{store}/difference", name: "Difference", serve: (*call).difference},
	{method: "POST", path: "/stores/{store}/what-if", name: "WhatIf", serve: (*call).whatIf},
	{method: "POST", path: "/stores/{store}/decisions", name: "Decisions", serve: (*call).decisions},
	{method: "GET", path: "/stores/{store}/watch", name: "Watch", serve: (*call).watch, streams: true},
	{method: "GET", path: "/stores/{store}/watch-permission", name: "WatchPermission", serve: (*call).watchPermission, streams: true},
	{method: "POST", path: "/stores/{store}/import", name: "Import", writes: true, serve: (*call).importStream, streams: true, bodyMax: streamBytesMax},
	{method: "GET", path: "/stores/{store}/export", name: "Export", serve: (*call).exportStream, streams: true},
}

// service holds what all requests share.
type service struct {
	engine  *ostiary.Engine
	options Options
}

// call is the state of one request.
type call struct {
	*service
	door.Call
	// store is the request's store; nil if the path names none.
	store *ostiary.Store
	// body is the request's JSON; nil if it has no body, or is a stream.
	body []byte
	// out is the response's JSON, and status its HTTP status; 0 means 200.
	out    []byte
	status int
}

// handle returns the handler of an operation.
func (s *service) handle(r route) func(http.ResponseWriter, *http.Request, door.Params) {
	named := strings.Contains(r.path, "{store}")
	return func(w http.ResponseWriter, req *http.Request, p door.Params) {
		c := call{service: s, Call: door.Call{W: w, R: req, Params: p}}
		defer c.End()
		err := c.prepare(named, r.streams)
		if err == nil {
			err = r.serve(&c)
		}
		switch {
		case err != nil:
			c.fail(err)
		case !r.streams || c.out != nil:
			door.WriteJSON(w, cmp.Or(c.status, http.StatusOK), c.out)
		}
	}
}

// prepare finds the store that the path names by its id, or by its alias for this door,
// and reads the body of a request that has one, except that of a stream.
func (c *call) prepare(named, streams bool) (err error) {
	at := authz.Acknowledged()
	if !streams && (c.R.Method == http.MethodPost || c.R.Method == http.MethodPatch || c.R.Method == http.MethodPut) {
		c.body, err = c.JSON()
		at = consistencyOf(c.body)
	}
	if named { // the error of an unknown store comes before that of the body
		var missing error
		if c.store, missing = door.FindStoreAt(c.Context(), c.engine, Name, c.Params.At(0), at); missing != nil {
			return missing
		}
	}
	return err
}

// consistencyOf returns the consistency with which the store of a request is looked up:
// that of the body if it is [authz.MinimizeLatency].
func consistencyOf(body []byte) authz.Consistency {
	if bytes.Contains(body, []byte("minimize_latency")) {
		r := jsonread.New(body)
		for r.Object(); r.Field(); {
			if string(r.Name()) == "at" {
				if at := readAt(r); r.Err() == nil && at == authz.MinimizeLatency() {
					return at
				}
				break
			}
			r.Skip()
		}
	}
	return authz.Acknowledged()
}

// fail writes err as the response, and reports a failure of the server. Nothing may have
// been written before.
func (c *call) fail(err error) {
	if c.options.Report != nil && describe(err).status == http.StatusInternalServerError {
		c.options.Report(err)
	}
	writeError(c.W, err)
}

// setJSON sets the response to v.
func (c *call) setJSON(v any) (err error) {
	c.out, err = json.Marshal(v)
	return err
}
