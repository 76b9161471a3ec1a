//go:build linux

package fleet_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ostiary/ostiary/door/native/client"
	"github.com/ostiary/ostiary/internal/workshop/bench"
	"github.com/ostiary/ostiary/internal/workshop/bench/servers"
	"github.com/ostiary/ostiary/internal/workshop/fleet"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// TestFigures prints the figures of docs/benchmarks/leases.md, over the log that
// OSTIARY_FIGURES names. It asserts no time.
func TestFigures(t *testing.T) {
	kind := os.Getenv("OSTIARY_FIGURES")
	if kind == "" {
		t.Skip("OSTIARY_FIGURES is not set")
	}
	t.Run("reads", func(t *testing.T) { figuresOfReads(t, kind) })
	t.Run("writes", func(t *testing.T) { figuresOfWrites(t, kind) })
	t.Run("handover", func(t *testing.T) { figuresOfHandOver(t, kind) })
	t.Run("catchup", func(t *testing.T) { figuresOfCatchUp(t, kind) })
}

// figure is the text of some values: the median, and the lowest and the highest one.
func figure(values []time.Duration) string {
	slices.Sort(values)
	return fmt.Sprintf("%v (%v to %v)", values[len(values)/2].Round(time.Microsecond), values[0].Round(time.Microsecond), values[len(values)-1].Round(time.Microsecond))
}

// multiple is the text of some ratios, as of figure.
func multiple(ratios []float64) string {
	slices.Sort(ratios)
	return fmt.Sprintf("× %.2f (%.2f to %.2f)", ratios[len(ratios)/2], ratios[0], ratios[len(ratios)-1])
}

// report prints a line with the load of the machine.
func report(t *testing.T, format string, args ...any) {
	t.Helper()
	t.Logf("load %.0f: %s", bench.LoadAverage(), fmt.Sprintf(format, args...))
}

// at returns a client of a server.
func at(address string) *client.Client {
	return client.New("http://"+address, client.Options{Transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}})
}

// documents are the tuples that a new store has.
const documents = 1000

// prepare creates a store with tuples, and returns its id.
func prepare(t *testing.T, c *client.Client) string {
	t.Helper()
	s, err := c.CreateStore(t.Context(), client.NewStore{Name: "figures"})
	if err != nil {
		t.Fatal(err)
	}
	viewer := schema.RelationDef{Name: "viewer", Rewrite: schema.Direct(), Subjects: []schema.SubjectType{{Type: "user"}}}
	model := schema.Model{Types: []schema.TypeDef{{Name: "user"}, {Name: "doc", Relations: []schema.RelationDef{viewer}}}}
	if _, err := c.Store(s.ID).WriteSchema(t.Context(), client.NewSchema{Model: &model}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Store(s.ID).Import(t.Context(), tuples("d", documents), client.ImportOptions{}); err != nil {
		t.Fatal(err)
	}
	return s.ID
}

// tuples yields n tuples of documents whose names begin with prefix.
func tuples(prefix string, n int) func(yield func(rel.Tuple, error) bool) {
	return func(yield func(rel.Tuple, error) bool) {
		for i := range n {
			one := client.Tuple{Object: fmt.Sprintf("doc:%s%d", prefix, i), Relation: "viewer", Subject: fmt.Sprintf("user:u%d", i%1000)}
			if !yield(one.Tuple()) {
				return
			}
		}
	}
}

// check asks one question, whose answer is yes.
func check(ctx context.Context, s *client.Store, i int) error {
	d, err := s.Check(ctx, client.Question{Object: fmt.Sprintf("doc:d%d", i%documents), Relation: "viewer", Subject: fmt.Sprintf("user:u%d", i%documents)})
	if err == nil && !d.Allowed {
		err = fmt.Errorf("document %d is not allowed", i%documents)
	}
	return err
}

// several calls do n times, by some goroutines.
func several(t *testing.T, goroutines, n int, do func(i int) error) {
	t.Helper()
	var all sync.WaitGroup
	var next atomic.Int64
	for range goroutines {
		all.Go(func() {
			for i := int(next.Add(1)); i <= n; i = int(next.Add(1)) {
				if err := do(i); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

// processorTime returns the processor time that a process has used.
func processorTime(t *testing.T, process int) time.Duration {
	t.Helper()
	used, err := bench.ProcessorTime(process)
	if err != nil {
		t.Fatal(err)
	}
	return used
}

// startAlone starts a server without a cluster.
func startAlone(t *testing.T) (address string, process int) {
	t.Helper()
	program, err := build()
	if err != nil {
		t.Fatal(err)
	}
	var ports [3]string
	for i := range ports {
		if ports[i], err = servers.FreePort("127.0.0.1"); err != nil {
			t.Fatal(err)
		}
	}
	run := exec.Command(program, "serve", "--json", "--data", filepath.Join(t.TempDir(), "data"), "--http", ports[0], "--grpc", ports[1], "--metrics", ports[2])
	run.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = run.Process.Kill()
		_ = run.Wait()
	})
	for {
		if ok, err := at(ports[0]).Serves(t.Context()); err == nil && ok {
			return ports[0], run.Process.Pid
		}
		time.Sleep(20 * time.Millisecond)
	}
}

const (
	readRounds  = 7
	readsInTurn = 20_000
	readClients = 4
)

// figuresOfReads measures the processor time of a check on each of three nodes as a
// multiple of that on a server without a cluster, in turns.
func figuresOfReads(t *testing.T, kind string) {
	f, _ := start(t, kind)
	alone, process := startAlone(t)
	type side struct {
		name    string
		process int
		store   *client.Store
		used    []time.Duration
	}
	shared := prepare(t, at(f.Nodes[0].HTTP))
	sides := []*side{{name: "alone", process: process, store: at(alone).Store(prepare(t, at(alone)))}}
	holder := f.Holder(t.Context())
	for _, n := range f.Nodes {
		name := fmt.Sprintf("node %d", n.Number)
		if n == holder {
			name += ", the holder"
		}
		sides = append(sides, &side{name: name, process: n.Process(), store: at(n.HTTP).Store(shared)})
	}
	for round := range readRounds + 1 {
		for _, s := range sides {
			before := processorTime(t, s.process)
			several(t, readClients, readsInTurn, func(i int) error { return check(t.Context(), s.store, i) })
			if round > 0 { // the first one warms up
				s.used = append(s.used, processorTime(t, s.process)-before)
			}
		}
	}
	for _, s := range sides {
		var ratios []float64
		for i, used := range s.used {
			ratios = append(ratios, float64(used)/float64(sides[0].used[i]))
		}
		sum := time.Duration(0)
		for _, used := range s.used {
			sum += used
		}
		report(t, "a check on %s: %v of processor time, %s of that alone", s.name, sum/time.Duration(len(s.used)*readsInTurn), multiple(ratios))
	}
	for _, s := range sides {
		before, began := processorTime(t, s.process), time.Now()
		time.Sleep(5 * time.Second)
		report(t, "%s, idle: %.2f %% of a core", s.name, 100*float64(processorTime(t, s.process)-before)/float64(time.Since(began)))
	}
}

const (
	// oneWay is how long a message between nodes takes while writes are measured.
	oneWay     = 10 * time.Millisecond
	writesEach = 101
)

// figuresOfWrites measures a write of one client at the holder and at another node, with
// messages that take oneWay, as a multiple of a commit and one or two round trips. A commit
// is a write at the holder with --acknowledge local.
func figuresOfWrites(t *testing.T, kind string) {
	written := 0
	measure := func(f *fleet.Fleet, at *client.Store) []time.Duration {
		var took []time.Duration
		for range writesEach {
			written++
			began := time.Now()
			if err := write(t.Context(), at, written); err != nil {
				t.Fatal(err)
			}
			took = append(took, time.Since(began))
		}
		return took
	}
	nodes := func(flags ...string) (f *fleet.Fleet, holder, other *client.Store) {
		f, _ = start(t, kind, flags...)
		for _, n := range f.Nodes {
			f.Apart(n, fleet.Fault{Delay: oneWay})
		}
		store := prepare(t, at(f.Nodes[0].HTTP))
		writes := f.Holder(t.Context())
		for _, n := range f.Nodes {
			if n == writes {
				holder = at(n.HTTP).Store(store)
			} else {
				other = at(n.HTTP).Store(store)
			}
		}
		return f, holder, other
	}
	f, holder, _ := nodes("--acknowledge", "local")
	commit := measure(f, holder)
	text := figure(commit)
	report(t, "a commit: %s", text)
	f.Close()
	f, holder, other := nodes()
	for i, s := range []*client.Store{holder, other} {
		took := measure(f, s)
		text := figure(took)
		goal := commit[len(commit)/2] + time.Duration(i+1)*2*oneWay
		report(t, "a write at %s: %s, × %.2f of a commit and %d round trips of %v", []string{"the holder", "another node"}[i], text,
			float64(took[len(took)/2])/float64(goal), i+1, 2*oneWay)
	}
}

// write adds a tuple of a document that has none.
func write(ctx context.Context, s *client.Store, i int) error {
	_, err := s.Write(ctx, client.Write{Add: []client.Tuple{{Object: fmt.Sprintf("doc:w%d", i), Relation: "viewer", Subject: "user:u1"}}})
	return err
}

const (
	handOvers       = 15
	handOverWriters = 4                // to each of the nodes that stay
	handOverWindow  = time.Second      // before and after the signal
	handOverThink   = time.Millisecond // of a writer
)

// figuresOfHandOver stops the holder with SIGTERM while clients write through the other
// nodes, and prints the longest time that a write took in the second after the signal, and
// in the second before.
func figuresOfHandOver(t *testing.T, kind string) {
	f, _ := start(t, kind)
	store := prepare(t, at(f.Nodes[0].HTTP))
	var number atomic.Int64
	var before, after, medians []time.Duration
	for range handOvers {
		holder := f.Holder(t.Context())
		var mu sync.Mutex
		var took [2][]time.Duration
		var signaled atomic.Int64
		ctx, end := context.WithCancel(t.Context())
		var writers sync.WaitGroup
		for _, n := range f.Nodes {
			if n == holder {
				continue
			}
			s := at(n.HTTP).Store(store)
			for range handOverWriters {
				writers.Go(func() {
					for ctx.Err() == nil {
						began := time.Now()
						if err := write(t.Context(), s, int(number.Add(1))); err != nil {
							t.Errorf("a write during a hand-over: %v", err)
						}
						mu.Lock()
						took[min(signaled.Load(), 1)] = append(took[min(signaled.Load(), 1)], time.Since(began))
						mu.Unlock()
						time.Sleep(handOverThink)
					}
				})
			}
		}
		time.Sleep(handOverWindow)
		signaled.Store(1)
		stopped := make(chan error, 1)
		go func() { stopped <- holder.Stop() }()
		time.Sleep(handOverWindow)
		end()
		writers.Wait()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
		slices.Sort(took[0])
		before, after, medians = append(before, slices.Max(took[0])), append(after, slices.Max(took[1])), append(medians, took[0][len(took[0])/2])
		if err := holder.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	report(t, "the longest write after a SIGTERM of the holder: %s; in the second before: %s; the median write: %s", figure(after), figure(before), figure(medians))
}

const (
	catchUpTuples = 1_000_000
	catchUpRounds = 5
	quietTime     = 4 * time.Second
)

// after returns a channel that is closed after a time.
func after(d time.Duration) <-chan struct{} {
	done := make(chan struct{})
	time.AfterFunc(d, func() { close(done) })
	return done
}

// figuresOfCatchUp measures the processor time of a check on two nodes, at about 30 % of
// one core, while the third one catches up a million tuples, as a multiple of that before.
func figuresOfCatchUp(t *testing.T, kind string) {
	f, _ := start(t, kind)
	store := prepare(t, at(f.Nodes[0].HTTP))
	holder := f.Holder(t.Context())
	var late *fleet.Node
	var others []*fleet.Node
	for _, n := range f.Nodes {
		if n != holder && late == nil {
			late = n
		} else {
			others = append(others, n)
		}
	}
	stores := []*client.Store{at(others[0].HTTP).Store(store), at(others[1].HTTP).Store(store)}
	used := func() time.Duration {
		return processorTime(t, others[0].Process()) + processorTime(t, others[1].Process())
	}
	before := used()
	several(t, readClients, readsInTurn, func(i int) error { return check(t.Context(), stores[i%2], i) })
	pause := time.Duration(float64(used()-before) / readsInTurn / 0.3)
	// reads asks questions at the rate until done is closed.
	reads := func(done <-chan struct{}) (each time.Duration, n int) {
		before := used()
		var all sync.WaitGroup
		var count atomic.Int64
		for range readClients {
			all.Go(func() {
				for {
					select {
					case <-done:
						return
					case <-time.After(pause * readClients):
					}
					if err := check(t.Context(), stores[count.Add(1)%2], int(count.Load())); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
		return (used() - before) / time.Duration(max(count.Load(), 1)), int(count.Load())
	}
	var ratios []float64
	var times []time.Duration
	for round := range catchUpRounds {
		if err := late.Stop(); err != nil {
			t.Fatal(err)
		}
		if _, err := stores[0].Import(t.Context(), tuples(fmt.Sprintf("r%d-", round), catchUpTuples), client.ImportOptions{}); err != nil {
			t.Fatal(err)
		}
		for before := used(); ; before = used() { // what the import has left to do, such as a compaction
			if time.Sleep(time.Second); used()-before < 50*time.Millisecond {
				break
			}
		}
		earlier, _ := reads(after(quietTime))
		began, ready := time.Now(), make(chan struct{})
		go func() {
			defer close(ready)
			if err := late.Start(t.Context()); err != nil {
				t.Error(err)
			}
		}()
		each, n := reads(ready)
		took := time.Since(began)
		later, _ := reads(after(quietTime))
		report(t, "%v for a check before, %v for each of %d while it catches up in %v, %v later", earlier, each, n, took, later)
		ratios, times = append(ratios, 2*float64(each)/float64(earlier+later)), append(times, took)
	}
	report(t, "the processor time of a check while another node catches up %d tuples, in %s: %s of that without", catchUpTuples, figure(times), multiple(ratios))
}
