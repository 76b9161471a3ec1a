package sqllog

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/ostiary/ostiary/storage"
)

//go:embed migrations
var migrations embed.FS

// Migrate makes the tables of a log, or brings them to what this version needs. Several
// nodes may call it at the same time: one of them does the work. It fails with
// storage.ErrFormat if a newer version has changed the tables.
func Migrate(ctx context.Context, db *sql.DB, dialect goose.Dialect) error {
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
