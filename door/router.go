package door

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// ParamsMax bounds the parameters of a pattern.
const ParamsMax = 4

// Params are the parameters of a matched path, in the pattern's order and
// percent-decoded. The zero Params has none.
type Params struct {
	// route is the route that matched.
	route *Route
	// names are the names of the parameters; values their values.
	names  []string
	values [ParamsMax]string
}

// At returns parameter i of the pattern, from 0, or "" if there is none.
func (p *Params) At(i int) string {
	if i < 0 || i >= len(p.names) {
		return ""
	}
	return p.values[i]
}

// Named returns the parameter of that name, or "" if there is none.
func (p *Params) Named(name string) string {
	for i, n := range p.names {
		if n == name {
			return p.values[i]
		}
	}
	return ""
}

// Route returns the route that matched.
func (p *Params) Route() *Route { return p.route }

// Router finds the route of a request. It is immutable and safe for concurrent
// use. A lookup does not allocate.
type Router struct {
	root node
}

// node is one position in the tree of path segments.
type node struct {
	// literals are the children for fixed segments.
	literals []literal
	// param is the child for a parameter; nil if there is none.
	param *node
	// methods are the routes of patterns that end at this node.
	methods []entry
	// rest are the routes of patterns that end with {name...} below this node.
	rest []entry
}

// literal is a fixed segment and its node. A node has about a dozen of them at
// most, so a linear search is faster than a map.
type literal struct {
	segment string
	node    *node
}

// entry is a route and the names of its parameters.
type entry struct {
	route *Route
	names []string
}

// NewRouter returns a router over routes. It fails if a pattern is malformed,
// or if two routes have the same method and path. If a fixed segment and a
// parameter both match a segment of a path, the fixed segment wins if a route
// exists below it.
func NewRouter(routes []Route) (*Router, error) {
	r := &Router{}
	for i := range routes {
		if err := r.add(&routes[i]); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// add adds one route to the tree.
func (r *Router) add(route *Route) error {
	rest, ok := strings.CutPrefix(route.Pattern, "/")
	if !ok || route.Method == "" || route.Serve == nil {
		return fmt.Errorf("door: route %q %q: expected a method, a path that begins with / and a function", route.Method, route.Pattern)
	}
	n, names := &r.root, []string(nil)
	for rest != "" || n == &r.root {
		segment, after, more := strings.Cut(rest, "/")
		if more && (segment == "" || after == "") {
			return fmt.Errorf("door: route %q: empty segment", route.Pattern)
		}
		rest = after
		name, braced := strings.CutPrefix(segment, "{")
		if !braced {
			n = n.child(segment)
			continue
		}
		name, braced = strings.CutSuffix(name, "}")
		if !braced || name == "" || len(names) == ParamsMax {
			return fmt.Errorf("door: route %q: invalid parameter, or more than %d parameters", route.Pattern, ParamsMax)
		}
		if name, braced = strings.CutSuffix(name, "..."); braced {
			if more {
				return fmt.Errorf("door: route %q: {%s...} must be the last segment", route.Pattern, name)
			}
			return addEntry(&n.rest, route, append(names, name))
		}
		names = append(names, name)
		if n.param == nil {
			n.param = &node{}
		}
		n = n.param
	}
	return addEntry(&n.methods, route, names)
}

// child returns the node of a fixed segment. It adds the node if it is missing.
func (n *node) child(segment string) *node {
	if c := n.find(segment); c != nil {
		return c
	}
	c := &node{}
	n.literals = append(n.literals, literal{segment, c})
	return c
}

// find returns the node of a fixed segment, or nil.
func (n *node) find(segment string) *node {
	for i := range n.literals {
		if l := &n.literals[i]; l.segment == segment {
			return l.node
		}
	}
	return nil
}

// addEntry adds a route to a node's list. It fails if the list has a route of
// the same method.
func addEntry(list *[]entry, route *Route, names []string) error {
	for _, e := range *list {
		if e.route.Method == route.Method {
			return fmt.Errorf("door: routes %q and %q match the same paths", e.route.Pattern, route.Pattern)
		}
	}
	*list = append(*list, entry{route, names})
	return nil
}

// ServeHTTP calls the route of a request, and answers 404 if there is none. It has none
// of a server's checks and bounds.
func (r *Router) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	var p Params
	route, _ := r.Find(request.Method, request.URL.EscapedPath(), &p)
	if route == nil {
		http.NotFound(w, request)
		return
	}
	route.Serve(w, request, p)
}

// Find returns the route of a request and stores its parameters in p. If the
// path has routes of other methods only, it returns nil and these methods,
// sorted. A HEAD request finds the GET route. path is the URL's escaped path.
func (r *Router) Find(method, path string, p *Params) (route *Route, methods []string) {
	rest, ok := strings.CutPrefix(path, "/")
	if !ok {
		return nil, nil
	}
	list := r.root.walk(rest, p, 0)
	for _, m := range [...]string{method, headAsGet(method)} {
		for i := range list {
			if e := &list[i]; e.route.Method == m {
				for j := range e.names {
					p.values[j] = unescape(p.values[j])
				}
				p.names, p.route = e.names, e.route
				return e.route, nil
			}
		}
	}
	for i := range list {
		methods = append(methods, list[i].route.Method)
	}
	slices.Sort(methods)
	return nil, methods
}

func headAsGet(method string) string {
	if method == http.MethodHead {
		return http.MethodGet
	}
	return method
}

// walk returns the entries that match the rest of a path, or nil. It stores
// parameters in p; params is the number stored so far.
func (n *node) walk(path string, p *Params, params int) []entry {
	segment, rest, more := strings.Cut(path, "/")
	if c := n.find(segment); c != nil {
		if !more && c.methods != nil {
			return c.methods
		}
		if more {
			if list := c.walk(rest, p, params); list != nil {
				return list
			}
		}
	}
	if n.param != nil && segment != "" {
		p.values[params] = segment
		if !more && n.param.methods != nil {
			return n.param.methods
		}
		if more {
			if list := n.param.walk(rest, p, params+1); list != nil {
				return list
			}
		}
	}
	if n.rest != nil {
		p.values[params] = path
		return n.rest
	}
	return nil
}

// unescape percent-decodes a segment. An invalid segment stays as it is; no
// name equals it then.
func unescape(s string) string {
	if u, err := url.PathUnescape(s); err == nil {
		return u
	}
	return s
}
