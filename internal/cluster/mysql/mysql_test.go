package mysql_test

import (
	"context"
	"database/sql"
	"net/url"
	"testing"

	_ "github.com/go-sql-driver/mysql"

	"github.com/ostiary/ostiary/internal/cluster/mysql"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog/sharedlogtest"
	"github.com/ostiary/ostiary/internal/workshop/databases"
)

func TestLog(t *testing.T) {
	t.Parallel()
	server := databases.MariaDB(t)
	raw := func(address string) (*sql.DB, error) {
		u, err := url.Parse(address)
		if err != nil {
			return nil, err
		}
		return sql.Open("mysql", "root@tcp("+u.Host+")"+u.Path)
	}
	t.Run("suite", func(t *testing.T) {
		sharedlogtest.SQL(mysql.Open).Run(t, server.Database, raw, [3]string{"?", "?", "?"})
	})
	t.Run("driver", func(t *testing.T) {
		sharedlogtest.RunDriver(t, func(t *testing.T) func() (sharedlog.Log, error) {
			url := server.Database()
			return func() (sharedlog.Log, error) { return mysql.Open(context.Background(), url) }
		})
	})
}

// TestCuts cuts the connections after each part of what appends send.
func TestCuts(t *testing.T) {
	t.Parallel()
	sharedlogtest.SQL(mysql.Open).Cuts(t, databases.MariaDB(t).Database(), false)
}
