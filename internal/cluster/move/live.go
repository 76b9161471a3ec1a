package move

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/replica"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
)

// This file moves a log to another one while nodes run. TO gets what a new copy of FROM has,
// then the segments that are written meanwhile. At the end the move takes the role of the
// node that writes, so that nothing is written, copies the last segments, and replaces its
// lease by the last one of FROM; the nodes see that and go on with TO. If the process dies
// before, a node takes the role back, and nothing has happened.

// fencedMax bounds how long no node writes. The move gives the role back then.
const fencedMax = 2 * time.Second

// arrivalMax bounds how long the move waits for the nodes on TO.
const arrivalMax = 30 * time.Second

// moveLive moves the stores with a copy in a folder.
func (m *Move) moveLive(ctx context.Context, from, to *movedLog, at Folder) error {
	cluster, err := from.Log.Cluster(ctx)
	if err != nil {
		return err
	}
	lease, err := from.Lease(ctx)
	if err != nil {
		return err
	}
	moved := lease.Moved() // by an attempt that was interrupted at its end
	if moved {
		nodes, err := runningNodes(ctx, from, func(*sharedlog.NodeRecord) error { return nil })
		if err != nil {
			return err
		}
		m.Done.Cluster, m.Done.Nodes = cluster.ID.String(), len(nodes)
		return m.end(ctx, from, to, nodes)
	}
	nodes, err := waitingNodes(ctx, from, to)
	if err != nil {
		return err
	}
	if wait := LeasesWait(cluster.Settings); wait > fencedMax/2 {
		return fmt.Errorf("FROM has a holder lease of %s and a read lease of %s, with which no node would write for %s, expected a difference of at most %s: change them with \"ostiary node settings\"",
			cluster.Settings.HolderLease, cluster.Settings.ReadLease, wait, fencedMax/2*10/11)
	}
	if m.Snapshot != nil { // the log may have none
		if err := m.Snapshot(ctx); err != nil {
			return err
		}
	}
	place, err := m.fill(ctx, at, from)
	if err != nil {
		return err
	}
	defer func() { _ = from.Forget(context.WithoutCancel(ctx), place.Node) }() // it gets old otherwise
	if err := m.pourOnce(ctx, from, to, at, place); err != nil {
		return err
	}
	if err := SetMoved(ctx, to.Log, false); err != nil {
		return err
	}
	for before := uint64(0); ; { // until nearly nothing is left
		last, err := replica.Mirror(ctx, from, to, m.copying)
		if err != nil {
			return err
		}
		if last.Sequence-before < 100 {
			break
		}
		before = last.Sequence
	}
	last, err := m.switchOver(ctx, from, to)
	if err != nil {
		return err
	}
	m.Done.Last, m.Done.Nodes = last.Sequence, len(nodes)
	return m.end(ctx, from, to, nodes)
}

// end notes the move in the description of FROM too, so that no node starts there, and waits
// for the nodes on TO.
func (m *Move) end(ctx context.Context, from, to *movedLog, nodes []sharedlog.NodeRecord) error {
	if err := SetMoved(ctx, from.Log, true); err != nil {
		return fmt.Errorf("FROM was moved, but its description is the old one: repeat the command: %w", err)
	}
	return m.awaitNodes(ctx, to, nodes)
}

// pourOnce gives TO what a copy has, unless an earlier attempt has given it a beginning, which
// then gets the rest from FROM: nodes may have written since resume, so that the copy begins
// with a snapshot after the end of TO.
func (m *Move) pourOnce(ctx context.Context, from, to *movedLog, at Folder, place replica.Place) error {
	if err := m.resume(ctx, from, to); err != nil {
		return err
	}
	head, err := to.Head(ctx)
	if err != nil || head.Sequence >= place.At.Sequence {
		return err
	}
	return m.pour(ctx, to, at)
}

// runningNodes returns the nodes that run on a log. It fails with the error of check for one
// of them.
func runningNodes(ctx context.Context, log *movedLog, check func(*sharedlog.NodeRecord) error) (running []sharedlog.NodeRecord, err error) {
	nodes, now, err := log.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	for i := range nodes {
		n := &nodes[i]
		if !n.Runs(now) {
			continue
		}
		if err := check(n); err != nil {
			return nil, err
		}
		running = append(running, *n)
	}
	return running, nil
}

// waitingNodes returns the nodes that run on FROM. It fails if there are none, and if one of
// them would not go on with TO: it was started without --next-log TO, or has leases for which
// the others would not wait.
func waitingNodes(ctx context.Context, from, to *movedLog) (running []sharedlog.NodeRecord, err error) {
	waiting, _, err := to.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	// The record of a node that waits is that of one that has stopped. A node that was on TO
	// once, and has gone on with FROM, has left another one there.
	starts := map[storage.NodeID]uint64{}
	for i := range waiting {
		if waiting[i].Stopped {
			starts[waiting[i].ID] = waiting[i].Start
		}
	}
	cluster, err := from.Cluster(ctx)
	if err != nil {
		return nil, err
	}
	running, err = runningNodes(ctx, from, func(n *sharedlog.NodeRecord) error {
		if starts[n.ID] != n.Start {
			return fmt.Errorf("node %s runs on FROM and does not know TO: start it with --next-log %s first", n.ID, to.text)
		}
		s := cluster.Settings
		if n.HolderLease != 0 && n.HolderLease != s.HolderLease || n.ReadLease != 0 && n.ReadLease != s.ReadLease {
			return fmt.Errorf("node %s has a holder lease of %s and a read lease of %s, expected those of its cluster, %s and %s: start it again first", n.ID, n.HolderLease, n.ReadLease, s.HolderLease, s.ReadLease)
		}
		return nil
	})
	if err == nil && len(running) == 0 {
		err = errors.New("no node runs on FROM: run the command without --live")
	}
	return running, err
}

// switchOver lets no node write, copies the last segments, and ends the lease of FROM. After
// an error the nodes go on with FROM, unless the outcome of the last step is open.
func (m *Move) switchOver(ctx context.Context, from, to *movedLog) (last sharedlog.Position, err error) {
	ctx, cancel := context.WithTimeout(ctx, fencedMax)
	defer cancel()
	fence, err := TakeFence(ctx, from)
	if fence == nil {
		return last, fmt.Errorf("take the role of the node that writes: %w", err)
	}
	if err == nil {
		last, err = m.finish(ctx, from, to, fence)
	}
	if err != nil {
		err = fmt.Errorf("%w; the nodes go on with FROM: repeat the command", err)
		after, cancel := context.WithTimeout(context.WithoutCancel(ctx), fencedMax)
		defer cancel()
		return last, errors.Join(err, fence.Release(after))
	}
	switch err = fence.End(ctx); {
	case errors.Is(err, sharedlog.ErrSwap):
		return last, fmt.Errorf("a node has taken the role back, and the nodes go on with FROM: repeat the command: %w", err)
	case err != nil:
		return last, fmt.Errorf("it is not known whether the nodes go on with FROM or TO: repeat the command: %w", err)
	}
	return last, nil
}

// finish copies the last segments while the fence holds, and waits until no read lease of
// FROM outlasts those that TO waits for.
func (m *Move) finish(ctx context.Context, from, to *movedLog, fence *Fence) (last sharedlog.Position, err error) {
	if same, err := fence.Holds(ctx, to); err != nil || same {
		return last, cmp.Or(err, ErrSame)
	}
	return fence.Finish(ctx, to, m.copying, func() error {
		_, err := waitingNodes(ctx, from, to) // one may have started meanwhile
		return err
	})
}

// awaitNodes waits until the nodes that were on FROM have reported to TO.
func (m *Move) awaitNodes(ctx context.Context, to *movedLog, nodes []sharedlog.NodeRecord) error {
	for end := time.Now().Add(arrivalMax); ; {
		have, _, err := to.Nodes(ctx)
		if err != nil {
			return err
		}
		missing := map[storage.NodeID]bool{}
		for i := range nodes {
			missing[nodes[i].ID] = true
		}
		for i := range have {
			if !have[i].Stopped {
				delete(missing, have[i].ID)
			}
		}
		if len(missing) == 0 {
			return nil
		}
		if time.Now().After(end) {
			for id := range missing {
				return fmt.Errorf("FROM was moved, but node %s has not reported to TO within %s: start it with --log %s", id, arrivalMax, to.text)
			}
		}
		m.progress("waiting for the nodes on TO", len(nodes)-len(missing), 0)
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
