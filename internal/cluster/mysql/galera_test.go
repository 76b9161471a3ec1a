package mysql_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/mysql"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog/sharedlogtest"
	"github.com/ostiary/ostiary/internal/workshop/databases"
	"github.com/ostiary/ostiary/internal/workshop/wait"
	"github.com/ostiary/ostiary/storage"
)

// galera starts three nodes, if make conformance runs the test.
func galera(t *testing.T) []*databases.Server {
	if os.Getenv("OSTIARY_GALERA") == "" {
		t.Skip("Galera is part of make conformance (OSTIARY_GALERA=1)")
	}
	return databases.Galera(t, 3)
}

// newLog makes a database on all nodes. What it returns opens the log on another node at
// each call.
func newLog(t *testing.T, all []*databases.Server) func() (sharedlog.Log, error) {
	t.Helper()
	urls := galeraURLs(all)
	var count atomic.Uint64
	return func() (sharedlog.Log, error) {
		return mysql.Open(context.Background(), urls[count.Add(1)%uint64(len(urls))])
	}
}

// galeraURLs makes a database and returns its URL on each of the nodes.
func galeraURLs(all []*databases.Server) []string {
	first := all[0].Database()
	urls := []string{first}
	name := first[strings.LastIndexByte(first, '/')+1:]
	for _, s := range all[1:] {
		s.Exec("set wsrep_sync_wait = 15; show create database " + name)
		urls = append(urls, s.URL(name))
	}
	return urls
}

func TestGalera(t *testing.T) {
	all := galera(t)
	t.Run("suite", func(t *testing.T) {
		sharedlogtest.Run(t, func(t *testing.T) sharedlogtest.Opener { return newLog(t, all) })
	})
	t.Run("driver", func(t *testing.T) {
		sharedlogtest.RunDriver(t, func(t *testing.T) func() (sharedlog.Log, error) { return newLog(t, all) })
	})
	t.Run("snapshot", func(t *testing.T) { largeSnapshot(t, all) })
	t.Run("dirty reads", func(t *testing.T) { dirtyReads(t, all) })
	t.Run("certification", func(t *testing.T) { certification(t, all) })
	t.Run("groups", func(t *testing.T) { groups(t, all) })
	t.Run("killed node", func(t *testing.T) { killedGaleraNode(t, all) })
	t.Run("no quorum", func(t *testing.T) { noQuorum(t, all) })
}

// open opens the log of a URL.
func open(t *testing.T, url string) sharedlog.Log {
	t.Helper()
	l, err := mysql.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// following returns an empty segment of a writer after a position.
func following(t *testing.T, after sharedlog.Position, writer byte) sharedlog.Record {
	t.Helper()
	s := sharedlog.Segment{Sequence: after.Sequence + 1, Previous: after.Hash, Writer: storage.NodeID{writer}}
	r, err := s.Record()
	if err != nil {
		t.Error(err)
	}
	return r
}

// conflicts returns how many transactions a node has undone in favor of other nodes.
func conflicts(s *databases.Server) (n int) {
	for _, name := range []string{"wsrep_local_cert_failures", "wsrep_local_bf_aborts"} {
		v, _ := strconv.Atoi(s.Status(name))
		n += v
	}
	return n
}

// writers commit segments and record which of them were made, until stop is closed.
type writers struct {
	*testing.T
	mu   sync.Mutex
	made map[storage.Hash]bool
	sync.WaitGroup
	stop chan struct{}
}

func (w *writers) start(number byte, l sharedlog.Log) {
	w.Go(func() {
		var after sharedlog.Position
		for {
			select {
			case <-w.stop:
				return
			default:
			}
			r := following(w.T, after, number)
			var c *sharedlog.ConflictError
			switch err := sharedlog.Commit(w.Context(), l, after, r, []sharedlog.SecretChange{secretOf(number, r)}); {
			case err == nil:
				w.mu.Lock()
				w.made[r.Hash] = true
				w.mu.Unlock()
				after = r.Position
			case errors.As(err, &c):
				after = c.Head
			default:
				w.Errorf("writer %d: %v", number, err)
				return
			}
		}
	})
}

// secretOf returns a secret of a writer that belongs to a segment.
func secretOf(writer byte, r sharedlog.Record) sharedlog.SecretChange {
	return sharedlog.SecretChange{SecretKey: sharedlog.SecretKey{Store: storage.StoreID{writer}, Kind: "k", Key: "k"}, Digest: sha256.Sum256(r.Hash[:]), Body: r.Hash[:]}
}

func (w *writers) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.made)
}

// check requires that a log has exactly the segments that were made, and the secret of
// the last one of each writer.
func (w *writers) check(l sharedlog.Log) {
	w.Helper()
	n := 0
	last := map[byte]sharedlog.Record{}
	for v, err := range sharedlog.Segments(w.Context(), l, sharedlog.Position{}, 0) {
		if err != nil {
			w.Fatal(err)
		}
		n++
		if !w.made[v.Hash] {
			w.Errorf("segment %d is in the log, but Commit returned a conflict", v.Sequence)
		}
		last[v.Segment.Writer[0]] = sharedlog.Record{Position: v.Position}
	}
	if n != len(w.made) {
		w.Errorf("the log has %d segments, but %d were reported as made", n, len(w.made))
	}
	for writer, r := range last {
		s := secretOf(writer, r)
		if _, err := l.Secret(w.Context(), s.SecretKey, s.Digest); err != nil {
			w.Errorf("the secret of the last segment of writer %d: %v", writer, err)
		}
	}
}

// certification lets three nodes append to one log, with secrets, until the database has
// undone enough of their transactions. Each of the other statements runs meanwhile, too.
func certification(t *testing.T, all []*databases.Server) {
	before := make([]int, len(all))
	for i, s := range all {
		before[i] = conflicts(s)
	}
	w := &writers{T: t, made: map[storage.Hash]bool{}, stop: make(chan struct{})}
	urls := galeraURLs(all)
	for i, url := range urls {
		l := open(t, url)
		w.start(byte(2*i+1), l)
		w.start(byte(2*i+2), open(t, url))
		w.Go(func() { records(w, byte(i+1), l) })
	}
	wait.Until(t, "transactions that Galera has undone on each node", func() bool {
		for i, s := range all {
			if conflicts(s) < before[i]+10 {
				return t.Failed()
			}
		}
		return true
	})
	close(w.stop)
	w.Wait()
	for _, url := range urls {
		w.check(open(t, url))
	}
}

// records changes the records that all nodes change, until w ends. No change may fail
// with another error than that of a record that another node has changed.
func records(w *writers, number byte, l sharedlog.Log) {
	ctx := w.Context()
	node := sharedlog.NodeRecord{ID: storage.NodeID{9}, Start: 1}
	for round := uint64(1); ; round++ {
		select {
		case <-w.stop:
			return
		default:
		}
		cluster, err := l.Cluster(ctx)
		if err == nil {
			next := cluster
			next.ID, next.Epoch = sharedlog.ClusterID{1}, cluster.Epoch+1
			err = l.SwapCluster(ctx, cluster, next)
		}
		allowed(w, err, sharedlog.ErrSwap)
		lease, err := l.Lease(ctx)
		if err == nil {
			err = l.SwapLease(ctx, lease, sharedlog.Lease{Holder: storage.NodeID{number}, Epoch: lease.Epoch + 1})
		}
		allowed(w, err, sharedlog.ErrSwap)
		node.Start = max(node.Start, round)
		allowed(w, l.Register(ctx, node), sharedlog.ErrNodeTaken)
		allowed(w, l.Report(ctx, node), sharedlog.ErrNodeTaken)
		if round%5 == 0 {
			allowed(w, l.Forget(ctx, node.ID), nil)
		}
		at := sharedlog.Position{Sequence: round}
		allowed(w, l.PutSnapshot(ctx, at, func(yield func([]byte, error) bool) { yield([]byte{number}, nil) }), nil)
		allowed(w, l.Trim(ctx, 1), nil)
	}
}

func allowed(t testing.TB, err, kind error) {
	t.Helper()
	if err != nil && (kind == nil || !errors.Is(err, kind)) {
		t.Errorf("unexpected error: %v", err)
	}
}

// killedGaleraNode kills a node of the database while others are written. What was
// answered is on the others, and on the killed one when it comes back without its data.
func killedGaleraNode(t *testing.T, all []*databases.Server) {
	urls := galeraURLs(all)
	w := &writers{T: t, made: map[storage.Hash]bool{}, stop: make(chan struct{})}
	for i := range urls {
		// A connection goes to its own node first, and then to the next ones.
		w.start(byte(i+1), open(t, several(urls[i], urls[(i+1)%3], urls[(i+2)%3])))
	}
	for _, killed := range []int{2, 0} {
		before := w.count()
		wait.Until(t, "writes", func() bool { return w.count() > before+50 || t.Failed() })
		all[killed].Kill()
		before = w.count()
		wait.Until(t, "writes without the killed node", func() bool { return w.count() > before+50 || t.Failed() })
		if killed == 2 {
			all[killed].LoseData()
		}
		all[killed].Start()
		all[killed].AwaitSynced()
	}
	close(w.stop)
	w.Wait()
	for _, url := range urls {
		w.check(open(t, url))
	}
}

// several returns the URL of a log with several hosts.
func several(urls ...string) string {
	host := func(url string) string {
		_, after, _ := strings.Cut(url, "@")
		before, _, _ := strings.Cut(after, "/")
		return before
	}
	hosts := host(urls[0])
	for _, url := range urls[1:] {
		hosts += "," + host(url)
	}
	return strings.Replace(urls[0], host(urls[0]), hosts, 1)
}

// noQuorum kills two of three nodes. The third one must answer nothing, because the
// others could have made a majority without it.
func noQuorum(t *testing.T, all []*databases.Server) {
	urls := galeraURLs(all)
	l := open(t, urls[0])
	first := following(t, sharedlog.Position{}, 1)
	if err := l.Append(t.Context(), sharedlog.Position{}, first, nil); err != nil {
		t.Fatal(err)
	}
	all[1].Kill()
	all[2].Kill()
	wait.Until(t, "a node without a quorum", func() bool { return all[0].Status("wsrep_cluster_status") != "Primary" })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if head, err := l.Head(ctx); err == nil {
		t.Errorf("a node without a quorum answers the head %s", head)
	} else {
		t.Log("head:", err)
	}
	if err := l.Append(ctx, first.Position, following(t, first.Position, 1), nil); err == nil {
		t.Error("a node without a quorum makes an append")
	} else {
		t.Log("append:", err)
	}
	if _, err := l.Lease(ctx); err == nil {
		t.Error("a node without a quorum answers the lease")
	}
	if _, err := mysql.Open(ctx, urls[0]); err == nil || !strings.Contains(err.Error(), "expected Primary") {
		t.Errorf("opening the log on a node without a quorum: error %v, expected one that names it", err)
	}
	all[1].Begin()
	all[2].Begin()
	for _, s := range all {
		s.AwaitSynced()
	}
	for _, url := range urls {
		head, err := open(t, url).Head(t.Context())
		if err != nil || head != first.Position {
			t.Errorf("after the return of the others the head is %s, error %v, expected %s", head, err, first.Position)
		}
	}
	if err := l.Append(t.Context(), first.Position, following(t, first.Position, 1), nil); err != nil {
		t.Error(err)
	}
}

// largeSnapshot replaces a snapshot that is larger than a transaction may be.
func largeSnapshot(t *testing.T, all []*databases.Server) {
	l := open(t, galeraURLs(all)[0])
	all[0].Exec("set global wsrep_max_ws_size = 25165824") // 24 MiB instead of 2 GiB
	defer all[0].Exec("set global wsrep_max_ws_size = default")
	part := make([]byte, sharedlog.PartBytesMax)
	for sequence := range uint64(2) {
		err := l.PutSnapshot(t.Context(), sharedlog.Position{Sequence: sequence + 1}, func(yield func([]byte, error) bool) {
			for range 40 {
				if !yield(part, nil) {
					return
				}
			}
		})
		if err != nil {
			t.Fatalf("snapshot %d: %v", sequence+1, err)
		}
	}
}

// dirtyReads lets a node of the database answer reads without a look at the others. A log
// must not take an old head for the newest one.
func dirtyReads(t *testing.T, all []*databases.Server) {
	urls := galeraURLs(all)
	all[1].Exec("set global wsrep_dirty_reads = 1")
	defer all[1].Exec("set global wsrep_dirty_reads = 0")
	here, there := open(t, urls[0]), open(t, urls[1])
	var after sharedlog.Position
	for range 200 {
		r := following(t, after, 1)
		if err := here.Append(t.Context(), after, r, nil); err != nil {
			t.Fatal(err)
		}
		after = r.Position
		if head, err := there.Head(t.Context()); err != nil || head != after {
			t.Fatalf("the head on another node is %s, error %v, after an append of %s", head, err, after)
		}
	}
}
