package catalog

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door/onap/internal/tosca"
	"github.com/ostiary/ostiary/internal/workshop/wait"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/memory"
)

// two returns the catalogs of two engines on one driver.
func two(t *testing.T, o Options) (catalogs [2]*Catalog) {
	t.Helper()
	d := memory.New()
	t.Cleanup(func() { d.Close() })
	o.Now = now
	for i := range catalogs {
		e, err := ostiary.Open(t.Context(), ostiary.Options{Driver: d})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { e.Close() })
		catalogs[i] = New(e, o)
	}
	return catalogs
}

func world(t *testing.T, c *Catalog) *World {
	t.Helper()
	w, err := c.World(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func nodeType(name string) *tosca.Template {
	body, err := tosca.ParseJSON(fmt.Appendf(nil, `{"name":%q,"version":"1.0.0","derived_from":"tosca.nodetypes.Root"}`, name))
	if err != nil {
		panic(err)
	}
	return &tosca.Template{Entities: []tosca.Entity{{Section: tosca.NodeTypeSection, Name: name, Version: "1.0.0", Body: body}}}
}

// TestTwoEngines changes the catalog through one engine and reads it through the
// other one, in turns.
func TestTwoEngines(t *testing.T) {
	t.Parallel()
	compiled := func(_ context.Context, _ any, w *World) (any, error) { return len(w.Groups()), nil }
	all := two(t, Options{Compile: compiled, Preload: []*tosca.Template{nodeType("preloaded")}})
	for i := range 6 {
		from, to := all[i%2], all[(i+1)%2]
		name := fmt.Sprint("group", i)
		before := world(t, to)
		if before.Find(tosca.NodeTypeSection, "preloaded", "") == nil {
			t.Error("the preloaded type is missing")
		}
		err := from.PutGroups(t.Context(), []*Group{{Name: name, Subgroups: []Subgroup{{Type: "x", Desired: 1, Supported: []ID{{"a.*", "1.0.0"}}}}}}, "user")
		if err != nil {
			t.Fatal(err)
		}
		if world(t, from).Group(name) == nil {
			t.Error("the own change is missing")
		}
		wait.Until(t, name, func() bool { return world(t, to).Group(name) != nil })
		if got := world(t, to); got.Compiled != i+2 || before.Group(name) != nil {
			t.Errorf("after %d changes %v groups are compiled; an older world has the new one: %t", i+1, got.Compiled, before.Group(name) != nil)
		}
	}
	if err := all[0].SetState(t.Context(), "group0", Passive); err != nil {
		t.Fatal(err)
	}
	if err := all[0].RemoveGroup(t.Context(), "group0", "user"); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "a removal", func() bool { return world(t, all[1]).Group("group0") == nil })
	// A new process has what the documents say.
	third := New(all[0].engine, Options{Now: now})
	if have, want := fmt.Sprint(len(world(t, third).Groups()), len(world(t, third).Audit(AuditFilter{Max: 100})), world(t, third).Count(tosca.NodeTypeSection)),
		fmt.Sprint(len(world(t, all[1]).Groups()), len(world(t, all[1]).Audit(AuditFilter{Max: 100})), world(t, all[1]).Count(tosca.NodeTypeSection)); have != want {
		t.Errorf("a loaded catalog has %s groups, audit records and node types, a followed one %s", have, want)
	}
}

// TestTwoEnginesKeepEveryChange changes the catalog through both engines at once, and
// with its first changes creates the store.
func TestTwoEnginesKeepEveryChange(t *testing.T) {
	t.Parallel()
	all := two(t, Options{})
	const each = 10
	var changes sync.WaitGroup
	for n, c := range all {
		changes.Go(func() {
			for i := range each {
				if err := c.PutGroups(t.Context(), []*Group{{Name: fmt.Sprint(n, "-", i), Subgroups: []Subgroup{{Type: "x", Desired: 1, Supported: []ID{{"a.*", "1.0.0"}}}}}}, "user"); err != nil {
					t.Error(err)
				}
			}
		})
		changes.Go(func() {
			end := now()
			for i := range each {
				if err := c.History.Append(t.Context(), []*Operation{{ID: fmt.Sprint(n, "-", i), Actor: "a", Operation: "o", Target: "t", Outcome: "Success", End: &end}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	changes.Wait()
	for _, c := range all {
		wait.Until(t, "all changes", func() bool {
			n, err := c.History.Count(t.Context(), "a", "o", "t", now(), now())
			return err == nil && n == 2*each && len(world(t, c).Groups()) == 2*each+1
		})
	}
}

// TestTwoHistories appends operations through one engine and counts them through the
// other one.
func TestTwoHistories(t *testing.T) {
	t.Parallel()
	all := two(t, Options{})
	begin, later := now(), now().Add(time.Minute)
	append := func(c *Catalog, o Operation) {
		t.Helper()
		o.Actor, o.Operation, o.Target, o.Loop = "a", "o", "t", "loop"
		if err := c.History.Append(t.Context(), []*Operation{&o}); err != nil {
			t.Fatal(err)
		}
	}
	count := func(c *Catalog) string {
		n, err := c.History.Count(t.Context(), "a", "o", "t", begin, later)
		outcome, err2 := c.History.Outcome(t.Context(), "loop")
		return fmt.Sprintf("%d%s %v %v", n, outcome, err, err2)
	}
	const ok = "<nil> <nil>"
	for i, step := range []struct {
		o    Operation
		want string
	}{
		{Operation{ID: "1", Start: &begin, Outcome: "Started"}, "0Started " + ok},
		{Operation{ID: "1", Start: &begin, End: &later, Outcome: "Success"}, "1Success " + ok},
		{Operation{ID: "2", Start: &later, End: &later, Outcome: "Failure"}, "2Failure " + ok},
		{Operation{ID: "2", Start: &later, End: &later, Outcome: OutcomeGuard}, "1" + OutcomeGuard + " " + ok},
		{Operation{ID: "2", Outcome: "Success", End: &begin}, "2Success " + ok},
	} {
		append(all[i%2], step.o)
		for _, c := range all {
			wait.Until(t, fmt.Sprint(i, ": ", step.want, " instead of ", count(c)), func() bool { return count(c) == step.want })
		}
	}
}

// TestOldBuckets reads a catalog whose documents have secondary keys, and one whose
// store an older version created without content.
func TestOldBuckets(t *testing.T) {
	t.Parallel()
	all := two(t, Options{Preload: []*tosca.Template{nodeType("preloaded")}})
	store, err := all[0].engine.CreateStore(t.Context(), ostiary.CreateStoreRequest{Aliases: map[string]string{StoreDoor: storeAlias}})
	if err != nil {
		t.Fatal(err)
	}
	if w := world(t, all[0]); w.Count(tosca.NodeTypeSection) != 1 || len(w.Groups()) != 1 {
		t.Error("a store without entries is not a new catalog")
	}
	body := marshal(&Group{Name: "old"})
	if _, err := store.Write(t.Context(), authz.WriteRequest{Documents: []authz.Document{{Kind: kindGroup, Key: "old", Secondary: []string{"17"}, Body: body}}}); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the old group", func() bool { return world(t, all[1]).Group("old") != nil })
	if w := world(t, all[0]); w.Count(tosca.NodeTypeSection) != 0 || len(w.Groups()) != 1 {
		t.Error("a catalog with entries got the documents of a new one")
	}
	// A removal by filter, which this package does not write.
	filter := storage.Filter{Target: storage.FilterDocuments, DocumentKind: kindGroup, DocumentKeyPrefix: "o"}
	if _, err := store.Write(t.Context(), authz.WriteRequest{RemoveMatching: []storage.Filter{filter}}); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the removal", func() bool { return world(t, all[1]).Group("old") == nil })
}
