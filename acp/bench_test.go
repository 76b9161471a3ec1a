package acp_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ostiary/ostiary/acp"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/pebble"
)

// benchPolicy is the shape of the policy that the report used.
const benchPolicy = `
name: test
resources:
  users:
    permissions:
      read:
        expr: owner + reader
      write:
        expr: owner
    relations:
      owner:
        types:
          - actor
      reader:
        types:
          - actor
      admin:
        manages:
          - reader
        types:
          - actor
actor:
  name: actor
`

var benchScales = []int{256, 512, 1024, 2048, 4096, 8192}

// benchSetup is an engine with the policy. Persistent is on Pebble, without
// waiting for the disk, as the original does not.
func benchSetup(b *testing.B, inMem, sync bool) (*acp.Engine, string) {
	b.Helper()
	var driver storage.Driver
	if !inMem {
		d, err := pebble.Open(b.TempDir()+"/data", pebble.Options{NoSync: !sync})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { d.Close() })
		driver = d
	}
	e := open(b, acp.Options{Driver: driver})
	return e, must(e.AddPolicy(context.Background(), alice, benchPolicy))(b)
}

// benchReset leaves the policy alone.
func benchReset(b *testing.B, e *acp.Engine, policy string) {
	b.Helper()
	ctx := context.Background()
	if err := e.ResetState(ctx); err != nil {
		b.Fatal(err)
	}
	if again := must(e.AddPolicy(ctx, alice, benchPolicy))(b); again != policy {
		b.Fatal("another id")
	}
}

// measure runs a benchmark's part and reports its processor time an operation,
// the steadier measure where others use the machine: of this thread, or with
// everybody of the process, collector and background work included.
func measure(b *testing.B, everybody bool, operations int, run func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start := cpu(everybody)
	run()
	b.ReportMetric(float64(cpu(everybody)-start)/float64(b.N)/float64(operations), "cpu-ns/each")
}

func cpu(everybody bool) time.Duration {
	who := 1 // RUSAGE_THREAD
	if everybody {
		who = syscall.RUSAGE_SELF
	}
	var u syscall.Rusage
	if err := syscall.Getrusage(who, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func registerDocs(b *testing.B, e *acp.Engine, policy string, n int) {
	for i := 1; i <= n; i++ {
		if err := e.Register(context.Background(), alice, acp.Object{Policy: policy, Resource: "users", ID: strconv.Itoa(i)}); err != nil {
			b.Fatal(err)
		}
	}
}

func eachScale(b *testing.B, run func(b *testing.B, inMem bool, scale int)) {
	for _, inMem := range []bool{true, false} {
		for _, scale := range benchScales {
			b.Run(fmt.Sprintf("scale=%d,inMem=%t", scale, inMem), func(b *testing.B) {
				b.ReportAllocs()
				run(b, inMem, scale)
			})
		}
	}
}

// BenchmarkACPRegister is the report's: so many documents, registered one by
// one, unsynced.
func BenchmarkACPRegister(b *testing.B) {
	eachScale(b, func(b *testing.B, inMem bool, scale int) {
		registerAll(b, inMem, false, scale, registerDocs)
	})
}

// BenchmarkACPRegisterBatch registers them in one batch, unsynced.
func BenchmarkACPRegisterBatch(b *testing.B) {
	eachScale(b, func(b *testing.B, inMem bool, scale int) {
		registerAll(b, inMem, false, scale, registerBatch)
	})
}

func registerBatch(b *testing.B, e *acp.Engine, policy string, n int) {
	batch := e.Batch()
	for i := 1; i <= n; i++ {
		batch.Register(alice, acp.Object{Policy: policy, Resource: "users", ID: strconv.Itoa(i)})
	}
	if err := batch.Commit(context.Background()); err != nil {
		b.Fatal(err)
	}
}

// registerAll measures a way of registering; the resets between are not
// measured.
func registerAll(b *testing.B, inMem, sync bool, scale int, register func(*testing.B, *acp.Engine, string, int)) {
	e, policy := benchSetup(b, inMem, sync)
	var used time.Duration
	b.ResetTimer()
	for range b.N {
		b.StopTimer()
		benchReset(b, e, policy)
		runtime.GC()
		b.StartTimer()
		start := cpu(true)
		register(b, e, policy, scale)
		used += cpu(true) - start
	}
	b.ReportMetric(float64(used)/float64(b.N)/float64(scale), "cpu-ns/each")
}

// BenchmarkACPRegisterSynced registers 8192 documents on Pebble so that each
// call returns when the disk has it: in one batch, from 64 callers, and one by
// one, compared with a bare fdatasync of the disk in the same run.
func BenchmarkACPRegisterSynced(b *testing.B) {
	const scale = 8192
	for _, c := range []struct {
		name     string
		register func(*testing.B, *acp.Engine, string, int)
	}{{"batch", registerBatch}, {"callers=64", registerFrom64}, {"callers=1", registerDocs}} {
		b.Run(c.name, func(b *testing.B) {
			bare := fdatasync(b)
			registerAll(b, false, true, scale, c.register)
			b.ReportMetric(float64(b.Elapsed())/float64(b.N)/scale/float64(bare), "each/fdatasync")
			b.ReportMetric(float64(bare.Microseconds()), "fdatasync-µs")
		})
	}
}

func registerFrom64(b *testing.B, e *acp.Engine, policy string, n int) {
	var next atomic.Int64
	var callers sync.WaitGroup
	for range 64 {
		callers.Go(func() {
			for {
				i := int(next.Add(1))
				if i > n {
					return
				}
				if err := e.Register(context.Background(), alice, acp.Object{Policy: policy, Resource: "users", ID: strconv.Itoa(i)}); err != nil {
					b.Error(err)
				}
			}
		})
	}
	callers.Wait()
}

// fdatasync measures the disk: 128 bytes appended and synced, the median of
// 200.
func fdatasync(b *testing.B) time.Duration {
	f, err := os.CreateTemp(b.TempDir(), "sync")
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	var times []time.Duration
	for range 200 {
		start := time.Now()
		f.Write(make([]byte, 128))
		if err := syscall.Fdatasync(int(f.Fd())); err != nil {
			b.Fatal(err)
		}
		times = append(times, time.Since(start))
	}
	slices.Sort(times)
	return times[len(times)/2]
}

// BenchmarkACPCheckDocAccess is the report's, warm: it asks b.N times after the
// documents were registered once. The first document's owner asks, and with
// "denied" a stranger.
func BenchmarkACPCheckDocAccess(b *testing.B) {
	for _, who := range []struct {
		name, did string
		allowed   bool
	}{{"", alice, true}, {"denied,", bob, false}} {
		for _, inMem := range []bool{true, false} {
			for _, scale := range benchScales {
				b.Run(fmt.Sprintf("%sscale=%d,inMem=%t", who.name, scale, inMem), func(b *testing.B) {
					e, policy := benchSetup(b, inMem, false)
					registerBatch(b, e, policy, scale)
					ctx, doc := context.Background(), acp.Object{Policy: policy, Resource: "users", ID: "1"}
					b.ReportAllocs()
					measure(b, false, 1, func() {
						for b.Loop() {
							if ok, err := e.Check(ctx, who.did, "read", doc); err != nil || ok != who.allowed {
								b.Fatal(ok, err)
							}
						}
					})
				})
			}
		}
	}
}

// BenchmarkACPIsDocRegistered is the report's, warm.
func BenchmarkACPIsDocRegistered(b *testing.B) {
	eachScale(b, func(b *testing.B, inMem bool, scale int) {
		e, policy := benchSetup(b, inMem, false)
		registerBatch(b, e, policy, scale)
		ctx, doc := context.Background(), acp.Object{Policy: policy, Resource: "users", ID: "1"}
		b.ReportAllocs()
		measure(b, false, 1, func() {
			for b.Loop() {
				if ok, err := e.IsRegistered(ctx, doc); err != nil || !ok {
					b.Fatal(ok, err)
				}
			}
		})
	})
}

// BenchmarkACPLarge asks at random among many documents, of 1,000 owners, in
// memory: OSTIARY_BENCH_DOCUMENTS, 100,000 by default. Half of the questions
// are a stranger's. Beside them is the floor: two probes of a Go map with a
// struct of strings for a key.
func BenchmarkACPLarge(b *testing.B) {
	n := number("OSTIARY_BENCH_DOCUMENTS", 100_000)
	e, policy := benchSetup(b, true, false)
	owners, floor := fillLarge(b, e, policy, n)
	ctx := context.Background()
	ids := make([]string, 1<<16)
	numbers := make([]int, len(ids))
	for i := range ids {
		numbers[i] = int(uint64(i) * 2654435761 % uint64(n))
		ids[i] = strconv.Itoa(numbers[i])
	}
	run := func(name string, ask func(i int, o acp.Object) bool) {
		b.Run(fmt.Sprintf("%s,documents=%d", name, n), func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			measure(b, false, 1, func() {
				for b.Loop() {
					if !ask(i, acp.Object{Policy: policy, Resource: "users", ID: ids[i]}) {
						b.Fatal(ids[i])
					}
					i = (i + 1) % len(ids)
				}
			})
		})
	}
	who := func(i int) string { return owners[(numbers[i]+i%2)%len(owners)] }
	run("check", func(i int, o acp.Object) bool {
		ok, err := e.Check(ctx, who(i), "read", o)
		return err == nil && ok == (i%2 == 0)
	})
	run("registered", func(_ int, o acp.Object) bool {
		ok, err := e.IsRegistered(ctx, o)
		return err == nil && ok
	})
	run("access", func(i int, o acp.Object) bool {
		a, err := e.Access(ctx, who(i), "read", o)
		return err == nil && (a == acp.Allow) == (i%2 == 0)
	})
	run("floor", func(i int, o acp.Object) bool {
		if floor[mapKey{"users", o.ID, "owner"}] == who(i) {
			return i%2 == 0
		}
		return floor[mapKey{"users", o.ID, "reader"}] == "" && i%2 == 1
	})
}

type mapKey struct{ resource, id, relation string }

// fillLarge registers n documents and fills the floor's map alike.
func fillLarge(b *testing.B, e *acp.Engine, policy string, n int) ([]string, map[mapKey]string) {
	owners := make([]string, 1000)
	for i := range owners {
		owners[i] = fmt.Sprintf("did:example:owner%d", i)
	}
	floor := make(map[mapKey]string, n)
	for first := 0; first < n; first += 50_000 {
		batch := e.Batch()
		for i := first; i < min(first+50_000, n); i++ {
			id, owner := strconv.Itoa(i), owners[i%len(owners)]
			batch.Register(owner, acp.Object{Policy: policy, Resource: "users", ID: id})
			floor[mapKey{"users", id, "owner"}] = owner
		}
		if err := batch.Commit(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
	return owners, floor
}
