package lease

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
)

// This file follows a holder: it asks for read leases, applies the segments that the
// holder sends, and acknowledges what the engines of this node show.

const (
	// leasesMax bounds the answers that wait until the node shows the head that they name.
	leasesMax = 64
	// renewalsPerLease is how often a node asks in the time of a read lease.
	renewalsPerLease = 3
	// offersMax bounds the segments that wait to be applied, and PushBytes their bytes.
	// A segment that is dropped is read from the log.
	offersMax = 1024
)

// following is one stream to a holder.
type following struct {
	n      *Keeper
	stream Stream
	holder Peer
	epoch  uint64

	renewNow chan struct{} // gets an element when a question is to be asked at once
	toSend   chan struct{} // gets an element when acknowledged moves
	toShow   chan struct{} // gets an element when named or leases grow
	offers   chan sharedlog.Passed
	left     chan struct{} // closed when the read lease is to be given up
	gone     chan struct{} // closed when the stream has ended

	// The node's mu guards these.
	asked     uint64               // the number of the last question
	answered  uint64               // the number of the last one that was answered
	questions []question           // not answered, and no older than a read lease
	named     []sharedlog.Position // not shown
	last      sharedlog.Position   // the last one that was named
	leases    []readLease          // not usable before a head is shown
	shown     sharedlog.Position   // the last one of named that is shown
	offered   int                  // bytes in offers
	leasing   bool                 // a question was asked that the holder may answer with a lease
	ended     bool
}

// question is a Renew that was sent.
type question struct {
	number uint64
	sent   time.Duration // C2: before it was sent
	shown  uint64        // what the node showed
}

// readLease is a lease that can be used once the head of its grant is shown (C6).
type readLease struct {
	head  uint64
	until time.Duration // 0 for an answer without a lease
	// late is true if the node did not show the head yet when it asked.
	late bool
}

// errLeft means that the node stops following a holder because another one has the
// lease, or none.
var errLeft = errors.New("the lease has another holder")

// errNoStream means that the holder did not answer within its lease. It may hang, so
// this node looks at the lease again.
var errNoStream = errors.New("the node does not answer")

// follow follows the node that holds the lease until the stream ends, or the lease does.
// It returns how this node takes the lease over, if it does.
func (n *Keeper) follow() *takeOver {
	ctx, cancel := context.WithCancel(n.ctx)
	defer cancel()
	f, err := n.dial(ctx)
	if err != nil {
		n.note(&n.failed.holder, err)
		select {
		case t := <-n.takes:
			return t
		case <-time.After(n.nextLook()):
		case <-n.ctx.Done():
		}
		return nil
	}
	var group sync.WaitGroup
	received := make(chan error, 1)
	group.Go(func() { received <- f.receive() })
	group.Go(func() { f.send(ctx) })
	group.Go(func() { f.show(ctx) })
	group.Go(func() { f.offer(ctx) })
	t, err := n.watch(received, f)
	now := n.opts.Clock.Now()
	n.mu.Lock()
	f.ended = true
	if err != nil {
		n.failed.set(&n.failed.holder, err, now)
	}
	n.setRole(Looking, Peer{})
	leaving := n.leaving
	n.mu.Unlock()
	cancel()
	f.stream.Close()
	group.Wait()
	if close(f.gone); leaving {
		<-n.ctx.Done() // it follows no other stream
	}
	return t
}

// giveUp gives the read lease of a follower up before the node is closed (C6). It returns
// when the holder knows it, or else after the time of a holder's lease.
func (n *Keeper) giveUp(ctx context.Context) {
	if ctx.Err() != nil {
		return
	}
	n.mu.Lock()
	n.leaving = true
	f := n.follows
	if f == nil || f.ended {
		n.mu.Unlock()
		return
	}
	f.ended = true
	n.readUntil.Store(0)
	n.mu.Unlock()
	close(f.left)
	select {
	case <-f.gone: // the holder ends the stream
	case <-time.After(n.settings.HolderLease):
	case <-ctx.Done():
	}
}

// dial opens a stream to the node that holds the lease.
func (n *Keeper) dial(ctx context.Context) (*following, error) {
	n.mu.Lock()
	lease := n.lease
	n.mu.Unlock()
	if n.link == nil {
		return nil, errors.New("the node has no link to other nodes")
	}
	find, cancel := context.WithTimeout(ctx, n.settings.HolderLease)
	defer cancel()
	holder, _, err := n.findPeer(find, lease.Holder)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	n.readUntil.Store(0) // the hello gives up every lease of an earlier epoch
	n.mu.Unlock()
	// As the holder before, this node may have writes that it has not acknowledged. The next
	// holder has them, and may have acknowledged them to clients that tried again.
	if err := n.ShowOwn(find); err != nil {
		return nil, err
	}
	stream, err := n.openStream(ctx, holder, lease.Epoch)
	if err != nil {
		return nil, fmt.Errorf("follow node %x: %w", holder.ID[:4], err)
	}
	f := &following{n: n, stream: stream, holder: holder, epoch: lease.Epoch, renewNow: make(chan struct{}, 1),
		toSend: make(chan struct{}, 1), toShow: make(chan struct{}, 1), offers: make(chan sharedlog.Passed, offersMax), left: make(chan struct{}), gone: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.follows = f
	return f, nil
}

// openStream opens a stream within the time of a holder's lease.
func (n *Keeper) openStream(ctx context.Context, holder Peer, epoch uint64) (Stream, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	late := time.AfterFunc(n.settings.HolderLease, func() { cancel(errNoStream) })
	stream, err := n.link.Follow(ctx, holder, Hello{Version: Version, Cluster: n.id, Node: n.self, To: holder, Epoch: epoch, Settings: n.settings})
	if !late.Stop() {
		if err == nil {
			stream.Close()
		}
		err = errNoStream
	}
	if err != nil {
		cancel(nil)
	}
	return stream, err
}

// watch waits until the stream ends, the lease of the holder runs out, or the holder
// hands its role over to this node.
func (n *Keeper) watch(received <-chan error, f *following) (*takeOver, error) {
	for {
		select {
		case t := <-n.takes:
			return t, nil
		case err := <-received:
			return nil, err
		case <-n.ctx.Done():
			return nil, nil
		case <-time.After(n.nextLook()):
		}
		if err := n.Failed(); err != nil {
			return nil, err
		}
		if n.expiry() > 0 {
			continue
		}
		t, _ := n.glance()
		n.mu.Lock()
		moved := n.lease.Epoch != f.epoch
		n.mu.Unlock()
		if t != nil || moved {
			return t, nil
		}
	}
}

// receive handles what the holder sends until the stream ends.
func (f *following) receive() error {
	for {
		m, err := f.stream.Recv()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return err
		}
		switch m := m.(type) {
		case Segment:
			err = f.segment(m)
		case Grant:
			err = f.granted(m)
		case GiveUp:
			if m.Epoch == f.epoch {
				return nil
			}
			err = fmt.Errorf("%w: the holder gives up epoch %d, expected %d", ErrPeer, m.Epoch, f.epoch)
		default:
			err = fmt.Errorf("%w: the holder sends %T", ErrPeer, m)
		}
		if err != nil {
			return err
		}
	}
}

// name notes a position that the holder has named. The caller holds n.mu.
func (f *following) name(at sharedlog.Position) {
	if at.Sequence > f.last.Sequence {
		f.last = at
		f.named = append(f.named, at)
		if len(f.named) > sentMax { // a later one acknowledges the earlier ones
			f.named = append(f.named[:0], f.named[len(f.named)/2:]...)
		}
		signal(f.toShow)
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// segment handles a segment.
func (f *following) segment(m Segment) error {
	f.n.mu.Lock()
	defer f.n.mu.Unlock()
	if m.Position.Sequence <= f.last.Sequence {
		return fmt.Errorf("%w: the holder sends segment %s after segment %s", ErrPeer, m.Position, f.last)
	}
	f.name(m.Position)
	if m.Bytes != nil && f.offered+m.Size() <= f.n.opts.PushBytes {
		select {
		case f.offers <- m.Passed:
			f.offered += m.Size()
		default:
		}
	}
	return nil
}

// offer applies the segments. What it does not apply is read from the log.
func (f *following) offer(ctx context.Context) {
	for {
		select {
		case r := <-f.offers:
			f.n.mu.Lock()
			f.offered -= r.Size()
			f.n.mu.Unlock()
			_ = f.n.Offer(ctx, r)
		case <-ctx.Done():
			return
		}
	}
}

// granted handles an answer.
func (f *following) granted(g Grant) error {
	n := f.n
	now := n.opts.Clock.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	if g.Number <= f.answered || g.Number > f.asked {
		return fmt.Errorf("%w: the holder answers question %d, which is not open", ErrPeer, g.Number)
	}
	if f.answered == 0 {
		n.Expect()
	}
	f.answered = g.Number
	for len(f.questions) > 0 && f.questions[0].number < g.Number {
		f.questions = f.questions[1:]
	}
	if g.Epoch != f.epoch || g.Head.Sequence < f.last.Sequence || g.Head.Sequence == f.last.Sequence && g.Head != f.last {
		return fmt.Errorf("%w: the holder of epoch %d names the head %s of epoch %d after segment %s", ErrPeer, f.epoch, g.Head, g.Epoch, f.last)
	}
	l := readLease{head: g.Head.Sequence, late: true}
	if len(f.questions) > 0 && f.questions[0].number == g.Number {
		q := f.questions[0]
		f.questions = f.questions[1:]
		l.late = q.shown < l.head
		if g.Duration > 0 {
			l.until = q.sent + g.Duration
		}
	}
	if f.ended {
		return nil
	}
	n.see(sharedlog.Lease{Holder: f.holder.ID, Epoch: g.Epoch, Renewals: g.Renewals}, now)
	n.failed, n.joined = failures{}, true
	if n.role != Follower || n.answers <= now {
		n.setRole(Follower, f.holder)
	}
	n.answers = now + n.settings.HolderLease
	f.name(g.Head)
	if len(f.leases) < leasesMax {
		f.leases = append(f.leases, l)
	}
	f.use(n.Shown(), now)
	signal(f.toShow)
	return nil
}

// use makes the leases usable whose heads are shown. The caller holds n.mu.
func (f *following) use(shown uint64, now time.Duration) {
	n := f.n
	for len(f.leases) > 0 && f.leases[0].head <= shown {
		l := f.leases[0]
		f.leases = f.leases[1:]
		if f.ended {
			continue
		}
		if int64(l.until) > n.readUntil.Load() {
			n.readUntil.Store(int64(l.until))
			n.broadcast()
		}
		// The node has caught up now, or the lease was over when it came.
		if again := l.late || l.until > 0; again && int64(now) >= n.readUntil.Load() {
			signal(f.renewNow)
		}
	}
}

// show waits until what the holder has named is shown, and has it acknowledged.
func (f *following) show(ctx context.Context) {
	n := f.n
	for ctx.Err() == nil {
		n.mu.Lock()
		var target uint64
		if len(f.named) > 0 {
			target = f.named[0].Sequence
		}
		if len(f.leases) > 0 && (target == 0 || f.leases[0].head < target) {
			target = f.leases[0].head
		}
		n.mu.Unlock()
		if target == 0 {
			select {
			case <-f.toShow:
			case <-ctx.Done():
			}
			continue
		}
		if err := n.WaitShown(ctx, target); err != nil {
			return // the driver has stopped; the lease is not renewed, because the holder waits
		}
		f.shows(n.Shown())
	}
}

// shows notes what is shown.
func (f *following) shows(shown uint64) {
	now := f.n.opts.Clock.Now()
	f.n.mu.Lock()
	defer f.n.mu.Unlock()
	for len(f.named) > 0 && f.named[0].Sequence <= shown {
		f.shown = f.named[0]
		f.named = f.named[1:]
		signal(f.toSend)
	}
	f.use(shown, now)
}

// ask returns the next question, or nil if there is none now. While a question is open, which
// the holder answers once it has its lease, a read that waits for a lease needs no further one;
// a renewal asks again in time. A question that is older than a read lease can grant nothing
// any more.
func (f *following) ask(renewal bool) Message {
	n := f.n
	if n.Failed() != nil {
		return nil // it shows nothing more, so it must not have a lease
	}
	now, shown := n.opts.Clock.Now(), n.Shown()
	n.mu.Lock()
	defer n.mu.Unlock()
	for len(f.questions) > 0 && now-f.questions[0].sent >= n.settings.ReadLease {
		f.questions = f.questions[1:]
	}
	if n.leaving || !renewal && len(f.questions) > 0 {
		return nil
	}
	f.asked++
	f.questions = append(f.questions, question{f.asked, now, shown})
	if n.opts.Low() && !f.leasing { // the holder gives no lease to a node that shows nothing
		return Renew{Number: f.asked}
	}
	f.leasing = true
	return Renew{Number: f.asked, Applied: shown}
}

// abandon gives the read lease up if the node has no room and may have one (C6). It returns true
// if it has, which ends the stream: on the next one, the node asks for no lease.
func (f *following) abandon() bool {
	n := f.n
	if !n.opts.Low() {
		return false
	}
	n.mu.Lock()
	leasing := f.leasing && !f.ended
	if leasing {
		f.ended = true
		n.readUntil.Store(0)
	}
	n.mu.Unlock()
	if leasing {
		_ = f.stream.Send(GiveUp{Epoch: f.epoch}) // if that fails, the lease runs out
	}
	return leasing
}

// send asks and acknowledges until ctx or the stream ends.
func (f *following) send(ctx context.Context) {
	n := f.n
	var acknowledged uint64
	interval := n.settings.ReadLease / renewalsPerLease
	renewal := time.NewTimer(0)
	defer renewal.Stop()
	for {
		var m Message
		select {
		case <-renewal.C:
			if f.abandon() {
				return
			}
			renewal.Reset(interval)
			m = f.ask(true)
		case <-f.renewNow:
			if m = f.ask(false); m != nil {
				renewal.Reset(interval)
			}
		case <-f.toSend:
			n.mu.Lock()
			at := f.shown
			n.mu.Unlock()
			if at.Sequence > acknowledged {
				acknowledged = at.Sequence
				m = Applied{at}
			}
		case <-f.left:
			_ = f.stream.Send(GiveUp{Epoch: f.epoch}) // if that fails, the lease runs out
			return
		case <-ctx.Done():
			return
		}
		if m != nil && f.stream.Send(m) != nil {
			return
		}
	}
}
