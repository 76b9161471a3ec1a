package sqllog

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"

	"github.com/pressly/goose/v3"

	"github.com/ostiary/ostiary/storage"
)

//go:embed migrations
var migrations embed.FS

// attempts is how often a migration is tried where no lock keeps other nodes out: their
// statements make the own ones fail.
const attempts = 10

// Migrate makes the tables of a log, or brings them to what this version needs. Several
// nodes may call it at the same time, and one that was cut off can be repeated: on
// PostgreSQL a migration is a transaction under a lock, which a node that is slow loses, so
// that its migration can meet that of another node; elsewhere each of its statements
// makes only what is missing. So Migrate tries again after a migration that failed. It fails
// with storage.ErrFormat if a newer version has changed the tables.
func Migrate(ctx context.Context, db *sql.DB, dialect goose.Dialect) error {
	err := migrate(ctx, db, dialect)
	for range attempts {
		if err == nil || errors.Is(err, storage.ErrFormat) || ctx.Err() != nil {
			break
		}
		if _, partly := errors.AsType[*goose.PartialError](err); !partly && (dialect == goose.DialectPostgres || begun(ctx, db) != nil) {
			break
		}
		pause(ctx, rand.N(repeatMax)+repeatMax/2)
		err = migrate(ctx, db, dialect)
	}
	return err
}

// begun completes the table of versions, if it exists: another node has made it, and has
// not yet written the first row, or was cut off before.
func begun(ctx context.Context, db *sql.DB) error {
	_, err := db.ExecContext(ctx, "insert into ostiary_migrations (version_id, is_applied) select 0, true from dual where not exists (select 1 from ostiary_migrations)")
	return err
}

// migrate is one attempt of Migrate.
func migrate(ctx context.Context, db *sql.DB, dialect goose.Dialect) error {
	files, err := fs.Sub(migrations, "migrations/"+string(dialect))
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(dialect, db, files, goose.WithTableName("ostiary_migrations"), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	up := func() error {
		if _, err := provider.Up(ctx); err != nil {
			return fmt.Errorf("migrate the tables: %w", err)
		}
		return nil
	}
	have, want, err := provider.GetVersions(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("read the version of the tables: %w", err)
	case have > want:
		return fmt.Errorf("%w: the tables have version %d, but this version knows up to %d", storage.ErrFormat, have, want)
	case have == want:
		return nil
	case dialect == goose.DialectPostgres:
		return alone(ctx, db, up)
	}
	return up()
}

// migrationLock is the number of the lock of a migration.
const migrationLock = 4097083626

// alone calls f while no other node does, on PostgreSQL. The lock is that of a transaction: a
// pooler may give the next statement of a session another connection, on which the lock of the
// session could not be released. A node that does not get it ends its transaction before it
// tries again, so that those that wait do not use up the connections of a pooler.
func alone(ctx context.Context, db *sql.DB, f func() error) error {
	for {
		locked, err := tryAlone(ctx, db, f)
		if locked || err != nil {
			return err
		}
		pause(ctx, rand.N(repeatMax)+repeatMax/2)
	}
}

func tryAlone(ctx context.Context, db *sql.DB, f func() error) (locked bool, err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer tx.Rollback() // it changes nothing
	if err := tx.QueryRowContext(ctx, "select pg_try_advisory_xact_lock($1)", migrationLock).Scan(&locked); err != nil || !locked {
		return false, err
	}
	return true, f()
}
