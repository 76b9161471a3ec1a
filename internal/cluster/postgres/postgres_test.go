package postgres_test

import (
	"context"
	"database/sql"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/ostiary/ostiary/internal/cluster/postgres"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog/sharedlogtest"
	"github.com/ostiary/ostiary/internal/workshop/databases"
)

func TestLog(t *testing.T) {
	t.Parallel()
	server := databases.PostgreSQL(t)
	raw := func(url string) (*sql.DB, error) { return sql.Open("pgx", url) }
	t.Run("suite", func(t *testing.T) {
		sharedlogtest.SQL(postgres.Open).Run(t, server.Database, raw, [3]string{"$1", "$2", "$3"})
	})
	t.Run("driver", func(t *testing.T) {
		sharedlogtest.RunDriver(t, func(t *testing.T) func() (sharedlog.Log, error) {
			url := server.Database()
			return func() (sharedlog.Log, error) { return postgres.Open(context.Background(), url) }
		})
	})
}
