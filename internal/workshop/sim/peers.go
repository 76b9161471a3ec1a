package sim

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/cluster/clustertest"
	"github.com/ostiary/ostiary/internal/cluster/lease"
	"github.com/ostiary/ostiary/storage"
)

// peers is the connection of one process to the other nodes. All methods may be called
// on nil, which is the one of nodes that are not coordinated.
type peers struct {
	of     *process
	host   *clustertest.Host
	cutOff atomic.Bool // see apart
}

// newPeers returns the connection of a process. Its clock shows any time, and is up to
// 4 % slow or fast.
func (w *world) newPeers(p *process) *peers {
	n := &peers{of: p, host: w.network.Host()}
	n.host.Offset = time.Duration(w.random(int(time.Hour)))
	n.host.Rate = 0.96 + float64(w.random(81))/1000
	w.mu.Lock()
	defer w.mu.Unlock()
	w.peers = append(w.peers, n)
	return n
}

func (n *peers) attach(node *lease.Keeper) {
	if n != nil {
		n.host.Attach(node)
	}
}

// find returns the process of a peer, or an error if it does not run.
func (w *world) find(to lease.Peer) (*process, error) {
	for _, m := range w.machines {
		if p := m.process.Load(); p != nil && p.node != nil && p.node.Self() == to && !p.killed.Load() {
			return p, nil
		}
	}
	return nil, fmt.Errorf("start %d of node %x: %w", to.Start, to.ID[:4], errLink)
}

// holder returns the process that writes, as far as one does; otherwise another one.
func (w *world) holder(other *process) *process {
	for _, m := range w.machines {
		if p := m.process.Load(); p.node != nil && p.node.Leads() && !p.killed.Load() {
			return p
		}
	}
	return other
}

// Follow implements [lease.Link].
func (n *peers) Follow(ctx context.Context, to lease.Peer, hello lease.Hello) (lease.Stream, error) {
	if _, err := n.of.world.find(to); err != nil || n.of.killed.Load() {
		return nil, errLink
	}
	return n.host.Follow(ctx, to, hello)
}

// HandOver implements [lease.Link].
func (n *peers) HandOver(ctx context.Context, to lease.Peer, h lease.HandOver) error {
	if _, err := n.of.world.find(to); err != nil || n.of.killed.Load() {
		return errLink
	}
	return n.host.HandOver(ctx, to, h)
}

// apart ends or restores the connections to all other nodes.
func (n *peers) apart(apart bool) {
	if n == nil {
		return
	}
	n.cutOff.Store(apart)
	w := n.of.world
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, other := range w.peers {
		if other != n && !other.of.killed.Load() {
			w.network.Cut(n.host, other.host, apart)
		}
	}
}

// cut ends the connections for good.
func (n *peers) cut() { n.apart(true) }

func (p *process) pause() {
	p.gate.close()
	if p.peers != nil {
		p.peers.host.Pause()
	}
}

func (p *process) resume() {
	p.gate.open()
	if p.peers != nil {
		p.peers.host.Resume()
	}
}

// forward makes a call that writes, as the server does: at the node that writes, which
// is found and reached from another one. The answer arrives there when the first node
// shows what the write led to.
func (w *world) forward(ctx context.Context, p *process, call func(at *process) error) error {
	if p.node == nil {
		return call(p)
	}
	holder, own, err := p.node.AwaitHolder(ctx)
	if err != nil || own {
		if err == nil {
			err = call(p)
		}
		return err
	}
	at, err := w.find(holder)
	if err != nil {
		return err
	}
	if err := p.reach(ctx, at); err != nil {
		return err
	}
	if !at.node.Begin(ctx) {
		return fmt.Errorf("node %d does not write: %w", at.machine.number, storage.ErrNotHolder)
	}
	err = call(at)
	sequence, lost := at.node.Reached()
	if lost == nil {
		lost = at.reach(ctx, p)
	}
	if lost != nil {
		return fmt.Errorf("%w: the answer: %w", authz.ErrUncertain, lost)
	}
	if err == nil && p.driver.WaitShown(ctx, sequence) != nil {
		return fmt.Errorf("%w: the write is not shown here", authz.ErrUncertain)
	}
	return err
}

// reach waits until a message from one process arrives at another one.
func (p *process) reach(ctx context.Context, at *process) error {
	p.gate.pass()
	select {
	case <-time.After(p.world.network.Delay()):
	case <-ctx.Done():
		return ctx.Err()
	}
	p.gate.pass()
	at.gate.pass()
	if p.killed.Load() || at.killed.Load() || p.peers.cutOff.Load() || at.peers.cutOff.Load() {
		return errLink
	}
	return nil
}
