package acp_test

import (
	"context"
	"strconv"
	"testing"

	"github.com/ostiary/ostiary/acp"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/pebble"
)

// TestCost: a check, granted or denied, and the question whether a document is
// registered allocate nothing, and a check's probes do not grow with the
// documents.
func TestCost(t *testing.T) {
	ctx := context.Background()
	e := open(t, acp.Options{})
	id := must(e.AddPolicy(ctx, alice, benchPolicy))(t)
	object := func(i int) acp.Object {
		return acp.Object{Policy: id, Resource: "users", ID: strconv.Itoa(i)}
	}
	stats := func(who string) authz.Stats {
		r := must(must(e.Store())(t).Check(ctx, authz.CheckRequest{Object: relObject(id+"/users", "1"), Relation: "read",
			Subject: relObject(id+"/actor", who).AsSubject()}))(t)
		return r.Stats
	}
	must(0, e.Register(ctx, alice, object(1)))(t)
	must(e.Relate(ctx, alice, object(1), "reader", carol))(t)
	registered := 1
	register := func(n int) {
		b := e.Batch()
		for ; registered < n; registered++ {
			b.Register([]string{alice, bob, carol}[registered%3], object(registered+1))
		}
		must(0, b.Commit(ctx))(t)
	}
	register(500)
	small := []authz.Stats{stats(alice), stats(bob), stats(carol)}
	register(20_000)
	for i, who := range []string{alice, bob, carol} {
		if got := stats(who); got != small[i] || got.Probes > 4 {
			t.Errorf("%v probes among 500 documents, %v among 20,000", small[i], got)
		}
	}
	for name, ask := range map[string]func(){
		"granted":    func() { e.Check(ctx, alice, "read", object(1)) },
		"denied":     func() { e.Check(ctx, bob, "read", object(1)) },
		"access":     func() { e.Access(ctx, bob, "read", object(1)) },
		"registered": func() { e.IsRegistered(ctx, object(1)) },
	} {
		if n := testing.AllocsPerRun(100, ask); n > 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// TestRegisterAllocates: a single writer allocates little apart from the parts of the view
// that change: 17 times in memory, and 14 times on disk.
func TestRegisterAllocates(t *testing.T) {
	ctx := context.Background()
	for name, c := range map[string]struct {
		driver func() storage.Driver
		most   float64
	}{
		"in memory": {func() storage.Driver { return nil }, 18},
		"on disk":   {func() storage.Driver { return must(pebble.Open(t.TempDir()+"/data", pebble.Options{NoSync: true}))(t) }, 15},
	} {
		driver := c.driver()
		e := open(t, acp.Options{Driver: driver})
		id := must(e.AddPolicy(ctx, alice, benchPolicy))(t)
		n := 0
		if got := testing.AllocsPerRun(2000, func() {
			n++
			must(0, e.Register(ctx, alice, acp.Object{Policy: id, Resource: "users", ID: strconv.Itoa(n)}))(t)
		}); got > c.most {
			t.Errorf("%s: %v allocations of a registration, want %v at most", name, got, c.most)
		} else {
			t.Logf("%s: %v allocations of a registration", name, got)
		}
		if driver != nil {
			driver.Close()
		}
	}
}
