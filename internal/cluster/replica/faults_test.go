package replica_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ostiary/ostiary/internal/cluster/clustertest"
	"github.com/ostiary/ostiary/internal/cluster/replica"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog/memorylog"
	"github.com/ostiary/ostiary/internal/workshop/wait"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
	"github.com/ostiary/ostiary/storage/memory"
	"github.com/ostiary/ostiary/storage/pebble"
	"github.com/ostiary/ostiary/storage/storagetest"
)

// flakyLog is a connection whose appends a test makes fail.
type flakyLog struct {
	sharedlog.Log
	// fault returns what happens to the next append: whether it reaches the log, and
	// the error of its answer. nil means that all works.
	fault atomic.Pointer[func(ctx context.Context) (reaches bool, err error)]
	// down makes all calls fail.
	down atomic.Bool
	// appends counts the calls of Append.
	appends atomic.Int64
}

var errLink = errors.New("the connection was lost")

func (l *flakyLog) set(f func(ctx context.Context) (reaches bool, err error)) { l.fault.Store(&f) }

func (l *flakyLog) Append(ctx context.Context, after sharedlog.Position, record sharedlog.Record, secrets []sharedlog.SecretChange) error {
	l.appends.Add(1)
	if l.down.Load() {
		return errLink
	}
	f := l.fault.Load()
	if f == nil || *f == nil {
		return l.Log.Append(ctx, after, record, secrets)
	}
	reaches, err := (*f)(ctx)
	if reaches {
		if made := l.Log.Append(ctx, after, record, secrets); err == nil {
			return made
		}
	}
	return err
}

func (l *flakyLog) Head(ctx context.Context) (sharedlog.Position, error) {
	if l.down.Load() {
		return sharedlog.Position{}, errLink
	}
	return l.Log.Head(ctx)
}

func (l *flakyLog) Read(ctx context.Context, from uint64) iter.Seq2[sharedlog.Record, error] {
	if l.down.Load() {
		return func(yield func(sharedlog.Record, error) bool) { yield(sharedlog.Record{}, errLink) }
	}
	return l.Log.Read(ctx, from)
}

// openFlaky opens a replica in memory over a connection that a test can disturb.
func openFlaky(t *testing.T, tables *memorylog.Tables) (*clustertest.Replica, *flakyLog) {
	t.Helper()
	l := &flakyLog{Log: tables.Open()}
	local, err := inMemory()()
	if err != nil {
		t.Fatal(err)
	}
	d, err := clustertest.OpenReplica(t.Context(), l, local, replica.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d, l
}

// newStore creates the store of a log.
func newStore(t testing.TB, d storage.Driver, n uint32) *storagetest.Log {
	t.Helper()
	l := storagetest.NewLog(n)
	if err := d.CreateStore(t.Context(), storage.StoreInfo{ID: l.ID, Incarnation: l.Incarnation, Name: fmt.Sprint(n)}); err != nil {
		t.Fatal(err)
	}
	return l
}

// add returns a change that adds a tuple.
func add(object string) storage.Change {
	return storage.Change{Kind: storage.TupleAdd, Tuple: rel.Tuple{Object: rel.Object{Type: "doc", ID: object}, Relation: "viewer", Subject: rel.Subject{Type: "user", ID: "anne"}}}
}

func secret(key, body string) storage.Change {
	return storage.Change{Kind: storage.SecretPut, Document: storage.Document{Kind: "kind", Key: key, Secondary: []string{"second"}, Body: []byte(body)}}
}

func mustAppend(t testing.TB, l *storagetest.Log, d storage.Driver, changes ...storage.Change) {
	t.Helper()
	if err := l.Append(t.Context(), d, changes...); err != nil {
		t.Fatal(err)
	}
}

// mustVerify requires that the state of a store follows from its log, which has a
// number of entries.
func mustVerify(t testing.TB, d storage.Driver, id storage.StoreID, entries int) {
	t.Helper()
	if c, ok := d.(storage.Copy); ok {
		if err := c.Confirm(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	log, err := storagetest.Verify(t.Context(), d, id)
	if err != nil {
		t.Fatal(err)
	}
	if len(log) != entries {
		t.Fatalf("the log has %d entries, want %d", len(log), entries)
	}
}

// wantErrors requires that an error wraps others and has a text.
func wantErrors(t testing.TB, err error, text string, kinds ...error) {
	t.Helper()
	for _, kind := range kinds {
		if !errors.Is(err, kind) || !strings.Contains(err.Error(), text) {
			t.Fatalf("error %v, want %v with %q", err, kinds, text)
		}
	}
}

// TestLostAnswers loses requests and answers of appends. Every write is made exactly
// once, and no writer gets an error.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	tables := memorylog.New()
	one, flaky := openFlaky(t, tables)
	other := mustOpen(t, tables, inMemory())
	var calls atomic.Uint64
	flaky.set(func(context.Context) (bool, error) {
		switch calls.Add(1) % 4 {
		case 0:
			return false, errLink
		case 1, 2:
			return true, errLink // the answer is lost
		}
		return true, nil
	})
	const stores, each = 4, 15
	var group sync.WaitGroup
	for n := range stores {
		l := newStore(t, one, uint32(n+1))
		for w, d := range []*clustertest.Replica{one, other} {
			mine := *l
			mine.Writer = storage.WriterID{byte(w + 1)}
			group.Go(func() {
				for i := range each {
					for {
						sequence := mine.Sequence
						err := mine.Append(t.Context(), d, add(fmt.Sprint(w, "-", i)))
						var conflict *storage.ConflictError
						if errors.As(err, &conflict) {
							mine.Head, mine.Sequence = conflict.Head, sequence
							continue
						}
						if err != nil {
							t.Errorf("store %d, writer %d: %v", n, w, err)
							return
						}
						break
					}
				}
			})
		}
	}
	group.Wait()
	for n := range stores {
		for _, d := range []*clustertest.Replica{one, other} {
			mustVerify(t, d, storagetest.NewLog(uint32(n+1)).ID, 2*each)
		}
	}
}

// TestUncertain ends the context of a write whose answer is lost. The error says that
// the outcome is open; the write is settled once the log can be reached, its writer is
// notified of it, and until then no other write can take its place.
func TestUncertain(t *testing.T) {
	t.Parallel()
	for _, reaches := range []bool{true, false} {
		t.Run(fmt.Sprint("reaches=", reaches), func(t *testing.T) {
			t.Parallel()
			d, flaky := openFlaky(t, memorylog.New())
			l := newStore(t, d, 1)
			mustAppend(t, l, d, add("1"))
			notices := d.Notify(t.Context(), l.Writer)
			var tried atomic.Bool
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			flaky.set(func(context.Context) (bool, error) {
				cancel()
				return reaches && !tried.Swap(true), errLink
			})
			entry := l.Entry(l.Head, add("2"), secret("key", "body"))
			_, err := d.Append(ctx, l.ID, l.Head, []storage.Entry{entry}, nil)
			wantErrors(t, err, "", storage.ErrUncertain, context.Canceled)
			entry.Changes[0], entry.Changes[1] = add("the memory is used again"), add("for something else")

			// A write that waits behind it has no effect.
			ctx, end := context.WithTimeout(t.Context(), 30*time.Millisecond)
			defer end()
			other := storagetest.NewLog(2)
			err = d.CreateStore(ctx, storage.StoreInfo{ID: other.ID})
			if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, storage.ErrUncertain) {
				t.Fatalf("a write that was never attempted fails with %v, want only the end of its context", err)
			}
			flaky.set(nil)
			// The attempt goes on, so the entry appears.
			wait.Until(t, "the write is settled", func() bool {
				head, err := d.Head(t.Context(), l.ID)
				if err != nil {
					t.Fatal(err)
				}
				l.Head = head
				return head.Revision == 2
			})
			wait.Until(t, "the writer, which no longer waits, is notified of its entry", func() bool { return len(notices) > 0 })
			mustAppend(t, l, d, add("3"))
			mustVerify(t, d, l.ID, 3)
			if doc, err := d.Secret(t.Context(), l.ID, "kind", "key"); err != nil || string(doc.Body) != "body" {
				t.Fatalf("the secret is %q, error %v", doc.Body, err)
			}
			if _, err := d.Store(t.Context(), other.ID); !errors.Is(err, storage.ErrNoStore) {
				t.Fatalf("the write that was withdrawn took effect: %v", err)
			}
		})
	}
}

// TestGather blocks the log while writers of many stores wait. All of them go together.
func TestGather(t *testing.T) {
	t.Parallel()
	d, flaky := openFlaky(t, memorylog.New())
	const stores = 60
	var logs []*storagetest.Log
	for n := range stores {
		logs = append(logs, newStore(t, d, uint32(n+1)))
	}
	before := flaky.appends.Load()
	enter, leave := make(chan struct{}, stores), make(chan struct{})
	flaky.set(func(context.Context) (bool, error) {
		enter <- struct{}{}
		<-leave
		return true, nil
	})
	var group sync.WaitGroup
	write := func(l *storagetest.Log) {
		group.Go(func() {
			if err := l.Append(t.Context(), d, add("1")); err != nil {
				t.Error(err)
			}
		})
	}
	write(logs[0])
	<-enter
	for _, l := range logs[1:] {
		write(l)
	}
	wait.Until(t, "the other writers are in the queue", func() bool { return d.Waiting() == stores-1 })
	close(leave)
	group.Wait()
	if n := flaky.appends.Load() - before; n != 2 {
		t.Errorf("%d writes at the same time made %d appends, want one for the first and one for all others", stores, n)
	}
	for _, l := range logs {
		mustVerify(t, d, l.ID, 1)
	}
}

// TestBehind opens a copy that the log has trimmed away, without a snapshot and with
// one.
func TestBehind(t *testing.T) {
	t.Parallel()
	tables, at := memorylog.New(), inMemory()
	late, err := open(t.Context(), tables, at)
	if err != nil {
		t.Fatal(err)
	}
	l := newStore(t, late, 1)
	mustAppend(t, l, late, add("1"), secret("key", "old"))
	id := late.Node()
	if err := late.Close(); err != nil {
		t.Fatal(err)
	}
	one := mustOpen(t, tables, inMemory())
	for i := range 5 {
		mustAppend(t, l, one, add(fmt.Sprint("more ", i)), secret("key", fmt.Sprint("new ", i)))
	}
	log := tables.Open()
	defer log.Close()
	if err := log.Trim(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	_, err = open(t.Context(), tables, at)
	wantErrors(t, err, "neither segment 3 nor a snapshot", replica.ErrBehind)
	if err := one.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, l, one, add("after the snapshot"))
	late = mustOpen(t, tables, at)
	mustVerify(t, late, l.ID, 7)
	if doc, err := late.Secret(t.Context(), l.ID, "kind", "key"); err != nil || string(doc.Body) != "new 4" || !slices.Equal(doc.Secondary, []string{"second"}) {
		t.Fatalf("the secret after a snapshot is %+v, error %v", doc, err)
	}
	if late.Node() != id {
		t.Errorf("the node has the id %s after a snapshot, want %s", late.Node(), id)
	}
	if log, rows, err := late.Oldest(t.Context(), l.ID); err != nil || log != 1 || rows != 0 {
		t.Errorf("a snapshot keeps the entries from %d and the rows after %d, error %v; want all", log, rows, err)
	}
	mustAppend(t, l, late, add("by the late node"))
	mustVerify(t, one, l.ID, 8)
}

// TestBehindCutOff ends the start of a node that is behind while it takes the snapshot.
// The next start is that of the same node, which the registry and the other nodes know.
func TestBehindCutOff(t *testing.T) {
	t.Parallel()
	for name, node := range map[string]storage.NodeID{"random id": {}, "given id": {7}} {
		tables, at := memorylog.New(), inMemory()
		start := func(log sharedlog.Log) (*clustertest.Replica, error) {
			local, err := at()
			if err != nil {
				t.Fatal(err)
			}
			return clustertest.OpenReplica(t.Context(), log, local, replica.Options{Node: node})
		}
		late, err := start(tables.Open())
		if err != nil {
			t.Fatal(err)
		}
		l := newStore(t, late, 1)
		id := late.Node()
		if err := late.Close(); err != nil {
			t.Fatal(err)
		}
		one := mustOpen(t, tables, inMemory())
		for i := range 5 {
			mustAppend(t, l, one, add(fmt.Sprint(i)))
		}
		if err := one.Snapshot(t.Context()); err != nil {
			t.Fatal(err)
		}
		log := tables.Open()
		defer log.Close()
		if err := log.Trim(t.Context(), 6); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := start(cutLog{tables.Open()}); !errors.Is(err, errLink) {
				t.Fatalf("%s: a start that is cut off has the error %v, want %v", name, err, errLink)
			}
		}
		late, err = start(tables.Open())
		if err != nil {
			t.Fatalf("%s: after a start that was cut off: %v", name, err)
		}
		mustVerify(t, late, l.ID, 5)
		if late.Node() != id {
			t.Errorf("%s: the node has the id %s after a start that was cut off, want %s", name, late.Node(), id)
		}
		if nodes, _, err := log.Nodes(t.Context()); err != nil || len(nodes) != 2 {
			t.Errorf("%s: the registry has %+v, error %v; want two nodes", name, nodes, err)
		}
		if err := late.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// cutLog is a log whose connection is lost after the first part of a snapshot.
type cutLog struct{ sharedlog.Log }

func (l cutLog) Snapshot(ctx context.Context) (sharedlog.Position, iter.Seq2[[]byte, error], error) {
	at, parts, err := l.Log.Snapshot(ctx)
	return at, func(yield func([]byte, error) bool) {
		for p, err := range parts {
			if !yield(p, err) {
				return
			}
			yield(nil, errLink)
			return
		}
	}, err
}

// TestTrimLog trims the log as far as the snapshot and the disks of all nodes allow.
func TestTrimLog(t *testing.T) {
	t.Parallel()
	tables := memorylog.New()
	log := tables.Open()
	defer log.Close()
	one, two := mustOpen(t, tables, inMemory()), mustOpen(t, tables, inMemory())
	l := newStore(t, one, 1)
	for i := range 9 {
		mustAppend(t, l, one, add(fmt.Sprint(i)))
	}
	trim := func(want uint64) {
		t.Helper()
		if err := one.TrimLog(t.Context()); err != nil {
			t.Fatal(err)
		}
		if have := oldestSegment(t, log); have != want {
			t.Fatalf("the oldest segment is %d, want %d", have, want)
		}
	}
	trim(1) // there is no snapshot
	if err := one.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	trim(1) // no node has reported
	if err := one.Report(t.Context()); err != nil {
		t.Fatal(err)
	}
	trim(1) // the other node has not reported
	if err := two.Confirm(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := two.Report(t.Context()); err != nil {
		t.Fatal(err)
	}
	other := sharedlog.NodeRecord{ID: storage.NodeID{9}, Start: 1, Applied: 10, Synced: 4}
	if err := log.Register(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	trim(5) // a third node may still lose what follows
	if err := log.Forget(t.Context(), other.ID); err != nil {
		t.Fatal(err)
	}
	trim(10) // the last segment stays
	mustVerify(t, mustOpen(t, tables, inMemory()), l.ID, 9)
}

// TestSnapshotCut starts from a snapshot that is cut or altered.
func TestSnapshotCut(t *testing.T) {
	t.Parallel()
	tables := memorylog.New()
	one := mustOpen(t, tables, inMemory())
	l := newStore(t, one, 1)
	for i := range 20 {
		mustAppend(t, l, one, add(fmt.Sprint(i)), secret(fmt.Sprint(i), "ciphertext"))
	}
	if err := one.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	log := tables.Open()
	defer log.Close()
	at, seq, err := log.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var parts [][]byte
	for p, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, slices.Clone(p))
	}
	if bytes.Contains(slices.Concat(parts...), []byte("ciphertext")) {
		t.Error("the snapshot has the ciphertext of a secret")
	}
	flip := func(part, at int) [][]byte {
		changed := [][]byte{slices.Clone(parts[0]), slices.Clone(parts[1])}
		changed[part][at] ^= 0x10
		return changed
	}
	body := parts[1]
	for name, c := range map[string]struct {
		parts [][]byte
		kind  error
	}{
		"no parts":             {nil, storage.ErrDamaged},
		"only the record":      {parts[:1], storage.ErrDamaged},
		"cut in the middle":    {[][]byte{parts[0], body[:len(body)/2]}, storage.ErrDamaged},
		"without the sum":      {[][]byte{parts[0], body[:len(body)-32]}, storage.ErrDamaged},
		"one byte less":        {[][]byte{parts[0], body[:len(body)-1]}, storage.ErrDamaged},
		"another beginning":    {flip(1, 0), storage.ErrDamaged},
		"another layout":       {flip(1, len("ostiary copy ")), storage.ErrFormat},
		"a flipped bit":        {flip(1, len(body)/2), storage.ErrDamaged},
		"a flipped sum":        {flip(1, len(body)-1), storage.ErrDamaged},
		"another count":        {flip(1, len(body)-33), storage.ErrDamaged},
		"another cluster":      {flip(0, 1), replica.ErrCluster},
		"another position":     {flip(0, 20), storage.ErrDamaged},
		"a newer record":       {flip(0, 0), storage.ErrFormat},
		"a record that is cut": {[][]byte{parts[0][:50], body}, storage.ErrDamaged},
	} {
		local, err := inMemory()()
		if err != nil {
			t.Fatal(err)
		}
		_, err = clustertest.OpenReplica(t.Context(), snapshotLog{tables.Open(), at, c.parts}, local, replica.Options{})
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), "take the snapshot at segment") {
			t.Errorf("%s: error %v, want %v", name, err, c.kind)
		}
	}
	// After a failed attempt the copy is empty, and starts again.
	place := inMemory()
	local, err := place()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := clustertest.OpenReplica(t.Context(), snapshotLog{tables.Open(), at, flip(1, len(body)-1)}, local, replica.Options{}); err == nil {
		t.Fatal("a damaged snapshot was taken")
	}
	mustVerify(t, mustOpen(t, tables, place), l.ID, 20)
}

// snapshotLog is a log with another snapshot.
type snapshotLog struct {
	sharedlog.Log
	at    sharedlog.Position
	parts [][]byte
}

func (l snapshotLog) Snapshot(context.Context) (sharedlog.Position, iter.Seq2[[]byte, error], error) {
	return l.at, func(yield func([]byte, error) bool) {
		for _, p := range l.parts {
			if !yield(p, nil) {
				return
			}
		}
	}, nil
}

// TestHistory rewinds the log below what nodes have.
func TestHistory(t *testing.T) {
	t.Parallel()
	tables, at := memorylog.New(), inMemory()
	closed, err := open(t.Context(), tables, at)
	if err != nil {
		t.Fatal(err)
	}
	l := newStore(t, closed, 1)
	for i := range 3 {
		mustAppend(t, l, closed, add(fmt.Sprint(i)))
	}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	running := mustOpen(t, tables, inMemory())
	mustVerify(t, running, l.ID, 3)
	tables.Rewind(2)
	wantErrors(t, running.Confirm(t.Context()), "segment", replica.ErrStopped, storage.ErrHistory)
	_, err = running.Head(t.Context(), l.ID)
	wantErrors(t, err, "segment", replica.ErrStopped, storage.ErrHistory)
	for _, err := range running.Entries(t.Context(), l.ID, 1) {
		wantErrors(t, err, "", replica.ErrStopped, storage.ErrHistory)
	}
	wantErrors(t, running.Failed(), "", replica.ErrStopped, storage.ErrHistory)
	wantErrors(t, l.Append(t.Context(), running, add("x")), "", replica.ErrStopped, storage.ErrHistory)
	_, err = open(t.Context(), tables, at)
	wantErrors(t, err, "expected 4", storage.ErrHistory)

	// Another node writes on. The copies have another history than the log.
	fresh := mustOpen(t, tables, inMemory())
	head, err := fresh.Head(t.Context(), l.ID)
	if err != nil {
		t.Fatal(err)
	}
	l.Head = head
	for i := range 5 {
		mustAppend(t, l, fresh, add(fmt.Sprint("other ", i)))
	}
	_, err = open(t.Context(), tables, at)
	wantErrors(t, err, "", storage.ErrHistory)
	mustVerify(t, fresh, l.ID, 6)
}

// TestRefused opens copies that do not belong to the log.
func TestRefused(t *testing.T) {
	t.Parallel()
	tables, store := memorylog.New(), memory.NewStore()
	at := place(func() (replica.Local, error) { return kv.New(store, kv.Options{Copy: true}) })
	one, err := open(t.Context(), tables, at)
	if err != nil {
		t.Fatal(err)
	}
	clone := memory.NewStore()
	copyPairs(t, store, clone)
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = open(t.Context(), memorylog.New(), at)
	wantErrors(t, err, "cluster", replica.ErrCluster)

	again, err := open(t.Context(), tables, at)
	if err != nil {
		t.Fatal(err)
	}
	_, err = open(t.Context(), tables, func() (replica.Local, error) { return kv.New(clone, kv.Options{Copy: true}) })
	wantErrors(t, err, again.Node().String(), sharedlog.ErrNodeTaken)
	// The second attempt has the next number, so the first node is fenced.
	mustOpen(t, tables, func() (replica.Local, error) { return kv.New(clone, kv.Options{Copy: true}) })
	wantErrors(t, again.Report(t.Context()), "", replica.ErrStopped, sharedlog.ErrNodeTaken)
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}

	local, err := inMemory()()
	if err != nil {
		t.Fatal(err)
	}
	_, err = clustertest.OpenReplica(t.Context(), tables.Open(), local, replica.Options{KeyFingerprint: storage.Hash{1}})
	wantErrors(t, err, "fingerprint", replica.ErrKey)

	// The copy of a program that is newer.
	if local, err = inMemory()(); err != nil {
		t.Fatal(err)
	}
	c, err := local.Copy()
	if err != nil {
		t.Fatal(err)
	}
	tx := c.Begin()
	if err := errors.Join(tx.SetRecord([]byte{99}), tx.Commit(), tx.Close()); err != nil {
		t.Fatal(err)
	}
	_, err = clustertest.OpenReplica(t.Context(), tables.Open(), local, replica.Options{})
	wantErrors(t, err, "record of the copy", storage.ErrFormat)

	log := tables.Open()
	defer log.Close()
	cluster, err := log.Cluster(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	newer := cluster
	newer.Format++
	if err := log.SwapCluster(t.Context(), cluster, newer); err != nil {
		t.Fatal(err)
	}
	_, err = open(t.Context(), tables, inMemory())
	wantErrors(t, err, "version 2", storage.ErrFormat)
}

// copyPairs copies all pairs of a store.
func copyPairs(t *testing.T, from, to *memory.Store) {
	t.Helper()
	it, err := from.Scan(nil, []byte{0xff})
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	b := to.Batch()
	for it.Next() {
		if err := b.Set(it.Key(), it.Value()); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
}

// TestBadSegments appends segments that no correct node appends.
func TestBadSegments(t *testing.T) {
	t.Parallel()
	id := storagetest.NewLog(1)
	for name, c := range map[string]struct {
		change func(*sharedlog.Segment)
		kind   error
		text   string
		alter  func([]byte) // changes the bytes of the segment
	}{
		"a catalog change that expects another number": {func(s *sharedlog.Segment) {
			s.Catalog = &sharedlog.CatalogChange{Expected: 7, Op: sharedlog.DeleteStore, Store: storage.StoreInfo{ID: id.ID, Incarnation: id.Incarnation}}
		}, storage.ErrDamaged, "expects 7 catalog changes", nil},
		"a store that exists": {func(s *sharedlog.Segment) {
			s.Catalog = &sharedlog.CatalogChange{Expected: 1, Op: sharedlog.CreateStore, Store: storage.StoreInfo{ID: id.ID}}
		}, storage.ErrDamaged, "do not follow the state", nil},
		"entries of an unknown store": {func(s *sharedlog.Segment) {
			e := storagetest.NewLog(2)
			entry := e.Entry(storage.Head{}, add("1"))
			s.Stores = []sharedlog.StoreEntries{{Store: e.ID, Incarnation: e.Incarnation, Entries: [][]byte{storage.AppendEntry(nil, &entry)}}}
		}, storage.ErrDamaged, "do not follow the state", nil},
		"entries that do not follow the head": {func(s *sharedlog.Segment) {
			entry := id.Entry(storage.Head{Revision: 9}, add("1"))
			s.Stores = []sharedlog.StoreEntries{{Store: id.ID, Incarnation: id.Incarnation, Entries: [][]byte{storage.AppendEntry(nil, &entry)}}}
		}, storage.ErrDamaged, "do not follow the state", nil},
		"an entry that is no entry": {func(s *sharedlog.Segment) {
			s.Stores = []sharedlog.StoreEntries{{Store: id.ID, Incarnation: id.Incarnation, Entries: [][]byte{[]byte("entry")}}}
		}, storage.ErrDamaged, "segment 4", nil},
		"an unknown version":         {nil, storage.ErrFormat, "segment 4", func(b []byte) { b[0] = 99 }},
		"a lower epoch":              {func(s *sharedlog.Segment) { s.Epoch = 1 }, storage.ErrDamaged, "its epoch is 1, expected 2", nil},
		"another number of the log":  {nil, storage.ErrDamaged, "segment 4 of shard 0: data is damaged: it is of shard 1", func(b []byte) { b[4] = 1 }},
		"a gap":                      {func(s *sharedlog.Segment) { s.Sequence++ }, storage.ErrDamaged, "it has the sequence 5", nil},
		"the segment of another log": {func(s *sharedlog.Segment) { s.Previous[0] ^= 1 }, storage.ErrHistory, "segment 4 of shard 0 follows a segment with the hash", nil},
		"another incarnation": {func(s *sharedlog.Segment) {
			entry := id.Entry(storage.Head{}, add("1"))
			s.Stores = []sharedlog.StoreEntries{{Store: id.ID, Incarnation: storage.Incarnation{77}, Entries: [][]byte{storage.AppendEntry(nil, &entry)}}}
		}, storage.ErrDamaged, "another incarnation than the segment", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tables := memorylog.New()
			d := mustOpen(t, tables, inMemory())
			l := newStore(t, d, 1)
			mustAppend(t, l, d, add("1"))
			head, err := d.Barrier(t.Context(), 2)
			if err != nil {
				t.Fatal(err)
			}
			log := tables.Open()
			defer log.Close()
			s := sharedlog.Segment{Sequence: head.Sequence + 1, Previous: head.Hash, Epoch: 2, Writer: storage.NodeID{9}}
			if c.change != nil {
				c.change(&s)
			}
			record, err := s.Record()
			if err != nil {
				t.Fatal(err)
			}
			if record.Sequence = head.Sequence + 1; c.alter != nil {
				c.alter(record.Bytes)
				record.Hash = sha256.Sum256(record.Bytes)
			}
			if err := log.Append(t.Context(), head, record, nil); err != nil {
				t.Fatal(err)
			}
			wantErrors(t, d.Confirm(t.Context()), c.text, replica.ErrStopped, c.kind)
			if got := d.AppliedSequence(); got != head.Sequence {
				t.Errorf("the copy is at segment %d: expected %d, so that it meets the bad one again when the node is started again", got, head.Sequence)
			}
		})
	}
}

// TestFlippedBit alters a segment that nodes have not read yet.
func TestFlippedBit(t *testing.T) {
	t.Parallel()
	tables, at := memorylog.New(), inMemory()
	late, err := open(t.Context(), tables, at)
	if err != nil {
		t.Fatal(err)
	}
	if err := late.Close(); err != nil {
		t.Fatal(err)
	}
	one := mustOpen(t, tables, inMemory())
	l := newStore(t, one, 1)
	for i := range 4 {
		mustAppend(t, l, one, add(fmt.Sprint(i)))
	}
	tables.Corrupt(3, func(b []byte) []byte { b[len(b)-1] ^= 1; return b })
	_, err = open(t.Context(), tables, at)
	wantErrors(t, err, "segment 3", storage.ErrDamaged)
}

// TestSecretReplaced lets a node apply a secret whose ciphertext a later segment has
// replaced. Until that is applied, the secret is neither known nor missing.
func TestSecretReplaced(t *testing.T) {
	t.Parallel()
	tables := memorylog.New()
	one := mustOpen(t, tables, inMemory())
	log := &limitedLog{Log: tables.Open()}
	local, err := inMemory()()
	if err != nil {
		t.Fatal(err)
	}
	l := newStore(t, one, 1)
	mustAppend(t, l, one, secret("replaced", "first"), secret("removed", "first"), secret("kept", "kept"))
	log.limit.Store(2)
	mustAppend(t, l, one, secret("replaced", "second"), storage.Change{Kind: storage.SecretRemove, Document: storage.Document{Kind: "kind", Key: "removed"}})
	late, err := clustertest.OpenReplica(t.Context(), log, local, replica.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close()
	want := func(key, body string, kind error) {
		t.Helper()
		doc, err := late.Secret(t.Context(), l.ID, "kind", key)
		if !errors.Is(err, kind) || string(doc.Body) != body {
			t.Fatalf("secret %q is %q, error %v; want %q and %v", key, doc.Body, err, body, kind)
		}
	}
	want("kept", "kept", nil)
	want("replaced", "", storage.ErrSecretReplaced)
	want("removed", "", storage.ErrSecretReplaced)
	want("unknown", "", storage.ErrNoDocument)
	log.limit.Store(99)
	if err := late.Confirm(t.Context()); err != nil {
		t.Fatal(err)
	}
	want("replaced", "second", nil)
	want("removed", "", storage.ErrNoDocument)
	mustAppend(t, l, one, secret("removed", ""))
	if err := late.Confirm(t.Context()); err != nil {
		t.Fatal(err)
	}
	want("removed", "", nil)
}

// limitedLog shows the segments up to a sequence.
type limitedLog struct {
	sharedlog.Log
	limit atomic.Uint64
}

func (l *limitedLog) Head(ctx context.Context) (sharedlog.Position, error) {
	for r, err := range l.Log.Read(ctx, 1) {
		if err != nil {
			return sharedlog.Position{}, err
		}
		if r.Sequence == l.limit.Load() {
			return r.Position, nil
		}
	}
	return l.Log.Head(ctx)
}

func (l *limitedLog) Read(ctx context.Context, from uint64) iter.Seq2[sharedlog.Record, error] {
	return func(yield func(sharedlog.Record, error) bool) {
		for r, err := range l.Log.Read(ctx, from) {
			if err == nil && r.Sequence > l.limit.Load() || !yield(r, err) {
				return
			}
		}
	}
}

// TestFullDisk makes the local disk fail after the log has a write. The write counts
// as made, and the node stops.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	tables := memorylog.New()
	full := errors.New("no space left on device")
	store := &fullStore{Store: memory.NewStore(), err: full}
	local, err := kv.New(store, kv.Options{Copy: true})
	if err != nil {
		t.Fatal(err)
	}
	d, err := clustertest.OpenReplica(t.Context(), tables.Open(), local, replica.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	l := newStore(t, d, 1)
	store.full.Store(true)
	mustAppend(t, l, d, add("1"))
	_, err = d.Head(t.Context(), l.ID)
	wantErrors(t, err, "is in the log, but not in the copy", replica.ErrStopped, full)
	wantErrors(t, l.Append(t.Context(), d, add("2")), "", replica.ErrStopped, full)
	mustVerify(t, mustOpen(t, tables, inMemory()), l.ID, 1)
}

// fullStore is a store whose commits fail once it is full.
type fullStore struct {
	*memory.Store
	full atomic.Bool
	err  error
}

type fullBatch struct {
	kv.Batch
	store *fullStore
}

func (s *fullStore) Batch() kv.Batch { return fullBatch{s.Store.Batch(), s} }

func (b fullBatch) Commit() error {
	if b.store.full.Load() {
		return b.store.err
	}
	return b.Batch.Commit()
}

// TestForeignChanges requires that a node reports what another node changes.
func TestForeignChanges(t *testing.T) {
	t.Parallel()
	tables := memorylog.New()
	one, two := mustOpen(t, tables, inMemory()), mustOpen(t, tables, inMemory())
	l := newStore(t, one, 1)
	own := l.Writer
	ids := two.Notify(t.Context(), storage.WriterID{1})
	mine := two.Notify(t.Context(), own)
	mustAppend(t, l, one, add("1"))
	receive := func(c <-chan storage.StoreID) {
		t.Helper()
		select {
		case id := <-c:
			if id != l.ID {
				t.Fatalf("notified of store %s, want %s", id, l.ID)
			}
		case <-time.After(time.Minute):
			t.Fatal("no notice within a minute")
		}
	}
	receive(ids)
	if len(mine) != 0 {
		t.Error("a writer was notified of its own entry")
	}
	before := two.CatalogChanges().Load()
	if err := one.DeleteStore(t.Context(), l.ID); err != nil {
		t.Fatal(err)
	}
	receive(ids)
	if two.CatalogChanges().Load() == before {
		t.Error("a deletion on another node does not change CatalogChanges")
	}
	if n, err := two.CountStores(t.Context()); err != nil || n != 0 {
		t.Errorf("CountStores is %d, error %v", n, err)
	}
	s, err := two.Status(t.Context())
	if err != nil || s.Applied != s.Head || s.Head != 3 || s.Node != two.Node() {
		t.Errorf("the status is %+v, error %v", s, err)
	}
}

// TestLostTail kills a node whose disk loses what was not synced. The copy continues
// from where it is.
func TestLostTail(t *testing.T) {
	t.Parallel()
	tables := memorylog.New()
	disk := vfs.NewCrashableMem()
	at := func(fs vfs.FS) place {
		return func() (replica.Local, error) {
			return pebble.Open("data", pebble.Options{FS: fs, Copy: true, NoSync: true})
		}
	}
	d, err := open(t.Context(), tables, at(disk))
	if err != nil {
		t.Fatal(err)
	}
	l := newStore(t, d, 1)
	for round := range 8 {
		for i := range 20 {
			mustAppend(t, l, d, add(fmt.Sprint(round, "-", i)))
			if i == 5 && round%2 == 0 {
				if err := d.Report(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		crashed := disk.CrashClone(vfs.CrashCloneCfg{})
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		disk = crashed
		if d, err = open(t.Context(), tables, at(disk)); err != nil {
			t.Fatal(err)
		}
		mustVerify(t, d, l.ID, 20*(round+1))
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestSyncedIsOnDisk requires that what a node reports as synced survives a crash.
func TestSyncedIsOnDisk(t *testing.T) {
	t.Parallel()
	tables := memorylog.New()
	disk := vfs.NewCrashableMem()
	d, err := open(t.Context(), tables, func() (replica.Local, error) {
		return pebble.Open("data", pebble.Options{FS: disk, Copy: true, NoSync: true})
	})
	if err != nil {
		t.Fatal(err)
	}
	l := newStore(t, d, 1)
	for i := range 10 {
		mustAppend(t, l, d, add(fmt.Sprint(i)))
	}
	if err := d.Report(t.Context()); err != nil {
		t.Fatal(err)
	}
	log := tables.Open()
	defer log.Close()
	nodes, _, err := log.Nodes(t.Context())
	if err != nil || len(nodes) != 1 || nodes[0].Synced != 11 || nodes[0].Applied != 11 {
		t.Fatalf("the registry has %+v, error %v; want segment 11 as synced", nodes, err)
	}
	crashed := disk.CrashClone(vfs.CrashCloneCfg{})
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := log.Trim(t.Context(), nodes[0].Synced+1); err != nil {
		t.Fatal(err)
	}
	again := mustOpen(t, tables, func() (replica.Local, error) {
		return pebble.Open("data", pebble.Options{FS: crashed, Copy: true, NoSync: true})
	})
	mustVerify(t, again, l.ID, 10)
}

// TestTooLarge appends more entries in one call than a segment can have.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	d := mustOpen(t, memorylog.New(), inMemory())
	l := newStore(t, d, 1)
	var entries []storage.Entry
	head := l.Head
	for range 3 {
		doc := storage.Change{Kind: storage.DocumentPut, Document: storage.Document{Kind: "k", Key: "k", Body: make([]byte, 15<<20)}}
		e := l.Entry(head, doc)
		entries = append(entries, e)
		head = storage.Head{Revision: e.Revision, Hash: sha256.Sum256(storage.AppendEntry(nil, &e)), Time: e.Time}
	}
	_, err := d.Append(t.Context(), l.ID, l.Head, entries, nil)
	wantErrors(t, err, "SegmentBytesMax", storage.ErrTooLarge)
	if _, err := d.Append(t.Context(), l.ID, l.Head, entries[:1], nil); err != nil {
		t.Fatal(err)
	}
	mustVerify(t, d, l.ID, 1)
}

// secretless is a connection to a log that fails to return secrets.
type secretless struct{ sharedlog.Log }

func (secretless) Secret(context.Context, sharedlog.SecretKey, storage.Hash) ([]byte, error) {
	return nil, errLink
}

// TestSnapshotWithoutSecrets loses the connection after a node has taken a snapshot and
// before it has the secrets. The next start of the node fetches them.
func TestSnapshotWithoutSecrets(t *testing.T) {
	t.Parallel()
	tables := memorylog.New()
	one := mustOpen(t, tables, inMemory())
	l := newStore(t, one, 1)
	mustAppend(t, l, one, secret("a", "body"))
	if err := one.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	disk := memory.NewStore()
	open := func(log sharedlog.Log) (*clustertest.Replica, error) {
		local, err := kv.New(disk, kv.Options{Copy: true})
		if err != nil {
			t.Fatal(err)
		}
		return clustertest.OpenReplica(t.Context(), log, local, replica.Options{})
	}
	for range 2 {
		if _, err := open(secretless{tables.Open()}); !errors.Is(err, errLink) {
			t.Fatalf("without secrets, the start fails with %v, want %v", err, errLink)
		}
	}
	for range 2 { // the second time, all is there
		two, err := open(tables.Open())
		if err != nil {
			t.Fatal(err)
		}
		d, err := two.Secret(t.Context(), l.ID, "kind", "a")
		if err != nil || string(d.Body) != "body" {
			t.Errorf("the secret is %q, error %v; want \"body\"", d.Body, err)
		}
		if err := two.Close(); err != nil {
			t.Fatal(err)
		}
	}
	// From then on a start asks for no secrets.
	two, err := open(secretless{tables.Open()})
	if err != nil {
		t.Fatal(err)
	}
	two.Close()
}

// TestConfirmPassed restores the log while a node confirms a read. The head that the node reads
// is that of another history; meanwhile the node has applied more of the lost one.
func TestConfirmPassed(t *testing.T) {
	t.Parallel()
	tables := memorylog.New()
	log := &passedLog{Log: tables.Open()}
	d := openWith(t, log, inMemory(), manual(-1, nil))
	l := newStore(t, d, 1)
	mustAppend(t, l, d, add("1"))
	log.meanwhile = func() sharedlog.Position {
		mustAppend(t, l, d, add("2"))
		other := sharedlog.Position{Sequence: d.AppliedSequence(), Hash: storage.Hash{1}}
		mustAppend(t, l, d, add("3"))
		return other
	}
	wantErrors(t, d.Confirm(t.Context()), "is another one in the copy", replica.ErrStopped, storage.ErrHistory)
}

// passedLog is a log in which something happens while its head is read.
type passedLog struct {
	sharedlog.Log
	meanwhile func() sharedlog.Position
}

func (l *passedLog) Newest(ctx context.Context) (sharedlog.Position, error) {
	if l.meanwhile == nil {
		return l.Head(ctx)
	}
	return l.meanwhile(), nil
}
