// Package xacml is the door for XACML 3.0: decisions over the REST profile of
// XACML 1.1 with the XML and the JSON profile, and the administration of policy
// domains. [New] returns the [door.Door].
//
// The paths below /xacml/v3 belong to the default domain, and those below
// /stores/{store}/xacml/v3 to the domain with that id or alias, or to the own
// domain of a relation store. Package internal/engine/domain keeps the policies and
// decides; this package translates, and never evaluates a policy.
package xacml

import (
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/engine/domain"
	"github.com/ostiary/ostiary/policy/value"
	"github.com/ostiary/ostiary/storage"
)

// Name is the door's name. The alias of a policy domain is one for this door: it is the
// value of domain.Alias.
const Name = "xacml"

// prefix and storePrefix precede the paths of the default domain and of any
// other.
const (
	prefix      = "/xacml/v3"
	storePrefix = "/stores/{store}" + prefix
)

// Options are the settings of the door. The zero value is useful.
type Options struct {
	// Domains finds and makes the policy domains. Nil means a new registry with
	// default options.
	Domains *domain.Registry
	// Relations is the id of the store that the default domain may ask. It takes effect
	// when the default domain is made, and never changes. The zero value means none.
	Relations storage.StoreID
}

// New returns the door to an engine's policy domains.
func New(e *ostiary.Engine, o Options) (*door.Door, error) {
	if o.Domains == nil {
		r, err := domain.NewRegistry(e, domain.Options{})
		if err != nil {
			return nil, err
		}
		o.Domains = r
	}
	s := &service{engine: e, options: o}
	d := &door.Door{Name: Name, Prefixes: []string{prefix, storePrefix}, Guide: "docs/xacml.md", Missing: serveMissing, Refuse: serveRefusal}
	for _, r := range routes {
		one := door.Route{Method: r.method, Pattern: prefix + r.path, Name: r.name, Writes: r.writes, Serve: s.handle(r)}
		named := one
		named.Pattern = storePrefix + r.path
		if !r.writes && !r.shared {
			one.MayWrite = s.makesDefault
		}
		d.Routes = append(d.Routes, one)
		if !r.shared {
			d.Routes = append(d.Routes, named)
		}
	}
	return d, nil
}

// route is one operation on a domain.
type route struct {
	// method and path are the HTTP method and the path after the prefix.
	method, path, name string
	serve              func(*call) error
	// writes is true if the operation changes a store.
	writes bool
	// makes is true if the operation makes the domain of a relation store that has
	// none.
	makes bool
	// shared is true for an operation that concerns no single domain. It exists only
	// below prefix.
	shared bool
	// query are the names of the parameters that the operation accepts.
	query []string
}

// routes are all operations.
var routes = [...]route{
	{method: "GET", path: "", name: "Home", serve: (*call).home, shared: true},
	{method: "GET", path: "/domains", name: "ListDomains", serve: (*call).listDomains, shared: true, query: []string{"limit", "after"}},
	{method: "POST", path: "/domains", name: "MakeDomain", writes: true, serve: (*call).makeDomain, shared: true},
	{method: "POST", path: "/pdp", name: "Decide", serve: (*call).decide, query: decisionQuery},
	{method: "POST", path: "/explain", name: "Explain", serve: (*call).explain, query: decisionQuery},
	{method: "GET", path: "/domain", name: "GetDomain", serve: (*call).getDomain},
	{method: "GET", path: "/policies", name: "ListPolicies", serve: (*call).listPolicies, query: []string{"limit", "after", "revision"}},
	{method: "POST", path: "/policies", name: "ChangePolicies", writes: true, serve: (*call).changePolicies, makes: true},
	{method: "DELETE", path: "/policies", name: "DeletePolicies", writes: true, serve: (*call).deletePolicies, query: expectQuery},
	{method: "GET", path: "/policies/{name}", name: "GetPolicy", serve: (*call).getPolicy},
	{method: "PUT", path: "/policies/{name}", name: "PutPolicy", writes: true, serve: (*call).putPolicy, makes: true, query: expectQuery},
	{method: "DELETE", path: "/policies/{name}", name: "DeletePolicy", writes: true, serve: (*call).deletePolicy, query: expectQuery},
	{method: "GET", path: "/policies/{name}/versions", name: "ListVersions", serve: (*call).listVersions, query: []string{"limit"}},
	{method: "GET", path: "/policies/{name}/versions/{revision}", name: "GetVersion", serve: (*call).getVersion},
	{method: "GET", path: "/root", name: "GetRoot", serve: (*call).getPolicy},
	{method: "PUT", path: "/root", name: "PutRoot", writes: true, serve: (*call).putPolicy, makes: true, query: expectQuery},
	{method: "GET", path: "/root/versions", name: "ListRootVersions", serve: (*call).listVersions, query: []string{"limit"}},
	{method: "GET", path: "/root/versions/{revision}", name: "GetRootVersion", serve: (*call).getVersion},
	{method: "POST", path: "/validate", name: "Validate", serve: (*call).validate, query: []string{"name"}},
	{method: "POST", path: "/test", name: "Test", serve: (*call).test},
	{method: "POST", path: "/search", name: "Search", serve: (*call).search},
}

// Names of parameters that several operations accept.
var (
	expectQuery   = []string{"expect"}
	decisionQuery = []string{"trace", "revision", "relations"}
)

// service holds what all requests share.
type service struct {
	engine  *ostiary.Engine
	options Options
	// hasDefault is true if the last request found the default domain.
	hasDefault atomic.Bool
}

// makesDefault reports whether the next request for the default domain, also a read, may
// make it.
func (s *service) makesDefault() bool { return !s.hasDefault.Load() }

// call is the state of one request.
type call struct {
	*service
	door.Call
	// query has the parameters of the URL, each once.
	query url.Values
	// domain is nil for an operation that concerns no single domain.
	domain *domain.Domain
}

// handle returns the handler of an operation.
func (s *service) handle(r route) func(http.ResponseWriter, *http.Request, door.Params) {
	return func(w http.ResponseWriter, req *http.Request, p door.Params) {
		c := &call{service: s, Call: door.Call{W: w, R: req, Params: p}}
		defer c.End()
		if err := c.run(&r); err != nil {
			writeError(w, err)
		}
	}
}

// run reads the parameters of the URL, finds the domain and serves the request.
func (c *call) run(r *route) (err error) {
	if c.query, err = c.QueryOf(r.query...); err != nil {
		return err
	}
	if !r.shared {
		if c.domain, err = c.find(c.Params.Named("store"), r.makes); err != nil {
			return err
		}
	}
	return r.serve(c)
}

// find returns the domain with a name, or the default domain for "". If makes is
// true, it makes the domain of a relation store that has none.
func (c *call) find(name string, makes bool) (*domain.Domain, error) {
	switch {
	case name == "":
		return c.defaultDomain()
	case makes:
		return c.options.Domains.FindOrMake(c.Context(), name)
	}
	return c.options.Domains.Find(c.Context(), name)
}

// defaultDomain returns the default domain, and makes it on the first use.
func (c *call) defaultDomain() (*domain.Domain, error) {
	var relations *ostiary.Store
	if id := c.options.Relations; id != (storage.StoreID{}) {
		var err error
		if relations, err = c.engine.Store(c.Context(), id); err != nil {
			return nil, err
		}
	}
	d, err := c.options.Domains.Default(c.Context(), relations)
	if has := err == nil; has != c.hasDefault.Load() {
		c.hasDefault.Store(has)
	}
	return d, err
}

// number returns a parameter of the URL as a number of at most most, or standard
// if the URL does not have it.
func (c *call) number(name string, standard, most int) (int, error) {
	text := c.query.Get(name)
	if text == "" {
		return standard, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, badRequest("invalid parameter " + name + "=" + value.Quote(text) + ": expected a number from 1 to " + strconv.Itoa(most))
	}
	return n, nil
}

// revision parses the number of a revision.
func revision(text string) (storage.Revision, error) {
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil || n == 0 {
		return 0, badRequest("invalid revision " + value.Quote(text) + ": expected a number from 1")
	}
	return storage.Revision(n), nil
}
