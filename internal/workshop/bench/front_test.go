package bench_test

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/authzen"
	"github.com/ostiary/ostiary/door/native"
	"github.com/ostiary/ostiary/door/onap"
	"github.com/ostiary/ostiary/door/openfga"
	"github.com/ostiary/ostiary/door/permify"
	"github.com/ostiary/ostiary/expr/cel"
	"github.com/ostiary/ostiary/internal/workshop/bench"
)

// front is in front of a server. It notes the requests of each cell, and can refuse
// them or spoil the responses.
type front struct {
	server http.Handler
	// refuse, if not nil, returns true for a request of a cell, from 1, that does not
	// reach the server: the response is the status 418.
	refuse func(cell string, n int) bool
	// spoil, if not nil, changes the n-th response of a cell, from 1.
	spoil func(cell string, n int, status int, body []byte) (int, []byte)

	mu    sync.Mutex
	cell  string // the current cell; "" between cells
	count int    // its requests
	cells []string
	seen  map[string]map[string][]string // the bodies by cell and by method, path and headers
	order map[string][]string            // methods and paths by cell
	// finished is the greatest progress of each cell, and its total.
	finished map[string][2]int
}

// progress is the Progress of a Runner.
func (f *front) progress(title string, done, total int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, cell, found := strings.Cut(title, ": "); found && strings.HasPrefix(title, "cell ") {
		title = cell
	}
	if f.finished == nil {
		f.finished = map[string][2]int{}
	}
	f.finished[title] = [2]int{max(done, f.finished[title][0]), total}
	if f.cell != title {
		f.cell, f.count = title, 0
	}
}

// between ends the current cell.
func (f *front) between() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cell = ""
}

// What is random in requests.
var (
	randomULID   = regexp.MustCompile(`[0-9A-HJKMNP-TV-Z]{26}`)
	randomHex    = regexp.MustCompile(`[0-9a-f]{32}`)
	randomTenant = regexp.MustCompile(`\bbench[0-9a-z]{8}\b`)
	randomUser   = regexp.MustCompile(`(name=user-)[0-9]+`)
	randomRally  = regexp.MustCompile(`s_rally_[0-9A-Z]{8}_[0-9A-Z]{8}`)
)

func withoutIDs(s string) string {
	s = randomULID.ReplaceAllString(randomHex.ReplaceAllString(s, "ID"), "ULID")
	s = randomRally.ReplaceAllString(randomTenant.ReplaceAllString(s, "TENANT"), "NAME")
	return randomUser.ReplaceAllString(s, "${1}N")
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	what := r.Method + " " + withoutIDs(r.URL.RequestURI())
	for _, name := range []string{"Accept", "Authorization", "Content-Type", "X-Auth-Token", "X-Subject-Token"} {
		switch value := r.Header.Get(name); {
		case value == "":
		case strings.HasPrefix(name, "X-"):
			what += ", " + name
		default:
			what += ", " + name + ": " + value
		}
	}
	f.mu.Lock()
	cell := f.cell
	f.count++
	n := f.count
	if f.seen == nil {
		f.seen, f.order = map[string]map[string][]string{}, map[string][]string{}
	}
	if f.seen[cell] == nil {
		f.seen[cell], f.cells = map[string][]string{}, append(f.cells, cell)
	}
	f.seen[cell][what] = append(f.seen[cell][what], withoutIDs(string(body)))
	f.order[cell] = append(f.order[cell], what)
	f.mu.Unlock()
	if f.refuse != nil && f.refuse(cell, n) {
		w.WriteHeader(http.StatusTeapot)
		return
	}
	if f.spoil == nil || cell == "" || strings.HasSuffix(r.URL.Path, "/watch") {
		f.server.ServeHTTP(w, r)
		return
	}
	got := httptest.NewRecorder()
	f.server.ServeHTTP(got, r)
	status, text := f.spoil(cell, n, got.Code, got.Body.Bytes())
	for name, values := range got.Header() {
		if name != "Content-Length" {
			w.Header()[name] = values
		}
	}
	w.WriteHeader(status)
	w.Write(text)
}

// String returns the requests of each cell: each method and path with the number of
// different bodies, the first of these, and a digest of all.
func (f *front) String() string {
	var out strings.Builder
	for _, cell := range f.cells {
		fmt.Fprint(&out, cmp.Or(cell, "between cells"))
		if p, ok := f.finished[cell]; ok {
			fmt.Fprintf(&out, ", progress %d of %d", p[0], p[1])
		}
		fmt.Fprintln(&out)
		var lines []string
		for what, bodies := range f.seen[cell] {
			slices.Sort(bodies)
			different := slices.Compact(slices.Clone(bodies))
			digest := sha256.Sum256([]byte(strings.Join(different, "\n")))
			line := "  " + what
			if different[len(different)-1] != "" {
				line += fmt.Sprintf("\n    %d different, digest %x, the first is %.400s", len(different), digest[:6], different[0])
			}
			lines = append(lines, line+"\n")
		}
		slices.Sort(lines)
		out.WriteString(strings.Join(lines, ""))
	}
	return out.String()
}

// serveFront serves doors over an engine behind a front.
func serveFront(t *testing.T, f *front, e *ostiary.Engine, open ...func(*ostiary.Engine) (*door.Door, error)) *bench.HTTP {
	t.Helper()
	var routers []*door.Router
	for _, o := range open {
		d, err := o(e)
		if err != nil {
			t.Fatal(err)
		}
		router, err := door.NewRouter(d.Routes)
		if err != nil {
			t.Fatal(err)
		}
		routers = append(routers, router)
	}
	f.server = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, router := range routers {
			var p door.Params
			if route, _ := router.Find(r.Method, r.URL.EscapedPath(), &p); route != nil {
				route.Serve(w, r, p)
				return
			}
		}
		http.NotFound(w, r)
	})
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	target, err := bench.NewHTTP(s.URL, "a key")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { target.Close() })
	return target
}

// scenario is a workload against a server behind a front.
type scenario struct {
	name string
	run  func(t *testing.T, f *front, r *bench.Runner) error
	// unchecked are the cells whose answers are not checked.
	unchecked []string
}

// memory opens an engine in memory.
func memory(t *testing.T) *ostiary.Engine {
	t.Helper()
	e, err := ostiary.Open(t.Context(), ostiary.Options{Conditions: cel.New(cel.Options{})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func openFGADoor(e *ostiary.Engine) (*door.Door, error) { return openfga.New(e, openfga.Options{}) }

// scenarios are the workloads over HTTP, apart from Keystone's.
func scenarios() []scenario {
	one := bench.Load{Clients: 1, Requests: 200, Duration: -1}
	sides := func(target bench.Target) []bench.Side {
		return []bench.Side{{Peer: "ostiary", Version: "1.2", Store: "memory", Target: target, Notes: "a note"}}
	}
	return []scenario{
		{name: "openfga", unchecked: []string{"write 100"}, run: func(t *testing.T, f *front, r *bench.Runner) error {
			r.Sides = sides(serveFront(t, f, memory(t), openFGADoor))
			return r.OpenFGA(t.Context(), bench.OpenFGAOptions{Size: bench.SizeMinOpenFGA, Load: one})
		}},
		{name: "lxd", unchecked: []string{"admin", "restricted"}, run: func(t *testing.T, f *front, r *bench.Runner) error {
			r.Sides = sides(serveFront(t, f, memory(t), openFGADoor))
			return r.LXD(t.Context(), bench.LXDOptions{Runs: 2, WarmUps: 1})
		}},
		{name: "permify", unchecked: []string{"write 500"}, run: func(t *testing.T, f *front, r *bench.Runner) error {
			r.Sides = sides(serveFront(t, f, memory(t), func(e *ostiary.Engine) (*door.Door, error) { return permify.New(e, permify.Options{}) }))
			return r.Permify(t.Context(), bench.PermifyOptions{IDs: 300, Load: one, PeakRate: 2_000, Ramp: shortRamp})
		}},
		{name: "native", unchecked: []string{"change to a watcher of 5", "write with watchers of 5"}, run: func(t *testing.T, f *front, r *bench.Runner) error {
			r.Sides = sides(serveFront(t, f, memory(t), openFGADoor,
				func(e *ostiary.Engine) (*door.Door, error) { return authzen.New(e, authzen.Options{}) },
				func(e *ostiary.Engine) (*door.Door, error) { return native.New(e, native.Options{}) }))
			return r.Native(t.Context(), bench.NativeOptions{Size: bench.SizeMinOpenFGA, Watchers: 5, Writes: 3, Load: one})
		}},
		{name: "onap", run: func(t *testing.T, f *front, r *bench.Runner) error {
			doors, err := onap.New(memory(t), onap.Options{})
			if err != nil {
				return err
			}
			var open []func(*ostiary.Engine) (*door.Door, error)
			for _, d := range doors {
				open = append(open, func(*ostiary.Engine) (*door.Door, error) { return d, nil })
			}
			r.Sides = sides(serveFront(t, f, nil, open...))
			return r.ONAP(t.Context(), bench.ONAPOptions{Users: []int{1, 2}, Windows: 1, Load: one})
		}},
	}
}
