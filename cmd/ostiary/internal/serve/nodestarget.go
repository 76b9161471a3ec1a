package serve

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/forward"
	"github.com/ostiary/ostiary/internal/cluster/lease"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
)

// A request that waits for a holder that no longer is the holder, because its process
// hangs for example, is given up after lostTicks looks at the holder, lostTick apart. The
// server then sends it to the next holder, which looks for what it has written already.
// The answers of a holder that has handed its role over arrive before that.
const (
	lostTick  = 100 * time.Millisecond
	lostTicks = 3
)

// errLost is the error of a request that was given up.
var errLost = errors.New("the node is no longer the one that writes")

// targets are the nodes to which requests are passed on now. All methods are safe for
// concurrent use.
type targets struct {
	mu  sync.Mutex
	all map[lease.Peer]*passing
}

// passing are the requests that are passed on to a node.
type passing struct {
	lost   context.Context // ends when the node is no longer the holder
	cancel context.CancelCauseFunc
	count  int // of requests
	looks  int // at which another node was the holder, in a row
}

// begin adds a request to a node. Its context ends when the node is no longer the
// holder. The caller calls end.
func (t *targets) begin(ctx context.Context, to lease.Peer) (_ context.Context, end func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.all[to]
	if p == nil {
		p = &passing{}
		p.lost, p.cancel = context.WithCancelCause(context.Background())
		if t.all == nil {
			t.all = map[lease.Peer]*passing{}
		}
		t.all[to] = p
	}
	p.count++
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(p.lost, func() { cancel(errLost) })
	return ctx, func() {
		stop()
		cancel(nil)
		t.mu.Lock()
		defer t.mu.Unlock()
		if p.count--; p.count == 0 && t.all[to] == p {
			delete(t.all, to)
			p.cancel(nil)
		}
	}
}

// look notes that a node is the holder now.
func (t *targets) look(holder lease.Peer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for to, p := range t.all {
		if p.looks++; to == holder {
			p.looks = 0
		}
		if p.looks >= lostTicks {
			delete(t.all, to)
			p.cancel(errLost)
		}
	}
}

// watchHolder gives up requests to nodes that are no longer the holder, and logs what
// changes, until ctx ends.
func (m *member) watchHolder(ctx context.Context) {
	tick := time.NewTicker(lostTick)
	defer tick.Stop()
	var before lease.Status
	var replica sharedlog.ReplicaStatus
	for {
		select {
		case <-tick.C:
			if holder, _, known := m.Rules.Holder(); known {
				m.targets.look(holder)
			}
			before = m.logChanges(before)
			replica = m.logReplica(replica)
		case <-ctx.Done():
			return
		}
	}
}

// replicaOfLog returns what was read from the replica of the log's database, if there is
// one.
func (m *member) replicaOfLog() (s sharedlog.ReplicaStatus, has bool) {
	if l, ok := m.Log.(sharedlog.Replicated); ok {
		return l.Replica()
	}
	return s, false
}

// logReplica logs when the replica of the log's database fails, and when it is used
// again, since an earlier status, and returns the new status.
func (m *member) logReplica(before sharedlog.ReplicaStatus) sharedlog.ReplicaStatus {
	s, _ := m.replicaOfLog()
	switch {
	case s.Failure != nil && before.Failure == nil:
		m.log.Warn("the replica of the log's database is not used: segments are read from the primary", "error", s.Failure)
	case s.Failure == nil && before.Failure != nil:
		m.log.Info("the replica of the log's database is used again")
	}
	return s
}

// logChanges logs what has changed in the cluster since an earlier status, as far as this
// node knows, and returns the new status.
func (m *member) logChanges(before lease.Status) lease.Status {
	s := m.Rules.Status()
	if s.Role != before.Role || s.Holder.ID != before.Holder.ID {
		m.log.Info("node", "role", roleNames[s.Role], "holder", s.Holder.ID, "holder_address", s.Holder.Address, "epoch", s.Lease.Epoch)
		m.auditRole(s)
	}
	switch {
	case s.Failure != nil && before.Failure == nil:
		m.log.Warn("the node does not reach the node that writes, or the log", "error", s.Failure)
	case s.Failure == nil && before.Failure != nil:
		m.log.Info("the node reaches the node that writes and the log again")
	}
	connected := map[storage.NodeID]bool{}
	for _, f := range before.Followers {
		connected[f.Node.ID] = f.Connected
	}
	for _, f := range s.Followers {
		if f.Connected != connected[f.Node.ID] {
			m.log.Info("following node", "node", f.Node.ID, "address", f.Node.Address, "connected", f.Connected)
		}
		delete(connected, f.Node.ID)
	}
	for id, was := range connected {
		if was {
			m.log.Info("following node", "node", id, "connected", false)
		}
	}
	return s
}

// heldTarget is the holder as the target of a request.
type heldTarget struct {
	forward.Target
	all    *targets
	holder lease.Peer
}

// HTTP implements [forward.Target].
func (t *heldTarget) HTTP(w http.ResponseWriter, r *http.Request, as forward.Head) error {
	ctx, end := t.all.begin(r.Context(), t.holder)
	defer end()
	return t.Target.HTTP(w, r.WithContext(ctx), as)
}

// RPC implements [forward.Target].
func (t *heldTarget) RPC(ctx context.Context, c forward.Call, as forward.Head) (forward.Answer, error) {
	ctx, end := t.all.begin(ctx, t.holder)
	defer end()
	return t.Target.RPC(ctx, c, as)
}
