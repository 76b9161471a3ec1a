package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/ostiary/ostiary/door"
)

// mounted is a door with what the server keeps about it. A door on several
// ports has one.
type mounted struct {
	*door.Door
	router *door.Router
	routes map[*door.Route]*series
	// missing counts what none of the routes answers.
	missing *series
}

func newMounted(d *door.Door, m *metrics) (*mounted, error) {
	router, err := door.NewRouter(d.Routes)
	if err != nil {
		return nil, fmt.Errorf("door %s: %w", d.Name, err)
	}
	out := &mounted{Door: d, router: router, routes: map[*door.Route]*series{}, missing: m.series(d.Name, "http", "")}
	for i := range d.Routes {
		r := &d.Routes[i]
		if !under(r.Pattern, d.Prefixes) {
			return nil, fmt.Errorf("door %s: route %s is below none of its prefixes", d.Name, r.Pattern)
		}
		out.routes[r] = m.series(d.Name, "http", r.Name)
	}
	return out, nil
}

// miss answers what none of the door's routes does.
func (m *mounted) miss(w http.ResponseWriter, r *http.Request, methods []string) {
	switch {
	case m.Missing != nil:
		m.Missing(w, r, methods)
	case methods != nil:
		w.Header().Set("Allow", strings.Join(methods, ", "))
		w.WriteHeader(http.StatusMethodNotAllowed)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func under(path string, prefixes []string) bool {
	for _, p := range prefixes {
		if rest, ok := strings.CutPrefix(path, p); ok && (rest == "" || rest[0] == '/') {
			return true
		}
	}
	return false
}

// table finds the door of a path: the longest prefix of whole segments.
type table struct {
	root  segment
	alone bool
	names []claim
}

// segment is a place in the tree of prefixes. Those below it are a handful,
// sooner compared than hashed.
type segment struct {
	name  string
	below []*segment
	door  *mounted
}

func (s *segment) find(name string) *segment {
	for _, below := range s.below {
		if below.name == name {
			return below
		}
	}
	return nil
}

// claim is a prefix and whose it is, for the 404 that tells.
type claim struct {
	Prefix string `json:"prefix"`
	Door   string `json:"door"`
}

// newTable mounts doors on a port. A door alone has every path. Two doors with
// one prefix are an error.
func newTable(doors []*mounted, alone bool) (*table, error) {
	t := &table{alone: alone}
	for _, d := range doors {
		prefixes := d.Prefixes
		if alone {
			prefixes = []string{""}
		}
		for _, prefix := range prefixes {
			if prefix != "" && (prefix[0] != '/' || strings.HasSuffix(prefix, "/") || !canonical(prefix)) {
				return nil, fmt.Errorf("door %s: prefix %q wants a leading slash and none at its end", d.Name, prefix)
			}
			at := &t.root
			for rest := prefix; rest != ""; {
				var name string
				name, rest = cutSegment(rest)
				below := at.find(name)
				if below == nil {
					below = &segment{name: name}
					at.below = append(at.below, below)
				}
				at = below
			}
			if at.door != nil {
				return nil, fmt.Errorf("doors %s and %s both claim %q", at.door.Name, d.Name, prefix)
			}
			at.door = d
			t.names = append(t.names, claim{prefix, d.Name})
		}
	}
	return t, nil
}

// cutSegment takes the first segment off a path that begins with a slash.
func cutSegment(path string) (name, rest string) {
	path = path[1:]
	if i := strings.IndexByte(path, '/'); i >= 0 {
		return path[:i], path[i:]
	}
	return path, ""
}

// find returns the door that a path belongs to, or nil.
func (t *table) find(path string) *mounted {
	at := &t.root
	found := at.door
	for path != "" && path[0] == '/' && at.below != nil {
		var name string
		name, path = cutSegment(path)
		if at = at.find(name); at == nil {
			break
		}
		if at.door != nil {
			found = at.door
		}
	}
	return found
}

// nobody answers, in the server's own shape, a path that no door has: with what
// is there.
func (t *table) nobody(w http.ResponseWriter, r *http.Request) {
	message := "nothing is at this path"
	if len(t.names) == 0 {
		message = "this port serves no door"
	}
	writeError(w, http.StatusNotFound, "not_found", message, t.names)
}

// writeError is the server's own shape of a refusal.
func writeError(w http.ResponseWriter, status int, code, message string, serves []claim) {
	body, err := json.Marshal(map[string]any{"error": struct {
		Code    string  `json:"code"`
		Message string  `json:"message"`
		Serves  []claim `json:"serves,omitempty"`
	}{code, message, serves}})
	if err != nil {
		body = []byte("{}") // strings alone: it marshals
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	w.Write(append(body, '\n'))
}
