package lease

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
)

// confirmations are the reads that arrived while the node had no read lease. Those that
// arrive while the head of the log is being read share the next one.
type confirmations struct {
	mu   sync.Mutex
	next *confirmation // nil if no read waits
	wake chan struct{} // gets an element when next is set
	// failing is true since a confirmation failed or a read has waited in vain, until one
	// succeeds.
	failing bool
}

// confirmation is one look at the head of the log.
type confirmation struct {
	done chan struct{}
	err  error // set before done is closed
}

// BeforeRead returns when this node shows every write that was acknowledged before the
// call: at once if it has a read lease, otherwise after it has got one or has caught up
// with the head of the log. After Options.ReadWait it fails with an error that wraps
// [storage.ErrNoLease], unless Options.StaleReads is set. See C7.
func (n *Keeper) BeforeRead(ctx context.Context) error {
	if n.leased() || n.settings.Acknowledge == sharedlog.AcknowledgeLocal {
		return nil
	}
	c, failing := n.confirmations.join()
	if failing && n.opts.StaleReads {
		n.staleReads.Add(1)
		return nil
	}
	wait := n.readWait()
	late := time.NewTimer(wait)
	defer late.Stop()
	var err error
	select {
	case <-c.done:
		err = c.err
	case <-late.C: // the confirmation, or the one before it, has not ended
		n.confirmations.overdue()
		err = fmt.Errorf("%w: neither a read lease nor the head of the log for %s", storage.ErrNoLease, wait)
	case <-ctx.Done():
		return ctx.Err()
	case <-n.ctx.Done():
		return errClosed
	}
	if err != nil && n.opts.StaleReads {
		n.staleReads.Add(1)
		return nil
	}
	return err
}

// readWait returns Options.ReadWait, or its default.
func (n *Keeper) readWait() time.Duration { return cmp.Or(n.opts.ReadWait, 2*n.settings.HolderLease) }

// StaleReads returns how many reads this node has answered although its copy may lack
// acknowledged writes, see Options.StaleReads. It costs an atomic load.
func (n *Keeper) StaleReads() uint64 { return n.staleReads.Load() }

// overdue notes that a read has waited as long as it may: the next one of a node with stale
// reads does not wait as well. The confirmation that is under way then decides again.
func (c *confirmations) overdue() {
	c.mu.Lock()
	c.failing = true
	c.mu.Unlock()
}

// join returns the next confirmation, which begins later.
func (c *confirmations) join() (next *confirmation, failing bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == nil {
		c.next = &confirmation{done: make(chan struct{})}
		signal(c.wake)
	}
	return c.next, c.failing
}

// confirm makes confirmations until the node is closed.
func (n *Keeper) confirm() {
	c := &n.confirmations
	for {
		select {
		case <-c.wake:
		case <-n.ctx.Done():
			return
		}
		c.mu.Lock()
		this := c.next
		c.next = nil
		c.mu.Unlock()
		this.err = n.confirmOnce()
		c.mu.Lock()
		c.failing = this.err != nil
		c.mu.Unlock()
		close(this.done)
	}
}

// confirmOnce returns when the node has a read lease, or shows what the log had at the
// time of the call.
func (n *Keeper) confirmOnce() error {
	ctx, cancel := context.WithTimeout(n.ctx, n.readWait())
	defer cancel()
	read := make(chan error, 1)
	var again <-chan time.Time
	readHead := func() { n.background.Go(func() { read <- n.readHead(ctx) }) }
	readHead()
	n.mu.Lock()
	if f := n.follows; f != nil && !f.ended {
		signal(f.renewNow)
	}
	n.mu.Unlock()
	var failure error
	for {
		n.mu.Lock()
		changed := n.change()
		n.mu.Unlock()
		if n.leased() {
			return nil
		}
		select {
		case <-changed:
		case err := <-read:
			if err == nil {
				return nil
			}
			failure, again = err, time.After(n.poll())
		case <-again:
			readHead()
		case <-ctx.Done():
			if failure == nil {
				failure = ctx.Err()
			}
			return fmt.Errorf("%w: %w", storage.ErrNoLease, failure)
		}
	}
}

// readHead returns when the node shows what the log had at the time of the call.
func (n *Keeper) readHead(ctx context.Context) error {
	if err := n.Confirm(ctx); err != nil {
		return err
	}
	if err := n.ShowOwn(ctx); err != nil { // another holder may have acknowledged it
		return err
	}
	at, _ := n.Applied()
	return n.WaitShown(ctx, at.Sequence)
}
