package replica_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/clustertest"
	"github.com/ostiary/ostiary/internal/cluster/replica"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog/memorylog"
	"github.com/ostiary/ostiary/internal/workshop/wait"
	"github.com/ostiary/ostiary/storage"
)

// openWith opens a replica with options, which the test closes.
func openWith(t *testing.T, log sharedlog.Log, at place, opts replica.Options) *clustertest.Replica {
	t.Helper()
	local, err := at()
	if err != nil {
		t.Fatal(err)
	}
	d, err := clustertest.OpenReplica(t.Context(), log, local, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// oldestSegment returns the sequence of the oldest segment of a log.
func oldestSegment(t *testing.T, log sharedlog.Log) uint64 {
	t.Helper()
	for from := uint64(1); ; from++ {
		for _, err := range log.Read(t.Context(), from) {
			if err == nil {
				return from
			}
			if !errors.Is(err, sharedlog.ErrTrimmed) {
				t.Fatal(err)
			}
			break
		}
	}
}

// snapshotAt returns the sequence of the newest snapshot of a log, or 0.
func snapshotAt(t *testing.T, log sharedlog.Log) uint64 {
	t.Helper()
	at, _, err := log.Snapshot(t.Context())
	if err != nil && !errors.Is(err, sharedlog.ErrNoSnapshot) {
		t.Fatal(err)
	}
	return at.Sequence
}

// agedLog is a log in which one node was seen some time earlier than it was.
type agedLog struct {
	sharedlog.Log
	id  storage.NodeID
	age time.Duration
}

func (l *agedLog) Nodes(ctx context.Context) ([]sharedlog.NodeRecord, time.Time, error) {
	nodes, now, err := l.Log.Nodes(ctx)
	for i := range nodes {
		if nodes[i].ID == l.id {
			nodes[i].Seen = now.Add(-l.age)
		}
	}
	return nodes, now, err
}

// manual are options with which a node maintains the log only when the test calls it.
func manual(bytes int64, leads func() bool) replica.Options {
	return replica.Options{ReportInterval: time.Hour, SnapshotBytes: bytes, Leads: leads}
}

// TestMaintain writes segments until the node that leads stores a snapshot. It drops
// the segments once all nodes that were seen lately have them on disk.
func TestMaintain(t *testing.T) {
	t.Parallel()
	const snapshotBytes = 20_000
	tables, at := memorylog.New(), inMemory()
	log := &agedLog{Log: tables.Open()}
	var leads, slowLeads atomic.Bool
	leads.Store(true)
	one := openWith(t, log, at, manual(snapshotBytes, leads.Load))
	slow := openWith(t, tables.Open(), inMemory(), manual(snapshotBytes, slowLeads.Load))
	l := newStore(t, one, 1)
	total, entries := 0, 0
	write := func(bytes int) {
		t.Helper()
		for end := total + bytes; total < end; total += 1000 {
			mustAppend(t, l, one, storage.Change{Kind: storage.DocumentPut, Document: storage.Document{Kind: "kind", Key: "key", Body: make([]byte, 1000)}})
			entries++
		}
	}
	maintain := func(snapshot, oldest uint64) {
		t.Helper()
		for _, d := range []*clustertest.Replica{one, slow} {
			if err := d.Maintain(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if have := snapshotAt(t, log); have != snapshot {
			t.Fatalf("the newest snapshot is at segment %d, want %d", have, snapshot)
		}
		if have := oldestSegment(t, log); have != oldest {
			t.Fatalf("the oldest segment is %d, want %d", have, oldest)
		}
	}
	report := func(d *clustertest.Replica) {
		t.Helper()
		if err := d.Confirm(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := d.Report(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	write(snapshotBytes / 2)
	maintain(0, 1)
	// What was written before a restart counts.
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	log.Log = tables.Open()
	one = openWith(t, log, at, manual(snapshotBytes, leads.Load))
	write(snapshotBytes / 2)
	first := uint64(1 + entries)
	leads.Store(false)
	maintain(0, 1)
	leads.Store(true)
	report(one)
	maintain(first, 1) // the other node has not reported
	report(slow)
	maintain(first, first) // the last segment stays
	write(snapshotBytes / 2)
	report(one)
	report(slow)
	maintain(first, first) // the segments are not enough for another snapshot

	fresh := openWith(t, tables.Open(), inMemory(), manual(snapshotBytes, slowLeads.Load))
	mustVerify(t, fresh, l.ID, entries)
	if err := fresh.Report(t.Context()); err != nil {
		t.Fatal(err)
	}

	held := uint64(1+entries) + 1 // the first segment that the new node lacks
	// A node that was not seen for 24 hours does not hold back the log.
	write(3 * snapshotBytes)
	second := uint64(1 + entries)
	report(one)
	report(slow)
	maintain(second, held) // until the new node has reported
	log.id, log.age = fresh.Node(), 24*time.Hour-time.Minute
	maintain(second, held)
	log.age = 24 * time.Hour
	maintain(second, second)
	another := openWith(t, tables.Open(), inMemory(), manual(snapshotBytes, slowLeads.Load))
	mustVerify(t, another, l.ID, entries)
	for _, d := range []*clustertest.Replica{fresh, another} {
		if err := log.Forget(t.Context(), d.Node()); err != nil {
			t.Fatal(err)
		}
	}

	// The snapshot is larger than the segments that follow it.
	write(2 * snapshotBytes)
	report(one)
	report(slow)
	maintain(second, second)

	// Another node leads, and then the first one again. Each knows the newest snapshot.
	hand := func(to bool) {
		leads.Store(to)
		slowLeads.Store(!to)
	}
	hand(false)
	third := uint64(1 + entries)
	maintain(third, third)
	hand(true)
	write(snapshotBytes / 2)
	report(one)
	report(slow)
	maintain(third, third+1)
	write(10 * snapshotBytes)
	report(one)
	report(slow)
	fourth := uint64(1 + entries)
	maintain(fourth, fourth)
	hand(false)
	write(snapshotBytes / 2)
	report(one)
	report(slow)
	maintain(fourth, fourth+1)
}

// TestMaintainAlone requires that a node maintains the log on its own, and that
// SnapshotBytes turns it off.
func TestMaintainAlone(t *testing.T) {
	t.Parallel()
	for _, bytes := range []int64{1, -1} {
		tables := memorylog.New()
		log := tables.Open()
		d := openWith(t, tables.Open(), inMemory(), replica.Options{ReportInterval: time.Millisecond, SnapshotBytes: bytes})
		l := newStore(t, d, 1)
		n := 0
		write := func() {
			mustAppend(t, l, d, add(fmt.Sprint(n)))
			n++
		}
		if bytes < 0 {
			for range 20 {
				write()
			}
			if snapshotAt(t, log) != 0 || oldestSegment(t, log) != 1 {
				t.Error("the node stored a snapshot although that is turned off")
			}
			continue
		}
		wait.Until(t, "the log is trimmed behind a snapshot", func() bool {
			write()
			return oldestSegment(t, log) > 10
		})
		mustVerify(t, openWith(t, tables.Open(), inMemory(), replica.Options{}), l.ID, n)
	}
}

// TestMaintenanceFails requires that Status shows why a snapshot could not be stored,
// and that the next attempt succeeds.
func TestMaintenanceFails(t *testing.T) {
	t.Parallel()
	full := errors.New("the database is full")
	log := &fullLog{Log: memorylog.New().Open(), err: full}
	d := openWith(t, log, inMemory(), manual(1, nil))
	newStore(t, d, 1)
	log.full.Store(true)
	wantErrors(t, d.Maintain(t.Context()), "store a snapshot", full)
	status, err := d.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantErrors(t, status.Maintenance, "store a snapshot", full)
	log.full.Store(false)
	if err := d.Maintain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if status, err = d.Status(t.Context()); err != nil || status.Maintenance != nil {
		t.Errorf("the status has the error %v, error %v; want none", status.Maintenance, err)
	}
	if snapshotAt(t, log) != 1 {
		t.Error("the second attempt stored no snapshot")
	}
}

// fullLog is a log that stores no snapshots while it is full.
type fullLog struct {
	sharedlog.Log
	full atomic.Bool
	err  error
}

func (l *fullLog) PutSnapshot(ctx context.Context, at sharedlog.Position, parts iter.Seq2[[]byte, error]) error {
	if l.full.Load() {
		return l.err
	}
	return l.Log.PutSnapshot(ctx, at, parts)
}

// startingLog is the log of a node that starts: reads fail while it is down, and before
// the node registers, it calls registers.
type startingLog struct {
	sharedlog.Log
	down      bool
	registers func()
}

func (l *startingLog) Read(ctx context.Context, from uint64) iter.Seq2[sharedlog.Record, error] {
	if l.down {
		return func(yield func(sharedlog.Record, error) bool) { yield(sharedlog.Record{}, errLink) }
	}
	return l.Log.Read(ctx, from)
}

func (l *startingLog) Register(ctx context.Context, n sharedlog.NodeRecord) error {
	if l.registers != nil {
		l.registers()
	}
	return l.Log.Register(ctx, n)
}

// TestNewNode requires that a new node that fails before it has caught up does not hold
// back the log, and that one starts although the log is trimmed above what it has before
// it registers.
func TestNewNode(t *testing.T) {
	t.Parallel()
	tables := memorylog.New()
	log := tables.Open()
	one := openWith(t, tables.Open(), inMemory(), manual(-1, nil))
	l := newStore(t, one, 1)
	const each = 3
	entries := 0
	trim := func() uint64 {
		t.Helper()
		for range each {
			mustAppend(t, l, one, add(fmt.Sprint(entries)))
			entries++
		}
		for _, f := range []func(context.Context) error{one.Report, one.Snapshot, one.TrimLog} {
			if err := f(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		mustAppend(t, l, one, add(fmt.Sprint(entries)))
		entries++
		return oldestSegment(t, log)
	}
	first := trim()

	local, err := inMemory()()
	if err != nil {
		t.Fatal(err)
	}
	_, err = clustertest.OpenReplica(t.Context(), &startingLog{Log: tables.Open(), down: true}, local, manual(-1, nil))
	wantErrors(t, err, "", errLink)
	second := trim()
	if second != first+each+1 {
		t.Errorf("the oldest segment is %d after a node has failed to start, want %d", second, first+each+1)
	}

	meanwhile := func() {
		if third := trim(); third != second+each+1 {
			t.Errorf("the oldest segment is %d before a node registers, want %d", third, second+each+1)
		}
	}
	fresh := openWith(t, &startingLog{Log: tables.Open(), registers: meanwhile}, inMemory(), manual(-1, nil))
	mustVerify(t, fresh, l.ID, entries)
}

// TestTrimMoved moves a log while a node trims it. The next log has no snapshot, or another
// one, so it keeps its segments.
func TestTrimMoved(t *testing.T) {
	t.Parallel()
	from, next := memorylog.New().Open(), memorylog.New().Open()
	moving := &movingLog{Log: from}
	log := sharedlog.WithNext(moving, next, func() {})
	d := openWith(t, log, inMemory(), manual(-1, nil))
	l := newStore(t, d, 1)
	for n := range 5 {
		mustAppend(t, l, d, add(fmt.Sprint(n)))
	}
	if err := errors.Join(d.Snapshot(t.Context()), d.Report(t.Context())); err != nil {
		t.Fatal(err)
	}
	if _, err := replica.Mirror(t.Context(), from, next, func(uint64) {}); err != nil {
		t.Fatal(err)
	}
	moving.move = func() {
		lease := sharedlog.Lease{Holder: sharedlog.Mover(), Epoch: 9}.MovedFrom()
		if err := from.SwapLease(t.Context(), sharedlog.Lease{}, lease); err != nil {
			t.Error(err)
		}
		if _, err := log.Lease(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if err := d.TrimLog(t.Context()); err != nil {
		t.Fatal(err)
	}
	if at := oldestSegment(t, next); at != 1 {
		t.Errorf("the next log begins with segment %d, and has no snapshot", at)
	}
}

// movingLog is a log that is moved when its nodes are read.
type movingLog struct {
	sharedlog.Log
	move func()
}

func (l *movingLog) Nodes(ctx context.Context) ([]sharedlog.NodeRecord, time.Time, error) {
	nodes, now, err := l.Log.Nodes(ctx)
	if l.move != nil {
		l.move()
	}
	return nodes, now, err
}
