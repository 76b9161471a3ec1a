package raftlog_test

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/ostiary/ostiary/internal/cluster/raftlog"
	"github.com/ostiary/ostiary/internal/workshop/wait"
	"github.com/ostiary/ostiary/storage"
)

// wants requires that err wraps kind, and has all texts.
func wants(t *testing.T, err, kind error, texts ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("error %v, want %v", err, kind)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error %q does not contain %q", err, text)
		}
	}
}

func (f *fleet) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	f.t.Cleanup(cancel)
	return ctx
}

// token makes a token through a node.
func (f *fleet) token(i int) []byte {
	f.t.Helper()
	secret, err := f.nodes[i].AddToken(f.ctx(), time.Hour)
	if err != nil {
		f.t.Fatal(err)
	}
	return secret
}

// addSelf makes a node add itself through the one at an address, which may have been down a
// moment ago: its connection is opened again after a pause.
func (f *fleet) addSelf(i int, through string) (err error) {
	f.t.Helper()
	wait.Until(f.t, "the node at "+through+" answers", func() bool {
		err = f.nodes[i].AddSelf(f.ctx(), through, true)
		return status.Code(err) != codes.Unavailable
	})
	return err
}

// TestTokens requires that a token lets one node join, through any node, and that a
// wrong, a used and an expired one are refused by name.
func TestTokens(t *testing.T) {
	t.Parallel()
	f := newSteadyFleet(t, 2)
	f.start(2, "")
	third := f.nodes[2]
	err := third.AddSelf(f.ctx(), f.nodes[1].address, true)
	wants(t, err, raftlog.ErrRefused, "node "+third.ID()+" was not admitted by a token")
	secret := f.token(1)
	wants(t, f.nodes[0].Admit(f.ctx(), make([]byte, raftlog.TokenBytes), third.ID(), nil), raftlog.ErrToken, "it is not known")
	for range 2 { // the answer of the first one may be lost
		if err := f.nodes[0].Admit(f.ctx(), secret, third.ID(), nil); err != nil {
			t.Fatal(err)
		}
	}
	wants(t, f.nodes[1].Admit(f.ctx(), secret, "another", nil), raftlog.ErrToken, "node "+third.ID()+" has used it")
	if err := third.AddSelf(f.ctx(), f.nodes[1].address, true); err != nil {
		t.Fatal(err)
	}
	f.append(2, 10)
	late := f.token(0)
	for _, m := range f.nodes {
		if err := m.Log().Wait(f.ctx(), 9); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range f.nodes {
		raftlog.Expire(m.Server)
	}
	wants(t, f.nodes[1].Admit(f.ctx(), late, "another", nil), raftlog.ErrToken, "it has expired at")
}

// TestWrongTokens requires that what is wrong with a token, or with who uses it, is found
// before anything is proposed: on each node, and on the leader for a node of an older
// version that does not look.
func TestWrongTokens(t *testing.T) {
	t.Parallel()
	f := newSteadyFleet(t, 2)
	used := f.token(1)
	long := strings.Repeat("x", raftlog.ServerBytesMax+1)
	if err := f.nodes[0].Admit(f.ctx(), used, "first", nil); err != nil {
		t.Fatal(err)
	}
	late := f.token(0)
	f.append(0, 1)
	f.check(2, f.append(1, 1)) // the first question to a new leader makes an entry
	before := raftlog.Committed(f.nodes[0].Server)
	for i, m := range f.nodes {
		for range 20 {
			secret := make([]byte, raftlog.TokenBytes)
			_, _ = rand.Read(secret)
			wants(t, m.Admit(f.ctx(), secret, "another", nil), raftlog.ErrToken, "it is not known")
		}
		wants(t, m.Admit(f.ctx(), used, "another", nil), raftlog.ErrToken, "node first has used it")
		wants(t, m.Admit(f.ctx(), late, long, nil), raftlog.ErrToken, "ServerBytesMax")
		wants(t, m.Admit(f.ctx(), []byte("short"), "another", nil), raftlog.ErrToken, "5 bytes, expected 16")
		wants(t, m.Admit(f.ctx(), late, "another", func() error { return storage.ErrFormat }), storage.ErrFormat)
		if err := m.Admit(f.ctx(), used, "first", nil); err != nil { // the answer of the first one may be lost
			t.Errorf("node %d: the same server again: %v", i, err)
		}
		wants(t, raftlog.ProposeHere(m.Server, map[string]any{"o": 12, "v": "another", "k": make([]byte, 32)}), raftlog.ErrToken, "it is not known")
	}
	if after := raftlog.Committed(f.nodes[0].Server); after != before {
		t.Errorf("the refusals made %d entries of the log", after-before)
	}
	wants(t, f.nodes[1].Add(f.ctx(), raftlog.Member{ID: long, Address: "127.0.0.1:1"}), raftlog.ErrRefused, "ServerBytesMax")
	wants(t, f.nodes[1].Add(f.ctx(), raftlog.Member{ID: "x", Address: strings.Repeat("x", raftlog.AddressBytesMax+1)}), raftlog.ErrRefused, "AddressBytesMax")
}

// TestTakeLead makes each node lead in turn. A follower without a vote cannot.
func TestTakeLead(t *testing.T) {
	t.Parallel()
	f := newSteadyFleet(t, 3)
	for i := 2; i >= 0; i-- {
		for range 2 {
			if err := f.nodes[i].TakeLead(f.ctx()); err != nil {
				t.Fatal(err)
			}
		}
		for !f.nodes[i].Leader() {
			if f.t.Context().Err() != nil {
				t.Fatal("the node does not lead")
			}
			time.Sleep(time.Millisecond)
		}
		f.append((i+1)%3, 1)
	}
	if err := f.nodes[0].Add(f.ctx(), raftlog.Member{ID: f.nodes[2].ID(), Address: f.nodes[2].address}); err != nil {
		t.Fatal(err)
	}
	if err := f.nodes[2].TakeLead(f.ctx()); err == nil || !strings.Contains(err.Error(), "does not vote") {
		t.Errorf("a node without a vote is to lead: %v", err)
	}
}

// TestRemoveLeader removes the leader: another node leads, nothing is lost, and the
// removed node ends with an error and cannot come back.
func TestRemoveLeader(t *testing.T) {
	t.Parallel()
	f := newSteadyFleet(t, 3)
	head := f.append(0, 5)
	gone := f.nodes[0]
	if err := f.nodes[1].Remove(f.ctx(), gone.ID()); err != nil {
		t.Fatal(err)
	}
	members, err := f.nodes[1].Members()
	if err != nil || len(members) != 2 {
		t.Fatalf("the members are %+v, error %v; want two", members, err)
	}
	l := gone.Log()
	defer l.Close()
	_, err = l.Head(f.ctx())
	wants(t, err, raftlog.ErrRefused, gone.ID()+" was removed")
	wants(t, gone.Failed(), raftlog.ErrRefused, "was removed")
	wants(t, gone.AddSelf(f.ctx(), f.nodes[1].address, true), raftlog.ErrRefused, "was removed")
	wants(t, f.nodes[1].Admit(f.ctx(), f.token(1), gone.ID(), nil), raftlog.ErrToken, "was removed")
	f.stop(0)
	f.nodes = f.nodes[1:]
	f.check(1, head)
	f.append(1, 1)
}

// TestRemoveFollower removes a follower of two nodes. The leader ends in the middle: it needs
// the follower until the removal is repeated.
func TestRemoveFollower(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	f.append(0, 1)
	gone := f.nodes[1]
	l := gone.Log()
	defer l.Close()
	if err := raftlog.Dismiss(f.nodes[0].Server, gone.ID()); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Head(f.ctx()); err != nil { // it has all that is decided
		t.Fatal(err)
	}
	for i := range 2 {
		f.stop(i)
	}
	for i := range 2 {
		f.start(i, f.nodes[i].address)
	}
	gone = f.nodes[1]
	f.check(1, f.append(1, 1))
	for range 2 {
		wait.Until(t, "the node is removed", func() bool { // it may lead, and hand that on too slowly
			return f.nodes[0].Remove(f.ctx(), gone.ID()) == nil
		})
		if members, err := f.nodes[0].Members(); err != nil || len(members) != 1 {
			t.Fatalf("the members are %+v, error %v; want one", members, err)
		}
	}
	wait.Until(t, "the node fails", func() bool { return gone.Failed() != nil })
	wants(t, gone.Failed(), raftlog.ErrRefused, gone.ID()+" was removed")
	f.stop(1)
	f.nodes = f.nodes[:1]
	_, err := raftlog.Open(raftlog.Options{Folder: gone.folder, Address: gone.address, Dial: f.dial})
	wants(t, err, raftlog.ErrRefused, gone.ID()+" was removed")
	f.check(1, f.append(0, 1))
}

// TestRemoveFollowerAtOnce removes a follower, which ends with an error although no other node
// calls it any more.
func TestRemoveFollowerAtOnce(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	f.append(0, 1)
	gone := f.nodes[2]
	if err := f.nodes[0].Remove(f.ctx(), gone.ID()); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the node fails", func() bool { return gone.Failed() != nil })
	wants(t, gone.Failed(), raftlog.ErrRefused, gone.ID()+" was removed")
}

// TestRemoveFollowerConnected removes a follower that has connections to the others, because it
// led before, and does not apply its removal. The others end the connections with the reason.
func TestRemoveFollowerConnected(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	f.append(0, 1)
	f.lead(2)
	f.lead(0)
	gone := f.nodes[2]
	goOn := raftlog.HoldMachine(gone.Server) // it does not apply its removal
	defer goOn()
	if err := f.nodes[0].Remove(f.ctx(), gone.ID()); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the node fails", func() bool { return gone.Failed() != nil })
	wants(t, gone.Failed(), raftlog.ErrRefused, gone.ID()+" was removed")
}

// TestRefused lets nodes meet that must not: of two logs, with the id of another node,
// at the address of another one, and with another version.
func TestRefused(t *testing.T) {
	t.Parallel()
	f, other := newFleet(t, 2), newFleet(t, 1)
	if f.nodes[0].Cluster() == other.nodes[0].Cluster() {
		t.Fatal("two logs have the same name")
	}
	stranger := other.nodes[0]
	err := stranger.AddSelf(f.ctx(), f.nodes[0].address, true)
	wants(t, err, raftlog.ErrRefused, "node "+stranger.ID()+" belongs to log "+stranger.Cluster(), "to log "+f.nodes[0].Cluster())
	// The address of a member has another node now, which must not get its entries.
	address := f.nodes[1].address
	f.stop(1)
	f.nodes[1].folder = filepath.Join(f.dir, "new")
	f.startIn(1, address, f.nodes[1].folder, nil)
	err = f.addSelf(0, address)
	wants(t, err, raftlog.ErrRefused, "looks for node", "at this address, and this is node "+f.nodes[1].ID())
	f.stop(1)
	f.startIn(1, address, filepath.Join(f.dir, "node1"), func(o *raftlog.Options) { raftlog.SpeakOnly(o, raftlog.VersionMax+1) })
	err = f.addSelf(1, f.nodes[0].address)
	wants(t, err, raftlog.ErrRefused, "node "+f.nodes[1].ID()+" is newer", "versions 2 to 2", "versions 1 to 1")
	f.stop(1)
	f.startIn(1, address, filepath.Join(f.dir, "node1"), nil)
	f.append(0, 1)
}

// TestNodeTwice starts the copy of a folder while the node runs: the copy is refused by
// name where it would call the node, and a folder with the id of another node is refused.
func TestNodeTwice(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	id := f.nodes[0].ID()
	_, err := raftlog.Open(raftlog.Options{Folder: filepath.Join(f.dir, "node0"), Address: "127.0.0.1:1", Dial: f.dial, First: true})
	if err == nil {
		t.Fatal("a folder was opened twice")
	}
	f.stop(0)
	_, err = raftlog.Open(raftlog.Options{Folder: filepath.Join(f.dir, "node0"), Address: "127.0.0.1:1", Dial: f.dial, ID: "another"})
	wants(t, err, raftlog.ErrRefused, id, "another")
	f.start(0, f.nodes[0].address)
	err = f.nodes[0].AddSelf(f.ctx(), f.nodes[0].address, true)
	wants(t, err, raftlog.ErrRefused, id+" calls itself")
}

// TestCopiedFolder starts the copy of a node's folder at another address while the node
// runs, whether it leads or not: the copy is refused by name, and the node goes on. A node
// that is reached at its old address and at its new one is the same.
func TestCopiedFolder(t *testing.T) {
	t.Parallel()
	f := newSteadyFleet(t, 3)
	f.append(0, 1)
	f.stop(1)
	copied := filepath.Join(f.dir, "copied")
	if err := os.CopyFS(copied, os.DirFS(f.nodes[1].folder)); err != nil {
		t.Fatal(err)
	}
	had := f.nodes[1].address
	for { // the connection to the node fails, and is not tried again at once
		c, err := f.dialFrom(0)(f.ctx(), had)
		if err != nil {
			t.Fatal(err)
		}
		if state := c.GetState(); state == connectivity.TransientFailure || !c.WaitForStateChange(f.ctx(), state) {
			break
		}
	}
	f.start(1, had)
	f.startIn(3, "", copied, func(o *raftlog.Options) { o.Heartbeat = time.Hour }) // it does not ask for votes
	for _, leads := range []int{0, 1} {
		f.lead(leads)
		err := f.nodes[3].AddSelf(f.ctx(), f.nodes[2].address, true)
		wants(t, err, raftlog.ErrRefused, "another process answers as node "+f.nodes[1].ID(), had, f.nodes[3].address, "copied")
	}
	f.stop(3)
	f.nodes = f.nodes[:3]
	f.check(1, f.append(1, 5))

	_, port, err := net.SplitHostPort(had)
	if err != nil {
		t.Fatal(err)
	}
	f.stop(1)
	f.startIn(1, had, f.nodes[1].folder, func(o *raftlog.Options) { o.Address = net.JoinHostPort("localhost", port) })
	if err := f.nodes[1].AddSelf(f.ctx(), f.nodes[0].address, true); err != nil {
		t.Errorf("another name of the same address: %v", err)
	}
	f.check(1, f.append(1, 5))
}

// TestRecover loses two of three nodes. The third one refuses to go on until
// Recover, which keeps what its folder has, and whose log the others cannot take part in.
func TestRecover(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	head := f.append(0, 100) // more than SnapshotEntries
	f.check(1, head)
	address, lost := f.nodes[2].address, f.nodes[1]
	for i := range 3 {
		f.stop(i)
	}
	folder := filepath.Join(f.dir, "node2")
	before, err := raftlog.Inspect(folder)
	if err != nil || len(before.Members) != 3 || before.Index < 100 || before.At.IsZero() {
		t.Fatalf("the folder has %+v, error %v", before, err)
	}
	f.startIn(2, address, folder, nil)
	if _, err := f.nodes[2].Log().Head(f.within(3 * time.Second)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("one of three nodes has a head: error %v", err)
	}
	f.stop(2)
	after, err := raftlog.Recover(folder, address)
	if err != nil || after.Cluster == before.Cluster || after.Index < before.Index {
		t.Fatalf("recovered %+v, error %v; before %+v", after, err, before)
	}
	f.startIn(2, address, folder, nil)
	l := f.nodes[2].Log()
	defer l.Close()
	have, err := l.Head(f.ctx())
	if err != nil || have != head {
		t.Fatalf("the head is %s, error %v; want %s", have, err, head)
	}
	c, err := l.Cluster(f.ctx())
	if err != nil || c.Epoch != 1 {
		t.Fatalf("the cluster is %+v, error %v; want epoch 1", c, err)
	}
	f.startIn(1, lost.address, filepath.Join(f.dir, "node1"), nil)
	wants(t, f.addSelf(1, address), raftlog.ErrRefused, "before or after \"ostiary node recover\"")
	f.stop(1)
	// A new node joins the recovered log, from its snapshot.
	f.nodes[0], f.nodes = f.nodes[2], f.nodes[:1]
	f.startIn(1, "", filepath.Join(f.dir, "new"), nil)
	f.add(f.nodes[1])
	f.check(1, f.append(1, 1))
}

// TestRecoverFails recovers a folder with an entry that this program cannot apply. The folder,
// which has undecided entries applied by then, does not meet the old log again.
func TestRecoverFails(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	f.append(0, 1)
	m := f.nodes[0]
	if err := raftlog.Propose(m.Server, map[string]any{"o": 200}); err == nil {
		t.Fatal("an unknown operation was applied")
	}
	f.stop(0)
	f.nodes = nil
	for range 2 {
		if _, err := raftlog.Recover(m.folder, m.address); err == nil {
			t.Fatal("a folder with an unknown entry was recovered")
		}
		_, err := raftlog.Open(raftlog.Options{Folder: m.folder, Address: m.address, Dial: f.dial})
		wants(t, err, storage.ErrDamaged, "ostiary node recover")
	}
}

// TestCorruptEntries corrupts the entries of one of three nodes while it is down: it
// does not start, by name, and the others go on.
func TestCorruptEntries(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	f.check(1, f.append(0, 5)) // the node has the entries
	f.stop(2)
	folder := filepath.Join(f.dir, "node2")
	if err := raftlog.CorruptEntries(folder); err != nil {
		t.Fatal(err)
	}
	_, err := raftlog.Open(raftlog.Options{Folder: folder, Address: f.nodes[2].address, Dial: f.dial})
	if err == nil || !strings.Contains(err.Error(), "of the consensus") {
		t.Fatalf("error %v, want one about an entry", err)
	}
	f.nodes = f.nodes[:2]
	f.append(0, 5)
}
