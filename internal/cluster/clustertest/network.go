// Package clustertest connects the nodes of a cluster inside one process, with delays
// and faults, for tests and simulations. Its main types are [Network] and [Host]. In a
// bubble of testing/synctest its time is virtual. The package uses no network.
package clustertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/lease"
	"github.com/ostiary/ostiary/storage"
)

// keepAlive is the time after which a stream ends over which nothing can be sent.
const keepAlive = time.Second

// queueMax is how many messages of a stream are under way at most.
const queueMax = 1024

// errCut is the error of a call that does not reach the other host.
var errCut = errors.New("the other host cannot be reached")

// Network connects hosts. All methods are safe for concurrent use.
type Network struct {
	// KeepAlive is the time after which a stream ends over which a message cannot be sent;
	// 0 means a second. It is set before the first host is added.
	KeepAlive time.Duration

	mu     sync.Mutex
	delays func() time.Duration // see SetDelay
	hosts  map[storage.NodeID]*Host
	cuts   map[[2]*Host]bool
	moved  chan struct{} // closed when cuts changes
}

// NewNetwork returns a network without hosts.
func NewNetwork() *Network {
	return &Network{hosts: map[storage.NodeID]*Host{}, cuts: map[[2]*Host]bool{}, moved: make(chan struct{})}
}

// Cut ends or restores the connection between two hosts.
func (n *Network) Cut(a, b *Host, cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cuts[[2]*Host{a, b}], n.cuts[[2]*Host{b, a}] = cut, cut
	close(n.moved)
	n.moved = make(chan struct{})
}

// isCut reports whether two hosts are not connected; changed is closed when that may
// have changed.
func (n *Network) isCut(a, b *Host) (cut bool, changed <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cuts[[2]*Host{a, b}], n.moved
}

// SetDelay makes each message take as long as delay returns; nil means no time.
func (n *Network) SetDelay(delay func() time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.delays = delay
}

// Delay returns how long the next message takes.
func (n *Network) Delay() time.Duration {
	n.mu.Lock()
	delay := n.delays
	n.mu.Unlock()
	if delay == nil {
		return 0
	}
	return delay()
}

// Host returns a new host.
func (n *Network) Host() *Host { return &Host{network: n, began: time.Now()} }

// Host is a machine with one node, which can be paused. It is the [lease.Link] and the
// [lease.Clock] of the node. All methods are safe for concurrent use.
type Host struct {
	// Offset is what the clock of the host shows at the beginning, and Rate how fast it is
	// compared with the time of the process; 0 means 1. They are set before the node
	// starts.
	Offset time.Duration
	Rate   float64
	// Tamper, if it is not nil, may replace or drop the messages that the host sends. It
	// returns the messages that are sent. It is set before the node starts.
	Tamper func(m lease.Message) []lease.Message

	network *Network
	began   time.Time
	node    atomic.Pointer[lease.Keeper]

	mu     sync.Mutex
	paused chan struct{} // closed when the host goes on; nil while it runs
	opened int           // see Opened
	down   atomic.Bool   // see CutLog
}

var (
	_ lease.Link  = (*Host)(nil)
	_ lease.Clock = (*Host)(nil)
)

// Attach makes a node, which has started, reachable on the host.
func (h *Host) Attach(n *lease.Keeper) {
	h.node.Store(n)
	h.network.mu.Lock()
	defer h.network.mu.Unlock()
	h.network.hosts[n.Self().ID] = h
}

// Pause stops the host, as SIGSTOP does: its clock, its connections and its log do not
// answer before Resume. Code that uses none of them goes on.
func (h *Host) Pause() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.paused == nil {
		h.paused = make(chan struct{})
	}
}

// Resume lets the host go on.
func (h *Host) Resume() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.paused != nil {
		close(h.paused)
		h.paused = nil
	}
}

// wait waits until the host runs.
func (h *Host) wait() { _ = h.waitUntil(context.Background()) }

// waitUntil waits until the host runs, or ctx ends.
func (h *Host) waitUntil(ctx context.Context) error {
	for {
		h.mu.Lock()
		paused := h.paused
		h.mu.Unlock()
		if paused == nil {
			return nil
		}
		select {
		case <-paused:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Now implements [lease.Clock]. While the host is paused it does not return.
func (h *Host) Now() time.Duration {
	h.wait()
	passed := time.Since(h.began)
	if h.Rate != 0 {
		passed = time.Duration(float64(passed) * h.Rate)
	}
	return h.Offset + passed + 1
}

// Opened returns how many streams the host has opened.
func (h *Host) Opened() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.opened
}

// find returns the host of a peer.
func (n *Network) find(p lease.Peer) *Host {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.hosts[p.ID]
}

// reach waits as long as a message from h to another host takes, and fails if it does
// not arrive.
func (h *Host) reach(ctx context.Context, to *Host) error {
	h.wait()
	select {
	case <-time.After(h.network.Delay()):
	case <-ctx.Done():
		return ctx.Err()
	}
	h.wait()
	if err := to.waitUntil(ctx); err != nil { // the caller does not wait for a host that hangs
		return err
	}
	if cut, _ := h.network.isCut(h, to); cut {
		return errCut
	}
	return nil
}

// Follow implements [lease.Link].
func (h *Host) Follow(ctx context.Context, to lease.Peer, hello lease.Hello) (lease.Stream, error) {
	other := h.network.find(to)
	if other == nil {
		return nil, fmt.Errorf("node %x: %w", to.ID[:4], errCut)
	}
	if err := h.reach(ctx, other); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	h.mu.Lock()
	h.opened++
	h.mu.Unlock()
	there, back := make(chan parcel, queueMax), make(chan parcel, queueMax)
	near := &stream{ctx: ctx, cancel: cancel, from: h, to: other, out: there, in: back}
	served, stop := context.WithCancelCause(ctx) // Serve closes its end before its error is known
	far := &stream{ctx: served, cancel: stop, from: other, to: h, out: back, in: there}
	go func() {
		err := other.node.Load().Serve(served, far, hello.Node, hello)
		stop(err)
		if err == nil {
			err = io.EOF
		}
		cancel(err)
	}()
	return near, nil
}

// HandOver implements [lease.Link].
func (h *Host) HandOver(ctx context.Context, to lease.Peer, m lease.HandOver) error {
	other := h.network.find(to)
	if other == nil {
		return fmt.Errorf("node %x: %w", to.ID[:4], errCut)
	}
	if err := h.reach(ctx, other); err != nil {
		return err
	}
	err := other.node.Load().TakeOver(ctx, h.node.Load().Self(), m)
	if lost := other.reach(ctx, h); lost != nil {
		return lost
	}
	return err
}

// parcel is a message that arrives at a time.
type parcel struct {
	message lease.Message
	due     time.Time
}

// stream is one end of a connection.
type stream struct {
	ctx      context.Context
	cancel   context.CancelCauseFunc
	from, to *Host
	out, in  chan parcel
	last     time.Time // when the last parcel arrives at the earliest
}

// Send implements [lease.Stream].
func (s *stream) Send(m lease.Message) error {
	s.from.wait()
	messages := []lease.Message{m}
	if s.from.Tamper != nil {
		messages = s.from.Tamper(m)
	}
	for _, m := range messages {
		due := time.Now().Add(s.from.network.Delay())
		if due.Before(s.last) {
			due = s.last // in order
		}
		s.last = due
		select {
		case s.out <- parcel{m, due}:
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		}
	}
	return nil
}

// Recv implements [lease.Stream].
func (s *stream) Recv() (lease.Message, error) {
	var p parcel
	select {
	case p = <-s.in:
	default:
		select {
		case p = <-s.in:
		case <-s.ctx.Done():
			select {
			case p = <-s.in:
				return p.message, nil
			default:
			}
			return nil, context.Cause(s.ctx)
		}
	}
	if wait := time.Until(p.due); wait > 0 {
		time.Sleep(wait)
	}
	s.from.wait()
	for silent := time.After(cmp.Or(s.from.network.KeepAlive, keepAlive)); ; {
		cut, changed := s.from.network.isCut(s.from, s.to)
		if !cut {
			return p.message, nil
		}
		select {
		case <-changed:
		case <-silent:
			s.cancel(errCut)
			return nil, errCut
		case <-s.ctx.Done():
			return nil, context.Cause(s.ctx)
		}
	}
}

// Close implements [lease.Stream].
func (s *stream) Close() error {
	s.cancel(io.EOF)
	return nil
}
