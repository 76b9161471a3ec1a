package replica_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/cluster/clustertest"
	"github.com/ostiary/ostiary/internal/cluster/replica"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog/memorylog"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
	"github.com/ostiary/ostiary/storage/memory"
	"github.com/ostiary/ostiary/storage/storagetest"
)

// TestWindowFigures prints what writers wait for on a log that is far away and keeps the order of
// appends, in virtual time: in times of a commit and of an acknowledgment that takes as long.
func TestWindowFigures(t *testing.T) {
	t.Parallel()
	const distance = 150 * time.Millisecond
	for _, writers := range []int{1, 10, 64} {
		synctest.Test(t, func(t *testing.T) {
			d, err := openPipeline(t, &clustertest.Pipeline{Log: memorylog.New().Open(), Distance: distance}, replica.Options{})
			if err != nil {
				t.Fatal(err)
			}
			d.Acknowledged = func(context.Context, sharedlog.Position) error { time.Sleep(distance); return nil }
			s := openStore(t, d)
			var wait sync.WaitGroup
			var mu sync.Mutex
			var total time.Duration
			const each = 20
			for n := range writers {
				wait.Go(func() {
					time.Sleep(time.Duration(n) * 7 * time.Millisecond)
					for i := range each {
						time.Sleep(time.Duration(rand.IntN(3000)) * time.Microsecond)
						began := time.Now()
						if _, err := s.Write(t.Context(), authz.WriteRequest{Add: []rel.Tuple{add(fmt.Sprint(n*each + i)).Tuple}}); err != nil {
							t.Error(err)
						}
						mu.Lock()
						total += time.Since(began)
						mu.Unlock()
					}
				})
			}
			wait.Wait()
			t.Logf("%2d writers: %.2f of commit and acknowledgment", writers, float64(total)/float64(writers*each)/float64(2*distance))
		})
	}
}

// pipelined is a replica over a log that keeps the order of appends and is 100 ms away, with a
// store and another node that writes to the same log at once.
type pipelined struct {
	*clustertest.Replica
	t         *testing.T
	log       *clustertest.Pipeline
	tables    *memorylog.Tables
	other     *clustertest.Replica
	store     *storagetest.Log // of the test
	elsewhere *storagetest.Log // another one
	passed    []uint64         // what the gate was given
	epoch     atomic.Uint64
}

// window calls f with a replica in virtual time.
func window(t *testing.T, f func(t *testing.T, d *pipelined)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		tables := memorylog.New()
		d := &pipelined{t: t, tables: tables, log: &clustertest.Pipeline{Log: &unreadable{Log: tables.Open()}}}
		d.epoch.Store(1)
		gate := replica.Gate{MayAppend: func(context.Context) (uint64, error) { return d.epoch.Load(), nil },
			Appended: func(s sharedlog.Passed) {
				if head, err := tables.Open().Head(t.Context()); err != nil || head.Sequence < s.Sequence {
					t.Errorf("segment %s is passed on, and the log ends at %s, error %v", s.Position, head, err)
				}
				d.passed = append(d.passed, s.Sequence)
			}}
		var err error
		if d.Replica, err = openPipeline(t, d.log, replica.Options{Gate: gate, Pace: time.Millisecond}); err != nil {
			t.Fatal(err)
		}
		d.other = mustOpen(t, tables, inMemory())
		d.store, d.elsewhere = newStore(t, d, 1), newStore(t, d, 2)
		d.log.Distance = 100 * time.Millisecond
		mustAppend(t, d.store, d, add("first")) // which shows how far the log is
		d.passed = nil
		f(t, d)
		time.Sleep(time.Second) // what is on its way arrives
		if !slices.IsSorted(d.passed) {
			t.Errorf("segments %d were passed on, want them in order", d.passed)
		}
	})
}

// entry is an append of a test.
type entry struct {
	made func(context.Context) (storage.Head, error)
	head storage.Head
}

// begin begins an append of some changes after a head, which may be on its way.
func (d *pipelined) begin(ctx context.Context, after storage.Head, changes ...storage.Change) entry {
	d.t.Helper()
	began := time.Now()
	entries := []storage.Entry{d.store.Entry(after, changes...)}
	head, sealed, err := storage.Seal(after, entries)
	if err != nil {
		d.t.Fatal(err)
	}
	made, _, err := d.AppendAhead(ctx, d.store.ID, after, entries, sealed)
	if err != nil {
		d.t.Fatal(err)
	}
	if waited := time.Since(began); waited >= d.log.Distance {
		d.t.Fatalf("an append has its place after %s, and the log is %s away", waited, d.log.Distance)
	}
	return entry{made, head}
}

// append appends changes after a head, and waits for the outcome.
func (d *pipelined) append(ctx context.Context, after storage.Head, changes ...storage.Change) (storage.Head, error) {
	entries := []storage.Entry{d.store.Entry(after, changes...)}
	_, sealed, err := storage.Seal(after, entries)
	if err != nil {
		return storage.Head{}, err
	}
	made, _, err := d.AppendAhead(ctx, d.store.ID, after, entries, sealed)
	if err != nil {
		return storage.Head{}, err
	}
	return made(ctx)
}

// three begins three appends, one after the other.
func (d *pipelined) three(ctx context.Context) [3]entry {
	d.t.Helper()
	one := d.begin(ctx, d.store.Head, add("1"))
	two := d.begin(ctx, one.head, add("2"), secret("key", "body"))
	return [3]entry{one, two, d.begin(ctx, two.head, add("3"))}
}

// errConflict is any *storage.ConflictError.
var errConflict = errors.New("conflict")

// mustBe requires the outcomes of appends: nil if they are made, or an error.
func (d *pipelined) mustBe(all [3]entry, want ...error) {
	d.t.Helper()
	for i, e := range all {
		head, err := e.made(d.t.Context())
		if _, conflict := errors.AsType[*storage.ConflictError](err); conflict {
			err = errConflict
		}
		if want[i] == nil && (err != nil || head != e.head) || want[i] != nil && !errors.Is(err, want[i]) {
			d.t.Errorf("append %d: head %v, error %v; want %v, %v", i+1, head, err, e.head, want[i])
		}
	}
}

// TestWindow requires that appends are on their way together, and are made, passed on and applied
// in their order.
func TestWindow(t *testing.T) {
	t.Parallel()
	window(t, func(t *testing.T, d *pipelined) {
		began := time.Now()
		d.mustBe(d.three(t.Context()), nil, nil, nil)
		if took := time.Since(began); took >= 2*d.log.Distance {
			t.Errorf("three appends took %s, and the log is %s away", took, d.log.Distance)
		}
		mustVerify(t, d, d.store.ID, 4)
		if len(d.passed) != 3 {
			t.Errorf("segments %d were passed on, want three", d.passed)
		}
		if doc, err := d.Secret(t.Context(), d.store.ID, "kind", "key"); err != nil || string(doc.Body) != "body" {
			t.Errorf("the secret is %q, error %v", doc.Body, err)
		}
	})
}

// TestWindowRefused lets another node write in the place of the second of three segments. If it
// writes to another store, all are made after it; if it writes to the same one, the second is
// refused, and the third with it.
func TestWindowRefused(t *testing.T) {
	t.Parallel()
	for _, same := range []bool{false, true} {
		window(t, func(t *testing.T, d *pipelined) {
			var once sync.Once
			arrived := 0
			d.log.Fate = func(sharedlog.Record) (bool, error) {
				if arrived++; arrived == 2 {
					once.Do(func() {
						l := d.elsewhere
						if same {
							l = storagetest.NewLog(1)
							l.Head, l.Writer = mustHead(t, d.other, d.store.ID), storage.NewWriterID()
						}
						mustAppend(t, l, d.other, add("of the other node"))
					})
				}
				return true, nil
			}
			all := d.three(t.Context())
			if same {
				d.mustBe(all, nil, errConflict, errConflict)
				mustVerify(t, d, d.store.ID, 3)
				return
			}
			d.mustBe(all, nil, nil, nil)
			mustVerify(t, d, d.store.ID, 4)
			mustVerify(t, d, d.elsewhere.ID, 1)
		})
	}
}

func mustHead(t *testing.T, d *clustertest.Replica, id storage.StoreID) storage.Head {
	t.Helper()
	if err := d.Confirm(t.Context()); err != nil {
		t.Fatal(err)
	}
	head, err := d.Head(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return head
}

// TestWindowLost loses the request or the answer of one of three segments, or both for some time,
// or refuses a segment as if it had overtaken the one that it follows. Each is made once.
func TestWindowLost(t *testing.T) {
	t.Parallel()
	for which := 1; which <= 3; which++ {
		for _, fate := range []struct {
			reaches bool
			times   int
			err     error
		}{{true, 1, errLink}, {false, 1, errLink}, {true, 5, errLink}, {false, 5, errLink}, {false, 1, &sharedlog.ConflictError{}}} {
			window(t, func(t *testing.T, d *pipelined) {
				first := d.AppliedSequence()
				var lost atomic.Int64
				d.log.Fate = func(r sharedlog.Record) (bool, error) {
					if r.Sequence == first+uint64(which) && lost.Add(1) <= int64(fate.times) {
						return fate.reaches, fate.err
					}
					return true, nil
				}
				d.mustBe(d.three(t.Context()), nil, nil, nil)
				mustVerify(t, d, d.store.ID, 4)
				if n := d.AppliedSequence(); n != first+3 {
					t.Errorf("segment %d, %v: the log has %d segments more, want three", which, fate, n-first)
				}
			})
		}
	}
}

// TestWindowOpen cuts the connection while three segments are on their way, and their callers
// leave. The outcome is open, and nothing else has their place, until the log can be reached.
func TestWindowOpen(t *testing.T) {
	t.Parallel()
	for _, reaches := range []bool{true, false} {
		window(t, func(t *testing.T, d *pipelined) {
			var down atomic.Bool
			down.Store(true)
			first := d.AppliedSequence()
			d.log.Fate = func(r sharedlog.Record) (bool, error) {
				if down.Load() && r.Sequence > first+1 {
					return reaches, errLink
				}
				return true, nil
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			all := d.three(ctx)
			if _, err := all[0].made(ctx); err != nil {
				t.Fatal(err)
			}
			for _, e := range all[1:] {
				_, err := e.made(ctx)
				wantErrors(t, err, "", storage.ErrUncertain)
			}
			created := make(chan error)
			next := storagetest.NewLog(3)
			go func() {
				created <- d.CreateStore(t.Context(), storage.StoreInfo{ID: next.ID, Incarnation: next.Incarnation})
			}()
			synctest.Wait()
			select {
			case err := <-created:
				t.Fatalf("a store was created above segments whose outcome is open: %v", err)
			default:
			}
			down.Store(false)
			if err := <-created; err != nil {
				t.Fatal(err)
			}
			mustVerify(t, d, d.store.ID, 4)
		})
	}
}

// unreadable is a log that cannot be read for some time.
type unreadable struct {
	sharedlog.Log
	is atomic.Bool
}

func (l *unreadable) Read(ctx context.Context, from uint64) iter.Seq2[sharedlog.Record, error] {
	if l.is.Load() {
		return func(yield func(sharedlog.Record, error) bool) { yield(sharedlog.Record{}, errLink) }
	}
	return l.Log.Read(ctx, from)
}

// TestWindowUnread lets a caller leave while its segment is on its way, so that it must be read
// from the log, which fails. Meanwhile an append to its store, after the head that the copy has,
// is not made.
func TestWindowUnread(t *testing.T) {
	t.Parallel()
	window(t, func(t *testing.T, d *pipelined) {
		log := d.log.Log.(*unreadable)
		ctx, leave := context.WithCancel(t.Context())
		one := d.begin(ctx, d.store.Head, add("1"))
		leave()
		if _, err := one.made(ctx); !errors.Is(err, storage.ErrUncertain) {
			t.Fatal(err)
		}
		log.is.Store(true)
		time.Sleep(d.log.Distance / 2)
		own := d.store
		d.store = d.elsewhere
		two := d.begin(t.Context(), d.elsewhere.Head, add("2"))
		d.store = own
		time.Sleep(d.log.Distance * 3 / 4) // the first is in the log
		time.AfterFunc(time.Second, func() { log.is.Store(false) })
		if _, err := d.append(t.Context(), d.store.Head, add("3")); !errors.As(err, new(*storage.ConflictError)) {
			t.Errorf("error %v, want a conflict", err)
		}
		if _, err := two.made(t.Context()); err != nil {
			t.Error(err)
		}
		mustVerify(t, d, d.store.ID, 2)
		mustVerify(t, d, d.elsewhere.ID, 1)
	})
}

// TestWindowFenced lets another node take the role while three segments are on their way: its
// barrier has the place of the second one. That one and the third have no effect.
func TestWindowFenced(t *testing.T) {
	t.Parallel()
	window(t, func(t *testing.T, d *pipelined) {
		var once sync.Once
		arrived := 0
		d.log.Fate = func(sharedlog.Record) (bool, error) {
			if arrived++; arrived == 2 {
				once.Do(func() {
					if _, err := d.other.Barrier(t.Context(), 7); err != nil {
						t.Error(err)
					}
				})
			}
			return true, nil
		}
		d.mustBe(d.three(t.Context()), nil, replica.ErrFenced, replica.ErrFenced)
		mustVerify(t, d, d.store.ID, 2)
	})
}

// TestWindowDrains requires that a change of the catalog, a trim, a barrier and an append whose caller waits
// for it come after the segments that are on their way.
func TestWindowDrains(t *testing.T) {
	t.Parallel()
	window(t, func(t *testing.T, d *pipelined) {
		all := d.three(t.Context())
		next := storagetest.NewLog(3)
		if err := d.CreateStore(t.Context(), storage.StoreInfo{ID: next.ID, Incarnation: next.Incarnation}); err != nil {
			t.Fatal(err)
		}
		d.mustBe(all, nil, nil, nil)
		d.store.Head = all[2].head
		all = d.three(t.Context())
		if err := d.DeleteStore(t.Context(), d.store.ID); err != nil {
			t.Fatal(err)
		}
		d.mustBe(all, nil, nil, nil)
		d.store = next
		all = d.three(t.Context())
		if err := d.Trim(t.Context(), next.ID, 2, 2); err != nil {
			t.Fatal(err)
		}
		d.mustBe(all, nil, nil, nil)
		next.Head = all[2].head
		all = d.three(t.Context())
		if at, err := d.Barrier(t.Context(), 9); err != nil || at.Sequence != d.passed[len(d.passed)-1] {
			t.Fatalf("the barrier is at %s, error %v; segments %d were passed on", at, err, d.passed)
		}
		d.mustBe(all, nil, nil, nil)
	})
}

// TestWindowClosed closes a node while segments are on their way.
func TestWindowClosed(t *testing.T) {
	t.Parallel()
	window(t, func(t *testing.T, d *pipelined) {
		d.log.Fate = func(sharedlog.Record) (bool, error) { return true, errLink }
		all := d.three(t.Context())
		time.Sleep(d.log.Distance * 3 / 4) // they have arrived
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		d.mustBe(all, storage.ErrUncertain, storage.ErrUncertain, storage.ErrUncertain)
		again := mustOpen(t, d.tables, inMemory())
		mustVerify(t, again, d.store.ID, 4)
	})
}

// openPipeline opens a replica in memory over a log that keeps the order of appends.
func openPipeline(t *testing.T, log sharedlog.Log, o replica.Options) (*clustertest.Replica, error) {
	t.Helper()
	local, err := kv.New(memory.NewStore(), kv.Options{Copy: true})
	if err != nil {
		return nil, err
	}
	d, err := clustertest.OpenReplica(t.Context(), log, local, o)
	if err == nil {
		t.Cleanup(func() { d.Close() })
	}
	return d, err
}

// openStore opens an engine on a driver, with a store whose documents have viewers.
func openStore(t testing.TB, d storage.Driver) *ostiary.Store {
	t.Helper()
	e, err := ostiary.Open(t.Context(), ostiary.Options{Driver: d})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	s, err := e.CreateStore(t.Context(), ostiary.CreateStoreRequest{})
	if err != nil {
		t.Fatal(err)
	}
	viewer := schema.RelationDef{Name: "viewer", Rewrite: schema.Direct(), Subjects: []schema.SubjectType{{Type: "user"}}}
	model := schema.Model{Types: []schema.TypeDef{{Name: "user"}, {Name: "doc", Relations: []schema.RelationDef{viewer}}}}
	if _, _, err := s.WriteSchema(t.Context(), authz.SchemaSource{Model: &model}); err != nil {
		t.Fatal(err)
	}
	return s
}
