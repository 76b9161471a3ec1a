package pebble_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/pebble"
	"github.com/ostiary/ostiary/storage/storagetest"
)

// benchTuple returns a tuple of the benchmarks: a document in a random folder.
func benchTuple(i int) rel.Tuple {
	h := uint64(i) * 0x9e3779b97f4a7c15
	return rel.Tuple{
		Object:   rel.Object{Type: "document", ID: fmt.Sprintf("doc-%08d", i)},
		Relation: "parent",
		Subject:  rel.Subject{Type: "folder", ID: fmt.Sprintf("folder-%06d", h%100_003)},
	}
}

type benchOrder int

const (
	ascending benchOrder = iota
	shuffled
)

func benchChanges(n int, order benchOrder, fresh bool) []storage.Change {
	changes := make([]storage.Change, n)
	for i := range changes {
		changes[i] = storage.Change{Kind: storage.TupleAdd, Tuple: benchTuple(i), Fresh: fresh}
	}
	if order == shuffled {
		rand.New(rand.NewPCG(1, 2)).Shuffle(n, func(i, j int) { changes[i], changes[j] = changes[j], changes[i] })
	}
	return changes
}

func benchOpen(b *testing.B, dir string) (*pebble.Driver, *storagetest.Log) {
	b.Helper()
	d, err := pebble.Open(dir, pebble.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { d.Close() })
	l := storagetest.NewLog(1)
	if err := d.CreateStore(b.Context(), storage.StoreInfo{ID: l.ID, Incarnation: l.Incarnation}); err != nil {
		b.Fatal(err)
	}
	return d, l
}

// fdatasync measures the minimum cost of a durable write: the median time to
// append 512 bytes to a file on the same disk and sync it.
func fdatasync(b *testing.B, dir string) time.Duration {
	b.Helper()
	f, err := os.Create(filepath.Join(dir, "fdatasync"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	times := make([]time.Duration, 500)
	for i := range times {
		begin := time.Now()
		if _, err := f.Write(make([]byte, 512)); err != nil {
			b.Fatal(err)
		}
		if err := syscall.Fdatasync(int(f.Fd())); err != nil {
			b.Fatal(err)
		}
		times[i] = time.Since(begin)
	}
	slices.Sort(times)
	return times[len(times)/2]
}

// cpu returns the processor time of all threads of this process so far. On a busy
// machine it varies less than the elapsed time.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		b.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// reportTuples reports a benchmark that handles n tuples in each iteration. used is
// the processor time of all iterations.
func reportTuples(b *testing.B, n int, used time.Duration) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/tuple")
	b.ReportMetric(float64(used.Nanoseconds())/float64(b.N)/float64(n), "cpu-ns/tuple")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkAppend measures one durable append, also as a multiple of fdatasync.
func BenchmarkAppend(b *testing.B) {
	for _, group := range []int{1, 64} {
		b.Run(fmt.Sprintf("entries=%d", group), func(b *testing.B) {
			dir := b.TempDir()
			floor := fdatasync(b, dir)
			d, l := benchOpen(b, filepath.Join(dir, "data"))
			n := 0
			var times []time.Duration
			for b.Loop() {
				head, entries := l.Head, make([]storage.Entry, group)
				for i := range entries {
					entries[i] = l.Entry(head, storage.Change{Kind: storage.TupleAdd, Tuple: benchTuple(n)})
					head = storage.Head{Revision: entries[i].Revision, Hash: entries[i].Hash(), Time: entries[i].Time}
					n++
				}
				begin := time.Now()
				var err error
				if l.Head, err = d.Append(b.Context(), l.ID, l.Head, entries, nil); err != nil {
					b.Fatal(err)
				}
				times = append(times, time.Since(begin))
			}
			slices.Sort(times)
			p50 := times[len(times)/2]
			b.ReportMetric(float64(p50)/1e3, "µs-p50")
			b.ReportMetric(float64(times[len(times)*99/100])/1e3, "µs-p99")
			b.ReportMetric(float64(floor)/1e3, "µs-fdatasync")
			b.ReportMetric(float64(p50)/float64(floor), "×fdatasync")
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "tuples/s")
		})
	}
}

// BenchmarkBulk measures writing a million tuples in entries of 10,000, and their
// size on disk.
func BenchmarkBulk(b *testing.B) {
	const total, each = 1_000_000, 10_000
	for _, order := range []benchOrder{ascending, shuffled} {
		for _, fresh := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/fresh=%v", []string{"ascending", "shuffled"}[order], fresh), func(b *testing.B) {
				changes := benchChanges(total, order, fresh)
				var used time.Duration
				for b.Loop() {
					b.StopTimer()
					dir := b.TempDir()
					d, l := benchOpen(b, filepath.Join(dir, "data"))
					begin := cpu(b)
					b.StartTimer()
					for part := range slices.Chunk(changes, each) {
						if err := l.Append(b.Context(), d, part...); err != nil {
							b.Fatal(err)
						}
					}
					b.StopTimer()
					used += cpu(b) - begin
					if err := d.Close(); err != nil {
						b.Fatal(err)
					}
					b.ReportMetric(float64(folderBytes(b, dir))/total, "disk-B/tuple")
					b.StartTimer()
				}
				reportTuples(b, total, used)
			})
		}
	}
}

func folderBytes(b *testing.B, dir string) (n int64) {
	b.Helper()
	err := filepath.Walk(dir, func(_ string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() {
			n += info.Size()
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// BenchmarkRead measures loading a store of a million tuples, reading its log, and
// removing all tuples of one subject.
func BenchmarkRead(b *testing.B) {
	const total = 1_000_000
	dir := b.TempDir()
	d, l := benchOpen(b, dir)
	for part := range slices.Chunk(benchChanges(total, shuffled, true), 10_000) {
		if err := l.Append(b.Context(), d, part...); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("load", func(b *testing.B) {
		begin := cpu(b)
		for b.Loop() {
			st, err := d.Load(b.Context(), l.ID, storage.LoadOptions{})
			if err != nil {
				b.Fatal(err)
			}
			n := 0
			for _, err := range st.Tuples {
				if err != nil {
					b.Fatal(err)
				}
				n++
			}
			st.Close()
			if n != total {
				b.Fatal(n)
			}
		}
		reportTuples(b, total, cpu(b)-begin)
	})
	b.Run("entries", func(b *testing.B) {
		begin := cpu(b)
		for b.Loop() {
			for _, err := range d.Entries(b.Context(), l.ID, 1) {
				if err != nil {
					b.Fatal(err)
				}
			}
		}
		reportTuples(b, total, cpu(b)-begin)
	})
	b.Run("filter by subject", func(b *testing.B) {
		begin := cpu(b)
		for b.Loop() {
			f := storage.Filter{Target: storage.FilterTuples, Tuple: rel.Filter{SubjectType: "folder", SubjectID: fmt.Sprintf("folder-%06d", b.N)}}
			if err := l.Append(b.Context(), d, storage.Change{Kind: storage.RemoveByFilter, Filter: f}); err != nil {
				b.Fatal(err)
			}
		}
		reportTuples(b, total, cpu(b)-begin)
	})
}
