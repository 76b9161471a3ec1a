package backups

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/internal/backup"
	"github.com/ostiary/ostiary/internal/callers"
	"github.com/ostiary/ostiary/internal/cluster/replica"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
	"github.com/ostiary/ostiary/storage/pebble"
)

// CheckpointCommand is the command of the socket of a data folder with which the server writes
// a copy of its data into the data folder, see [cli.Control]. Its body is [CheckpointOptions],
// and its answer [Checkpointed].
const CheckpointCommand = "checkpoint"

// CheckpointOptions are the body of CheckpointCommand.
type CheckpointOptions struct {
	// Folder is the name of a folder in the data folder, as [Checkpoint] checks it.
	Folder string
	// For is what the copy is for; it is recorded in the audit log.
	For string
}

// Checkpointed is the answer to CheckpointCommand.
type Checkpointed struct {
	// Copy is true if the data is the copy of a node.
	Copy bool `json:"copy"`
	// Closed is true if the server requires authentication.
	Closed bool `json:"closed"`
	// SecretKey is the fingerprint of the key of the secrets; "" without one.
	SecretKey string `json:"secretKey"`
}

const (
	// checkpointPrefix is what the names of the folders of checkpoints begin with.
	checkpointPrefix = "backup-"
	// dataName is the copy of the data folder in such a folder, and viewName a second one to
	// look at.
	dataName, viewName = "data", "view"
)

var checkpointName = regexp.MustCompile(`^` + checkpointPrefix + `[0-9]+$`)

// Checkpoint writes a copy of the data of a driver, whose folder is data, into the folder of the
// command that has made it there. It writes nowhere else.
func Checkpoint(ctx context.Context, driver *pebble.Driver, data, folder string) error {
	if !checkpointName.MatchString(folder) {
		return fmt.Errorf("%w: invalid folder %q: expected the name %sNUMBER", cli.ErrUsage, folder, checkpointPrefix)
	}
	at := filepath.Join(data, folder)
	if info, err := os.Lstat(at); err != nil || !info.IsDir() {
		return fmt.Errorf("%w: %s is no folder in the data folder, expected that of a backup", cli.ErrUsage, at)
	}
	return driver.Backup(ctx, filepath.Join(at, dataName))
}

// Fingerprint is that of a key of secrets, as a backup has it.
func Fingerprint(key *[32]byte) string {
	if key == nil {
		return ""
	}
	return replica.Fingerprint(key).String()
}

// checkpoint is a copy of a data folder as it was at one moment.
type checkpoint struct {
	Checkpointed
	at      time.Time
	dir     string // the copy, which is not changed
	content backup.Content
	// view is the program on a second copy, which is a folder of its own also if the data
	// is that of a node.
	view *cli.App
}

// withCheckpoint calls f with a checkpoint of the data folder, which a server may have open. Of a
// node it waits until the copy has all ciphertexts. It removes the checkpoint afterwards, and those
// that earlier commands have left because they were killed.
func (a *app) withCheckpoint(ctx context.Context, purpose string, wait time.Duration, f func(*checkpoint) error) (err error) {
	if a.Data == cli.InMemory {
		return fmt.Errorf("%w: --data is %q, expected a data folder", cli.ErrUsage, a.Data)
	}
	if err := a.CleanData(); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(a.Data, "OSTIARY")); err != nil { // the folder of something else, or none
		d, err := a.OpenFolder(ctx)
		if err != nil {
			return err
		}
		return d.Close()
	}
	parent, remove, err := cli.TemporaryIn(a.Data, checkpointPrefix)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	if err := os.Chmod(parent, 0o711); err != nil { // the server of another user finds its folder in it
		return err
	}
	c := &checkpoint{dir: filepath.Join(parent, dataName)}
	for end := time.Now().Add(wait); ; {
		running, err := a.take(ctx, c, filepath.Base(parent), purpose)
		if err != nil {
			return err
		}
		c.view, err = a.viewOf(ctx, filepath.Join(parent, viewName), c.Copy, func(dir string) error { return backup.ViewOf(c.dir, dir) })
		if err == nil {
			break
		}
		if !running || !errors.Is(err, storage.ErrSecretReplaced) || time.Now().After(end) {
			return err
		}
		if err := errors.Join(os.RemoveAll(c.dir), os.RemoveAll(filepath.Join(parent, viewName))); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
	err = withDriver(ctx, c.view, func(d *pebble.Driver) (err error) {
		c.content, err = backup.ContentOf(ctx, d.Driver)
		return err
	})
	if err != nil {
		return err
	}
	if err := c.findKeys(ctx); err != nil {
		return err
	}
	return f(c)
}

// take makes the checkpoint: the server does that has the folder open, or else this program.
func (a *app) take(ctx context.Context, c *checkpoint, folder, purpose string) (running bool, err error) {
	if err := errors.Join(os.Mkdir(c.dir, 0o700), cli.GiveTo(a.Data, c.dir)); err != nil {
		return false, err
	}
	c.at = time.Now().UTC()
	err = cli.Control(ctx, a.Data, CheckpointCommand, CheckpointOptions{folder, purpose}, &c.Checkpointed)
	if !errors.Is(err, cli.ErrNoControl) {
		return true, err
	}
	key, err := a.ReadSecretKey()
	if err != nil {
		return false, err
	}
	c.SecretKey = Fingerprint(key)
	d, err := a.OpenFolder(ctx)
	if errors.Is(err, kv.ErrCopy) {
		c.Copy = true
		d, err = a.OpenCopy(ctx)
	}
	if err != nil {
		return false, err
	}
	return false, errors.Join(Checkpoint(ctx, d, a.Data, folder), d.Close())
}

// viewOf makes a data folder with make, and returns the program on it. The copy of a node becomes
// a folder of its own, which fails with [storage.ErrSecretReplaced] if it lacks a ciphertext.
func (a *app) viewOf(ctx context.Context, dir string, isCopy bool, make func(dir string) error) (*cli.App, error) {
	if err := make(dir); err != nil {
		return nil, err
	}
	at, err := a.Of(dir)
	if err != nil || !isCopy {
		return at, err
	}
	d, err := at.OpenCopy(ctx)
	if err != nil {
		return nil, err
	}
	c, err := d.Copy()
	if err == nil {
		err = c.Release(ctx)
	}
	return at, errors.Join(err, d.Close())
}

// withDriver opens the data folder of a for f.
func withDriver(ctx context.Context, a *cli.App, f func(*pebble.Driver) error) error {
	d, err := a.OpenFolder(ctx)
	if err != nil {
		return err
	}
	return errors.Join(f(d), d.Close())
}

// findKeys sets Closed if the data has keys of callers, or came from a server that requires
// authentication.
func (c *checkpoint) findKeys(ctx context.Context) error {
	return c.view.WithEngine(ctx, false, func(e *ostiary.Engine) error {
		registry := callers.New(e, callers.Options{})
		n, err := registry.Len(ctx)
		if err != nil {
			return err
		}
		why, err := registry.Expected(ctx)
		c.Closed = c.Closed || n > 0 || why != callers.Expected{}
		return err
	})
}
