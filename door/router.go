package door

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// ParamsMax is how many parameters a pattern may have.
const ParamsMax = 4

// Params are the parameters of a path, in the pattern's order, percent-decoded.
// The zero Params has none.
type Params struct {
	route  *Route
	names  []string
	values [ParamsMax]string
}

// At returns the i-th parameter of the pattern, or "".
func (p *Params) At(i int) string {
	if i < 0 || i >= len(p.names) {
		return ""
	}
	return p.values[i]
}

// Named returns a parameter by its name, or "".
func (p *Params) Named(name string) string {
	for i, n := range p.names {
		if n == name {
			return p.values[i]
		}
	}
	return ""
}

// Route is the route that matched.
func (p *Params) Route() *Route { return p.route }

// Router finds the route of a request. It is made once and safe for concurrent
// use; a lookup allocates nothing.
type Router struct {
	root node
}

// node is one position in the tree of segments.
type node struct {
	literal []literal
	param   *node
	methods []entry // of patterns that end here
	rest    []entry // of patterns that end here with {name...}
}

// literal is a segment and what lies below it. A node has a dozen at most, which
// are sooner compared than hashed.
type literal struct {
	segment string
	node    *node
}

type entry struct {
	route *Route
	names []string
}

// NewRouter returns a router over routes. A malformed pattern, and two routes
// with one method and path, are errors. Where a literal segment and a parameter
// both fit, the literal wins if something lies below it.
func NewRouter(routes []Route) (*Router, error) {
	r := &Router{}
	for i := range routes {
		if err := r.add(&routes[i]); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *Router) add(route *Route) error {
	rest, ok := strings.CutPrefix(route.Pattern, "/")
	if !ok || route.Method == "" || route.Serve == nil {
		return fmt.Errorf("door: route %q %q: wants a method, a path and a function", route.Method, route.Pattern)
	}
	at, names := &r.root, []string(nil)
	for rest != "" || at == &r.root {
		segment, left, more := strings.Cut(rest, "/")
		if segment == "" && (more || at != &r.root) || more && left == "" {
			return fmt.Errorf("door: route %q: empty segment", route.Pattern)
		}
		rest = left
		name, braced := strings.CutPrefix(segment, "{")
		if !braced {
			at = at.child(segment)
			if !more {
				break
			}
			continue
		}
		name, braced = strings.CutSuffix(name, "}")
		if !braced || name == "" || len(names) == ParamsMax {
			return fmt.Errorf("door: route %q: bad or too many parameters (at most %d)", route.Pattern, ParamsMax)
		}
		if name, braced = strings.CutSuffix(name, "..."); braced {
			if more {
				return fmt.Errorf("door: route %q: {%s...} is not last", route.Pattern, name)
			}
			return put(&at.rest, route, append(names, name))
		}
		names = append(names, name)
		if at.param == nil {
			at.param = &node{}
		}
		at = at.param
	}
	return put(&at.methods, route, names)
}

// child returns the node of a segment, which it makes if there is none.
func (n *node) child(segment string) *node {
	if c := n.find(segment); c != nil {
		return c
	}
	c := &node{}
	n.literal = append(n.literal, literal{segment, c})
	return c
}

func (n *node) find(segment string) *node {
	for i := range n.literal {
		if l := &n.literal[i]; l.segment == segment {
			return l.node
		}
	}
	return nil
}

func put(list *[]entry, route *Route, names []string) error {
	for _, e := range *list {
		if e.route.Method == route.Method {
			return fmt.Errorf("door: routes %q and %q are one", e.route.Pattern, route.Pattern)
		}
	}
	*list = append(*list, entry{route, names})
	return nil
}

// Find returns the route of a request with its parameters in p, or nil. For a
// path that has routes of other methods only, methods lists these, sorted; a
// HEAD finds the GET. path is the URL's escaped path.
func (r *Router) Find(method, path string, p *Params) (route *Route, methods []string) {
	rest, ok := strings.CutPrefix(path, "/")
	if !ok {
		return nil, nil
	}
	list := r.root.walk(rest, p, 0)
	if list == nil {
		return nil, nil
	}
	for _, want := range [2]string{method, headAsGet(method)} {
		for i := range list {
			if e := &list[i]; e.route.Method == want {
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

// walk returns the entries that path leads to, nil if none.
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
	if n.param != nil && segment != "" && params < ParamsMax {
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
	if n.rest != nil && params < ParamsMax {
		p.values[params] = path
		return n.rest
	}
	return nil
}

// unescape decodes a segment; what is not valid stays as it is, and is then a
// name that nothing has.
func unescape(s string) string {
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
	return pathUnescape(s)
}
