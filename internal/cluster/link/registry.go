package link

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/lease"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
)

// readPause is the shortest time between two reads of the registry because of a node
// that it does not have.
const readPause = 100 * time.Millisecond

// registry is the registry of the log as it was read last, and the calls of the nodes
// in it. All methods are safe for concurrent use.
type registry struct {
	source Registry

	reading sync.Mutex // held while the registry is read

	mu    sync.Mutex
	at    time.Time // of the last read
	err   error     // of the last read
	nodes map[storage.NodeID]sharedlog.NodeRecord
	calls map[*call]struct{}
	ended bool // no call begins any more
}

// call is a call of another node that runs.
type call struct {
	from   lease.Peer
	cancel context.CancelCauseFunc
}

// read reads the registry, and ends the calls of nodes that it no longer has.
func (r *registry) read(ctx context.Context) error {
	r.reading.Lock()
	defer r.reading.Unlock()
	return r.readLocked(ctx)
}

func (r *registry) readLocked(ctx context.Context) error {
	all, _, err := r.source.Nodes(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at, r.err = time.Now(), err
	if err != nil {
		return err
	}
	r.nodes = make(map[storage.NodeID]sharedlog.NodeRecord, len(all))
	for _, n := range all {
		r.nodes[n.ID] = n
	}
	for c := range r.calls {
		if why := r.check(c.from); why != nil {
			c.cancel(why)
		}
	}
	return nil
}

// check returns why a node may not connect, or nil. The caller holds r.mu.
func (r *registry) check(p lease.Peer) error {
	n, ok := r.nodes[p.ID]
	switch {
	case !ok:
		return fmt.Errorf("%w: node %s is not registered: it was removed, or belongs to another cluster", lease.ErrPeer, p.ID)
	case n.Start != p.Start:
		return fmt.Errorf("%w: node %s has start %d, and start %d is registered: it was started again, or its data folder was copied", lease.ErrPeer, p.ID, p.Start, n.Start)
	case n.Address == "":
		return fmt.Errorf("%w: node %s is registered without an address", lease.ErrPeer, p.ID)
	}
	return nil
}

// has reports whether the registry has a node, as far as it is known.
func (r *registry) has(p lease.Peer) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.nodes == nil || r.check(p) == nil
}

// find returns the record of a node that wants to connect. It reads the registry if
// the node is not in it yet, but not more often than every readPause.
func (r *registry) find(ctx context.Context, p lease.Peer) (sharedlog.NodeRecord, error) {
	if n, err := r.known(p); err == nil {
		return n, nil
	}
	r.reading.Lock()
	defer r.reading.Unlock()
	n, err := r.known(p) // somebody else may have read it meanwhile
	if err == nil {
		return n, nil
	}
	if wait := r.pause(); wait > 0 {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return n, ctx.Err()
		}
	}
	if err := r.readLocked(ctx); err != nil {
		return n, fmt.Errorf("the registry of the log cannot be read: %w", err)
	}
	return r.known(p)
}

func (r *registry) known(p lease.Peer) (sharedlog.NodeRecord, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.nodes[p.ID], r.check(p)
}

// pause returns how long to wait before the registry may be read again.
func (r *registry) pause() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return readPause - time.Since(r.at)
}

// begin adds a call, which end removes. ctx ends, with the reason as its cause, when the
// node is removed from the registry, and when the link is closed.
func (r *registry) begin(ctx context.Context, from lease.Peer) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	c := &call{from, cancel}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		cancel(errNotReady)
		return ctx, func() {}
	}
	if r.calls == nil {
		r.calls = map[*call]struct{}{}
	}
	r.calls[c] = struct{}{}
	return ctx, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.calls, c)
		cancel(nil)
	}
}

// serves reports whether calls of other nodes run.
func (r *registry) serves() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.calls) > 0
}

// endAll ends all calls, and lets none begin.
func (r *registry) endAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	for c := range r.calls {
		c.cancel(errNotReady)
	}
}
