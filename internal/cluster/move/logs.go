package move

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/ostiary/ostiary/internal/cluster/replica"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
)

// removedSuffix ends the name of a work folder that is being removed. A part of a folder cannot
// be opened, so an attempt that was killed meanwhile could not be repeated under its own name.
const removedSuffix = ".ostiary-removed"

// logToLog moves the stores of a log to another one.
func (m *Move) logToLog(ctx context.Context) error {
	return m.withLog(ctx, &m.From, func(from *movedLog) error {
		return m.withLog(ctx, &m.To, func(to *movedLog) error {
			if err := m.prepareLog(ctx, from, to); err != nil {
				return err
			}
			if m.Work == nil {
				return m.Temporary(func(at Folder) error { return m.through(ctx, from, to, at) })
			}
			removed := m.Work.Path() + removedSuffix
			if err := os.RemoveAll(removed); err != nil { // an attempt was killed meanwhile
				return err
			}
			if err := m.through(ctx, from, to, m.Work); err != nil {
				return err
			}
			if err := os.Rename(m.Work.Path(), removed); err != nil {
				return err
			}
			return os.RemoveAll(removed)
		})
	})
}

// prepareLog describes TO as the log of the same cluster. It fails if TO is the log of
// another one.
func (m *Move) prepareLog(ctx context.Context, from, to *movedLog) error {
	cluster, err := from.Cluster(ctx)
	if err != nil {
		return err
	}
	old, err := to.Cluster(ctx)
	if err != nil {
		return err
	}
	if old.ID == cluster.ID {
		next := old // they may have changed since it was moved to FROM
		if next.Format, next.Settings = cluster.Format, cluster.Settings; next != old {
			err = to.SwapCluster(ctx, old, next)
		}
		return err
	}
	if err := m.checkMoved(ctx, from); err != nil {
		return err
	}
	if err := to.checkNew(ctx); err != nil {
		return err
	}
	switch at, _, err := to.Snapshot(ctx); {
	case err == nil:
		return fmt.Errorf("TO %s has a snapshot at segment %s, which a migration of other stores has left: expected an empty database", to.text, at)
	case !errors.Is(err, sharedlog.ErrNoSnapshot):
		return err
	}
	return to.SwapCluster(ctx, old, cluster)
}

// checkMoved fails with sharedlog.ErrMoved if FROM was moved before. A second place would
// have the same stores.
func (m *Move) checkMoved(ctx context.Context, from *movedLog) error {
	cluster, err := from.Log.Cluster(ctx)
	if err == nil && cluster.Moved() && !m.Force {
		return fmt.Errorf("FROM %s: %w", from.text, sharedlog.ErrMoved)
	}
	return err
}

// through moves the stores with a copy in a folder.
func (m *Move) through(ctx context.Context, from, to *movedLog, at Folder) error {
	if err := m.resume(ctx, from, to); err != nil {
		return err
	}
	if m.Live {
		return m.moveLive(ctx, from, to, at)
	}
	var node storage.NodeID
	err := m.drain(ctx, from, at, func(place replica.Place) error {
		node = place.Node
		if err := m.pour(ctx, to, at); err != nil {
			return err
		}
		return SetMoved(ctx, to.Log, false)
	})
	if err != nil {
		return err
	}
	cluster, err := to.Log.Cluster(ctx)
	if err == nil && cluster.Moved() {
		err = ErrSame
		return errors.Join(err, SetMoved(ctx, to.Log, false))
	}
	return errors.Join(err, from.Forget(ctx, node))
}

// drain makes the folder of a run a copy of FROM, calls use, and then notes in FROM that it
// was moved. It takes the role of the node that writes first: a node that was paused, or
// runs in spite of --force, can then append nothing, until it takes the role back, and drain
// fails.
func (m *Move) drain(ctx context.Context, from *movedLog, at Folder, use func(replica.Place) error) error {
	if err := m.checkStopped(ctx, from, storage.NodeID{}); err != nil {
		return err
	}
	if _, err := from.used(ctx); err != nil {
		return err
	}
	fence, err := TakeFence(ctx, from.Log)
	if err != nil && !errors.Is(err, sharedlog.ErrMoved) { // it can be moved again
		return fmt.Errorf("FROM %s: take the role of the node that writes: %w", from.text, err)
	}
	place, err := m.fill(ctx, at, from)
	if err == nil {
		err = use(place)
	}
	if err != nil {
		return err
	}
	return m.fence(ctx, from, place, fence)
}

func (m *Move) checkStopped(ctx context.Context, from *movedLog, except storage.NodeID) error {
	if m.Force {
		return nil
	}
	return replica.CheckStopped(ctx, from, except)
}

// fence notes in FROM that it was moved. fence is nil if it was moved before. It fails, and
// FROM can be used, if FROM has more than the copy, or a node has taken the role back.
func (m *Move) fence(ctx context.Context, from *movedLog, place replica.Place, fence *Fence) error {
	if err := SetMoved(ctx, from.Log, true); err != nil {
		return err
	}
	// A node that starts looks at the description after it was registered.
	err := m.checkStopped(ctx, from, place.Node)
	var head sharedlog.Position
	if err == nil {
		head, err = from.Head(ctx)
	}
	if err == nil && head != place.At {
		err = fmt.Errorf("%w: it has written to FROM %s meanwhile: stop all nodes, and repeat the command", replica.ErrRuns, from.text)
	}
	if fence == nil {
		return err
	}
	if err == nil {
		if err = fence.End(ctx); !errors.Is(err, sharedlog.ErrSwap) {
			return err // the outcome is open if it failed
		}
		err = fmt.Errorf("%w: it writes to FROM %s again: stop all nodes, and repeat the command: %w", replica.ErrRuns, from.text, err)
	}
	return errors.Join(err, SetMoved(context.WithoutCancel(ctx), from.Log, false))
}

// resume gives a TO that has a beginning of FROM, from an earlier attempt or because FROM was
// moved from there, what FROM has more. A copy of FROM begins with the newest snapshot of FROM,
// and does not know the segments before it. If FROM no longer has the segments, or TO has other
// ones, the copy decides.
func (m *Move) resume(ctx context.Context, from, to *movedLog) error {
	head, err := to.Head(ctx)
	if err != nil || head.Sequence == 0 {
		return err
	}
	_, err = replica.Mirror(ctx, from, to, m.copying)
	if errors.Is(err, sharedlog.ErrTrimmed) || errors.Is(err, storage.ErrHistory) {
		return nil
	}
	return err
}

// pour gives TO what a copy has, and proves that.
func (m *Move) pour(ctx context.Context, to *movedLog, at Folder) error {
	local, err := at.OpenCopy(ctx)
	if err != nil {
		return err
	}
	content, err := m.read(ctx, m.From.Text, local.Driver)
	if err == nil {
		m.note(&content)
		var cluster sharedlog.Cluster
		if cluster, err = to.Cluster(ctx); err == nil {
			err = m.heal(ctx, to, local, cluster.KeyFingerprint)
		}
	}
	if err = errors.Join(err, local.Close()); err != nil {
		return err
	}
	return m.compare(ctx, to, &content)
}
