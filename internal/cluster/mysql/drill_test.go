package mysql_test

import (
	"bytes"
	"context"
	"net/url"
	"os/exec"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/internal/cluster/mysql"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog/sharedlogtest"
	"github.com/ostiary/ostiary/internal/workshop/databases"
)

// TestDrill restores a backup of mariadb-dump.
func TestDrill(t *testing.T) {
	t.Parallel()
	server := databases.MariaDB(t)
	open := func(ctx context.Context, url string) (sharedlog.Log, error) { return mysql.Open(ctx, url) }
	run := func(in []byte, name, address string, args ...string) []byte {
		t.Helper()
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		args = append([]string{"--no-defaults", "-h127.0.0.1", "-P" + u.Port(), "-uroot"}, args...)
		cmd := exec.Command(name, append(args, strings.Trim(u.Path, "/"))...)
		var out, failure bytes.Buffer
		cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, &failure
		if err := cmd.Run(); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, failure.String())
		}
		return out.Bytes()
	}
	sharedlogtest.Drill(t, server.Database(), open, func(url string) func() string {
		backup := run(nil, "mariadb-dump", url, "--single-transaction", "--hex-blob")
		return func() string {
			restored := server.Database()
			run(backup, "mariadb", restored)
			return restored
		}
	})
}
