package mysql_test

import (
	"database/sql"
	"net/url"
	"testing"

	_ "github.com/go-sql-driver/mysql"

	"github.com/ostiary/ostiary/storage/mysql"
	"github.com/ostiary/ostiary/storage/sqllog/sqllogtest"
	"github.com/ostiary/ostiary/workshop/databases"
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
		sqllogtest.Run(t, server.Database, mysql.Open, raw, [3]string{"?", "?", "?"})
	})
}
