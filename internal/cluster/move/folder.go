package move

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/cluster/replica"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
	"github.com/ostiary/ostiary/storage/pebble"
)

// folderToLog moves the stores of a folder to a log.
func (m *Move) folderToLog(ctx context.Context) error {
	return m.withLog(ctx, &m.To, func(to *movedLog) error {
		key, err := m.From.Folder.ReadSecretKey()
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
		want, err := m.read(ctx, m.From.Text, local.Driver)
		if err = errors.Join(err, local.Close()); err != nil {
			return err
		}
		m.note(&want)
		return m.compare(ctx, to, &want)
	})
}

// adopt makes the folder of FROM a copy of TO. An earlier attempt may have done that.
func (m *Move) adopt(ctx context.Context, to *movedLog, key *[32]byte) (*pebble.Driver, error) {
	local, err := m.From.Folder.OpenFolder(ctx)
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
	content, err := m.read(ctx, m.From.Text, local.Driver) // damage is found before anything changes
	if err != nil {
		return fail(err)
	}
	m.note(&content)
	if err := replica.Adopt(ctx, to, local.Driver, replica.Fingerprint(key), to.node); err != nil {
		return fail(fmt.Errorf("TO %s: %w", to.text, err))
	}
	return local, nil
}

// adopted opens a folder that is a copy already: of TO, or it is refused.
func (m *Move) adopted(ctx context.Context, to *movedLog) (*pebble.Driver, error) {
	local, err := m.From.Folder.OpenCopy(ctx)
	if err != nil {
		return nil, err
	}
	place, err := placeOf(local)
	var cluster sharedlog.Cluster
	if err == nil {
		cluster, err = to.Cluster(ctx)
	}
	if err == nil && cluster.ID != place.Cluster {
		err = fmt.Errorf("the folder %s is the copy of a node of cluster %s, and TO has another one: expected the log of that cluster as FROM: its URL, or cluster:%s if the nodes keep it", m.From.Folder.Path(), place.Cluster, m.From.Folder.Path())
	}
	if err != nil {
		return nil, errors.Join(err, local.Close())
	}
	return local, nil
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
func (m *Move) heal(ctx context.Context, to *movedLog, local *pebble.Driver, key storage.Hash) error {
	_, err := replica.Heal(ctx, to, local, key, m.Force)
	switch {
	case errors.Is(err, storage.ErrHistory), errors.Is(err, replica.ErrBehind):
		return fmt.Errorf("TO %s is used already (--verify compares both), expected an empty database: %w", to.text, err)
	case err != nil:
		return fmt.Errorf("TO %s: %w", to.text, err)
	}
	return nil
}

// giveBack makes the folder of FROM what it was before an attempt failed, if TO has
// nothing for certain. It returns the error of the attempt.
func (m *Move) giveBack(to *movedLog, local *pebble.Driver, failure error) error {
	ctx := context.Background()
	head, err := to.Head(ctx)
	if err == nil && head.Sequence == 0 {
		var c *kv.Copy
		if c, err = local.Copy(); err == nil {
			err = c.Release(ctx)
		}
		if err == nil {
			return fmt.Errorf("%w; nothing was moved: the folder %s can be served as before", failure, m.From.Folder.Path())
		}
	}
	return fmt.Errorf("%w; the folder %s is the copy of a node of TO now: repeat the command", failure, m.From.Folder.Path())
}

// logToFolder moves the stores of a log to a folder.
func (m *Move) logToFolder(ctx context.Context) error {
	return m.withLog(ctx, &m.From, func(from *movedLog) error {
		done, err := m.checkFolder(ctx, from)
		if err != nil || done {
			return err
		}
		err = m.drain(ctx, from, m.To.Folder, func(place replica.Place) error {
			local, err := m.To.Folder.OpenCopy(ctx)
			if err != nil {
				return err
			}
			content, err := m.read(ctx, m.To.Text, local.Driver)
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
func (m *Move) checkFolder(ctx context.Context, from *movedLog) (done bool, err error) {
	cluster, err := from.Cluster(ctx)
	if err != nil {
		return false, err
	}
	key, err := m.To.Folder.ReadSecretKey()
	if err != nil {
		return false, err
	}
	if key != nil && replica.Fingerprint(key) != cluster.KeyFingerprint {
		return false, fmt.Errorf("%w: the key in %s is not that of FROM, expected the file that its nodes have", replica.ErrKey, m.To.Folder.SecretKeyFile())
	}
	m.Done.Keyless = key == nil && cluster.KeyFingerprint != (storage.Hash{})
	if entries, err := os.ReadDir(m.To.Folder.Path()); err != nil || len(entries) == 0 {
		return false, m.checkMoved(ctx, from) // the folder is made, or opening it fails
	}
	local, err := m.To.Folder.OpenCopy(ctx)
	if errors.Is(err, kv.ErrNoCopy) {
		return true, m.checkDone(ctx, from)
	}
	if err != nil {
		return false, err
	}
	place, err := placeOf(local)
	if err == nil && place.Cluster != cluster.ID && place.Cluster != (sharedlog.ClusterID{}) {
		err = fmt.Errorf("TO %s is the copy of a node of cluster %s, and FROM has cluster %s: expected a new folder", m.To.Folder.Path(), place.Cluster, cluster.ID)
	}
	return false, errors.Join(err, local.Close())
}

// checkDone fails unless FROM was moved to TO, a folder of its own, and both have the same.
func (m *Move) checkDone(ctx context.Context, from *movedLog) error {
	used := fmt.Errorf("TO %s has stores already, expected a new folder", m.To.Folder.Path())
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

// release makes the copy in TO a folder of its own, and proves that nothing changed.
func (m *Move) release(ctx context.Context, from *movedLog) error {
	local, err := m.To.Folder.OpenCopy(ctx)
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
	content, err := m.content(ctx, &m.To)
	if err != nil {
		return err
	}
	if content.State.String() != m.Done.State {
		return fmt.Errorf("proof of %s: %w: the rows have hash %s, expected %s", m.To.Folder.Path(), ErrDiffers, content.State, m.Done.State)
	}
	return from.Forget(ctx, place.Node)
}
