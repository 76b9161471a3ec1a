package enginetest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strconv"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/graph/graphtest"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/pebble"
)

// BenchmarkReady imports the benchmarks' tuples into a folder and lets a new
// process open it. It reports the time to the first answer, and the resident bytes
// per tuple at that time (rss) and at most (peak). The new process runs with the
// garbage collection target readyGOGC. If OSTIARY_BENCH_UUID is set, ids are UUIDs.
func BenchmarkReady(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "data")
	shape := graphtest.Shape{Tuples: benchTuples(b), UUID: os.Getenv("OSTIARY_BENCH_UUID") != ""}
	driver, err := pebble.Open(dir, pebble.Options{})
	if err != nil {
		b.Fatal(err)
	}
	s := newStore(b, newEngine(b, ostiary.Options{Driver: driver}), shapeModel())
	start := time.Now()
	imported(b, s, shape)
	rate := float64(shape.Tuples) / time.Since(start).Seconds()
	q := shape.Direct(1)[0]
	if err := driver.Close(); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for b.Loop() {
		cmd := exec.Command(os.Args[0], "-test.run", "TestReadyChild", "-test.v")
		cmd.Env = append(os.Environ(), "OSTIARY_READY="+dir, "OSTIARY_READY_STORE="+s.ID().String(),
			"OSTIARY_READY_ASK="+rel.Key{Object: q.Object, Relation: q.Relation, Subject: q.Subject}.String(),
			fmt.Sprintf("OSTIARY_READY_WANT=%v", q.Allowed))
		out, err := cmd.CombinedOutput()
		m := regexp.MustCompile(`ready ([0-9]+) ms, rss ([0-9]+) kB, peak ([0-9]+) kB`).FindStringSubmatch(string(out))
		if err != nil || m == nil {
			b.Fatalf("%v\n%s", err, out)
		}
		for i, unit := range []string{"ready-ms", "rss-B/tuple", "peak-B/tuple"} {
			v, _ := strconv.ParseFloat(m[i+1], 64)
			if i > 0 {
				v = v * 1024 / float64(shape.Tuples)
			}
			b.ReportMetric(v, unit)
		}
	}
	b.ReportMetric(rate, "import-tuples/s")
}

// readyGOGC is the GOGC of processes that load much data: it costs processor time
// and saves memory.
const readyGOGC = 25

// TestReadyChild runs in the new process of [BenchmarkReady].
func TestReadyChild(t *testing.T) {
	dir := os.Getenv("OSTIARY_READY")
	if dir == "" {
		t.Skip("runs only as the new process of BenchmarkReady")
	}
	debug.SetGCPercent(readyGOGC)
	start, ctx := time.Now(), context.Background()
	driver, err := pebble.Open(dir, pebble.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer driver.Close()
	e, err := ostiary.Open(ctx, ostiary.Options{Driver: driver})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	id, err := storage.ParseStoreID(os.Getenv("OSTIARY_READY_STORE"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := e.Store(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	q, err := rel.Parse(os.Getenv("OSTIARY_READY_ASK"))
	if err != nil {
		t.Fatal(err)
	}
	res, err := s.Check(ctx, authz.CheckRequest{Object: q.Object, Relation: q.Relation, Subject: q.Subject})
	if err != nil || fmt.Sprint(res.Allowed()) != os.Getenv("OSTIARY_READY_WANT") {
		t.Fatalf("the first answer is %v, %v", res, err)
	}
	ready := time.Since(start)
	debug.FreeOSMemory()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip(err)
	}
	field := func(name string) string {
		return regexp.MustCompile(name + `:\s*([0-9]+)`).FindStringSubmatch(string(status))[1]
	}
	fmt.Printf("ready %d ms, rss %s kB, peak %s kB\n", ready.Milliseconds(), field("VmRSS"), field("VmHWM"))
}
