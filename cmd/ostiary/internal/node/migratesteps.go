package node

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/cmd/internal/cli"
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
	shown string
	node  storage.NodeID // the node that has the log; zero for a database
	m     *move
}

// withLog opens the log of an end for f.
func (m *move) withLog(ctx context.Context, e *end, f func(*movedLog) error) (err error) {
	var log sharedlog.Log
	var node storage.NodeID
	if e.node == "" {
		log, err = m.OpenLogOf(ctx, e.name, e.text)
	} else {
		log, node, err = m.openNode(ctx, e)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	return f(&movedLog{log, e.shown(), node, m})
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
	return at, l.counted("reading the snapshot of "+l.shown, parts), err
}

// PutSnapshot implements [sharedlog.Log].
func (l *movedLog) PutSnapshot(ctx context.Context, at sharedlog.Position, parts iter.Seq2[[]byte, error]) error {
	return l.Log.PutSnapshot(ctx, at, l.counted("writing to "+l.shown, parts))
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

// fill makes the folder of a run a copy of a log, with everything that the log has.
func (m *move) fill(ctx context.Context, at *cli.App, log *movedLog) (place replica.Place, err error) {
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

// used returns the description of a log. It fails if no node has used the log.
func (l *movedLog) used(ctx context.Context) (sharedlog.Cluster, error) {
	c, err := l.Cluster(ctx)
	if err == nil && c.ID == (sharedlog.ClusterID{}) {
		err = fmt.Errorf("%s has no stores: no node has used the log yet", l.shown)
	}
	return c, err
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

// compare reads TO back, and compares it with what FROM has.
func (m *move) compare(ctx context.Context, log *movedLog, want *replica.Content) error {
	have, err := m.contentOfLog(ctx, log)
	if err == nil {
		err = want.Compare(&have)
	}
	if err != nil {
		return fmt.Errorf("proof that %s and %s have the same: %w", m.from.shown(), m.to.shown(), err)
	}
	return nil
}

// folderToLog moves the stores of a folder to a log.
func (m *move) folderToLog(ctx context.Context) error {
	return m.withLog(ctx, &m.to, func(to *movedLog) error {
		key, err := m.ReadSecretKey()
		if err != nil {
			return err
		}
		local, err := m.adopt(ctx, to, key)
		if err != nil {
			return err
		}
		err = m.heal(ctx, to, local, replica.Fingerprint(key))
		if err != nil {
			return errors.Join(m.giveBack(to, local, err), local.Close())
		}
		want, err := m.read(ctx, m.from.shown(), local.Driver)
		if err = errors.Join(err, local.Close()); err != nil {
			return err
		}
		m.note(&want)
		return m.compare(ctx, to, &want)
	})
}

// adopt makes the folder of FROM a copy of TO. An earlier attempt may have done that.
func (m *move) adopt(ctx context.Context, to *movedLog, key *[32]byte) (*pebble.Driver, error) {
	local, err := m.OpenFolder(ctx)
	if errors.Is(err, kv.ErrCopy) {
		return m.adopted(ctx, to)
	}
	if err != nil {
		return nil, err
	}
	fail := func(err error) (*pebble.Driver, error) { return nil, errors.Join(err, local.Close()) }
	if err := to.checkNew(ctx); err != nil {
		return fail(err)
	}
	if err := CheckKey(ctx, local, key); err != nil {
		return fail(err)
	}
	content, err := m.read(ctx, m.from.shown(), local.Driver) // damage is found before anything changes
	if err != nil {
		return fail(err)
	}
	m.note(&content)
	if err := replica.Adopt(ctx, to, local.Driver, replica.Fingerprint(key), to.node); err != nil {
		return fail(fmt.Errorf("TO %s: %w", to.shown, err))
	}
	return local, nil
}

// adopted opens a folder that is a copy already: of TO, or it is refused.
func (m *move) adopted(ctx context.Context, to *movedLog) (*pebble.Driver, error) {
	local, err := m.OpenCopy(ctx)
	if err != nil {
		return nil, err
	}
	place, err := placeOf(local)
	var cluster sharedlog.Cluster
	if err == nil {
		cluster, err = to.Cluster(ctx)
	}
	if err == nil && cluster.ID != place.Cluster {
		err = fmt.Errorf("the folder %s is the copy of a node of cluster %s, and TO has another one: expected the log of that cluster as FROM: its URL, or %s%s if the nodes keep it", m.Data, place.Cluster, nodePrefix, m.Data)
	}
	if err != nil {
		return nil, errors.Join(err, local.Close())
	}
	return local, nil
}

// checkNew fails unless the log of TO has no segments and no node runs on it. The error names
// what the log has, and what can be done.
func (l *movedLog) checkNew(ctx context.Context) error {
	_, err := replica.CheckNew(ctx, l)
	if err == nil {
		return nil
	}
	err = fmt.Errorf("TO %s: %w", l.shown, err)
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

// CheckKey fails unless key is that of the secrets of a folder. Each secret is encrypted
// with the same key, so one is enough.
func CheckKey(ctx context.Context, local *pebble.Driver, key *[32]byte) error {
	for s, err := range local.Secrets(ctx) {
		if err != nil {
			return err
		}
		e, err := ostiary.Open(ctx, ostiary.Options{Driver: local, SecretKey: key})
		if err != nil {
			return err
		}
		store, err := e.Store(ctx, s.Store)
		if err == nil {
			_, err = store.Secret(ctx, authz.DocumentKey{Kind: s.Secret.Kind, Key: s.Secret.Key})
		}
		if err != nil {
			err = fmt.Errorf("the key of --secret-key-file is not that of the secrets of FROM: %w", err)
		}
		return errors.Join(err, e.Close())
	}
	return nil
}

// heal gives a log what a copy has.
func (m *move) heal(ctx context.Context, to *movedLog, local *pebble.Driver, key storage.Hash) error {
	_, err := replica.Heal(ctx, to, local, key, m.force)
	switch {
	case errors.Is(err, storage.ErrHistory), errors.Is(err, replica.ErrBehind):
		return fmt.Errorf("TO %s is used already (--verify compares both), expected an empty database: %w", to.shown, err)
	case err != nil:
		return fmt.Errorf("TO %s: %w", to.shown, err)
	}
	return nil
}

// giveBack makes the folder of FROM what it was before an attempt failed, if TO has
// nothing for certain. It returns the error of the attempt.
func (m *move) giveBack(to *movedLog, local *pebble.Driver, failure error) error {
	ctx := context.Background()
	head, err := to.Head(ctx)
	if err == nil && head.Sequence == 0 {
		var c *kv.Copy
		if c, err = local.Copy(); err == nil {
			err = c.Release(ctx)
		}
		if err == nil {
			return fmt.Errorf("%w; nothing was moved: the folder %s can be served as before", failure, m.Data)
		}
	}
	return fmt.Errorf("%w; the folder %s is the copy of a node of TO now: repeat the command", failure, m.Data)
}

// logToFolder moves the stores of a log to a folder.
func (m *move) logToFolder(ctx context.Context) error {
	return m.withLog(ctx, &m.from, func(from *movedLog) error {
		done, err := m.checkFolder(ctx, from)
		if err != nil || done {
			return err
		}
		err = m.drain(ctx, from, m.App, func(place replica.Place) error {
			local, err := m.OpenCopy(ctx)
			if err != nil {
				return err
			}
			content, err := m.read(ctx, m.to.shown(), local.Driver)
			if err = errors.Join(err, local.Close()); err != nil {
				return err
			}
			m.note(&content)
			return m.compare(ctx, from, &content)
		})
		if err != nil {
			return err
		}
		return m.release(ctx, from)
	})
}

// checkFolder fails unless TO is new, or a copy of FROM, with the key of FROM. It returns
// true if an earlier attempt has ended after its last step.
func (m *move) checkFolder(ctx context.Context, from *movedLog) (done bool, err error) {
	cluster, err := from.Cluster(ctx)
	if err != nil {
		return false, err
	}
	key, err := m.ReadSecretKey()
	if err != nil {
		return false, err
	}
	if key != nil && replica.Fingerprint(key) != cluster.KeyFingerprint {
		return false, fmt.Errorf("%w: the key in %s is not that of FROM, expected the file that its nodes have", replica.ErrKey, m.SecretKeyFile())
	}
	m.keyless = key == nil && cluster.KeyFingerprint != (storage.Hash{})
	if entries, err := os.ReadDir(m.Data); err != nil || len(entries) == 0 {
		return false, m.checkMoved(ctx, from) // the folder is made, or opening it fails
	}
	local, err := m.OpenCopy(ctx)
	if errors.Is(err, kv.ErrNoCopy) {
		return true, m.checkDone(ctx, from)
	}
	if err != nil {
		return false, err
	}
	place, err := placeOf(local)
	if err == nil && place.Cluster != cluster.ID && place.Cluster != (sharedlog.ClusterID{}) {
		err = fmt.Errorf("TO %s is the copy of a node of cluster %s, and FROM has cluster %s: expected a new folder", m.Data, place.Cluster, cluster.ID)
	}
	return false, errors.Join(err, local.Close())
}

// checkDone fails unless FROM was moved to TO, a folder of its own, and both have the same.
func (m *move) checkDone(ctx context.Context, from *movedLog) error {
	used := fmt.Errorf("TO %s has stores already, expected a new folder", m.Data)
	cluster, err := from.Log.Cluster(ctx)
	if err != nil {
		return err
	}
	if !cluster.Moved() {
		return used
	}
	content, err := m.contentOfLog(ctx, from) // FROM is open, and may be opened only once
	if err == nil {
		err = m.verifyTo(ctx, &content)
	}
	if err != nil {
		return fmt.Errorf("%w; FROM was moved: %w", used, err)
	}
	return nil
}

// checkMoved fails with sharedlog.ErrMoved if FROM was moved before. A second place would
// have the same stores.
func (m *move) checkMoved(ctx context.Context, from *movedLog) error {
	cluster, err := from.Log.Cluster(ctx)
	if err == nil && cluster.Moved() && !m.force {
		return fmt.Errorf("FROM %s: %w", from.shown, sharedlog.ErrMoved)
	}
	return err
}

// release makes the copy in TO a folder of its own, and proves that nothing changed.
func (m *move) release(ctx context.Context, from *movedLog) error {
	local, err := m.OpenCopy(ctx)
	if err != nil {
		return err
	}
	place, err := placeOf(local)
	var c *kv.Copy
	if err == nil {
		c, err = local.Copy()
	}
	if err == nil {
		err = c.Release(ctx)
	}
	if err = errors.Join(err, local.Close()); err != nil {
		return err
	}
	var content replica.Content
	if err := m.content(ctx, &m.to, &content); err != nil {
		return err
	}
	if content.State.String() != m.done.State {
		return fmt.Errorf("proof of %s: %w: the rows have hash %s, expected %s", m.Data, replica.ErrDiffers, content.State, m.done.State)
	}
	return from.Forget(ctx, place.Node)
}

// drain makes the folder of a run a copy of FROM, calls use, and then notes in FROM that it
// was moved. It takes the role of the node that writes first: a node that was paused, or
// runs in spite of --force, can then append nothing, until it takes the role back, and drain
// fails.
func (m *move) drain(ctx context.Context, from *movedLog, at *cli.App, use func(replica.Place) error) error {
	if err := m.checkStopped(ctx, from, storage.NodeID{}); err != nil {
		return err
	}
	if _, err := from.used(ctx); err != nil {
		return err
	}
	fence, err := replica.TakeFence(ctx, from.Log)
	if err != nil && !errors.Is(err, sharedlog.ErrMoved) { // it can be moved again
		return fmt.Errorf("FROM %s: take the role of the node that writes: %w", from.shown, err)
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

func (m *move) checkStopped(ctx context.Context, from *movedLog, except storage.NodeID) error {
	if m.force {
		return nil
	}
	return replica.CheckStopped(ctx, from, except)
}

// fence notes in FROM that it was moved. fence is nil if it was moved before. It fails, and
// FROM can be used, if FROM has more than the copy, or a node has taken the role back.
func (m *move) fence(ctx context.Context, from *movedLog, place replica.Place, fence *replica.Fence) error {
	if err := replica.SetMoved(ctx, from.Log, true); err != nil {
		return err
	}
	// A node that starts looks at the description after it was registered.
	err := m.checkStopped(ctx, from, place.Node)
	var head sharedlog.Position
	if err == nil {
		head, err = from.Head(ctx)
	}
	if err == nil && head != place.At {
		err = fmt.Errorf("%w: it has written to FROM %s meanwhile: stop all nodes, and repeat the command", replica.ErrRuns, from.shown)
	}
	if fence == nil {
		return err
	}
	if err == nil {
		if err = fence.End(ctx); !errors.Is(err, sharedlog.ErrSwap) {
			return err // the outcome is open if it failed
		}
		err = fmt.Errorf("%w: it writes to FROM %s again: stop all nodes, and repeat the command: %w", replica.ErrRuns, from.shown, err)
	}
	return errors.Join(err, replica.SetMoved(context.WithoutCancel(ctx), from.Log, false))
}

// logToLog moves the stores of a log to another one.
func (m *move) logToLog(ctx context.Context) error {
	return m.withLog(ctx, &m.from, func(from *movedLog) error {
		return m.withLog(ctx, &m.to, func(to *movedLog) error {
			if err := m.prepareLog(ctx, from, to); err != nil {
				return err
			}
			if m.work == "" {
				return m.withTemporary(func(folder string) error { return m.through(ctx, from, to, folder) })
			}
			if err := m.through(ctx, from, to, m.work); err != nil {
				return err
			}
			return os.RemoveAll(m.work)
		})
	})
}

// prepareLog describes TO as the log of the same cluster. It fails if TO is the log of
// another one.
func (m *move) prepareLog(ctx context.Context, from, to *movedLog) error {
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
		return fmt.Errorf("TO %s has a snapshot at segment %s, which a migration of other stores has left: expected an empty database", to.shown, at)
	case !errors.Is(err, sharedlog.ErrNoSnapshot):
		return err
	}
	return to.SwapCluster(ctx, old, cluster)
}

// through moves the stores with a copy in a folder.
func (m *move) through(ctx context.Context, from, to *movedLog, folder string) error {
	at, err := m.App.Of(folder)
	if err != nil {
		return err
	}
	if err := m.resume(ctx, from, to); err != nil {
		return err
	}
	if m.live {
		return m.moveLive(ctx, from, to, at)
	}
	var node storage.NodeID
	err = m.drain(ctx, from, at, func(place replica.Place) error {
		node = place.Node
		if err := m.pour(ctx, to, at); err != nil {
			return err
		}
		return replica.SetMoved(ctx, to.Log, false)
	})
	if err != nil {
		return err
	}
	cluster, err := to.Log.Cluster(ctx)
	if err == nil && cluster.Moved() {
		err = fmt.Errorf("%w: FROM and TO are the same log", cli.ErrUsage)
		return errors.Join(err, replica.SetMoved(ctx, to.Log, false))
	}
	return errors.Join(err, from.Forget(ctx, node))
}

// resume gives a TO that has a beginning of FROM, from an earlier attempt or because FROM was
// moved from there, what FROM has more. A copy of FROM begins with the newest snapshot of FROM,
// and does not know the segments before it. If FROM no longer has the segments, or TO has other
// ones, the copy decides.
func (m *move) resume(ctx context.Context, from, to *movedLog) error {
	head, err := to.Head(ctx)
	if err != nil || head.Sequence == 0 {
		return err
	}
	_, err = replica.Mirror(ctx, from, to, func(sequence uint64) { m.progress("copying segments", int(sequence), 0) })
	if errors.Is(err, sharedlog.ErrTrimmed) || errors.Is(err, storage.ErrHistory) {
		return nil
	}
	return err
}

// pour gives TO what a copy has, and proves that.
func (m *move) pour(ctx context.Context, to *movedLog, at *cli.App) error {
	local, err := at.OpenCopy(ctx)
	if err != nil {
		return err
	}
	content, err := m.read(ctx, m.from.shown(), local.Driver)
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
