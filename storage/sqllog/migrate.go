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
	"github.com/pressly/goose/v3/lock"

	"github.com/ostiary/ostiary/storage"
)

//go:embed migrations
var migrations embed.FS

// attempts is how often a migration is tried where no lock keeps other nodes out: their
// statements make the own ones fail.
const attempts = 10

// Migrate makes the tables of a log, or brings them to what this version needs. Several
// nodes may call it at the same time, and one that was cut off can be repeated: on
// PostgreSQL a migration is a transaction under a lock; elsewhere each of its statements
// makes only what is missing, so Migrate tries again after an error. It fails with
// storage.ErrFormat if a newer version has changed the tables.
func Migrate(ctx context.Context, db *sql.DB, dialect goose.Dialect) error {
	err := migrate(ctx, db, dialect)
	for range attempts {
		if err == nil || dialect == goose.DialectPostgres || errors.Is(err, storage.ErrFormat) || ctx.Err() != nil {
			break
		}
		if _, partly := errors.AsType[*goose.PartialError](err); !partly && begun(ctx, db) != nil {
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
	options := []goose.ProviderOption{goose.WithTableName("ostiary_migrations"), goose.WithDisableGlobalRegistry(true)}
	if dialect == goose.DialectPostgres {
		locker, err := lock.NewPostgresSessionLocker()
		if err != nil {
			return err
		}
		options = append(options, goose.WithSessionLocker(locker))
	}
	provider, err := goose.NewProvider(dialect, db, files, options...)
	if err != nil {
		return err
	}
	have, want, err := provider.GetVersions(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("read the version of the tables: %w", err)
	case have > want:
		return fmt.Errorf("%w: the tables have version %d, but this version knows up to %d", storage.ErrFormat, have, want)
	case have == want:
		return nil
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrate the tables: %w", err)
	}
	return nil
}
