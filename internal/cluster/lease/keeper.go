package lease

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/replica"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
)

// Keeper is the storage driver of one node of a cluster: its copy of the log, and the rules
// of the lease. All methods are safe for concurrent use.
//
// The rules:
//
//	C1. A holder counts its lease from before it sent the renewal.
//	C2. It grants a read lease only within its own lease, and no grant ends later.
//	    The follower counts from before it sent the question.
//	C3. A contender takes over when it has seen no renewal for 1.1 leases, of those of the
//	    node that has the longest ones: it replaces the lease, appends a barrier with the
//	    new epoch, and shows everything before it. Only then it appends and grants.
//	C4. It acknowledges nothing before the read leases of the holder before it are over.
//	    They are if that one's lease has run out. If it has resigned or handed its role
//	    over, they are after 1.1 read leases, or when every node that may have one has
//	    given it up.
//	C5. A write is acknowledged when each follower with a read lease has acknowledged its
//	    segment, or when that lease has run out: 1.1 times its duration after the
//	    question was received.
//	C6. A follower acknowledges a segment when its engines show it, and uses a read lease
//	    when they show the head that the grant names.
//	    One that is closed gives its lease up: it uses none from before it sends that.
//	    One that was the holder first shows what it has not acknowledged itself.
//	C7. A read checks the read lease after it has arrived, and before its view is chosen.
type Keeper struct {
	*replica.Driver
	log  sharedlog.Log
	opts Options
	// settings are those of the cluster. They do not change after Start.
	settings sharedlog.Settings
	link     Link // nil if there is none
	self     Peer
	id       sharedlog.ClusterID

	ctx        context.Context // ends with Leave
	cancel     context.CancelFunc
	background sync.WaitGroup
	closing    sync.Once
	closeErr   error

	// readUntil is the time of the clock until which reads may be answered from the
	// copy, 0 without a lease.
	readUntil atomic.Int64
	// writes is the epoch in which this node may append, 0 if it may not.
	writes atomic.Uint64
	// staleReads is what StaleReads returns.
	staleReads atomic.Uint64

	confirmations confirmations
	// takes has a request to take the role over from a holder that hands it over.
	takes chan *takeOver

	// mu is never held while the clock is read. A time that was read before is early, which
	// is safe: a grant then ends earlier, and a lease of another node is over later.
	mu      sync.Mutex
	changed chan struct{} // closed when a field below changes; nil if nobody waits
	role    Role
	// lease is the lease of the log as it was seen last, and seen the time at which
	// its number of renewals was seen first.
	lease   sharedlog.Lease
	seen    time.Duration
	holder  Peer          // the node that is followed
	answers time.Duration // until then it counts as reachable, see [Keeper.begin]
	failed  failures      // see Status.Failure
	joined  bool          // see Status.Joined
	follows *following    // the last stream to a holder
	leaving bool          // the node is being closed, and wants no read lease
	hold    *hold         // nil unless the node is the holder, or takes the role over
	// renewals is the highest number of renewals of a lease that this node has tried.
	renewals uint64
	// draining is true while the holder waits for the writes that have begun, and begun
	// is their number.
	draining bool
	begun    int
	// acknowledging is the number of writes that wait for their acknowledgement.
	acknowledging int
	// head is the last segment that this node has appended or named.
	head sharedlog.Position
	// followers are those that follow this node, and those that have a read lease of it.
	followers map[start]*follower
	// oldLeases are the read leases of the holder before this one, by the time at which
	// they are over.
	oldLeases map[start]time.Duration
}

// start identifies one start of a node.
type start struct {
	id     storage.NodeID
	number uint64
}

// PeerOf returns the node of a record of the registry.
func PeerOf(n *sharedlog.NodeRecord) Peer { return Peer{ID: n.ID, Start: n.Start, Address: n.Address} }

func (p Peer) start() start { return start{p.ID, p.Start} }

var (
	_ storage.Driver = (*Keeper)(nil)
	_ storage.Copy   = (*Keeper)(nil)
)

// Open returns a node that does nothing yet: until Start it may append nothing. It opens the
// copy, and fails as [replica.Open] does, which closes the log and the copy then. Close
// closes them later.
func Open(ctx context.Context, log sharedlog.Log, local replica.Local, o Options) (*Keeper, error) {
	o.DrainWait = cmp.Or(o.DrainWait, DrainWaitDefault)
	o.PushBytes = cmp.Or(o.PushBytes, PushBytesDefault)
	if o.Clock == nil {
		o.Clock = BootClock{}
	}
	if o.Low == nil {
		o.Low = func() bool { return false }
	}
	n := &Keeper{log: log, opts: o, followers: map[start]*follower{}, takes: make(chan *takeOver), confirmations: confirmations{wake: make(chan struct{}, 1)}}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	copied := o.Copy
	copied.Preferred, copied.Settings, copied.Leads = o.Preferred, &o.Settings, n.Leads
	copied.Gate = replica.Gate{MayAppend: n.mayAppend, Appended: n.appended}
	var err error
	if n.Driver, err = replica.Open(ctx, log, local, copied); err != nil {
		n.cancel()
		return nil, err
	}
	n.settings = n.Driver.Settings()
	return n, nil
}

// Start starts the goroutines of the node, which end with Leave. The link reaches other
// nodes. With nil the node neither follows a holder nor hands its role over; it reads the
// log instead. Start does not wait for a holder.
func (n *Keeper) Start(link Link) {
	cluster, self := n.Driver.Self()
	n.mu.Lock()
	n.link, n.id, n.self = link, cluster, PeerOf(&self)
	n.mu.Unlock()
	n.background.Go(n.run)
	n.background.Go(n.confirm)
	n.background.Go(n.prefer)
}

// Self returns this node. It is zero before Start.
func (n *Keeper) Self() Peer {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.self
}

// Leave ends the node's part in the cluster. A holder first hands its role over to a
// follower, or resigns if there is none, and waits for the acknowledgements of what it has
// written, which takes a read lease at most; a follower gives its read lease up, so that
// writes do not wait for it. If ctx has ended, Leave does none of it. Other calls that wait
// fail. A second call does nothing. Close closes the copy after it.
func (n *Keeper) Leave(ctx context.Context) error {
	n.closing.Do(func() {
		if n.Self() != (Peer{}) {
			n.closeErr = n.leave(ctx)
			n.awaitAcknowledged(ctx)
			n.giveUp(ctx)
		}
		n.cancel()
		n.readUntil.Store(0)
		n.writes.Store(0)
		n.background.Wait()
	})
	return n.closeErr
}

// broadcast wakes those who wait for a change. The caller holds n.mu.
func (n *Keeper) broadcast() {
	if n.changed != nil {
		close(n.changed)
		n.changed = nil
	}
}

// change returns a channel that the next broadcast closes. The caller holds n.mu.
func (n *Keeper) change() <-chan struct{} {
	if n.changed == nil {
		n.changed = make(chan struct{})
	}
	return n.changed
}

// errClosed is the error of calls after Leave.
var errClosed = fmt.Errorf("node of the cluster: %w", storage.ErrClosed)

// wait waits until a channel is closed, or a time of the clock has come; 0 never comes.
func (n *Keeper) wait(ctx context.Context, changed <-chan struct{}, until time.Duration) error {
	var due <-chan time.Time
	if until > 0 {
		t := time.NewTimer(max(until-n.opts.Clock.Now(), 0))
		defer t.Stop()
		due = t.C
	}
	select {
	case <-changed:
	case <-due:
	case <-ctx.Done():
		return ctx.Err()
	case <-n.ctx.Done():
		return errClosed
	}
	return nil
}

// run looks for the holder and follows it, or becomes it, until the node is closed.
func (n *Keeper) run() {
	for n.ctx.Err() == nil {
		t := n.look()
		if t == nil && n.ctx.Err() == nil {
			t = n.follow()
		}
		if t != nil {
			n.take(t)
		}
	}
}

// poll is the time between two looks at the lease while no holder grants anything.
func (n *Keeper) poll() time.Duration { return n.settings.HolderLease / 8 }

// look reads the lease until another node holds it, in which case it returns nil, or
// until this node may take it over.
func (n *Keeper) look() *takeOver {
	for {
		t, followed := n.glance()
		if t != nil || followed || n.ctx.Err() != nil {
			return t
		}
		select {
		case t := <-n.takes:
			return t
		case <-time.After(n.nextLook()):
		case <-n.ctx.Done():
			return nil
		}
	}
}

// glance reads the lease once. It returns how this node may take it over, if it may.
// followed is true if another node holds it.
func (n *Keeper) glance() (t *takeOver, followed bool) {
	begun := n.opts.Clock.Now()
	ctx, cancel := context.WithTimeout(n.ctx, n.settings.HolderLease)
	defer cancel()
	lease, err := n.log.Lease(ctx)
	if err == nil && lease.Moved() {
		err = sharedlog.ErrMoved
	}
	if err == nil {
		err = n.Failed()
	}
	own := false // this node held it, and there is no other one
	if err == nil && lease.Holder == n.self.ID && !vacant(lease) {
		own, err = n.alone(ctx)
	}
	longest := n.settings
	asked := err == nil && n.opts.Reluctance >= 0 && (own || n.isFree(lease, begun))
	if asked {
		longest, err = n.member(ctx)
	}
	now := n.opts.Clock.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.failed.set(&n.failed.log, err, now)
	if err != nil {
		return nil, false
	}
	if lease != n.lease { // also an older one: a database may have lost its last changes
		n.lease, n.seen = lease, max(now, 1)
	}
	if n.opts.Reluctance < 0 {
		return nil, lease.Holder != n.self.ID && !vacant(lease)
	}
	if own || asked && n.free(lease, begun, longest.HolderLease) {
		return &takeOver{lease: lease, readLease: longest.ReadLease, alone: own}, false
	}
	return nil, lease.Holder != n.self.ID
}

// free reports whether a lease that was read after begun, and lasts at most as long as a
// holder lease, may be taken over. The caller holds n.mu.
func (n *Keeper) free(lease sharedlog.Lease, begun, holderLease time.Duration) bool {
	if n.opts.Low() { // others come first, also if the lease is vacant
		return lease == n.lease && begun >= n.seen+stretch(holderLease)+max(n.opts.Reluctance, 0)+LowWait*n.settings.HolderLease
	}
	return vacant(lease) || lease == n.lease && begun >= n.seen+stretch(holderLease)+n.opts.Reluctance
}

func (n *Keeper) isFree(lease sharedlog.Lease, begun time.Duration) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.free(lease, begun, n.settings.HolderLease)
}

// alone reports whether no other node is registered. An earlier start of this node cannot
// run any more then: its data folder was locked.
func (n *Keeper) alone(ctx context.Context) (bool, error) {
	nodes, _, err := n.log.Nodes(ctx)
	return err == nil && len(nodes) == 1 && nodes[0].ID == n.self.ID, err
}

// member returns why this node may not take the lease over: what its cluster has
// changed, for example while this node was suspended. If it may, member returns the longest
// leases of the registered nodes: one that was not restarted after they were made shorter
// may still write, or have a read lease of a holder that did (C3).
func (n *Keeper) member(ctx context.Context) (longest sharedlog.Settings, err error) {
	longest = n.settings
	c, err := n.log.Cluster(ctx)
	switch {
	case err != nil:
		return longest, err
	case c.Settings != n.settings:
		return longest, fmt.Errorf("%w: %s", sharedlog.ErrSettings, n.settings.Differences(c.Settings))
	}
	if err := c.CheckFormat(); err != nil {
		return longest, err
	}
	nodes, _, err := n.log.Nodes(ctx)
	for i := range nodes {
		longest.HolderLease = max(longest.HolderLease, nodes[i].HolderLease)
		longest.ReadLease = max(longest.ReadLease, nodes[i].ReadLease)
	}
	return longest, err
}

// vacant reports whether nobody holds a lease: there was none, or the holder has
// resigned.
func vacant(l sharedlog.Lease) bool { return l.Renewals == 0 }

// see notes a lease of the log that a grant or this node's renewal rests on. The caller
// holds n.mu. The lease was renewed before now, so its holder counts from earlier.
func (n *Keeper) see(lease sharedlog.Lease, now time.Duration) {
	newer := lease.Epoch > n.lease.Epoch || lease.Epoch == n.lease.Epoch && lease.Renewals > n.lease.Renewals
	if newer || n.seen == 0 || lease.Holder != n.lease.Holder {
		n.lease, n.seen = lease, max(now, 1)
	}
}

// expiry returns how long it takes until the lease that was seen last may have run out,
// so that it must be read again; 0 if it may have.
func (n *Keeper) expiry() time.Duration {
	now := n.opts.Clock.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	return max(n.seen+stretch(n.settings.HolderLease)+max(n.opts.Reluctance, 0)-now, 0)
}

// nextLook returns how long the node waits before it looks at the lease again.
func (n *Keeper) nextLook() time.Duration {
	if left := n.expiry(); left > 0 {
		return min(left, n.poll())
	}
	return n.poll()
}

// failures are why a node could not reach the log or the holder last; nil if it could.
type failures struct {
	log, holder error
	since       time.Duration // of the clock, since one of them is not nil
}

// set sets one of the errors.
func (f *failures) set(which *error, err error, now time.Duration) {
	before := f.log != nil || f.holder != nil
	*which = err
	if !before {
		f.since = now
	}
}

// err returns an error that is not nil, if there is one.
func (f *failures) err() error {
	if f.log != nil {
		return f.log
	}
	return f.holder
}

// setRole sets the role. The caller holds n.mu.
func (n *Keeper) setRole(r Role, holder Peer) {
	n.role, n.holder = r, holder
	n.broadcast()
}

// findPeer returns the registered node with an id, and whether it should be the holder.
func (n *Keeper) findPeer(ctx context.Context, id storage.NodeID) (p Peer, preferred bool, err error) {
	nodes, _, err := n.log.Nodes(ctx)
	if err != nil {
		return Peer{}, false, err
	}
	for i := range nodes {
		if nodes[i].ID == id {
			return PeerOf(&nodes[i]), nodes[i].Preferred, nil
		}
	}
	return Peer{}, false, fmt.Errorf("%w: node %x is not registered", ErrPeer, id[:4])
}

// Holder returns the holder as far as this node knows; own is true if it is this node,
// and ok is false if none is known.
func (n *Keeper) Holder() (holder Peer, own, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch n.role {
	case Follower:
		return n.holder, false, true
	case Holder:
		return n.self, true, true
	}
	return Peer{}, false, false
}

// Leads reports whether this node is the holder and has its lease. It costs an atomic
// load, and on the holder a look at the clock.
func (n *Keeper) Leads() bool { return n.writes.Load() != 0 && n.leased() }

// AwaitHolder returns the holder, and waits until there is one. own is true if it is
// this node: a hand-over then waits until ctx ends, for Options.DrainWait at most, so
// ctx must be that of the write and must end with it. AwaitHolder fails with an error
// that wraps [storage.ErrNotHolder] when ctx ends.
func (n *Keeper) AwaitHolder(ctx context.Context) (holder Peer, own bool, err error) {
	for {
		holder, role, changed := n.begin(ctx)
		switch role {
		case Follower:
			return holder, false, nil
		case Holder:
			return holder, true, nil
		}
		if err := n.wait(ctx, changed, 0); err != nil {
			return Peer{}, false, fmt.Errorf("%w: no node has taken the role of the holder: %w", storage.ErrNotHolder, err)
		}
	}
}

// Begin is like [Keeper.AwaitHolder] for a write that another node has sent here as to the
// holder: it reports whether it is this node, and waits only while the role is handed
// over, until the next holder is known.
func (n *Keeper) Begin(ctx context.Context) bool {
	for {
		_, role, changed := n.begin(ctx)
		switch role {
		case Holder:
			return true
		case Resigned:
		default:
			return false
		}
		if n.wait(ctx, changed, 0) != nil {
			return false
		}
	}
}

// begin returns the holder and the role of this node. As the holder with a lease it counts
// a write, which ends with ctx; it is Resigned as soon as it hands its role over, and
// Looking without a lease. A follower is Looking, too, if the holder has not answered it for
// the time of a lease: a write that is sent to a node that does not answer has an outcome
// that is not known. changed is closed when that changes.
func (n *Keeper) begin(ctx context.Context) (holder Peer, role Role, changed <-chan struct{}) {
	now := n.opts.Clock.Now()
	leased := int64(now) < n.readUntil.Load() // a holder whose lease has run out may have a successor
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.role == Follower && n.answers <= now:
		return Peer{}, Looking, n.change()
	case n.role != Holder:
		return n.holder, n.role, n.change()
	case n.draining:
		return Peer{}, Resigned, n.change()
	case !leased:
		return Peer{}, Looking, n.change()
	}
	n.begun++
	context.AfterFunc(ctx, n.end)
	return n.self, Holder, nil
}

// end notes that a write has ended.
func (n *Keeper) end() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.begun--
	n.broadcast()
}

// BeforeWrite returns when this node is the holder and has its lease. It fails with an
// error that wraps storage.ErrNotHolder if another node is the holder, and when ctx
// ends. A write that the engine refuses is refused by a state that has every write that
// was acknowledged before it arrived.
func (n *Keeper) BeforeWrite(ctx context.Context) error {
	if n.Leads() {
		return nil
	}
	for {
		n.mu.Lock()
		role, holder, changed, until := n.role, n.holder, n.change(), n.poll()
		n.mu.Unlock()
		switch {
		case role == Follower:
			return fmt.Errorf("%w: node %x does", storage.ErrNotHolder, holder.ID[:4])
		case role == Holder && n.leased():
			return nil
		}
		if err := n.wait(ctx, changed, n.opts.Clock.Now()+until); err != nil {
			return fmt.Errorf("%w: no node has taken the role of the holder: %w", storage.ErrNotHolder, err)
		}
	}
}

// mayAppend is the gate of an append. It does not check the lease: if another node has
// taken the lease, its barrier comes before or after the segment. In the first case the
// segment conflicts and has too low an epoch, and in the second one the other node shows
// the segment before it grants anything.
func (n *Keeper) mayAppend(context.Context) (uint64, error) {
	epoch := n.writes.Load()
	if epoch == 0 {
		return 0, fmt.Errorf("%w: it is not the holder", storage.ErrNotHolder)
	}
	return epoch, nil
}

// leased reports whether reads may be answered from the copy now.
func (n *Keeper) leased() bool { return int64(n.opts.Clock.Now()) < n.readUntil.Load() }

// Reached returns the last sequence that an answer of this node can rest on. The driver
// counts it as shown only when its engines show every change before it, so a write that this
// node has acknowledged may be later than that. Reached fails with [replica.ErrStopped] if
// the node has stopped serving: the log may then have writes of this node that its copy
// lacks. It also fails once the node is closed, so that the errors of requests that were
// under way then are no answers to what other nodes have sent.
func (n *Keeper) Reached() (uint64, error) {
	if n.ctx.Err() != nil {
		return 0, errClosed
	}
	return n.Readable(), n.Failed()
}

// Status returns what the node knows.
func (n *Keeper) Status() Status {
	now := n.opts.Clock.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	s := Status{Self: n.self, Role: n.role, Holder: n.holder, Lease: n.lease, Failure: n.failed.err(), Joined: n.joined,
		ReadRemaining: max(time.Duration(n.readUntil.Load())-now, 0)}
	s.Shown = n.Shown()
	s.Head = max(s.Shown, n.head.Sequence)
	if n.follows != nil {
		s.Head = max(s.Head, n.follows.last.Sequence)
	}
	if err := n.Failed(); err != nil {
		s.Failure = err
	}
	if n.failed.err() != nil {
		s.Failing = max(now-n.failed.since, 0)
	}
	if n.hold != nil {
		s.Holder, s.HolderRemaining = n.self, max(n.hold.until-now, 0)
		s.Acknowledges = n.role == Holder && n.oldLeasesUntil(now) == 0
	}
	s.Followers = n.followerStatuses(now)
	return s
}

// followerStatuses returns the last start of each follower. An earlier start, which may
// have a read lease for a moment, counts for Remaining only. The caller holds n.mu.
func (n *Keeper) followerStatuses(now time.Duration) (all []FollowerStatus) {
	for _, f := range n.followers {
		all = append(all, f.status(now))
	}
	slices.SortFunc(all, func(a, b FollowerStatus) int {
		return cmp.Or(slices.Compare(a.Node.ID[:], b.Node.ID[:]), cmp.Compare(a.Node.Start, b.Node.Start))
	})
	last := all[:0]
	for _, f := range all {
		if i := len(last) - 1; i >= 0 && last[i].Node.ID == f.Node.ID {
			f.Remaining = max(f.Remaining, last[i].Remaining)
			last[i] = f
			continue
		}
		last = append(last, f)
	}
	return last
}
