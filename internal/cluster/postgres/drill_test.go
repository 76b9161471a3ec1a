package postgres_test

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/ostiary/ostiary/internal/cluster/postgres"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog/sharedlogtest"
	"github.com/ostiary/ostiary/internal/workshop/databases"
)

// TestDrill restores a backup of pg_dump.
func TestDrill(t *testing.T) {
	t.Parallel()
	server := databases.PostgreSQL(t)
	open := func(ctx context.Context, url string) (sharedlog.Log, error) { return postgres.Open(ctx, url) }
	run := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
	}
	sharedlogtest.Drill(t, server.Database(), open, func(url string) func() string {
		file := filepath.Join(t.TempDir(), "backup")
		run("pg_dump", "-Fc", "-d", url, "-f", file)
		return func() string {
			restored := server.Database()
			run("pg_restore", "-d", restored, file)
			return restored
		}
	})
}
