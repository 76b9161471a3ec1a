package enginetest

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

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/graph/graphtest"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage/pebble"
)

// benchTuples returns how many tuples the benchmarks use. OSTIARY_BENCH_TUPLES
// overrides the default.
func benchTuples(b *testing.B) int {
	n, err := strconv.Atoi(os.Getenv("OSTIARY_BENCH_TUPLES"))
	if err != nil {
		return 100_000
	}
	return n
}

// shapeModel returns the model that graphtest.Model gives as text.
func shapeModel() *schema.Model {
	user, members := schema.SubjectType{Type: "user"}, schema.SubjectType{Type: "group", Relation: "member"}
	direct := func(name string, subjects ...schema.SubjectType) schema.RelationDef {
		return schema.RelationDef{Name: name, Rewrite: schema.Direct(), Subjects: subjects}
	}
	return &schema.Model{Types: []schema.TypeDef{
		{Name: "user"},
		{Name: "group", Relations: []schema.RelationDef{direct("member", user)}},
		{Name: "folder", Relations: []schema.RelationDef{direct("viewer", user, members)}},
		{Name: "document", Relations: []schema.RelationDef{
			direct("parent", schema.SubjectType{Type: "folder"}),
			direct("owner", user),
			{Name: "viewer", Subjects: []schema.SubjectType{user, members},
				Rewrite: schema.Union(schema.Direct(), schema.Computed("owner"), schema.Arrow("parent", "viewer"))},
		}},
	}}
}

func imported(b testing.TB, s *ostiary.Store, shape graphtest.Shape) {
	b.Helper()
	_, err := s.Import(context.Background(), func(yield func(rel.Tuple, error) bool) {
		for t := range shape.All() {
			if !yield(t, nil) {
				return
			}
		}
	}, authz.ImportOptions{})
	if err != nil {
		b.Fatal(err)
	}
}

func benchStore(b *testing.B) (*ostiary.Store, graphtest.Shape) {
	shape := graphtest.Shape{Tuples: benchTuples(b), Fan: 1000, Lists: 10}
	s := newStore(b, newEngine(b, ostiary.Options{}), shapeModel())
	imported(b, s, shape)
	return s, shape
}

// cpu returns the processor time that this thread has used, or the whole process
// if wholeProcess is true. On a shared machine it varies less than elapsed time.
func cpu(wholeProcess bool) time.Duration {
	who := 1 // RUSAGE_THREAD
	if wholeProcess {
		who = syscall.RUSAGE_SELF
	}
	var u syscall.Rusage
	if err := syscall.Getrusage(who, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkCheck asks uniformly random questions, half of which are allowed. In
// the direct case one stored tuple decides; in the 3-hop case the path is document,
// folder, group, user.
func BenchmarkCheck(b *testing.B) {
	s, shape := benchStore(b)
	ctx := context.Background()
	for _, c := range []struct {
		name string
		qs   []graphtest.Question
	}{{"direct", shape.Direct(1 << 17)}, {"3-hop", shape.ThreeHop(1 << 17)}, {"hot", shape.ThreeHop(1000)}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			i, start := 0, cpu(false)
			defer func() { b.ReportMetric(float64(cpu(false)-start)/float64(b.N), "cpu-ns/op") }()
			for b.Loop() {
				q := &c.qs[i]
				if i++; i == len(c.qs) {
					i = 0
				}
				r, err := s.Check(ctx, authz.CheckRequest{Object: q.Object, Relation: q.Relation, Subject: q.Subject})
				if err != nil || r.Allowed() != q.Allowed {
					b.Fatalf("%v: %v %v", q, r, err)
				}
			}
		})
	}
}

// BenchmarkListObjects lists the 1,000 documents that a user reaches in three hops.
func BenchmarkListObjects(b *testing.B) {
	s, shape := benchStore(b)
	ctx := context.Background()
	for _, n := range []int{100, 1000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			b.ReportAllocs()
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			i, start := 0, cpu(false)
			defer func() { b.ReportMetric(float64(cpu(false)-start)/float64(b.N), "cpu-ns/op") }()
			for b.Loop() {
				i++
				l, err := s.ListObjects(ctx, authz.ListObjectsRequest{Type: "document", Relation: "viewer",
					Subject: shape.ListUser(n, i%10).AsSubject()})
				if err != nil || len(l.IDs) != n {
					b.Fatal(len(l.IDs), err)
				}
			}
		})
	}
}

// fdatasync returns how long the disk takes to append and sync 128 bytes: the
// median of 200 tries.
func fdatasync(b testing.TB, dir string) time.Duration {
	f, err := os.CreateTemp(dir, "sync")
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

// BenchmarkWrite writes single tuples durably on Pebble, with 1 writer and with
// 64, and reports the rate and the latencies in multiples of fdatasync.
func BenchmarkWrite(b *testing.B) {
	for _, writers := range []int{1, 64} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			dir := b.TempDir()
			sync1 := fdatasync(b, dir)
			driver, err := pebble.Open(dir+"/data", pebble.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer driver.Close()
			s := newStore(b, newEngine(b, ostiary.Options{Driver: driver}), shapeModel())
			imported(b, s, graphtest.Shape{Tuples: 100_000})
			var next atomic.Int64
			all := make([][]time.Duration, writers)
			var wg sync.WaitGroup
			b.ResetTimer()
			start, used := time.Now(), cpu(true)
			for w := range writers {
				wg.Add(1)
				go func() {
					defer wg.Done()
					for {
						n := next.Add(1)
						if n > int64(b.N) {
							return
						}
						t := rel.Tuple{Object: rel.Object{Type: "document", ID: "new" + strconv.FormatInt(n, 10)}, Relation: "owner",
							Subject: rel.Subject{Type: "user", ID: "u" + strconv.FormatInt(n%1000, 10)}}
						at := time.Now()
						if _, err := s.Write(context.Background(), authz.WriteRequest{Add: []rel.Tuple{t}}); err != nil {
							b.Error(err)
							return
						}
						all[w] = append(all[w], time.Since(at))
					}
				}()
			}
			wg.Wait()
			took, used := time.Since(start), cpu(true)-used
			b.StopTimer()
			times := slices.Sorted(slices.Values(slices.Concat(all...)))
			p := func(q float64) float64 { return float64(times[int(q*float64(len(times)-1))]) / float64(sync1) }
			b.ReportMetric(float64(b.N)/took.Seconds(), "writes/s")
			b.ReportMetric(float64(used)/float64(b.N), "cpu-ns/op")
			b.ReportMetric(float64(sync1.Microseconds()), "fdatasync-µs")
			b.ReportMetric(p(0.5), "p50/fdatasync")
			b.ReportMetric(p(0.99), "p99/fdatasync")
			b.ReportMetric(float64(times[int(0.99*float64(len(times)-1))].Microseconds()), "p99-µs")
		})
	}
}

// BenchmarkImport imports b.N × 100,000 tuples durably on Pebble.
func BenchmarkImport(b *testing.B) {
	for _, kind := range []string{"memory", "pebble"} {
		b.Run(kind, func(b *testing.B) {
			shape := graphtest.Shape{Tuples: max(1_000_000, benchTuples(b))}
			for range b.N {
				o := ostiary.Options{}
				if kind == "pebble" {
					driver, err := pebble.Open(b.TempDir()+"/data", pebble.Options{})
					if err != nil {
						b.Fatal(err)
					}
					defer driver.Close()
					o.Driver = driver
				}
				s := newStore(b, newEngine(b, o), shapeModel())
				start, used := time.Now(), cpu(true)
				imported(b, s, shape)
				st, err := s.Stats(context.Background())
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(st.Graph.Tuples)/time.Since(start).Seconds(), "tuples/s")
				b.ReportMetric(float64(cpu(true)-used)/float64(st.Graph.Tuples), "cpu-ns/tuple")
			}
		})
	}
}

// BenchmarkCheckUnderWrites asks direct questions while 10,000 tuples a second are
// written durably in batches of 10. It reports the median and the worst latency,
// and those of a store without writes, measured in turns.
func BenchmarkCheckUnderWrites(b *testing.B) {
	driver, err := pebble.Open(b.TempDir()+"/data", pebble.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer driver.Close()
	ctx := context.Background()
	shape := graphtest.Shape{Tuples: benchTuples(b)}
	s := newStore(b, newEngine(b, ostiary.Options{Driver: driver}), shapeModel())
	imported(b, s, shape)
	qs := shape.Direct(1 << 16)
	n := 0
	ask := func(d time.Duration) (times []time.Duration) {
		for end := time.Now().Add(d); ; n++ {
			at := time.Now()
			if at.After(end) {
				return times
			}
			for range 10 { // reading the clock costs as much as a check
				q := &qs[n%len(qs)]
				if r, err := s.Check(ctx, authz.CheckRequest{Object: q.Object, Relation: q.Relation, Subject: q.Subject}); err != nil || r.Allowed() != q.Allowed {
					b.Fatal(r, err)
				}
				n++
			}
			times = append(times, time.Since(at)/10)
		}
	}
	var quiet, busy []time.Duration
	written := 0
	for range 3 {
		quiet = append(quiet, ask(time.Second)...)
		stop, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-stop:
					return
				case <-tick.C:
				}
				var w authz.WriteRequest
				for range 10 {
					written++
					w.Add = append(w.Add, rel.Tuple{Object: rel.Object{Type: "document", ID: "w" + strconv.Itoa(written)},
						Relation: "owner", Subject: rel.Subject{Type: "user", ID: "u" + strconv.Itoa(written%1000)}})
				}
				if _, err := s.Write(ctx, w); err != nil {
					b.Error(err)
					return
				}
			}
		}()
		busy = append(busy, ask(time.Second)...)
		close(stop)
		<-done
	}
	slices.Sort(quiet)
	slices.Sort(busy)
	b.ReportMetric(float64(quiet[len(quiet)/2]), "quiet-ns")
	b.ReportMetric(float64(busy[len(busy)/2]), "busy-ns")
	b.ReportMetric(float64(busy[len(busy)/2])/float64(quiet[len(quiet)/2]), "ratio")
	b.ReportMetric(float64(busy[len(busy)-1])*10/1e6, "worst-ms")
	b.ReportMetric(float64(written)/3, "writes/s")
}

// BenchmarkSmallStore asks one question of a store with three tuples that is not
// loaded, and reports the memory of each loaded store.
func BenchmarkSmallStore(b *testing.B) {
	driver, err := pebble.Open(b.TempDir()+"/data", pebble.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer driver.Close()
	ctx := context.Background()
	const stores = 200
	e := newEngine(b, ostiary.Options{Driver: driver})
	var all []*ostiary.Store
	for range stores {
		s := newStore(b, e, documents())
		if _, err := s.Write(ctx, authz.WriteRequest{Add: tups(b, "document:1#parent@folder:1", "folder:1#viewer@user:anne", "document:1#owner@user:bob")}); err != nil {
			b.Fatal(err)
		}
		all = append(all, s)
	}
	i := 0
	for b.Loop() {
		if i%stores == 0 {
			b.StopTimer()
			if i > 0 {
				b.ReportMetric(float64(e.Bytes())/stores, "bytes/store")
			}
			e.DropIdle()
			e.DropIdle()
			b.StartTimer()
		}
		want(b, all[i%stores], "document:1#viewer@user:anne", "true")
		i++
	}
}
