package lease

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
)

// This file is what a holder does for its followers: it sends them segments, grants
// them read leases, and knows what they have acknowledged.

const (
	// lateMin and lateFactor: an acknowledgement is late after lateMin, and after
	// lateFactor times the median of the follower.
	lateMin    = 50 * time.Millisecond
	lateFactor = 4
	// lateFirst is when the first acknowledgement is late. It shows how far the follower
	// is.
	lateFirst = time.Second
	// lateMax is the number of late acknowledgements in a row after which the follower
	// gets no read lease.
	lateMax = 3
	// suspension is for how many read leases.
	suspension = 10
	// sentMax bounds the segments that a follower has not acknowledged. Beyond that it
	// reads the log.
	sentMax = 4096
)

// follower is what a holder knows about a start of another node.
type follower struct {
	node Peer
	// preferred is true if it should be the holder.
	preferred bool
	// until is the time at which its read lease has certainly run out (C5).
	until time.Duration
	// acknowledged is the last sequence that it has acknowledged, and covered the head
	// that it had to show before it could use its read lease.
	acknowledged, covered uint64
	// named is the sequence that it has to show before it gets a read lease again, while
	// it has none.
	named uint64

	delays    delays
	late      int           // acknowledgements in a row that were late
	suspended time.Duration // until then it gets no read lease
	session   *session      // nil while it has no stream
}

// session is a stream of a follower. The node's mu guards its fields.
type session struct {
	queue []Message
	bytes int            // of the segments in queue
	wake  chan struct{}  // gets an element when queue grows
	sent  []sentPosition // named and not acknowledged
	last  uint64         // the last sequence that was named
	asked uint64         // the last number of a question
	// open is the question that is not answered, 0 if there is none.
	open  uint64
	came  time.Duration // when the last question was received
	shown uint64        // what the follower showed when it asked it
	ended bool          // the queue ends the stream
}

// sentPosition is a position that was named to a follower.
type sentPosition struct {
	sharedlog.Position
	at time.Duration
	// segment is true if the follower is measured by it.
	segment bool
}

// Serve serves a stream of a follower until it ends. from is the node that the link has
// authenticated. Serve fails with an error that wraps [ErrPeer] if the node may not
// follow or breaks a rule, and with one that wraps [storage.ErrNotHolder] if this node
// is not the holder that the follower means. It closes the stream.
func (n *Keeper) Serve(ctx context.Context, stream Stream, from Peer, hello Hello) error {
	defer stream.Close()
	preferred, err := n.admit(ctx, from, hello)
	if err != nil {
		return err
	}
	f, s, err := n.openSession(from, hello, preferred)
	if err != nil {
		return err
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		defer stream.Close()
		n.send(ctx, stream, s)
	}()
	for {
		m, failed := stream.Recv()
		if failed != nil {
			break
		}
		if err = n.receive(f, s, m); err != nil {
			break
		}
	}
	n.closeSession(f, s)
	stream.Close()
	<-sent
	return err
}

// admit checks a hello. It reports whether the follower should be the holder.
func (n *Keeper) admit(ctx context.Context, from Peer, hello Hello) (preferred bool, err error) {
	self := n.Self()
	switch {
	case self == (Peer{}):
		return false, fmt.Errorf("%w: it has not started", storage.ErrNotHolder)
	case hello.Version < 1:
		return false, fmt.Errorf("%w: it reads messages of version %d, expected %d or a later one", ErrPeer, hello.Version, Version)
	case hello.Cluster != n.id:
		return false, fmt.Errorf("%w: it belongs to cluster %s, this node to cluster %s", ErrPeer, hello.Cluster, n.id)
	case hello.Settings != n.settings:
		return false, fmt.Errorf("%w: node %x has other settings than its cluster: %s", ErrPeer, from.ID[:4], hello.Settings.Differences(n.settings))
	case hello.Node.start() != from.start():
		return false, fmt.Errorf("%w: node %x sends a hello of node %x", ErrPeer, from.ID[:4], hello.Node.ID[:4])
	case hello.To.start() != self.start():
		return false, fmt.Errorf("%w: it follows start %d of node %x, and this is start %d of node %x", ErrPeer, hello.To.Start, hello.To.ID[:4], self.Start, self.ID[:4])
	}
	registered, preferred, err := n.findPeer(ctx, from.ID)
	if err == nil && registered.Start != from.Start {
		err = fmt.Errorf("%w: it is start %d of node %x, and start %d is registered", ErrPeer, from.Start, from.ID[:4], registered.Start)
	}
	return preferred, err
}

// openSession registers a stream. It ends an earlier one of the same node.
func (n *Keeper) openSession(from Peer, hello Hello, preferred bool) (*follower, *session, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.hold == nil || n.hold.stopped || n.hold.lease.Epoch != hello.Epoch {
		return nil, nil, fmt.Errorf("%w of epoch %d", storage.ErrNotHolder, hello.Epoch)
	}
	f := n.followers[from.start()]
	if f == nil {
		f = &follower{}
		n.followers[from.start()] = f
	}
	for _, other := range n.followers {
		if other.node.ID == from.ID {
			other.endSession(nil)
		}
	}
	delete(n.oldLeases, from.start())
	at := n.headNow()
	f.node, f.named, f.preferred = hello.Node, at.Sequence, preferred
	f.session = &session{wake: make(chan struct{}, 1)}
	n.broadcast()
	return f, f.session, nil
}

// headNow returns the last segment that this node knows. The caller holds n.mu.
func (n *Keeper) headNow() sharedlog.Position {
	if at, _ := n.Applied(); at.Sequence > n.head.Sequence {
		n.head = at
	}
	return n.head
}

// endSession makes the stream end after a last message, which may be nil.
func (f *follower) endSession(last Message) {
	if s := f.session; s != nil {
		f.session = nil
		s.end(last)
	}
}

func (s *session) end(last Message) {
	s.queue = s.queue[:0]
	if last != nil {
		s.queue = append(s.queue, last)
	}
	s.ended = true
	s.signal()
}

func (s *session) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// closeSession forgets a stream that has ended, and the follower if it has no read
// lease.
func (n *Keeper) closeSession(f *follower, s *session) {
	now := n.opts.Clock.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	if f.session == s {
		f.session = nil
	}
	s.end(nil)
	n.forget(now)
}

// forget drops the followers that are neither connected nor leased. The caller holds
// n.mu.
func (n *Keeper) forget(now time.Duration) {
	for at, f := range n.followers {
		if f.session == nil && f.until <= now {
			delete(n.followers, at)
		}
	}
}

// send sends what is in the queue until the stream or the session ends.
func (n *Keeper) send(ctx context.Context, stream Stream, s *session) {
	for {
		n.mu.Lock()
		queue, ended := s.queue, s.ended
		s.queue, s.bytes = nil, 0
		n.mu.Unlock()
		for _, m := range queue {
			if stream.Send(m) != nil {
				return
			}
		}
		if ended {
			return
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			return
		case <-n.ctx.Done():
			return
		}
	}
}

// appended announces a segment that this node has appended.
func (n *Keeper) appended(r sharedlog.Passed) {
	now := n.opts.Clock.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	if r.Sequence > n.head.Sequence {
		n.head = r.Position
	}
	if n.hold == nil || n.hold.stopped {
		return
	}
	for _, f := range n.followers {
		if s := f.session; s != nil && r.Sequence > s.last {
			s.push(r, now, n.opts.PushBytes)
		}
	}
}

// push adds a segment to the queue. If the queue is full, it drops the segments in it,
// and tells the follower to read the log.
func (s *session) push(r sharedlog.Passed, now time.Duration, bytesMax int) {
	if r.Size() > sharedlog.SegmentBytesMax { // more than a message may have
		r.Secrets = nil
	}
	m := Segment{r}
	if s.bytes+m.Size() > bytesMax || len(s.sent) >= sentMax {
		s.queue = slices.DeleteFunc(s.queue, func(m Message) bool {
			_, is := m.(Segment)
			return is
		})
		s.bytes, s.sent, m.Bytes, m.Secrets = 0, nil, nil, nil
	}
	s.queue = append(s.queue, m)
	s.bytes += m.Size()
	s.sent = append(s.sent, sentPosition{r.Position, now, m.Bytes != nil})
	s.last = r.Sequence
	s.signal()
}

// receive handles a message of a follower.
func (n *Keeper) receive(f *follower, s *session, m Message) error {
	now := n.opts.Clock.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	if s.ended {
		return nil
	}
	switch m := m.(type) {
	case Renew:
		if m.Number != s.asked+1 {
			return fmt.Errorf("%w: its question has number %d, expected %d", ErrPeer, m.Number, s.asked+1)
		}
		s.asked, s.open, s.shown, s.came = m.Number, m.Number, m.Applied, now
		n.answer(f, s, now)
	case Applied:
		return n.acknowledgement(f, s, m.Position, now)
	case GiveUp:
		if n.hold == nil || m.Epoch != n.hold.lease.Epoch {
			return fmt.Errorf("%w: it gives up epoch %d", ErrPeer, m.Epoch)
		}
		f.until = 0
		f.endSession(nil)
		n.forget(now)
		n.broadcast()
	default:
		return fmt.Errorf("%w: a follower sends %T", ErrPeer, m)
	}
	return nil
}

// answerAll answers the questions that came while this node could grant nothing: before it
// was the holder, or while its lease was over. The caller holds n.mu.
func (n *Keeper) answerAll(now time.Duration) {
	for _, f := range n.followers {
		if f.session != nil && f.session.open > 0 {
			n.answer(f, f.session, now)
		}
	}
}

// answer answers the open question of a follower, if this node is the holder within its
// lease (C2). The caller holds n.mu.
func (n *Keeper) answer(f *follower, s *session, now time.Duration) {
	if n.role != Holder || n.hold == nil || n.hold.stopped {
		return
	}
	at := n.headNow()
	now = max(now, s.came) // the follower counts from before that
	own := n.hold.until - now
	if own <= 0 {
		return // the renewal of the lease answers it
	}
	g := Grant{Number: s.open, Epoch: n.hold.lease.Epoch, Renewals: n.hold.lease.Renewals, Head: at}
	s.open = 0
	if n.mayLease(f, s, at, now) {
		g.Duration = min(n.settings.ReadLease, own)
		if f.until <= now {
			f.covered = at.Sequence
		}
		// An earlier, longer grant may end later on a slow clock, although it ends with this one.
		f.until, f.named = max(f.until, now+stretch(g.Duration)), 0
	}
	if at.Sequence > s.last {
		s.last = at.Sequence
		s.sent = append(s.sent, sentPosition{at, now, false})
	}
	s.queue = append(s.queue, g)
	s.signal()
}

// mayLease reports whether a follower gets a read lease. One that has none must show
// the head that was named to it first, so that writes do not wait while it catches up.
func (n *Keeper) mayLease(f *follower, s *session, at sharedlog.Position, now time.Duration) bool {
	if f.until <= now && f.named == 0 {
		f.named = at.Sequence
	}
	if f.until > now && f.lateness(s, now) >= lateMax {
		f.suspended, f.late = now+suspension*n.settings.ReadLease, 0
		f.named = at.Sequence
	}
	return f.suspended <= now && s.shown >= f.named
}

// lateness returns how many acknowledgements in a row are late, with the one that has
// been missing for longest.
func (f *follower) lateness(s *session, now time.Duration) int {
	for _, p := range s.sent {
		if p.segment {
			return f.late + int((now-p.at)/f.delays.limit())
		}
	}
	return f.late
}

// acknowledgement notes that a follower shows everything up to a position. The caller
// holds n.mu.
func (n *Keeper) acknowledgement(f *follower, s *session, at sharedlog.Position, now time.Duration) error {
	i := slices.IndexFunc(s.sent, func(p sentPosition) bool { return p.Sequence == at.Sequence })
	if i < 0 {
		if at.Sequence > f.acknowledged && at.Sequence <= s.last {
			return nil // it was dropped from the queue, and a later one was named
		}
		return fmt.Errorf("%w: it acknowledges segment %s, which was not sent or is acknowledged already", ErrPeer, at)
	}
	if s.sent[i].Hash != at.Hash {
		return fmt.Errorf("%w: it acknowledges segment %s, and %s was sent", ErrPeer, at, s.sent[i].Position)
	}
	if p := s.sent[i]; p.segment {
		delay := now - p.at
		if delay > f.delays.limit() && f.until > now { // no write waits for a node without a lease
			f.late++
		} else {
			f.late = 0
		}
		f.delays.add(delay)
	}
	s.sent = slices.Delete(s.sent, 0, i+1)
	f.acknowledged = max(f.acknowledged, at.Sequence)
	n.broadcast()
	return nil
}

// acknowledge returns when every read on every node that
// arrives later sees a segment, see C4 and C5. It fails for a segment that another holder has
// appended after this one, because only that holder knows who has a read lease.
func (n *Keeper) acknowledge(ctx context.Context, sequence uint64) error {
	if n.settings.Acknowledge == sharedlog.AcknowledgeLocal {
		return nil
	}
	n.acknowledges(+1)
	defer n.acknowledges(-1)
	for {
		now := n.opts.Clock.Now()
		n.mu.Lock()
		until, last := n.unacknowledged(sequence, now), n.head.Sequence
		switch {
		case sequence > last && n.role != Taking:
			n.mu.Unlock()
			return fmt.Errorf("%w: another one has appended segments after %d, up to %d", storage.ErrNotHolder, last, sequence)
		case sequence <= last && until == 0:
			n.mu.Unlock()
			return nil
		}
		changed := n.change()
		n.mu.Unlock()
		if err := n.wait(ctx, changed, until); err != nil {
			return fmt.Errorf("segment %d is not acknowledged by all nodes: %w", sequence, err)
		}
	}
}

// acknowledges notes that a write begins or ends to wait for its acknowledgement.
func (n *Keeper) acknowledges(change int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.acknowledging += change; n.acknowledging == 0 {
		n.broadcast()
	}
}

// awaitAcknowledged returns when no write waits for its acknowledgement, or ctx ends.
func (n *Keeper) awaitAcknowledged(ctx context.Context) {
	for {
		n.mu.Lock()
		waiting, changed := n.acknowledging, n.change()
		n.mu.Unlock()
		if waiting == 0 || n.wait(ctx, changed, 0) != nil {
			return
		}
	}
}

// unacknowledged returns 0 if a segment is acknowledged, otherwise the time at which it
// is at the latest, as far as is known now. The caller holds n.mu.
func (n *Keeper) unacknowledged(sequence uint64, now time.Duration) time.Duration {
	until := n.oldLeasesUntil(now)
	for _, f := range n.followers {
		if f.until > now && max(f.acknowledged, f.covered) < sequence {
			until = max(until, f.until)
		}
	}
	return until
}

func (f *follower) status(now time.Duration) FollowerStatus {
	return FollowerStatus{Node: f.node, Connected: f.session != nil, Acknowledged: max(f.acknowledged, f.covered),
		Remaining: max(f.until-now, 0), Delay: f.delays.median(), Late: f.late, Suspended: f.suspended > now}
}

// delays are the last times between sending a segment and its acknowledgement.
type delays struct {
	last [31]time.Duration
	n    int // how many there were
}

func (d *delays) add(t time.Duration) {
	d.last[d.n%len(d.last)] = t
	d.n++
}

func (d *delays) median() time.Duration {
	some := slices.Clone(d.last[:min(d.n, len(d.last))])
	if len(some) == 0 {
		return 0
	}
	slices.Sort(some)
	return some[len(some)/2]
}

// limit returns the time after which an acknowledgement is late.
func (d *delays) limit() time.Duration {
	if d.n == 0 {
		return lateFirst
	}
	return max(lateMin, lateFactor*d.median())
}
