package commit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/errs"
	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/internal/engine/snapshot"
	"github.com/ostiary/ostiary/internal/workshop/failing"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/memory"
)

// world is a store and the tuples that it must have.
type world struct {
	t        *testing.T
	driver   *failing.Driver
	info     storage.StoreInfo
	runtime  *snapshot.Runtime
	timeline *snapshot.Timeline
	queue    *Queue
	tuples   map[rel.Key]rel.Tuple
	revision storage.Revision
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldOn(t, memory.New())
}

func newWorldOn(t *testing.T, d storage.Driver) *world {
	t.Helper()
	ctx := context.Background()
	w := &world{t: t, driver: failing.New(d), tuples: map[rel.Key]rel.Tuple{}, revision: 1,
		info: storage.StoreInfo{ID: storage.NewID(1), Incarnation: storage.NewIncarnation(), Created: 1}}
	if err := w.driver.CreateStore(ctx, w.info); err != nil {
		t.Fatal(err)
	}
	w.runtime, w.timeline = w.open()
	w.queue = NewQueue(NewShared(w.runtime, nil), w.timeline)
	model := &schema.Model{Types: []schema.TypeDef{{Name: "user"}, {Name: "doc", Relations: []schema.RelationDef{
		{Name: "viewer", Rewrite: schema.Direct(), Subjects: []schema.SubjectType{{Type: "user"}}}}}}}
	if _, _, err := w.queue.WriteSchema(ctx, &authz.SchemaSource{Model: model}); err != nil {
		t.Fatal(err)
	}
	return w
}

// open returns a timeline of the store with nothing in memory.
func (w *world) open() (*snapshot.Runtime, *snapshot.Timeline) {
	r := snapshot.NewRuntime(snapshot.Config{Driver: w.driver, Bounds: errs.WithDefaults(authz.Bounds{}), Clock: time.Now})
	w.t.Cleanup(func() { r.Close() })
	return r, snapshot.NewTimeline(r, w.info)
}

// operation is a write or an import, with what the model expects of it.
type operation struct {
	name string
	call func(q *Queue) error
	// apply changes the tuples, and returns the expected kind of the error.
	apply func(tuples map[rel.Key]rel.Tuple) error
	// entry means that the operation makes an entry even if it changes no tuple.
	entry bool
}

// some returns tuples of a few keys. Two tuples of one key may differ in their expiry.
func some(rng *rand.Rand, n int) []rel.Tuple {
	var all []rel.Tuple
	used := map[rel.Key]bool{}
	for len(all) < n {
		tuple := rel.Tuple{Object: rel.Object{Type: "doc", ID: fmt.Sprint(rng.IntN(12))}, Relation: "viewer",
			Subject: rel.Subject{Type: "user", ID: fmt.Sprint(rng.IntN(2))}}
		if rng.IntN(3) == 0 {
			tuple.Expires = rel.TimeOf(time.Now().Add(time.Hour).Truncate(time.Hour)) + 1e15
		}
		if !used[tuple.Key()] {
			used[tuple.Key()] = true
			all = append(all, tuple)
		}
	}
	return all
}

// add adds tuples to the model, as OnDuplicate asks for.
func add(tuples map[rel.Key]rel.Tuple, added []rel.Tuple, on authz.ConflictAction) error {
	for _, x := range added {
		if old, ok := tuples[x.Key()]; ok && (on == authz.Fail || on == authz.Ignore && old != x) {
			return authz.ErrTupleExists
		}
		tuples[x.Key()] = x
	}
	return nil
}

// randomOperation returns an operation, which may be one that fails.
func randomOperation(rng *rand.Rand) operation {
	ctx := context.Background()
	on := authz.ConflictAction(rng.IntN(3))
	added := some(rng, 1+rng.IntN(4))
	if rng.IntN(3) == 0 {
		invalid := rng.IntN(4) == 0
		if invalid {
			added[len(added)-1].Relation = "editor"
		}
		return operation{fmt.Sprint("import ", added, on), func(q *Queue) error {
			_, err := q.Import(ctx, func(yield func(rel.Tuple, error) bool) {
				for _, x := range added {
					if !yield(x, nil) {
						return
					}
				}
			}, authz.ImportOptions{OnDuplicate: on})
			return err
		}, func(tuples map[rel.Key]rel.Tuple) error {
			if invalid {
				if err := add(tuples, added[:len(added)-1], on); err != nil {
					return err
				}
				return authz.ErrInvalidTuple
			}
			return add(tuples, added, on)
		}, false}
	}
	r := authz.WriteRequest{Add: added, OnDuplicate: on, OnMissing: authz.ConflictAction(rng.IntN(2))}
	for _, x := range some(rng, rng.IntN(3)) {
		if !slices.ContainsFunc(added, func(y rel.Tuple) bool { return x.Key() == y.Key() }) {
			r.Remove = append(r.Remove, x.Key())
		}
	}
	for range max(0, rng.IntN(5)-2) {
		r.Preconditions = append(r.Preconditions, authz.Precondition{Filter: randomFilter(rng), Absent: rng.IntN(2) == 0})
	}
	if rng.IntN(4) == 0 {
		r.RemoveMatching = []storage.Filter{{Target: storage.FilterTuples, Tuple: randomFilter(rng)}}
		if rng.IntN(2) == 0 { // a filter of attributes removes no tuple
			r.RemoveMatching = append(r.RemoveMatching, storage.Filter{Target: storage.FilterAttributes, ObjectType: "doc"})
		}
	}
	return operation{fmt.Sprintf("write %+v", r), func(q *Queue) error { _, err := q.Write(ctx, &r); return err }, func(tuples map[rel.Key]rel.Tuple) error {
		for _, p := range r.Preconditions {
			found := false
			for k := range tuples {
				found = found || p.Filter.Match(k)
			}
			if found == p.Absent {
				return authz.ErrPrecondition
			}
		}
		for _, k := range r.Remove {
			if _, ok := tuples[k]; !ok && r.OnMissing == authz.Fail {
				return authz.ErrTupleMissing
			}
		}
		maps.DeleteFunc(tuples, func(k rel.Key, _ rel.Tuple) bool {
			return slices.Contains(r.Remove, k) || len(r.RemoveMatching) > 0 && r.RemoveMatching[0].Tuple.Match(k)
		})
		return add(tuples, added, on)
	}, len(r.RemoveMatching) > 0}
}

// randomFilter returns a filter that selects none or some of the tuples of [some].
func randomFilter(rng *rand.Rand) rel.Filter {
	object, subject := fmt.Sprint(rng.IntN(12)), fmt.Sprint(rng.IntN(3))
	return []rel.Filter{{ObjectType: "doc", ObjectID: object}, {ObjectID: object, SubjectType: "user", SubjectID: subject}, {SubjectType: "user", SubjectID: subject}, {ObjectType: "user"}}[rng.IntN(4)]
}

// together runs operations in one group, in order: it holds the write lock until all wait
// in the queue.
func (w *world) together(operations []operation) []error {
	w.t.Helper()
	if err := w.timeline.Lock.LockIdle(context.Background()); err != nil {
		w.t.Fatal(err)
	}
	results := make([]error, len(operations))
	var running sync.WaitGroup
	for i, o := range operations {
		running.Go(func() { results[i] = o.call(w.queue) })
		for waiting := 0; waiting <= i; runtime.Gosched() {
			w.queue.mu.Lock()
			waiting = len(w.queue.waiting)
			w.queue.mu.Unlock()
		}
	}
	w.timeline.Lock.Unlock()
	running.Wait()
	return results
}

// check compares what is in memory, and what a new timeline reads, with the model.
func (w *world) check(what string) {
	w.t.Helper()
	_, fresh := w.open()
	for name, timeline := range map[string]*snapshot.Timeline{"in memory": w.timeline, "stored": fresh} {
		v, err := timeline.Newest(context.Background())
		if err != nil {
			w.t.Fatal(err)
		}
		got := map[rel.Key]rel.Tuple{}
		for _, t := range v.Graph.Tuples(rel.Filter{}, graph.Position{}) {
			got[t.Key()] = t
		}
		if !maps.Equal(got, w.tuples) || v.Head.Revision != w.revision {
			w.t.Fatalf("%s: revision %d with %d tuples %s, expected revision %d with %d", what, v.Head.Revision, len(got), name, w.revision, len(w.tuples))
		}
	}
}

// groupFaults are what the append of a group meets.
var groupFaults = []struct {
	name  string
	fault failing.Fault
}{
	{"nothing", failing.Fault{}},
	{"a failure", failing.Fault{Number: 1}},
	{"a lost response", failing.Fault{Number: 1, After: true}},
	{"an entry that is too large", failing.Fault{Number: 1, Err: storage.ErrTooLarge}},
	{"a conflict", failing.Fault{Number: 1, Err: &storage.ConflictError{}}},
}

// TestGroups writes random operations in groups, and compares the outcomes and the tuples
// with those of the operations one after the other. Some operations are rejected, and the
// append of the group may fail, conflict with another process, or lose its response.
func TestGroups(t *testing.T) {
	t.Parallel()
	for seed := range uint64(len(groupFaults) * 4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 1))
			w := newWorld(t)
			f := groupFaults[seed%uint64(len(groupFaults))]
			for round := range 40 {
				var operations []operation
				for range 1 + rng.IntN(6) {
					operations = append(operations, randomOperation(rng))
				}
				before, revision := maps.Clone(w.tuples), w.revision
				var want []error
				accepted := 0
				for _, o := range operations {
					after := maps.Clone(w.tuples)
					err := o.apply(after)
					if want = append(want, err); err != nil {
						continue
					}
					if accepted++; !maps.Equal(after, w.tuples) || o.entry {
						w.revision++
					}
					w.tuples = after
				}
				f.fault.Only = []failing.Operation{failing.Append}
				w.driver.Break(f.fault)
				got := w.together(operations)
				_, failed := w.driver.Mend()
				if failed && !f.fault.After && (f.fault.Err == nil || errors.Is(f.fault.Err, storage.ErrTooLarge) && accepted == 1) {
					w.tuples, w.revision = before, revision // nothing was written
					for i := range want {
						if want[i] == nil {
							want[i] = authz.ErrStorage
							if f.fault.Err != nil {
								want[i] = authz.ErrBound
							}
						}
					}
				}
				for i, o := range operations {
					if !errors.Is(got[i], want[i]) || (got[i] == nil) != (want[i] == nil) {
						t.Fatalf("seed %d, round %d, %s: operation %d of %d, %s: error %v, expected %v", seed, round, f.name, i, len(operations), o.name, got[i], want[i])
					}
				}
				w.check(fmt.Sprintf("seed %d, round %d, %s", seed, round, f.name))
			}
		})
	}
}
