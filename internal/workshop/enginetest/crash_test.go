package enginetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/memory"
	"github.com/ostiary/ostiary/storage/pebble"
)

// worlds returns the factor by which OSTIARY_WORLDS makes random tests longer.
func worlds(t testing.TB) int {
	n, err := strconv.Atoi(os.Getenv("OSTIARY_WORLDS"))
	if err != nil || n < 1 {
		return 1
	}
	return n
}

// ledger records the writes that were acknowledged, in the order in which the
// writers add them.
type ledger struct {
	mu     sync.Mutex
	acked  []authz.Token
	tuples []string
}

func (l *ledger) add(token authz.Token, tuple string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acked, l.tuples = append(l.acked, token), append(l.tuples, tuple)
}

func (l *ledger) copy() ([]authz.Token, []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.acked[:len(l.acked):len(l.acked)], l.tuples[:len(l.tuples):len(l.tuples)]
}

// TestCrash simulates a power failure while writers run. After it, every
// acknowledged write is present, its token is valid, and new writes succeed.
func TestCrash(t *testing.T) {
	t.Parallel()
	const seed = 3
	t.Logf("seed %d", seed)
	ctx := context.Background()
	fs := vfs.NewCrashableMem()
	o := pebble.Options{FS: fs, MemTableBytes: 64 << 10, CacheBytes: 1 << 20}
	x := start(t, disk{"pebble", func(t testing.TB) storage.Driver { return must(pebble.Open("data", o))(t) }}, ostiary.Options{})
	s := newStore(t, x.engine, documents())
	var l ledger
	var writers sync.WaitGroup
	var stop atomic.Bool
	for w := range 4 {
		writers.Go(func() {
			for i := 0; !stop.Load() && i < 20_000; i++ {
				tuple := fmt.Sprintf("document:%d-%d#owner@user:a", w, i)
				token, err := s.Write(ctx, authz.WriteRequest{Add: tups(t, tuple)})
				if err != nil {
					t.Error(err)
					return
				}
				l.add(token, tuple)
			}
		})
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	for n := range 5 * worlds(t) {
		tokens, tuples := l.copy()
		clone := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: []int{0, 50, 100}[n%3], RNG: rng})
		afterCrash(t, clone, s.ID(), tokens, tuples)
	}
	stop.Store(true)
	writers.Wait()
}

func afterCrash(t *testing.T, fs vfs.FS, id storage.StoreID, tokens []authz.Token, tuples []string) {
	t.Helper()
	ctx := context.Background()
	d := must(pebble.Open("data", pebble.Options{FS: fs}))(t)
	defer d.Close()
	e := must(ostiary.Open(ctx, ostiary.Options{Driver: d}))(t)
	defer e.Close()
	s := must(e.Store(ctx, id))(t)
	for i, tuple := range tuples {
		want(t, s, tuple, "true")
		if i%50 == 0 {
			if got := ask(t, s, tuple, authz.QueryOptions{Consistency: authz.AtLeast(tokens[i])}); got != "true" {
				t.Errorf("%s: got %s at its token, want true", tuple, got)
			}
		}
	}
	st := must(s.Stats(ctx))(t)
	if int(st.Revision) != st.Graph.Tuples+1 {
		t.Errorf("revision %d has %d tuples: an entry was applied in part", st.Revision, st.Graph.Tuples)
	}
	must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:after#owner@user:crash")}))(t)
}

// badLine is a driver behind a network that loses requests and responses.
type badLine struct {
	storage.Driver
	mu  sync.Mutex
	rng *rand.Rand
}

var errLine = errors.New("the line is dead")

func (b *badLine) Append(ctx context.Context, id storage.StoreID, after storage.Head, entries []storage.Entry, sealed []storage.Sealed) (storage.Head, error) {
	b.mu.Lock()
	luck := b.rng.IntN(6)
	b.mu.Unlock()
	if luck == 0 {
		return storage.Head{}, errLine // the request is lost
	}
	head, err := b.Driver.Append(ctx, id, after, entries, sealed)
	if luck == 1 && err == nil {
		return storage.Head{}, errLine // the response is lost
	}
	return head, err
}

// TestLostAnswers writes through [badLine]. A write that was acknowledged must be
// applied once, and a write that failed must not be applied.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	const seed = 5
	t.Logf("seed %d", seed)
	ctx := context.Background()
	driver := memory.New()
	defer driver.Close()
	sure := newEngine(t, ostiary.Options{Driver: driver})
	s := newStore(t, sure, documents())
	engines := []*ostiary.Engine{sure}
	for i := range 2 {
		engines = append(engines, newEngine(t, ostiary.Options{Driver: &badLine{Driver: driver, rng: rand.New(rand.NewPCG(seed, uint64(i)))}}))
	}
	var mu sync.Mutex
	there := map[string]bool{}
	var writers sync.WaitGroup
	for w := range 12 {
		writers.Go(func() {
			s, err := engines[w%3].Store(ctx, s.ID())
			for i := 0; i < 50 && err == nil; i++ {
				tuple := fmt.Sprintf("document:%d-%d#owner@user:a", w, i)
				_, failed := s.Write(ctx, authz.WriteRequest{Add: tups(t, tuple)})
				if failed != nil && !errors.Is(failed, errLine) {
					err = failed
				}
				mu.Lock()
				there[tuple] = failed == nil
				mu.Unlock()
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	writers.Wait()
	n := 0
	for tuple, ok := range there {
		truth := "false"
		if ok {
			truth, n = "true", n+1
		}
		if got := ask(t, s, tuple, authz.QueryOptions{Consistency: authz.FullyConsistent()}); got != truth {
			t.Errorf("%s: got %s, want %s", tuple, got, truth)
		}
	}
	st := must(s.Stats(ctx))(t)
	if st.Graph.Tuples != n || n == len(there) || int(st.Revision) != n+1 {
		t.Errorf("%d of %d writes were acknowledged, %d tuples at revision %d", n, len(there), st.Graph.Tuples, st.Revision)
	}
}

// TestRestoredBackup replaces the data under a running engine with an older state.
// The engine must stop serving the store. A new engine answers from the stored data and
// refuses tokens of the lost history.
func TestRestoredBackup(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	ram := memory.NewStore()
	d := &swapped{}
	d.Driver = must(newKV(ram))(t)
	e := newEngine(t, ostiary.Options{Driver: d})
	s := newStore(t, e, documents())
	must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#owner@user:kept")}))(t)
	backup := copyStore(t, ram)
	lost := must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#owner@user:lost")}))(t)
	d.Driver = must(newKV(backup))(t)
	_, err := s.Read(ctx, authz.ReadRequest{Consistency: authz.FullyConsistent()})
	wantKind(t, err, authz.ErrHistory)
	_, err = s.Read(ctx, authz.ReadRequest{})
	wantKind(t, err, authz.ErrHistory)
	s = must(newEngine(t, ostiary.Options{Driver: must(newKV(copyStore(t, backup)))(t)}).Store(ctx, s.ID()))(t)
	want(t, s, "document:1#owner@user:lost", "false")
	want(t, s, "document:1#owner@user:kept", "true")
	must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#owner@user:new")}))(t)
	_, err = s.Read(ctx, authz.ReadRequest{Consistency: authz.AtLeast(lost)})
	wantKind(t, err, authz.ErrToken)
}
