package link

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/lease"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/internal/workshop/wait"
	"github.com/ostiary/ostiary/storage"
)

// TestMessages requires that every message arrives as it was sent, in both directions
// and between all of three nodes.
func TestMessages(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	nodes := []*node{r.start(t, 1), r.start(t, 2), r.start(t, 3)}
	at := sharedlog.Position{Sequence: 1 << 60, Hash: storage.Hash{9, 8, 7}}
	up := []lease.Message{lease.Renew{Number: 1, Applied: 2}, lease.Applied{Position: at}, lease.Renew{Number: 1 << 63}, lease.GiveUp{Epoch: 7}, lease.GiveUp{}}
	down := []lease.Message{
		lease.Segment{Passed: sharedlog.Passed{Record: sharedlog.Record{Position: at, Bytes: []byte("segment")}, Secrets: [][]byte{[]byte("secret"), []byte("another")}}}, lease.Segment{Passed: sharedlog.Passed{Record: sharedlog.Record{Position: at}}},
		lease.Segment{Passed: sharedlog.Passed{Record: sharedlog.Record{Position: at, Bytes: bytes.Repeat([]byte{1}, sharedlog.SegmentBytesMax)}}},
		lease.Grant{Number: 3, Epoch: 4, Renewals: 5, Head: at, Duration: 700 * time.Millisecond}, lease.Grant{Number: 4}, lease.GiveUp{Epoch: 6}, lease.GiveUp{},
	}
	for _, from := range nodes {
		for _, to := range nodes {
			if from == to {
				continue
			}
			stream, served := from.follow(t, to)
			if served.from != from.self || !reflect.DeepEqual(served.hello, from.hello(to)) {
				t.Errorf("the holder has %+v, %+v, want %+v, %+v", served.from, served.hello, from.self, from.hello(to))
			}
			pass(t, stream, served, up)
			pass(t, served, stream, down)
			if err := stream.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := served.Recv(); err == nil {
				t.Error("the holder's end is open after Close of the other one")
			}
			if _, err := stream.Recv(); !errors.Is(err, errClosed) {
				t.Errorf("Recv after Close: %v", err)
			}
		}
	}
	for _, h := range nodes[0].Health() {
		if !h.Connected || h.Failing {
			t.Errorf("health %+v, want a connection", h)
		}
	}
}

func pass(t *testing.T, from, to lease.Stream, messages []lease.Message) {
	t.Helper()
	go func() {
		for _, m := range messages {
			if err := from.Send(m); err != nil {
				t.Errorf("sending a %T: %v", m, err)
			}
		}
	}()
	for _, want := range messages {
		have, err := to.Recv()
		if err != nil {
			t.Fatalf("receiving a %T: %v", want, err)
		}
		if !reflect.DeepEqual(have, want) {
			t.Errorf("received %.200v, want %.200v", have, want)
		}
	}
}

// TestServeEnds requires that the follower gets the error with which the holder ends a
// stream, and that Close of the holder's end wakes the follower.
func TestServeEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	one, two := r.start(t, 1), r.start(t, 2)
	stream, served := two.follow(t, one)
	served.end <- errors.Join(lease.ErrPeer, errors.New("sequence 5 was not sent"))
	_, err := stream.Recv()
	wants(t, err, lease.ErrPeer, "sequence 5 was not sent", one.self.ID.String(), one.self.Address)
	stream, served = two.follow(t, one)
	received := make(chan error, 1)
	go func() {
		_, err := served.Recv()
		received <- err
	}()
	if err := served.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err == nil {
		t.Error("the follower's end is open")
	}
	if err := <-received; err == nil {
		t.Error("the holder's end is open")
	}
	if err := served.Send(lease.GiveUp{}); err == nil {
		t.Error("Send after Close")
	}
}

func TestHandOver(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	one, two := r.start(t, 1), r.start(t, 2)
	want := lease.HandOver{
		Cluster: r.id, From: one.self, To: two.self, Lease: sharedlog.Lease{Holder: one.self.ID, Epoch: 3, Renewals: 4},
		Head:   sharedlog.Position{Sequence: 5, Hash: storage.Hash{6}},
		Leased: []lease.Leased{{Node: two.self, Remaining: time.Second}, {Node: lease.Peer{ID: storage.NodeID{9}, Start: 2}, Remaining: -1}},
	}
	two.takeOver = func(have lease.HandOver) error {
		if !reflect.DeepEqual(have, want) {
			t.Errorf("received %+v, want %+v", have, want)
		}
		return nil
	}
	if err := one.HandOver(t.Context(), two.self, want); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []error{lease.ErrPeer, sharedlog.ErrSwap} {
		two.takeOver = func(lease.HandOver) error { return kind }
		wants(t, one.HandOver(t.Context(), two.self, want), kind)
	}
	two.takeOver = func(lease.HandOver) error { t.Error("a hand-over in the name of another node"); return nil }
	want.From = two.self
	wants(t, one.HandOver(t.Context(), two.self, want), lease.ErrPeer, "names start 1 of node "+two.self.ID.String())
	two.Attach(nil, nil)
	wants(t, one.HandOver(t.Context(), two.self, want), nil, "names start 1")
	want.From = one.self
	wants(t, one.HandOver(t.Context(), two.self, want), errNotReady)
}

// TestReconnect requires that a node finds another one again that was started again at
// the same address, and that the old start of it is refused.
func TestReconnect(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	one, two := r.start(t, 1), r.start(t, 2)
	stream, _ := two.follow(t, one)
	address := one.self.Address
	if err := one.Link.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := stream.Recv()
	wants(t, err, nil)
	wants(t, two.refusal(t, one), nil, address)
	again := r.start(t, 1, change{options: func(o *Options) {
		o.Listener.Close()
		o.Listener = listenAgain(t, address)
		o.Self = lease.Peer{ID: o.Self.ID, Start: 2, Address: address}
	}})
	wait.Until(t, "the new start refuses who looks for the old one", func() bool { return errors.Is(two.refusal(t, one), lease.ErrPeer) })
	wants(t, two.refusal(t, one), lease.ErrPeer, "looks for start 1 of this node, and this is start 2")
	stream, served := two.follow(t, again)
	pass(t, stream, served, []lease.Message{lease.Renew{Number: 1}})
}

// TestReload requires that certificates of a new authority are used without a restart,
// and that a connection ends when its authority is no longer trusted.
func TestReload(t *testing.T) {
	t.Parallel()
	r, next := newRig(t), newRig(t)
	one, two := r.start(t, 1, change{ca: next.ca}), r.start(t, 2, change{ca: next.ca})
	stream, served := two.follow(t, one)
	one.put(t, r.pair(t, next.authority, "127.0.0.1"), append(append([]byte{}, r.ca...), next.ca...))
	if err := one.Reload(); err != nil {
		t.Fatal(err)
	}
	pass(t, stream, served, []lease.Message{lease.Renew{Number: 1}})
	one.put(t, r.pair(t, next.authority, "127.0.0.1"), next.ca)
	if err := one.Reload(); err != nil {
		t.Fatal(err)
	}
	_, err := stream.Recv()
	wants(t, err, nil)
	if !one.refused.have("signed by", r.authority.Name()) {
		t.Errorf("refused: %s", &one.refused)
	}
	two.put(t, r.pair(t, next.authority, "127.0.0.1"), next.ca)
	if err := two.Reload(); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "a new connection with new certificates", func() bool {
		stream, err := two.Follow(t.Context(), one.self, two.hello(one))
		if err != nil {
			return false
		}
		go func() { (<-one.served).Send(lease.GiveUp{Epoch: 1}) }()
		_, err = stream.Recv()
		return err == nil
	})
}

// TestRemoved requires that the calls of a node end when it is removed, that it is
// refused from then on, and that it may come back with a new start.
func TestRemoved(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	one, two := r.start(t, 1), r.start(t, 2)
	stream, _ := two.follow(t, one)
	if err := r.log.Forget(t.Context(), two.self.ID); err != nil {
		t.Fatal(err)
	}
	one.endRemoved()
	_, err := stream.Recv()
	wants(t, err, lease.ErrPeer, "node "+two.self.ID.String()+" is not registered")
	wants(t, two.refusal(t, one), lease.ErrPeer, "is not registered: it was removed")
	r.register(t, two.self)
	stream, _ = two.follow(t, one)
	later := two.self
	later.Start = 2
	r.register(t, later)
	one.refreshNow()
	_, err = stream.Recv()
	wants(t, err, lease.ErrPeer, "has start 1, and start 2 is registered")
}

// TestClose requires that Close returns while streams are open, and that a closed link
// opens none.
func TestClose(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	one, two := r.start(t, 1), r.start(t, 2)
	stream, _ := two.follow(t, one)
	back, _ := one.follow(t, two)
	if err := one.Link.Close(); err != nil {
		t.Fatal(err)
	}
	for _, s := range []lease.Stream{stream, back} {
		if _, err := s.Recv(); err == nil {
			t.Error("a stream is open")
		}
	}
	if _, err := one.Follow(context.Background(), two.self, one.hello(two)); !errors.Is(err, errNotReady) {
		t.Errorf("Follow after Close: %v", err)
	}
}
