package replica_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/cluster/clustertest"
	"github.com/ostiary/ostiary/internal/cluster/replica"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog/memorylog"
	"github.com/ostiary/ostiary/internal/workshop/wait"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
	"github.com/ostiary/ostiary/storage/memory"
	"github.com/ostiary/ostiary/storage/storagetest"
)

// openGate opens a replica in memory with a gate.
func openGate(t *testing.T, log sharedlog.Log, gate replica.Gate) *clustertest.Replica {
	t.Helper()
	local, err := inMemory()()
	if err != nil {
		t.Fatal(err)
	}
	d, err := clustertest.OpenReplica(t.Context(), log, local, replica.Options{Gate: gate})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// epochs returns the epochs of all segments of a log.
func epochs(t *testing.T, tables *memorylog.Tables) (all []uint64) {
	t.Helper()
	log := tables.Open()
	defer log.Close()
	for v, err := range sharedlog.Segments(t.Context(), log, sharedlog.Position{}, 0) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, v.Segment.Epoch)
	}
	return all
}

// TestMayAppend requires that the gate gives each segment its epoch, and that a change
// that the gate refuses has no effect.
func TestMayAppend(t *testing.T) {
	t.Parallel()
	tables := memorylog.New()
	errHolder := errors.New("another node writes")
	var epoch atomic.Uint64
	var appended []sharedlog.Record
	d := openGate(t, tables.Open(), replica.Gate{
		MayAppend: func(context.Context) (uint64, error) {
			if epoch.Load() == 0 {
				return 0, errHolder
			}
			return epoch.Load(), nil
		},
		Appended: func(s sharedlog.Passed) { appended = append(appended, s.Record) },
	})
	l := storagetest.NewLog(1)
	info := storage.StoreInfo{ID: l.ID, Incarnation: l.Incarnation}
	wantErrors(t, d.CreateStore(t.Context(), info), "", errHolder)
	epoch.Store(3)
	if err := d.CreateStore(t.Context(), info); err != nil {
		t.Fatal(err)
	}
	epoch.Store(5)
	mustAppend(t, l, d, add("1"))
	at, err := d.Barrier(t.Context(), 8)
	if err != nil || at.Sequence != 3 || at != appended[2].Position {
		t.Fatalf("the barrier is at %s, error %v; want the third segment", at, err)
	}
	if have := epochs(t, tables); !slices.Equal(have, []uint64{3, 5, 8}) {
		t.Errorf("the epochs are %d, want 3, 5 and 8", have)
	}
	epoch.Store(0)
	wantErrors(t, l.Append(t.Context(), d, add("2")), "", errHolder)
	mustVerify(t, d, l.ID, 1)
}

// TestFenced lets a node write that does not know yet that another one has a higher
// epoch. It fails with a name, its writes have no effect, and it goes on following.
func TestFenced(t *testing.T) {
	t.Parallel()
	tables := memorylog.New()
	flaky := &flakyLog{Log: tables.Open()}
	old := openGate(t, flaky, replica.Gate{MayAppend: func(context.Context) (uint64, error) { return 1, nil }})
	next := openGate(t, tables.Open(), replica.Gate{MayAppend: func(context.Context) (uint64, error) { return 2, nil }})
	l := newStore(t, old, 1)
	mustAppend(t, l, old, add("1"))

	// A write of the old holder is on its way while the new one appends its barrier.
	enter, leave := make(chan struct{}), make(chan struct{})
	var once sync.Once
	flaky.set(func(context.Context) (bool, error) {
		once.Do(func() {
			close(enter)
			<-leave
		})
		return true, nil
	})
	late := *l
	failed := make(chan error, 1)
	go func() { failed <- late.Append(t.Context(), old, add("on its way")) }()
	<-enter
	at, err := next.Barrier(t.Context(), 2)
	if err != nil || at.Sequence != 3 {
		t.Fatalf("the barrier is at %s, error %v; want segment 3", at, err)
	}
	close(leave)
	wantErrors(t, <-failed, "epoch 1", replica.ErrFenced, storage.ErrNotHolder)
	mustVerify(t, next, l.ID, 1)

	_, err = old.Barrier(t.Context(), 1)
	wantErrors(t, err, "has epoch 2", replica.ErrFenced)
	mustAppend(t, l, next, add("2"))
	wantErrors(t, l.Append(t.Context(), old, add("3")), "", replica.ErrFenced)
	mustVerify(t, old, l.ID, 2)
	if have := epochs(t, tables); !slices.Equal(have, []uint64{1, 1, 2, 2}) {
		t.Errorf("the epochs are %d, want 1, 1, 2 and 2", have)
	}
}

// TestBarrierFirst requires that a barrier does not wait behind changes that wait for
// the log, because it decides whether they may be appended.
func TestBarrierFirst(t *testing.T) {
	t.Parallel()
	tables := memorylog.New()
	flaky := &flakyLog{Log: tables.Open()}
	d := openGate(t, flaky, replica.Gate{})
	logs := []*storagetest.Log{newStore(t, d, 1), newStore(t, d, 2)}
	enter, leave := make(chan struct{}), make(chan struct{})
	var once sync.Once
	flaky.set(func(context.Context) (bool, error) {
		once.Do(func() {
			close(enter)
			<-leave
		})
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
	write(logs[1])
	wait.Until(t, "the second write waits", func() bool { return d.Waiting() == 1 })
	group.Go(func() {
		if at, err := d.Barrier(t.Context(), 7); err != nil || at.Sequence != 4 {
			t.Errorf("the barrier is at %s, error %v; want segment 4, before the write that waits", at, err)
		}
	})
	wait.Until(t, "the barrier waits", func() bool { return d.Waiting() == 2 })
	close(leave)
	group.Wait()
}

// TestAcknowledge requires that a change is answered once it is acknowledged, that
// others are appended meanwhile, and that it is uncertain otherwise.
func TestAcknowledge(t *testing.T) {
	t.Parallel()
	tables := memorylog.New()
	var hold atomic.Uint64 // sequence whose acknowledgement waits for release
	release := make(chan struct{})
	errSlow := errors.New("a node does not answer")
	var fail atomic.Bool
	d := openGate(t, tables.Open(), replica.Gate{})
	d.Acknowledged = func(_ context.Context, at sharedlog.Position) error {
		if have := d.AppliedSequence(); have < at.Sequence {
			t.Errorf("segment %s is to be acknowledged, but %d is the last one that is applied", at, have)
		}
		if at.Hash == (storage.Hash{}) {
			t.Errorf("segment %d has no hash", at.Sequence)
		}
		if at.Sequence == hold.Load() {
			<-release
		}
		if fail.Load() {
			return errSlow
		}
		return nil
	}
	one, two := newStore(t, d, 1), newStore(t, d, 2)
	hold.Store(3)
	answered := make(chan error, 1)
	go func() { answered <- one.Append(t.Context(), d, add("1")) }()
	if err := d.WaitApplied(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		mustAppend(t, two, d, add(fmt.Sprint(i))) // they do not wait for the other change
	}
	select {
	case err := <-answered:
		t.Fatalf("a change was answered with %v before it was acknowledged", err)
	default:
	}
	close(release)
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
	fail.Store(true)
	uncertain := *one
	wantErrors(t, uncertain.Append(t.Context(), d, add("2")), "not acknowledged", storage.ErrUncertain, errSlow)
	wantErrors(t, d.Acknowledge(t.Context()), "", errSlow)
	fail.Store(false)
	mustVerify(t, d, one.ID, 2)
}

// slowAppend is a log whose appends end late, and that is not followed.
type slowAppend struct {
	sharedlog.Log
	made    chan struct{} // gets an element when an append is made
	release chan struct{} // nil if appends end at once
}

func (l *slowAppend) Append(ctx context.Context, after sharedlog.Position, record sharedlog.Record, secrets []sharedlog.SecretChange) error {
	err := l.Log.Append(ctx, after, record, secrets)
	if l.release != nil {
		l.made <- struct{}{}
		<-l.release
	}
	return err
}

func (l *slowAppend) Wait(ctx context.Context, _ uint64) error {
	<-ctx.Done()
	return ctx.Err()
}

// TestShowOwn requires that ShowOwn has the engines show the stores to which the node has
// appended, also those of an append that ends later, or that the gate has allowed before.
func TestShowOwn(t *testing.T) {
	t.Parallel()
	log := &slowAppend{Log: memorylog.New().Open()}
	var allowed atomic.Pointer[func()]
	d := openGate(t, log, replica.Gate{MayAppend: func(context.Context) (uint64, error) {
		if f := allowed.Load(); f != nil {
			(*f)()
		}
		return 0, nil
	}})
	shown := make(chan storage.StoreID, 100)
	d.OnApplied(func(_ context.Context, stores []storage.StoreID) error {
		for _, id := range stores {
			shown <- id
		}
		return nil
	})
	one := newStore(t, d, 1)
	mustAppend(t, one, d, add("1"))
	drain := func() {
		t.Helper()
		if err := d.WaitShown(t.Context(), d.AppliedSequence()); err != nil {
			t.Fatal(err)
		}
		for len(shown) > 0 {
			<-shown
		}
	}
	drain() // of the catalog
	if err := d.ShowOwn(t.Context()); err != nil {
		t.Fatal(err)
	}
	if id := <-shown; id != one.ID {
		t.Errorf("store %s is shown, expected %s", id, one.ID)
	}
	if err := d.ShowOwn(t.Context()); err != nil || len(shown) > 0 {
		t.Errorf("without an append, %d stores are shown, error %v", len(shown), err)
	}

	log.made, log.release = make(chan struct{}), make(chan struct{})
	answered := make(chan error, 1)
	go func() { answered <- one.Append(t.Context(), d, add("2")) }()
	<-log.made
	if err := d.ShowOwn(t.Context()); err != nil {
		t.Fatal(err)
	}
	drain()
	close(log.release)
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
	mustShow := func(what string) {
		t.Helper()
		if err := d.WaitShown(t.Context(), d.AppliedSequence()); err != nil {
			t.Fatal(err)
		}
		if len(shown) == 0 {
			t.Fatalf("what was %s ShowOwn counts as shown, and the engines were not called", what)
		}
		if id := <-shown; id != one.ID {
			t.Errorf("store %s is shown, expected %s", id, one.ID)
		}
	}
	mustShow("applied after")

	log.release = nil
	show := func() {
		if err := d.ShowOwn(t.Context()); err != nil {
			t.Error(err)
		}
		drain()
	}
	allowed.Store(&show)
	mustAppend(t, one, d, add("3"))
	mustShow("allowed before")
}

// slowStore is a store whose commits end late: what they change can be read before.
type slowStore struct {
	*memory.Store
	made    chan struct{}                 // gets an element when a commit is made
	release atomic.Pointer[chan struct{}] // nil if commits end at once
}

type slowBatch struct {
	kv.Batch
	store *slowStore
}

func (s *slowStore) Batch() kv.Batch { return slowBatch{s.Store.Batch(), s} }

func (b slowBatch) Commit() error {
	err := b.Batch.Commit()
	if release := b.store.release.Load(); release != nil {
		b.store.made <- struct{}{}
		<-*release
	}
	return err
}

// TestAcknowledgeReadable requires that a node acknowledges what can be read of its copy also
// while that does not count as applied yet: who has read it takes it for acknowledged.
func TestAcknowledgeReadable(t *testing.T) {
	t.Parallel()
	store := &slowStore{Store: memory.NewStore(), made: make(chan struct{})}
	local, err := kv.New(store, kv.Options{Copy: true})
	if err != nil {
		t.Fatal(err)
	}
	var acknowledged atomic.Uint64
	d, err := clustertest.OpenReplica(t.Context(), memorylog.New().Open(), local, replica.Options{SnapshotBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	d.Acknowledged = func(_ context.Context, at sharedlog.Position) error {
		acknowledged.Store(at.Sequence)
		return nil
	}
	t.Cleanup(func() { d.Close() })
	one := newStore(t, d, 1)
	before := d.AppliedSequence()
	release := make(chan struct{})
	store.release.Store(&release)
	answered := make(chan error, 1)
	go func() { answered <- one.Append(t.Context(), d, add("1")) }()
	<-store.made
	if head, err := d.Head(t.Context(), one.ID); err != nil || head.Revision != 1 || d.AppliedSequence() != before {
		t.Errorf("revision %d can be read after segment %d, error %v; expected revision 1 before segment %d is applied", head.Revision, d.AppliedSequence(), err, before+1)
	}
	if at := d.Readable(); at != before+1 {
		t.Errorf("segment %d is the last one that can be read, expected %d", at, before+1)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.Acknowledge(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("what can be read is acknowledged, up to segment %d, error %v", acknowledged.Load(), err)
	}
	store.release.Store(nil)
	close(release)
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
	acknowledged.Store(0)
	if err := d.Acknowledge(t.Context()); err != nil || acknowledged.Load() != before+1 {
		t.Errorf("segment %d is acknowledged, error %v; expected %d", acknowledged.Load(), err, before+1)
	}
}

// TestAcknowledgedEngine requires that the engine does not report a write as made that
// is in the log but not acknowledged, and that a repetition gets the answer of the
// first write once it is.
func TestAcknowledgedEngine(t *testing.T) {
	t.Parallel()
	var fail atomic.Bool
	d := openGate(t, memorylog.New().Open(), replica.Gate{})
	d.Acknowledged = func(context.Context, sharedlog.Position) error {
		if fail.Load() {
			return errors.New("a node does not answer")
		}
		return nil
	}
	e, err := ostiary.Open(t.Context(), ostiary.Options{Driver: d})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	s, err := e.CreateStore(t.Context(), ostiary.CreateStoreRequest{})
	if err != nil {
		t.Fatal(err)
	}
	viewer := schema.RelationDef{Name: "viewer", Rewrite: schema.Direct(), Subjects: []schema.SubjectType{{Type: "user"}}}
	model := schema.Model{Types: []schema.TypeDef{{Name: "user"}, {Name: "doc", Relations: []schema.RelationDef{viewer}}}}
	if _, _, err := s.WriteSchema(t.Context(), authz.SchemaSource{Model: &model}); err != nil {
		t.Fatal(err)
	}
	request := authz.WriteRequest{Add: []rel.Tuple{add("1").Tuple}}
	fail.Store(true)
	for range 2 { // the repetition is not acknowledged either
		if _, err = s.Write(t.Context(), request); err == nil {
			t.Fatal("a write that is not acknowledged was answered as made")
		}
	}
	fail.Store(false)
	if _, err := s.Write(t.Context(), request); err != nil {
		t.Fatalf("the repetition of an uncertain write that was made fails with %v", err)
	}
}

// TestWaitApplied waits for segments of another node, and on nodes that never get them.
func TestWaitApplied(t *testing.T) {
	t.Parallel()
	tables := memorylog.New()
	one, two := mustOpen(t, tables, inMemory()), mustOpen(t, tables, inMemory())
	var group sync.WaitGroup
	for sequence := range uint64(10) {
		group.Go(func() {
			if err := two.WaitApplied(t.Context(), sequence+1); err != nil {
				t.Error(err)
			}
			if have := two.AppliedSequence(); have < sequence+1 {
				t.Errorf("%d segments are applied, want at least %d", have, sequence+1)
			}
		})
	}
	l := newStore(t, one, 1)
	for i := range 9 {
		mustAppend(t, l, one, add(fmt.Sprint(i)))
	}
	group.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantErrors(t, two.WaitApplied(ctx, 11), "", context.Canceled)

	stopped, closed := make(chan error, 1), make(chan error, 1)
	three, err := open(t.Context(), tables, inMemory())
	if err != nil {
		t.Fatal(err)
	}
	go func() { stopped <- two.WaitApplied(t.Context(), 99) }()
	go func() { closed <- three.WaitApplied(t.Context(), 99) }()
	if err := three.Close(); err != nil {
		t.Fatal(err)
	}
	wantErrors(t, <-closed, "", storage.ErrClosed)
	tables.Rewind(5)
	wantErrors(t, two.Confirm(t.Context()), "", storage.ErrHistory)
	wantErrors(t, <-stopped, "", replica.ErrStopped, storage.ErrHistory)
}

// deafLog is a log that never reports new segments, and counts its readers. If together
// is not nil, a secret is read only when as many readers as its capacity ask for one.
type deafLog struct {
	sharedlog.Log
	reads, secrets atomic.Int64
	together       chan struct{}
}

func (l *deafLog) Secret(ctx context.Context, key sharedlog.SecretKey, digest storage.Hash) ([]byte, error) {
	l.secrets.Add(1)
	if l.together != nil {
		l.together <- struct{}{}
		for len(l.together) < cap(l.together) {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			runtime.Gosched()
		}
	}
	return l.Log.Secret(ctx, key, digest)
}

func (l *deafLog) Wait(ctx context.Context, _ uint64) error {
	<-ctx.Done()
	return ctx.Err()
}

func (l *deafLog) Read(ctx context.Context, from uint64) iter.Seq2[sharedlog.Record, error] {
	l.reads.Add(1)
	return l.Log.Read(ctx, from)
}

// TestOffer sends segments to a node: in order, in another order, more than once,
// damaged, and such that are not in the log.
func TestOffer(t *testing.T) {
	t.Parallel()
	tables := memorylog.New()
	var records []sharedlog.Passed
	one := openGate(t, tables.Open(), replica.Gate{Appended: func(s sharedlog.Passed) { records = append(records, s) }})
	log := &deafLog{Log: tables.Open()}
	two := openGate(t, log, replica.Gate{})
	l := newStore(t, one, 1)
	mustAppend(t, l, one, add("1"), secret("key", "body"))
	if _, err := one.Barrier(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	if err := one.Trim(t.Context(), l.ID, 2, 0); err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		mustAppend(t, l, one, add(fmt.Sprint("more ", i)))
	}
	offer := func(r sharedlog.Passed, applied uint64, reads int64) {
		t.Helper()
		before := log.reads.Load()
		if err := two.Offer(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if have := two.AppliedSequence(); have != applied {
			t.Fatalf("after segment %d was offered, %d is applied, want %d", r.Sequence, have, applied)
		}
		if have := log.reads.Load() - before; have != reads {
			t.Fatalf("segment %d was offered, and the log was read %d times, want %d", r.Sequence, have, reads)
		}
	}
	for i, r := range records[:5] {
		offer(r, uint64(i+1), 0)
	}
	offer(records[2], 5, 0) // again
	if doc, err := two.Secret(t.Context(), l.ID, "kind", "key"); err != nil || string(doc.Body) != "body" {
		t.Errorf("the secret is %q, error %v", doc.Body, err)
	}
	offer(records[7], 10, 1) // the log has the gap and more

	head := records[9]
	segment := func(epoch uint64) sharedlog.Passed {
		s := sharedlog.Segment{Sequence: 11, Previous: head.Hash, Epoch: epoch, Writer: storage.NodeID{9}}
		r, err := s.Record()
		if err != nil {
			t.Fatal(err)
		}
		return sharedlog.Passed{Record: r}
	}
	offer(segment(3), 10, 0) // of a writer that was fenced; the head of the log shows that there is none
	damaged := segment(4)
	damaged.Bytes[20] ^= 1
	offer(damaged, 10, 0)
	mustAppend(t, l, one, add("last"))
	offer(segment(3), 11, 1) // the log has another segment there
	if head, err := two.Head(t.Context(), l.ID); err != nil || head != l.Head {
		t.Errorf("the head is %+v, error %v; want %+v", head, err, l.Head)
	}
	if oldest, _, err := two.Oldest(t.Context(), l.ID); err != nil || oldest != 2 {
		t.Errorf("the oldest entry is %d, error %v; want 2", oldest, err)
	}
	if err := two.Close(); err != nil {
		t.Fatal(err)
	}
	last := records[10]
	last.Sequence++
	wantErrors(t, two.Offer(t.Context(), last), "", storage.ErrClosed)
}

// slowLog is a log far away, of which each read takes a second.
type slowLog struct {
	sharedlog.Log
	reads atomic.Int64
}

func (l *slowLog) Read(ctx context.Context, from uint64) iter.Seq2[sharedlog.Record, error] {
	l.reads.Add(1)
	time.Sleep(time.Second)
	return l.Log.Read(ctx, from)
}

// TestExpect appends segments on another node that begins to send them: the follower waits for
// the first one, although it learns of it before. While it reads from a log far away, it could
// not apply the segment.
func TestExpect(t *testing.T) {
	t.Parallel()
	tables := memorylog.New()
	var last sharedlog.Passed
	one := openGate(t, tables.Open(), replica.Gate{Appended: func(s sharedlog.Passed) { last = s }})
	l := newStore(t, one, 1)
	log := &slowLog{Log: tables.Open()}
	two := openGate(t, log, replica.Gate{})
	time.Sleep(100 * time.Millisecond) // it waits for the next one
	before := log.reads.Load()
	two.Expect()
	mustAppend(t, l, one, add("1"))
	time.Sleep(100 * time.Millisecond) // on its way
	if err := two.Offer(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	if have := log.reads.Load() - before; have != 0 {
		t.Errorf("the log was read %d times while the segment was on its way, want 0", have)
	}
}

// TestOfferedSecrets sends segments that put secrets to a node, with all, some, wrong and
// none of the ciphertexts: the node reads from the log what it lacks, and that at the same
// time, because each look at the log may be a long way.
func TestOfferedSecrets(t *testing.T) {
	t.Parallel()
	tables := memorylog.New()
	var last sharedlog.Passed
	one := openGate(t, tables.Open(), replica.Gate{Appended: func(s sharedlog.Passed) { last = s }})
	log := &deafLog{Log: tables.Open()}
	two := openGate(t, log, replica.Gate{})
	l := newStore(t, one, 1)
	if err := two.Offer(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	const secrets = 4
	for round, c := range []struct {
		change func(r *sharedlog.Passed)
		read   int64
	}{
		{func(*sharedlog.Passed) {}, 0},
		{func(r *sharedlog.Passed) { slices.Reverse(r.Secrets) }, 0},
		{func(r *sharedlog.Passed) { r.Secrets = r.Secrets[1:] }, 1},
		{func(r *sharedlog.Passed) { r.Secrets[0] = []byte("of another node") }, 1},
		{func(r *sharedlog.Passed) { r.Secrets = nil }, secrets},
	} {
		var changes []storage.Change
		for i := range secrets {
			changes = append(changes, secret(fmt.Sprint("key ", i), fmt.Sprint("body ", round, i)))
		}
		mustAppend(t, l, one, changes...)
		if len(last.Secrets) != secrets {
			t.Fatalf("the segment is passed on with %d secrets, want %d", len(last.Secrets), secrets)
		}
		r := last
		r.Secrets = slices.Clone(r.Secrets)
		c.change(&r)
		log.together = make(chan struct{}, c.read)
		before := log.secrets.Load()
		if err := two.Offer(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if read := log.secrets.Load() - before; read != c.read || log.reads.Load() != 0 {
			t.Errorf("round %d: %d secrets were read from the log, want %d; segments %d times, want 0", round, read, c.read, log.reads.Load())
		}
		for i := range secrets {
			doc, err := two.Secret(t.Context(), l.ID, "kind", fmt.Sprint("key ", i))
			if want := fmt.Sprint("body ", round, i); err != nil || string(doc.Body) != want {
				t.Errorf("round %d: the secret is %q, error %v, want %q", round, doc.Body, err, want)
			}
		}
	}
}

// goneLog is a log whose database is gone.
type goneLog struct {
	sharedlog.Log
	gone atomic.Pointer[error]
}

func (l *goneLog) Head(ctx context.Context) (sharedlog.Position, error) {
	if why := l.gone.Load(); why != nil {
		return sharedlog.Position{}, *why
	}
	return l.Log.Head(ctx)
}

func (l *goneLog) Read(ctx context.Context, from uint64) iter.Seq2[sharedlog.Record, error] {
	if why := l.gone.Load(); why != nil {
		return func(yield func(sharedlog.Record, error) bool) { yield(sharedlog.Record{}, *why) }
	}
	return l.Log.Read(ctx, from)
}

// TestRefusedWithoutLog requires that a change that only the copy refuses has a kind that
// clients may repeat while the log is gone.
func TestRefusedWithoutLog(t *testing.T) {
	t.Parallel()
	log := &goneLog{Log: memorylog.New().Open()}
	d := openGate(t, log, replica.Gate{})
	info := storage.StoreInfo{ID: storage.StoreID{1}, Incarnation: storage.NewIncarnation(), Name: "name"}
	if err := d.CreateStore(t.Context(), info); err != nil {
		t.Fatal(err)
	}
	why := errors.New("no connection")
	log.gone.Store(&why)
	info.Incarnation = storage.NewIncarnation()
	wantErrors(t, d.CreateStore(t.Context(), info), "no connection", storage.ErrNoLease, why)
	log.gone.Store(nil)
	wantErrors(t, d.CreateStore(t.Context(), info), "", storage.ErrExists)
}

// TestConfirmWithoutLog requires that a read of the head of a log that is gone has a
// kind that clients may repeat, and the reason; but not if the caller gives up.
func TestConfirmWithoutLog(t *testing.T) {
	t.Parallel()
	log := &goneLog{Log: memorylog.New().Open()}
	d := openGate(t, log, replica.Gate{})
	why := errors.New("no connection")
	log.gone.Store(&why)
	wantErrors(t, d.Confirm(t.Context()), "no connection", storage.ErrNoLease, why)
	log.gone.Store(nil)
	if err := d.Confirm(t.Context()); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	left := ctx.Err()
	for _, why := range []*error{&left, &why} {
		log.gone.Store(why)
		if err := d.Confirm(ctx); !errors.Is(err, context.Canceled) || errors.Is(err, storage.ErrNoLease) {
			t.Errorf("error %v after the caller gave up, from %v", err, *why)
		}
	}
}

// keptLog is a log of which this node keeps a part.
type keptLog struct {
	sharedlog.Log
	kept  atomic.Uint64 // the last sequence of the part
	lost  atomic.Bool   // the log itself ends with that, too
	looks atomic.Uint64 // at the head of the part
	poke  chan struct{} // ends a call of Wait
}

func (l *keptLog) Wait(ctx context.Context, _ uint64) error {
	select {
	case <-l.poke:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *keptLog) Head(ctx context.Context) (sharedlog.Position, error) {
	if l.lost.Load() {
		return l.Kept().Head(ctx)
	}
	return l.Log.Head(ctx)
}

func (l *keptLog) Kept() sharedlog.Log { return keptPart{l.Log, l} }

type keptPart struct {
	sharedlog.Log
	of *keptLog
}

func (l keptPart) Head(ctx context.Context) (sharedlog.Position, error) {
	defer l.of.looks.Add(1)
	for r, err := range l.Log.Read(ctx, l.of.kept.Load()) {
		return r.Position, err
	}
	return sharedlog.Position{}, nil
}

// TestKeptBehind lets the follower read the node's part of the log while the copy has more
// segments than that, which another node has sent: the node goes on. If the log itself has
// fewer, the node stops.
func TestKeptBehind(t *testing.T) {
	t.Parallel()
	tables := memorylog.New()
	log := &keptLog{Log: tables.Open(), poke: make(chan struct{})}
	log.kept.Store(1)
	follower := openGate(t, log, replica.Gate{})
	writer := openGate(t, tables.Open(), replica.Gate{Appended: func(s sharedlog.Passed) {
		if err := follower.Offer(t.Context(), s); err != nil {
			t.Error(err)
		}
	}})
	l := newStore(t, writer, 1)
	mustAppend(t, l, writer, add("1"))
	mustAppend(t, l, writer, add("2"))
	before := log.looks.Load()
	for range 2 { // the first call of Wait may have begun earlier
		log.poke <- struct{}{}
	}
	wait.Until(t, "the follower looks at its part", func() bool { return log.looks.Load() > before })
	if err := follower.Confirm(t.Context()); err != nil {
		t.Errorf("with a part of the log that lacks segments: %v", err)
	}
	mustVerify(t, follower, l.ID, 2)
	log.lost.Store(true)
	wantErrors(t, follower.Confirm(t.Context()), "expected 3", replica.ErrStopped, storage.ErrHistory)
}
