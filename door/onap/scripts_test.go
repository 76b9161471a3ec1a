package onap_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/onap"
	"github.com/ostiary/ostiary/internal/workshop/doortest"
	"github.com/ostiary/ostiary/internal/workshop/failing"
)

// clock is a clock that scripts set.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// serve sets the clock: PUT /clock with {"now": TIME} or {"advance": DURATION}.
func (c *clock) serve(w http.ResponseWriter, r *http.Request, _ door.Params) {
	var body struct {
		Now     time.Time
		Advance string
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if body.Advance != "" {
		d, err := time.ParseDuration(body.Advance)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		c.now = c.now.Add(d)
		return
	}
	c.now = body.Now
}

// start is the time at which each script begins.
var start = time.Date(2026, 3, 4, 10, 0, 0, 0, time.UTC)

// open returns the three doors as one, with a clock that scripts set and a
// caller that they name in the header Caller.
func open(t testing.TB, o onap.Options) *door.Door {
	e, err := ostiary.Open(context.Background(), ostiary.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return join(t, e, o)
}

// TestFailingScripts plays the scripts while operations of the storage fail.
func TestFailingScripts(t *testing.T) {
	t.Parallel()
	// Counters count failures, and a health check describes one with status 200.
	counters := func(path string) bool {
		return strings.HasSuffix(path, "/statistics") || strings.HasSuffix(path, "/metrics") || strings.HasSuffix(path, "/healthcheck")
	}
	doortest.Failing{Glob: "testdata/*.http", Skip: counters, Optional: []failing.Operation{failing.CloseState}, Open: func(t testing.TB, d *failing.Driver) *door.Door {
		e, err := ostiary.Open(context.Background(), ostiary.Options{Driver: d})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { e.Close() })
		return join(t, e, onap.Options{})
	}}.Run(t)
}

// program is the doors of one start of the program over an engine.
type program struct {
	t      testing.TB
	engine *ostiary.Engine
	o      onap.Options
	mu     sync.Mutex
	doors  []*door.Door
}

// restart opens the doors again, so that they read their state from the store.
func (p *program) restart() {
	doors, err := onap.New(p.engine, p.o)
	if err != nil {
		p.t.Error(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doors = doors
}

// door returns door i of the newest start.
func (p *program) door(i int) *door.Door {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.doors[i]
}

// join returns the three doors over an engine as one. It has two more routes: PUT
// /clock sets the clock, and POST /restart opens the doors again.
func join(t testing.TB, e *ostiary.Engine, o onap.Options) *door.Door {
	c := &clock{now: start}
	o.Now = c.Now
	x := &program{t: t, engine: e, o: o}
	x.restart()
	all := &door.Door{Name: "onap", Routes: []door.Route{
		{Method: http.MethodPut, Pattern: "/clock", Name: "Clock", Serve: c.serve},
		{Method: http.MethodPost, Pattern: "/restart", Name: "Restart", Serve: func(http.ResponseWriter, *http.Request, door.Params) { x.restart() }},
	}}
	for i, d := range x.doors {
		for j, r := range d.Routes {
			r.Serve = func(w http.ResponseWriter, r *http.Request, p door.Params) {
				if name := r.Header.Get("Caller"); name != "" {
					r = r.WithContext(door.WithCaller(r.Context(), door.Caller{Method: "basic", ID: name}))
				}
				x.door(i).Routes[j].Serve(w, r, p)
			}
			all.Routes = append(all.Routes, r)
		}
	}
	all.Missing = func(w http.ResponseWriter, r *http.Request, methods []string) {
		for i := range x.doors {
			if strings.HasPrefix(r.URL.Path, x.doors[i].Prefixes[0]) {
				x.door(i).Missing(w, r, methods)
			}
		}
	}
	return all
}

// TestDescription compares what each door declares with a file of testdata.
func TestDescription(t *testing.T) {
	t.Parallel()
	e, err := ostiary.Open(context.Background(), ostiary.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	doors, err := onap.New(e, onap.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range doors {
		doortest.Description(t, d, "testdata/description_"+d.Name+".txt")
	}
}

func TestScripts(t *testing.T) {
	t.Parallel()
	doortest.Run(t, "testdata/*.http", func(t testing.TB) *door.Door { return open(t, onap.Options{}) })
}
