package main

import (
	"fmt"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/ostiary/ostiary/workshop/databases"
)

// TestDatabaseScripts runs testdata/databases/*.txtar with the URLs of empty databases.
func TestDatabaseScripts(t *testing.T) {
	t.Parallel()
	postgres, mariadb := databases.PostgreSQL(t), databases.MariaDB(t)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/databases",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"served": served, "terminate": terminate, "code": code, "pick": pick},
		Setup: func(e *testscript.Env) error {
			for i := range 3 {
				e.Setenv(fmt.Sprint("POSTGRES", i+1), postgres.Database())
				e.Setenv(fmt.Sprint("MARIADB", i+1), mariadb.Database())
			}
			return os.Chmod(e.WorkDir+"/other.key", 0o600)
		},
	})
}
