// Package onap is the door for the policy framework of ONAP: the policy API, the
// PAP API and the API of the XACML PDP. [New] returns one [door.Door] for each.
//
// Requests become policies and requests of the package policy (package pdp), and
// changes of a catalog in a store of its own (package catalog). A deployment is
// live when its request is answered. The package evaluates no policy itself.
package onap

import (
	"net/http"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/onap/internal/catalog"
)

// The names of the doors.
const (
	NamePDP = "onap-pdp" // decisions
	NameAPI = "onap-api" // types and policies
	NamePAP = "onap-pap" // groups and deployments
)

// StoreDoor is the name of the door whose alias names the store of the catalog,
// which the three doors share.
const StoreDoor = catalog.StoreDoor

// The prefixes of the doors.
const (
	prefixPDP = "/policy/pdpx/v1"
	prefixAPI = "/policy/api/v1"
	prefixPAP = "/policy/pap/v1"
)

// Options are the settings of the doors. The zero value is useful.
type Options struct {
	// FailOpen lets guards answer Permit if they cannot decide: a history query
	// fails, or an evaluation does. ONAP does that. The default is an error.
	FailOpen bool
	// Now returns the current time. Default time.Now.
	Now func() time.Time
	// Report gets internal errors, which responses do not show. Default: none.
	Report func(error)
}

// New returns the three doors over one catalog, in the order PDP, policy API,
// PAP. The catalog is loaded by the first request, and its store is created by
// the first change.
func New(e *ostiary.Engine, o Options) ([]*door.Door, error) {
	templates, err := catalog.Preloaded()
	if err != nil {
		return nil, err
	}
	if o.Report == nil {
		o.Report = func(error) {}
	}
	s := &service{options: o, statistics: newStatistics()}
	s.catalog = catalog.New(e, catalog.Options{Now: o.Now, Preload: templates, Compile: s.compile, Check: checkPolicy,
		Deployed: []catalog.ID{{Name: catalog.Naming, Version: "1.0.0"}}})
	return []*door.Door{s.pdpDoor(), s.apiDoor(), s.papDoor()}, nil
}

// service is what all requests share.
type service struct {
	options    Options
	catalog    *catalog.Catalog
	statistics *statistics
}

// newDoor returns a door with routes below a prefix. write writes an error.
func (s *service) newDoor(name, prefix string, write errorWriter, routes []door.Route) *door.Door {
	for i := range routes {
		routes[i].Pattern = prefix + routes[i].Pattern
	}
	return &door.Door{Name: name, Prefixes: []string{prefix}, Guide: "docs/onap.md", Routes: routes, Basic: true,
		Missing: func(w http.ResponseWriter, r *http.Request, methods []string) { serveMissing(w, r, methods, write) },
		Refuse: func(w http.ResponseWriter, r *http.Request, why *door.Refusal) {
			setHeaders(w, r)
			write(w, why.Status(), why.Error())
		}}
}
