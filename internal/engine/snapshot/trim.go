package snapshot

import (
	"context"
	"errors"
	"fmt"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// TrimWindows drops the log entries and past rows that Window and LogWindow no
// longer keep. It returns the oldest revisions that are left, as
// storage.Driver.Oldest does.
func (t *Timeline) TrimWindows(ctx context.Context) (log, rows storage.Revision, err error) {
	driver, now := t.Runtime.Driver, t.Runtime.Now()
	if log, rows, err = driver.Oldest(ctx, t.ID); err != nil {
		return log, rows, err
	}
	wantLog, wantRows := log, rows
	if w := t.Runtime.Window; w > 0 {
		if wantRows, err = t.windowStart(ctx, now-rel.Time(w)); err != nil {
			return log, rows, err
		}
	}
	if w := t.Runtime.LogWindow; w > 0 {
		if wantLog, err = t.windowStart(ctx, now-rel.Time(w)); err != nil {
			return log, rows, err
		}
		// A past view is built from the log, so the log must reach as far as the rows.
		wantLog = min(wantLog, max(wantRows, rows))
	}
	if wantLog <= log && wantRows <= rows {
		return log, rows, nil
	}
	if err := t.trim(ctx, max(log, wantLog), max(rows, wantRows)); err != nil {
		return log, rows, err
	}
	return driver.Oldest(ctx, t.ID)
}

// windowStart returns the oldest revision to keep: the one that was the newest
// at a time. It is 0 if the log begins later.
func (t *Timeline) windowStart(ctx context.Context, when rel.Time) (storage.Revision, error) {
	r, err := t.RevisionAt(ctx, when)
	if errors.Is(err, authz.ErrTooOld) {
		return 0, nil
	}
	return r, err
}

// Trim drops the past before the revision rows and the log entries before the
// revision log, which is cut to rows: past views are built from the log. It
// fails with ErrFuture if the store has not reached rows.
func (t *Timeline) Trim(ctx context.Context, log, rows storage.Revision) error {
	v, err := t.Current(ctx)
	if err != nil {
		return err
	}
	if rows > v.Head.Revision {
		return fmt.Errorf("%w: cannot trim before revision %d, which is later than the newest one", authz.ErrFuture, rows)
	}
	return t.trim(ctx, min(log, rows), rows)
}

// trim calls the driver, unless another store has got the id of the timeline.
func (t *Timeline) trim(ctx context.Context, log, rows storage.Revision) error {
	if err := t.checkIncarnation(ctx); err != nil {
		return err
	}
	if err := t.Runtime.Room(0, true); err != nil {
		return err
	}
	return t.Runtime.Driver.Trim(ctx, t.ID, log, rows)
}
