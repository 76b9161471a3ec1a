package raftlog_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	consensus "github.com/hashicorp/raft"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/ostiary/ostiary/internal/cluster/raftlog"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog/sharedlogtest"
	"github.com/ostiary/ostiary/internal/workshop/wait"
	"github.com/ostiary/ostiary/storage"
)

// fleet is several nodes in one process, over loopback connections.
type fleet struct {
	t     testing.TB
	dir   string
	mu    sync.Mutex
	conns map[string]*grpc.ClientConn
	nodes []*member
	alone int // one more than the node that is cut off; 0 if there is none

	heartbeat time.Duration
	// options are those of new connections between nodes.
	options []grpc.DialOption
}

type member struct {
	*raftlog.Server
	address string
	server  *grpc.Server
	served  chan struct{} // closed when the server has ended, with its listener
	folder  string
}

// newFleet starts n nodes. On a busy machine another one may lead at any time.
func newFleet(t testing.TB, n int) *fleet { return newFleetOf(t, n, time.Second, nil) }

// newSteadyFleet starts n nodes, of which the first one leads until it hands that on, for
// tests in which no leader is lost: a lost one is missed very late.
func newSteadyFleet(t testing.TB, n int) *fleet { return newFleetOf(t, n, steady, nil) }

// steady is the heartbeat of a steady fleet.
const steady = 20 * time.Second

// newFleetOf starts n nodes. change changes the options of the first one, if it is not nil.
func newFleetOf(t testing.TB, n int, heartbeat time.Duration, change func(*raftlog.Options)) *fleet {
	f := &fleet{t: t, dir: t.TempDir(), conns: map[string]*grpc.ClientConn{}, heartbeat: heartbeat}
	t.Cleanup(f.close)
	f.startIn(0, "", f.folder(0), change)
	if err := raftlog.Elect(f.nodes[0].Server); err != nil {
		t.Fatal(err)
	}
	for i := 1; i < n; i++ {
		f.start(i, "")
	}
	for _, m := range f.nodes[1:] {
		f.add(m)
	}
	return f
}

func (f *fleet) folder(i int) string { return filepath.Join(f.dir, fmt.Sprint("node", i)) }

func (f *fleet) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	f.t.Cleanup(cancel)
	return ctx
}

func (f *fleet) add(m *member) {
	f.t.Helper()
	if err := f.nodes[0].Add(f.ctx(), raftlog.Member{ID: m.ID(), Address: m.address, Voter: true}); err != nil {
		f.t.Fatal(err)
	}
}

// lead makes a node lead.
func (f *fleet) lead(i int) {
	f.t.Helper()
	for !f.nodes[i].Leader() {
		if err := f.nodes[i].TakeLead(f.ctx()); err != nil {
			f.t.Fatal(err)
		}
	}
}

// start starts node i, at an address or at any.
func (f *fleet) start(i int, address string) {
	f.t.Helper()
	f.startIn(i, address, f.folder(i), nil)
}

// startIn starts node i in a folder. change changes its options, if it is not nil.
func (f *fleet) startIn(i int, address, folder string, change func(*raftlog.Options)) {
	f.t.Helper()
	if address == "" {
		address = "127.0.0.1:0"
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		f.t.Fatal(err)
	}
	m := &member{address: l.Addr().String(), server: grpc.NewServer(), served: make(chan struct{}), folder: folder}
	var log *slog.Logger
	if testing.Verbose() && os.Getenv("OSTIARY_RAFT_LOG") != "" {
		log = slog.Default().With("node", i)
	}
	o := raftlog.Options{Folder: m.folder, Address: m.address, Dial: f.dialFrom(i), First: i == 0, Log: log, SnapshotEntries: 64, Heartbeat: f.heartbeat}
	if _, err := os.Stat(folder); i > 0 && err != nil {
		o.Cluster = f.nodes[0].Cluster()
	}
	if change != nil {
		change(&o)
	}
	m.Server, err = raftlog.Open(o)
	if err != nil {
		f.t.Fatal(err)
	}
	m.Register(m.server)
	go func() {
		defer close(m.served)
		_ = m.server.Serve(l)
	}()
	if i < len(f.nodes) {
		f.nodes[i] = m
	} else {
		f.nodes = append(f.nodes, m)
	}
}

// stop stops node i.
func (f *fleet) stop(i int) {
	f.t.Helper()
	f.nodes[i].server.Stop()
	<-f.nodes[i].served
	if err := f.nodes[i].Close(); err != nil {
		f.t.Error(err)
	}
}

func (f *fleet) dial(ctx context.Context, address string) (*grpc.ClientConn, error) {
	return f.dialFrom(-1)(ctx, address)
}

// dialFrom returns the Dial of node i. Each node has its own connections, so that a node
// can be cut off.
func (f *fleet) dialFrom(i int) func(context.Context, string) (*grpc.ClientConn, error) {
	return func(_ context.Context, address string) (*grpc.ClientConn, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.isCut(i, address) {
			return nil, errors.New("the nodes are cut off from each other")
		}
		key := fmt.Sprint(i, " ", address)
		if c := f.conns[key]; c != nil {
			return c, nil
		}
		c, err := grpc.NewClient("passthrough:///"+address, append(f.options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
		if err == nil {
			f.conns[key] = c
		}
		return c, err
	}
}

// isCut reports whether a node does not reach an address. The caller holds f.mu.
func (f *fleet) isCut(from int, address string) bool {
	cut := f.alone > 0 && f.nodes[f.alone-1].address == address
	return f.alone > 0 && from >= 0 && (f.alone-1 == from) != cut
}

// cut cuts node i off from the others, and ends a cut if i is -1.
func (f *fleet) cut(i int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.alone = i + 1
	for key, c := range f.conns {
		c.Close()
		delete(f.conns, key)
	}
}

func (f *fleet) close() {
	for i, m := range f.nodes {
		if m.Leader() && m.Failed() == nil { // no other one is to lead
			if err := raftlog.EndConsensus(m.Server); err != nil {
				f.t.Error(err)
			}
		}
		f.stop(i)
	}
	for _, c := range f.conns {
		c.Close()
	}
}

// connection implements sharedlogtest.Corrupter.
type connection struct {
	*raftlog.Log
	fleet *fleet
}

func (c connection) Corrupt(sequence uint64, change func([]byte) []byte) {
	for _, m := range c.fleet.nodes {
		for !raftlog.Corrupt(m.Server, sequence, change) {
			time.Sleep(time.Millisecond) // the node is about to have it
		}
	}
}

// TestLog runs the suite on three nodes. Each connection is to the next one.
func TestLog(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			t.Parallel()
			sharedlogtest.Run(t, func(t *testing.T) sharedlogtest.Opener {
				f, next := newSteadyFleet(t, nodes), 0
				return func() (sharedlog.Log, error) {
					next++
					return connection{f.nodes[next%nodes].Log(), f}, nil
				}
			})
		})
	}
}

// barrier returns an empty segment that follows a position.
func barrier(t testing.TB, after sharedlog.Position, writer byte) sharedlog.Record {
	t.Helper()
	s := sharedlog.Segment{Sequence: after.Sequence + 1, Previous: after.Hash, Writer: storage.NodeID{writer}}
	r, err := s.Record()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// append appends n segments on node i, and returns the last position.
func (f *fleet) append(i, n int) (head sharedlog.Position) {
	f.t.Helper()
	l := f.nodes[i].Log()
	defer l.Close()
	ctx := f.ctx()
	head, err := l.Head(ctx)
	if err != nil {
		f.t.Fatal(err)
	}
	for range n {
		r := barrier(f.t, head, byte(i))
		if err := sharedlog.Commit(ctx, l, head, r, nil); err != nil {
			f.t.Fatal(err)
		}
		head = r.Position
	}
	return head
}

// check requires that every node reads a whole chain up to head, from a sequence on.
func (f *fleet) check(from uint64, head sharedlog.Position) {
	f.t.Helper()
	for i, m := range f.nodes {
		l := m.Log()
		var last sharedlog.Position
		next := from
		for r, err := range l.Read(f.ctx(), from) {
			if err != nil {
				f.t.Fatalf("node %d: %v", i, err)
			}
			if r.Sequence != next {
				f.t.Fatalf("node %d: segment %d, want %d", i, r.Sequence, next)
			}
			last = r.Position
			next++
		}
		if last != head {
			f.t.Fatalf("node %d ends at %s, want %s", i, last, head)
		}
		l.Close()
	}
}

// TestRestarts stops each node in turn, the leader too, while the others go on. Nothing
// that was acknowledged is lost.
func TestRestarts(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	head := f.append(0, 100) // more than SnapshotEntries
	for i := range 3 {
		f.stop(i)
		head = f.append((i+1)%3, 50)
		f.start(i, f.nodes[i].address)
		head = f.append(i, 20)
		f.check(1, head)
	}
}

// TestAllRestart stops all nodes at once.
func TestAllRestart(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	head := f.append(1, 30)
	for i := range 3 {
		f.stop(i)
	}
	for i := range 3 {
		f.start(i, f.nodes[i].address)
	}
	f.check(1, head)
	if again := f.append(2, 1); again.Sequence != head.Sequence+1 {
		t.Fatalf("segment %d follows segment %d", again.Sequence, head.Sequence)
	}
}

// TestJoin adds a node when the consensus no longer has its first entries, and the log
// no longer its first segments.
func TestJoin(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	head := f.append(0, 300)
	l := f.nodes[0].Log()
	if err := l.Trim(f.ctx(), 100); err != nil {
		t.Fatal(err)
	}
	if err := raftlog.DropEntries(f.nodes[0].Server); err != nil {
		t.Fatal(err)
	}
	f.start(1, "")
	f.add(f.nodes[1])
	f.check(100, head)
	joined := f.nodes[1].Log()
	for _, err := range joined.Read(f.ctx(), 99) {
		if !errors.Is(err, sharedlog.ErrTrimmed) {
			t.Fatalf("error %v, want ErrTrimmed", err)
		}
	}
}

// TestSnapshotOfAnotherNode reads on one node what another has put, and then loses the
// other.
func TestSnapshotOfAnotherNode(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	head := f.append(0, 2)
	parts := func(yield func([]byte, error) bool) {
		for i := range 3 {
			if !yield([]byte{byte(i)}, nil) {
				return
			}
		}
	}
	if err := f.nodes[1].Log().PutSnapshot(f.ctx(), head, parts); err != nil {
		t.Fatal(err)
	}
	at, found, err := f.nodes[2].Log().Snapshot(f.ctx())
	if err != nil || at != head {
		t.Fatalf("snapshot at %s, error %v; want %s", at, err, head)
	}
	n := 0
	for part, err := range found {
		if err != nil || len(part) != 1 || int(part[0]) != n {
			t.Fatalf("part %d is %v, error %v", n, part, err)
		}
		n++
	}
	if n != 3 {
		t.Fatalf("%d parts, want 3", n)
	}
	f.stop(1)
	if _, _, err := f.nodes[2].Log().Snapshot(f.ctx()); !errors.Is(err, sharedlog.ErrNoSnapshot) {
		t.Fatalf("error %v, want ErrNoSnapshot", err)
	}
	f.start(1, f.nodes[1].address)
}

// TestMembers removes a node, and fails to remove the last voter.
func TestMembers(t *testing.T) {
	t.Parallel()
	f := newSteadyFleet(t, 2)
	if err := f.nodes[1].Remove(f.ctx(), f.nodes[1].ID()); err != nil {
		t.Fatal(err)
	}
	members, err := f.nodes[0].Members()
	if err != nil || len(members) != 1 || members[0].ID != f.nodes[0].ID() || !members[0].Voter {
		t.Fatalf("the members are %+v, error %v; want the first node alone", members, err)
	}
	if err := f.nodes[0].Remove(f.ctx(), f.nodes[0].ID()); err == nil || !strings.Contains(err.Error(), "last voter") {
		t.Fatalf("error %v, want that it is the last voter", err)
	}
	if err := f.nodes[0].Remove(f.ctx(), f.nodes[1].ID()); err != nil {
		t.Fatalf("removing a removed node: %v", err)
	}
	if err := f.nodes[0].Add(f.ctx(), raftlog.Member{Address: "x"}); err == nil {
		t.Fatal("a node without an id was added")
	}
}

// TestNoLeader asks one of three nodes whose others are down.
func TestNoLeader(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	f.append(0, 1)
	f.stop(1)
	f.stop(2)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if _, err := f.nodes[0].Log().Head(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("error %v, want a passed deadline", err)
	}
	for i := 1; i < 3; i++ {
		f.start(i, f.nodes[i].address)
	}
	f.append(0, 1)
}

// BenchmarkAppend measures appends of one writer on one node and on three, and a bare
// write of the same size to the same disk.
func BenchmarkAppend(b *testing.B) {
	for _, nodes := range []int{1, 3} {
		b.Run(fmt.Sprint("nodes=", nodes), func(b *testing.B) {
			f := newFleet(b, nodes)
			f.append(0, 1)
			b.ResetTimer()
			f.append(0, b.N)
		})
	}
	b.Run("floor=fsync", func(b *testing.B) {
		file, err := os.Create(filepath.Join(b.TempDir(), "file"))
		if err != nil {
			b.Fatal(err)
		}
		defer file.Close()
		for b.Loop() {
			if _, err := file.Write(make([]byte, 300)); err != nil {
				b.Fatal(err)
			}
			if err := file.Sync(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// TestHolderLease: the consensus waits for its leader as the holder lease of the cluster
// asks for. A folder knows it from its log, and a new one from the options.
func TestHolderLease(t *testing.T) {
	f := newFleet(t, 1)
	start := func(lease time.Duration) {
		f.startIn(0, f.nodes[0].address, f.nodes[0].folder, func(o *raftlog.Options) { o.Heartbeat, o.HolderLease = 0, lease })
	}
	heartbeat := func(when string, want time.Duration) {
		t.Helper()
		if got := raftlog.Heartbeat(f.nodes[0].Server); got != want {
			t.Errorf("%s the heartbeat is %s, want %s", when, got, want)
		}
	}
	f.stop(0)
	start(0)
	heartbeat("without a lease,", 300*time.Millisecond)
	f.stop(0)
	start(2 * time.Second)
	heartbeat("with one of the options,", 600*time.Millisecond)
	log := f.nodes[0].Log()
	have, err := log.Cluster(f.ctx())
	if err != nil {
		t.Fatal(err)
	}
	settings := have
	settings.Settings = sharedlog.Settings{HolderLease: 3 * time.Second, ReadLease: time.Second, Acknowledge: sharedlog.AcknowledgeLeased}
	if err := log.SwapCluster(f.ctx(), have, settings); err != nil {
		t.Fatal(err)
	}
	f.stop(0)
	start(2 * time.Second)
	heartbeat("with one of the log,", 900*time.Millisecond)
}

// TestVerifyLeaderEnds asks a node whether it leads after its consensus has ended, which
// then never answers: Close ends the question.
func TestVerifyLeaderEnds(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	n := f.nodes[0].Server
	wait.Until(t, "the node leads", n.Leader)
	if err := raftlog.VerifyLeader(f.ctx(), n); err != nil {
		t.Fatal(err)
	}
	if err := raftlog.EndConsensus(n); err != nil {
		t.Fatal(err)
	}
	asked := make(chan error, 1)
	go func() { asked <- raftlog.VerifyLeader(f.ctx(), n) }()
	f.stop(0)
	select {
	case err := <-asked:
		if !strings.Contains(err.Error(), "ended") && !strings.Contains(err.Error(), "shutdown") {
			t.Errorf("the question fails with %v", err)
		}
	case <-f.ctx().Done():
		t.Error("the question is never answered")
	}
}

// TestPipelineUnread sends entries of an old leader to a node, which refuses them, and reads
// no answer, as a leader does that has seen the first one: each is still sent.
func TestPipelineUnread(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	to := f.nodes[1]
	f.append(1, 1) // a node that has heard of no leader takes entries of term 0
	p, err := raftlog.Pipeline(f.nodes[0].Server, raftlog.Member{ID: to.ID(), Address: to.address})
	if err != nil {
		t.Fatal(err)
	}
	const sends = 5
	sent := make(chan error, sends)
	go func() {
		for range sends {
			_, err := p.AppendEntries(&consensus.AppendEntriesRequest{RPCHeader: consensus.RPCHeader{ProtocolVersion: consensus.ProtocolVersionMax}}, &consensus.AppendEntriesResponse{})
			sent <- err
		}
	}()
	for i := range sends {
		select {
		case err := <-sent:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%d entries were sent, and the next one is never sent", i)
		}
	}
	for range sends {
		if answer := <-p.Consumer(); answer.Error() != nil || answer.Response().Success {
			t.Fatalf("an entry of term 0 is answered by %+v, error %v", answer.Response(), answer.Error())
		}
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestLeaderEnds appends on a node while the one that led still answers, and its consensus
// has ended: that another node ends is no reason to refuse what the next leader takes.
func TestLeaderEnds(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	head := f.append(1, 1)
	f.lead(0)
	if err := raftlog.EndConsensus(f.nodes[0].Server); err != nil {
		t.Fatal(err)
	}
	l := f.nodes[1].Log()
	defer l.Close()
	r := barrier(t, head, 1)
	if err := l.Append(f.ctx(), head, r, nil); errors.Is(err, storage.ErrClosed) { // nil if there is a next leader
		t.Errorf("a leader that has ended answers %v", err)
	}
	if err := sharedlog.Commit(f.ctx(), l, head, r, nil); err != nil {
		t.Errorf("a segment that the next leader gets: %v", err)
	}
}

// TestRestoreLarge restores a log with more secrets than one entry of the consensus has. A
// node that joins later gets them, too.
func TestRestoreLarge(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	l := f.nodes[0].Log()
	defer l.Close()
	var all []sharedlog.SecretChange
	for i := range 40 {
		body := bytes.Repeat([]byte{byte(i)}, 60_000)
		key := sharedlog.SecretKey{Store: storage.StoreID{1}, Kind: "secret", Key: fmt.Sprint(i)}
		all = append(all, sharedlog.SecretChange{SecretKey: key, Digest: sha256.Sum256(body), Body: body})
	}
	at := sharedlog.Position{Sequence: 7, Hash: storage.Hash{7}}
	if err := l.Restore(f.ctx(), sharedlog.Position{}, at, all); err != nil {
		t.Fatal(err)
	}
	f.start(1, "")
	f.add(f.nodes[1])
	other := f.nodes[1].Log()
	defer other.Close()
	if head, err := other.Head(f.ctx()); err != nil || head != at {
		t.Fatalf("the head is %s, error %v; want %s", head, err, at)
	}
	for i := range all {
		if body, err := other.Secret(f.ctx(), all[i].SecretKey, all[i].Digest); err != nil || !bytes.Equal(body, all[i].Body) {
			t.Fatalf("secret %d: %d bytes, error %v", i, len(body), err)
		}
	}
}
