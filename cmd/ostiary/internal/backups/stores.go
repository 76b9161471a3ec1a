package backups

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/internal/backup"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/pebble"
)

// Open proves the backup FROM, which can be "-" as for the command restore, and calls f with it
// and the program on a folder that has its content. The folder is removed afterwards.
func Open(ctx context.Context, run *cli.App, from string, f func(*backup.Backup, *cli.App) error) (err error) {
	a := &app{run}
	parent, remove, err := cli.Temporary("ostiary-backup-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	line := a.Progress()
	defer line.End()
	b, err := a.source(ctx, from, filepath.Join(parent, "tar"))
	if err != nil {
		return err
	}
	if err := b.Check(show(line, "reading")); err != nil {
		return err
	}
	return a.withView(ctx, b, func(view *cli.App) error {
		if _, _, err := prove(ctx, view, b.Content, line); err != nil {
			return fmt.Errorf("%s: %w", from, err)
		}
		line.End()
		return f(b, view)
	})
}

// replayBytes is about how much of the log one append of a replay has.
const replayBytes = 4 << 20

// AtRevision calls f with the program on a folder that has one store of that of view, as it was
// at a revision: the log up to it is applied again, so that no state of that time is needed. It
// fails with [storage.ErrNoEntry] for a revision that the store does not have, and with
// [storage.ErrTrimmed] if the log no longer begins with the first entry. Secrets have no content.
func AtRevision(ctx context.Context, view *cli.App, id storage.StoreID, revision storage.Revision, f func(*cli.App) error) (err error) {
	parent, remove, err := cli.Temporary("ostiary-backup-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	at, err := view.Of(filepath.Join(parent, dataName))
	if err != nil {
		return err
	}
	line := view.Progress()
	defer line.End()
	err = withDriver(ctx, view, func(from *pebble.Driver) error {
		to, err := pebble.Open(at.Data, pebble.Options{NoSync: true})
		if err != nil {
			return err
		}
		err = replay(ctx, from.Driver, to.Driver, id, revision, func(r storage.Revision) { line.Show("reading the log", int(r), int(revision)) })
		return errors.Join(err, to.Close())
	})
	if err != nil {
		return err
	}
	line.End()
	return f(at)
}

// replay copies a store with the first entries of its log.
func replay(ctx context.Context, from, to storage.Driver, id storage.StoreID, revision storage.Revision, show func(storage.Revision)) error {
	info, err := from.Store(ctx, id)
	if err != nil {
		return err
	}
	now, err := from.Head(ctx, id)
	if err != nil {
		return err
	}
	if revision > now.Revision {
		return fmt.Errorf("%w: revision %d of store %s, expected at most its newest one in the backup, %d", storage.ErrNoEntry, revision, info.Name, now.Revision)
	}
	if err := to.CreateStore(ctx, info); err != nil {
		return err
	}
	var head storage.Head
	var entries []storage.Entry
	var text []byte // of an entry, for its size
	size := 0
	add := func() (err error) {
		head, err = to.Append(ctx, id, head, entries, nil)
		show(head.Revision)
		entries, size = entries[:0], 0
		return err
	}
	for e, err := range from.Entries(ctx, id, 1) {
		if err != nil {
			return err
		}
		if e.Revision > revision {
			break
		}
		entries = append(entries, e)
		text = storage.AppendEntry(text[:0], &e)
		if size += len(text); size > replayBytes {
			if err := add(); err != nil {
				return err
			}
		}
	}
	return add()
}
