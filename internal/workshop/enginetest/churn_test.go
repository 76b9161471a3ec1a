package enginetest

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/graph/graphtest"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage/pebble"
)

// TestChurn writes and removes tuples with new names, while a few other tuples
// stay. The memory of unused names must be reclaimed. OSTIARY_CHURN sets how many
// tuples are written and removed; the default is 150,000.
func TestChurn(t *testing.T) {
	t.Parallel()
	ctx, clock := context.Background(), newClock()
	pairs, err := strconv.Atoi(os.Getenv("OSTIARY_CHURN"))
	if err != nil {
		pairs = 150_000
	}
	e := newEngine(t, ostiary.Options{Clock: clock.Now, Window: time.Minute, LogWindow: time.Minute})
	s := newStore(t, e, documents())
	const each = 2_000
	batch := func(round int) (w authz.WriteRequest) {
		for i := range each {
			w.Add = append(w.Add, rel.Tuple{Object: rel.Object{Type: "document", ID: fmt.Sprintf("d%d-%d", round, i)}, Relation: "owner",
				Subject: rel.Subject{Type: "user", ID: fmt.Sprintf("u%d-%d", round, i)}})
		}
		return w
	}
	last := batch(0)
	must(s.Write(ctx, last))(t)
	peak := 0
	for round := 1; round*each <= pairs; round++ {
		clock.Advance(time.Second)
		w := batch(round)
		for i := range last.Add {
			w.Remove = append(w.Remove, last.Add[i].Key())
		}
		last.Add = w.Add
		must(s.Write(ctx, w))(t)
		st := must(s.Stats(ctx))(t)
		peak = max(peak, st.Graph.Names)
		if round%20 == 0 {
			must(s.Collect(ctx))(t)
		}
		runtime.Gosched()
	}
	must(struct{}{}, s.Compact(ctx))(t)
	st := must(s.Stats(ctx))(t)
	if st.Graph.Tuples != each || st.Graph.Names > 4*each {
		t.Errorf("too much is left at the end: %+v", st.Graph)
	}
	if most := 2 * pairs; pairs >= 150_000 && peak >= most {
		t.Errorf("%d names at the most, of %d given", peak, most)
	}
	for i := range last.Add {
		want(t, s, last.Add[i].Key().String(), "true")
		if i == 10 {
			break
		}
	}
	c := must(s.Collect(ctx))(t)
	if c.Rows == 0 || c.Log < 2 {
		t.Errorf("nothing was trimmed: %+v", c)
	}
}

// TestChurnOnDisk writes and removes tuples with new names on Pebble, while
// OSTIARY_CHURN_LIVE other tuples stay (default 20,000). Half of the removals are
// expiries. OSTIARY_CHURN sets how many tuples come and go (default 40,000). At the
// end the folder may have at most 1.5 times its size after the import, and with a
// million live tuples also the process's memory.
func TestChurnOnDisk(t *testing.T) {
	ctx, clock := context.Background(), newClock()
	number := func(name string, otherwise int) int {
		if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
			return n
		}
		return otherwise
	}
	live, pairs := number("OSTIARY_CHURN_LIVE", 20_000), number("OSTIARY_CHURN", 40_000)
	debug.SetGCPercent(readyGOGC)
	defer debug.SetGCPercent(100)
	dir := filepath.Join(t.TempDir(), "data")
	driver := must(pebble.Open(dir, pebble.Options{}))(t)
	e := newEngine(t, ostiary.Options{Driver: driver, Clock: clock.Now, Window: time.Minute, LogWindow: time.Minute})
	s := newStore(t, e, shapeModel())
	imported(t, s, graphtest.Shape{Tuples: live})
	tuples := must(s.Stats(ctx))(t).Graph.Tuples
	trimmed := func() {
		clock.Advance(time.Hour)
		must(s.Collect(ctx))(t)
		must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:last#owner@user:a"), OnDuplicate: authz.Replace}))(t)
		clock.Advance(time.Hour)
		must(s.Collect(ctx))(t)
	}
	trimmed()
	memory, disk := resident(t), folderBytes(t, dir)
	const each = 2_000
	var last []rel.Tuple
	for round := 0; round*each < pairs; round++ {
		clock.Advance(time.Second)
		var w authz.WriteRequest
		for i := range last {
			if last[i].Expires == 0 {
				w.Remove = append(w.Remove, last[i].Key())
			}
		}
		last = nil
		for i := range each {
			x := rel.Tuple{Object: rel.Object{Type: "document", ID: fmt.Sprintf("c%d-%d", round, i)}, Relation: "owner",
				Subject: rel.Subject{Type: "user", ID: fmt.Sprintf("c%d-%d", round, i)}}
			if i%2 == 0 {
				x.Expires = rel.TimeOf(clock.Now().Add(2 * time.Second))
			}
			last = append(last, x)
		}
		w.Add = last
		must(s.Write(ctx, w))(t)
		if round%20 == 19 {
			must(s.Collect(ctx))(t)
		}
	}
	var w authz.WriteRequest
	for i := range last {
		if last[i].Expires == 0 {
			w.Remove = append(w.Remove, last[i].Key())
		}
	}
	must(s.Write(ctx, w))(t)
	trimmed()
	if err := s.Compact(ctx); err != nil {
		t.Fatal(err)
	}
	st := must(s.Stats(ctx))(t)
	if st.Graph.Tuples != tuples+1 {
		t.Errorf("%d tuples are left, want %d", st.Graph.Tuples, tuples+1)
	}
	memoryAfter, diskAfter := resident(t), folderBytes(t, dir)
	t.Logf("%d tuples and %d pairs: memory from %d to %d bytes (%.2f), folder from %d to %d (%.2f)", live, pairs,
		memory, memoryAfter, float64(memoryAfter)/float64(memory), disk, diskAfter, float64(diskAfter)/float64(disk))
	if live >= 1_000_000 && memoryAfter > memory*3/2 {
		t.Errorf("memory grew from %d to %d bytes", memory, memoryAfter)
	}
	const logs = 4 * 32 << 20 // of the memtables, and files that are not removed yet
	if diskAfter > disk*3/2+logs {
		t.Errorf("the folder grew from %d to %d bytes", disk, diskAfter)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if err := driver.Close(); err != nil {
		t.Error(err)
	}
}

// resident returns the process's resident memory, in bytes, after a garbage
// collection.
func resident(t testing.TB) int64 {
	debug.FreeOSMemory()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip(err)
	}
	kb, err := strconv.ParseInt(regexp.MustCompile(`VmRSS:\s*([0-9]+)`).FindStringSubmatch(string(status))[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kb << 10
}

func folderBytes(t testing.TB, dir string) (n int64) {
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // the file was removed during the walk
		}
		if info, err := d.Info(); err == nil {
			n += info.Size()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
