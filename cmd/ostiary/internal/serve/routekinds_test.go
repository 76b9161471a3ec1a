package serve

import (
	"bytes"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/memory"
)

// The kinds of routes in testdata/routes.kinds.
const (
	routeReads  = "reads"  // makes no entry of a log
	routeStores = "stores" // creates, changes or deletes a store, which makes no entry
	routeWrites = "writes" // TestEveryDoorNamesTheCaller sends a request to it
	routeToken  = "token"  // writes as the user of a token: TestTokenNamesTheCaller
	routeSecret = "secret" // writes as the user of another secret: TestCallersWithoutToken of package identity
)

// readRouteKinds reads the kind of each operation, by door and name.
func readRouteKinds(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("testdata/routes.kinds")
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]string{}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		known := []string{routeReads, routeStores, routeWrites, routeToken, routeSecret}
		if len(words) < 3 || !slices.Contains(known, words[1]) {
			t.Fatalf("line %q: expected a door, a kind of %v, and names", line, known)
		}
		for _, name := range words[2:] {
			if kinds[words[0]+" "+name] != "" {
				t.Errorf("%s %s is twice in routes.kinds", words[0], name)
			}
			kinds[words[0]+" "+name] = words[1]
		}
	}
	return kinds
}

// operations returns the names of all operations of a door, over HTTP and gRPC. The
// two have the same name for the same operation.
func operations(d *door.Door) (names []string) {
	for i := range d.Routes {
		names = append(names, d.Routes[i].Name)
	}
	for _, s := range d.Services {
		service := s.Desc.ServiceName[strings.LastIndexByte(s.Desc.ServiceName, '.')+1:] + "."
		if len(d.Services) == 1 {
			service = ""
		}
		for _, m := range s.Desc.Methods {
			names = append(names, service+m.MethodName)
		}
		for _, m := range s.Desc.Streams {
			names = append(names, service+m.StreamName)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// TestEveryRouteHasAKind compares the routes of all doors with testdata/routes.kinds. A
// new route must be there, so that a route that writes does not stay without a test
// of its caller.
func TestEveryRouteHasAKind(t *testing.T) {
	t.Parallel()
	kinds := readRouteKinds(t)
	for _, d := range openEveryDoor(t).doors {
		for _, name := range operations(d) {
			key := d.Name + " " + name
			if kinds[key] == "" {
				t.Errorf("%s is missing in routes.kinds: add it, and if it writes, a request to TestEveryDoorNamesTheCaller", key)
			}
		}
		for name, mark := range marks(t, d) {
			checkMark(t, d.Name+" "+name, kinds[d.Name+" "+name], mark)
		}
		for _, r := range d.Routes {
			if kinds[d.Name+" "+r.Name] == routeReads && r.Method != "GET" && r.Method != "HEAD" && r.Method != "POST" {
				t.Errorf("%s %s %s is a read in routes.kinds", d.Name, r.Method, r.Pattern)
			}
		}
		for _, name := range operations(d) {
			delete(kinds, d.Name+" "+name)
		}
	}
	for key := range kinds {
		t.Errorf("routes.kinds has %s, which no door has", key)
	}
}

// The marks of an operation, see door.Route.Writes.
const (
	markNone     = "no mark"
	markWrites   = "Writes"
	markMayWrite = "MayWrite"
)

// marks returns the mark of each operation of a door. It fails if only some of the routes
// and methods of an operation write, and if a service marks a method that it does not have,
// or that has a stream.
func marks(t *testing.T, d *door.Door) map[string]string {
	t.Helper()
	all := map[string]string{}
	set := func(name string, writes, mayWrite bool) {
		mark := markNone
		switch {
		case writes && mayWrite:
			t.Errorf("%s %s has two marks", d.Name, name)
		case writes:
			mark = markWrites
		case mayWrite:
			mark = markMayWrite
		}
		switch old := all[name]; {
		case old == "", old == mark:
		case old == markWrites, mark == markWrites:
			t.Errorf("%s %s has the marks %q and %q", d.Name, name, old, mark)
		default:
			mark = markMayWrite
		}
		all[name] = mark
	}
	for i := range d.Routes {
		set(d.Routes[i].Name, d.Routes[i].Writes, d.Routes[i].MayWrite != nil)
	}
	for _, s := range d.Services {
		service := s.Desc.ServiceName[strings.LastIndexByte(s.Desc.ServiceName, '.')+1:] + "."
		if len(d.Services) == 1 {
			service = ""
		}
		left := map[string]bool{}
		for _, name := range s.Writes {
			left[name] = true
		}
		for _, m := range s.Desc.Methods {
			writes := slices.Contains(s.Writes, m.MethodName)
			set(service+m.MethodName, writes, !writes && s.MayWrite != nil)
			delete(left, m.MethodName)
		}
		for _, m := range s.Desc.Streams {
			set(service+m.StreamName, false, false)
		}
		for name := range left {
			t.Errorf("%s marks %s, which is no unary method of %s", d.Name, name, s.Desc.ServiceName)
		}
	}
	return all
}

// checkMark compares the mark of an operation with its kind.
func checkMark(t *testing.T, key, kind, mark string) {
	t.Helper()
	allowed := map[string][]string{
		routeReads: {markNone, markMayWrite}, routeStores: {markWrites}, routeWrites: {markWrites},
		routeToken: {markWrites, markMayWrite}, routeSecret: {markWrites, markMayWrite},
	}[kind]
	if !slices.Contains(allowed, mark) {
		t.Errorf("%s is %q in routes.kinds and has %s, expected one of %q", key, kind, mark, allowed)
	}
}

// TestTokenNamesTheCaller sends a request with a token to each route of Identity
// whose caller needs one. Whatever becomes of the request, the author of its writes
// is the user of the token before the route begins.
func TestTokenNamesTheCaller(t *testing.T) {
	t.Parallel()
	x := openEveryDoorOn(t, memory.New())
	x.bootstrap()
	kinds, n := readRouteKinds(t), 0
	for _, d := range x.doors {
		for _, r := range d.Routes {
			if kinds[d.Name+" "+r.Name] != routeToken {
				continue
			}
			n++
			path := strings.NewReplacer("{", "", "}", "").Replace(r.Pattern)
			author := &authz.Author{Name: storage.CallerLocal}
			req := httptest.NewRequest(r.Method, path, bytes.NewReader([]byte("{}")))
			req = req.WithContext(authz.WithAuthor(req.Context(), author))
			req.Header.Set("X-Auth-Token", x.identity)
			var p door.Params
			route, _ := x.ports[d.Name].Find(r.Method, path, &p)
			if route == nil {
				t.Errorf("%s %s: no route", r.Method, path)
				continue
			}
			route.Serve(httptest.NewRecorder(), req, p)
			if author.Name != x.user {
				t.Errorf("%s %s: the caller is %q, want the user %q", r.Method, path, author.Name, x.user)
			}
		}
	}
	if n < 100 {
		t.Errorf("%d routes were called, want at least 100", n)
	}
}
