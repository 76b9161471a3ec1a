package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/replica"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
)

// This file takes the role of the holder, keeps its lease, and gives it back.

// hold is the time in which this node has the lease of the log.
type hold struct {
	// cancel ends it.
	cancel context.CancelFunc
	// renewing holds an element while the lease is being replaced.
	renewing chan struct{}

	// The node's mu guards these.
	lease   sharedlog.Lease // as it is in the log
	until   time.Duration   // C1
	stopped bool            // the node grants and renews nothing
}

// takeOver is how a lease can be taken over.
type takeOver struct {
	// lease is the lease that is replaced.
	lease sharedlog.Lease
	// readLease is the longest one that another node may have.
	readLease time.Duration
	// leased are the read leases of a holder that hands its role over, by the times at
	// which they are over; nil if the lease has run out or is vacant, see leasesBefore.
	leased map[start]time.Duration
	// alone is true if the lease is that of an earlier start of this node and may last, see
	// [Keeper.alone].
	alone bool
	// done gets the outcome of a hand-over; nil otherwise.
	done chan error
}

// take takes a lease over and is the holder until the lease is lost or given back.
func (n *Keeper) take(t *takeOver) {
	h, err := n.takeLease(t)
	if t.done != nil {
		t.done <- err
	}
	if err != nil {
		n.pause(n.poll())
		return
	}
	ctx, cancel := context.WithCancel(n.ctx)
	defer cancel()
	n.beginHold(ctx, t, h, cancel)
	var renewals sync.WaitGroup
	renewals.Go(func() {
		defer cancel()
		n.renew(ctx, h)
	})
	if n.lead(ctx, h) == nil {
		<-ctx.Done()
	}
	cancel()
	renewals.Wait()
	n.stepDown(h)
}

// pause waits for a time, or until the node is closed.
func (n *Keeper) pause(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-n.ctx.Done():
	}
}

// takeLease replaces the lease of the log by one of this node.
func (n *Keeper) takeLease(t *takeOver) (*hold, error) {
	_, epoch := n.Applied()
	lease := sharedlog.Lease{Holder: n.self.ID, Epoch: max(t.lease.Epoch, epoch) + 1, Renewals: n.attempt(0)}
	h := &hold{renewing: make(chan struct{}, 1), lease: lease, until: n.opts.Clock.Now() + n.settings.HolderLease}
	if err := n.swapLease(n.ctx, t.lease, lease); err != nil {
		return nil, fmt.Errorf("take the lease over: %w", err)
	}
	return h, nil
}

// attempt returns a number of renewals above one that no other attempt of this node has: an
// attempt whose answer is lost is made only if the lease has its number. Otherwise it would
// count from the last attempt what an earlier one has made (C1).
func (n *Keeper) attempt(above uint64) uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.renewals = max(n.renewals, above) + 1
	return n.renewals
}

// swapLease replaces the lease of the log. If the outcome is open, it reads the lease.
func (n *Keeper) swapLease(ctx context.Context, old, next sharedlog.Lease) error {
	ctx, cancel := context.WithTimeout(ctx, n.settings.HolderLease)
	defer cancel()
	err := n.log.SwapLease(ctx, old, next)
	if err == nil || errors.Is(err, sharedlog.ErrSwap) || errors.Is(err, sharedlog.ErrLease) {
		return err
	}
	if now, readErr := n.log.Lease(ctx); readErr == nil && now == next {
		return nil
	}
	return err
}

// beginHold notes that the node has the lease. It gives up its own read lease.
func (n *Keeper) beginHold(ctx context.Context, t *takeOver, h *hold, cancel context.CancelFunc) {
	old := n.leasesBefore(ctx, t)
	now := n.opts.Clock.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.readUntil.Store(0)
	h.cancel, n.hold, n.oldLeases, n.draining = cancel, h, old, false
	n.see(h.lease, now)
	n.setRole(Taking, Peer{})
}

// leasesBefore returns the read leases of the holder before this one that may still last.
// With a lease that has run out there are none, because none ends later (C2). A holder
// that resigns does so before the end. A log without a lease is new, or was moved here with
// what an earlier holder has written. A node that was removed from the registry may have a
// read lease of an earlier start of this one, or of a holder from which a command has taken
// the role.
func (n *Keeper) leasesBefore(ctx context.Context, t *takeOver) map[start]time.Duration {
	_, epoch := n.Applied()
	isNew := t.lease == (sharedlog.Lease{}) && epoch == 0
	until := n.opts.Clock.Now() + stretch(t.readLease)
	switch {
	case t.alone && n.link != nil:
		return map[start]time.Duration{{}: until} // no node has this start, so none gives it up
	case t.leased != nil || !vacant(t.lease) || isNew:
		return t.leased
	}
	ctx, cancel := context.WithTimeout(ctx, n.settings.ReadLease)
	defer cancel()
	nodes, _, err := n.log.Nodes(ctx)
	if err != nil {
		return map[start]time.Duration{{}: until}
	}
	old := map[start]time.Duration{{}: until}
	for i := range nodes {
		if nodes[i].ID != n.self.ID {
			old[start{nodes[i].ID, nodes[i].Start}] = until
		}
		if nodes[i].ID == t.lease.Holder {
			delete(old, start{}) // its followers are registered, too
		}
	}
	return old
}

// oldLeasesUntil returns the time at which the read leases of the holder before this
// one are over, 0 if they are. The caller holds n.mu.
func (n *Keeper) oldLeasesUntil(now time.Duration) (until time.Duration) {
	for s, t := range n.oldLeases {
		if t <= now {
			delete(n.oldLeases, s)
			continue
		}
		until = max(until, t)
	}
	return until
}

// lead appends the barrier, shows everything before it, and lets the driver append.
func (n *Keeper) lead(ctx context.Context, h *hold) error {
	var at sharedlog.Position
	for {
		var err error
		if at, err = n.Barrier(ctx, h.lease.Epoch); err == nil {
			break
		}
		if ctx.Err() != nil || errors.Is(err, replica.ErrFenced) || errors.Is(err, replica.ErrStopped) {
			return err
		}
		n.note(&n.failed.log, err)
		n.pause(n.poll())
	}
	if err := n.WaitShown(ctx, at.Sequence); err != nil {
		return err
	}
	if err := n.ShowOwn(ctx); err != nil { // of an earlier time as the holder
		return err
	}
	now := n.opts.Clock.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	if h.stopped || ctx.Err() != nil {
		return context.Canceled
	}
	n.head, n.failed, n.joined = at, failures{}, true
	n.serve(h, now)
	return nil
}

// serve makes the node append and grant. The caller holds n.mu.
func (n *Keeper) serve(h *hold, now time.Duration) {
	n.writes.Store(h.lease.Epoch)
	n.readUntil.Store(int64(h.until))
	n.setRole(Holder, n.self)
	n.answerAll(now)
}

// note notes why the log or the holder cannot be reached.
func (n *Keeper) note(which *error, err error) {
	now := n.opts.Clock.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.failed.set(which, err, now)
}

// renew renews the lease until it is lost or ctx ends.
func (n *Keeper) renew(ctx context.Context, h *hold) {
	wait := n.settings.HolderLease / 3
	for {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		select {
		case h.renewing <- struct{}{}:
		case <-ctx.Done():
			return
		}
		wait = n.settings.HolderLease / 3
		err := n.Failed()
		if err != nil {
			n.resign(h)
		} else if err = n.renewOnce(ctx, h); err != nil && !lost(err) {
			wait, err = n.poll(), nil
		}
		<-h.renewing
		if err != nil {
			return
		}
	}
}

// errLost means that another node has taken the lease.
var errLost = errors.New("another node has taken the lease")

func lost(err error) bool { return errors.Is(err, errLost) }

// renewOnce renews the lease. The caller has h.renewing. It fails with errLost if
// another node has the lease.
func (n *Keeper) renewOnce(ctx context.Context, h *hold) error {
	n.mu.Lock()
	old := h.lease
	n.mu.Unlock()
	next := old
	next.Renewals = n.attempt(old.Renewals)
	begun := n.opts.Clock.Now()
	err := n.swapLease(ctx, old, next)
	if err == nil {
		n.renewed(h, next, begun+n.settings.HolderLease)
		return nil
	}
	n.note(&n.failed.log, err)
	ctx, cancel := context.WithTimeout(ctx, n.settings.HolderLease) // a log that never answers has no holder
	defer cancel()
	now, readErr := n.log.Lease(ctx)
	switch {
	case readErr != nil:
	case now.Holder != n.self.ID || now.Epoch != old.Epoch || vacant(now):
		return errLost
	default: // an earlier renewal whose answer was lost
		n.renewed(h, now, 0)
	}
	return err
}

// renewed notes a lease of this node. until is 0 if it is not known when the renewal
// was sent.
func (n *Keeper) renewed(h *hold, lease sharedlog.Lease, until time.Duration) {
	now := n.opts.Clock.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	h.lease, h.until = lease, max(h.until, until)
	n.see(lease, now)
	if until > 0 {
		n.failed.log = nil
	}
	if n.role == Holder && !h.stopped {
		n.readUntil.Store(int64(h.until))
		n.answerAll(now)
	}
	n.broadcast()
}

// resign makes the lease vacant, so that another node may take it at once. The caller
// has h.renewing.
func (n *Keeper) resign(h *hold) {
	lease := n.stop(h)
	next := sharedlog.Lease{Holder: n.self.ID, Epoch: lease.Epoch + 1}
	_ = n.swapLease(n.ctx, lease, next) // otherwise it runs out
}

// stop makes the node grant, renew and append nothing. It returns its lease.
func (n *Keeper) stop(h *hold) sharedlog.Lease {
	n.mu.Lock()
	defer n.mu.Unlock()
	h.stopped = true
	n.writes.Store(0)
	n.readUntil.Store(0)
	n.setRole(Resigned, Peer{})
	return h.lease
}

// stepDown ends the hold. The read leases that the node has granted stay known until
// they are over.
func (n *Keeper) stepDown(h *hold) {
	n.mu.Lock()
	defer n.mu.Unlock()
	h.stopped = true
	n.hold, n.draining = nil, false
	n.writes.Store(0)
	n.readUntil.Store(0)
	for _, f := range n.followers {
		f.endSession(GiveUp{Epoch: h.lease.Epoch})
	}
	n.setRole(Looking, Peer{})
}

// leave gives the role of the holder back before the node is closed.
func (n *Keeper) leave(ctx context.Context) error {
	n.mu.Lock()
	h, role := n.hold, n.role
	n.mu.Unlock()
	if h == nil {
		return nil
	}
	if role != Holder || n.HandOver(ctx, storage.NodeID{}) != nil {
		select {
		case h.renewing <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		if n.holds(h) {
			n.resign(h)
		}
		<-h.renewing
		h.cancel()
	}
	for n.holds(h) { // the followers are told
		n.mu.Lock()
		changed := n.change()
		n.mu.Unlock()
		if !n.holds(h) {
			break
		}
		if err := n.wait(ctx, changed, 0); err != nil {
			return err
		}
	}
	return nil
}

// holds reports whether a hold has not ended.
func (n *Keeper) holds(h *hold) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.hold == h
}

// HandOver hands the role of the holder over to a follower; the zero id means the one
// that has acknowledged most. It waits for the writes that have begun, see
// [Keeper.AwaitHolder]; new ones wait for the next holder. It fails with an error that
// wraps [storage.ErrNotHolder] if this node is not the holder, and with [ErrAlone] if no
// such node follows it. After another error the node is the holder again, unless
// another node has taken the lease.
func (n *Keeper) HandOver(ctx context.Context, to storage.NodeID) error {
	h, peer, err := n.drain(ctx, to)
	if err != nil {
		return err
	}
	select { // no renewal is under way from now on
	case h.renewing <- struct{}{}:
	case <-ctx.Done():
		n.undrain()
		return ctx.Err()
	}
	defer func() { <-h.renewing }()
	message := n.handOver(h, peer)
	if err = n.link.HandOver(ctx, peer, message); err == nil {
		h.cancel()
		return nil
	}
	// The other node may still try to take the lease. Once the lease is renewed, it cannot.
	if renewal := n.renewOnce(n.ctx, h); renewal != nil {
		h.cancel()
		return fmt.Errorf("hand the role over to node %x: %w", peer.ID[:4], err)
	}
	now := n.opts.Clock.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	h.stopped, n.draining = false, false
	n.serve(h, now)
	return fmt.Errorf("hand the role over to node %x: %w", peer.ID[:4], err)
}

// drain makes new writes wait, and waits for those that have begun.
func (n *Keeper) drain(ctx context.Context, to storage.NodeID) (*hold, Peer, error) {
	deadline := n.opts.Clock.Now() + n.opts.DrainWait
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.role != Holder || n.draining {
		return nil, Peer{}, fmt.Errorf("hand the role over: %w", storage.ErrNotHolder)
	}
	h := n.hold
	peer, ok := n.successor(to)
	if !ok || n.link == nil {
		return nil, Peer{}, fmt.Errorf("hand the role over: %w", ErrAlone)
	}
	n.draining = true
	for now := time.Duration(0); n.begun > 0 && now < deadline && n.hold == h; {
		changed := n.change()
		n.mu.Unlock()
		err := n.wait(ctx, changed, deadline)
		now = n.opts.Clock.Now()
		n.mu.Lock()
		if err != nil {
			n.draining = false
			n.broadcast()
			return nil, Peer{}, err
		}
	}
	if n.hold != h {
		n.draining = false
		return nil, Peer{}, fmt.Errorf("hand the role over: %w", storage.ErrNotHolder)
	}
	return h, peer, nil
}

func (n *Keeper) undrain() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.draining = false
	n.broadcast()
}

// successor returns the connected follower with an id, or the one that has acknowledged
// most. The caller holds n.mu.
func (n *Keeper) successor(to storage.NodeID) (best Peer, ok bool) {
	var most uint64
	preferred := false
	for _, f := range n.followers {
		if f.session == nil || to != (storage.NodeID{}) && to != f.node.ID {
			continue
		}
		shown := max(f.acknowledged, f.covered)
		if !ok || f.preferred && !preferred || f.preferred == preferred && shown > most {
			best, most, preferred, ok = f.node, shown, f.preferred, true
		}
	}
	return best, ok
}

// preferPause is how many holder leases pass between two attempts to hand the role over
// to a better node.
const preferPause = 5

// prefer hands the role of the holder over to a better node that has caught up, until the node
// is closed.
func (n *Keeper) prefer() {
	for n.ctx.Err() == nil {
		n.pause(n.settings.HolderLease)
		if to, ok := n.betterFollower(); ok && n.handOverInTime(to) != nil {
			n.pause(preferPause * n.settings.HolderLease)
		}
	}
}

// handOverInTime is HandOver with a time limit: the other node may hang, and this one grants
// nothing meanwhile.
func (n *Keeper) handOverInTime(to storage.NodeID) error {
	ctx, cancel := context.WithTimeout(n.ctx, n.opts.DrainWait+2*n.settings.HolderLease)
	defer cancel()
	return n.HandOver(ctx, to)
}

// betterFollower returns a node that should be the holder rather than this one, if this one is
// and may acknowledge: a preferred one, or any if this one has no room. It has a read lease,
// so it has room, and is not late.
func (n *Keeper) betterFollower() (better storage.NodeID, ok bool) {
	now, low := n.opts.Clock.Now(), n.opts.Low()
	if n.opts.Preferred && !low {
		return better, false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.role != Holder || n.draining || n.oldLeasesUntil(now) > 0 {
		return better, false
	}
	for _, f := range n.followers {
		if (low || f.preferred) && f.session != nil && f.until > now && f.late == 0 && len(f.session.sent) < preferSentMax {
			if better, ok = f.node.ID, true; f.preferred {
				break
			}
		}
	}
	return better, ok
}

// preferSentMax is how many segments a preferred node may have to acknowledge yet.
const preferSentMax = 64

// handOver stops the node and returns what the next holder needs to know. The caller
// has h.renewing.
func (n *Keeper) handOver(h *hold, to Peer) HandOver {
	lease := n.stop(h)
	now := n.opts.Clock.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	m := HandOver{Cluster: n.id, From: n.self, To: to, Lease: lease, Head: n.head}
	for s, f := range n.followers {
		if f.until > now && s != to.start() {
			m.Leased = append(m.Leased, Leased{Node: f.node, Remaining: f.until - now})
		}
	}
	for s, until := range n.oldLeases { // this node may have taken over a moment ago
		if until > now && s != to.start() {
			m.Leased = append(m.Leased, Leased{Node: Peer{ID: s.id, Start: s.number}, Remaining: until - now})
		}
	}
	return m
}

// TakeOver takes the role of the holder over from a node that hands it over. It returns
// when this node has the lease, or fails: with an error that wraps [ErrPeer] if from may
// not hand it over to this node, and with [sharedlog.ErrSwap] if the lease in the log
// is another one.
func (n *Keeper) TakeOver(ctx context.Context, from Peer, m HandOver) error {
	self := n.Self()
	switch {
	case m.Cluster != n.id:
		return fmt.Errorf("%w: it belongs to cluster %s, this node to cluster %s", ErrPeer, m.Cluster, n.id)
	case m.To.start() != self.start():
		return fmt.Errorf("%w: it hands its role over to start %d of node %x, and this is start %d of node %x", ErrPeer, m.To.Start, m.To.ID[:4], self.Start, self.ID[:4])
	case m.From.start() != from.start() || m.Lease.Holder != from.ID:
		return fmt.Errorf("%w: node %x hands over the lease of node %x", ErrPeer, from.ID[:4], m.Lease.Holder[:4])
	}
	if err := n.Failed(); err != nil {
		return err
	}
	if n.writes.Load() != 0 {
		return fmt.Errorf("%w: this node is the holder already", ErrPeer)
	}
	t := &takeOver{lease: m.Lease, leased: map[start]time.Duration{}, done: make(chan error, 1)}
	now := n.opts.Clock.Now()
	for _, l := range m.Leased {
		t.leased[l.Node.start()] = now + stretch(l.Remaining)
	}
	select {
	case n.takes <- t:
	case <-ctx.Done():
		return ctx.Err()
	case <-n.ctx.Done():
		return errClosed
	}
	select {
	case err := <-t.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-n.ctx.Done():
		return errClosed
	}
}
