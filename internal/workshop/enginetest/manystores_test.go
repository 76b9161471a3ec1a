package enginetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/pebble"
)

// TestStoresBound creates stores in a folder, up to the bound and one more, opens
// random ones, unloads them, and opens the folder again. OSTIARY_STORES is their
// number, 300 by default; "make stores" runs it with 100,000 and prints what they
// cost.
func TestStoresBound(t *testing.T) {
	t.Parallel()
	n := 300
	if text := os.Getenv("OSTIARY_STORES"); text != "" {
		n, _ = strconv.Atoi(text)
	}
	x := &manyStores{t: t, dir: t.TempDir(), ids: make([]storage.StoreID, n)}
	x.open(n)
	x.report("empty folder")
	x.create()
	x.report("created")
	x.oneMore(n)
	x.list(n)
	x.report("listed")
	x.ask(min(n, 1000))
	x.report("random stores opened")
	x.engine.DropIdle()
	x.engine.DropIdle()
	if left := x.engine.Loaded(); left > 0 {
		t.Errorf("%d stores are loaded after they were idle twice", left)
	}
	x.report("unloaded")
	x.close()
	x.open(n)
	x.report("opened again")
	x.oneMore(n)
	x.report("counted")
	x.ask(min(n, 1000))
	x.report("random stores opened again")
	x.close()
}

// manyStores is a folder with stores, and the engine that has it open.
type manyStores struct {
	t      *testing.T
	dir    string
	driver *pebble.Driver
	engine *ostiary.Engine
	ids    []storage.StoreID
	before float64 // processor time of the last report
}

func (x *manyStores) open(bound int) {
	x.t.Helper()
	var err error
	if x.driver, err = pebble.Open(x.dir, pebble.Options{}); err != nil {
		x.t.Fatal(err)
	}
	x.engine, err = ostiary.Open(x.t.Context(), ostiary.Options{Driver: x.driver, Bounds: authz.Bounds{Stores: bound}})
	if err != nil {
		x.t.Fatal(err)
	}
}

func (x *manyStores) close() {
	x.t.Helper()
	if err := errors.Join(x.engine.Close(), x.driver.Close()); err != nil {
		x.t.Error(err)
	}
}

// report logs the processor time since the last report, and the memory that is in use.
func (x *manyStores) report(what string) {
	var used syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	now := float64(used.Utime.Nano()+used.Stime.Nano()) / 1e9
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	x.t.Logf("%-28s %6.1f s of processor time, heap %4d MB", what, now-x.before, m.HeapAlloc>>20)
	x.before = now
}

// create creates all stores, each with a schema and a tuple.
func (x *manyStores) create() {
	ctx := x.t.Context()
	var next atomic.Int64
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(x.ids) && !x.t.Failed(); i = int(next.Add(1)) - 1 {
				s, err := x.engine.CreateStore(ctx, ostiary.CreateStoreRequest{Name: fmt.Sprint("store ", i), Aliases: map[string]string{"many": fmt.Sprint(i)}})
				if err == nil {
					x.ids[i] = s.ID()
					_, _, err = s.WriteSchema(ctx, authz.SchemaSource{Model: documents()})
				}
				if err == nil {
					_, err = s.Write(ctx, authz.WriteRequest{Add: []rel.Tuple{x.tuple(i)}})
				}
				if err != nil {
					x.t.Error(i, err)
				}
			}
		})
	}
	all.Wait()
}

// tuple is the only tuple of a store: its user is viewer of its document.
func (x *manyStores) tuple(i int) rel.Tuple {
	q := questionOfStore(i)
	return rel.Tuple{Object: q.Object, Relation: q.Relation, Subject: q.Subject}
}

// oneMore creates one store more than the bound allows. After one is deleted, it is
// allowed.
func (x *manyStores) oneMore(bound int) {
	x.t.Helper()
	ctx := x.t.Context()
	_, err := x.engine.CreateStore(ctx, ostiary.CreateStoreRequest{Name: "one more"})
	var exceeded *authz.BoundError
	if !errors.As(err, &exceeded) || exceeded.Name != "Stores" || exceeded.Max != int64(bound) || exceeded.Got != int64(bound+1) {
		x.t.Fatalf("one more store: %v", err)
	}
	if err := x.engine.DeleteStore(ctx, x.ids[0]); err != nil {
		x.t.Fatal(err)
	}
	if err := x.engine.DeleteStore(ctx, x.ids[0]); !errors.Is(err, authz.ErrNoStore) {
		x.t.Errorf("deleted twice: %v", err)
	}
	// An alias that is in use makes the creation fail, which must not count.
	if _, err := x.engine.CreateStore(ctx, ostiary.CreateStoreRequest{Aliases: map[string]string{"many": "1"}}); !errors.Is(err, authz.ErrStoreExists) {
		x.t.Errorf("an alias that is in use: %v", err)
	}
	s, err := x.engine.CreateStore(ctx, ostiary.CreateStoreRequest{Name: "instead", Aliases: map[string]string{"many": "0"}})
	if err != nil {
		x.t.Fatalf("after one was deleted: %v", err)
	}
	x.ids[0] = s.ID()
	if _, _, err := s.WriteSchema(ctx, authz.SchemaSource{Model: documents()}); err != nil {
		x.t.Error(err)
	}
	if _, err := s.Write(ctx, authz.WriteRequest{Add: []rel.Tuple{x.tuple(0)}}); err != nil {
		x.t.Error(err)
	}
}

// list lists all stores.
func (x *manyStores) list(want int) {
	x.t.Helper()
	var ids []storage.StoreID
	for info, err := range x.engine.Stores(x.t.Context(), storage.StoreID{}) {
		if err != nil {
			x.t.Fatal(err)
		}
		ids = append(ids, info.ID)
	}
	if len(ids) != want || !slices.IsSortedFunc(ids, func(a, b storage.StoreID) int { return slices.Compare(a[:], b[:]) }) {
		x.t.Errorf("%d stores are listed, expected %d in order", len(ids), want)
	}
}

// ask asks random stores, by their aliases, about the user of their own tuple and of
// another store's. It logs the 99th percentile of a store that is always asked.
func (x *manyStores) ask(stores int) {
	x.t.Helper()
	ctx := context.Background()
	seed := uint64(time.Now().UnixNano())
	rnd := rand.New(rand.NewPCG(seed, 2))
	var took []time.Duration
	for range stores {
		i := rnd.IntN(len(x.ids))
		for _, of := range []int{i, 0} {
			s, err := x.engine.StoreByAlias(ctx, "many", strconv.Itoa(of))
			if err != nil {
				x.t.Fatalf("seed %d: %v", seed, err)
			}
			start := time.Now()
			own, err := s.Check(ctx, questionOfStore(of))
			if of == 0 {
				took = append(took, time.Since(start))
			}
			other, otherErr := s.Check(ctx, questionOfStore(of+1))
			if err != nil || otherErr != nil || own.Decision != expr.True || other.Decision != expr.False {
				x.t.Fatalf("seed %d: store %d: %v, %v, %v, %v", seed, of, own.Decision, err, other.Decision, otherErr)
			}
		}
	}
	slices.Sort(took)
	x.t.Logf("a neighbor's 99th percentile while %d stores were opened: %v", stores, took[len(took)*99/100])
}

// questionOfStore asks about the user of a store's tuple.
func questionOfStore(i int) authz.CheckRequest {
	return authz.CheckRequest{Object: rel.Object{Type: "document", ID: "1"}, Relation: "viewer", Subject: rel.Subject{Type: "user", ID: strconv.Itoa(i)}}
}
