// Package keystone is the door for OpenStack's Identity API v3: discovery,
// tokens, users, groups, projects, domains, roles, grants and the catalog. [New]
// returns the [door.Door].
//
// The deployment is a store of the engine, which package identity keeps, and
// package access decides what a caller may do. The door reads tokens, requests
// and queries, and writes responses. Routes that it does not have answer 404. It uses no
// driver and no other door.
package keystone

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/identity/access"
	"github.com/ostiary/ostiary/internal/identity/settings"
	"github.com/ostiary/ostiary/internal/tool/derived"
)

// Name is the door's name, under which stores have aliases.
const Name = "keystone"

// DefaultStore is the alias of the store that holds the deployment.
const DefaultStore = "default"

// RequestTimeoutDefault is the default of Options.RequestTimeout.
const RequestTimeoutDefault = 30 * time.Second

// Options are the settings of the door.
type Options struct {
	// Keys returns the Fernet keys, the primary key first. It is called for every
	// token, so it must be quick; a caller that reads keys from a folder caches
	// them. Nil uses one random key, so that tokens end with the process.
	Keys func(context.Context) ([]settings.Key, error)
	// ReceiptKeys returns the Fernet keys of receipts, the primary key first, as Keys
	// does. Nil uses one random key, so that receipts end with the process.
	ReceiptKeys func(context.Context) ([]settings.Key, error)
	// Policy returns the rules that decide who may call what. It is called for every
	// request, so it must be quick. Nil means [access.Default].
	Policy func() *access.Policy
	// URL is the base of all links, for example "https://identity.example.com",
	// without a slash at the end. The default is scheme and host of the request.
	URL string
	// Store is the id or the alias of the store. The default is [DefaultStore].
	Store string
	// Providers verifies the tokens of identity providers. Nil refuses federated
	// logins.
	Providers Verifier
	// Identity are the settings of the deployment.
	Identity settings.Deployment
	// Permissions are relations of projects that other doors can ask about. Nil leaves
	// those of the store as they are.
	Permissions settings.Permissions
	// RequestTimeout bounds a request if it is longer than the server's timeout: a
	// request with a password waits for one or two hashes, and for those of others.
	// The default is [RequestTimeoutDefault].
	RequestTimeout time.Duration
	// Report is called with errors that no response shows. Nil ignores them.
	Report func(error)
	// Refused is called for each caller whose login or token is not accepted, with the
	// caller's address, the id of the request, and the reason, which no response
	// shows and which has no secret. It must be quick. Nil ignores them.
	Refused func(remote, id string, why error)
	// Notify is called with a notification as Keystone sends it, as JSON: who has changed
	// what, in the form of CADF. It must be quick, and must not keep the bytes. Nil makes
	// none. NotifyOptOut are the types of events that are left out, as in Keystone's
	// notification_opt_out, and Publisher is the name of this machine.
	Notify       func(notification []byte)
	NotifyOptOut []string
	Publisher    string
	// Warn is called with what an operator should know about the settings. Nil ignores
	// it.
	Warn func(error)
}

// service holds what all requests share.
type service struct {
	engine  *ostiary.Engine
	options Options
	router  *door.Router
	// opening serializes opening the deployment.
	opening sync.Mutex
	// opened is the deployment; nil before the first request.
	opened atomic.Pointer[identity.Service]
	// warned is the time of the latest warning about identity providers, in Unix
	// nanoseconds.
	warned atomic.Int64
	// decoded are tokens that were decoded with the current keys, by the digest of their
	// text, and catalogs the catalogs that were shown at the newest revision.
	decoded  *derived.Cache[[sha256.Size]byte, [sha256.Size]byte, *decoded]
	catalogs *derived.Cache[catalogState, catalogKey, []byte]
	// home and rootHome are the home documents at /v3 and at /.
	home, rootHome []byte
}

// New returns the door to an engine. Prepare of the door, or the first request,
// opens the store.
func New(e *ostiary.Engine, o Options) (*door.Door, error) {
	if strings.HasSuffix(o.URL, "/") {
		return nil, fmt.Errorf("keystone: invalid URL %q: expected no slash at the end", o.URL)
	}
	if err := errors.Join(identity.Validate(o.Identity), identity.ValidatePermissions(o.Permissions)); err != nil {
		return nil, fmt.Errorf("keystone: %w", err)
	}
	if o.Keys == nil {
		o.Keys = randomKey()
	}
	if o.ReceiptKeys == nil {
		o.ReceiptKeys = randomKey()
	}
	if o.Policy == nil {
		standard := access.Default()
		o.Policy = func() *access.Policy { return standard }
	}
	if o.Store == "" {
		o.Store = DefaultStore
	}
	if o.Report == nil {
		o.Report = func(error) {}
	}
	if o.Refused == nil {
		o.Refused = func(string, string, error) {}
	}
	if o.Warn == nil {
		o.Warn = func(error) {}
	}
	s := &service{engine: e, options: o, decoded: derived.New[[sha256.Size]byte, [sha256.Size]byte, *decoded](decodedMax),
		catalogs: derived.New[catalogState, catalogKey, []byte](catalogsMax)}
	d := &door.Door{Name: Name, RequestTimeout: cmp.Or(o.RequestTimeout, RequestTimeoutDefault), Prefixes: append(slices.Clone(prefixes), pathHealth), OwnAuthentication: true,
		Guide: "docs/keystone.md", TrailingSlash: true, HealthPath: pathHealth, ServeHealth: s.serveHealth,
		Refuse: s.refuse, Missing: s.missing, Prepare: s.prepare, Background: s.flush}
	var err error
	if s.home, err = home(""); err != nil {
		return nil, err
	}
	if s.rootHome, err = home("/v3"); err != nil {
		return nil, err
	}
	d.Routes = []door.Route{{Method: http.MethodGet, Pattern: "/", Name: "Versions", Serve: s.versions}}
	for _, r := range routes {
		for _, prefix := range prefixes {
			d.Routes = append(d.Routes, s.mount(prefix, r)...)
		}
	}
	s.router, err = door.NewRouter(d.Routes)
	return d, err
}

// randomKey returns a function that returns one random key.
func randomKey() func(context.Context) ([]settings.Key, error) {
	keys := []settings.Key{settings.NewKey()}
	return func(context.Context) ([]settings.Key, error) { return keys, nil }
}

// prefixes are the paths of the API. DevStack serves it below /identity.
var prefixes = []string{"/v3", "/identity/v3"}

// bodyMax bounds the body of a request, as Keystone does.
const bodyMax = 114_688

// mount returns the routes of one entry of the table: GET also serves HEAD.
func (s *service) mount(prefix string, r route) []door.Route {
	methods := []string{r.method}
	if r.method == http.MethodGet {
		methods = append(methods, http.MethodHead)
	}
	var out []door.Route
	for _, m := range methods {
		one := door.Route{Method: m, Pattern: prefix + r.path, Name: r.name, Writes: r.writes(), Login: r.login, BodyMax: bodyMax, Serve: s.serve(r)}
		if r.mayWrite {
			one.MayWrite = func() bool { return true }
		}
		out = append(out, one)
	}
	return out
}
