package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/ostiary/ostiary/door"
)

// servedDoor is a door with its routes and what they need. A door on several
// ports has one servedDoor.
type servedDoor struct {
	*door.Door
	name       any // Door.Name, for contexts
	routes     *door.Router
	operations map[*door.Route]*operation
	// unmatched counts the requests that match no route.
	unmatched *operation
	decisions *decisionCounts
}

// newServedDoor returns an error if a route is invalid or outside of the
// prefixes of d.
func newServedDoor(d *door.Door, m *metrics) (*servedDoor, error) {
	routes, err := door.NewRouter(d.Routes)
	if err != nil {
		return nil, fmt.Errorf("door %s: %w", d.Name, err)
	}
	out := &servedDoor{Door: d, name: d.Name, routes: routes, operations: map[*door.Route]*operation{}, unmatched: &operation{series: m.series(d.Name, "http", "")}, decisions: m.decisionsOf(d.Name)}
	for i := range d.Routes {
		r := &d.Routes[i]
		if !hasPrefix(r.Pattern, d.Prefixes) && r.Pattern != "/" {
			return nil, fmt.Errorf("door %s: route %s has none of the door's prefixes %q", d.Name, r.Pattern, d.Prefixes)
		}
		out.operations[r] = &operation{series: m.series(d.Name, "http", r.Name), pattern: r.Pattern, public: r.Public, own: d.OwnAuthentication, basic: d.Basic,
			streams: r.Streams, login: r.Login, bodyMax: r.BodyMax, writes: r.Writes, mayWrite: r.MayWrite, unlimited: r.Unlimited}
	}
	return out, nil
}

// notFound answers a request that matches no route. methods are the methods of
// the routes with the same path.
func (d *servedDoor) notFound(w http.ResponseWriter, r *http.Request, methods []string) {
	switch {
	case d.Missing != nil:
		d.Missing(w, r, methods)
	case methods != nil:
		w.Header().Set("Allow", strings.Join(methods, ", "))
		w.WriteHeader(http.StatusMethodNotAllowed)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// hasPrefix reports whether path begins with the whole segments of a prefix.
func hasPrefix(path string, prefixes []string) bool {
	for _, p := range prefixes {
		if rest, ok := strings.CutPrefix(path, p); ok && (rest == "" || rest[0] == '/') {
			return true
		}
	}
	return false
}

// router finds the door and the route of a request on one port.
type router struct {
	root     node
	prefixes []doorPrefix
	versions *servedDoor // the door with a route of "/"; nil if there is none
	front    *servedDoor // the server's own page at "/"
}

// node is one segment in the tree of prefixes. It has few children, so a linear
// search is faster than a map.
type node struct {
	segment  string // "" of a parameter
	children []*node
	any      *node       // child of a parameter, which matches any segment; nil if there is none
	door     *servedDoor // nil if no prefix ends here
}

func (n *node) child(segment string) *node {
	for _, c := range n.children {
		if c.segment == segment {
			return c
		}
	}
	return nil
}

// doorPrefix is a prefix with its door, as the server's 404 lists it.
type doorPrefix struct {
	Prefix string `json:"prefix"` // for example "/stores"
	Door   string `json:"door"`   // the door's name
}

// newRouter returns the router of a port with doors. On a dedicated port the
// door serves every path. newRouter returns an error for an invalid prefix, or
// if two doors have the same prefix.
func newRouter(doors []*servedDoor, dedicated bool) (*router, error) {
	rt := &router{}
	for _, d := range doors {
		if slices.ContainsFunc(d.Routes, func(r door.Route) bool { return r.Pattern == "/" }) {
			if rt.versions != nil {
				return nil, fmt.Errorf("doors %s and %s both have the route /", rt.versions.Name, d.Name)
			}
			rt.versions = d
		}
		prefixes := d.Prefixes
		if dedicated {
			prefixes = []string{""}
		}
		for _, prefix := range prefixes {
			if err := rt.add(prefix, d); err != nil {
				return nil, err
			}
		}
	}
	return rt, nil
}

// add routes the paths below prefix to d.
func (rt *router) add(prefix string, d *servedDoor) error {
	if prefix != "" && (prefix[0] != '/' || strings.HasSuffix(prefix, "/") || !canonical(prefix)) {
		return fmt.Errorf("door %s: invalid prefix %q: expected a canonical path with a leading slash and no slash at its end", d.Name, prefix)
	}
	n := &rt.root
	for rest := prefix; rest != ""; {
		var segment string
		segment, rest = cutSegment(rest)
		n = n.grow(segment)
	}
	if n.door != nil {
		return fmt.Errorf("doors %s and %s both have the prefix %q", n.door.Name, d.Name, prefix)
	}
	n.door = d
	rt.prefixes = append(rt.prefixes, doorPrefix{prefix, d.Name})
	return nil
}

// grow returns the child of a segment of a prefix. It adds the child if there is
// none.
func (n *node) grow(segment string) *node {
	if segment[0] == '{' {
		if n.any == nil {
			n.any = &node{}
		}
		return n.any
	}
	child := n.child(segment)
	if child == nil {
		child = &node{segment: segment}
		n.children = append(n.children, child)
	}
	return child
}

// cutSegment splits a path with a leading slash behind its first segment.
func cutSegment(path string) (segment, rest string) {
	path = path[1:]
	if i := strings.IndexByte(path, '/'); i >= 0 {
		return path[:i], path[i:]
	}
	return path, ""
}

// match is the result of routing one request.
type match struct {
	path      string
	canonical bool        // see canonical
	door      *servedDoor // nil if no door has the path
	route     *door.Route // nil if no route of the door matches
	// methods are the methods of the routes with the same path, if route is nil.
	methods []string
	params  door.Params
}

// match finds the door and the route of r, and stores them in m.
func (rt *router) match(r *http.Request, m *match) {
	m.path = rawPath(r)
	m.canonical = canonical(m.path)
	m.door = rt.findDoor(m.path)
	switch {
	case m.door == nil && m.path == "/" && rt.versions != nil && acceptsJSON(r):
		m.door = rt.versions
	case m.door == nil && m.path == "/":
		m.door = rt.front
	case m.door == nil && !m.canonical:
		m.door = rt.findDoor(emptySegments.ReplaceAllString(m.path, "/")) // for the shape of the refusal
	}
	if m.door == nil || !m.canonical {
		return
	}
	if m.door.TrailingSlash && len(m.path) > 1 {
		m.path = strings.TrimSuffix(m.path, "/")
	}
	m.route, m.methods = m.door.routes.Find(r.Method, m.path, &m.params)
}

var emptySegments = regexp.MustCompile("//+")

// acceptsJSON reports whether a client accepts application/json by name.
func acceptsJSON(r *http.Request) bool {
	return slices.ContainsFunc(r.Header["Accept"], func(header string) bool { return strings.Contains(header, "application/json") })
}

// findDoor returns the door with the longest matching prefix, or nil.
func (rt *router) findDoor(path string) *servedDoor {
	found, _ := rt.root.longest(path, 0)
	return found
}

// longest returns the door with the longest prefix below n that path matches,
// and the depth at which the prefix ends. depth is that of n. Of two prefixes of
// the same length, the one with the fixed segment wins.
func (n *node) longest(path string, depth int) (*servedDoor, int) {
	found, at := n.door, depth
	if path == "" || path[0] != '/' || n.children == nil && n.any == nil {
		return found, at
	}
	segment, rest := cutSegment(path)
	for _, child := range [2]*node{n.child(segment), n.any} {
		if child == nil || segment == "" {
			continue
		}
		if d, deeper := child.longest(rest, depth+1); d != nil && deeper > at {
			found, at = d, deeper
		}
	}
	return found, at
}

// notFound answers a request whose path belongs to no door. The body lists the
// prefixes of the port's doors.
func (rt *router) notFound(w http.ResponseWriter) {
	message := "no door serves this path"
	if len(rt.prefixes) == 0 {
		message = "this port has no doors"
	}
	writeError(w, http.StatusNotFound, "not_found", message, rt.prefixes)
}

// writeError writes an error in the server's own shape. It is used where no door
// gives the response its shape.
func writeError(w http.ResponseWriter, status int, code, message string, prefixes []doorPrefix) {
	body, err := json.Marshal(map[string]any{"error": struct {
		Code    string       `json:"code"`
		Message string       `json:"message"`
		Serves  []doorPrefix `json:"serves,omitempty"`
	}{code, message, prefixes}})
	if err != nil {
		body = []byte("{}") // cannot happen: strings always marshal
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	w.Write(append(body, '\n'))
}

// operation is a route or a gRPC method, with what its requests need.
type operation struct {
	series   *series // its metrics
	pattern  string  // of the path, or the full name of the method without its slash; "" of none
	public   bool    // it needs no key
	own      bool    // its door authenticates its callers itself
	basic    bool    // its door accepts users with passwords
	streams  bool    // its requests and responses may last
	login    bool    // see door.Route.Login
	bodyMax  int64   // see door.Route.BodyMax
	writes   bool    // see door.Route.Writes
	mayWrite func() bool
	// unlimited is door.Route.Unlimited.
	unlimited bool
}

// changes reports whether a request changes a store, or may do so.
func (o *operation) changes() bool { return o.writes || o.mayWrite != nil && o.mayWrite() }
