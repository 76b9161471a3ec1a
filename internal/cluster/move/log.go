package move

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/ostiary/ostiary/internal/cluster/replica"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
	"github.com/ostiary/ostiary/storage/pebble"
)

// movedLog is the log of FROM or TO during a move. It shows progress, and a log that was
// moved can be read. Close does nothing: withLog closes it.
type movedLog struct {
	sharedlog.Log
	text string         // the log in messages
	node storage.NodeID // the node that has the log; zero for a database
	m    *Move
}

// withLog opens the log of an end for f.
func (m *Move) withLog(ctx context.Context, e *End, f func(*movedLog) error) (err error) {
	log, node, err := e.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	return f(&movedLog{log, e.Text, node, m})
}

// Cluster implements [sharedlog.Log].
func (l *movedLog) Cluster(ctx context.Context) (sharedlog.Cluster, error) {
	c, err := l.Log.Cluster(ctx)
	c.Format &^= sharedlog.FormatMoved
	return c, err
}

// SwapCluster implements [sharedlog.Log]. A log that was moved stays moved.
func (l *movedLog) SwapCluster(ctx context.Context, old, new sharedlog.Cluster) error {
	c, err := l.Log.Cluster(ctx)
	if err != nil {
		return err
	}
	if c.Moved() {
		old.Format |= sharedlog.FormatMoved
		new.Format |= sharedlog.FormatMoved
	}
	return l.Log.SwapCluster(ctx, old, new)
}

// Snapshot implements [sharedlog.Log].
func (l *movedLog) Snapshot(ctx context.Context) (sharedlog.Position, iter.Seq2[[]byte, error], error) {
	at, parts, err := l.Log.Snapshot(ctx)
	return at, l.counted("reading the snapshot of "+l.text, parts), err
}

// PutSnapshot implements [sharedlog.Log].
func (l *movedLog) PutSnapshot(ctx context.Context, at sharedlog.Position, parts iter.Seq2[[]byte, error]) error {
	return l.Log.PutSnapshot(ctx, at, l.counted("writing to "+l.text, parts))
}

// counted shows how many bytes of parts were read.
func (l *movedLog) counted(step string, parts iter.Seq2[[]byte, error]) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		bytes := uint64(0)
		for part, err := range parts {
			bytes += uint64(len(part))
			l.m.show(step, bytes)
			if !yield(part, err) {
				return
			}
		}
	}
}

// Restore implements [sharedlog.Restorer].
func (l *movedLog) Restore(ctx context.Context, old, at sharedlog.Position, secrets []sharedlog.SecretChange) error {
	restorer, ok := l.Log.(sharedlog.Restorer)
	if !ok {
		return errors.New("this kind of log cannot be restored")
	}
	return restorer.Restore(ctx, old, at, secrets)
}

// Close does nothing.
func (l *movedLog) Close() error { return nil }

// used returns the description of a log. It fails if no node has used the log.
func (l *movedLog) used(ctx context.Context) (sharedlog.Cluster, error) {
	c, err := l.Cluster(ctx)
	if err == nil && c.ID == (sharedlog.ClusterID{}) {
		err = fmt.Errorf("%s has no stores: no node has used the log yet", l.text)
	}
	return c, err
}

// checkNew fails unless the log of TO has no segments and no node runs on it. The error names
// what the log has, and what can be done.
func (l *movedLog) checkNew(ctx context.Context) error {
	_, err := replica.CheckNew(ctx, l)
	if err == nil {
		return nil
	}
	err = fmt.Errorf("TO %s: %w", l.text, err)
	if !errors.Is(err, replica.ErrUsed) {
		return err
	}
	another := "another, empty database"
	if l.node != (storage.NodeID{}) {
		another = "another, empty folder"
	}
	c, errRead := l.Log.Cluster(ctx)
	switch {
	case errRead != nil:
		return errors.Join(err, errRead)
	case c.Moved():
		return fmt.Errorf("%w; the stores of that cluster were moved from there to another place, and what was written since is not in it: expected %s as TO. To use this place, empty it first, once nothing needs what it has; FROM would be a cluster with a name of its own", err, another)
	}
	return fmt.Errorf("%w; its nodes use it, and FROM is not one of them: expected %s as TO", err, another)
}

// fill makes a folder a copy of a log, with everything that the log has.
func (m *Move) fill(ctx context.Context, at Folder, log *movedLog) (place replica.Place, err error) {
	cluster, err := log.used(ctx)
	if err != nil {
		return place, err
	}
	local, err := at.OpenCopy(ctx)
	if err != nil {
		return place, err
	}
	driver, err := replica.Open(ctx, quietLog{log}, local, replica.Options{KeyFingerprint: cluster.KeyFingerprint, SnapshotBytes: -1})
	if err != nil {
		return place, err
	}
	if err := driver.Close(); err != nil {
		return place, err
	}
	if local, err = at.OpenCopy(ctx); err != nil {
		return place, err
	}
	place, err = placeOf(local)
	return place, errors.Join(err, local.Close())
}

// withCopyOf calls f with a new copy of a log, with everything that the log has.
func (m *Move) withCopyOf(ctx context.Context, log *movedLog, f func(*kv.Driver) error) error {
	return m.Temporary(func(at Folder) error {
		place, err := m.fill(ctx, at, log)
		if err != nil {
			return err
		}
		driver, err := at.OpenCopy(ctx)
		if err != nil {
			return err
		}
		return errors.Join(f(driver.Driver), driver.Close(), log.Forget(context.WithoutCancel(ctx), place.Node))
	})
}

// quietLog is a log whose registry has the copy of a command as a node that has stopped. If
// the command is killed, its repetition does not take the copy for a node that runs.
type quietLog struct{ *movedLog }

func (l quietLog) Register(ctx context.Context, n sharedlog.NodeRecord) error {
	n.Stopped = true
	return l.movedLog.Register(ctx, n)
}

func (l quietLog) Report(ctx context.Context, n sharedlog.NodeRecord) error {
	n.Stopped = true
	return l.movedLog.Report(ctx, n)
}

// placeOf returns the place of a copy in its log.
func placeOf(local *pebble.Driver) (replica.Place, error) {
	c, err := local.Copy()
	if err != nil {
		return replica.Place{}, err
	}
	return replica.PlaceOf(c)
}
