package replica_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog/memorylog"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/pebble"
	"github.com/ostiary/ostiary/storage/storagetest"
)

// BenchmarkAppend measures a durable write on the memory log with a copy on disk, as a
// multiple of writes a second of the bare Pebble driver in the same run.
func BenchmarkAppend(b *testing.B) {
	dir := b.TempDir()
	bare, err := pebble.Open(filepath.Join(dir, "bare"), pebble.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer bare.Close()
	shared := mustOpen(b, memorylog.New(), onDisk(filepath.Join(dir, "copy")))
	var took [2]time.Duration
	logs := [2]*storagetest.Log{newStore(b, bare, 1), newStore(b, shared, 1)}
	n := 0
	for b.Loop() {
		for i, d := range []storage.Driver{bare, shared} {
			begin := time.Now()
			mustAppend(b, logs[i], d, add(fmt.Sprint(n)))
			took[i] += time.Since(begin)
		}
		n++
	}
	b.ReportMetric(float64(took[0].Microseconds())/float64(n), "µs-bare")
	b.ReportMetric(float64(took[1].Microseconds())/float64(n), "µs-replica")
	b.ReportMetric(float64(took[0])/float64(took[1]), "×bare-writes/s")
}

// cpu returns the processor time of this process so far. On a busy machine it varies
// less than the elapsed time.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		b.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// tuplesTotal and tuplesEach are the tuples of BenchmarkStart, and those of an entry.
const (
	tuplesTotal = 400_000
	tuplesEach  = 1000
)

// BenchmarkStart measures how a new node gets its copy: by replaying the segments, and
// from a snapshot.
func BenchmarkStart(b *testing.B) {
	tables := memorylog.New()
	one := mustOpen(b, tables, inMemory())
	l := newStore(b, one, 1)
	for n := 0; n < tuplesTotal; {
		changes := make([]storage.Change, tuplesEach)
		for i := range changes {
			changes[i] = add(fmt.Sprintf("document-%08d", n))
			changes[i].Tuple.Subject = rel.Subject{Type: "folder", ID: fmt.Sprintf("folder-%06d", uint64(n)*0x9e3779b97f4a7c15%100_003)}
			n++
		}
		mustAppend(b, l, one, changes...)
	}
	for _, kind := range []string{"segments", "snapshot"} {
		if kind == "snapshot" {
			if err := one.Snapshot(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		for _, copyOf := range []string{"memory", "disk"} {
			b.Run(kind+"/"+copyOf, func(b *testing.B) {
				begin := cpu(b)
				for b.Loop() {
					at := inMemory()
					if copyOf == "disk" {
						at = onDisk(b.TempDir())
					}
					d, err := open(b.Context(), tables, at)
					if err != nil {
						b.Fatal(err)
					}
					b.StopTimer()
					if h, err := d.Head(b.Context(), l.ID); err != nil || h.Revision != l.Head.Revision {
						b.Fatalf("the head is %+v, error %v", h, err)
					}
					if err := d.Close(); err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
				}
				b.ReportMetric(float64(tuplesTotal)*float64(b.N)/b.Elapsed().Seconds(), "tuples/s")
				b.ReportMetric(float64(tuplesTotal)*float64(b.N)/(cpu(b)-begin).Seconds(), "tuples/cpu-s")
			})
		}
	}
}

// BenchmarkStores measures writes of 64 writers through the engine to random ones of
// 1,000 stores, of 100,000 on one shard, as a multiple of those to one store.
func BenchmarkStores(b *testing.B) {
	b.Run("memory", func(b *testing.B) { benchmarkStores(b, inMemory()) })
	b.Run("disk", func(b *testing.B) { benchmarkStores(b, onDisk(b.TempDir())) })
}

func benchmarkStores(b *testing.B, at place) {
	const stores, used, writers = 100_000, 1000, 64
	d, err := open(b.Context(), memorylog.New(), at)
	if err != nil {
		b.Fatal(err)
	}
	e, err := ostiary.Open(context.Background(), ostiary.Options{Driver: d})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	for n := range uint32(stores - used) {
		newStore(b, d, n+1)
	}
	viewer := schema.RelationDef{Name: "viewer", Rewrite: schema.Direct(), Subjects: []schema.SubjectType{{Type: "user"}}}
	model := schema.Model{Types: []schema.TypeDef{{Name: "user"}, {Name: "doc", Relations: []schema.RelationDef{viewer}}}}
	all := make([]*ostiary.Store, used)
	for i := range all {
		if all[i], err = e.CreateStore(b.Context(), ostiary.CreateStoreRequest{}); err != nil {
			b.Fatal(err)
		}
		if _, _, err := all[i].WriteSchema(b.Context(), authz.SchemaSource{Model: &model}); err != nil {
			b.Fatal(err)
		}
	}
	run := func(n int, choose func(*rand.Rand) *ostiary.Store) (elapsed, used time.Duration) {
		var next atomic.Int64
		var group sync.WaitGroup
		begin, before := time.Now(), cpu(b)
		for w := range writers {
			random := rand.New(rand.NewPCG(1, uint64(w)))
			group.Go(func() {
				for {
					i := next.Add(1)
					if i > int64(n) {
						return
					}
					t := rel.Tuple{Object: rel.Object{Type: "doc", ID: fmt.Sprint(time.Now().UnixNano(), "-", i)}, Relation: "viewer", Subject: rel.Subject{Type: "user", ID: "anne"}}
					if _, err := choose(random).Write(b.Context(), authz.WriteRequest{Add: []rel.Tuple{t}}); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		group.Wait()
		return time.Since(begin), cpu(b) - before
	}
	const writes = 20_000
	var one, oneUsed, many, manyUsed time.Duration
	n, segments := 0, uint64(0)
	for b.Loop() {
		elapsed, used := run(writes, func(*rand.Rand) *ostiary.Store { return all[0] })
		one, oneUsed = one+elapsed, oneUsed+used
		segments -= d.AppliedSequence()
		elapsed, used = run(writes, func(r *rand.Rand) *ostiary.Store { return all[r.IntN(len(all))] })
		many, manyUsed = many+elapsed, manyUsed+used
		segments += d.AppliedSequence()
		n += writes
	}
	b.ReportMetric(float64(n)/float64(segments), "writes/segment")
	b.ReportMetric(float64(n)/one.Seconds(), "writes/s-one-store")
	b.ReportMetric(float64(n)/many.Seconds(), "writes/s-many-stores")
	b.ReportMetric(float64(oneUsed.Microseconds())/float64(n), "cpu-µs-one-store")
	b.ReportMetric(float64(manyUsed.Microseconds())/float64(n), "cpu-µs-many-stores")
	b.ReportMetric(float64(one)/float64(many), "×one-store")
	b.ReportMetric(float64(oneUsed)/float64(manyUsed), "×one-store-cpu")
}
